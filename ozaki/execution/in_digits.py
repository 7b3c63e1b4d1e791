"""Executor "digits": small products on a CPU, of integers in digits whose products float64 adds up exactly.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, graded
ones, and those of stacks that the counting bound leaves undecided, are left to the steps of all others; but
those of which no bound proves anything lose nothing.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows
from multiword.tuning import COMPILED_ELEMENTS
from ozaki.certificate.counted import counted_scales
from ozaki.certificate.pairwise import proves_nothing
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.execution.contract import (
    DONE,
    NO_ROOM,
    UNCOUNTED,
    UNLEVEL,
    UNROUNDED,
    Declined,
    Executor,
    Outcome,
    beyond,
    goes_together,
    no_compiled_code,
)
from ozaki.product.pair import Pair, Signature
from ozaki.product.request import TARGETS, Request
from ozaki.product.scale import bits_of_level_factors
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import width_scales
from ozaki.scaling.statistics import NONFINITE_ROW, RowStatistics, statistics_of_rows
from ozaki.tuning import DIGITS, LARGEST_IN_DIGITS, OVERHEAD_ELEMENTS

LONGEST = 128
"""Numbers in a row, at most: of longer ones, products of four digits might not add up exactly in float64."""

FORM = "ozaki.execution.in_digits_numba"


class Digits(Executor):
    """Products of one signature in digits."""

    name = "digits"
    about = "integers in digits of 23 bits, whose products float64 adds up exactly (CPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if (why := no_compiled_code(signature)) is not None:
            return why
        (_, k, n), parts = signature.shape, signature.parts
        if parts * k > LONGEST:
            return "the inner dimension is too long"
        room = 8 * (parts * k + 8) * (6 * parts * n + 32)
        return NO_ROOM if room > signature.request.workspace else None

    @property
    def cost(self) -> float:
        (m, k, n), parts = self.signature.shape, self.signature.parts
        k, n = parts * k, parts * n
        small = m * k * n <= LARGEST_IN_DIGITS and goes_together(self.signature)
        return DIGITS[0] + DIGITS[1] * m * k * n + DIGITS[2] * m * n if small else math.inf

    def declines(self, pair: Pair) -> str | None:
        why = beyond(pair, WIDENED_IN_ALL)
        if why is not None and pair.request.certified and proves_nothing(pair.a.matrix, pair.b.matrix.T):
            return None
        return why

    def run(self, pair: Pair, out: np.ndarray) -> Outcome:
        rows, columns, request = pair.a.stacked, pair.b.stacked.swapaxes(1, 2), pair.request
        if pair.stack == 1:
            digits = _Digits(rows, columns, request)
            if digits.undecided[0] and request.certified:
                pair = pair._replace(bits=digits.widen(pair))
            if digits.undecided[0]:
                return Declined(pair, UNLEVEL)
            digits.multiply(out)
            return Declined(pair, UNROUNDED) if digits.undecided[0] else DONE
        undecided = np.empty(pair.stack, np.bool_)

        def work(block: slice) -> None:
            digits = _Digits(rows[block], columns[block], request)
            digits.multiply(out[block])
            undecided[block] = digits.undecided

        (m, k, n), parts = self.signature.shape, self.signature.parts
        elements = parts**2 * max(m * n, m * k, n * k) + OVERHEAD_ELEMENTS
        over_rows(work, pair.stack, elements, COMPILED_ELEMENTS)
        return Declined(pair, UNCOUNTED, np.flatnonzero(undecided)) if undecided.any() else DONE


class _Digits:
    """Products of (s, m, k) rows and (s, n, k) columns in digits.

    Attributes
    ----------
    undecided : which products are left to others: `multiply` adds those that it cannot round for certain.
    """

    def __init__(self, rows: np.ndarray, columns: np.ndarray, request: Request) -> None:
        self._dtype, self._target = rows.dtype, TARGETS[rows.dtype]
        self._x, (self._stack, self._m, k, self._n) = _real_rows(rows, columns)
        self._request, self._sums = request, statistics_of_rows(self._x)
        if request.of_norms:
            name = request.norm_format(self._target).name
            counted = counted_scales(self._sums, k, self._stack, self._n, name, request.certified)
            assert counted is not None  # all is compiled
            self._scale, self._width, bits = counted
            self.undecided: np.ndarray = bits < 0
            if request.certified and self.undecided.any():
                self._lose_nothing_without_bounds()
        else:
            self._given_scales()

    def widen(self, pair: Pair) -> int:
        """Return the bits that a decision asks for where counting has left a single product undecided."""
        a, b = pair.a, pair.b
        statistics = RowStatistics(*self._sums, self._x.shape[1])
        of_b = np.arange(self._m, self._m + self._n, self._n // b.rows)  # real columns come in pairs
        a.statistics, b.statistics = statistics[: self._m], statistics[of_b]
        bits = bits_of_level_factors(pair)
        if 0 <= bits <= WIDENED_IN_ALL:
            self._scale += bits
            self._width += bits
            self.undecided[0] = False
        return bits

    def multiply(self, out: np.ndarray) -> None:
        """Write the products to contiguous memory of (s, m, n) numbers."""
        form, k, parts = compiled(FORM), self._x.shape[1], 1 + (self._dtype.kind == "c")
        flat = out.reshape(self._stack * self._m, self._n // parts)
        target = flat
        if out.dtype != np.float64:
            target = flat.view(np.float64) if out.itemsize == 8 * parts else np.empty((len(flat), self._n))
        given = self._x, self._scale, self._width, self.undecided, self._target.precision == 24
        form.products(*given, target, *form.work_arrays(k, self._n))
        if out.itemsize < 8 * parts:
            with np.errstate(over="ignore"):  # in a thread that has not the caller's
                flat[...] = target.view(np.complex128) if parts == 2 else target

    def _given_scales(self) -> None:
        """Take the scales of a requested width, or the smallest that lose nothing."""
        exact, exponent = self._request.accuracy == "exact", self._sums[0]
        scale = exact_scales([self._x]) if exact else width_scales(exponent, int(self._request.accuracy))
        sides = np.split(scale == NONFINITE_ROW, [self._stack * self._m])
        nonfinite = np.hstack([rows.reshape(self._stack, -1) for rows in sides])
        self._scale = scale
        self._width = self._widths()
        self.undecided = np.asarray(nonfinite.any(axis=1))

    def _lose_nothing_without_bounds(self) -> None:
        """Decide products of which no bound proves anything."""
        which = np.flatnonzero(self.undecided)
        of_left, of_right = (
            first + which[:, None] * size + np.arange(size)
            for first, size in ((0, self._m), (self._stack * self._m, self._n))
        )
        decided = proves_nothing(self._x[of_left], self._x[of_right])
        rows = np.hstack([of_left[decided], of_right[decided]]).ravel()
        self._scale[rows] = exact_scales([self._x[rows]])
        self._width[rows] = self._widths(rows)
        self.undecided[which[decided]] = False

    def _widths(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the bits of the integers of some rows."""
        exponent, total, _, _ = self._sums
        return np.where(total[rows] > 0, exponent[rows] + self._scale[rows], 0).astype(np.int32)


def _real_rows(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """Return the rows of all left matrices, then the columns of all right ones, and sizes of real products.

    A complex product is a real one of (m, 2k) rows, parts side by side, and (2n, 2k) columns.
    """
    (s, m, k), n = rows.shape, columns.shape[1]
    if rows.dtype.kind != "c":
        x = np.empty((s * (m + n), k))
        x[: s * m].reshape(s, m, k)[...] = rows
        x[s * m :].reshape(s, n, k)[...] = columns
        return x, (s, m, k, n)
    x = np.empty((s * (m + 2 * n), 2 * k))
    x[: s * m].view(np.complex128).reshape(s, m, k)[...] = rows
    parts = x[s * m :].reshape(s, n, 2, k, 2)
    parts[:, :, 0, :, 0] = parts[:, :, 1, :, 1] = columns.real
    parts[:, :, 1, :, 0] = columns.imag
    # Not by out=: NumPy 2.4 negates numbers 64 bytes apart wrongly where the result has strides, too.
    parts[:, :, 0, :, 1] = -columns.imag
    return x, (s, m, 2 * k, 2 * n)
