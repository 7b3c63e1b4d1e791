"""First derivatives of the functions: one table of formulas.

They are computed in float64 by the functions themselves and IEEE operations, each rounded, in one order, and
rounded to the dtype of the argument. So a derivative has the same bits on every machine. It is not correctly
rounded: float32 ones nearly always are. Errors of float64 ones are some units in the last place of the
formula's largest term.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan, pi, sqrt
from typing import Any, NamedTuple

from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.rounding import rounded
from ozaki.elementary.values import single, where


class Slope(NamedTuple):
    """A partial derivative: as documents write it, and by (functions, *arguments).

    Attributes
    ----------
    decided : whether the longer text leaves no float32 argument undecided, so that a GPU need not be asked.
    """

    formula: str
    of: Callable[..., Any]
    decided: bool = False


def _silu(f: Any, x: Any) -> Any:
    x = f.clipped(x, 800.0)
    return f.sigmoid(x) * (1.0 + x * f.sigmoid(-x))


def _gelu(f: Any, x: Any) -> Any:
    x = f.clipped(x, 40.0)
    return f.erfc(x * -sqrt(0.5)) * 0.5 + x * f.exp(x * x * -0.5) * (1 / sqrt(2 * pi))


def _gelu_tanh(f: Any, x: Any) -> Any:
    x, scale = f.clipped(x, 25.0), 2 * sqrt(2 / pi)
    square = x * x
    cubic, slope = x * (1.0 + square * 0.044715) * scale, (1.0 + square * (3 * 0.044715)) * scale
    return f.sigmoid(cubic) * (1.0 + x * slope * f.sigmoid(-cubic))


def _mish(f: Any, x: Any) -> Any:
    x = f.clipped(x, 800.0)
    softplus = f.softplus(x)
    c = f.cosh(softplus)
    return f.tanh(softplus) + x * f.sigmoid(x) / c / c


def _inverse_square(x: Any) -> Any:
    return 1.0 / x / x


SLOPES: dict[str, tuple[Slope, ...]] = {
    "exp": (Slope("exp(x)", lambda f, x: f.exp(x)),),
    "exp2": (Slope("exp2(x)·log 2", lambda f, x: f.exp2(x) * log(2)),),
    "exp10": (Slope("exp10(x)·log 10", lambda f, x: f.exp10(x) * log(10)),),
    "expm1": (Slope("exp(x)", lambda f, x: f.exp(x)),),
    "log": (Slope("1 / x", lambda f, x: 1.0 / x),),
    "log2": (Slope("1 / log 2 / x", lambda f, x: (1 / log(2)) / x),),
    "log10": (Slope("1 / log 10 / x", lambda f, x: (1 / log(10)) / x),),
    "log1p": (Slope("1 / (1 + x)", lambda f, x: 1.0 / (1.0 + x)),),
    "sqrt": (Slope("rsqrt(x) / 2", lambda f, x: f.rsqrt(x) * 0.5),),
    "rsqrt": (Slope("-rsqrt(x) / 2x", lambda f, x: f.rsqrt(x) / x * -0.5),),
    "cbrt": (Slope("1 / 3cbrt(x)²", lambda f, x: _inverse_square(f.cbrt(x)) / 3.0),),
    "sin": (Slope("cos(x)", lambda f, x: f.cos(x)),),
    "cos": (Slope("-sin(x)", lambda f, x: -f.sin(x)),),
    "tan": (Slope("1 / cos(x)²", lambda f, x: _inverse_square(f.cos(x))),),
    "sinpi": (Slope("π·cospi(x)", lambda f, x: f.cospi(x) * pi),),
    "cospi": (Slope("-π·sinpi(x)", lambda f, x: f.sinpi(x) * -pi),),
    "asin": (Slope("rsqrt((1 - x)·(1 + x))", lambda f, x: f.rsqrt((1.0 - x) * (1.0 + x))),),
    "acos": (Slope("-rsqrt((1 - x)·(1 + x))", lambda f, x: -f.rsqrt((1.0 - x) * (1.0 + x))),),
    "atan": (Slope("1 / (1 + x²)", lambda f, x: 1.0 / (1.0 + x * x)),),
    "sinh": (Slope("cosh(x)", lambda f, x: f.cosh(x)),),
    "cosh": (Slope("sinh(x)", lambda f, x: f.sinh(x)),),
    "tanh": (Slope("1 / cosh(x)²", lambda f, x: _inverse_square(f.cosh(x))),),
    "asinh": (Slope("1 / hypot(x, 1)", lambda f, x: 1.0 / f.hypot(x, 1.0)),),
    "acosh": (Slope("rsqrt(x - 1)·rsqrt(x + 1)", lambda f, x: f.rsqrt(x - 1.0) * f.rsqrt(x + 1.0)),),
    "atanh": (Slope("1 / ((1 - x)·(1 + x))", lambda f, x: 1.0 / ((1.0 - x) * (1.0 + x))),),
    "erf": (Slope("2/√π·exp(-x²)", lambda f, x: f.exp(-(x * x)) * (2 / sqrt(pi))),),
    "erfc": (Slope("-2/√π·exp(-x²)", lambda f, x: f.exp(-(x * x)) * (-2 / sqrt(pi))),),
    "sigmoid": (Slope("sigmoid(x)·sigmoid(-x)", lambda f, x: f.sigmoid(x) * f.sigmoid(-x)),),
    "logit": (Slope("1 / (x·(1 - x))", lambda f, x: 1.0 / (x * (1.0 - x))),),
    "softplus": (Slope("sigmoid(x)", lambda f, x: f.sigmoid(x)),),
    "silu": (Slope("sigmoid(x)·(1 + x·sigmoid(-x))", _silu),),
    "gelu": (Slope("erfc(-x/√2)/2 + x·exp(-x²/2)/√(2π)", _gelu, decided=True),),
    "gelu_tanh": (
        Slope("sigmoid(c)·(1 + x·c'·sigmoid(-c)), c = 2√(2/π)·(x + 0.044715·x³)", _gelu_tanh, decided=True),
    ),
    "elu": (Slope("1 for x > 0, exp(x) elsewhere", lambda f, x: f.where(x > 0.0, 1.0, f.exp(x))),),
    "mish": (Slope("tanh(s) + x·sigmoid(x)/cosh(s)², s = softplus(x)", _mish),),
    "pow": (
        Slope(
            "y·pow(x, y - 1)",
            lambda f, x, y: f.where((x == 0.0) & (y == 0.0), 0.0, y * f.pow(x, y - 1.0)),
        ),
        Slope("pow(x, y)·log(x), or 0", lambda f, x, y: f.where(x == 0.0, 0.0, f.pow(x, y) * f.log(x))),
    ),
    "atan2": (
        Slope("x / hypot(x, y)²", lambda f, y, x: x / f.hypot(x, y) / f.hypot(x, y)),
        Slope("-y / hypot(x, y)²", lambda f, y, x: -y / f.hypot(x, y) / f.hypot(x, y)),
    ),
    "hypot": (
        Slope("x / hypot(x, y)", lambda f, x, y: x / f.hypot(x, y)),
        Slope("y / hypot(x, y)", lambda f, x, y: y / f.hypot(x, y)),
    ),
    "exp_cos": (
        Slope("exp(x)·cos(y)", lambda f, x, y: f.exp_cos(x, y)),
        Slope("-exp(x)·sin(y)", lambda f, x, y: -f.exp_sin(x, y)),
    ),
    "exp_sin": (
        Slope("exp(x)·sin(y)", lambda f, x, y: f.exp_sin(x, y)),
        Slope("exp(x)·cos(y)", lambda f, x, y: f.exp_cos(x, y)),
    ),
    "log_abs": (
        Slope("x / hypot(x, y)²", lambda f, x, y: x / f.hypot(x, y) / f.hypot(x, y)),
        Slope("y / hypot(x, y)²", lambda f, x, y: y / f.hypot(x, y) / f.hypot(x, y)),
    ),
    "exp_minus": (
        Slope("exp(x - y)", lambda f, x, y: f.exp_minus(x, y)),
        Slope("-exp(x - y)", lambda f, x, y: -f.exp_minus(x, y)),
    ),
    "logaddexp": (
        Slope("sigmoid(x - y)", lambda f, x, y: f.sigmoid(x - y)),
        Slope("sigmoid(y - x)", lambda f, x, y: f.sigmoid(y - x)),
    ),
}
"""The derivatives, with respect to each argument; where one is clipped, float64 ones no longer change."""


def clipped(f: Any, x: Any, most: float) -> Any:
    """Return x, or the end of [-most, most] that is nearer to it."""
    return f.where(x > most, most, f.where(x < -most, -most, x))


class _Values:
    """The functions that formulas are written in, of traced values, by one text each; and their doubts."""

    where = staticmethod(where)
    clipped = clipped

    def __init__(self, last: bool) -> None:
        self._last, self.undecided = last, False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def value(*x: Any) -> Any:
            result, undecided = rounded(FUNCTIONS[name], False, self._last, *x)
            self.undecided = undecided | self.undecided
            return result

        return value


def slope_name(name: str, argument: int) -> str:
    """Return what the derivative with respect to an argument is called among texts.

    >>> slope_name("pow", 1)
    "pow'1"
    """
    return f"{name}'{argument}"


def arguments_of(name: str) -> int:
    """Return how many arguments a function, or a derivative, has."""
    return FUNCTIONS[name.partition("'")[0]].arguments


def values_of(name: str, of_single: bool, last: bool, *x: Any) -> tuple[Any, Any]:
    """Return what `rounded` does of a function, or of a derivative, of traced values."""
    if name in FUNCTIONS:
        return rounded(FUNCTIONS[name], of_single, last, *x)
    function, _, argument = name.partition("'")
    f = _Values(last)
    value = SLOPES[function][int(argument)].of(f, *x)
    value = where(value != value, nan, value)  # one, whatever the processor makes of Inf - Inf
    return (single(value) if of_single else value), f.undecided
