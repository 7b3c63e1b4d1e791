"""Small products on a CPU, alone or in stacks: all steps of each in one compiled call.

The compiled call decides, too, how wide the integers are (`ozaki.certificate.decision`). Those of a stack are
computed side by side, but for the few that need more than most. Graded products, those with an Inf or NaN,
and those whose sums two floats do not decide are left to others.
"""

from __future__ import annotations

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows, thread_count
from multiword.tuning import COMPILED_ELEMENTS
from ozaki.certificate.counted import counting_limits
from ozaki.certificate.pairwise import tolerance
from ozaki.definition.decision import EVERYTHING, WIDENED_IN_ALL
from ozaki.execution.contract import DONE, UNCOUNTED, UNLEVEL, UNROUNDED, Declined, Outcome
from ozaki.product.pair import Pair, Signature
from ozaki.product.scale import bits_of_level_factors
from ozaki.rounding.conversion import to_half
from ozaki.scaling.equilibration import most_graded
from ozaki.scaling.scales import norm_limit
from ozaki.tuning import FEWEST_SIDE_BY_SIDE, LARGEST_SIDE_BY_SIDE, OVERHEAD_ELEMENTS

FORM, SIDE_BY_SIDE = "ozaki.execution.small_products_numba", "ozaki.execution.side_by_side_numba"

TO_DECIDE = -1
"""In place of bits by which integers grow: the compiled call decides."""

WRITTEN, UNCERTAIN, UNDECIDED, UNTRIED = 0, 1, 2, 3
"""The outcomes of a product: it is written; or a row is of extreme size, or a result may not be rounded for
certain; or the bits are undecided, or there is an Inf or NaN; or nothing was done yet."""

_ONE_UNTRIED = np.full(1, UNTRIED, np.int8)
"""The outcome of one product before the call, to be copied."""

LANES = 16
"""Sums that compiled code adds up side by side, in a vector: of one product, or of as many products."""

LONGEST_COUNTED = 255
"""Numbers of a row, at most, of which a byte can say how many lie in some octaves."""

LOSSLESS = 53
"""Bits of rows whose numbers are not rounded to integers: these are near 1, all of them."""


