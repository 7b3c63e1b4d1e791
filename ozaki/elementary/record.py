"""What a function is: a text, where that holds, and what stands beside it; and the parts of several texts.

A text takes a machine (`cores.Machine`, `many.Many`) and arguments. It returns a number, or (M, e): M·2**e.
Nothing in it cancels: each is good to about the machine's bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, TypeVar

from ozaki.elementary import values
from ozaki.public import public

T = TypeVar("T", bound=Callable[..., Any])

LARGEST = 1.7976931348623157e308
TINY = 2.0**-55
"""|f(x) - x| <= x² rounds to x below."""

FUNCTIONS: dict[str, Function] = {}
"""Every elementary function's record, by name."""

PARTS = {"exp": ("exp_cos", "exp_sin"), "log": ("log_abs", "atan2"), "abs": ("hypot",), "angle": ("atan2",)}
"""The functions of x and y, atan2 of y and x, that are the parts of one of x + iy; each is rounded once."""


def elementary(function: T) -> T:
    """Make a function public, for the arrays of every library, those with derivatives included."""
    name = function.__name__
    return public("Elementary functions", dask=True, torch=name, jax=name)(function)


@dataclass(frozen=True)
class Function:
    """An elementary function.

    Attributes
    ----------
    name, text : its name, and what computes it.
    low, high : the arguments, these two included, that its text takes.
    special : pairs of a condition and a value, functions of the arguments: what is written elsewhere, and
        where the text's result would be of another sign or slow. The last that holds counts.
    nan_outside : whether the value of other arguments is NaN, and low is -high.
    safe : the argument that the text has elsewhere.
    arguments : how many; in messages they are called `names`.
    loss : bits by which results are worse than the machine's, of float32, of float64 and of the last text.
    exact : a function of the arguments that returns the value where that is rational, or else None.
    halved : whether the function is x/2 + c·x² near 0, c > 0, which no digits part from x/2.
    """

    name: str
    text: Callable[..., Any]
    low: float
    high: float
    special: tuple[tuple[Callable[..., Any], Any], ...] = ()
    nan_outside: bool = False
    safe: float = 0.5
    arguments: int = 1
    names: str = "xy"
    loss: tuple[int, int, int] = (0, 0, 0)
    exact: Callable[..., Fraction | None] | None = None
    halved: bool = False


def function(
    low: float, high: float, *special: tuple[Callable[..., Any], Any], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a text a function of its name, which has an underscore in front."""

    def register(text: Callable[..., Any]) -> Callable[..., Any]:
        name = text.__name__.removeprefix("_")
        FUNCTIONS[name] = Function(name, text, low, high, special, **options)
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
    """Return a nonnegative result with the sign of x."""
    return m.signed(x, result)


def lifted(m: Any, x: Any) -> tuple[Any, Any]:
    """Return x' and e, x = x'·2**e, so that products with x' keep all their bits; float32 numbers' do."""
    if m.of_single:
        return x, 0
    small = abs(x) < 2.0**-500
    return m.where(small, x * 2.0**300, x), m.where(small, -300, 0)


def limited(m: Any, e: Any) -> Any:
    """Return e, or the power of two from which on results are infinite: more would leave float64."""
    return m.where(e > m.most, m.most, e)


def down(m: Any, e: Any) -> Any:
    """Return 2**-e, or where that is as good as nothing, 2**-200."""
    return m.power(m.where(e > 200, -200, -e))


def bounded(m: Any, x: Any, most: float) -> Any:
    """Return |x|, or where that is more, a number from which on a function changes no more."""
    return m.where(abs(x) > most, most, abs(x))


def decayed(m: Any) -> float:
    """Return a number from which on exp(-x) is nothing, beside float32 or float64 numbers."""
    return 690.0 if m.of_single else 800.0


def decaying(m: Any, x: Any, most: float = 800.0) -> tuple[Any, Any, Any]:
    """Return M, e, E: exp(-x) = M·2**e = E for a number x, 0 <= x <= most; E is 2**-1000 and more."""
    M, e = m.exp(-x)
    return M, e, M.times_power(m.power(e if most <= 690.0 else m.where(e < -1000, -1000, e)))


def sigmoid_of(m: Any, sign: Any, x: Any, most: float = 800.0) -> tuple[Any, Any]:
    """Return the sigmoid of a number's magnitude x, 0 <= x <= most, and a sign."""
    M, e, E = decaying(m, x, most)
    negative = sign < 0.0
    return m.where(negative, M, m.number(1.0)) / m.number(1.0).plus_smaller(E), m.where(negative, e, 0)


def integral(x: Any) -> Any:
    """Return whether a value is an integer."""
    a = abs(x)
    return (a >= 2.0**52) | ((a + 2.0**52) - 2.0**52 == a)
