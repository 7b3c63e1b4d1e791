"""Texts as CUDA: parsed, and printed as templates of functions, whose types follow from their arguments.

What a text writes outside of loops over `across` is written by one thread, before and after which all meet.
A text that writes and has no such loop is run by one thread.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from multiword.runtime.kernels import literal
from ozaki.linalg import arithmetic
from ozaki.linalg.small import language
from ozaki.linalg.small.language import TEXTS
from ozaki.linalg.small.leaves import complex_quotient

Text = Callable[..., Any]

_CALLED: dict[Any, str] = {
    abs: "fabs",
    len: "size_0",
    min: "minimum",
    max: "maximum",
    math.sqrt: "sqrt",
    math.ldexp: "times_powers",
    math.copysign: "copysign",
    np.floor: "floor",
    np.rint: "rint",
    np.conj: "conj",
    complex: "Complex",
} | {
    function: function.__name__
    for function in (
        *(language.exponent, language.parts_of, language.number, language.bits, language.from_bits),
        *(arithmetic.quotient, arithmetic.real_quotient, arithmetic.times_powers),
    )
}
"""What texts call that `language.cuh` has, or CUDA."""

_SIGNS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "/",
    ast.Mod: "%",
    ast.RShift: ">>",
    ast.LShift: "<<",
    ast.BitAnd: "&",
    ast.And: "&&",
    ast.Or: "||",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.USub: "-",
    ast.Not: "!",
}
"""C's operators. Only integers that are not negative are divided."""

_QUOTIENT = """
using ::quotient;
__device__ Complex quotient(Complex x, Complex divisor) { return complex_quotient(x, divisor); }
"""


def printed(entry: Text) -> str:
    """Return a text, and before it all that it calls, in CUDA."""
    overload = {complex_quotient: _QUOTIENT}
    return "\n".join(_Function(text).print() + overload.get(text, "") for text in needed(entry))


@cache
def needed(text: Text) -> tuple[Text, ...]:
    """Return all that a text calls, each after what it calls itself, and the text."""
    before = [other for called in _Function(text).calls() for other in needed(called)]
    return *dict.fromkeys(before), text


@cache
def _goes_across(text: Text) -> bool:
    """Whether a text has a loop whose iterations the threads share, or calls one that does."""
    return any(_Function(x).has_loop_across() for x in needed(text))


@cache
def _writes(text: Text) -> bool:
    """Whether a text, or one that it calls, writes to an array."""
    return any(_Function(x).has_stores() for x in needed(text))


