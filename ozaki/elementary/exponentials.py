"""exp and its like, hyperbolic functions, the activations of networks."""

from __future__ import annotations

from math import inf

from ozaki.elementary.record import (
    LARGEST,
    above,
    below,
    bounded,
    decaying,
    down,
    function,
    identity_near_0,
    lifted,
    same,
    sigmoid_of,
    with_sign,
    zero,
)


@function(-746.0, 710.0, above(710.0), below(-746.0, 0.0))
def exp(m, x):
    """e**x."""
    return m.exp(m.number(x))


@function(-1076.0, 1025.0, above(1025.0), below(-1076.0, 0.0))
def exp2(m, x):
    """2**x."""
    return m.exp(m.number(x), "2")


@function(-325.0, 309.0, above(309.0), below(-325.0, 0.0))
def exp10(m, x):
    """10**x."""
    return m.exp(m.number(x), "10")


@function(-inf, 710.0, above(710.0), identity_near_0)
def expm1(m, x):
    """e**x - 1."""
    A, _, e = m.expm1(m.number(m.where(x < -60.0, -60.0, x)))
    return A, e


@function(-711.0, 711.0, above(711.0), below(-711.0, -inf), identity_near_0)
def sinh(m, x):
    """(e**x - e**-x) / 2 = (a + a/(a + 1)) / 2 for a = e**x - 1."""
    A, M, e = m.expm1(m.number(abs(x)))
    return with_sign(m, x, A + (A / M).times_power(down(m, e))), e - 1


@function(-711.0, 711.0, above(711.0), below(-711.0, inf))
def cosh(m, x):
    """(e**x + e**-x) / 2."""
    M, e = m.exp(m.number(abs(x)))
    small = down(m, e)
    return M.plus_smaller((1.0 / M).times_power(small).times_power(small)), e - 1


@function(-22.0, 22.0, above(22.0, 1.0), below(-22.0, -1.0), identity_near_0)
def tanh(m, x):
    """a / (a + 2) for a = e**(2x) - 1."""
    A, _, e = m.expm1(m.number(2.0 * abs(x)))
    return with_sign(m, x, A / (A + m.power(1 - e)))


@function(-746.0, LARGEST, above(LARGEST, 1.0), below(-746.0, 0.0))
def sigmoid(m, x):
    """1 / (1 + e**-x)."""
    return sigmoid_of(m, x, m.number(bounded(m, x)))


@function(-760.0, LARGEST, above(LARGEST, inf), below(-760.0, -0.0), zero, halved=True)
def silu(m, x):
    """x / (1 + e**-x)."""
    s, e = sigmoid_of(m, x, m.number(bounded(m, x)))
    factor, shift = lifted(m, x)
    return s * factor, e + shift


@function(-746.0, LARGEST, above(LARGEST, inf), below(-746.0, 0.0))
def softplus(m, x):
    """log(1 + e**x) = max(x, 0) + log1p(e**-|x|)."""
    M, e, E = decaying(m, m.number(bounded(m, x)))
    log1p = m.log1p(E)
    far = x < -45.0
    result = m.where(x < 0.0, log1p, m.number(x) + log1p)
    return m.where(far, M - M * E.times_power(m.power(-1)), result), m.where(far, e, 0)


@function(-760.0, LARGEST, above(LARGEST, inf), below(-760.0, -0.0), zero)
def mish(m, x):
    """x·tanh(softplus(x)) = x·E(E + 2) / (E(E + 2) + 2) for E = e**x, and with 1/E for x > 0."""
    M, e, E = decaying(m, m.number(bounded(m, x)))
    negative = x < 0.0
    one = 1.0 + E.times_power(m.power(1))
    square = E * E
    numerator = m.where(negative, M * (E + 2.0), one)
    denominator = m.where(negative, 2.0 + (square + E + E), one + (square + square))
    factor, shift = lifted(m, x)
    return numerator / denominator * factor, m.where(negative, e, 0) + shift


@function(-inf, 0.0, above(0.0, same), identity_near_0)
def elu(m, x):
    """e**x - 1 for x < 0, x elsewhere."""
    A, _, e = m.expm1(m.number(m.where(x < -60.0, -60.0, x)))
    return A, e
