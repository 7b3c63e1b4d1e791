"""Executor "bytes": small and middle-sized products on int8 words of a CPU, all steps in one compiled call.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, graded
ones, and those of stacks that the counting bound leaves undecided, are left to the steps of all others.
"""

from __future__ import annotations

import math
import time
from itertools import count
from typing import Any

import numpy as np

from multiword.engines import declared, get_word, reduces_residues
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import in_threads, over_rows, thread_count
from multiword.tuning import INT8_CPU_AT_ONCE_ALONE, MOST_COMPILED_ELEMENTS
from ozaki.certificate.counted import counting_limits
from ozaki.certificate.pairwise import proves_nothing
from ozaki.definition.decision import OCTAVES, WIDENED_IN_ALL
from ozaki.definition.statistics import LEVELS
from ozaki.execution.contract import (
    DONE,
    NO_ROOM,
    UNCOUNTED,
    UNLEVEL,
    Declined,
    Executor,
    Outcome,
    beyond,
    goes_together,
    no_compiled_code,
)
from ozaki.product.pair import Pair, Signature
from ozaki.product.scale import bits_of_level_factors
from ozaki.product.steps import norm_widths
from ozaki.residues.scheme import Residues
from ozaki.scaling.scales import norm_limit
from ozaki.scaling.statistics import COMPILED_FORM as STATISTICS
from ozaki.scaling.statistics import RowStatistics
from ozaki.schemes import ProductSpecification
from ozaki.tuning import LARGEST_IN_FLOATS, LARGEST_IN_ONE_CALL, OVERHEAD_ELEMENTS

FORM = "ozaki.execution.in_bytes_numba"

NONE_LEFT = 1 << 60
"""A counter of units of which none is left."""

UNUSED = 16
"""Scales behind the last one that vectors read, and do not use."""


