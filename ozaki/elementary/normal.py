"""erf and the functions of the normal distribution."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

from multiword.runtime.arrays import Array
from ozaki.elementary.api import apply
from ozaki.elementary.record import (
    above,
    below,
    bounded,
    elementary,
    function,
    lifted,
    same,
    sigmoid_of,
    with_sign,
    zero,
)


@elementary
def erf(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the error function of x, correctly rounded: `scipy.special.erf`.

    As `ozaki.exp`; differs in the function.

    >>> float(erf(1.0))
    0.8427007929497149
    """
    return apply("erf", x, out=out, where=where)


@function(-inf, inf, zero, loss=(0, 2, 0))
def _erf(m, x):
    """erf of |x|, up to 6, from where on it rounds to 1."""
    a, shift = lifted(m, bounded(m, x, 6.0))  # what is tiny is proportional to x
    return with_sign(m, x, m.erf(a)), shift


@elementary
def erfc(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 1 - erf(x), to full relative accuracy, correctly rounded: `scipy.special.erfc`.

    As `ozaki.exp`; differs in the function.

    >>> float(erfc(10.0))
    2.088487583762545e-45
    """
    return apply("erfc", x, out=out, where=where)


@function(-7.0, 28.0, above(28.0, 0.0), below(-7.0, 2.0), loss=(0, 3, 0))
def _erfc(m, x):
    """exp(-x²) times a smooth function of |x|, taken from 2 for x < 0."""
    a = abs(x)
    M, e = m.exp(-(m.number(a) * m.number(a)), factor=True)
    negative = x < 0.0
    start, sign = m.where(negative, 2.0, 0.0), m.where(negative, -m.power(m.where(negative, e, 0)), 1.0)
    result = m.number(start).plus_product(M.times_power(sign), m.tail(a, False))
    return result.tidy(), m.where(negative, 0, e)


@elementary
def gelu(x: Array, out: Array | None = None, *, where: Any = True, approximate: str = "none") -> Any:
    """Return x·Φ(x), Φ the normal distribution, correctly rounded: `torch.nn.functional.gelu`.

    As `ozaki.exp`; differs in the function, and in what it is told.

    Parameters
    ----------
    approximate : "none", or "tanh" for x·sigmoid(2√(2/π)·(x + 0.044715·x³)), a function of its own.

    >>> float(gelu(1.0))
    0.8413447460685429
    """
    return apply(gelu_text(approximate), x, out=out, where=where)


def gelu_text(approximate: str) -> str:
    """Return the name of the text that is meant."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return "gelu" if approximate == "none" else "gelu_tanh"


@function(-40.0, 40.0, above(40.0, same), below(-40.0, -0.0), zero, loss=(0, 2, 0), halved=True)
def _gelu(m, x):
    """x·Φ(x), Φ(x) = exp(-x²/2) times a smooth function of |x| for x < 0, and 1 - Φ(-x)."""
    a = abs(x)
    M, e = m.exp(-(m.number(a) * m.number(a)).times_power(m.power(-1)), factor=True)
    negative = x < 0.0
    start, sign = m.where(negative, 0.0, 1.0), m.where(negative, 1.0, -m.power(m.where(e < -1000, -1000, e)))
    result = m.number(start).plus_product(M.times_power(sign), m.tail(a, True))
    factor, shift = lifted(m, x)
    return result * factor, m.where(negative, e, 0) + shift


@function(-22.0, 22.0, above(22.0, same), below(-22.0, -0.0), zero, loss=(5, 1, 0), halved=True)
def _gelu_tanh(m, x):
    """x·sigmoid(2√(2/π)·(x + 0.044715·x³))."""
    a = m.number(abs(x))
    cubic = m.constant("sqrt(2/pi)") * 2.0 * (a * (1.0 + a * a * m.number(Fraction(44715, 10**6))))
    s, e = sigmoid_of(m, x, cubic)
    factor, shift = lifted(m, x)
    return s * factor, e + shift
