"""Exact sums: what a sum, a mean, a variance or a norm is before and after its one rounding.

A finite float64 is a fraction, so a sum of them, or of their products, is one, and no order can show. What is
not a finite number decides alone, as IEEE 754 adds it: NaN if there is one, or if infinities of both signs
meet, else the infinity; −0 where every term is −0.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, nan

from multiword.formats import Format
from ozaki.definition.rounding import FP64, nearest, nearest_root


def special(terms: Iterable[float]) -> float | None:
    """Return what Inf, NaN or −0 make of a sum of these terms; None where the exact sum of numbers counts.

    >>> special([1.0, inf]), special([inf, -inf]), special([-0.0, -0.0]), special([0.0, 2.0])
    (inf, nan, -0.0, None)
    """
    terms = list(terms)
    infinities = {x for x in terms if isinf(x)}
    if any(map(isnan, terms)) or len(infinities) == 2:
        return nan
    if infinities:
        return infinities.pop()
    minus = terms and all(x == 0 and copysign(1, x) < 0 for x in terms)
    return -0.0 if minus else None


def rounded_sum(terms: Iterable[float], target: Format = FP64, divisor: int = 1) -> float:
    """Return RN(Σx / divisor): the exact sum, or mean, rounded once.

    >>> rounded_sum([1e100, 1.0, -1e100]), rounded_sum([0.1] * 10, divisor=10)
    (1.0, 0.1)
    """
    terms = list(terms)
    value = special(terms)
    return nearest(sum(map(Fraction, terms), Fraction(0)) / divisor, target) if value is None else value


def rounded_dot(x: Iterable[float], y: Iterable[float], target: Format = FP64) -> float:
    """Return RN(Σ x·y), of exact products: IEEE's of the terms where these are not finite, or all −0.

    >>> rounded_dot([1e200, 1.0], [1e200, 1.0]), rounded_dot([1e16, 1.0, -1e16], [1.0, 1.0, 1.0])
    (inf, 1.0)
    """
    pairs = list(zip(x, y, strict=True))
    finite = all(isfinite(a) and isfinite(b) for a, b in pairs)
    value = special(copysign(min(abs(a * b), 1.0), a * b) if finite else a * b for a, b in pairs)
    if value is None or (finite and any(a and b for a, b in pairs)):
        return nearest(sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0)), target)
    return value


def scaled_sum(x: float, a: float, y: float) -> float:
    """Return RN(x + RN(a·y)): how Krylov methods add vectors, number by number.

    >>> scaled_sum(1.0, -2.0, 0.5), scaled_sum(1.0, 1e-17, 3.0)
    (0.0, 1.0)
    """
    return rounded_sum([x, rounded_dot([a], [y])])


def rounded_norm(x: Iterable[float], target: Format = FP64, divisor: int = 1) -> float:
    """Return RN(√(Σx² / divisor)): the 2-norm, or the root mean square.

    >>> rounded_norm([3 * 2.0**900, 4 * 2.0**900]) / 2.0**900, rounded_norm([3.0, 4.0], divisor=25)
    (5.0, 1.0)
    """
    magnitudes = [abs(v) for v in x]
    value = special(magnitudes)
    if value is not None:
        return abs(value)
    return nearest_root(sum((Fraction(v) ** 2 for v in magnitudes), Fraction(0)) / divisor, target)


def rounded_variance(x: Iterable[float], ddof: Fraction = Fraction(0), target: Format = FP64) -> float:
    """Return RN((Σx² − (Σx)²/n) / (n − ddof)) of finite numbers, NaN where n = 0 or any is not finite.

    >>> rounded_variance([1e16, 1e16 + 2])
    1.0
    """
    values = list(x)
    if not values or not all(map(isfinite, values)):
        return nan
    n, exact = len(values), [Fraction(v) for v in values]
    deviations = sum((v * v for v in exact), Fraction(0)) - sum(exact, Fraction(0)) ** 2 / n
    if n <= ddof:
        return inf if deviations else nan
    return nearest(deviations / (n - ddof), target)


def rounded_covariance(
    x: Iterable[float], y: Iterable[float], ddof: Fraction = Fraction(0), target: Format = FP64
) -> float:
    """Return RN((Σxy − Σx·Σy/n) / (n − ddof)) of finite numbers, NaN where n = 0 or any is not finite.

    >>> rounded_covariance([1.0, 2.0], [1e16, 1e16 + 2])
    0.5
    """
    xs, ys = list(x), list(y)
    if not xs or not all(map(isfinite, xs + ys)):
        return nan
    a, b = [Fraction(v) for v in xs], [Fraction(v) for v in ys]
    products = sum((v * w for v, w in zip(a, b, strict=True)), Fraction(0))
    deviations = products - sum(a, Fraction(0)) * sum(b, Fraction(0)) / len(xs)
    if len(xs) <= ddof:
        return copysign(inf, deviations) if deviations else nan
    return nearest(deviations / (len(xs) - ddof), target)


def rounded_weighted_mean(x: Iterable[float], w: Iterable[float], target: Format = FP64) -> float:
    """Return RN(Σwx / Σw) of finite numbers, with Σw > 0; zeros have the sign of the sum.

    >>> rounded_weighted_mean([1.0, 3.0], [3.0, 1.0])
    1.5
    """
    xs, ws = list(x), list(w)
    products = (Fraction(v) * Fraction(a) for v, a in zip(ws, xs, strict=True))
    value = sum(products, Fraction(0)) / sum(map(Fraction, ws))
    return nearest(value, target) if value else rounded_dot(xs, ws, target)


def rounded_weighted_variance(
    x: Iterable[float],
    w: Iterable[float],
    reliable: bool = False,
    ddof: Fraction = Fraction(0),
    target: Format = FP64,
) -> float:
    """Return RN((Σwx² − (Σwx)²/W) / (W − ddof·A/W)) of finite numbers, with W = Σw > 0.

    A is Σw² where the weights are reliabilities, and W where they are frequencies.

    >>> rounded_weighted_variance([1.0, 3.0], [3.0, 1.0], ddof=Fraction(1))
    1.0
    """
    xs, ws = list(x), [Fraction(v) for v in w]
    if not all(map(isfinite, xs)):
        return nan
    total, squares = sum(ws, Fraction(0)), sum((v * v for v in ws), Fraction(0))
    first, second = (
        sum((v * Fraction(a) ** k for v, a in zip(ws, xs, strict=True)), Fraction(0)) for k in (1, 2)
    )
    deviations, left = second - first * first / total, total - ddof * (squares / total if reliable else 1)
    if left <= 0:
        return inf if deviations else nan
    return nearest(deviations / left, target)
