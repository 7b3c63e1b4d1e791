"""Products of small and middle-sized matrices on int8 words of a CPU, all steps in one compiled call.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, graded
ones, and those of stacks that the counting bound leaves undecided, are left to the steps of all others.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from multiword.engines import declared, get_word, reduces_residues
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import in_threads, over_rows, thread_count
from multiword.tuning import INT8_CPU_AT_ONCE_ALONE, MOST_COMPILED_ELEMENTS
from ozaki.certificate.counted import counting_limits
from ozaki.certificate.pairwise import proves_nothing
from ozaki.definition.decision import OCTAVES
from ozaki.definition.statistics import LEVELS
from ozaki.execution.eager import bits_of_level_factors
from ozaki.product.factor import Factor
from ozaki.product.request import TARGETS, Request
from ozaki.product.steps import norm_widths
from ozaki.residues.scheme import Residues
from ozaki.scaling.scales import norm_limit
from ozaki.scaling.statistics import COMPILED_FORM as STATISTICS
from ozaki.scaling.statistics import RowStatistics
from ozaki.schemes import ProductSpecification
from ozaki.tuning import LARGEST_IN_DIGITS, LARGEST_IN_ONE_CALL, OVERHEAD_ELEMENTS

FORM = "ozaki.execution.in_bytes_numba"

NONE_LEFT = 1 << 60
"""A counter of units of which none is left."""

UNUSED = 16
"""Scales behind the last one that vectors read, and do not use."""


class Kind:
    """What products have in common, and the engine's steps for them.

    Attributes
    ----------
    request : theirs, without a workspace.
    shape : (m, k, n). dtype : of the factors and the product.
    parts : 1 for real, 2 for complex numbers. length : real numbers of a row.
    limits : of the counting bound. seconds : about how long one thread takes.
    """

    def __init__(self, request: Request, shape: tuple[int, int, int], dtype: np.dtype) -> None:
        self.request, self.shape, self.dtype = request, shape, dtype
        self.parts = 2 if dtype.kind == "c" else 1
        self.length = self.parts * shape[1]
        self._target = TARGETS[dtype]
        norm_format = request.norm_format(self._target)
        self._limit = norm_limit(norm_format, self.length)
        self.limits = counting_limits(norm_format.name, self.length, request.certified)
        engine: Any = request.engine
        self.seconds = engine.seconds_at_once(shape, self.parts, self._target.precision == 24)
        self._steps: dict[tuple[int, int], Any] = {}

    def steps(self, bits: int, threads: int) -> Any:
        """Return the engine's `CompiledSteps` for norm scales widened by some bits, or None."""
        steps = self._steps.get((bits, threads))
        if steps is None and (steps := self._compiled_steps(bits, threads)) is not None:
            self._steps[bits, threads] = steps  # None may be due to `numpy_forms`, and is asked again
        return steps

    def _compiled_steps(self, bits: int, threads: int) -> Any:
        width, log2_c = norm_widths(self._limit, self.length, bits)
        specification = ProductSpecification(self.shape, 1, self.parts, (width, width), log2_c, self._target)
        engine: Any = self.request.engine
        scheme = Residues(specification, get_word("int8", engine.words), engine)
        if not scheme.reduced:
            return None
        sizes = self.shape, self.parts, self._target.precision == 24, width
        symmetric = self.request.symmetric
        return engine.compiled_steps(scheme.system, *sizes, self._target, threads, symmetric)


@lru_cache(512)
def _kind(request: Request, sizes: tuple[int, int, int, int], dtype: np.dtype) -> Kind | None:
    engine, (s, m, k, n) = request.engine, sizes
    if not request.of_norms or k > declared(engine, "longest_at_once"):
        return None
    if not reduces_residues(engine, "int8", (m, k, n)):
        return None
    if max(m * k, k * n, m * n) > LARGEST_IN_ONE_CALL:
        return None
    symmetric = request.symmetric and s == 1 and dtype.kind != "c"
    return Kind(request._replace(symmetric=symmetric), (m, k, n), dtype)


def kind_in_bytes(sizes: tuple[int, int, int, int], dtype: np.dtype, request: Request) -> Kind | None:
    """Return the kind of a stack of products, (s, m, k, n), if the engine has one call for them, or None."""
    if compiled(FORM) is None:  # first: what the engine can without compiled forms is not to be remembered
        return None
    return _kind(request._replace(workspace=0), sizes, dtype)


def product_in_bytes(a: Factor, b: Factor, kind: Kind, request: Request) -> np.ndarray | None:
    """Return the product of two factors; None if it is left to the steps of all others."""
    m, _, n = kind.shape
    threads = 1 if kind.seconds < INT8_CPU_AT_ONCE_ALONE else thread_count()
    steps = kind.steps(0, threads)
    if steps is None or steps.bytes > request.workspace:
        return None
    out = np.empty((m, n), kind.dtype)
    stack, numbers = _Stack(kind, a.matrix[None], b.matrix[None], out[None], threads), _Numbers(kind)
    stack.multiply(_ONE, 0, numbers)
    bits = int(stack.bits[0])
    if bits == 0:
        return out
    if bits < 0 and kind.request.certified:
        if math.prod(kind.shape) <= LARGEST_IN_DIGITS and proves_nothing(a.matrix, b.matrix.T):
            return None  # bytes are too short, and nothing need be asked
        a.statistics, b.statistics = numbers.statistics(slice(0, m)), numbers.statistics(slice(m, m + n))
        stack.bits[0] = bits = bits_of_level_factors(a, b, request)
        numbers.scale[:] += max(bits, 0)
    if bits < 0 or kind.steps(bits, threads) is None:
        return None
    stack.multiply(_ONE, bits, numbers, scaled=True)
    return out