class Bytes(Executor):
    """Products of one signature, and the engine's steps for them.

    Attributes
    ----------
    shape : (m, k, n). dtype : of the factors and the product.
    parts : 1 for real, 2 for complex numbers. length : real numbers of a row.
    limits : of the counting bound. seconds : about how long one thread takes.
    """

    name = "bytes"
    about = "residues in bytes, all steps in one compiled call (CPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if (why := no_compiled_code(signature)) is not None:
            return why
        engine = signature.request.engine
        if signature.prepared:
            return "the words of prepared operands are used again"
        if not signature.request.of_norms:
            return "the bits of integers are given"
        if (longest := declared(engine, "longest_at_once")) == 0:
            return "the engine has no byte products"
        if signature.shape[1] > longest:
            return "the inner dimension is too long for one call"
        if not reduces_residues(engine, "int8", signature.shape):
            return "the processor has no byte products"
        return None if compiled(FORM) is not None else "numba does not compile"

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        self.shape, self.dtype, self.parts = signature.shape, signature.dtype, signature.parts
        self.length = self.parts * self.shape[1]
        request = signature.request
        self._target, norm_format = request.target_of(self.dtype), request.norm_format(self.dtype)
        self._limit = norm_limit(norm_format, self.length)
        self.limits = counting_limits(norm_format.name, self.length, request.certified)
        self._single = self.dtype.char in "fF"
        engine: Any = request.engine
        self.seconds: float = engine.seconds_at_once(self.shape, self.parts, self._single)
        self._steps: dict[tuple[int, int], Any] = {}

    @property
    def cost(self) -> float:
        m, k, n = self.shape
        at_once = max(m * k, k * n, m * n) <= LARGEST_IN_ONE_CALL and goes_together(self.signature)
        return self.seconds if at_once else math.inf

    def declines(self, pair: Pair) -> str | None:
        if (first := self.steps(0, thread_count())) is None or first.bytes > pair.request.workspace:
            return NO_ROOM
        wider = self.steps(pair.bits, 1) if pair.bits and 0 < pair.bits <= WIDENED_IN_ALL else first
        return UNLEVEL if wider is None else beyond(pair, WIDENED_IN_ALL)

    def run(self, pair: Pair, out: np.ndarray) -> Outcome:
        return self._run_one(pair, out) if pair.stack == 1 else self._run_stack(pair, out)

    def _run_one(self, pair: Pair, out: np.ndarray) -> Outcome:
        if pair.bits == -1:
            return Declined(pair, UNLEVEL)
        a, b, certified = pair.a, pair.b, pair.request.certified
        threads = 1 if self.seconds < INT8_CPU_AT_ONCE_ALONE else thread_count()
        first = self.steps(0, threads)
        if first is None or first.bytes > pair.request.workspace:
            return Declined(pair, NO_ROOM)
        stack = _Stack(self, a.stacked, b.stacked, out[None] if out.ndim == 2 else out, threads)
        numbers = _Numbers(self)
        stack.multiply(_ONE, 0, numbers)
        bits = int(stack.bits[0])
        if bits == 0:
            return DONE
        if bits < 0 and certified:
            if math.prod(self.shape) <= LARGEST_IN_FLOATS and proves_nothing(a.matrix, b.matrix.T):
                return Declined(pair, "no bound proves anything: nothing may be lost")
            m, _, n = self.shape
            a.statistics, b.statistics = numbers.statistics(slice(0, m)), numbers.statistics(slice(m, m + n))
            bits = bits_of_level_factors(pair)
            pair = pair._replace(bits=bits)
        if not 0 <= bits <= WIDENED_IN_ALL or self.steps(bits, threads) is None:
            return Declined(pair, UNLEVEL)
        if stack.bits[0] < 0:
            stack.bits[0] = bits
            numbers.scale[:] += bits
        stack.multiply(_ONE, bits, numbers, scaled=True)
        return DONE

    def _run_stack(self, pair: Pair, out: np.ndarray) -> Outcome:
        first = self.steps(0, 1)
        if first is None or thread_count() * first.bytes > pair.request.workspace:
            return Declined(pair, NO_ROOM)
        (m, k, n), stack = self.shape, _Stack(self, pair.a.stacked, pair.b.stacked, out, 1)
        elements = self.parts**2 * max(m * n, m * k, k * n) + OVERHEAD_ELEMENTS

        def multiply(which: np.ndarray, expected: int) -> None:
            def work(block: slice) -> None:
                stack.multiply(which[block], expected, _Numbers(self))

            over_rows(work, len(which), elements, MOST_COMPILED_ELEMENTS)

        multiply(np.arange(pair.stack), 0)
        undecided = stack.bits < 0
        for bits in np.unique(stack.bits[stack.bits > 0]).tolist():
            which = np.flatnonzero(stack.bits == bits)
            if self.steps(bits, 1) is None:
                undecided[which] = True
            else:
                multiply(which, bits)
        return Declined(pair, UNCOUNTED, np.flatnonzero(undecided)) if undecided.any() else DONE

    def steps(self, bits: int, threads: int) -> Any:
        """Return the engine's `CompiledSteps` for norm scales widened by some bits, or None."""
        steps = self._steps.get((bits, threads))
        if steps is None and (steps := self._compiled_steps(bits, threads)) is not None:
            self._steps[bits, threads] = steps  # None may be due to `numpy_forms`, and is asked again
        return steps

    def _compiled_steps(self, bits: int, threads: int) -> Any:
        width, log2_c = norm_widths(self._limit, self.length, bits)
        specification = ProductSpecification(self.shape, 1, self.parts, (width, width), log2_c, self._target)
        engine: Any = self.signature.request.engine
        scheme = Residues(specification, get_word("int8", engine.words), engine)
        if not scheme.reduced or scheme.word.name != "int8":
            return None
        sizes = self.shape, self.parts, self._single, width
        symmetric = self.signature.symmetric and self.parts == 1
        return engine.compiled_steps(scheme.system, *sizes, self._target, threads, symmetric)


_ONE = np.zeros(1, np.int64)
"""The index of a single product."""


class _Numbers:
    """The statistics of a product's rows and columns, and their scales, in memory that compiled code cuts."""

    def __init__(self, kind: Bytes) -> None:
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

    def __init__(self, kind: Bytes, a: np.ndarray, b: np.ndarray, out: np.ndarray, threads: int) -> None:
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
