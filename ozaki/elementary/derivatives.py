"""Derivatives of the functions, of every order: one table of formulas, and dual numbers.

The formulas are computed in float64 by the functions themselves and IEEE operations, each rounded, in one
order, and rounded to the dtype of the argument. So a derivative has the same bits on every machine. It is not
correctly rounded: float32 ones nearly always are. Errors of float64 ones are some units in the last place of
the formula's largest term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from multiword.rounding import round_to
from multiword.runtime.arrays import Array, is_cupy, namespace, on_device_of_arrays, quietly, to_float64
from multiword.runtime.parallel import over_rows
from ozaki.elementary import api
from ozaki.tuning import DERIVATIVE_BLOCK


class Slope(NamedTuple):
    """A partial derivative: as documents write it, and by (functions, *arguments)."""

    formula: str
    of: Callable[..., Any]


class Dual:
    """a + b·ε, ε² = 0: what makes of a formula its derivative; b is None for a constant.

    a and b may be dual numbers again, of as many levels in all operands.
    """

    __array_ufunc__ = None

    def __init__(self, value: Any, tangent: Any = None) -> None:
        self.value, self.tangent = value, tangent

    def __lt__(self, other: float) -> Any:
        return self.value < other

    def __gt__(self, other: float) -> Any:
        return self.value > other

    def __eq__(self, other: object) -> Any:
        return self.value == other

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Dual:
        return Dual(-self.value, None if self.tangent is None else -self.tangent)

    def __add__(self, other: Any) -> Dual:
        other = _dual(other)
        return Dual(self.value + other.value, _sum(self.tangent, other.tangent))

    def __sub__(self, other: Any) -> Dual:
        return self + -_dual(other)

    def __rsub__(self, other: Any) -> Dual:
        return _dual(other) + -self

    def __mul__(self, other: Any) -> Dual:
        other = _dual(other)
        tangent = _sum(_product(self.tangent, other.value), _product(other.tangent, self.value))
        return Dual(self.value * other.value, tangent)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Dual:
        other = _dual(other)
        ratio = self.value / other.value
        rest = _sum(self.tangent, _product(other.tangent, -ratio))
        return Dual(ratio, None if rest is None else rest / other.value)

    def __rtruediv__(self, other: Any) -> Dual:
        return _dual(other) / self


def _dual(x: Any) -> Dual:
    return x if isinstance(x, Dual) else Dual(x)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _product(a: Any, b: Any) -> Any:
    return None if a is None else a * b


class _Functions:
    """The functions that formulas are written in, of float64 arrays and dual numbers."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(_applied, name)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """Return a where a condition holds, b elsewhere."""
        if not (isinstance(a, Dual) or isinstance(b, Dual)):
            return namespace(condition).where(condition, a, b)
        a, b = _dual(a), _dual(b)
        tangents = [0.0 if x.tangent is None else x.tangent for x in (a, b)]
        return Dual(self.where(condition, a.value, b.value), self.where(condition, *tangents))

    def clipped(self, x: Any, most: float) -> Any:
        """Return x, or the end of [-most, most] that is nearer to it."""
        return self.where(x > most, most, self.where(x < -most, -most, x))


def _applied(name: str, *x: Any) -> Any:
    if not any(isinstance(v, Dual) for v in x):
        return api.apply(name, *x)
    duals, tangent = [_dual(v) for v in x], None
    values = [v.value for v in duals]
    for slope, v in zip(SLOPES[name], duals, strict=True):
        if v.tangent is not None:
            tangent = _sum(tangent, _product(v.tangent, slope.of(_FUNCTIONS, *values)))
    return Dual(_applied(name, *values), tangent)


_FUNCTIONS = _Functions()


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
    "gelu": (Slope("erfc(-x/√2)/2 + x·exp(-x²/2)/√(2π)", _gelu),),
    "gelu_tanh": (Slope("sigmoid(c)·(1 + x·c'·sigmoid(-c)), c = 2√(2/π)·(x + 0.044715·x³)", _gelu_tanh),),
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


@on_device_of_arrays
def derivative(name: str, orders: Sequence[int], *x: Array) -> Array:
    """Return a function's partial derivative, of so many orders in each argument; itself for none."""
    if not any(orders):
        result: Array = api.apply(name, *x)
        return np.asarray(result) if isinstance(result, np.generic) else result
    arrays, dtype = api.operands(name, x)
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if is_cupy(arrays[0]) or len(arrays) > 1 or not arrays[0].flags.c_contiguous:
        return _of(name, orders, arrays, shape, dtype)
    flat, derivatives = arrays[0].reshape(-1), np.empty(arrays[0].size, dtype)

    def work(block: slice) -> None:
        derivatives[block] = _of(name, orders, [flat[block]], flat[block].shape, dtype)

    over_rows(work, len(flat), 1, DERIVATIVE_BLOCK)
    return derivatives.reshape(shape)


def _of(
    name: str, orders: Sequence[int], arrays: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype
) -> Array:
    first, *rest = [i for i, n in enumerate(orders) for _ in range(n)]
    arguments: list[Any] = [to_float64(a) for a in arrays]
    for i in rest:
        arguments = [Dual(a, 1.0 if i == j else None) for j, a in enumerate(arguments)]
    with quietly(arrays[0]):
        result = SLOPES[name][first].of(_FUNCTIONS, *arguments)
        for _ in rest:
            result = result.tangent if isinstance(result, Dual) else None
        xp = namespace(arrays[0])
        wide = xp.broadcast_to(xp.asarray(0.0 if result is None else result, np.float64), shape)
        return round_to(wide, api.FORMATS[dtype.name])
