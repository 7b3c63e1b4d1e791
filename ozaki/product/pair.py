"""The two factors of a product, and the request that they came with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import is_cupy
from multiword.runtime.compiled import compiling
from ozaki.product.factor import Factor
from ozaki.product.request import Request


class Signature(NamedTuple):
    """All that decides how a product is run, but for its numbers: the key of what is cached.

    Attributes
    ----------
    stack : how many products these are.
    shape : (m, k, n) of each.
    dtype : of the factors and of the product.
    on_gpu, symmetric, prepared, equilibrated : as those of the pair.
    compiled : whether compiled code may be used on a CPU.
    request : the pair's.
    """

    stack: int
    shape: tuple[int, int, int]
    dtype: np.dtype
    on_gpu: bool
    symmetric: bool
    prepared: bool
    equilibrated: bool
    compiled: bool
    request: Request

    @property
    def parts(self) -> int:
        """1 for real, 2 for complex numbers."""
        return 2 if self.dtype.kind == "c" else 1


class Pair(NamedTuple):
    """The two factors of a product, or of a stack of products, and the request.

    Attributes
    ----------
    a, b : the factors.
    request : what the caller asked for.
    symmetric : whether B is A's conjugate transpose, so that AB is its own.
    bits : by which integers of norm scales grow, where an executor has asked for that before it declined; -1
        where there is an Inf or NaN, or the inner dimension may be graded.
    """

    a: Factor
    b: Factor
    request: Request
    symmetric: bool = False
    bits: int | None = None

    @classmethod
    def of(cls, a: Factor, b: Factor, request: Request) -> Pair:
        """Return the pair of two factors, symmetric where half of the product pays."""
        keeps_words = a.on_gpu and (a.prepared or b.prepared)
        symmetric = not keeps_words and _meets_its_transpose(a.matrix, b.matrix)
        return _made(cls, (a, b, request, symmetric, None))

    @property
    def signature(self) -> Signature:
        """The signature of the pair."""
        a, b, request, symmetric, _ = self
        shape = (a.rows, a.k, b.rows) if a.stack == 1 else self.shape
        prepared, compiled = a.prepared or b.prepared, not a.on_gpu and compiling()
        of_a = a.matrix.dtype, a.on_gpu, symmetric, prepared, a.equilibrated
        return _made(Signature, (a.stack, shape, *of_a, compiled, request))

    @property
    def stack(self) -> int:
        """How many products these are."""
        return self.a.stack

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, k, n) of each product."""
        a, b, s = self.a, self.b, self.a.stack
        return (a.rows, a.k, b.rows) if s == 1 else (a.rows // s, a.k, b.rows // s)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result: (m, n), or (s, m, n) of matrices in (s, m, k) and (s, k, n) arrays."""
        a, b = self.a, self.b
        if a.matrix.ndim == 2:
            return a.rows, b.rows
        return (*a.matrix.shape[:-1], b.matrix.shape[-1])

    @property
    def length(self) -> int:
        """Real numbers in a row of A, and in a column of B."""
        return self.a.length

    @property
    def equilibrated(self) -> bool:
        """Whether these are A·D and D⁻¹·B."""
        return self.a.equilibrated

    @property
    def prepared(self) -> bool:
        """Whether one of the factors is meant for more than one product."""
        return self.a.prepared or self.b.prepared

    @property
    def empty(self) -> bool:
        """Whether one of the factors has no number."""
        return not (self.a.matrix.size and self.b.matrix.size)

    def equilibrated_to(self, a: Factor, b: Factor) -> Pair:
        """Return A·D and D⁻¹·B in place of A and B: these are no longer each other's transposes."""
        return Pair(a, b, self.request)

    def part(self, matrices: object) -> Pair:
        """Return some products of a stack, by a slice or rising indices."""
        return self._replace(a=self.a.part(matrices), b=self.b.part(matrices))

    def one(self, index: int) -> Pair:
        """Return one product of a stack whose matrices lie in (s, m, k) and (s, k, n) arrays."""
        a, b = self.a.matrix[index], self.b.matrix[index]
        return Pair.of(Factor(a, 0), Factor(b, 1), self.request)


_made: Callable[..., Any] = tuple.__new__
"""What makes a named tuple of all its values: calling its class takes three times as long."""


def _meets_its_transpose(x: Any, y: Any) -> bool:
    """Whether half a product pays: y is x.T in the same memory, or equal to the conjugate transpose of x.

    A single number has no half.
    """
    shape = x.shape
    if shape != y.shape[::-1] or len(shape) != 2 or shape[0] < 2 or not shape[1]:
        return False
    if x.dtype.kind != "c":
        return is_own_transpose(x, y)
    if is_cupy(x):  # which waits for no comparison
        return False
    # A conjugate is always a copy: one row tells most others apart.
    return np.array_equal(x[0], y[:, 0].conj()) and np.array_equal(x, y.conj().T)


def _turned(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return lengths or strides of axes with the last two of them swapped."""
    return (*axes[:-2], axes[-1], axes[-2])


def is_own_transpose(x: Any, y: Any) -> bool:
    """Return whether y is x with its last two axes swapped, in the same memory.

    >>> x = np.ones((2, 3))
    >>> is_own_transpose(x, x.T), is_own_transpose(x, x.T.copy())
    (True, False)
    """
    if not x.ndim == y.ndim > 1 or x.strides[-1] != y.strides[-2]:  # nearly always
        return False
    if _turned(x.strides) != y.strides or _turned(x.shape) != y.shape or x.dtype != y.dtype:
        return False
    if is_cupy(x):
        return bool(x.data.ptr == y.data.ptr)
    return np.may_share_memory(x, y) and x.ctypes.data == y.ctypes.data  # of which the latter takes longer
