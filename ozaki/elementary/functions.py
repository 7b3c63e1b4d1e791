"""The functions: for each its text, where that holds, and what stands beside it.

A text takes a machine (`cores.Machine`, `many.Many`) and arguments. It returns a number, or (M, e):
M·2**e.
Nothing in it cancels: each is good to about the machine's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, nan, pi
from typing import Any

from ozaki.elementary import values

LARGEST = 1.7976931348623157e308
TINY = 2.0**-55
"""|f(x) - x| <= x² rounds to x below."""

FUNCTIONS: dict[str, Function] = {}


@dataclass(frozen=True)
class Function:
    """An elementary function.

    Attributes
    ----------
    name, text : its name, and what computes it.
    low, high : the arguments, these two included, that its text takes.
    special : pairs of a condition and a value, functions of the arguments: what is written elsewhere, and
        where the text's result would be of another sign or slow. The last that holds counts.
    safe : the argument that the text has elsewhere.
    arguments : how many; in messages they are called `names`.
    loss : bits by which results are worse than the machine's, of float32 and float64.
    exact : a function of the arguments that returns the value where that is rational, or else None.
    """

    name: str
    text: Callable[..., Any]
    low: float
    high: float
    special: tuple[tuple[Callable[..., Any], Any], ...] = ()
    safe: float = 0.5
    arguments: int = 1
    names: str = "xy"
    loss: tuple[int, int] = (0, 0)
    exact: Callable[..., Fraction | None] | None = None


def function(
    low: float, high: float, *special: tuple[Callable[..., Any], Any], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a text a function of its name."""

    def register(text: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[text.__name__] = Function(text.__name__, text, low, high, special, **options)
        return text

    return register


def above(bound: float, value: Any = inf) -> tuple[Callable[..., Any], Any]:
    return lambda x: x > bound, value


def below(bound: float, value: Any) -> tuple[Callable[..., Any], Any]:
    return lambda x: x < bound, value


def at(point: float, value: Any) -> tuple[Callable[..., Any], Any]:
    return lambda x: x == point, value


def same(x: Any) -> Any:
    return x


def signed(value: float) -> Callable[[Any], Any]:
    return lambda x: values.where(x < 0.0, -value, value)


identity_near_0 = (lambda x: abs(x) < TINY, same)
zero = at(0.0, same)


def with_sign(m: Any, x: Any, result: Any) -> Any:
    """Return a result with the sign of x."""
    return m.where(x < 0.0, -result, result)


def lifted(m: Any, x: Any) -> tuple[Any, Any]:
    """Return x' and e, x = x'·2**e, so that products with x' keep all their bits."""
    small = abs(x) < 2.0**-500
    return m.where(small, x * 2.0**300, x), m.where(small, -300, 0)


def down(m: Any, e: Any) -> Any:
    """Return 2**-e, or where that is as good as nothing, 2**-200."""
    return m.power(m.where(e > 200, -200, -e))


def bounded(m: Any, x: Any, most: float = 800.0) -> Any:
    """Return |x|, or where that is more, a number from which on a function changes no more."""
    return m.where(abs(x) > most, most, abs(x))


def decaying(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return M, e, E: exp(-x) = M·2**e = E for a number x >= 0; E is 2**-1000 and more."""
    M, e = m.exp(-x)
    return M, e, M.times_power(m.power(m.where(e < -1000, -1000, e)))


# exponentials -----------------------------------------------------------------------------------------


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
    return _sigmoid(m, x, m.number(bounded(m, x)))


def _sigmoid(m, sign, x):
    """The sigmoid of a number's magnitude x, and a sign."""
    M, e, E = decaying(m, x)
    negative = sign < 0.0
    return m.where(negative, M, m.number(1.0)) / (1.0 + E), m.where(negative, e, 0)


@function(-760.0, LARGEST, above(LARGEST, inf), below(-760.0, -0.0), zero)
def silu(m, x):
    """x / (1 + e**-x)."""
    s, e = _sigmoid(m, x, m.number(bounded(m, x)))
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


# the normal distribution ------------------------------------------------------------------------------


@function(-inf, inf, zero)
def erf(m, x):
    """x times a smooth function of x² up to 6, from where on it rounds to 1."""
    a = bounded(m, x, 6.0)
    factor, shift = lifted(m, with_sign(m, x, a))
    return m.erf_ratio(a) * factor, shift


@function(-7.0, 28.0, above(28.0, 0.0), below(-7.0, 2.0))
def erfc(m, x):
    """exp(-x²) times a smooth function of |x|, taken from 2 for x < 0."""
    a = abs(x)
    M, e, E = decaying(m, m.number(a) * m.number(a))
    factor = m.tail(a, False)
    negative = x < 0.0
    return m.where(negative, 2.0 - E * factor, M * factor), m.where(negative, 0, e)


@function(-40.0, 40.0, above(40.0, same), below(-40.0, -0.0), zero)
def gelu(m, x):
    """x·Φ(x), Φ(x) = exp(-x²/2) times a smooth function of |x| for x < 0, and 1 - Φ(-x)."""
    a = abs(x)
    M, e, E = decaying(m, (m.number(a) * m.number(a)).times_power(m.power(-1)))
    smooth = m.tail(a, True)
    negative = x < 0.0
    factor, shift = lifted(m, x)
    return m.where(negative, M * smooth, 1.0 - E * smooth) * factor, m.where(negative, e, 0) + shift


@function(-22.0, 22.0, above(22.0, same), below(-22.0, -0.0), zero, loss=(5, 1))
def gelu_tanh(m, x):
    """x·sigmoid(2√(2/π)·(x + 0.044715·x³))."""
    a = m.number(abs(x))
    cubic = m.constant("sqrt(2/pi)") * 2.0 * (a * (1.0 + a * a * m.number(Fraction(44715, 10**6))))
    s, e = _sigmoid(m, x, cubic)
    factor, shift = lifted(m, x)
    return s * factor, e + shift


# logarithms -------------------------------------------------------------------------------------------

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


# powers -----------------------------------------------------------------------------------------------


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


# angles -----------------------------------------------------------------------------------------------

not_infinite = (above(LARGEST, nan), below(-LARGEST, nan))


def integral(x: Any) -> Any:
    """Return whether a value is an integer."""
    a = abs(x)
    return (a >= 2.0**52) | ((a + 2.0**52) - 2.0**52 == a)


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


# of two arguments -------------------------------------------------------------------------------------


def _even_scale(m, large):
    """A power of two by which the squares of numbers up to `large` stay in range, and its exponent."""
    huge, small = large > 2.0**500, large < 2.0**-400
    scale = m.where(huge, 2.0**-600, m.where(small, 2.0**600, 1.0))
    return scale, m.where(huge, 600, m.where(small, -600, 0))


either_nan = (lambda x, y: (x != x) | (y != y)), nan


def infinite(x: Any) -> Any:
    return abs(x) == inf


@function(
    -inf,
    inf,
    (lambda x, y: (x == 0.0) & (y == 0.0), 0.0),
    (lambda x, y: infinite(x) | infinite(y), inf),
    arguments=2,
)
def hypot(m, x, y):
    """√(x² + y²)."""
    a, b = abs(x), abs(y)
    large, small = m.where(a > b, a, b), m.where(a > b, b, a)
    scale, e = _even_scale(m, large)
    large, small = m.number(large).times_power(scale), m.number(small).times_power(scale)
    return (large * large + small * small).sqrt(), e


@function(
    -inf,
    inf,
    (lambda x, y: x == -inf, lambda x, y: y + 0.0),  # +0 for -0
    (lambda x, y: y == -inf, lambda x, y: x + 0.0),
    (lambda x, y: (x == inf) | (y == inf), inf),
    either_nan,
    arguments=2,
    loss=(4, 4),
)
def logaddexp(m, x, y):
    """log(e**x + e**y) = x + log1p(e**(y - x)) for x >= y."""
    large, small = m.where(x > y, x, y), m.where(x > y, y, x)
    gap = large - small
    m.doubtful((gap > 690.0) & (abs(large) < 2.0**-900))  # perhaps a subnormal result
    exact = m.number(large) - m.number(small)
    _, _, E = decaying(m, m.where(gap > 800.0, m.number(800.0), exact))
    return m.balanced(m.number(large), m.log1p(E))


def minus(x: Any) -> Any:
    """Return whether the sign of a value is negative, -0 included."""
    return values.bits(x) < 0


def angle(value: float) -> Callable[[Any, Any], Any]:
    return lambda y, x: values.where(minus(y), -value, value)


@function(
    -inf,
    inf,
    (lambda y, x: (y == 0.0) & ~minus(x), lambda y, x: y),
    (lambda y, x: (y == 0.0) & minus(x), angle(pi)),
    (lambda y, x: (y != 0.0) & (x == 0.0), angle(pi / 2)),
    (lambda y, x: (x == inf) & ~infinite(y), angle(0.0)),
    (lambda y, x: (x == -inf) & ~infinite(y), angle(pi)),
    (lambda y, x: infinite(y) & ~infinite(x), angle(pi / 2)),
    (lambda y, x: infinite(y) & (x == inf), angle(pi / 4)),
    (lambda y, x: infinite(y) & (x == -inf), angle(3 * pi / 4)),
    either_nan,
    arguments=2,
    names="yx",
)
def atan2(m, y, x):
    """The angle of (x, y), from -π to π."""
    a, b = abs(y), abs(x)
    scale, _ = _even_scale(m, m.where(a > b, a, b))
    m.doubtful(a * 2.0**450 < b * 2.0**-450)  # perhaps a subnormal result
    theta = m.atan(m.number(a).times_power(scale), m.number(b).times_power(scale))
    return with_sign(m, y, m.where(x < 0.0, m.constant("pi") - theta, theta))


def odd(y: Any) -> Any:
    """Return whether a value is an odd integer."""
    half = abs(y) * 0.5
    return integral(y) & (half < 2.0**52) & ((half + 2.0**52) - 2.0**52 != half)


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


@function(
    -inf,
    inf,
    (lambda x, y: (x < 0.0) & ~integral(y), nan),
    (lambda x, y: (x == 0.0) & (y > 0.0), lambda x, y: values.where(odd(y), x, 0.0)),
    (lambda x, y: (x == 0.0) & (y < 0.0), lambda x, y: values.where(odd(y) & minus(x), -inf, inf)),
    (lambda x, y: infinite(x) & (y > 0.0), lambda x, y: values.where(odd(y) & minus(x), -inf, inf)),
    (lambda x, y: infinite(x) & (y < 0.0), lambda x, y: values.where(odd(y) & minus(x), -0.0, 0.0)),
    (lambda x, y: infinite(y) & (((abs(x) < 1.0) & (y > 0.0)) | ((abs(x) > 1.0) & (y < 0.0))), 0.0),
    (lambda x, y: infinite(y) & (((abs(x) > 1.0) & (y > 0.0)) | ((abs(x) < 1.0) & (y < 0.0))), inf),
    (lambda x, y: infinite(y) & (abs(x) == 1.0), 1.0),
    (lambda x, y: (y == 0.0) | (x == 1.0), 1.0),
    arguments=2,
    loss=(5, 1),
    exact=_power,
)
def pow(m, x, y):
    """exp(y·log|x|), the logarithm in more digits, and the sign of an odd power."""
    a = abs(x)
    small = a < 2.0**-1022
    exponent = m.finer().log(m.where(small, a * 2.0**54, a), m.where(small, -54, 0)) * y
    bounded = m.where(exponent > 800.0, 800.0, m.where(exponent < -800.0, -800.0, exponent))
    M, e = m.exp(bounded)
    return m.where(x < 0.0, m.where(odd(y), -M, M), M), e
