"""Small products on a CPU, alone or in stacks: all rows are copied, measured and multiplied in one place.

Graded products, and those of stacks that the counting bound leaves undecided, are left to others; but those
of which no bound proves anything lose nothing.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows
from multiword.tuning import COMPILED_ELEMENTS
from ozaki.certificate.counted import counted_scales
from ozaki.certificate.pairwise import proves_nothing
from ozaki.definition.decision import EVERYTHING, WIDENED_IN_ALL
from ozaki.execution.contract import DONE, UNCOUNTED, UNLEVEL, UNROUNDED, Declined, Outcome
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.product.scale import bits_of_level_factors
from ozaki.rounding.conversion import to_half
from ozaki.scaling.scales import width_scales
from ozaki.scaling.statistics import NONFINITE, RowStatistics, statistics_of_rows
from ozaki.tuning import OVERHEAD_ELEMENTS

FORM = "ozaki.execution.across_numba"

LOSSLESS = 53
"""Bits of rows whose numbers are not rounded to integers: these are near 1, all of them."""


def multiply_small(pair: Pair, out: np.ndarray) -> Outcome:
    """Write the product, or those of a stack, to `out`."""
    rows, columns, request = pair.a.stacked, pair.b.stacked.swapaxes(1, 2), pair.request
    if pair.stack == 1:
        product = _Products(rows, columns, request)
        if product.undecided[0] and request.certified:
            pair = pair._replace(bits=product.widen(pair))
        if product.undecided[0]:
            return Declined(pair, UNLEVEL)
        product.multiply(out)
        return Declined(pair, UNROUNDED) if product.undecided[0] else DONE
    undecided = np.empty(pair.stack, np.bool_)

    def work(block: slice) -> None:
        products = _Products(rows[block], columns[block], request)
        products.multiply(out[block])
        undecided[block] = products.undecided

    (m, k, n), parts = pair.shape, len(pair.a.parts)
    elements = parts**2 * max(m * n, m * k, n * k) + OVERHEAD_ELEMENTS
    over_rows(work, pair.stack, elements, COMPILED_ELEMENTS)
    return Declined(pair, UNCOUNTED, np.flatnonzero(undecided)) if undecided.any() else DONE


class _Products:
    """Products of (s, m, k) rows and (s, n, k) columns.

    Attributes
    ----------
    undecided : which products are left to others: `multiply` adds those that it cannot round for certain.
    """

    def __init__(self, rows: np.ndarray, columns: np.ndarray, request: Request) -> None:
        self._dtype, self._target = rows.dtype, request.target_of(rows.dtype)
        self._x, (self._stack, self._m, k, self._n) = _real_rows(rows, columns)
        self._sums = statistics_of_rows(self._x)
        if request.of_norms:
            name = request.norm_format(rows.dtype).name
            counted = counted_scales(self._sums, k, self._stack, self._n, name, request.certified)
            assert counted is not None  # all is compiled
            self._scale, self._width, self._bits = counted
            self.undecided: np.ndarray = self._bits < 0
            if request.certified and self.undecided.any():
                self._lose_nothing_without_bounds()
        else:
            exact = request.accuracy == "exact"
            self._take_width(LOSSLESS if exact else int(request.accuracy))
            self._bits = np.full(self._stack, EVERYTHING if exact else 0)

    def widen(self, pair: Pair) -> int:
        """Return the bits that a decision asks for where counting has left a single product undecided."""
        a, b = pair.a, pair.b
        statistics = RowStatistics(*self._sums, self._x.shape[1])
        of_b = np.arange(self._m, self._m + self._n, self._n // b.rows)  # real columns come in pairs
        a.statistics, b.statistics = statistics[: self._m], statistics[of_b]
        bits = bits_of_level_factors(pair)
        self._bits[0], self.undecided[0] = bits, not (0 <= bits <= WIDENED_IN_ALL or bits == EVERYTHING)
        if bits <= WIDENED_IN_ALL:
            self._scale += bits
            self._width += bits
        return bits

    def multiply(self, out: np.ndarray) -> None:
        """Write the products to contiguous memory of (s, m, n) numbers."""
        form, k, parts = compiled(FORM), self._x.shape[1], 1 + (self._dtype.kind == "c")
        flat = out.reshape(self._stack * self._m, self._n // parts)
        target = flat
        if out.dtype != np.float64:
            target = flat.view(np.float64) if out.itemsize == 8 * parts else np.empty((len(flat), self._n))
        numbers = self._x, self._sums[0], self._scale, self._width
        decided = self._bits, self.undecided, self._target.precision == 24
        form.multiply_stack(*numbers, *decided, target, np.empty(form.needed(k, self._n, self._m)))
        if out.itemsize < 8 * parts:
            with np.errstate(over="ignore"):  # in a thread that has not the caller's
                flat[...] = target.view(np.complex128) if parts == 2 else to_half(target, self._target)

    def _take_width(self, bits: int) -> None:
        """Take the scales of a requested width."""
        exponent = self._sums[0]
        self._scale, self._width = width_scales(exponent, bits), np.full(len(exponent), bits, np.int32)
        sides = np.split(exponent == NONFINITE, [self._stack * self._m])
        nonfinite = np.hstack([rows.reshape(self._stack, -1) for rows in sides])
        self.undecided = np.asarray(nonfinite.any(axis=1))

    def _lose_nothing_without_bounds(self) -> None:
        """Decide products of which no bound proves anything."""
        which = np.flatnonzero(self.undecided)
        left, right = np.split(self._x, [self._stack * self._m])
        left, right = (x.reshape(self._stack, -1, x.shape[1])[which] for x in (left, right))
        lossless = which[proves_nothing(left, right)]
        self._bits[lossless] = EVERYTHING
        self.undecided[lossless] = False


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
    put_pairs(columns, x[s * m :].reshape(s, n, 2, k, 2))
    return x, (s, m, 2 * k, 2 * n)


def put_pairs(columns: np.ndarray, pairs: np.ndarray) -> None:
    """Write complex (…, k) columns as the two real ones (…, 2, k, 2) that make the parts of a product."""
    pairs[..., 0, :, 0] = pairs[..., 1, :, 1] = columns.real
    pairs[..., 1, :, 0] = columns.imag
    # Not by out=: NumPy 2.4 negates numbers 64 bytes apart wrongly where the result has strides, too.
    pairs[..., 0, :, 1] = -columns.imag
