"""Logarithms, inverse hyperbolic functions, roots."""

from __future__ import annotations

from math import inf, nan

from ozaki.elementary.record import (
    LARGEST,
    above,
    at,
    below,
    function,
    identity_near_0,
    same,
    with_sign,
    zero,
)

of_positive = (at(0.0, -inf), below(0.0, nan), above(LARGEST))


def _log(m, x):
    small = x < 2.0**-1022
    return m.log(m.where(small, x * 2.0**54, x), m.where(small, -54, 0))


@function(5e-324, LARGEST, *of_positive)
def log(m, x):
    """log x."""
    return _log(m, x)


@function(5e-324, LARGEST, *of_positive)
def log2(m, x):
    """log x / log 2."""
    return _log(m, x) * m.constant("1/ln2")


@function(5e-324, LARGEST, *of_positive)
def log10(m, x):
    """log x / log 10."""
    return _log(m, x) * m.constant("1/ln10")


@function(-1 + 2.0**-53, LARGEST, at(-1.0, -inf), below(-1.0, nan), above(LARGEST), identity_near_0)
def log1p(m, x):
    """log(1 + x)."""
    return m.log1p(x)


@function(1.0, LARGEST, below(1.0, nan), above(LARGEST), at(1.0, 0.0))
def acosh(m, x):
    """log1p(w + √(w² + 2w)), w = x - 1; log 2x where x is huge."""
    huge = x > 2.0**130
    w = m.number(m.where(huge, 2.0, x)) - 1.0
    return m.log1p(m.where(huge, m.number(x), w + (w * w + w + w).sqrt()), m.where(huge, 1, 0))


@function(-LARGEST, LARGEST, above(LARGEST), below(-LARGEST, -inf), identity_near_0)
def asinh(m, x):
    """log1p(a + a² / (1 + √(1 + a²))), a = |x|; log 2a where that is huge."""
    huge = abs(x) > 2.0**130
    a = m.number(m.where(huge, 1.0, abs(x)))
    square = a * a
    sum_ = a + square / (1.0 + (1.0 + square).sqrt())
    return with_sign(m, x, m.log1p(m.where(huge, m.number(abs(x)), sum_), m.where(huge, 1, 0)))


@function(
    -1 + 2.0**-53,
    1 - 2.0**-53,
    above(1.0, nan),
    below(-1.0, nan),
    at(1.0, inf),
    at(-1.0, -inf),
    identity_near_0,
)
def atanh(m, x):
    """log1p(2a / (1 - a)) / 2, a = |x|."""
    a = m.number(abs(x))
    return with_sign(m, x, m.log1p(a.times_power(m.power(1)) / (1.0 - a)).times_power(m.power(-1)))


@function(5e-324, 1 - 2.0**-53, at(0.0, -inf), at(1.0, inf), below(0.0, nan), above(1.0, nan), at(0.5, 0.0))
def logit(m, x):
    """log(x / (1 - x)); near 1/2 log1p((2x - 1) / (1 - x))."""
    small = x < 2.0**-900
    lift = m.number(m.where(small, x * 2.0**200, x))
    other = 1.0 - m.number(x)
    middle = abs(x - 0.5) < 0.25
    near = m.log1p(m.where(middle, (m.number(x) - 0.5).times_power(m.power(1)) / other, m.number(0.5)))
    return m.where(middle, near, m.log(lift / other, m.where(small, -200, 0)))


@function(0.0, LARGEST, zero, below(0.0, nan), above(LARGEST))
def sqrt(m, x):
    """√x."""
    return m.square_root(x)


@function(5e-324, LARGEST, (lambda x: x == 0.0, lambda x: 1.0 / x), below(0.0, nan), above(LARGEST, 0.0))
def rsqrt(m, x):
    """1 / √x."""
    small = x < 2.0**-900
    return 1.0 / m.number(m.where(small, x * 2.0**200, x)).sqrt(), m.where(small, 100, 0)


@function(-LARGEST, LARGEST, zero, above(LARGEST, same), below(-LARGEST, same))
def cbrt(m, x):
    """The cube root."""
    a = abs(x)
    small = a < 2.0**-1000
    root, e = m.cbrt(m.where(small, a * 2.0**300, a))
    return with_sign(m, x, root), e - m.where(small, 100, 0)
