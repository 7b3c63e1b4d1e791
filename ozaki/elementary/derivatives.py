"""Derivatives of the functions, of every order: the formulas of `slopes`, and dual numbers.

A first one is a compiled loop, or a kernel, of its formula's trace. Where a function in it is undecided, and
in higher orders, the formula is computed with arrays, which has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    is_cupy,
    namespace,
    on_device_of_arrays,
    quietly,
    to_float64,
)
from multiword.runtime.memory import empty_result
from multiword.runtime.parallel import over_rows
from ozaki.elementary import api
from ozaki.elementary.evaluate import evaluate
from ozaki.elementary.slopes import SLOPES, clipped, slope_name
from ozaki.tuning import DERIVATIVE_BLOCK


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

    clipped = clipped


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


@on_device_of_arrays
def derivative(name: str, orders: Sequence[int], *x: Array) -> Array:
    """Return a function's partial derivative, of so many orders in each argument; itself for none."""
    if not any(orders):
        result: Array = api.apply(name, *x)
        return np.asarray(result) if isinstance(result, np.generic) else result
    arrays, dtype = api.operands(name, x)
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    if sum(orders) == 1:
        return _first(name, orders, arrays, shape, dtype)
    if is_cupy(arrays[0]) or len(arrays) > 1 or not arrays[0].flags.c_contiguous:
        return _of(name, orders, arrays, shape, dtype)
    flat, derivatives = arrays[0].reshape(-1), np.empty(arrays[0].size, dtype)

    def work(block: slice) -> None:
        derivatives[block] = _of(name, orders, [flat[block]], flat[block].shape, dtype)

    over_rows(work, len(flat), 1, DERIVATIVE_BLOCK)
    return derivatives.reshape(shape)


def _first(
    name: str, orders: Sequence[int], arrays: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype
) -> Array:
    """Return a first derivative by its formula's trace, and by the formula where a function is undecided."""

    def by_formula(_: str, of_arrays: np.dtype, x: list[np.ndarray]) -> np.ndarray:
        return _of(name, orders, x, x[0].shape, of_arrays)

    xp = namespace(arrays[0])
    flat = [xp.ascontiguousarray(xp.broadcast_to(a, shape)).reshape(-1) for a in arrays]
    result = empty_result(flat[0], shape, flat[0].dtype)
    with quietly(result):
        waits = not (SLOPES[name][0].decided and result.dtype == np.float32)
        evaluate(slope_name(name, orders.index(1)), flat, result.reshape(-1), by_formula, waits)
        return result if result.dtype == dtype else api.rounded(result, dtype)


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
        return api.rounded(wide, dtype)
