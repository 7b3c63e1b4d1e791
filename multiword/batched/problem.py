"""The checked arguments of a call: stacks of matrices, and the product of their pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiword.batched.halfcomplex import HALF_WORDS, HalfComplex
from multiword.runtime.arrays import Array, as_array, check_out, check_same_device
from multiword.runtime.options import scalar

TRANSPOSITIONS = {False: (False, False), True: (True, False), "N": (False, False), "T": (True, False)}
TRANSPOSITIONS["C"] = (True, True)


@dataclass(frozen=True)
class Stack:
    """Matrices of one shape, as op() leaves them.

    Attributes
    ----------
    arrays : one array (..., rows, columns), or a tuple of (rows, columns) arrays that lie
        anywhere. Half-complex ones have a last axis of two more.
    complex : whether the entries are pairs.
    conjugate : whether the entries are still to be conjugated.
    """

    arrays: Any
    complex: bool
    conjugate: bool = False

    @property
    def listed(self) -> bool:
        """Whether the matrices are separate arrays."""
        return isinstance(self.arrays, tuple)

    @property
    def first(self) -> Array:
        """An array of the stack: the only one, or the first matrix."""
        return self.arrays[0] if self.listed else self.arrays

    @property
    def shape(self) -> tuple[int, ...]:
        """(*batch, rows, columns)"""
        shape = self.first.shape[:-1] if self.complex else self.first.shape
        return (len(self.arrays), *shape) if self.listed else tuple(shape)

    @property
    def T(self) -> Stack:
        """The transposed matrices, views."""
        axes, x = (-3, -2) if self.complex else (-2, -1), self.arrays
        return replace(self, arrays=tuple(y.swapaxes(*axes) for y in x) if self.listed else x.swapaxes(*axes))

    def stacked(self, xp: Any) -> Array:
        """Return the matrices as one array, copied only if they are a list."""
        return xp.stack(self.arrays) if self.listed else self.arrays


@dataclass(frozen=True)
class Problem:
    """The product alpha·op(A)·op(B) + beta·C of every pair of a batch.

    `a` is (*, m, k) and `b` (*, k, n) after op(); `c` and `out` are arrays (of pairs, if complex) of shape
    (*batch, m, n), or None. alpha and beta are float if they are real.
    """

    xp: Any
    a: Stack
    b: Stack
    c: Array | None
    out: Array | None
    batch: tuple[int, ...]
    alpha: float | complex
    beta: float | complex
    accumulate: str

    @property
    def complex(self) -> bool:
        return self.a.complex

    @property
    def word(self) -> np.dtype:
        return self.a.first.dtype

    @property
    def mnk(self) -> tuple[int, int, int]:
        return self.a.shape[-2], self.b.shape[-1], self.a.shape[-1]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the array that holds the result."""
        m, n, _ = self.mnk
        return (*self.batch, m, n, 2) if self.complex else (*self.batch, m, n)


def check_problem(
    a: Any, b: Any, alpha: Any, beta: Any, c: Any, trans_a: Any, trans_b: Any, accumulate: str, out: Any
) -> Problem:
    """Return the checked problem, or raise what `batched_matmul` promises."""
    left = _op(_stack(a, "a"), trans_a, "trans_a")
    right = _op(_stack(b, "b"), trans_b, "trans_b")
    _check_words(left, right, accumulate)
    m, k = left.shape[-2:]
    if right.shape[-2] != k:
        raise ValueError(
            f"op(a) and op(b) must agree in the inner dimension, got {left.shape} and {right.shape}"
        )
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(
            f"the batches of a and b must be equal or broadcast, got {left.shape[:-2]} and {right.shape[:-2]}"
        ) from None
    shape = (*batch, m, right.shape[-1])
    word = left.first.dtype
    kind = np.float16 if accumulate == "fp16" else np.float32
    scalars = [_scalar(x, name, left.complex, kind) for x, name in ((alpha, "alpha"), (beta, "beta"))]
    addend = None
    if scalars[1] != 0:
        if c is None:
            raise ValueError("c must be given when beta is not 0")
        addend = _addend(c, shape, word, left.complex)
    target = None if out is None else _target(out, left.first, shape, left.complex)
    xp = check_same_device(a=left.first, b=right.first, c=addend)
    return Problem(xp, left, right, addend, target, batch, scalars[0], scalars[1], accumulate)


