"""Texts as compiled loops: a trace becomes instructions of LLVM, without a line of Python between.

The loop's arguments that are undecided stay in `out`, so that `out` may be the argument itself.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float64, types, uint8
from numba.core import cgutils
from numba.extending import intrinsic

from multiword.runtime.jit import allow, gathers_are_quick, jit
from ozaki.elementary import FUNCTIONS  # with all texts, which its code is made of
from ozaki.elementary.slopes import arguments_of
from ozaki.elementary.tracing import Program
from ozaki.elementary.values import BOOLEAN, FLOAT, INTEGER, Value

F32, F64, I64, I1 = ir.FloatType(), ir.DoubleType(), ir.IntType(64), ir.IntType(1)
_TYPES = {FLOAT: F64, INTEGER: I64, BOOLEAN: I1}
_FLOATS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGERS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "and": "and_",
    "or": "or_",
    "xor": "xor",
    "shl": "shl",
    "shr": "ashr",
}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def loop(name: str, of_single: bool, last: bool) -> Callable[..., int]:
    """Return the compiled loop of a text: (x, [y,] out, undecided) -> how many are undecided."""
    number = types.float32 if of_single else types.float64
    x_type = types.Array(number, 1, "C", readonly=True)
    arguments = arguments_of(name)
    evaluate = _instructions(name, of_single, last)
    function = (_unary if arguments == 1 else _binary)(evaluate, np.float32 if of_single else np.float64)
    function.__qualname__ = f"{name}_{number}{'_last' if last else ''}"
    function.__module__ = __name__
    signature = types.int64(*[x_type] * arguments, number[::1], uint8[::1])
    compiled: Callable[..., int] = jit(signature)(function)
    return compiled


def _unary(evaluate: Any, number: Any) -> Callable[..., Any]:
    def run(x, out, undecided):
        count = 0
        for i in range(len(x)):
            result, doubt = evaluate(float64(x[i]))
            out[i] = x[i] if doubt else number(result)
            undecided[i] = doubt
            count += doubt
        return count

    return run


def _binary(evaluate: Any, number: Any) -> Callable[..., Any]:
    def run(x, y, out, undecided):
        count = 0
        for i in range(len(x)):
            result, doubt = evaluate(float64(x[i]), float64(y[i]))
            out[i] = x[i] if doubt else number(result)
            undecided[i] = doubt
            count += doubt
        return count

    return run


def _instructions(name: str, of_single: bool, last: bool) -> Any:
    """Return an intrinsic: float64 arguments to (result, undecided). Compiling it traces the text."""
    pair = types.Tuple((float64, boolean))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _tune(builder.function, context.codegen())
        emitted = _emitted(Program(name, of_single, last), builder, arguments)
        return context.make_tuple(builder, pair, emitted)

    if arguments_of(name) == 1:

        def evaluate(context: Any, x: Any) -> Any:
            return pair(float64), generate
    else:

        def evaluate(context: Any, x: Any, y: Any) -> Any:  # type: ignore[misc]
            return pair(float64, float64), generate

    return intrinsic(evaluate)


def _tune(function: Any, codegen: Any) -> None:
    """Have LLVM take vectors of 512 bits where there are, and gather from tables where that is quick."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        set.add(function.attributes, '"prefer-vector-width"="512"')  # llvmlite knows it not, as in `allow`
        if not gathers_are_quick():
            allow(function, codegen, "prefer-no-gather")


def _emitted(program: Program, builder: Any, arguments: Any) -> tuple[Any, Any]:
    """Write the instructions of a trace, and return its results."""
    trace = program.trace
    tables = {name: _table(builder, program, name) for name in trace.tables}
    done: list[Any] = []

    def operand(x: Any, kind: str) -> Any:
        if isinstance(x, Value):
            return done[x.index]
        return ir.Constant(_TYPES[kind], float(x) if kind == FLOAT else int(x))

    for value in trace.values:
        done.append(_instruction(builder, value, operand, arguments, tables))
    return tuple(operand(x, kind) for x, kind in zip(program.results, (FLOAT, BOOLEAN), strict=True))


def _table(builder: Any, program: Program, name: str) -> Any:
    """Return a table as a constant of the module."""
    flat = program.trace.tables[name].ravel()
    constant = ir.Constant(ir.ArrayType(F64, len(flat)), [float(x) for x in flat])
    return cgutils.global_constant(builder, f"elementary.{name}", constant)


def _instruction(b: Any, value: Value, operand: Callable[..., Any], arguments: Any, tables: Any) -> Any:
    op, args = value.op, value.args
    if op == "argument":
        return arguments[args[0]]
    if op == "take":
        name, row, column = args
        width = value.trace.tables[name].shape[1]
        index = b.add(b.mul(operand(row, INTEGER), I64(width)), I64(column))
        return b.load(b.gep(tables[name], [I64(0), index], inbounds=True))
    if op == "where":
        condition, x, y = args
        return b.select(operand(condition, BOOLEAN), operand(x, value.kind), operand(y, value.kind))
    if op in _COMPARISONS:
        kind = next(x.kind for x in args if isinstance(x, Value))
        x, y = (operand(x, kind) for x in args)
        if kind != FLOAT:
            return b.icmp_signed(_COMPARISONS[op], x, y)
        return (b.fcmp_unordered if op == "ne" else b.fcmp_ordered)(_COMPARISONS[op], x, y)
    if op in ("bits", "unbits"):
        return b.bitcast(operand(args[0], FLOAT if op == "bits" else INTEGER), _TYPES[value.kind])
    operands = [operand(x, value.kind) for x in args]
    if op == "single":
        return b.fpext(b.fptrunc(operands[0], F32), F64)
    if op == "fma":
        return b.fma(*operands)
    if op == "near_inverse":
        return b.fdiv(F64(1.0), operands[0])
    if op == "near_inverse_root":
        return b.fdiv(F64(1.0), _of_llvm(b, "sqrt", operands))
    if op in ("sqrt", "abs"):
        return _of_llvm(b, {"sqrt": "sqrt", "abs": "fabs"}[op], operands)
    if op == "neg":
        return b.fneg(operands[0]) if value.kind == FLOAT else b.neg(operands[0])
    if op == "not":
        return b.not_(operands[0])
    return getattr(b, (_FLOATS if value.kind == FLOAT else _INTEGERS)[op])(*operands)


def _of_llvm(b: Any, name: str, operands: Any) -> Any:
    return b.call(b.module.declare_intrinsic(f"llvm.{name}", [F64]), operands)


ON_DEMAND = tuple(
    partial(loop, name, of_single, last)
    for name, last, of_single in product(FUNCTIONS, (False, True), (False, True))
)
"""All of them."""
