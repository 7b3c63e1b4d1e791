"""Products with few columns, or few rows, on a CPU: all steps in one compiled call, or in blocks of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiword.runtime.cached import cached_property
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows, thread_count
from multiword.tuning import ALONE_ELEMENTS
from ozaki.certificate.counted import counting_limits
from ozaki.definition.decision import EVERYTHING, OCTAVES, WIDENED_IN_ALL
from ozaki.execution.contract import DONE, EXTREME, UNLEVEL, UNROUNDED, Declined, Outcome, is_extreme
from ozaki.execution.small_products import LANES, TO_DECIDE, UNCERTAIN, UNDECIDED, WRITTEN, SmallProducts
from ozaki.product import steps
from ozaki.product.pair import Pair, Signature
from ozaki.product.scale import bits_of_level_factors, counted_bits
from ozaki.rounding.conversion import to_half
from ozaki.scaling.scales import norm_limit
from ozaki.tuning import LARGEST_TO_DECIDE

FORM = "ozaki.execution.thin_numba"

WATCHED_LANES = 32
"""Sums that a row is added up into, where it is watched what they lose, which small sums do later."""

LEVELS_AT_FIRST = 7
"""Octaves below a row's largest number in which its numbers are counted: nearly always they prove enough."""

OUT_OF_RANGE = UNDECIDED + 1
"""The outcome of a product with an Inf or NaN, or a row of extreme size."""

SUMS = 2 + LEVELS_AT_FIRST
"""Numbers of a row's sums: its total, its square, and how many numbers lie in each of these octaves."""


UNKNOWN = np.empty(0, np.int32)
"""In place of the scales of rows: they are to be measured."""


def start_of(log2_product: float) -> float:
    """Return what high floats begin with (`bound_of_lost`), from log2 of a bound of Σ|a'b'|."""
    return 2.0 ** (math.ceil(log2_product) + 2)


