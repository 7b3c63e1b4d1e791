"""Which numbers products row by row in two floats are of: what products of others are left to other steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multiword.runtime.parallel import scratch
from ozaki.definition.decision import EVERYTHING, WIDENED_IN_ALL
from ozaki.execution.eager import LevelData, bits_of_level_factors
from ozaki.product.factor import Factor
from ozaki.product.request import Request

FURTHEST = 400
"""Exponents of rows, at most: nothing overflows, and nothing underflows that counts."""

SMALLEST = 2.0**-300
"""Scaled numbers that are not rounded to integers are at least this: products are exact then."""

LEAST, LEAST_SINGLE = 2.0**-1000, 2.0**-126
"""Results are at least these: no subnormal numbers of float64 or float32, which would be rounded twice."""


def bits_in_floats(
    a: Factor,
    b: Factor,
    request: Request,
    count: Callable[[], int],
    data: LevelData | None = None,
) -> tuple[int, bool] | None:
    """Return the bits by which norm scales grow, and whether scaled numbers are rounded to integers.

    Those that lose nothing are not rounded, and their scales do not grow. `count` asks the counting bound,
    which fails with -1; `data` as in `bits_of_level_factors`. None if the product is left to others.
    """
    if request.accuracy == "exact":
        return 0, False
    if not request.certified:
        return 0, True
    if (bits := count()) < 0:
        bits = bits_of_level_factors(a, b, request, EVERYTHING, data)
    if bits == EVERYTHING:
        return 0, False
    return (bits, True) if 0 <= bits <= WIDENED_IN_ALL else None


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
