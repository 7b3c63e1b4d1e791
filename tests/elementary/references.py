"""What elementary functions are, twice: in float64 by NumPy or CuPy, and in many digits by mpmath.

Neither knows anything of `ozaki.elementary`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import mpmath
import numpy as np

mp = mpmath.MPContext()
mp.prec = 400


class Reference(NamedTuple):
    """float64 values, by (xp, special, x), good to 2**-bits; and mpmath's."""

    approximate: Callable[[Any, Any, Any], Any]
    exact: Callable[[Any], Any]
    bits: int = 46


def _quarter(xp, x):
    """Return r and n: x = n/2 + r, exactly, |r| <= 1/4, n modulo 4."""
    n = xp.rint(2 * x)
    return x - n / 2, (n - 4 * xp.floor(n / 4)).astype(np.int64)


def _sinpi(xp, x):
    r, n = _quarter(xp, x)
    s, c = xp.sin(np.pi * r), xp.cos(np.pi * r)
    value = xp.where(n % 2 == 0, s, c) * xp.where(n >= 2, -1.0, 1.0)
    return xp.where(xp.floor(x) == x, xp.copysign(xp.zeros_like(x), x), value)


def _cospi(xp, x):
    r, n = _quarter(xp, x)
    s, c = xp.sin(np.pi * r), xp.cos(np.pi * r)
    return xp.where(n % 2 == 0, c, -s) * xp.where(n >= 2, -1.0, 1.0) + 0.0


def _sigmoid(xp, x):
    return xp.where(x < 0, xp.exp(x), 1.0) / (1 + xp.exp(-xp.abs(x)))


def _tanh_gelu(xp, x):
    cubic = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return _just_above_half(xp, x, x * _sigmoid(xp, cubic))


def _just_above_half(xp, x, y):
    """Return y, or where |x| is tiny, what rounds as x/2 + x²/c does: x/2 is often half way. −0 stays −0."""
    near = xp.where(x == 0, x, x / 2 + xp.abs(x) * 2.0**-36)
    return xp.where(xp.abs(x) < 2.0**-60, near, y)


def _exact_sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def _logit(xp, x):
    near = xp.abs(x - 0.5) < 0.25
    return xp.where(near, xp.log1p((2 * x - 1) / xp.where(near, 1 - x, 1.0)), xp.log(x / (1 - x)))


def _mish(xp, x):
    e = xp.exp(-xp.abs(x))
    below = e * (e + 2) / (e * (e + 2) + 2)
    above = (1 + 2 * e) / (1 + 2 * e + 2 * e * e)
    return x * xp.where(x < 0, below, above)


def _plain(name: str, exact: Callable[[Any], Any] | None = None, bits: int = 47) -> Reference:
    return Reference(lambda xp, special, x: getattr(xp, name)(x), exact or getattr(mp, name), bits)


REFERENCES = {
    "exp": _plain("exp"),
    "exp2": _plain("exp2", lambda x: mp.mpf(2) ** x),
    "exp10": Reference(lambda xp, special, x: xp.power(10.0, x), lambda x: mp.mpf(10) ** x),
    "expm1": _plain("expm1"),
    "log": _plain("log", mp.ln),
    "log2": _plain("log2", lambda x: mp.log(x) / mp.log(2)),
    "log10": _plain("log10"),
    "log1p": _plain("log1p"),
    "sqrt": _plain("sqrt"),
    "rsqrt": Reference(lambda xp, special, x: 1 / xp.sqrt(x), lambda x: 1 / mp.sqrt(x)),
    "cbrt": _plain("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "sin": _plain("sin"),
    "cos": _plain("cos"),
    "tan": _plain("tan"),
    "sinpi": Reference(lambda xp, special, x: _sinpi(xp, x), mp.sinpi),
    "cospi": Reference(lambda xp, special, x: _cospi(xp, x), mp.cospi),
    "asin": _plain("arcsin", mp.asin),
    "acos": _plain("arccos", mp.acos),
    "atan": _plain("arctan", mp.atan),
    "sinh": _plain("sinh"),
    "cosh": _plain("cosh"),
    "tanh": _plain("tanh"),
    "asinh": _plain("arcsinh", mp.asinh),
    "acosh": _plain("arccosh", mp.acosh),
    "atanh": _plain("arctanh", mp.atanh),
    "erf": Reference(lambda xp, special, x: special.erf(x), mp.erf),
    "erfc": Reference(lambda xp, special, x: special.erfc(x), mp.erfc, 44),
    "sigmoid": Reference(lambda xp, special, x: _sigmoid(xp, x), _exact_sigmoid),
    "logit": Reference(lambda xp, special, x: _logit(xp, x), lambda x: mp.log(x / (1 - x))),
    "softplus": Reference(
        lambda xp, special, x: xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x))), lambda x: mp.log1p(mp.exp(x))
    ),
    "silu": Reference(
        lambda xp, special, x: _just_above_half(xp, x, x * _sigmoid(xp, x)), lambda x: x * _exact_sigmoid(x)
    ),
    "gelu": Reference(
        lambda xp, special, x: _just_above_half(xp, x, x * special.erfc(-x / math.sqrt(2)) / 2),
        lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
        40,
    ),
    "gelu_tanh": Reference(
        lambda xp, special, x: _tanh_gelu(xp, x),
        lambda x: x * _exact_sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(44715) / 10**6 * x**3)),
        40,
    ),
    "elu": Reference(
        lambda xp, special, x: xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0))),
        lambda x: x if x > 0 else mp.expm1(x),
    ),
    "mish": Reference(lambda xp, special, x: _mish(xp, x), lambda x: x * mp.tanh(mp.log1p(mp.exp(x)))),
}


def special_of(xp):
    """Return SciPy's special functions, CuPy's, or what Python has of them."""
    if xp is not np:
        from cupyx.scipy import special

        return special

    class Special:
        erf = staticmethod(np.vectorize(math.erf, otypes=[float]))
        erfc = staticmethod(np.vectorize(math.erfc, otypes=[float]))

    return Special


def nearest(t: Any, dtype: Any) -> Any:
    """Return mpmath's number rounded to a dtype, subnormal numbers included."""
    info = ml_dtypes.finfo(dtype)
    if not mp.isfinite(t):
        return info.dtype.type(t)
    digits, least = info.nmant + 1, int(info.minexp) - info.nmant
    place = max(mp.frexp(t)[1] - digits, least) if t else least
    count = int(mp.nint(mp.ldexp(abs(t), -place)))  # of ties the even one
    value = math.inf if count.bit_length() + place > 1024 else math.ldexp(count, place)
    with np.errstate(over="ignore"):
        return info.dtype.type(math.copysign(value, t))
