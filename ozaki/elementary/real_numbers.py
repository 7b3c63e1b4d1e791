"""abs and angle of real numbers, by their bits: nothing is computed, and there is one NaN."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, put_one_nan


def _magnitudes(x: Array) -> Array:
    """Return |x|; on a GPU with its subnormals."""
    if is_cupy(x):
        word = _words_of(x)
        result = (word & np.iinfo(word.dtype).max).view(x.dtype)
    else:
        result = np.empty_like(x, subok=False)
        np.abs(x, out=result)
    put_one_nan(result)
    return result


def _angles(x: Array) -> Array:
    """Return 0 for a positive sign, π for a negative one, that of −0, too, and NaN for NaN."""
    word, largest = _words_of(x), np.iinfo(f"i{x.itemsize}").max
    half_turn, infinite, nan = np.array([pi, np.inf, np.nan]).astype(x.dtype).view(word.dtype)
    angles = namespace(x).empty_like(word)
    namespace(x).right_shift(word, 8 * x.itemsize - 1, out=angles)  # all bits of negative ones, or none
    angles &= half_turn
    namespace(x).copyto(angles, nan, where=(word & largest) > infinite)
    return angles.view(x.dtype)


def _words_of(x: Array) -> Array:
    return x.view(f"i{x.itemsize}")


OF_REAL: dict[str, Callable[[Array], Array]] = {"abs": _magnitudes, "angle": _angles}
"""By name, the values of real numbers in floating point, in their dtype."""
