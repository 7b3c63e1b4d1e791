"""Variances, standard deviations and weighted means, and reductions without NaN: exact, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, check_same_device, namespace, on_device_of_arrays
from ozaki.sums.api import mean
from ozaki.sums.api import sum as _sum
from ozaki.sums.arguments import (
    Axis,
    DType,
    Out,
    axes_of,
    deliver,
    numbers,
    real_result_dtype,
    reduced_shape,
    result_dtype,
)
from ozaki.sums.table import REDUCTIONS, is_nan, without_nan
from ozaki.sums.variance import exact_ddof


@on_device_of_arrays
def var(
    x: Array, axis: Axis = None, dtype: DType = None, out: Out = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """Return the variance over axes, correctly rounded: the exact one, about the exact mean, rounded once.

    Parameters
    ----------
    x : array, NumPy or CuPy; dtypes as in `sum`. Of complex numbers it is the mean of |x − mean|².
    axis, out, keepdims : as in `sum`.
    dtype : dtype of the result, which is real; default that of x or of its parts, float64 for integers
        and booleans.
    ddof : the sum of squares is divided by n − ddof.

    Returns
    -------
    (n·Σ|x|² − |Σx|²)/(n·(n − ddof)) rounded to nearest, ties to even. NaN where an element is Inf or
    NaN, and for the variance of nothing. Where n ≤ ddof, as `numpy.var`: Inf, or NaN if all elements
    are equal.

    Raises
    ------
    TypeError, ValueError : as `sum`; TypeError for a complex dtype, or a ddof that is no number.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch. Chan, Golub and LeVeque, Algorithms for computing the sample
    variance (the formula, which only rounding makes a bad one).

    >>> float(var(np.array([1e16, 1e16 + 2, 1e16 + 4]), ddof=1))
    4.0
    """
    return _deviation("var", x, axis, dtype, out, ddof, keepdims)


@on_device_of_arrays
def std(
    x: Array, axis: Axis = None, dtype: DType = None, out: Out = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """Return the standard deviation over axes, correctly rounded: the root of the exact variance.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims : as in `var`.

    Returns
    -------
    The square root of the exact variance, rounded once: squares neither overflow nor underflow.

    Raises
    ------
    TypeError, ValueError : as `var`.

    References
    ----------
    As `var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> float(std(np.array([-3e200, 3e200])))
    3e+200
    """
    return _deviation("std", x, axis, dtype, out, ddof, keepdims)


@on_device_of_arrays
def average(x: Array, axis: Axis = None, weights: Array | None = None, keepdims: bool = False) -> Any:
    """Return the weighted mean over axes, correctly rounded: `numpy.average` with one rounding.

    Parameters
    ----------
    x : array, NumPy or CuPy; dtypes as in `sum`.
    axis, keepdims : as in `sum`.
    weights : real array of the shape of x or, over a single axis, a vector of its length; None weighs all
        alike. Of any sign and size.

    Returns
    -------
    Σ x·weights / Σ weights, both exact, rounded once to the dtype of x·weights; float64 for integers.

    Raises
    ------
    TypeError : as `sum`; weights are complex, or of another kind of array.
    ValueError : weights of another shape.
    ZeroDivisionError : weights that sum to exactly zero, which a rounded sum may hide.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> average(np.array([1e100, 3.0, -1e100]), weights=np.array([1.0, 2.0, 1.0]))
    np.float64(1.5)
    """
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    x, weights = numbers(x, "x"), numbers(weights, "weights")
    check_same_device(x=x, weights=weights)
    axes = axes_of(axis, x.ndim)
    weights = namespace(x).broadcast_to(weights_along(x, weights, axes), x.shape)
    shape = reduced_shape(x.shape, axes, keepdims)
    target = result_dtype(x, weighted_dtype(x, weights), None, None, shape)
    return deliver(REDUCTIONS["average"].of([x, weights], axes, target).reshape(shape), None)


def weights_along(x: Array, weights: Array, axes: tuple[int, ...]) -> Array:
    """Return real weights in a shape that broadcasts to that of x; TypeError or ValueError for others."""
    if weights.dtype.kind == "c":
        raise TypeError(f"weights must be real, got {weights.dtype}; take the real part first")
    if weights.shape == x.shape:
        return weights
    if len(axes) != 1 or weights.shape != (x.shape[axes[0]],):
        raise ValueError(
            f"weights must have the shape of x, {x.shape}, or of one axis of it, got {weights.shape}"
        )
    return weights.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])


def weighted_dtype(x: Array, weights: Array) -> np.dtype:
    """Return the dtype of a weighted mean: that of x·weights, float64 for integers."""
    natural = np.result_type(x.dtype, weights.dtype)
    return np.dtype(np.float64) if natural.kind in "iub" else natural


@on_device_of_arrays
def nansum(x: Array, axis: Axis = None, dtype: DType = None, out: Out = None, keepdims: bool = False) -> Any:
    """Return the sum over axes of what is not NaN, correctly rounded: NaN counts as 0.

    Parameters
    ----------
    x, axis, dtype, out, keepdims : as in `sum`. Where x has NaN, a copy without is summed, as in
        `numpy.nansum`; a complex number is NaN if a part of it is.

    Returns
    -------
    As `sum`; 0 where all elements are NaN.

    Raises
    ------
    TypeError, ValueError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> float(nansum(np.array([1e100, np.nan, 1.0, -1e100])))
    1.0
    """
    x = numbers(x, "x")
    return _sum(without_nan(x, x.ndim)[0] if _has_nan(x) else x, axis, dtype, out, keepdims)


@on_device_of_arrays
def nanmean(x: Array, axis: Axis = None, dtype: DType = None, out: Out = None, keepdims: bool = False) -> Any:
    """Return the mean over axes of what is not NaN, correctly rounded.

    Parameters
    ----------
    x, axis, dtype, out, keepdims : as in `mean`; NaN as in `nansum`.

    Returns
    -------
    As `mean`, of the elements that are not NaN; NaN where all are.

    Raises
    ------
    TypeError, ValueError : as `sum`.

    References
    ----------
    As `sum`: Rump, Ogita and Oishi; Kulisch.

    >>> nanmean(np.array([[1.0, np.nan], [2.0, 4.0]]), axis=1)
    array([1., 3.])
    """
    x = numbers(x, "x")
    if not _has_nan(x):
        return mean(x, axis, dtype, out, keepdims)
    axes = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims)
    target = result_dtype(x, x.dtype, dtype, out, shape)
    return deliver(REDUCTIONS["nanmean"].of([x], axes, target).reshape(shape), out)


@on_device_of_arrays
def nanvar(
    x: Array, axis: Axis = None, dtype: DType = None, out: Out = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """Return the variance over axes of what is not NaN, correctly rounded.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims : as in `var`; NaN as in `nansum`.

    Returns
    -------
    As `var`, of the n elements that are not NaN; NaN where n ≤ ddof, as `numpy.nanvar`.

    Raises
    ------
    TypeError, ValueError : as `var`.

    References
    ----------
    As `var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> float(nanvar(np.array([1e16, np.nan, 1e16 + 4])))
    4.0
    """
    return _deviation("nanvar", x, axis, dtype, out, ddof, keepdims)


@on_device_of_arrays
def nanstd(
    x: Array, axis: Axis = None, dtype: DType = None, out: Out = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    """Return the standard deviation over axes of what is not NaN, correctly rounded.

    Parameters
    ----------
    x, axis, dtype, out, ddof, keepdims : as in `var`; NaN as in `nansum`.

    Returns
    -------
    The square root of the exact variance of `nanvar`, rounded once.

    Raises
    ------
    TypeError, ValueError : as `var`.

    References
    ----------
    As `var`: Rump, Ogita and Oishi; Kulisch; Chan, Golub and LeVeque.

    >>> float(nanstd(np.array([1.0, np.nan, 3.0])))
    1.0
    """
    return _deviation("nanstd", x, axis, dtype, out, ddof, keepdims)


def _deviation(name: str, x: Array, axis: Axis, dtype: DType, out: Out, ddof: float, keepdims: bool) -> Any:
    """The variances, or their roots, of a reduction of the table."""
    x, reduction = numbers(x, "x"), REDUCTIONS[name]
    axes = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims)
    target = real_result_dtype(x, dtype, out, shape, reduction.real)
    options = {"ddof": exact_ddof(ddof), "skip_nan": reduction.skip_nan}
    return deliver(reduction.of([x], axes, target, **options).reshape(shape), out)


def _has_nan(x: Array) -> bool:
    return x.dtype.kind not in "iub" and bool(is_nan(x).any())
