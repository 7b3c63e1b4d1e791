"""Texts as CUDA: parsed, and printed as templates of functions, whose types follow from their arguments.

A text is a function that numba compiles as it stands. What it writes outside of loops over `across` is
written by one thread, before and after which all meet. A text that writes and has no such loop is run by one
thread, and so is one that is called within such a loop, by the thread of that iteration: then it is printed
as `…_alone`. `language.cuh` has what texts are made of.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from multiword.runtime.kernels import literal

Text = Callable[..., Any]

HEADER = Path(__file__).with_name("language.cuh")

_CALLED: dict[Any, str] = {
    abs: "fabs",
    len: "size_0",
    min: "minimum",
    max: "maximum",
    math.sqrt: "sqrt",
    math.ldexp: "times_powers",
    math.copysign: "copysign",
    np.sqrt: "sqrt",
    np.floor: "floor",
    np.rint: "rint",
    np.conj: "conj",
    np.float32: "float32",
    np.float64: "float64",
    np.int64: "int64",
    np.uint64: "uint64",
    complex: "Complex",
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
    ast.BitOr: "|",
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


_ALONE = "_alone"
"""What the names of texts end with that one thread runs."""


@dataclass(frozen=True, eq=False)
class Language:
    """What texts call, and how they are printed.

    Attributes
    ----------
    texts : those that are printed where others call them.
    called : the names of other functions that they call, in CUDA.
    instead : texts that are printed where another function is called, which is printed under its own name.
    following : what is printed after texts.
    inlined : whether texts that write are compiled wherever they are called: that takes time.
    """

    texts: Sequence[Text]
    called: Mapping[Any, str]
    instead: Mapping[Any, Text] = field(default_factory=dict)
    following: Mapping[Text, str] = field(default_factory=dict)
    inlined: bool = False

    def printed(self, *entries: Text) -> str:
        """Return texts, and before them all that they call, in CUDA."""
        texts = dict.fromkeys(x for entry in entries for x in _needed(entry, False, self))
        return "\n".join(
            _Function(text, self, alone).print() + self.following.get(text, "") for text, alone in texts
        )


@cache
def _needed(text: Text, alone: bool, language: Language) -> tuple[tuple[Text, bool], ...]:
    """Return all that a text calls, each after what it calls itself, and the text, and which are alone."""
    called = _Function(text, language, alone).calls()
    before = [other for x, within in called for other in _needed(x, within, language)]
    return *dict.fromkeys(before), (text, alone)


@cache
def _goes_across(text: Text, language: Language) -> bool:
    """Return whether a text has a loop whose iterations the threads share, or calls one that does."""
    return any(_Function(x, language).has_loop_across() for x, _ in _needed(text, False, language))


@cache
def _writes(text: Text, language: Language) -> bool:
    """Return whether a text, or one that it calls, writes to an array."""
    return any(_Function(x, language).has_stores() for x, _ in _needed(text, False, language))


class _Function:
    """A text as it is printed.

    Attributes
    ----------
    within : whether it is called within a loop across.
    alone : whether one thread runs what is printed now: an iteration of a loop across, or all of a text.
    scopes : the names of variables, block by block.
    """

    def __init__(self, text: Text, language: Language, within: bool = False) -> None:
        function = getattr(text, "py_func", text)  # of what numba compiles
        module = ast.parse(inspect.getsource(function))
        assert isinstance(module.body[0], ast.FunctionDef)
        self.text, self.tree, self.count = text, module.body[0], 0
        self.names, self.language = function.__globals__, language
        self.scopes: list[set[str]] = [{argument.arg for argument in self.tree.args.args}]
        self.within = self.alone = within

    # what it is --------------------------------------------------------------------------------------

    def calls(self) -> list[tuple[Text, bool]]:
        """Return the texts that it calls, and whether one thread alone runs what goes across in them."""
        instead, found = self.language.instead, list[tuple[Text, bool]]()

        def look(node: ast.AST, alone: bool) -> None:
            if isinstance(node, ast.Call):
                function = self.value(node.func)
                if function in (*self.language.texts, *instead):
                    text = instead.get(function, function)
                    found.append((text, alone and _goes_across(text, self.language)))
            alone = alone or (isinstance(node, ast.For) and self.is_across(node))
            for child in ast.iter_child_nodes(node):
                look(child, alone)

        look(self.tree, self.within)
        return found

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
        return self.names.get(node.id, getattr(builtins, node.id, None))

    # statements --------------------------------------------------------------------------------------

    def print(self) -> str:
        """Return the function template."""
        writes = _writes(self.text, self.language)
        self.alone = self.within or (writes and not _goes_across(self.text, self.language))
        names = [argument.arg for argument in self.tree.args.args]
        kinds = ", ".join(f"class T{i}" for i in range(len(names)))
        parameters = ", ".join(f"T{i} {name}" for i, name in enumerate(names))
        body = "\n".join(self.block(self.tree.body, inner=False))
        # Compiled once each, and not wherever they are called: that takes a fifth of the time.
        called = "__noinline__ " if writes and not self.language.inlined else ""
        name = f"{self.tree.name}{_ALONE if self.within else ''}"
        return f"template <{kinds}>\n__device__ {called}auto {name}({parameters}) {{\n{body}\n}}\n"

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

    def of_Continue(self, _: ast.Continue) -> Iterator[str]:
        yield "continue;"

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
        if isinstance(node.op, ast.Pow):  # of numbers alone
            return _literal(eval(ast.unparse(node), {}))
        return f"({self.of(node.left)} {_SIGNS[type(node.op)]} {self.of(node.right)})"

    def of_UnaryOp(self, node: ast.UnaryOp) -> str:
        return f"({_SIGNS[type(node.op)]}{self.of(node.operand)})"

    def of_BoolOp(self, node: ast.BoolOp) -> str:
        return f"({f' {_SIGNS[type(node.op)]} '.join(map(self.of, node.values))})"

    def of_Compare(self, node: ast.Compare) -> str:
        sides = [self.of(x) for x in (node.left, *node.comparators)]
        signs = [_SIGNS[type(sign)] for sign in node.ops]
        pairs = zip(sides, signs, sides[1:], strict=False)
        return f"({' && '.join(f'{left} {sign} {right}' for left, sign, right in pairs)})"

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
        function, language = self.value(node.func), self.language
        is_text = function in language.texts
        name = function.__name__ if is_text else {**_CALLED, **language.called}[function]
        across = is_text and _goes_across(function, language)
        call = f"{name}{_ALONE if across and self.alone else ''}({', '.join(arguments)})"
        if not is_text or self.alone or across or not _writes(function, language):
            return call
        return f"by_one([&] {{ return {call}; }})"


def _literal(x: Any) -> str:
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, int):
        return f"{x}LL"
    assert isinstance(x, float), x
    return literal(x)
