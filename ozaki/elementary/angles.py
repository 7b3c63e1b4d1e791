"""Trigonometric functions and their inverses."""

from __future__ import annotations

from math import inf, nan

from ozaki.elementary.record import (
    LARGEST,
    above,
    at,
    below,
    bounded,
    function,
    identity_near_0,
    integral,
    lifted,
    signed,
    with_sign,
    zero,
)

not_infinite = (above(LARGEST, nan), below(-LARGEST, nan))


@function(-LARGEST, LARGEST, *not_infinite, identity_near_0)
def sin(m, x):
    """sin x."""
    return m.sin_cos(*m.turned(x))[0]


@function(-LARGEST, LARGEST, *not_infinite)
def cos(m, x):
    """cos x."""
    return m.sin_cos(*m.turned(x))[1]


@function(-LARGEST, LARGEST, *not_infinite, identity_near_0)
def tan(m, x):
    """sin x / cos x."""
    s, c = m.sin_cos(*m.turned(x))
    return s / c


@function(-LARGEST, LARGEST, (integral, signed(0.0)), zero, *not_infinite)
def sinpi(m, x):
    """sin(πx)."""
    x, shift = lifted(m, x)
    return m.sin_cos(*m.half_turned(x))[0], shift


@function(-LARGEST, LARGEST, *not_infinite, (lambda x: integral(x + x) & ~integral(x), 0.0))
def cospi(m, x):
    """cos(πx)."""
    return m.sin_cos(*m.half_turned(x))[1]


@function(-inf, inf, identity_near_0)
def atan(m, x):
    """atan x."""
    a = bounded(m, x, 2.0**130)
    return with_sign(m, x, m.atan(m.number(a), m.number(1.0)))


def _complement(m, x):
    """√(1 - x²)."""
    a = m.number(abs(x))
    return ((1.0 - a) * (1.0 + a)).sqrt()


@function(-1.0, 1.0, above(1.0, nan), below(-1.0, nan), identity_near_0)
def asin(m, x):
    """The angle of (√(1 - x²), x)."""
    return with_sign(m, x, m.atan(m.number(abs(x)), _complement(m, x)))


@function(-1.0, 1.0, above(1.0, nan), below(-1.0, nan), at(1.0, 0.0))
def acos(m, x):
    """The angle of (x, √(1 - x²))."""
    angle = m.atan(_complement(m, x), m.number(abs(x)))
    return m.where(x < 0.0, m.constant("pi") - angle, angle)