def _stack(x: Any, name: str) -> Stack:
    if isinstance(x, HalfComplex):
        stack = Stack(x.pairs, True)
    elif isinstance(x, list | tuple) and x and all(hasattr(y, "ndim") for y in x):
        stack = _listed(x, name)
    else:
        array = as_array(x, name)
        if array.dtype.kind == "c":
            raise TypeError(f"{name} is {array.dtype}; round it to half-complex with multiword.from_complex")
        stack = Stack(array, False)
    if stack.first.dtype not in HALF_WORDS:
        raise TypeError(f"{name} must be float16, bfloat16 or HalfComplex, got {stack.first.dtype}")
    if len(stack.shape) < 2:
        raise ValueError(f"{name} must be a matrix or a stack of matrices, got shape {stack.shape}")
    return stack


def _listed(x: Any, name: str) -> Stack:
    """Return a stack of a list of matrices, each a separate array."""
    is_complex = [isinstance(y, HalfComplex) for y in x]
    arrays = tuple(y.pairs if isinstance(y, HalfComplex) else as_array(y, name) for y in x)
    kinds = {(c, str(y.dtype)) for c, y in zip(is_complex, arrays, strict=True)}
    shapes = {y.shape for y in arrays}
    if len(kinds) > 1:
        raise TypeError(f"the matrices listed in {name} must be of one dtype, got {sorted(kinds)}")
    if len(shapes) > 1 or arrays[0].ndim != 2 + is_complex[0]:
        raise ValueError(f"the list {name} must hold matrices of one shape, got shapes {sorted(shapes)}")
    for y in arrays[1:]:
        check_same_device(**{f"{name}[0]": arrays[0], f"{name}[i]": y})
    return Stack(arrays, is_complex[0])


def _op(stack: Stack, trans: Any, name: str) -> Stack:
    if not isinstance(trans, str | int | np.bool_) or trans not in TRANSPOSITIONS:
        raise ValueError(f"{name} must be False, True, 'N', 'T' or 'C', got {trans!r}")
    transposed, conjugate = TRANSPOSITIONS[trans]
    return replace(stack.T if transposed else stack, conjugate=conjugate and stack.complex)


def _check_words(a: Stack, b: Stack, accumulate: str) -> None:
    kinds = [("half-complex " if s.complex else "") + str(s.first.dtype) for s in (a, b)]
    if kinds[0] != kinds[1]:
        raise TypeError(f"a and b must be of one kind, got {kinds[0]} and {kinds[1]}")
    if accumulate not in ("fp32", "fp16"):
        raise ValueError(f"accumulate must be 'fp32' or 'fp16', got {accumulate!r}")
    if accumulate == "fp16" and a.first.dtype != np.float16:
        raise ValueError(f"accumulate='fp16' needs float16 operands, got {a.first.dtype}")


def _scalar(x: Any, name: str, is_complex: bool, kind: Any) -> float | complex:
    value = complex(scalar(name, x, complex))
    with np.errstate(all="ignore"):
        beyond = [np.isfinite(part) and not np.isfinite(kind(part)) for part in (value.real, value.imag)]
    if any(beyond):
        raise ValueError(f"{name} is out of the range of {kind.__name__}, got {x!r}")
    if value.imag == 0:
        return value.real
    if not is_complex:
        raise TypeError(f"{name} must be real for real matrices, got {x!r}")
    return value


def _addend(c: Any, shape: tuple[int, ...], word: np.dtype, is_complex: bool) -> Array:
    stack = _stack(c, "c")
    if stack.complex != is_complex or stack.first.dtype != word:
        raise TypeError(
            f"c must be of the operands' kind, {word}{' pairs' * is_complex}, got {stack.first.dtype}"
        )
    xp = check_same_device(c=stack.first)
    try:
        return xp.broadcast_to(stack.stacked(xp), (*shape, 2) if is_complex else shape)
    except ValueError:
        raise ValueError(f"c must have shape {shape} or broadcast to it, got {stack.shape}") from None


def _target(out: Any, like: Array, shape: tuple[int, ...], is_complex: bool) -> Array:
    if isinstance(out, HalfComplex) != is_complex:
        raise TypeError(
            f"out must be {'a HalfComplex' if is_complex else 'an array'}, got {type(out).__name__}"
        )
    target, stored, name = (out.pairs, (*shape, 2), "out.pairs") if is_complex else (out, shape, "out")
    check_out(target, like, stored, like.dtype, name=name)
    return target
