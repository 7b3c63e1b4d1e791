"""hypot, logaddexp, atan2 and pow; e**(x - y)."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isqrt, nan
from typing import Any

from multiword.runtime.arrays import Array
from ozaki.elementary import values
from ozaki.elementary.api import apply
from ozaki.elementary.record import decaying, elementary, function, integral, limited, with_sign


def even_scale(m, large, most=2.0**500, least=2.0**-400):
    """A power of two by which the squares of numbers up to `large` stay in range, and minus its exponent."""
    if m.of_single:  # they are
        return 1.0, 0
    huge, small = large > most, large < least
    scale = m.where(huge, 2.0**-600, m.where(small, 2.0**600, 1.0))
    return scale, m.where(huge, 600, m.where(small, -600, 0))


def by_size(m, x, y):
    """Return the magnitudes, the larger one first."""
    a, b = abs(x), abs(y)
    return m.where(a > b, a, b), m.where(a > b, b, a)


either_nan = (lambda x, y: (x != x) | (y != y)), nan


def infinite(x: Any) -> Any:
    return abs(x) == inf


@elementary
def hypot(x: Array, y: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return √(x² + y²), without overflow, correctly rounded: `numpy.hypot`.

    As `ozaki.exp`; differs in taking two arrays, which broadcast.
    A Python number takes the dtype of the other.

    Parameters
    ----------
    x, y : arrays as that of `ozaki.exp`.

    >>> float(hypot(3.0, 4.0))
    5.0
    """
    return apply("hypot", x, y, out=out, where=where)


@function(
    -inf,
    inf,
    (lambda x, y: (x == 0.0) & (y == 0.0), 0.0),
    (lambda x, y: infinite(x) | infinite(y), inf),
    arguments=2,
)
def _hypot(m, x, y):
    """√(x² + y²)."""
    large, small = by_size(m, x, y)
    scale, e = even_scale(m, large)
    large, small = m.number(large).times_power(scale), m.number(small).times_power(scale)
    squares = (large * large).plus_smaller(small * small)
    root = squares.sqrt()
    m.exact_root(root, squares)
    return root, e


