"""NumPy's functions that have the same bits on every machine: what a strict array allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy._core import umath  # numpy itself has all of its ufuncs but clip

from ozaki.arrays.functions import kinds_of


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UFUNCS = frozenset(x for x in vars(umath).values() if isinstance(x, np.ufunc))
"""NumPy's own."""

_ROUNDED_ONCE = _names("""
absolute add ceil clip conjugate copysign divide divmod equal fabs floor floor_divide fmax fmin fmod frexp
greater greater_equal heaviside isfinite isinf isnan ldexp less less_equal logical_and logical_not
logical_or logical_xor maximum minimum modf multiply negative nextafter not_equal positive reciprocal
remainder rint sign signbit spacing sqrt square subtract trunc
""")
"""Ufuncs whose results IEEE 754 defines for real numbers, in every bit."""

_NOT_OF_COMPLEX = _names("multiply divide sqrt square reciprocal absolute sign")
"""Those that are more than one operation for complex numbers."""

_ORDERLESS = _names("maximum minimum fmax fmin logical_and logical_or logical_xor")
"""Ufuncs that reduce an array to the same bits in every order."""


def is_exact(ufunc: Any, method: str, inputs: Sequence[Any], dtype: Any = None) -> bool:
    """Return whether a ufunc is NumPy's and has the same bits on every machine, of its inputs or in a dtype.

    Of objects and of numbers wider than float64, which are others elsewhere, only comparisons have.
    """
    if ufunc not in _UFUNCS:
        return False
    elementwise = method in ("__call__", "outer", "at")
    operands = inputs if method != "at" and elementwise else inputs[:1]
    kinds = kinds_of(operands if dtype is None else [np.empty(0, dtype)])
    if not (kinds | kinds_of(operands)).isdisjoint("gO"):
        return {loop[-1] for loop in ufunc.types} <= {"?", "O"}
    if kinds.isdisjoint("fc") and any(set(loop) <= set("?bBhHiIlLqQ->") for loop in ufunc.types):
        return True
    allowed = _ROUNDED_ONCE - _NOT_OF_COMPLEX if "c" in kinds else _ROUNDED_ONCE
    return ufunc.__name__ in (allowed if elementwise else _ORDERLESS)


def stays_exact(function: Any, arguments: Sequence[Any]) -> bool:
    """Return whether NumPy's function rounds nothing, or only in functions that are asked in their turn."""
    if function in (np.outer, np.cross):
        return "c" not in kinds_of(arguments[:2])
    return function.__name__ in _EXACT | _MADE_OF_OTHERS


_MADE_OF_OTHERS = _names("""
apply_along_axis apply_over_axes cross cumulative_prod cumulative_sum gradient kron linspace matmul
matrix_norm matrix_power multi_dot nancumprod nancumsum nanpercentile nanprod nanquantile outer percentile
piecewise quantile tensordot trace trapezoid vecdot vector_norm
""")
"""NumPy's functions in Python that leave all arithmetic to its ufuncs and functions, and keep the class."""

_EXACT = _names("""
all allclose amax amin any append arange argmax argmin argpartition argsort argwhere around array
array2string array_equal array_equiv array_repr array_split array_str as_strided asanyarray asarray
ascontiguousarray asfortranarray astype atleast_1d atleast_2d atleast_3d block broadcast_arrays broadcast_to
can_cast choose clip column_stack common_type compress concatenate copy copyto count_nonzero delete diag
diag_indices_from diagflat diagonal diff digitize dsplit dstack ediff1d einsum_path empty empty_like
expand_dims extract eye fill_diagonal fix flatnonzero flip fliplr flipud frombuffer fromfile fromfunction
fromiter fromstring full full_like genfromtxt hsplit hstack identity imag insert intersect1d isclose
iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj lexsort loadtxt matrix_transpose max
may_share_memory median meshgrid min min_scalar_type moveaxis nan_to_num nanargmax nanargmin nanmax nanmedian
nanmin ndim nonzero ones ones_like partition place ptp put put_along_axis putmask ravel real repeat require
reshape resize result_type roll rollaxis rot90 round save savetxt searchsorted select setdiff1d setxor1d shape
shares_memory size sliding_window_view sort split squeeze stack swapaxes take take_along_axis tile transpose
tri tril tril_indices_from trim_zeros triu triu_indices_from union1d unique unstack vsplit vstack where zeros
zeros_like
""")
"""NumPy's functions that move, choose and compare numbers, or round each once."""
