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
    real_parts,
    to_float64,
)
from multiword.runtime.compiled import compiled
from multiword.runtime.options import check_choice
from ozaki.public import public
from ozaki.rounding.conversion import joined
from ozaki.sums.api import dot
from ozaki.sums.arguments import numbers, real_dtype
from ozaki.sums.exact.extraction import LOOPS, READABLE
from ozaki.sums.exact.rows import WIDTH
from ozaki.sums.exact.summands import products
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
        has, "valid" for those that take the whole shorter vector.

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
    result = _padded(a, v, dtype, before, after)
    if result is None:
        result = namespace(a).full(n - m + 1 + before + after, np.nan, dtype)
    _complete(a, v, before, result)
    return result


def _padded(a: Array, v: Array, dtype: np.dtype, before: int, after: int) -> Array | None:
    """The elements as if zeros came before and after a, NaN where undecided; None where nothing is so quick.

    On a GPU they are sums of all windows at once, on a CPU those of loops that watch their errors.
    """
    if not is_cupy(a) and (dtype not in READABLE or a.dtype != dtype or v.dtype != dtype):
        return None
    padded = namespace(a).zeros(a.size + before + after, a.dtype)
    _words(padded)[before : before + a.size] = _words(a)
    if is_cupy(a):
        sums: Array = dot(_windows(padded, v.size), v, axis=-1)
        return sums
    if (loops := compiled(LOOPS)) is None:
        return None
    result = np.empty(padded.size - v.size + 1, dtype)
    add = loops.loop(loops.correlated, dtype)
    add(padded, np.ascontiguousarray(v), dtype.itemsize == 4, np.empty((3, WIDTH)), result)
    return result


def _words(x: Array) -> Array:
    """Halves as words: CuPy copies bfloat16 by way of float32, and loses subnormal numbers."""
    return x.view(np.uint16) if x.dtype.itemsize == 2 else x


def _windows(x: Array, size: int) -> Array:
    """The windows of a vector, as the rows of a view."""
    view: Array = namespace(x).lib.stride_tricks.sliding_window_view(x, size)
    return view


def _complete(a: Array, v: Array, before: int, result: Array) -> None:
    """Add up what is undecided; so are zeros at the ends, whose sign padding may have changed."""
    if result.dtype.kind == "f" and not is_cupy(result) and bool((abs(result) > 0).all()):
        return
    xp, n, m = namespace(a), a.size, v.size
    inside, undecided = slice(before, before + n - m + 1), result != result
    middle = xp.flatnonzero(undecided[inside])
    for x in real_parts(result):
        undecided |= x == 0
    undecided[inside] = False
    for chosen, added in (
        (middle + before, lambda part: dot(_windows(a, m)[part - before], v, axis=-1)),
        (xp.flatnonzero(undecided), lambda part: _at_ends(a, v, part - before, result.dtype)),
    ):
        step = max(1, _TERMS // m)
        for first in range(0, chosen.size, step):
            part = chosen[first : first + step]
            result[part] = added(part)


def _at_ends(a: Array, v: Array, starts: Array, dtype: np.dtype) -> Array:
    """Return Σ_j a_(k+j)·v_j for some k, with −0·1, which changes no sum, for products that there are not."""
    xp = namespace(a)
    index = starts[:, None] + xp.arange(v.size)
    there = (index >= 0) & (index < a.size)
    index, parts = index.clip(0, a.size - 1), []
    for terms in products(a, v):
        xs, ys = [], []
        for (x, y), sign in terms:
            x, y = (z if z.dtype.kind in "iub" else to_float64(z) for z in (x, y))
            integers = x.dtype.kind in "iub"  # which have no −0: then y is a float
            xs.append(xp.where(there, x[index], x.dtype.type(1) if integers else -0.0))
            ys.append(xp.where(there, y * sign, -0.0 if integers else y.dtype.type(1)))
        x, y = (xp.concatenate(factors, axis=1) for factors in (xs, ys))
        parts.append(dot(x, y, axis=-1, dtype=real_dtype(dtype)))
    return joined(parts, dtype)
