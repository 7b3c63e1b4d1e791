"""Which numbers products row by row in two floats are of: what products of others are left to other steps."""

from __future__ import annotations

import numpy as np

FURTHEST = 400
"""Exponents of rows, at most: nothing overflows, and nothing underflows that counts."""

SMALLEST = 2.0**-300
"""Scaled numbers that are not rounded to integers are at least this: products are exact then."""

LEAST, LEAST_SINGLE = 2.0**-1000, 2.0**-126
"""Results are at least these: no subnormal numbers of float64 or float32, which would be rounded twice."""


def scaled_columns(columns: np.ndarray, scale: np.ndarray, whole: bool, length: int) -> np.ndarray | None:
    """Return (n, k) columns in their scales, rounded to integers if `whole`, with zeros up to a length.

    None if some are too small not to be rounded.
    """
    scaled = np.zeros((len(columns), length))
    inner = scaled[:, : columns.shape[1]]
    np.ldexp(columns, scale[:, None], out=inner)
    if whole:
        np.rint(inner, out=inner)
    elif (np.abs(inner[columns != 0]) < SMALLEST).any():
        return None
    return scaled
