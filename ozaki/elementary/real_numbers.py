"""abs and angle of real numbers, by their bits: nothing is computed, and there is one NaN."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import pi
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, put_one_nan


def _magnitudes(x: Array) -> Array:
    """Return |x|; on a GPU with its subnormals."""
    if is_cupy(x):
        word = _words_of(x)
        result = (word & np.iinfo(word.dtype).max).view(x.dtype)
    else:
        result = np.asarray(np.abs(x))
        if not np.count_nonzero(np.isnan(result)):  # which takes less time than to replace none
            return result
    put_one_nan(result)
    return result


def _angles(x: Array) -> Array:
    """Return 0 for a positive sign, π for a negative one, that of −0, too, and NaN for NaN."""
    half_turn, infinite, nan, largest, digits = _constants(x.dtype)
    xp, word, on_gpu = namespace(x), x.view(half_turn.dtype), is_cupy(x)
    angles = xp.empty_like(word)
    xp.right_shift(word, digits, out=angles)  # all bits of negative ones, or none
    angles &= half_turn
    wrong = (word & largest) > infinite if on_gpu else np.isnan(x)
    if on_gpu or np.count_nonzero(wrong):
        xp.copyto(angles, nan, where=wrong)
    return angles.view(x.dtype)


@cache
def _constants(dtype: np.dtype) -> tuple[Any, ...]:
    """Return as words π, infinity and NaN; all bits but the sign's, and how many these are."""
    words = np.array([pi, np.inf, np.nan]).astype(dtype).view(f"i{dtype.itemsize}")
    return tuple(np.append(words, [np.iinfo(words.dtype).max, 8 * dtype.itemsize - 1]).astype(words.dtype))


def _words_of(x: Array) -> Array:
    return x.view(f"i{x.itemsize}")


OF_REAL: dict[str, Callable[[Array], Array]] = {"abs": _magnitudes, "angle": _angles}
"""By name, the values of real numbers in floating point, in their dtype."""
