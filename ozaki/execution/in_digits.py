"""Products of small matrices on a CPU, compiled: integers in digits whose products float64 adds up exactly.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, graded
ones, and those of stacks that the counting bound leaves undecided, are left to the steps of all others; but
those of which no bound proves anything lose nothing.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.compiled import compiled
from ozaki.certificate.counted import counted_scales
from ozaki.certificate.pairwise import proves_nothing
from ozaki.execution.eager import bits_of_level_factors
from ozaki.product.factor import Factor
from ozaki.product.request import TARGETS, Request
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import width_scales
from ozaki.scaling.statistics import NONFINITE_ROW, RowStatistics, statistics_of_rows
from ozaki.tuning import DIGITS, LARGEST_IN_DIGITS

LONGEST = 128
"""Numbers in a row, at most: of longer ones, products of four digits might not add up exactly in float64."""

FORM = "ozaki.execution.in_digits_numba"


def seconds_in_digits(sizes: tuple[int, int, int, int], dtype: np.dtype, request: Request) -> float:
    """Return about how long each of a stack of products, (s, m, k, n), takes; Inf if they do not go so."""
    parts, (_, m, k, n) = 1 + (dtype.kind == "c"), sizes
    k, n = parts * k, parts * n
    room = 8 * (k + 8) * (6 * n + 32) <= request.workspace
    if m * k * n > LARGEST_IN_DIGITS or k > LONGEST or not room or compiled(FORM) is None:
        return math.inf
    return DIGITS[0] + DIGITS[1] * m * k * n + DIGITS[2] * m * n


class Digits:
    """Products of (s, m, k) rows and (s, n, k) columns in digits.

    Attributes
    ----------
    undecided : which products are left to others: `products` adds those that it cannot round for certain.
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

    def widen(self, a: Factor, b: Factor) -> None:
        """Decide a single product of these factors that counting has left undecided."""
        statistics = RowStatistics(*self._sums, self._x.shape[1])
        of_b = np.arange(self._m, self._m + self._n, self._n // b.rows)  # real columns come in pairs
        a.statistics, b.statistics = statistics[: self._m], statistics[of_b]
        bits = bits_of_level_factors(a, b, self._request)
        self._scale += bits
        self._width += bits
        self.undecided[0] = bits < 0

    def products(self) -> np.ndarray:
        """Return the (s, m, n) products."""
        form, k, out = compiled(FORM), self._x.shape[1], np.empty((self._stack * self._m, self._n))
        given = self._x, self._scale, self._width, self.undecided, self._target.precision == 24
        form.products(*given, out, *form.work_arrays(k, self._n))
        if self._dtype.kind == "c":
            out = out.view(np.complex128)
        if out.dtype != self._dtype:
            with np.errstate(over="ignore"):  # in a thread that has not the caller's
                out = out.astype(self._dtype)
        return out.reshape(self._stack, self._m, -1)

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
