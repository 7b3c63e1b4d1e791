"""Trigonometric functions and their inverses."""

from __future__ import annotations

from math import inf
from typing import Any

from multiword.runtime.arrays import Array
from ozaki.elementary.api import apply
from ozaki.elementary.record import (
    LARGEST,
    at,
    bounded,
    elementary,
    function,
    identity_near_0,
    integral,
    lifted,
    signed,
    with_sign,
    zero,
)


@elementary
def sin(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the sine of x, in radians, however large, correctly rounded: `numpy.sin`.

    As `ozaki.exp`; differs in the function.

    >>> float(sin(1e22))
    -0.8522008497671888
    """
    return apply("sin", x, out=out, where=where)


@function(-LARGEST, LARGEST, identity_near_0, nan_outside=True, loss=(0, 1, 0))
def _sin(m, x):
    """sin x."""
    return m.sin_cos(*m.turned(x))[0]


@elementary
def cos(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the cosine of x, in radians, however large, correctly rounded: `numpy.cos`.

    As `ozaki.exp`; differs in the function.

    >>> float(cos(1e22))
    0.523214785395139
    """
    return apply("cos", x, out=out, where=where)


@function(-LARGEST, LARGEST, nan_outside=True, loss=(0, 1, 0))
def _cos(m, x):
    """cos x."""
    return m.sin_cos(*m.turned(x))[1]


@elementary
def tan(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the tangent of x, in radians, however large, correctly rounded: `numpy.tan`.

    As `ozaki.exp`; differs in the function.

    >>> float(tan(1e22))
    -1.6287782256068988
    """
    return apply("tan", x, out=out, where=where)


@function(-LARGEST, LARGEST, identity_near_0, nan_outside=True, loss=(0, 2, 0))
def _tan(m, x):
    """sin x / cos x."""
    return m.tan(*m.turned(x))


@elementary
def sinpi(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the sine of π·x, correctly rounded.

    As `ozaki.exp`; differs in the function.

    >>> float(sinpi(1.0))
    0.0
    """
    return apply("sinpi", x, out=out, where=where)


@function(-LARGEST, LARGEST, (integral, signed(0.0)), zero, nan_outside=True, loss=(0, 1, 0))
def _sinpi(m, x):
    """sin(πx)."""
    x, shift = lifted(m, x)
    return m.sin_cos(*m.half_turned(x))[0], shift


@elementary
def cospi(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the cosine of π·x, correctly rounded.

    As `ozaki.exp`; differs in the function.

    >>> float(cospi(0.5))
    0.0
    """
    return apply("cospi", x, out=out, where=where)


@function(
    -LARGEST,
    LARGEST,
    (lambda x: integral(x + x) & ~integral(x), 0.0),
    nan_outside=True,
    loss=(0, 1, 0),
)
def _cospi(m, x):
    """cos(πx)."""
    return m.sin_cos(*m.half_turned(x))[1]


@elementary
def atan(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle from -π/2 to π/2 whose tangent is x, correctly rounded: `numpy.atan`.

    As `ozaki.exp`; differs in the function.

    >>> float(atan(1.0))
    0.7853981633974483
    """
    return apply("atan", x, out=out, where=where)


@function(-inf, inf, identity_near_0)
def _atan(m, x):
    """atan x."""
    a = bounded(m, x, 2.0**130)
    return with_sign(m, x, m.atan(m.number(a), m.number(1.0)))


def _complement(m, x):
    """√(1 - x²)."""
    a = m.number(abs(x))
    return m.number(1.0).plus_smaller(-(a * a)).sqrt()  # a·a has both words, exactly


@elementary
def asin(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle from -π/2 to π/2 whose sine is x, correctly rounded: `numpy.asin`.

    As `ozaki.exp`; differs in the function.

    >>> float(asin(1.0))
    1.5707963267948966
    """
    return apply("asin", x, out=out, where=where)


@function(-1.0, 1.0, identity_near_0, nan_outside=True)
def _asin(m, x):
    """The angle of (√(1 - x²), x)."""
    return with_sign(m, x, m.angle_on_circle(m.number(abs(x)), _complement(m, x)))


@elementary
def acos(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle from 0 to π whose cosine is x, correctly rounded: `numpy.acos`.

    As `ozaki.exp`; differs in the function.

    >>> float(acos(-1.0))
    3.141592653589793
    """
    return apply("acos", x, out=out, where=where)


@function(-1.0, 1.0, at(1.0, 0.0), nan_outside=True)
def _acos(m, x):
    """The angle of (x, √(1 - x²))."""
    return m.angle_on_circle(_complement(m, x), m.number(abs(x)), x < 0.0)
