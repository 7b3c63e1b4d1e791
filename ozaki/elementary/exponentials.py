"""exp and its like, hyperbolic functions, the activations of networks."""

from __future__ import annotations

from math import inf
from typing import Any

from multiword.runtime.arrays import Array
from ozaki.elementary.api import apply
from ozaki.elementary.record import (
    LARGEST,
    above,
    at,
    below,
    bounded,
    decayed,
    decaying,
    down,
    elementary,
    function,
    identity_near_0,
    lifted,
    same,
    sigmoid_of,
    with_sign,
    zero,
)


@elementary
def exp(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return e**x, correctly rounded: `numpy.exp`.

    Parameters
    ----------
    x : array of any shape, float16, bfloat16, float32 or float64, NumPy or CuPy; integers and booleans count
        as float64. complex64 and complex128 in `exp`, `log`, `abs` and `angle`.
    out : array of the result's shape and dtype, on the same device, to be filled; x itself may be it.
    where : booleans that broadcast with x: elements elsewhere keep what `out` has, or are 0.

    Returns
    -------
    Array of the dtype of x, or float64: the exact value for each number, rounded to nearest, ties to even.
    The same bits on a CPU, with and without numba, and on a GPU. Infinities, NaN and signs of zero as in IEEE
    754 and annex F of C; a NaN is always the same one. No warnings. Of a complex x both parts of the exact
    value, e**x.real·cos(x.imag) and e**x.real·sin(x.imag), are each rounded once, however small one is beside
    the other, with annex G's infinities and NaN.

    Raises
    ------
    TypeError : x is complex in another function, a `numpy.longdouble` or not numeric, or has integers beyond
        2**53; where is not boolean; out is no array of x's kind and of the result's dtype.
    ValueError : shapes do not broadcast; out has another shape, or is read-only.

    References
    ----------
    Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit" (1991);
    Muller, Elementary Functions (2016); Sibidanov, Zimmermann and Glondu, "The CORE-MATH project" (2022).

    >>> float(exp(0.0))
    1.0
    """
    return apply("exp", x, out=out, where=where)


@function(-746.0, 710.0, above(710.0), below(-746.0, 0.0))
def _exp(m, x):
    """e**x."""
    return m.exp(m.number(x))


@elementary
def exp2(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 2**x, correctly rounded: `numpy.exp2`.

    As `ozaki.exp`; differs in the function.

    >>> float(exp2(0.5))
    1.4142135623730951
    """
    return apply("exp2", x, out=out, where=where)


# 2**-150 is half way between two float32 numbers: no bound decides it, and integers take their time.
@function(-1076.0, 1025.0, above(1025.0), below(-1076.0, 0.0), at(-150.0, 2.0**-150))
def _exp2(m, x):
    """2**x."""
    return m.exp(m.number(x), "2")


@elementary
def exp10(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 10**x, correctly rounded: `scipy.special.exp10`.

    As `ozaki.exp`; differs in the function.

    >>> float(exp10(23.0))
    1e+23
    """
    return apply("exp10", x, out=out, where=where)


@function(-325.0, 309.0, above(309.0), below(-325.0, 0.0))
def _exp10(m, x):
    """10**x."""
    return m.exp(m.number(x), "10")


@elementary
def expm1(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return e**x - 1, accurate near 0, correctly rounded: `numpy.expm1`.

    As `ozaki.exp`; differs in the function.

    >>> float(expm1(1e-20))
    1e-20
    """
    return apply("expm1", x, out=out, where=where)


@function(-inf, 710.0, above(710.0), identity_near_0)
def _expm1(m, x):
    """e**x - 1."""
    A, _, e = m.expm1(m.number(m.where(x < -60.0, -60.0, x)))
    return A, e


@elementary
def sinh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the hyperbolic sine of x, correctly rounded: `numpy.sinh`.

    As `ozaki.exp`; differs in the function.

    >>> float(sinh(1.0))
    1.1752011936438014
    """
    return apply("sinh", x, out=out, where=where)


@function(-711.0, 711.0, above(711.0), below(-711.0, -inf), identity_near_0)
def _sinh(m, x):
    """(e**x - e**-x) / 2."""
    S, e = m.sinh(abs(x))
    return with_sign(m, x, S), e


@elementary
def cosh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the hyperbolic cosine of x, correctly rounded: `numpy.cosh`.

    As `ozaki.exp`; differs in the function.

    >>> float(cosh(1.0))
    1.5430806348152437
    """
    return apply("cosh", x, out=out, where=where)


@function(-711.0, 711.0, above(711.0), below(-711.0, inf))
def _cosh(m, x):
    """(e**x + e**-x) / 2."""
    M, e = m.exp(m.number(abs(x)))
    small = down(m, e)
    return M.plus_smaller((1.0 / M).times_power(small).times_power(small)), e - 1


@elementary
def tanh(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the hyperbolic tangent of x, correctly rounded: `numpy.tanh`.

    As `ozaki.exp`; differs in the function.

    >>> float(tanh(1.0))
    0.7615941559557649
    """
    return apply("tanh", x, out=out, where=where)


@function(-inf, inf, identity_near_0)
def _tanh(m, x):
    """a / (a + 2) for a = e**(2x) - 1; from 22 on it rounds to 1."""
    A, _, e = m.expm1(m.number(2.0 * bounded(m, x, 22.0)))
    return with_sign(m, x, A / (A + m.power(1 - e)))


@elementary
def sigmoid(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return 1 / (1 + e**-x), correctly rounded: `torch.sigmoid`.

    As `ozaki.exp`; differs in the function.

    >>> float(sigmoid(0.0))
    0.5
    """
    return apply("sigmoid", x, out=out, where=where)


@function(-746.0, LARGEST, above(LARGEST, 1.0), below(-746.0, 0.0))
def _sigmoid(m, x):
    """1 / (1 + e**-x)."""
    return sigmoid_of(m, x, m.number(bounded(m, x, decayed(m))), decayed(m))


@elementary
def silu(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x / (1 + e**-x), correctly rounded: `torch.nn.functional.silu`.

    As `ozaki.exp`; differs in the function.

    >>> float(silu(1.0))
    0.7310585786300049
    """
    return apply("silu", x, out=out, where=where)


@function(-760.0, LARGEST, above(LARGEST, inf), below(-760.0, -0.0), zero, halved=True)
def _silu(m, x):
    """x / (1 + e**-x)."""
    s, e = sigmoid_of(m, x, m.number(bounded(m, x, decayed(m))), decayed(m))
    factor, shift = lifted(m, x)
    return s * factor, e + shift


@elementary
def softplus(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return log(1 + e**x), correctly rounded: `torch.nn.functional.softplus`.

    As `ozaki.exp`; differs in the function.

    >>> float(softplus(0.0))
    0.6931471805599453
    """
    return apply("softplus", x, out=out, where=where)


@function(-746.0, LARGEST, above(LARGEST, inf), below(-746.0, 0.0))
def _softplus(m, x):
    """log(1 + e**x) = max(x, 0) + log1p(e**-|x|)."""
    M, e, E = decaying(m, m.number(bounded(m, x, decayed(m))), decayed(m))
    log1p = m.log1p(E, part=True)
    far = x < -400.0  # there E³/3, which is left out, is less than 2**-1154 of the result
    result = m.where(x < 0.0, log1p, m.number(x) + log1p)
    return m.where(far, M - M * E.times_power(m.power(-1)), result), m.where(far, e, 0)


@elementary
def mish(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x·tanh(log(1 + e**x)), correctly rounded: `torch.nn.functional.mish`.

    As `ozaki.exp`; differs in the function.

    >>> float(mish(1.0))
    0.8650983882673103
    """
    return apply("mish", x, out=out, where=where)


@function(-760.0, LARGEST, above(LARGEST, inf), below(-760.0, -0.0), zero)
def _mish(m, x):
    """x·tanh(softplus(x)) = x·E(E + 2) / (E(E + 2) + 2) for E = e**x, and with 1/E for x > 0."""
    M, e, E = decaying(m, m.number(bounded(m, x, decayed(m))), decayed(m))
    negative = x < 0.0
    one = 1.0 + E.times_power(m.power(1))
    square = E * E
    numerator = m.where(negative, M * (E + 2.0), one)
    denominator = m.where(negative, 2.0 + (square + E + E), one + (square + square))
    factor, shift = lifted(m, x)
    return numerator / denominator * factor, m.where(negative, e, 0) + shift


@elementary
def elu(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return x for x > 0, e**x - 1 elsewhere, correctly rounded: `torch.nn.functional.elu`.

    As `ozaki.exp`; differs in the function.

    >>> float(elu(-1.0))
    -0.6321205588285577
    """
    return apply("elu", x, out=out, where=where)


@function(-inf, 0.0, above(0.0, same), identity_near_0)
def _elu(m, x):
    """e**x - 1 for x < 0, x elsewhere."""
    return _expm1(m, x)