_ONE = np.zeros(1, np.int64)
"""The index of a single product."""


def products_in_bytes(
    a: np.ndarray, b: np.ndarray, kind: Kind, request: Request
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the (s, m, n) products of (s, m, k) and (s, k, n) matrices, and which are undecided.

    None if they are left to the steps of all others.
    """
    m, k, n = kind.shape
    steps = kind.steps(0, 1)
    if steps is None or thread_count() * steps.bytes > request.workspace:
        return None
    out = np.empty((len(a), m, n), kind.dtype)
    stack, elements = _Stack(kind, a, b, out, 1), kind.parts**2 * max(m * n, m * k, k * n) + OVERHEAD_ELEMENTS

    def multiply(which: np.ndarray, expected: int) -> None:
        def work(block: slice) -> None:
            stack.multiply(which[block], expected, _Numbers(kind))

        over_rows(work, len(which), elements, MOST_COMPILED_ELEMENTS)

    multiply(np.arange(len(a)), 0)
    undecided = stack.bits < 0
    for bits in np.unique(stack.bits[stack.bits > 0]).tolist():
        which = np.flatnonzero(stack.bits == bits)
        if kind.steps(bits, 1) is None:
            undecided[which] = True
        else:
            multiply(which, bits)
    return out, undecided


class _Numbers:
    """The statistics of a product's rows and columns, and their scales, in memory that compiled code cuts."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.rows = kind, kind.shape[0] + kind.shape[2]
        self.wide = np.empty(2 * self.rows, np.int64)
        self.narrow = np.empty((3 + len(LEVELS)) * self.rows + UNUSED, np.int32)

    @property
    def scale(self) -> np.ndarray:
        """The scales."""
        return self.narrow[-self.rows - UNUSED : -UNUSED]

    def statistics(self, rows: slice) -> RowStatistics:
        """The statistics of some of the rows and columns."""
        total, square = self.wide.reshape(2, -1)
        counts = self.narrow[2 * self.rows : -self.rows - UNUSED].reshape(self.rows, -1).T
        sums = self.narrow[: self.rows], total, square, counts
        return RowStatistics(*sums, self.kind.length)[rows]


class _Stack:
    """Stacks of factors and of products, as compiled code takes them.

    Attributes
    ----------
    bits : by how many bits the integers of each product grow, once they are counted; -1 is undecided.
    """

    def __init__(self, kind: Kind, a: np.ndarray, b: np.ndarray, out: np.ndarray, threads: int) -> None:
        self._kind, self._alive, self._threads = kind, (a, b, out), threads
        self.bits = np.zeros(len(out), np.int64)
        imaginary = a.itemsize // 2 if kind.parts == 2 else 0
        self._fields: list[int] = []
        columns = b.strides[0], b.strides[2], b.strides[1]
        for x, strides in (a, a.strides), (b, columns), (out, out.strides):
            at = x.ctypes.data
            self._fields += (at, at + imaginary, *strides)
        self._fields += (*kind.shape, kind.parts, a.itemsize == 4 * kind.parts)

    def multiply(self, which: np.ndarray, expected: int, numbers: _Numbers, scaled: bool = False) -> None:
        """Compute the bits of some products, and those whose integers grow by the expected ones.

        scaled : whether that is known, and the numbers have the scales: of one product.
        """
        form, kind, steps = compiled(FORM), self._kind, self._kind.steps(expected, self._threads)
        products = form.compiled_products(steps.kernel, steps.split_units, steps.multiply_units)
        call = np.array([*self._fields, steps.right_words, steps.units], np.int64).view(form.Call)
        sync, memory = np.zeros(form.COUNTER * form.FINISHED, np.int64), steps.memory()
        shared, turn = memory.ctypes.data, count()
        given = which, expected, call, sync, self.bits, numbers.wide, numbers.narrow, kind.limits
        stopped: list[bool] = []

        def work() -> None:
            own, records = shared + steps.shared + next(turn) * steps.own, steps.records()
            scratch = *steps.scratch(), *compiled(STATISTICS).work_arrays(kind.length), np.empty((2, OCTAVES))
            step = form.SPLIT if scaled else form.STATISTICS
            while not stopped:
                step = products(step, *given, *records, shared, own, *scratch)
                if step == form.FINISHED:
                    return
                time.sleep(0)  # for a thread that has begun the last unit of a step

        def stop() -> None:
            sync[:: form.COUNTER] = NONE_LEFT
            stopped.append(True)

        if self._threads == 1:
            work()
        else:
            in_threads(work, self._threads - 1, stop)
