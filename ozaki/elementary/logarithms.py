"""Logarithms, inverse hyperbolic functions, roots."""

from __future__ import annotations

from math import inf, nan
from typing import Any

from multiword.runtime.arrays import Array
from ozaki.elementary.api import apply
from ozaki.elementary.record import (
    LARGEST,
    above,
    at,
    below,
    elementary,
    function,
    identity_near_0,
    same,
    with_sign,
    zero,
)

of_positive = (at(0.0, -inf), below(0.0, nan), above(LARGEST))


def _logarithm(m, x):
    small = x < 2.0**-1022
    return m.log(m.where(small, x * 2.0**54, x), m.where(small, -54, 0))


@elementary
def log(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the natural logarithm of x, correctly rounded: `numpy.log`.

    As `ozaki.exp`; differs in the function. Of a complex x the parts are log |x|, to the last digit for |x|
    near 1, too, and the angle of x, each rounded once.

    >>> float(log(10.0))
    2.302585092994046
    """
    return apply("log", x, out=out, where=where)


@function(5e-324, LARGEST, *of_positive)
def _log(m, x):
    """log x."""
    return _logarithm(m, x)


@elementary
def log2(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the logarithm of x to base 2, correctly rounded: `numpy.log2`.

    As `ozaki.exp`; differs in the function.

    >>> float(log2(8.0))
    3.0
    """
    return apply("log2", x, out=out, where=where)


@function(5e-324, LARGEST, *of_positive)
def _log2(m, x):
    """log x / log 2."""
    return _logarithm(m, x) * m.constant("1/ln2")


@elementary
def log10(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the logarithm of x to base 10, correctly rounded: `numpy.log10`.

    As `ozaki.exp`; differs in the function.

    >>> float(log10(1000.0))
    3.0
    """
    return apply("log10", x, out=out, where=where)


@function(5e-324, LARGEST, *of_positive)
def _log10(m, x):
    """log x / log 10."""
    return _logarithm(m, x) * m.constant("1/ln10")


@elementary
def log1p(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(1 + x), accurate near 0, correctly rounded: `numpy.log1p`.

    As `ozaki.exp`; differs in the function.

    >>> float(log1p(1e-20))
    1e-20
    """
    return apply("log1p", x, out=out, where=where)


@function(-1 + 2.0**-53, LARGEST, at(-1.0, -inf), below(-1.0, nan), above(LARGEST), identity_near_0)
def _log1p(m, x):
    """log(1 + x)."""
    return m.log1p(x)


@elementary
def acosh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the number from 0 whose hyperbolic cosine is x, correctly rounded: `numpy.acosh`.

    As `ozaki.exp`; differs in the function.

    >>> float(acosh(2.0))
    1.3169578969248168
    """
    return apply("acosh", x, out=out, where=where)


@function(1.0, LARGEST, below(1.0, nan), above(LARGEST), at(1.0, 0.0))
def _acosh(m, x):
    """log(x + √(x² - 1)); log 2x where x is huge."""
    huge = x > 2.0**130
    a = m.number(m.where(huge, 2.0, x))
    root = (a * a).plus_smaller(-1.0).sqrt()
    return m.log_of_sum(m.number(x), m.where(huge, m.number(0.0), root), m.where(huge, 1, 0))


@elementary
def asinh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the number whose hyperbolic sine is x, correctly rounded: `numpy.asinh`.

    As `ozaki.exp`; differs in the function.

    >>> float(asinh(1.0))
    0.881373587019543
    """
    return apply("asinh", x, out=out, where=where)


@function(-LARGEST, LARGEST, above(LARGEST), below(-LARGEST, -inf), identity_near_0)
def _asinh(m, x):
    """log(a + √(1 + a²)), a = |x|; near 0 a series."""
    return with_sign(m, x, m.asinh(abs(x)))


@elementary
def atanh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the number whose hyperbolic tangent is x, correctly rounded: `numpy.atanh`.

    As `ozaki.exp`; differs in the function.

    >>> float(atanh(0.5))
    0.5493061443340549
    """
    return apply("atanh", x, out=out, where=where)


@function(
    -1 + 2.0**-53,
    1 - 2.0**-53,
    above(1.0, nan),
    below(-1.0, nan),
    at(1.0, inf),
    at(-1.0, -inf),
    identity_near_0,
)
def _atanh(m, x):
    """log1p(2a / (1 - a)) / 2, a = |x|."""
    a = m.number(abs(x))
    quotient = a.times_power(m.power(1)) / m.number(1.0).plus_smaller(-a)
    return with_sign(m, x, m.log1p(quotient).times_power(m.power(-1)))


@elementary
def logit(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(x / (1 - x)), correctly rounded: `torch.logit`.

    As `ozaki.exp`; differs in the function.

    >>> float(logit(0.75))
    1.0986122886681098
    """
    return apply("logit", x, out=out, where=where)


@function(5e-324, 1 - 2.0**-53, at(0.0, -inf), at(1.0, inf), below(0.0, nan), above(1.0, nan), at(0.5, 0.0))
def _logit(m, x):
    """log(x / (1 - x)); near 1/2 log1p((2x - 1) / (1 - x))."""
    small = x < 2.0**-900
    middle = abs(x - 0.5) < 0.25
    above = m.where(middle, 2.0 * (x - 0.5), m.where(small, x * 2.0**200, x))  # without an error
    rest = m.number(1.0).plus_smaller(-m.number(x))
    return m.log_near_1(middle, m.number(above) / rest, m.where(small, -200, 0))


@elementary
def sqrt(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the square root of x, correctly rounded: `numpy.sqrt`.

    As `ozaki.exp`; differs in the function.

    >>> float(sqrt(2.0))
    1.4142135623730951
    """
    return apply("sqrt", x, out=out, where=where)


@function(0.0, LARGEST, zero, below(0.0, nan), above(LARGEST))
def _sqrt(m, x):
    """√x."""
    return m.square_root(x)


@elementary
def rsqrt(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 1 / √x, rounded once, correctly rounded: `torch.rsqrt`.

    As `ozaki.exp`; differs in the function.

    >>> float(rsqrt(3.0))
    0.5773502691896257
    """
    return apply("rsqrt", x, out=out, where=where)


@function(5e-324, LARGEST, (lambda x: x == 0.0, lambda x: 1.0 / x), below(0.0, nan), above(LARGEST, 0.0))
def _rsqrt(m, x):
    """1 / √x."""
    small = x < 2.0**-900
    return 1.0 / m.number(m.where(small, x * 2.0**200, x)).sqrt(), m.where(small, 100, 0)


@elementary
def cbrt(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the cube root of x, correctly rounded: `numpy.cbrt`.

    As `ozaki.exp`; differs in the function.

    >>> float(cbrt(27.0))
    3.0
    """
    return apply("cbrt", x, out=out, where=where)


@function(-LARGEST, LARGEST, zero, above(LARGEST, same), below(-LARGEST, same))
def _cbrt(m, x):
    """The cube root."""
    a = abs(x)
    small = a < 2.0**-1000
    root, e = m.cbrt(m.where(small, a * 2.0**300, a))
    return with_sign(m, x, root), e - m.where(small, 100, 0)
