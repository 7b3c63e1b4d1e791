"""Variances and standard deviations of Dask arrays."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
from numpy.typing import DTypeLike

from ozaki.dask.accumulators import ELEMENTS, SQUARES, reduce_exactly
from ozaki.dask.arguments import SplitEvery, checked, held_dtype
from ozaki.dask.rounding import rounded_deviation
from ozaki.sums.arguments import Axis, real_dtype, real_result_dtype
from ozaki.sums.variance import exact_ddof


def var(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy variance over axes of a Dask array, correctly rounded: `ozaki.var` of the whole.

    Parameters
    ----------
    x, axis, out, keepdims, split_every : as in `sum`.
    dtype, ddof : as in `ozaki.var`.

    Returns
    -------
    Dask array of what `ozaki.var` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `sum`; TypeError for a complex dtype, or a ddof that is no number.

    References
    ----------
    As `ozaki.var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> import numpy as np, dask.array as da
    >>> var(da.from_array(np.array([1e16, 1e16 + 2, 1e16 + 4]), chunks=1), ddof=1).compute()
    np.float64(4.0)
    """
    return _deviation("var", x, axis, dtype, out, ddof, keepdims, split_every)


def std(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy standard deviation over axes of a Dask array: `ozaki.std` of the whole.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims, split_every : as in `var`.

    Returns
    -------
    Dask array of what `ozaki.std` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `var`.

    References
    ----------
    As `ozaki.var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> import numpy as np, dask.array as da
    >>> std(da.from_array(np.array([-3e200, 3e200]), chunks=1)).compute()
    np.float64(3e+200)
    """
    return _deviation("std", x, axis, dtype, out, ddof, keepdims, split_every)


def nanvar(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy variance over axes of what is not NaN in a Dask array: `ozaki.nanvar` of the whole.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims, split_every : as in `var`.

    Returns
    -------
    Dask array of what `ozaki.nanvar` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `var`.

    References
    ----------
    As `ozaki.var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> import numpy as np, dask.array as da
    >>> nanvar(da.from_array(np.array([1e16, np.nan, 1e16 + 4]), chunks=1)).compute()
    np.float64(4.0)
    """
    return _deviation("nanvar", x, axis, dtype, out, ddof, keepdims, split_every)


def nanstd(
    x: Any,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    split_every: SplitEvery = None,
) -> da.Array:
    """Return the lazy standard deviation over axes of what is not NaN: `ozaki.nanstd` of the whole.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims, split_every : as in `var`.

    Returns
    -------
    Dask array of what `ozaki.nanstd` returns for the whole array.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `var`.

    References
    ----------
    As `ozaki.var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> import numpy as np, dask.array as da
    >>> nanstd(da.from_array(np.array([1.0, np.nan, 3.0]), chunks=2)).compute()
    np.float64(1.0)
    """
    return _deviation("nanstd", x, axis, dtype, out, ddof, keepdims, split_every)


def _deviation(
    name: str,
    x: Any,
    axis: Axis,
    dtype: DTypeLike | None,
    out: None,
    ddof: float,
    keepdims: bool,
    split_every: SplitEvery,
) -> da.Array:
    x, axes = checked(x, axis, out)
    root, skip_nan = name.endswith("std"), name.startswith("nan")
    what = "a standard deviation" if root else "a variance"
    target = real_result_dtype(x._meta, dtype, None, (), what)
    held = held_dtype(x)
    sums = ((ELEMENTS, held), (SQUARES, real_dtype(held)))
    finish = partial(rounded_deviation, ddof=exact_ddof(ddof), target=target, root=root, skip_nan=skip_nan)
    return reduce_exactly(
        name, x, axes, keepdims, sums, finish, target, skip_nan=skip_nan, split_every=split_every
    )