class _Function:
    """A text as it is printed.

    Attributes
    ----------
    alone : whether one thread runs what is printed now: an iteration of a loop across, or all of a text.
    scopes : the names of variables, block by block.
    """

    def __init__(self, text: Text) -> None:
        module = ast.parse(inspect.getsource(text))
        assert isinstance(module.body[0], ast.FunctionDef)
        self.text, self.tree, self.count = text, module.body[0], 0
        self.scopes: list[set[str]] = [{argument.arg for argument in self.tree.args.args}]
        self.alone = False

    # what it is --------------------------------------------------------------------------------------

    def calls(self) -> list[Text]:
        """Return the texts that it calls."""
        found = [self.value(x.func) for x in ast.walk(self.tree) if isinstance(x, ast.Call)]
        return [
            complex_quotient if x is arithmetic.quotient else x
            for x in found
            if x in (*TEXTS, arithmetic.quotient)
        ]

    def has_loop_across(self) -> bool:
        """Return whether threads share a loop of its own."""
        return any(isinstance(x, ast.For) and self.is_across(x) for x in ast.walk(self.tree))

    def has_stores(self) -> bool:
        """Return whether it writes to an array itself."""
        return any(isinstance(x, ast.Subscript) and isinstance(x.ctx, ast.Store) for x in ast.walk(self.tree))

    def is_across(self, loop: ast.For) -> bool:
        """Return whether threads share a loop."""
        return isinstance(loop.iter, ast.Call) and getattr(loop.iter.func, "id", "") == "across"

    def value(self, node: ast.expr) -> Any:
        """Return the function, module or number of a name that is no variable; None of a variable."""
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return getattr(owner, node.attr) if isinstance(owner, ModuleType) else None
        if not isinstance(node, ast.Name) or any(node.id in names for names in self.scopes):
            return None
        return self.text.__globals__.get(node.id, getattr(builtins, node.id, None))

    # statements --------------------------------------------------------------------------------------

    def print(self) -> str:
        """Return the function template."""
        self.alone = _writes(self.text) and not _goes_across(self.text)
        names = [argument.arg for argument in self.tree.args.args]
        kinds = ", ".join(f"class T{i}" for i in range(len(names)))
        parameters = ", ".join(f"T{i} {name}" for i, name in enumerate(names))
        body = "\n".join(self.block(self.tree.body, inner=False))
        # Compiled once each, and not wherever they are called: that takes a fifth of the time.
        called = "__noinline__ " if _writes(self.text) else ""
        return (
            f"template <{kinds}>\n__device__ {called}auto {self.text.__name__}({parameters}) {{\n{body}\n}}\n"
        )

    def block(self, statements: list[ast.stmt], inner: bool = True) -> Iterator[str]:
        """Yield the lines of statements, whose new variables are of that block."""
        if inner:
            self.scopes.append(set())
        for statement in statements:
            yield from getattr(self, f"of_{type(statement).__name__}")(statement)
        if inner:
            self.scopes.pop()

    def of_Expr(self, node: ast.Expr) -> Iterator[str]:
        if not isinstance(node.value, ast.Constant):  # a docstring
            yield f"{self.of(node.value)};"

    def of_Return(self, node: ast.Return) -> Iterator[str]:
        value = node.value
        if value is None:
            yield "return;"
        elif isinstance(value, ast.Tuple):
            yield f"return together({', '.join(map(self.of, value.elts))});"
        else:
            yield f"return {self.of(value)};"

    def of_If(self, node: ast.If) -> Iterator[str]:
        yield f"if ({self.of(node.test)}) {{"
        yield from self.block(node.body)
        if node.orelse:
            yield "} else {"
            yield from self.block(node.orelse)
        yield "}"

    def of_While(self, node: ast.While) -> Iterator[str]:
        yield f"while ({self.of(node.test)}) {{"
        yield from self.block(node.body)
        yield "}"

    def of_Break(self, _: ast.Break) -> Iterator[str]:
        yield "break;"

    def of_For(self, node: ast.For) -> Iterator[str]:
        assert isinstance(node.iter, ast.Call)
        assert isinstance(node.target, ast.Name)
        numbers = [self.of(x) for x in node.iter.args]
        start, stop, step = (["0LL", *numbers, "1LL"] if len(numbers) == 1 else [*numbers, "1LL"])[:3]
        name, shared = node.target.id, self.is_across(node) and not self.alone
        if shared:
            assert step == "1LL"
            start, step = f"{start} + threadIdx.x", "blockDim.x"
            yield "meet();"
        self.scopes.append({name})
        alone, self.alone = self.alone, self.alone or shared
        first = f"long long {name} = {start}, stop_{name} = {stop}"
        yield f"for ({first}; {name} < stop_{name}; {name} += {step}) {{"
        yield from self.block(node.body)
        yield "}"
        self.alone = alone
        self.scopes.pop()
        if shared:
            yield "meet();"

    def of_AugAssign(self, node: ast.AugAssign) -> Iterator[str]:
        value = f"{self.of(node.target)} {_SIGNS[type(node.op)]} ({self.of(node.value)})"
        yield from self.assigned([node.target], [value])

    def of_Assign(self, node: ast.Assign) -> Iterator[str]:
        (target,) = node.targets
        if not isinstance(target, ast.Tuple):
            yield from self.assigned([target], [self.of(node.value)])
        elif isinstance(node.value, ast.Tuple):
            yield from self.assigned(target.elts, [self.of(x) for x in node.value.elts])
        else:
            result = self.new_name()
            yield f"auto {result} = {self.of(node.value)};"
            yield from self.assigned(target.elts, [f"{result}._{i}" for i in range(len(target.elts))])

    def assigned(self, targets: list[ast.expr], values: list[str]) -> Iterator[str]:
        """Yield the lines that assign values, all of which are computed before."""
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            yield self.set(targets[0], values[0])
            return
        results = [self.new_name() for _ in values]
        for result, value in zip(results, values, strict=True):
            yield f"auto {result} = {value};"
        stored = [(x, r) for x, r in zip(targets, results, strict=True) if isinstance(x, ast.Subscript)]
        writes = " ".join(f"{self.of(x)} = {r};" for x, r in stored)
        if stored and self.alone:
            yield writes
        elif stored:
            yield f"meet(); if (threadIdx.x == 0) {{ {writes} }} meet();"
        for target, result in zip(targets, results, strict=True):
            if isinstance(target, ast.Name):
                yield self.set(target, result)

    def set(self, variable: ast.Name, value: str) -> str:
        """Return what gives a variable a value, and makes it where there is none."""
        known = any(variable.id in names for names in self.scopes)
        self.scopes[-1].add(variable.id)
        return f"{'' if known else 'auto '}{variable.id} = {value};"

    def new_name(self) -> str:
        self.count += 1
        return f"value_{self.count}"

    # expressions -------------------------------------------------------------------------------------

    def of(self, node: ast.expr) -> str:
        """Return an expression."""
        return str(getattr(self, f"of_{type(node).__name__}")(node))

    def of_Constant(self, node: ast.Constant) -> str:
        return _literal(node.value)

    def of_Name(self, node: ast.Name) -> str:
        value = self.value(node)
        return node.id if value is None else _literal(value)

    def of_Attribute(self, node: ast.Attribute) -> str:
        if node.attr in ("real", "imag"):
            return f"{node.attr}({self.of(node.value)})"
        return _literal(self.value(node))

    def of_BinOp(self, node: ast.BinOp) -> str:
        return f"({self.of(node.left)} {_SIGNS[type(node.op)]} {self.of(node.right)})"

    def of_UnaryOp(self, node: ast.UnaryOp) -> str:
        return f"({_SIGNS[type(node.op)]}{self.of(node.operand)})"

    def of_BoolOp(self, node: ast.BoolOp) -> str:
        return f"({f' {_SIGNS[type(node.op)]} '.join(map(self.of, node.values))})"

    def of_Compare(self, node: ast.Compare) -> str:
        (sign,), (right,) = node.ops, node.comparators
        return f"({self.of(node.left)} {_SIGNS[type(sign)]} {self.of(right)})"

    def of_IfExp(self, node: ast.IfExp) -> str:
        return f"({self.of(node.test)} ? {self.of(node.body)} : {self.of(node.orelse)})"

    def of_Subscript(self, node: ast.Subscript) -> str:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            assert isinstance(node.slice, ast.Constant)
            return f"size_{node.slice.value!r}({self.of(node.value.value)})"
        array = self.of(node.value)
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        places = [self.of(x) for x in indices if not isinstance(x, ast.Slice)]
        if places:
            array = f"at({', '.join([array, *places])})"
        if not isinstance(last := indices[-1], ast.Slice):
            return array
        start = "0LL" if last.lower is None else self.of(last.lower)
        stop = "" if last.upper is None else f", {self.of(last.upper)}"
        return f"cut({array}, {start}{stop})"

    def of_Call(self, node: ast.Call) -> str:
        arguments = [self.of(x) for x in node.args]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            return f"reshape({', '.join([self.of(node.func.value), *arguments])})"
        function = self.value(node.func)
        name = function.__name__ if function in TEXTS else _CALLED[function]
        call = f"{name}({', '.join(arguments)})"
        if function not in TEXTS or self.alone or not _writes(function) or _goes_across(function):
            assert not (self.alone and function in TEXTS and _goes_across(function)), name
            return call
        return f"by_one([&] {{ return {call}; }})"


def _literal(x: Any) -> str:
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, int):
        return f"{x}LL"
    assert isinstance(x, float), x
    return literal(x)
