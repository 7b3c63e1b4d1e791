"""Variances, standard deviations and weighted means, and reductions without NaN: exact, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np  # noqa: F401 (of the examples)

from multiword.runtime.arrays import Array, check_same_device, namespace, on_device_of_arrays
from multiword.runtime.readback import has_nan
from ozaki.sums.api import mean
from ozaki.sums.api import sum as _sum
from ozaki.sums.arguments import (
    Axis,
    DType,
    Out,
    axes_of,
    broadcast_shape,
    deliver,
    mask_of,
    numbers,
    reduced_shape,
    weights_along,
)
from ozaki.sums.exact import groups_enclosed, moments, rows
from ozaki.sums.exact.summands import products
from ozaki.sums.table import (
    ABOUT_GIVEN,
    DEVIATION,
    MEAN,
    REDUCTIONS,
    SUM,
    VARIANCE,
    WITHOUT_NAN,
    Reduction,
    averages,
    is_nan,
    quotient_dtype,
    reduction,
    weights,
    without,
)
from ozaki.sums.variance import exact_ddof
from ozaki.sums.weighted import checked_weights, weighted_variances


@reduction(VARIANCE, torch="var")
@on_device_of_arrays
def var(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Array | None = None,
    mean: Array | None = None,
    correction: float | None = None,
    fweights: Array | None = None,
    aweights: Array | None = None,
) -> Any:
    """Return the variance over axes, correctly rounded: the exact one, about the exact mean, rounded once.

    As `ozaki.sum`; differs in being real, of complex numbers the mean of |x − mean|², and float64 for
    integers and booleans.

    Parameters
    ----------
    ddof, correction : a float64 number by one of its two names: the sum of squares is divided by n − ddof.
        TypeError for what is none, ValueError for both.
    mean : numbers that broadcast to x: the squares are those of the exact differences from them, where NumPy
        takes them for the mean.
    fweights, aweights : weights w = f·a as in `numpy.cov`, in shapes as in `average`: how often each number
        counts, which are integers, and how reliable it is. TypeError or ValueError for negative ones, and for
        a mean beside them; ZeroDivisionError where they sum to zero.

    Returns
    -------
    (n·Σ|x|² − |Σx|²)/(n·(n − ddof)) rounded to nearest, ties to even; with weights
    (Σw·Σw|x|² − |Σw·x|²)/((Σw)² − ddof·Σw·a). NaN where an element is Inf or
    NaN, and for the variance of nothing. Where n ≤ ddof, as `numpy.var`: Inf, or NaN if all elements
    are equal.

    References
    ----------
    Chan, Golub and LeVeque, Algorithms for computing the sample variance (the formula, which only rounding
    makes a bad one).

    >>> float(var(np.array([1e16, 1e16 + 2, 1e16 + 4]), ddof=1))
    4.0
    """
    options = where, exact_ddof(ddof, correction)
    if fweights is not None or aweights is not None:
        return _weighted_spread("var", x, mean, axis, dtype, out, keepdims, *options, fweights, aweights)
    return _spread("var", x, mean, axis, dtype, out, keepdims, *options)


@reduction(DEVIATION)
@on_device_of_arrays
def std(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Array | None = None,
    mean: Array | None = None,
    correction: float | None = None,
    fweights: Array | None = None,
    aweights: Array | None = None,
) -> Any:
    """Return the standard deviation over axes, correctly rounded: the root of the exact variance.

    As `ozaki.var`; differs in the root, which is rounded once: squares neither overflow nor underflow.

    >>> float(std(np.array([-3e200, 3e200])))
    3e+200
    """
    options = where, exact_ddof(ddof, correction)
    if fweights is not None or aweights is not None:
        return _weighted_spread("std", x, mean, axis, dtype, out, keepdims, *options, fweights, aweights)
    return _spread("std", x, mean, axis, dtype, out, keepdims, *options)


def _spread(
    name: str,
    x: Array,
    mean: Array | None,
    axis: Axis,
    dtype: DType,
    out: Out,
    keepdims: bool,
    where: Array | None,
    ddof: Fraction,
) -> Any:
    """Return variances or standard deviations, about the exact mean or one that is given."""
    x, row = numbers(x, "x"), REDUCTIONS[name]
    if mean is None:
        return row((x,), axis, dtype, out, keepdims, where, ddof=ddof)
    xp, given = check_same_device(x=x, mean=mean), numbers(mean, "mean")
    if broadcast_shape(x=x.shape, mean=given.shape) != x.shape:
        raise ValueError(f"mean must broadcast to x, of shape {x.shape}, got shape {given.shape}")
    missing = is_nan(x) if row.skip_nan and x.dtype.kind not in "iub" else None
    if where is not None:
        masked = ~mask_of(where, x)
        missing = masked if missing is None else missing | masked
    given = xp.broadcast_to(given, x.shape)
    if missing is not None:  # differences from 0 of what counts as 0
        given = without(given, missing)
    about = replace(row, **ABOUT_GIVEN)
    return about((x, given), axis, dtype, out, keepdims, where, ddof=ddof, skip_nan=row.skip_nan)


def _weighted_spread(
    name: str,
    x: Array,
    mean: Array | None,
    axis: Axis,
    dtype: DType,
    out: Out,
    keepdims: bool,
    where: Array | None,
    ddof: Fraction,
    fweights: Array | None,
    aweights: Array | None,
) -> Any:
    """Return weighted variances or standard deviations."""
    if mean is not None:
        raise ValueError(
            "mean is not taken together with fweights or aweights: their variance is about their mean"
        )
    x, row = numbers(x, "x"), REDUCTIONS[name]
    axes = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims)
    target = row.dtype((x,), dtype, out, shape)
    mask = None if where is None else mask_of(where, x)
    given = checked_weights(x, fweights, aweights, axes, mask)
    x = x if mask is None else without(x, ~mask)
    result = weighted_variances(x, given, aweights is not None, axes, ddof, row.rounding(target))
    return deliver(result.reshape(shape), out)


@reduction(
    Reduction(
        (products, weights),
        averages,
        quotient_dtype,
        on_gpu=moments.averages,
        on_cpu=rows.averages,
        groups_on_gpu=moments.group_averages,
        groups_on_cpu=groups_enclosed.averages,
    ),
    torch="average",
    jax="average",
    example="weights=np.array([1, 2, 1])",
)
@on_device_of_arrays
def average(
    x: Array,
    axis: Axis = None,
    weights: Array | None = None,
    keepdims: bool = False,
    *,
    returned: bool = False,
) -> Any:
    """Return the weighted mean over axes, correctly rounded: `numpy.average` with one rounding.

    As `ozaki.sum`; differs in returning Σ x·weights / Σ weights, both exact, rounded once to the dtype of
    x·weights, or to float64 for integers.

    Parameters
    ----------
    weights : real array of the shape of x, or of its reduced axes, in their order; None weighs all alike. Of
        any sign and size. ZeroDivisionError for weights that sum to exactly zero, which a rounded sum may
        hide.
    returned : whether the sums of the weights are returned, too, as the second of two.

    >>> average(np.array([1e100, 3.0, -1e100]), weights=np.array([1.0, 2.0, 1.0]))
    np.float64(1.5)
    """
    x = numbers(x, "x")
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        given = namespace(x).ones((), result.dtype) if returned else None
    else:
        given = weights = numbers(weights, "weights")
        check_same_device(x=x, weights=weights)
        weights = weights_along(x, weights, axes_of(axis, x.ndim))
        arrays = x, namespace(x).broadcast_to(weights, x.shape)
        result = REDUCTIONS["average"](arrays, axis, None, None, keepdims)
    if given is None or not returned:
        return result
    total = _sum(
        namespace(x).broadcast_to(given if weights is None else weights, x.shape), axis, result.dtype
    )
    return result, total.reshape(result.shape)


@reduction(replace(SUM, skip_nan=True))
@on_device_of_arrays
def nansum(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    initial: Array | None = None,
    where: Array | None = None,
) -> Any:
    """Return the sum over axes of what is not NaN, correctly rounded: NaN counts as 0.

    As `ozaki.sum`; differs where x has NaN: a copy with 0 in its place is summed, as in `numpy.nansum`. A
    complex number is NaN if a part of it is.

    >>> float(nansum(np.array([1e100, np.nan, 1.0, -1e100])))
    1.0
    """
    x = numbers(x, "x")

    def total(x: Array) -> Any:
        return _sum(x, axis, dtype, out, keepdims, initial=initial, where=where)

    return _skipping_nan(x, out, total, lambda: total(without(x, is_nan(x))))


@reduction(
    replace(
        MEAN,
        skip_nan=True,
        groups_on_gpu=partial(moments.group_means, skip_nan=True),
        groups_on_cpu=partial(groups_enclosed.totals, mean=True, skip_nan=True),
    )
)
@on_device_of_arrays
def nanmean(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: Array | None = None,
) -> Any:
    """Return the mean over axes of what is not NaN, correctly rounded.

    As `ozaki.mean`; differs as `nansum` does from `sum`: NaN only where all elements are.

    >>> nanmean(np.array([[1.0, np.nan], [2.0, 4.0]]), axis=1)
    array([1., 3.])
    """
    x, options = numbers(x, "x"), (axis, dtype, out, keepdims)
    careful = partial(REDUCTIONS["nanmean"], (x,), *options, where)
    return _skipping_nan(x, out, lambda x: mean(x, *options, where=where), careful)


@reduction(replace(VARIANCE, **WITHOUT_NAN))
@on_device_of_arrays
def nanvar(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Array | None = None,
    mean: Array | None = None,
    correction: float | None = None,
) -> Any:
    """Return the variance over axes of what is not NaN, correctly rounded.

    As `ozaki.var`; differs as `nansum` does from `sum`, and in NaN where n ≤ ddof, as `numpy.nanvar`.

    >>> float(nanvar(np.array([1e16, np.nan, 1e16 + 4])))
    4.0
    """
    return _spread("nanvar", x, mean, axis, dtype, out, keepdims, where, exact_ddof(ddof, correction))


@reduction(replace(DEVIATION, **WITHOUT_NAN))
@on_device_of_arrays
def nanstd(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Array | None = None,
    mean: Array | None = None,
    correction: float | None = None,
) -> Any:
    """Return the standard deviation over axes of what is not NaN, correctly rounded.

    As `ozaki.var`; differs as `nanvar` does, and in the root, which is rounded once.

    >>> float(nanstd(np.array([1.0, np.nan, 3.0])))
    1.0
    """
    return _spread("nanstd", x, mean, axis, dtype, out, keepdims, where, exact_ddof(ddof, correction))


def _skipping_nan(x: Array, out: Out, plain: Callable[[Array], Any], careful: Callable[[], Any]) -> Any:
    """Return plain(x) where there is no NaN to skip, and else careful().

    Results that are no NaN say so, for less than reading all of x once more. `out` may be a part of x.
    """
    if x.dtype.kind in "iub":
        return plain(x)
    if out is not None:
        return careful() if has_nan(x) else plain(x)
    result = plain(x)
    return careful() if has_nan(result) else result
