"""Norms of vectors that are not Euclid's: orders 0, 1, ∞ and −∞, rounded once, and p, a formula."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan
from numbers import Real
from typing import Any

import numpy as np

from multiword.rounding import widened
from multiword.runtime.arrays import Array, namespace, quietly, to_float64
from ozaki.elementary.api import apply
from ozaki.sums.arguments import Axis, DType, Out, axes_of, deliver, reduced_shape
from ozaki.sums.table import REDUCTIONS, SUM

SCALED = 1 / 8
"""Orders from which on powers may overflow; of smaller ones no power of a float64 number does."""

EXACT: dict[float, Callable[[Array, int], Array]] = {
    0.0: lambda a, axis: (a != 0).sum(axis=axis, keepdims=True),
    1.0: lambda a, _: a,
    inf: lambda a, axis: a.max(axis=axis, keepdims=True) if a.shape[axis] else a,
    -inf: lambda a, axis: a.min(axis=axis, keepdims=True),
}
"""By order, numbers whose sum is the norm, of magnitudes."""


def is_order(ord: Any, axes: int) -> bool:
    """Return whether this is the order of one of these norms."""
    return axes == 1 and isinstance(ord, Real) and not isinstance(ord, bool) and not isnan(ord) and ord != 2


def norm_of_order(x: Array, p: float, axis: Axis, dtype: DType, out: Out, keepdims: bool) -> Any:
    """Return the norms of order p along an axis, of numbers as `ozaki.norm` takes them."""
    (along,) = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, (along,), keepdims)
    target = REDUCTIONS["norm"].dtype((x,), dtype, out, shape)
    with quietly(x):
        numbers = EXACT[p](_magnitudes(x), along) if p in EXACT else _of_powers(x, float(p), along)
    result = SUM((numbers,), along, target, None, keepdims)
    return deliver(namespace(x).asarray(result), out)


def _magnitudes(x: Array) -> Array:
    """Return |x|, exactly; of complex numbers rounded once."""
    if x.dtype.kind == "c":
        return apply("abs", x)
    if x.dtype.kind in "bu":
        return x
    if x.dtype.kind == "i":
        return abs(x).view(f"u{x.dtype.itemsize}")  # the least integer has no positive one of its size
    return abs(to_float64(x) if x.dtype.itemsize == 2 else x)


def _of_powers(x: Array, p: float, axis: int) -> Array:
    """Return (Σ a**p)**(1/p)·2**e for a = |x|/2**e: 2**e is that of the largest term's |x|."""
    xp = namespace(x)
    a = _magnitudes(x.astype(np.complex128) if x.dtype.kind == "c" else widened(x, "x"))
    e = xp.zeros((), np.int32)
    if abs(p) >= SCALED and a.shape[axis]:
        largest = (a.max if p > 0 else a.min)(axis=axis, keepdims=True)
        e = xp.where(xp.isfinite(largest), xp.frexp(largest)[1], e)
    total = SUM((apply("pow", xp.ldexp(a, -e), p),), axis, np.float64, None, True)
    return xp.ldexp(apply("pow", xp.asarray(total), 1 / p), e)
