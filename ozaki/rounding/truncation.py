"""Magnitudes truncated to seven bits: what kernels are told that write them.

    |x| is at least min(127, floor(|x|·2**s))·2**-s

with s, the *truncation scale* of its row. What is larger than 127 there is taken as 127, not as the large
number it is: that keeps sums exact in int32, and still from below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array
from multiword.runtime.parallel import empty_beside
from ozaki.definition.decision import LARGEST

FURTHEST = 2046
"""Beyond it, a shift makes any number but 0 LARGEST, and is no longer two powers of two."""

TRUNCATION_CONSTANTS: dict[str, Any] = {"LARGEST": LARGEST, "FURTHEST": FURTHEST}


def empty_magnitudes(
    like: Array, rows: int, columns: int, parts: int, side: int, dtype: Any = np.int8
) -> Array:
    """Return memory for the (1, 1, r, length) magnitudes of a factor, where an array is.

    Those of a part lie beside the other's; of a complex column those of the real part come twice.
    """
    return empty_beside(like, (1, 1, rows, columns * (parts if side == 0 else 2 * parts - 1)), dtype)
