"""All compiled loops of exact sums, each for arrays of float64 and of float32.

A loop is compiled when an array of its kind first comes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
from numba import boolean, float64, from_dtype, int64, none, typeof, uint8, uint64
from numba.core.types import Array, Tuple

from multiword.runtime.jit import jit
from ozaki.sums.exact.bins_numba import binned, integer_products, unbinned
from ozaki.sums.exact.enclosure_numba import correlated, rounded_sums, rounded_variances
from ozaki.sums.exact.extraction_numba import (
    column_sums,
    enclosed_sum,
    leave_rest,
    products,
    row_sums,
    vector_sum,
    window,
)
from ozaki.sums.exact.groups_enclosed_numba import (
    added_to_groups,
    added_with_weights,
    averages_of_groups,
    covariances_of_groups,
    means_of_groups,
    products_in_groups,
    squares_in_groups,
    totals_of_groups,
    variances_of_groups,
)
from ozaki.sums.exact.groups_numba import (
    carried,
    flagged_groups,
    grouped,
    largest_number,
    levels_of_groups,
)
from ozaki.sums.exact.running_numba import running_sums
from ozaki.sums.exact.weighted_numba import weighted_means, weighted_variances
from ozaki.sums.exact.windows_cuda import Windows
from ozaki.sums.exact.windows_enclosed_numba import windows_enclosed
from ozaki.sums.exact.windows_numba import rolled

typeof(np.empty(0))  # imports what the first call would import, while forks wait

_Integers, _Values, _Bins, _Flags = int64[::1], float64[::1], uint64[:, ::1], uint8[::1]
_Words, _Table, _Tables = int64[:, ::1], float64[:, ::1], float64[:, :, ::1]
_Labels, _Numbers = (Array(kind, 1, "C", readonly=True) for kind in (int64, float64))
_Windows = typeof(Windows(1, 0, 1, False, False, False, 0, False))
_Weighted = tuple(Array(float64, ndim, "C", readonly=True) for ndim in (3, 2))


SIGNATURES: dict[Callable, Callable] = {
    window: lambda x, _: int64(x[1]),
    leave_rest: lambda x, _: none(x[1], int64, _Values),
    products: lambda x, _: boolean(x[1], x[1], _Values, _Values),
    vector_sum: lambda x, y: int64(x[1], y[1], int64, int64, _Integers),
    enclosed_sum: lambda x, y: int64(x[1], y[1], int64, int64, _Integers),
    row_sums: lambda x, _: Tuple((boolean, boolean))(x[2], int64, _Integers, _Integers),
    column_sums: lambda x, _: Tuple((boolean, boolean))(x[2], int64, _Integers, _Integers),
    running_sums: lambda x, _: boolean(x[3], boolean, _Values, float64[:, ::1]),
    rolled: lambda x, _: none(
        Array(float64, 2, "C", readonly=True),
        *(int64, int64, int64, int64),
        *(boolean, boolean, boolean, int64, boolean),
        *(_Integers, _Integers, _Integers, _Integers, float64[:, ::1], boolean[:, ::1]),
    ),
    windows_enclosed: lambda x, _: none(
        Array(float64, 2, "C", readonly=True),
        *(int64, int64, int64, _Windows),
        *(_Words, _Integers, float64[:, ::1], float64[:, ::1], boolean[:, ::1]),
    ),
    binned: lambda x, _: none(x[1], _Bins),
    unbinned: lambda x, _: none(_Bins, _Integers),
    integer_products: lambda x, _: boolean(x[1], x[1], _Integers),
    rounded_sums: lambda x, y: int64(
        x[2], y[2], int64, float64, boolean, boolean, float64[:, ::1], x[2].copy(readonly=False)
    ),
    correlated: lambda x, _: int64(x[1], x[1], boolean, float64[:, ::1], x[1].copy(readonly=False)),
    rounded_variances: lambda x, _: int64(
        x[2], int64, float64, boolean, boolean, _Table, x[2].copy(readonly=False)
    ),
    weighted_means: lambda x, _: int64(*_Weighted, float64, boolean, _Table, _Table),
    weighted_variances: lambda x, _: int64(*_Weighted, boolean, float64, boolean, boolean, _Table, _Values),
    largest_number: lambda x, _: int64(x[1]),
    grouped: lambda x, _: none(
        x[1], _Labels, int64, int64, _Words, _Integers, _Flags, _Values, _Integers, _Integers
    ),
    carried: lambda x, _: int64(_Words, _Integers),
    levels_of_groups: lambda x, _: none(_Words, _Integers, _Flags, _Words, _Integers),
    added_to_groups: lambda _, y: boolean(
        *(_Numbers, none if y[1] == none else _Numbers, _Labels, int64, int64, boolean, _Table)
    ),
    totals_of_groups: lambda x, _: int64(_Tables, boolean, int64, boolean, _Integers, _Values),
    added_with_weights: lambda x, _: boolean(_Numbers, _Numbers, _Labels, int64, int64, _Table),
    averages_of_groups: lambda x, _: int64(_Tables, int64, boolean, _Integers, _Values),
    means_of_groups: lambda x, _: none(_Tables, int64, _Table),
    squares_in_groups: lambda x, _: none(_Numbers, _Labels, int64, boolean, _Table),
    variances_of_groups: lambda x, _: int64(
        _Tables, _Table, int64, boolean, int64, boolean, _Integers, _Values
    ),
    products_in_groups: lambda x, _: none(_Numbers, _Numbers, _Labels, int64, _Table, _Table),
    covariances_of_groups: lambda x, _: int64(
        _Tables, _Tables, _Table, _Table, int64, int64, boolean, _Integers, _Values
    ),
    flagged_groups: lambda x, _: none(_Numbers, _Labels, _Flags),
}
"""The loops' signatures, for arrays x[n] of n dimensions of float64 or of float32, and y[n] or None."""


def _signature(function: Callable, dtype: np.dtype, pairs: bool) -> Any:
    x = [Array(from_dtype(dtype), ndim, "C", readonly=True) for ndim in range(4)]
    return SIGNATURES[function](x, x if pairs else [none] * len(x))


@cache
def loop(function: Callable, dtype: np.dtype, pairs: bool = False) -> Callable:
    """Return a loop for arrays of this dtype.

    pairs : whether y is such an array, too, in loops that take None for it.
    """
    return jit(_signature(function, dtype, pairs))(function)


ON_DEMAND = tuple(
    partial(loop, function, np.dtype(dtype), pairs)
    for function, dtype, pairs in product(SIGNATURES, (np.float64, np.float32), (False, True))
    if not pairs or _signature(function, dtype, True) != _signature(function, dtype, False)
)
"""All of them."""