@elementary
def logaddexp(x: Array, y: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(e**x + e**y), correctly rounded: `numpy.logaddexp`.

    As `ozaki.hypot`; differs in the function.

    >>> float(logaddexp(0.0, 0.0))
    0.6931471805599453
    """
    return apply("logaddexp", x, y, out=out, where=where)


@function(
    -inf,
    inf,
    (lambda x, y: x == -inf, lambda x, y: y + 0.0),  # +0 for -0
    (lambda x, y: y == -inf, lambda x, y: x + 0.0),
    (lambda x, y: (x == inf) | (y == inf), inf),
    (lambda x, y: ((x == 0.0) & (y < -746.0)) | ((y == 0.0) & (x < -746.0)), 0.0),  # e**y, below half of any
    either_nan,
    arguments=2,
    loss=(4, 2, 2),
)
def _logaddexp(m, x, y):
    """log(e**x + e**y) = x + log1p(e**(y - x)) for x >= y."""
    large, small = m.where(x > y, x, y), m.where(x > y, y, x)
    gap, most = abs(x - y), 800.0 if m.last else 690.0  # e**-690 is 2**-95 of what is not doubtful
    if not m.of_single:
        # A result may be subnormal, or what is left of large numbers that cancel; so may the lower word of E.
        m.doubtful((gap > 640.0) & (abs(large) < 2.0**-900))
    exact = m.number(large) - m.number(small) if m.pairs else m.number(gap)
    _, _, E = decaying(m, m.where(gap > most, m.number(most), exact), most)
    return m.balanced(m.number(large), m.log1p(E, part=True))


def minus(x: Any) -> Any:
    """Return whether the sign of a value is negative, -0 included."""
    return values.bits(x) < 0


@elementary
def atan2(y: Array, x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle of the point (x, y), from -π to π, correctly rounded: `numpy.atan2`.

    As `ozaki.hypot`; differs in the function.

    Parameters
    ----------
    y, x : arrays as that of `ozaki.exp`, in this order.

    >>> float(atan2(1.0, -1.0))
    2.356194490192345
    """
    return apply("atan2", y, x, out=out, where=where)


@function(-inf, inf, either_nan, arguments=2, names="yx")
def _atan2(m, y, x):
    """The angle of (x, y), from -π to π; of infinite numbers and of zeros that of a corner, or an axis."""
    a, b = abs(y), abs(x)
    endless = (a == inf) | (b == inf)
    a, b = (m.where(endless, m.where(z == inf, 1.0, 0.0), z) for z in (a, b))
    b = m.where((a == 0.0) & (b == 0.0), 1.0, b)
    scale, _ = even_scale(m, m.where(a > b, a, b), least=2.0**-100)  # what a quotient leaves is no subnormal
    if not m.of_single:
        m.doubtful((a * 2.0**400 < b * 2.0**-400) & (a > 0.0))  # nor the quotient
    theta = m.atan(m.number(a).times_power(scale), m.number(b).times_power(scale), minus(x))
    return with_sign(m, y, theta)


def odd(y: Any) -> Any:
    """Return whether a value is an odd integer."""
    half = abs(y) * 0.5
    return integral(y) & (half < 2.0**52) & ((half + 2.0**52) - 2.0**52 != half)


def _end(x: Any, y: Any) -> Any:
    """Return 0 or Inf, which powers of |x| to ±Inf tend to, and those of 0 and Inf are."""
    return values.where((abs(x) > 1.0) == (y > 0.0), inf, 0.0)


def _with_odd_sign(x: Any, y: Any, value: Any) -> Any:
    return values.where(minus(x) & odd(y), -value, value)


def _power(x: float, y: float) -> Fraction | None:
    """The exact power, of exponents k or k/2; others are no half way case, or take many digits."""
    base, count = Fraction(abs(x)), y
    if not float(y).is_integer():
        root = Fraction(isqrt(base.numerator), isqrt(base.denominator))
        if root * root != base:
            return None
        base, count = root, 2 * y
    if not float(count).is_integer() or abs(count) > 64:
        return None
    return base ** int(count) * (-1 if x < 0 and odd(y) else 1)


@elementary
def pow(x: Array, y: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x**y, correctly rounded: `numpy.pow`.

    As `ozaki.hypot`; differs in the function.

    >>> float(pow(2.0, 0.5))
    1.4142135623730951
    """
    return apply("pow", x, y, out=out, where=where)


@function(
    -inf,
    inf,
    (lambda x, y: (x < 0.0) & ~integral(y), nan),
    (lambda x, y: ((x == 0.0) | infinite(x)) & (abs(y) > 0.0), lambda x, y: _with_odd_sign(x, y, _end(x, y))),
    (lambda x, y: infinite(y) & (x == x), _end),
    (lambda x, y: (y == 0.0) | (x == 1.0) | (infinite(y) & (x == -1.0)), 1.0),
    arguments=2,
    loss=(5, 1, 0),
    exact=_power,
)
def _pow(m, x, y):
    """exp(y·log|x|), the logarithm in more digits, and the sign of an odd power."""
    a = abs(x)
    small = a < 2.0**-1022
    exponent = m.finer().log(m.where(small, a * 2.0**54, a), m.where(small, -54, 0)) * y
    bounded = m.where(exponent > 800.0, 800.0, m.where(exponent < -800.0, -800.0, exponent))
    M, e = m.exp(bounded)
    return m.where(x < 0.0, m.where(odd(y), -M, M), M), limited(m, e)


@function(
    -inf,
    inf,
    (lambda x, y: x - y == inf, inf),
    (lambda x, y: x - y == -inf, 0.0),
    (lambda x, y: x - y != x - y, nan),
    arguments=2,
    loss=(7, 2, 0),
)
def _exp_minus(m, x, y):
    """e**(x - y) of the exact difference, which sums of exponentials are made of."""
    exact = m.number(x) - m.number(y)
    M, e = m.exp(m.where(exact > 800.0, 800.0, m.where(exact < -800.0, -800.0, exact)))
    return M, limited(m, e)