class SmallProducts:
    """The small products of one signature."""

    def __init__(self, signature: Signature) -> None:
        request, (m, k, n), parts = signature.request, signature.shape, signature.parts
        self._target, self._narrow = request.target_of(signature.dtype), signature.dtype.char in "fF"
        self._sizes, self._certified = (m, parts * k, parts * n), request.certified
        self._form, self._as_they_are = compiled(FORM), signature.dtype == np.float64
        self._multiply_stack = self._form.multiply_stack.unchecked()  # of what `_write` makes float64
        self._room = self._form.needed_by_stack(*self._sizes)
        self._bits, self._width = TO_DECIDE if self._certified else 0, 0
        name, length = "fp64", parts * k
        if request.of_norms:
            name = request.norm_format(signature.dtype).name
        elif request.accuracy == "exact":
            self._bits, self._width = EVERYTHING, LOSSLESS
        else:
            self._width = int(request.accuracy)
        self._limits, of_pairs = counting_limits(name, length, True), tolerance(np.float64(length))
        most = most_graded(length, norm_limit(FORMATS[name], length))
        self._of_pairs = np.array([most, of_pairs * FORMATS[name].unit_roundoff])
        self._single, self._workspace = self._target.precision == 24, request.workspace

    def multiply(self, pair: Pair, out: np.ndarray) -> Outcome:
        """Write the product, or those of a stack, to `out`."""
        if pair.a.matrix.ndim == 2:
            return self._multiply_one(pair, pair.a.matrix[None], pair.b.matrix.T[None], out)
        rows, columns = pair.a.stacked, pair.b.stacked.swapaxes(1, 2)
        if len(rows) == 1:
            return self._multiply_one(pair, rows, columns, out)
        outcomes = np.full(pair.stack, UNTRIED, np.int8)

        def work(groups: slice) -> None:
            block = slice(groups.start * LANES, groups.stop * LANES)
            self._write(rows[block], columns[block], self._bits, out[block], outcomes[block])

        (m, k, n), parts = pair.shape, len(pair.a.parts)
        elements = parts**2 * max(m * n, m * k, n * k) + OVERHEAD_ELEMENTS
        over_rows(work, -(-pair.stack // LANES), LANES * elements, COMPILED_ELEMENTS)
        return Declined(pair, UNCOUNTED, np.flatnonzero(outcomes)) if outcomes.any() else DONE

    def _multiply_one(self, pair: Pair, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> Outcome:
        """Write a product; where the call does not decide its bits, with those that a decision asks for."""
        outcomes = _ONE_UNTRIED.copy()
        outcome = self._write(rows, columns, self._bits, out, outcomes)
        if outcome == UNDECIDED and self._certified:
            with np.errstate(all="ignore"):
                bits = bits_of_level_factors(pair)
            pair = pair._replace(bits=bits)
            if 0 <= bits <= WIDENED_IN_ALL or bits == EVERYTHING:
                outcome = self._write(rows, columns, bits, out, outcomes)
        if outcome == WRITTEN:
            return DONE
        return Declined(pair, UNLEVEL if outcome == UNDECIDED else UNROUNDED)

    def _write(
        self, rows: np.ndarray, columns: np.ndarray, bits: int, out: np.ndarray, outcomes: np.ndarray
    ) -> int:
        """Write products that are not written to contiguous memory; return the largest of their outcomes."""
        m, _, n = self._sizes
        if self._as_they_are:
            target = out if out.ndim == 2 else out.reshape(-1, n)
        else:
            rows, columns = _real_stacks(rows, columns)
            target = np.empty((len(rows) * m, n)) if self._narrow else out.view(float).reshape(-1, n)
        given = rows, columns, bits, target, outcomes
        together = len(rows) >= FEWEST_SIDE_BY_SIDE and self._write_side_by_side(*given)
        largest = WRITTEN if together else self._write_rest(*given)
        if self._narrow:
            values = target.view(np.complex128) if out.dtype.kind == "c" else to_half(target, self._target)
            out[...] = values.reshape(out.shape)
        return largest

    def _write_side_by_side(
        self, rows: np.ndarray, columns: np.ndarray, bits: int, target: np.ndarray, outcomes: np.ndarray
    ) -> bool:
        """Write what needs no more than nearly all products do, LANES at a time; return whether all are."""
        m, k, n = self._sizes
        if k > LONGEST_COUNTED or (m + n) * k > LARGEST_SIDE_BY_SIDE:
            return False
        form, count, more = compiled(SIDE_BY_SIDE), len(rows), len(rows) % LANES
        if (numbers := form.needed(m, k, n)) * 8 * thread_count() > self._workspace:
            return False
        count -= more if more < FEWEST_SIDE_BY_SIDE else 0
        given = self._limits, bits, self._width, self._single, target, outcomes[:count]
        form.multiply_side_by_side(rows[:count], columns[:count], *given, np.empty(numbers))
        return not outcomes.any()

    def _write_rest(
        self, rows: np.ndarray, columns: np.ndarray, bits: int, target: np.ndarray, outcomes: np.ndarray
    ) -> int:
        """Write the products that are not written yet, one by one; return the largest outcome."""
        how = self._limits, self._of_pairs, bits, self._width, self._single
        given = rows, columns, *how, target, outcomes, np.empty(self._room)
        largest: int = self._multiply_stack(*given)
        if largest == UNDECIDED and bits == TO_DECIDE:
            largest = self._form.multiply_by_pairs(*given)
        return largest


def _real_stacks(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (s, m, k) rows and (s, n, k) columns of real products, as float64.

    A complex product is a real one of (m, 2k) rows, parts side by side, and (2n, 2k) columns.
    """
    if rows.dtype.kind != "c":
        return rows.astype(np.float64, copy=False), columns.astype(np.float64, copy=False)
    s, n, k = columns.shape
    pairs = np.empty((s, n, 2, k, 2))
    put_pairs(columns, pairs)
    return np.ascontiguousarray(rows, np.complex128).view(np.float64), pairs.reshape(s, 2 * n, 2 * k)


def put_pairs(columns: np.ndarray, pairs: np.ndarray) -> None:
    """Write complex (…, k) columns as the two real ones (…, 2, k, 2) that make the parts of a product."""
    pairs[..., 0, :, 0] = pairs[..., 1, :, 1] = columns.real
    pairs[..., 1, :, 0] = columns.imag
    # Not by out=: NumPy 2.4 negates numbers 64 bytes apart wrongly where the result has strides, too.
    pairs[..., 0, :, 1] = -columns.imag
