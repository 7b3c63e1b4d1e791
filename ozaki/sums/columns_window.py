"""The CUDA form of `_window`: what one thread adds up, and where from.

A thread keeps the levels of `_window.window_terms` in registers: two of them, or three for the
products of float64, whose errors (by fma) start at the second. A batch of terms whose exponents
all lie well inside takes few operations: its last level is exact, so nothing is left over and
nothing need be checked. Any other batch takes the general way, in a loop that is not unrolled lest
it take registers from the short one; what falls outside of the window goes, digit by digit, to a
superaccumulator, as does the window when it has to move.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ozaki.sums.fixedpoint import MINUS_INFINITY, MINUS_ZERO, NAN, ORDINARY, PLUS_INFINITY
from ozaki.sums.superaccumulator import Layout
from ozaki.sums.window import LEVEL_BITS

THREADS = 256

FLAGS = {
    "PLUS_INFINITY": f"{PLUS_INFINITY}u",
    "MINUS_INFINITY": f"{MINUS_INFINITY}u",
    "NOT_A_NUMBER": f"{NAN}u",
    "ORDINARY": f"{ORDINARY}u",
    "MINUS_ZERO": f"{MINUS_ZERO}u",
}
"""The flags of sums, as the kernels call them."""

SOURCES = {"float64": 0, "float32": 1, "float16": 2, "bfloat16": 3}
"""How the kernels call the dtypes they read."""


@cache
def name_of(dtype: Any) -> str:
    """A dtype's name, which NumPy takes microseconds to spell."""
    return dtype.name


def batch(dtype: str, product: bool, square: bool) -> int:
    """Terms that a thread reads at a time: 64 bytes of float64 and of float32."""
    return (8 if dtype == "float64" else 16) // (2 if product and not square else 1)


@cache
def constants(dtype: str, product: bool, square: bool, layout: Layout, **form: int) -> dict[str, Any]:
    """The compile-time constants for arrays of this dtype, summed into digits of this layout."""
    return {
        "SOURCE": SOURCES[dtype],
        "PRODUCT": int(product),
        "SQUARE": int(square),
        "BATCH": batch(dtype, product, square),
        "DIGITS": layout.digits,
        "LOWEST": f"({layout.exponent})",
        "TWO_LEVELS_BITS": LEVEL_BITS,
        **FLAGS,
        **form,
    }
