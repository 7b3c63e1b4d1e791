"""float64 and int64 values that a function's text computes with: NumPy arrays, or entries of a trace.

A text is straight-line arithmetic. On NumPy arrays it is its own definition. On `Value`s it leaves a `Trace`,
from which a compiled loop (`loops_numba`) and a CUDA kernel (`cuda`) are made. All three take the same IEEE
operations in the same order, and nothing is contracted, so they have the same bits; but for `near_inverse`
and `near_inverse_root`, whose last bits show in no result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multiword.engines.fma import fma as fma_of_arrays

FLOAT, INTEGER, BOOLEAN = "f", "i", "b"
SHIFT = 1.5 * 2.0**52
"""x + SHIFT rounds |x| < 2**51 to an integer, which is then in the low bits."""
SHIFT_BITS = int(np.float64(SHIFT).view(np.int64))


class Trace:
    """The operations of a text, in order, each once."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.tables: dict[str, np.ndarray] = {}
        self._same: dict[tuple[Any, ...], Value] = {}

    def value(self, kind: str, op: str, *args: Any) -> Value:
        """Return the value of an operation: the earlier one where the same has been done before."""
        key = (kind, op, *(("v", a.index) if isinstance(a, Value) else (type(a), repr(a)) for a in args))
        if key not in self._same:
            self._same[key] = Value(self, kind, op, args, len(self.values))
            self.values.append(self._same[key])
        return self._same[key]


class Value:
    """An operation's result: float64, int64 or boolean."""

    __array_ufunc__ = None  # NumPy's scalars leave operators to this class
    __hash__ = object.__hash__

    def __init__(self, trace: Trace, kind: str, op: str, args: tuple[Any, ...], index: int) -> None:
        self.trace, self.kind, self.op, self.args, self.index = trace, kind, op, args, index

    @staticmethod
    def _operator(op: str, kind: str = "", swapped: bool = False) -> Callable[[Value, Any], Value]:
        def apply(a: Value, b: Any) -> Value:
            return a.trace.value(kind or a.kind, op, *((b, a) if swapped else (a, b)))

        return apply

    __add__, __radd__ = _operator("add"), _operator("add", swapped=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swapped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swapped=True)
    __and__, __xor__ = _operator("and"), _operator("xor")
    __lshift__, __rshift__ = _operator("shl"), _operator("shr")
    __lt__, __le__ = _operator("lt", BOOLEAN), _operator("le", BOOLEAN)
    __gt__, __ge__ = _operator("gt", BOOLEAN), _operator("ge", BOOLEAN)
    __eq__, __ne__ = _operator("eq", BOOLEAN), _operator("ne", BOOLEAN)  # type: ignore[assignment]

    def __mul__(self, other: Any) -> Value:
        """Return the product, which is the same where the other is 1."""
        return (
            self if type(other) is float and other == 1.0 else self.trace.value(self.kind, "mul", self, other)
        )

    def __rmul__(self, other: Any) -> Value:
        return self.trace.value(self.kind, "mul", other, self)

    def __or__(self, other: Any) -> Value:
        """Return the disjunction, which is the same where the other is a part of it already."""
        return self if _has(self, other) else self.trace.value(self.kind, "or", self, other)

    def __invert__(self) -> Value:
        return self.trace.value(self.kind, "not", self)

    def __neg__(self) -> Value:
        return self.trace.value(self.kind, "neg", self)

    def __abs__(self) -> Value:
        return self.trace.value(self.kind, "abs", self)


def _has(x: Any, part: Any) -> bool:
    """Return whether x is that part, or a disjunction with it; no False adds anything."""
    return (
        part is False
        or x is part
        or (isinstance(x, Value) and x.op == "or" and any(_has(a, part) for a in x.args))
    )


def _trace_of(*args: Any) -> Trace | None:
    return next((a.trace for a in args if isinstance(a, Value)), None)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a·b + c, rounded once."""
    trace = _trace_of(a, b, c)
    return trace.value(FLOAT, "fma", a, b, c) if trace else fma_of_arrays(*np.broadcast_arrays(a, b, c))


def sqrt(x: Any) -> Any:
    """Return the square root, correctly rounded."""
    trace = _trace_of(x)
    return trace.value(FLOAT, "sqrt", x) if trace else np.sqrt(x)


def near_inverse(x: Any) -> Any:
    """Return 1/x of a normal number, to NEAR bits: the others are a machine's own.

    What a quotient by it leaves is multiplied by it, too, which squares the error; or a row of a table is
    found by it. So rounding sees nothing of those bits. A GPU divides in a third of the time then.
    """
    trace = _trace_of(x)
    return trace.value(FLOAT, "near_inverse", x) if trace else 1.0 / x


def near_inverse_root(x: Any) -> Any:
    """Return 1/√x of a normal number, to NEAR_ROOT bits, as `near_inverse`.

    Where asinh(x) is small, it is what a root near 1 has beyond 1.
    """
    trace = _trace_of(x)
    return trace.value(FLOAT, "near_inverse_root", x) if trace else 1.0 / np.sqrt(x)


NEAR, NEAR_ROOT = 38, 48


def single(x: Any) -> Any:
    """Return x rounded to float32, as a float64."""
    trace = _trace_of(x)
    return trace.value(FLOAT, "single", x) if trace else np.asarray(x).astype(np.float32).astype(np.float64)


def bits(x: Any) -> Any:
    """Return the bit pattern of a float64."""
    trace = _trace_of(x)
    return trace.value(INTEGER, "bits", x) if trace else np.asarray(x).view(np.int64)


def unbits(i: Any) -> Any:
    """Return the float64 of a bit pattern."""
    trace = _trace_of(i)
    return trace.value(FLOAT, "unbits", i) if trace else np.asarray(i).view(np.float64)


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return a where the condition holds, b elsewhere."""
    trace = _trace_of(condition, a, b)
    if trace is None:
        return np.where(condition, a, b)
    kind = next((x.kind for x in (a, b) if isinstance(x, Value)), INTEGER if type(a) is int else FLOAT)
    return trace.value(kind, "where", condition, a, b)


def take(name: str, table: np.ndarray, row: Any, column: int) -> Any:
    """Return table[row, column] of a float64 table of that name; the row is never out of range."""
    trace = _trace_of(row)
    if trace is None:
        return table[row, column]
    trace.tables[name] = table
    return trace.value(FLOAT, "take", name, row, column)


def power(e: Any) -> Any:
    """Return 2**e for -1023 < e < 1024."""
    return unbits((e + 1023) << 52)


def real(i: Any) -> Any:
    """Return an int64 below 2**51 in magnitude as a float64."""
    return unbits(i + SHIFT_BITS) - SHIFT


def nearest(x: Any) -> tuple[Any, Any]:
    """Return the integer nearest to x, |x| < 2**51, as float64 and as int64."""
    shifted = x + SHIFT
    return shifted - SHIFT, bits(shifted) - SHIFT_BITS