class ThinProducts:
    """The products of one signature."""

    def __init__(self, signature: Signature) -> None:
        request, dtype, parts, (m, k, n) = (
            signature.request,
            signature.dtype,
            signature.parts,
            signature.shape,
        )
        self._turned, self._parts, self._length = m < n, parts, parts * k
        self._signature, self._is_small = signature, parts**2 * m * k * n <= LARGEST_TO_DECIDE
        self._dtype = dtype if dtype.isnative else dtype.newbyteorder("=")
        self._rows, self._columns, self._narrow = max(m, n), parts * min(m, n), dtype.char in "fF"
        self._apart = (parts, parts * n) if self._turned else (parts * n, parts)
        self._form: Any = compiled(FORM)
        self._multiply = self._form.multiply.unchecked()  # of what `_write` gives it
        self._prepared = self._columns, self._form.padded(self._length) + 1
        self._room = self._form.needed(self._length, self._columns, self._rows)
        self._alone = self._rows * self._length * (1 + self._columns) <= ALONE_ELEMENTS
        self._target, limits = request.target_of(dtype), request.norm_format(dtype)
        self._limit = norm_limit(limits, self._length)
        self._limits = counting_limits(limits.name, self._length, request.certified)
        self._bits = TO_DECIDE if request.certified else 0 if request.of_norms else EVERYTHING
        self._start, self._single = self._start_for(0), self._target.precision == 24

    @cached_property
    def _small(self) -> SmallProducts:
        return SmallProducts(self._signature)

    def _start_for(self, bits: int) -> float:
        return start_of(steps.norm_widths(self._limit, self._length, bits)[1])

    def multiply(self, pair: Pair, out: np.ndarray) -> Outcome:
        """Write the product to `out`; where counts do not decide its bits, with those of a decision."""
        outcome = UNDECIDED
        if self._bits != TO_DECIDE or pair.bits is None:
            outcome = self._write(pair, self._bits, self._start, out)
        if outcome == UNDECIDED and self._is_small and pair.bits is None:
            return self._small.multiply(pair, out)
        return self._decide(pair, out) if outcome == UNDECIDED else _told(outcome, pair)

    @np.errstate(all="ignore")
    def _decide(self, pair: Pair, out: np.ndarray) -> Outcome:
        """Write the product with the bits of a decision."""
        if (bits := -1 if pair.bits is not None else counted_bits(pair)) < 0:
            bits = bits_of_level_factors(pair)
        pair = pair._replace(bits=bits)
        if not (0 <= bits <= WIDENED_IN_ALL or bits == EVERYTHING):
            return Declined(pair, UNLEVEL)
        if is_extreme(pair):
            return Declined(pair, EXTREME)
        widened = 0 if bits == EVERYTHING else bits
        known = steps.both_norm_scales(pair, widened)[self._turned]
        return _told(self._write(pair, bits, self._start_for(widened), out, known), pair)

    def _write(
        self, pair: Pair, bits: int, start: float, out: np.ndarray, known: np.ndarray = UNKNOWN
    ) -> int:
        """Write the product with integers that grow by some bits; return its outcome.

        known : the scales of the rows, if they are.
        """
        form, parts, k = self._form, self._parts, self._length
        rows, columns = pair.a.matrix, pair.b.matrix.T
        if not rows.dtype is columns.dtype is self._dtype:
            rows, columns = np.require(rows, self._dtype), np.require(columns, self._dtype)
        if self._turned:
            rows, columns = columns, rows
        if self._narrow:
            target = np.empty(parts * out.size)
        else:
            target = out.reshape(-1) if parts == 1 else out.reshape(-1).view(np.float64)
        given = k, parts == 2, self._limits, bits, np.empty(self._prepared), np.empty(form.BOUNDS)
        how, of_columns = (start, self._single, *self._apart, target), _operand(columns)
        if self._alone:
            of_all = self._rows, *of_columns, *given, True, known
            outcome: int = self._multiply(*_operand(rows), *of_all, *how, np.empty(self._room))
        else:
            outcome = self._write_in_blocks(rows, of_columns, given, known, how)
        if self._narrow:
            values = target.view(np.complex128) if parts == 2 else to_half(target, self._target)
            out[...] = values.reshape(out.shape)
        return outcome

    def _write_in_blocks(self, rows: np.ndarray, columns: Operand, given: Any, known: Any, how: Any) -> int:
        """Write the product by all cores; decide when all rows are measured."""
        form, (*given, bounds), (*how, target), count = self._form, given, how, self._rows
        k, _, limits, bits, prepared = given
        if not form.prepare(*columns, *given, bounds, np.empty((form.ROOM, LANES))):
            return OUT_OF_RANGE
        outcomes, of_blocks = set[int](), list[np.ndarray]()

        def work(block: slice) -> None:
            if outcomes and max(outcomes) >= UNDECIDED:
                return
            block = slice(LANES * block.start, min(LANES * block.stop, count))
            some = *_operand(rows[block]), block.stop - block.start
            lowered, to = bounds.copy(), target[block.start * how[2] :]
            memory = np.empty(form.needed(k, len(prepared), block.stop - block.start))
            of_block = *given, lowered, False, known[block]
            outcomes.add(self._multiply(*some, *columns, *of_block, *how, to, memory))
            of_blocks.append(lowered)
            np.minimum(bounds, lowered, out=bounds)  # later blocks see sooner that this is not enough

        groups, elements = -(-count // LANES), LANES * k * (1 + len(prepared))
        over_rows(work, groups, elements, -(-groups * elements // (4 * thread_count())))
        outcome = max(outcomes)
        if bits != TO_DECIDE or outcome >= UNDECIDED:
            return outcome
        least = np.min(of_blocks, axis=0)  # threads may have lost some of one another's in `bounds`
        return outcome if form.needs_no_more(least, k, limits, np.empty(2 * OCTAVES)) else UNDECIDED


def _told(outcome: int, pair: Pair) -> Outcome:
    if outcome == WRITTEN:
        return DONE
    return Declined(pair, UNROUNDED if outcome == UNCERTAIN else EXTREME)


Operand = tuple[np.ndarray, int, int, int, int]


def _operand(x: np.ndarray) -> Operand:
    """Return rows as compiled code takes them; contiguous complex ones as real ones of twice the length.

    The first of it are the bytes of a number, for its address: NumPy takes four times as long to tell that.
    """
    (row, inner), kind, parts = x.strides, x.dtype.char, 1
    if kind in "FD":
        size, parts = x.itemsize // 2, 2
        if inner == 2 * size:
            inner, parts = size, 1
    return x[_FIRST].view(_BYTES), row, inner, kind in "fF", parts


_FIRST, _BYTES = (slice(1), slice(1)), np.dtype(np.uint8)
