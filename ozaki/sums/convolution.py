"""Convolutions and correlations of vectors, each element correctly rounded: sums of exact products."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    conjugated,
    is_cupy,
    namespace,
    on_device_of_arrays,
)
from multiword.runtime.compiled import compiled
from multiword.runtime.options import check_choice
from ozaki.public import public
from ozaki.sums.api import dot
from ozaki.sums.arguments import numbers
from ozaki.sums.exact.extraction import LOOPS, READABLE
from ozaki.sums.exact.rows import WIDTH
from ozaki.sums.table import product_dtype

_TERMS = 1 << 20  # of windows that are added up together


@public("Sums")
@on_device_of_arrays
def convolve(a: Array, v: Array, mode: str = "full") -> Array:
    """Return the convolution of two vectors, each element correctly rounded: `numpy.convolve`.

    Parameters
    ----------
    a, v : vectors, NumPy or CuPy; dtypes as in `ozaki.sum`. Integers are added as NumPy adds them.
    mode : "full" for all len(a) + len(v) − 1 elements, "same" for as many of the middle as the longer vector
        has, "valid" for those in which no end shows.

    Returns
    -------
    The exact Σ_j a_j·v_(k−j), each rounded once to the dtype of the products: no product overflows or
    underflows, Inf and NaN as in `ozaki.dot`. As many products are added as by NumPy.

    Raises
    ------
    TypeError : not numeric, or NumPy and CuPy mixed. ValueError : no vectors, or an empty one; another mode.

    References
    ----------
    As `ozaki.dot`: Ogita, Rump and Oishi.

    >>> convolve(np.array([1e200, 1.0, -1e200]), np.array([1.0, 1.0, 1.0]))
    array([ 1.e+200,  1.e+200,  1.e+000, -1.e+200, -1.e+200])
    """
    a, v = _vectors(a, v)
    a, v = (v, a) if v.size > a.size else (a, v)
    return _correlated(a, v[::-1], mode)


@public("Sums")
@on_device_of_arrays
def correlate(a: Array, v: Array, mode: str = "valid") -> Array:
    """Return the correlation of two vectors, each element correctly rounded: `numpy.correlate`.

    As `ozaki.convolve`; differs in the order of v, which is conjugated: Σ_j a_(k+j)·conj(v_j).

    >>> correlate(np.array([1e200, 1.0, -1e200]), np.array([1.0, 2.0, 1.0]))
    array([2.])
    """
    a, v = _vectors(a, v)
    v = conjugated(v) if v.dtype.kind == "c" else v
    return _correlated(v, a, mode)[::-1] if v.size > a.size else _correlated(a, v, mode)


def _vectors(a: Any, v: Any) -> tuple[Array, Array]:
    a, v = numbers(as_array(a, "a"), "a"), numbers(as_array(v, "v"), "v")
    check_same_device(a=a, v=v)
    for name, x in (("a", a), ("v", v)):
        if x.ndim != 1 or not x.size:
            raise ValueError(f"{name} must be a vector that is not empty, got shape {x.shape}")
    return a, v


def _correlated(a: Array, v: Array, mode: str) -> Array:
    """Return Σ_j a_(k+j)·v_j for every k in the mode, of vectors of which v is not the longer."""
    check_choice("mode", mode, ("full", "same", "valid"))
    dtype, n, m = product_dtype(a, v), a.size, v.size
    before = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    after = {"full": m - 1, "same": m - 1 - m // 2, "valid": 0}[mode]
    if dtype.kind in "iub":
        whole = namespace(a).convolve(a, v[::-1])
        return whole[m - 1 - before : n + after]
    result = _enclosed(a, v, dtype, before, after)
    if result is None:
        result = namespace(a).full(n - m + 1 + before + after, np.nan, dtype)
    _complete(a, v, before, result)
    return result


def _enclosed(a: Array, v: Array, dtype: np.dtype, before: int, after: int) -> Array | None:
    """The elements from loops that watch their errors, NaN where undecided; None where there are none."""
    if is_cupy(a) or dtype not in READABLE or a.dtype != dtype or v.dtype != dtype:
        return None
    if (loops := compiled(LOOPS)) is None:
        return None
    padded = np.zeros(a.size + before + after, dtype)
    padded[before : before + a.size] = a
    result = np.empty(padded.size - v.size + 1, dtype)
    add = loops.loop(loops.correlated, dtype)
    add(padded, np.ascontiguousarray(v), dtype.itemsize == 4, np.empty((3, WIDTH)), result)
    return result


def _complete(a: Array, v: Array, before: int, result: Array) -> None:
    """Add up what is undecided; so are zeros at the ends, whose sign padding may have changed."""
    xp, n, m = namespace(a), a.size, v.size
    inside = slice(before, before + n - m + 1)
    windows, middle = xp.lib.stride_tricks.sliding_window_view(a, m), result[inside]
    chosen = xp.flatnonzero(middle != middle)
    step = max(1, _TERMS // m)
    for first in range(0, chosen.size, step):
        part = chosen[first : first + step]
        middle[part] = dot(windows[part], v, axis=-1)
    ends = [*range(before), *range(before + n - m + 1, result.size)]
    for k in ends:
        if result[k] != result[k] or result[k] == 0:
            start = k - before  # of a window that begins before a, or ends after it
            first, last = max(start, 0), min(start + m, n)
            result[k] = dot(a[first:last], v[first - start : last - start])
