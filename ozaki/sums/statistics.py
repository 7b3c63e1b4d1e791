"""Variances and standard deviations, and sums, means and variances without NaN: exact, rounded once.

With S = Σx and Q = Σ|x|², both exact, the sum of squares about the exact mean is (n·Q − |S|²)/n: no
difference x − mean is ever rounded, and nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, isfinite, nan, prod
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, real_parts
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.api import mean
from ozaki.sums.api import sum as _sum
from ozaki.sums.arguments import (
    Axis,
    DType,
    Out,
    axes_of,
    deliver,
    format_of,
    numbers,
    real_dtype,
    real_result_dtype,
    reduced_shape,
    result_dtype,
)
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.fixed_point import NOT_FINITE, FixedPoint, Rounding, flagged
from ozaki.sums.exact.reduction import exact_sums
from ozaki.sums.exact.summands import Summands, tiles

_OUTPUTS = 1 << 12  # whose digits are on the host at one time
_FEW = 4  # variances that integers give sooner
_EXACT = 1 << 26  # n·(n − ddof) is a float64 below


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
    return _deviation(x, axis, dtype, out, ddof, keepdims, False)


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
    return _deviation(x, axis, dtype, out, ddof, keepdims, True)


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
    rounding = Rounding(format_of(target))

    def means(terms: Array, reduced: int) -> np.ndarray:
        terms, counts = without_nan(terms, reduced)
        sums = [exact_sums([Summands((part,))], reduced) for part in real_parts(terms)]
        parts = [quotients(part, counts, rounding) for part in sums]
        return joined([narrow(part, real_dtype(target)) for part in parts], target)

    return deliver(_by_tiles(x, axes, target, means).reshape(shape), out)


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
    return _deviation(x, axis, dtype, out, ddof, keepdims, False, skip_nan=True)


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
    return _deviation(x, axis, dtype, out, ddof, keepdims, True, skip_nan=True)


def _deviation(
    x: Array,
    axis: Axis,
    dtype: DType,
    out: Out,
    ddof: float,
    keepdims: bool,
    root: bool,
    skip_nan: bool = False,
) -> Any:
    """The variances, or their roots."""
    x = numbers(x, "x")
    axes = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims)
    target = real_result_dtype(x, dtype, out, shape, "a standard deviation" if root else "a variance")
    rounding, offset = Rounding(format_of(target), root=root), exact_ddof(ddof)

    def deviations(terms: Array, reduced: int) -> np.ndarray:
        counts = [prod(terms.shape[:reduced])] * prod(terms.shape[reduced:])
        if skip_nan:
            terms, counts = without_nan(terms, reduced)
        parts = real_parts(terms)
        squares = exact_sums([Summands((part, part)) for part in parts], reduced)
        sums = [exact_sums([Summands((part,))], reduced) for part in parts]
        return narrow(variances(squares, sums, counts, offset, rounding, skip_nan), target)

    return deliver(_by_tiles(x, axes, target, deviations).reshape(shape), out)


def variances(
    squares: FixedPoint,
    sums: Sequence[FixedPoint],
    counts: Sequence[int],
    ddof: Fraction,
    rounding: Rounding,
    skip_nan: bool = False,
) -> np.ndarray:
    """Return (n·Q − |S|²)/(n·(n − ddof)) of exact sums, or its root, rounded, as float64.

    Parameters
    ----------
    squares, sums : Q, and the real (and imaginary) parts of S. NaN where Inf or NaN has been added to Q.
    counts : n.
    skip_nan : NaN where n ≤ ddof, as in `nanvar`.
    """
    with np.errstate(all="ignore"):
        values, certain = _estimates(squares, sums, np.array(counts, np.float64), ddof, rounding)
    hard = np.flatnonzero(~certain)
    exact = [part.columns(hard).integers() for part in (squares, *sums)]
    for i, (q, e), *parts_of_s in zip(hard.tolist(), *exact, strict=True):
        unit, n = min(e, *(2 * f for _, f in parts_of_s)), counts[i]
        square = (n * q << (e - unit)) - sum(s * s << (2 * f - unit) for s, f in parts_of_s)
        values[i] = _variance(square, unit, n, n - ddof, rounding, skip_nan)
    values[(squares.flags & NOT_FINITE) != 0] = nan
    return values


def _estimates(
    squares: FixedPoint, sums: Sequence[FixedPoint], n: np.ndarray, ddof: Fraction, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray]:
    """Variances, or their roots, computed in float64 with bounds, and which of them are certain."""
    if n.size <= _FEW or ddof.denominator > 1 or max(n.max(), abs(ddof)) >= _EXACT:
        return np.empty(n.shape), np.zeros(n.shape, bool)
    q = squares.enclosure()
    unit = (np.frexp(q.high)[1] + q.exponent) // 2
    difference = q.scaled(2 * unit).times(Enclosure(n, np.zeros(n.shape), np.zeros(n.shape), 0))
    for part in sums:
        s = part.enclosure().scaled(unit)
        difference = difference.minus(s.times(s))
    found = difference.divided(n * (n - int(ddof)))
    values, certain = (found.root() if rounding.root else found).rounded(rounding.target)
    return values, certain & (n > int(ddof)) & (n > 0)


def _variance(
    square: int, exponent: int, n: int, divisor: Fraction, rounding: Rounding, skip_nan: bool
) -> float:
    """square·2**exponent/(n·divisor), or its root, rounded."""
    if n == 0:
        return nan
    if divisor <= 0:
        return inf if square and not skip_nan else nan
    return rounding.ratio(square * divisor.denominator, n * divisor.numerator, exponent)


def quotients(sums: FixedPoint, counts: Sequence[int], rounding: Rounding) -> np.ndarray:
    """Return exact sums divided by counts, rounded, as float64; NaN for 0/0."""
    n = np.array(counts, np.int64)
    return np.where(n == 0, nan, flagged(rounding.finite(sums, np.maximum(n, 1)), sums.flags))


def _by_tiles(
    x: Array, axes: tuple[int, ...], dtype: np.dtype, values: Callable[[Array, int], np.ndarray]
) -> Array:
    """Compute `values` of tiles of the outputs, whose reduced axes come first; in the order of the others."""
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    moved, result = x.transpose(axes + kept), np.empty([x.shape[a] for a in kept], dtype)
    for output in tiles(result.shape, _OUTPUTS):
        part = result[cast(Any, (*output, ...))]
        terms = moved[((slice(None),) * len(axes) + output + (...,))]
        part[...] = values(terms, len(axes)).reshape(part.shape)
    return namespace(x).asarray(result)


def _is_nan(x: Array) -> Array:
    if x.dtype.name == "bfloat16":
        return (x.view(np.uint16) & 0x7FFF) > 0x7F80
    return namespace(x).isnan(x)


def _has_nan(x: Array) -> bool:
    return x.dtype.kind not in "iub" and bool(_is_nan(x).any())


def without_nan(x: Array, reduced: int) -> tuple[Array, list[int]]:
    """The array with 0 for NaN, and how many of each output's numbers are left."""
    n, outputs = prod(x.shape[:reduced]), prod(x.shape[reduced:])
    if x.dtype.kind in "iub":
        return x, [n] * outputs
    missing = _is_nan(x)
    zeros = (x.view(np.uint16), np.uint16(0)) if x.dtype.name == "bfloat16" else (x, x.dtype.type(0))
    left = n - missing.sum(axis=tuple(range(reduced))).reshape(-1)
    return namespace(x).where(missing, zeros[1], zeros[0]).view(x.dtype), left.tolist()


def exact_ddof(ddof: Any) -> Fraction:
    if not isinstance(ddof, Real) or not isfinite(ddof):
        raise TypeError(f"ddof must be a finite number, got {ddof!r}")
    return Fraction(int(ddof) if isinstance(ddof, Integral) else float(ddof))
