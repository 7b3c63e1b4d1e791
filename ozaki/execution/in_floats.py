"""What products in two floats have in common: which numbers they take, and which integers stand for these."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multiword.runtime.parallel import scratch
from ozaki.definition.decision import EVERYTHING, WIDENED_IN_ALL
from ozaki.execution.contract import EXTREME, beyond, no_compiled_code
from ozaki.product.pair import Pair, Signature
from ozaki.product.scale import LevelData, bits_of_level_factors
from ozaki.scaling.statistics import ZERO

FURTHEST = 400
"""Exponents of rows, at most: nothing overflows, and nothing underflows that counts."""

SMALLEST = 2.0**-300
"""Scaled numbers that are not rounded to integers are at least this: products are exact then."""

LEAST, LEAST_SINGLE = 2.0**-1000, 2.0**-126
"""Results are at least these: no subnormal numbers of float64 or float32, which would be rounded twice."""


def no_floats(signature: Signature) -> str | None:
    """Return why products in two floats are not taken, or None."""
    if (why := no_compiled_code(signature)) is not None:
        return why
    if signature.stack > 1:
        return "it takes no stacks"
    if signature.prepared:
        return "the words of prepared operands are used again"
    if signature.parts == 2:
        return "it takes real numbers"
    if not (signature.request.of_norms or signature.request.accuracy == "exact"):
        return "the bits of integers are given"
    return None


def bits_in_floats(pair: Pair, count: Callable[[], int], data: LevelData | None = None) -> int:
    """Return the bits by which norm scales grow; `EVERYTHING` where numbers are not rounded to integers.

    `count` asks the counting bound, which fails with -1; `data` as in `bits_of_level_factors`. -1 if there is
    an Inf or NaN, or the inner dimension may be graded.
    """
    if pair.request.accuracy == "exact":
        return EVERYTHING
    if not pair.request.certified:
        return 0
    bits = count()
    return bits if bits >= 0 else bits_of_level_factors(pair, data)


def declines_floats(pair: Pair) -> str | None:
    """Return why products in two floats decline, or None."""
    exponents = np.concatenate([x.statistics.exponent for x in (pair.a, pair.b)])
    if (np.abs(exponents[exponents != ZERO]) > FURTHEST).any():
        return EXTREME
    lossless = pair.bits == EVERYTHING or not pair.request.certified
    return None if lossless else beyond(pair, WIDENED_IN_ALL)


def takes_bits(bits: int) -> bool:
    """Return whether integers that are wider by so many bits, or numbers that are not rounded, are taken."""
    return 0 <= bits <= WIDENED_IN_ALL or bits == EVERYTHING


def as_doubles(x: np.ndarray) -> np.ndarray:
    """Return a block of rows as compiled code reads it, wherever it lies."""
    return np.require(x, np.float64, "A")


def written_to(out: np.ndarray, multiply: Callable[[np.ndarray], int]) -> int:
    """Return multiply(y), with what it writes to the float64 array y in `out`, which may be of float32."""
    if out.dtype == np.float64:
        return multiply(out)
    y = scratch(out.shape)
    undecided = multiply(y)
    out[...] = y
    return undecided


def scaled_columns(columns: np.ndarray, scale: np.ndarray, whole: bool, length: int) -> np.ndarray | None:
    """Return (n, k) columns in their scales, rounded to integers if `whole`, with zeros up to a length.

    None if some are too small not to be rounded.
    """
    scaled = np.zeros((len(columns), length))
    inner = scaled[:, : columns.shape[1]]
    np.ldexp(columns, scale[:, None], out=inner, dtype=np.float64)
    if whole:
        np.rint(inner, out=inner)
    elif (np.abs(inner[columns != 0]) < SMALLEST).any():
        return None
    return scaled
