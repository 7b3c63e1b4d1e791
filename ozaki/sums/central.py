"""Central moments, skewness and kurtosis from exact sums of powers, rounded once.

With n numbers and S_k = Σxᵏ, all exact, N_k = nᵏ·m_k is a polynomial in n and the sums, m_k the k-th moment
about the exact mean: N_2 = n·S_2 − S_1², and so on. Nothing cancels that is not exact. Mostly an enclosure of
the polynomial is enough to round it; integers decide the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb, nan
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, on_device_of_arrays, on_host, where_lies
from multiword.runtime.options import exactly, integer
from ozaki.public import public
from ozaki.rounding.conversion import narrow
from ozaki.sums.arguments import (
    Axis,
    DType,
    Out,
    axes_of,
    columns_of,
    deliver,
    format_of,
    numbers,
    real_result_dtype,
    reduced_shape,
)
from ozaki.sums.exact import moments
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.extraction import SOURCES
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.powers import rounded_of_sums
from ozaki.sums.variance import exact_ddof

_MOST = 1 << 17  # n³ is a float64 number below, n⁴ is one of two words
_Exact = Callable[[list[int], int, int, Rounding], float]
_Enclosed = Callable[[list[Enclosure], int], Enclosure]
_Ratio = Callable[[int], tuple[int, int, int]]


@public("Moments")
@on_device_of_arrays
def moment(
    x: Array,
    order: int = 1,
    axis: Axis = 0,
    *,
    center: float | None = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
) -> Any:
    """Return central moments over axes, correctly rounded: `scipy.stats.moment` with one rounding.

    Parameters
    ----------
    x : real array, NumPy or CuPy; integers that float64 holds.
    order : k ≥ 0. Beyond 4 the sums are Python's integers, which take a microsecond or two a number.
    axis : int, tuple of ints or None (all axes).
    center : a number c about which the moments are; None for the exact mean.
    dtype, out, keepdims : as in `ozaki.sum`; integers and booleans have float64 moments.

    Returns
    -------
    Σ(x − c)ᵏ/n rounded to nearest, ties to even, whatever the order of the numbers and the device. NaN where
    an element is Inf or NaN, and for nothing.

    Raises
    ------
    TypeError : x is not real, or has integers that float64 does not hold; order is no integer; center is no
        finite number. ValueError : order is negative; an axis that x does not have.

    References
    ----------
    As `ozaki.sum`: Rump, Ogita and Oishi; Kulisch.

    >>> float(moment(np.array([1e8, 1e8 + 1, 1e8 + 5]), 3)), float(moment([1.0, 2.0], 2, center=1))
    (6.0, 0.5)
    """
    k, about = integer("order", order), None if center is None else _center(center)
    if k < 0:
        raise ValueError(f"order must not be negative, got {k}")

    def exact(sums: list[int], n: int, unit: int, rounding: Rounding) -> float:
        if about is None:
            return rounding.ratio(_polynomial(k, n, sums), n**k, k * unit)
        c = about / Fraction(2) ** unit
        terms = (
            comb(k, j) * s * c.denominator**j * (-c.numerator) ** (k - j) for j, s in enumerate(sums[: k + 1])
        )
        return rounding.ratio(sum(terms), n * c.denominator**k, k * unit)

    def enclosed(sums: list[Enclosure], n: int) -> Enclosure:
        power = _number(float(n) ** 2).times(_number(float(n) ** (k - 2)))  # exactly
        return _enclosed_polynomial(k, n, sums).over(power.normalized())

    simple = about is None and 2 <= k <= 4
    quick = (enclosed, lambda n: (0, 0, 0)) if simple else (None, None)
    return _of_powers("a moment", x, k, axis, dtype, out, keepdims, exact, *quick)


@public("Moments")
@on_device_of_arrays
def skew(
    x: Array,
    axis: Axis = 0,
    bias: bool = True,
    *,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
) -> Any:
    """Return the skewness over axes, correctly rounded: `scipy.stats.skew` with one rounding.

    As `ozaki.moment`; differs in what is returned: g = m₃/m₂^(3/2) of the exact moments about the exact
    mean, the root included in the one rounding. NaN where all numbers are equal.

    Parameters
    ----------
    x, axis, dtype, out, keepdims : as in `moment`.
    bias : False for g·√(n(n − 1))/(n − 2), where n > 2.

    >>> float(skew(np.array([1e8, 1e8, 1e8, 1e8 + 1])))  # 2/√3
    1.1547005383792515
    """

    def corrected(n: int) -> tuple[int, int]:
        return (1, 1) if bias or n <= 2 else (n * (n - 1), (n - 2) ** 2)

    def exact(sums: list[int], n: int, unit: int, rounding: Rounding) -> float:
        second, third = (_polynomial(k, n, sums) for k in (2, 3))
        above, below = corrected(n)
        if not second:
            return nan
        root = rounding._replace(root=True).ratio(third**2 * above, second**3 * below)
        return -root if third < 0 else root

    def enclosed(sums: list[Enclosure], n: int) -> Enclosure:
        second, third = (_enclosed_polynomial(k, n, sums) for k in (2, 3))
        above, below = map(float, corrected(n))
        square = third.times(third).normalized().times(_number(above)).normalized()
        cube = second.times(second).times(second).normalized().times(_number(below)).normalized()
        root, sign = square.over(cube).root(), np.sign(third.high)
        return Enclosure(root.high * sign, root.low * sign, root.error, root.exponent)

    def ratio(n: int) -> tuple[int, int, int]:
        above, below = corrected(n)
        return above, 0, below

    return _of_powers("a skewness", x, 3, axis, dtype, out, keepdims, exact, enclosed, ratio)


@public("Moments")
@on_device_of_arrays
def kurtosis(
    x: Array,
    axis: Axis = 0,
    fisher: bool = True,
    bias: bool = True,
    *,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
) -> Any:
    """Return the kurtosis over axes, correctly rounded: `scipy.stats.kurtosis` with one rounding.

    As `ozaki.skew`; differs in what is returned: m₄/m₂² − 3, or without the 3.

    Parameters
    ----------
    x, axis, dtype, out, keepdims : as in `moment`.
    fisher : whether 3 is subtracted, so that normal numbers have 0.
    bias : False for (n − 1)/((n − 2)(n − 3))·((n + 1)·m₄/m₂² − 3(n − 1)) + 3, where n > 3.

    >>> float(kurtosis(np.array([1e8, 1e8, 1e8, 1e8 + 1]), fisher=False)) == 7 / 3
    True
    """
    less = 3 if fisher else 0

    def coefficients(n: int) -> tuple[int, int, int]:
        """Those of (a·m₄/m₂² − b)/c."""
        if bias or n <= 3:
            return 1, less, 1
        below = (n - 2) * (n - 3)
        return (n - 1) * (n + 1), 3 * (n - 1) ** 2 - (3 - less) * below, below

    def exact(sums: list[int], n: int, unit: int, rounding: Rounding) -> float:
        second, fourth = (_polynomial(k, n, sums) for k in (2, 4))
        a, b, c = coefficients(n)
        square = second * second
        return rounding.ratio(a * fourth - b * square, c * square) if square else nan

    def enclosed(sums: list[Enclosure], n: int) -> Enclosure:
        second, fourth = (_enclosed_polynomial(k, n, sums) for k in (2, 4))
        a, b, c = (_number(float(v)) for v in coefficients(n))
        quotient = fourth.over(second.times(second).normalized())
        return quotient.times(a).normalized().less(b).over(c)

    return _of_powers("a kurtosis", x, 4, axis, dtype, out, keepdims, exact, enclosed, coefficients)


def _of_powers(
    what: str,
    x: Any,
    order: int,
    axis: Axis,
    dtype: DType,
    out: Out,
    keepdims: bool,
    exact: _Exact,
    enclosed: _Enclosed | None,
    ratio: _Ratio | None,
) -> Any:
    """Return results made of the sums of powers up to an order.

    exact : exact(sums, n, unit, rounding) rounds what integers S_0 to S_k make, S_k in units of 2**(k·unit).
    enclosed : enclosed(sums, n) encloses it, of many outputs; None where only integers are quick.
    ratio : ratio(n) says what a kernel makes of the moments (`central.cuh`); None as `enclosed`.
    """
    x = numbers(x, "x")
    if x.dtype.kind == "c":
        raise TypeError(f"x must be real, got {x.dtype}; take the real and the imaginary part")
    axes = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims)
    target = real_result_dtype(x, dtype, out, shape, what)
    columns, rounding = columns_of(x, axes), Rounding(format_of(target))

    def finished(columns: Array) -> Array:
        exact_columns = exactly("x", columns, np.float64)
        values = _rounded(exact_columns, max(order, 1), rounding, exact, enclosed)
        return where_lies(x, narrow(values, target))

    found = _on_gpu(columns, order, rounding, ratio) if ratio is not None and is_cupy(x) else None
    if found is None:
        return deliver(finished(columns).reshape(shape), out)
    result, undecided = found
    if undecided.size:
        result[undecided] = finished(columns[:, undecided])
    return deliver(result.reshape(shape), out)


def _on_gpu(x: Array, order: int, rounding: Rounding, ratio: _Ratio) -> tuple[Array, Array] | None:
    """The results for columns from one kernel, and the indices of those that are undecided."""
    n = len(x)
    if not n:
        return None
    x = x if x.dtype.name in SOURCES else exactly("x", x, np.float64)
    if order > 2:
        return moments.standardized(x, order, ratio(n), rounding)
    return moments.variances(x, 1, rounding, Fraction(0))


def _rounded(
    x: Array, order: int, rounding: Rounding, exact: _Exact, enclosed: _Enclosed | None
) -> np.ndarray:
    """The results for the columns of (n, m) numbers; about the mean they are the same for any equal ones."""
    n, m = x.shape
    if not n:
        return np.full(m, nan)

    def of_integers(sums: Sequence[tuple[int, int]]) -> float:
        unit = min(e // k for k, (_, e) in enumerate(sums, 1))
        return exact([n, *(v << (e - k * unit) for k, (v, e) in enumerate(sums, 1))], n, unit, rounding)

    def of_enclosures(sums: list[Enclosure]) -> Enclosure:
        return cast(_Enclosed, enclosed)([_number(float(n)), *sums], n)

    quick = of_enclosures if enclosed is not None and n < _MOST else None
    alike = (
        on_host(((x == x[:1]) & (abs(x[:1]) < np.inf)).all(axis=0))
        if quick is not None
        else np.zeros(m, bool)
    )
    some = x[:, where_lies(x, np.flatnonzero(~alike))] if alike.any() else x
    powers = [(some,) * k for k in range(1, order + 1)]
    found = rounded_of_sums(powers, rounding.target, of_integers, quick)
    if some is x:
        return found
    values = np.empty(m)
    values[alike], values[~alike] = exact([n] * (order + 1), n, 0, rounding), found
    return values


def _polynomial(k: int, n: int, sums: Sequence[int]) -> int:
    """N_k = nᵏ·m_k of exact sums: Σ_j C(k, j)·S_j·nʲ⁻¹·(−S_1)ᵏ⁻ʲ.

    >>> _polynomial(2, 3, [3, 6, 14]), _polynomial(3, 3, [3, 6, 14, 36])
    (6, 0)
    """
    terms = (comb(k, j) * sums[j] * n ** (j - 1) * (-sums[1]) ** (k - j) for j in range(1, k + 1))
    return sum(terms, (-sums[1]) ** k)


def _enclosed_polynomial(k: int, n: int, sums: Sequence[Enclosure]) -> Enclosure:
    """The same polynomial, k > 1, by Horner's scheme: (a_1 − S_1)·(−S_1) + a_2 …, a_j = C(k, j)·S_j·nʲ⁻¹.

    The first difference is (k − 1)·S_1.
    """
    first = sums[1]
    result = first.times_numbers(float(k - 1))
    for j in range(2, k + 1):
        result = sums[j].times_numbers(comb(k, j) * float(n) ** (j - 1)).less(result.times(first))
    return result


def _number(x: float) -> Enclosure:
    """A float64 number, for all outputs."""
    return Enclosure.exactly(np.array([x])).normalized()


def _center(center: Any) -> Fraction:
    """The number about which moments are, exactly."""
    try:
        return exact_ddof(center)
    except TypeError:
        raise TypeError(f"center must be a finite number that float64 holds, got {center!r}") from None
