"""Sums, means, variances and covariances by group as enclosures, rounded: one or two passes over the numbers.

`groups_enclosed_numba` has the loops. What their bounds do not decide, exact sums by group do.
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from multiword.runtime.arrays import to_float64
from multiword.runtime.compiled import cached_form, compiled
from multiword.runtime.parallel import in_threads, taken
from ozaki.sums.exact.extraction import LOOPS, contiguous
from ozaki.sums.exact.fixed_point import NOT_FINITE, ORDINARY, Rounding, flagged, flags_of
from ozaki.sums.exact.groups import check_labels, lane_bits, shares_of
from ozaki.tuning import ENCLOSED_GROUPS, ENCLOSED_LANES, LARGE_TABLE, TERMS_OF_A_LANE

_FLOAT64 = np.dtype(np.float64)

Found = tuple[np.ndarray, np.ndarray] | None
"""Results as float64, and the groups of which they are undecided; None for what the loops do not take."""


def totals(x: np.ndarray, *others: Any, mean: bool = False, skip_nan: bool = False) -> Found:
    """Return Σ x or Σ x·y by group, or the means.

    others : perhaps y, then labels, how many groups there are, and the rounding.
    """
    *second, labels, groups, rounding = others
    if second and _integers(x, *second):
        return None  # no −0 is a product of integers
    if (numbers := _Numbers.taken([x, *second], labels, groups, rounding)) is None:
        return None
    found = numbers.rounded("totals_of_groups", numbers.sums(numbers.arrays, skip_nan=skip_nan), mean)
    return numbers.settled(*found, skip_nan)


def variances(
    x: np.ndarray,
    labels: np.ndarray,
    groups: int,
    rounding: Rounding,
    ddof: Fraction,
    skip_nan: bool = False,
) -> Found:
    """Return variances by group, or their roots."""
    if x.dtype.kind == "c" or not _is_small(ddof):
        return None
    if (numbers := _Numbers.taken([x], labels, groups, rounding)) is None:
        return None
    sums = numbers.sums(numbers.arrays, skip_nan=skip_nan)
    means = numbers.means(sums)
    numbers.passed(_loop("squares_in_groups"), numbers.arrays, [skip_nan], [sums])
    found = numbers.rounded("variances_of_groups", sums, means, ddof.numerator, rounding.root)
    return numbers.settled(*found, skip_nan, spread=True)


def covariances(
    x: np.ndarray, y: np.ndarray, labels: np.ndarray, groups: int, rounding: Rounding, ddof: Fraction
) -> Found:
    """Return covariances of real numbers by group; those of numbers with themselves are variances."""
    if y is x:
        return variances(x, labels, groups, rounding, ddof)
    if not _is_small(ddof):
        return None
    if (numbers := _Numbers.taken([x, y], labels, groups, rounding)) is None:
        return None
    both = [numbers.sums([array]) for array in numbers.arrays]
    means = [numbers.means(sums) for sums in both]
    numbers.passed(_loop("products_in_groups"), numbers.arrays, [], both)
    return numbers.settled(
        *numbers.rounded("covariances_of_groups", *both, *means, ddof.numerator), spread=True
    )


def averages(x: np.ndarray, w: np.ndarray, labels: np.ndarray, groups: int, rounding: Rounding) -> Found:
    """Return weighted means by group."""
    if _integers(x, w):
        return None
    if (numbers := _Numbers.taken([x, w], labels, groups, rounding)) is None:
        return None
    sums = numbers.table(_loop("added_with_weights"), numbers.arrays, 8)
    return numbers.rounded("averages_of_groups", sums)


def _is_small(ddof: Fraction) -> bool:
    """Whether float64 numbers of a count less degrees of freedom are exact."""
    return ddof.denominator == 1 and abs(ddof.numerator) <= ENCLOSED_GROUPS


def _integers(*arrays: np.ndarray) -> bool:
    return any(x.dtype.kind in "iub" for x in arrays)


class _Numbers:
    """Vectors with labels, and the passes over them.

    Tables have rows for the lanes of every group; each thread has its own.
    """

    def __init__(self, arrays: list[np.ndarray], labels: np.ndarray, groups: int, rounding: Rounding) -> None:
        self.arrays, self._labels, self._groups = arrays, labels, groups
        self._single, n = rounding.target.precision == 24, len(labels)
        self._bits = lane_bits(min(ENCLOSED_LANES, n // TERMS_OF_A_LANE), groups)
        size = -(-n // shares_of(n, groups))
        self._parts = [slice(0, n)] if size == n else [slice(i, i + size) for i in range(0, n, size)]

    @classmethod
    def taken(
        cls, arrays: list[np.ndarray], labels: np.ndarray, groups: int, rounding: Rounding
    ) -> _Numbers | None:
        """Return numbers for which there are loops: all of them float64 holds."""
        if not (compiled(LOOPS) and 0 < len(labels) <= ENCLOSED_GROUPS and groups):
            return None
        numbers = []
        for x in arrays:
            if x.dtype is not _FLOAT64:  # which takes no more questions
                if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
                    return None
                x = to_float64(x)
            numbers.append(contiguous(x))
        if rounding.target.precision not in (24, 53):
            return None
        return cls(numbers, contiguous(labels), groups, rounding)

    def sums(self, factors: list[np.ndarray], skip_nan: bool = False) -> np.ndarray:
        """Return a table of sums of numbers, or of products."""
        loop, both = _loop("added_to_groups", len(factors) == 2), [*factors, None][:2]
        return self.table(loop, both, 4, skip_nan)

    def table(self, loop: Any, arrays: list[Any], width: int, *given: bool) -> np.ndarray:
        """Return a table that a loop writes, of such a width. ValueError for labels of no group."""
        table = _in_lines((len(self._parts), self._groups << self._bits, width))
        if not all(self.passed(loop, arrays, [self._groups, *given], [table])):
            check_labels(self._labels, self._groups)
        return table

    def means(self, sums: np.ndarray) -> np.ndarray:
        """Return what is left of the sums of a table by the means rounded, which the table is left with."""
        means = np.empty((self._groups, 3))
        _loop("means_of_groups")(sums, self._bits, means)
        return means

    def passed(self, loop: Any, arrays: list[Any], given: list[Any], tables: list[np.ndarray]) -> list[Any]:
        """Return what a loop returns for each thread's part of arrays, whose last may be None."""
        if len(self._parts) == 1:
            return [loop(*arrays, self._labels, self._bits, *given, *[table[0] for table in tables])]
        found, left = [], deque(enumerate(self._parts))

        def work() -> None:
            for i, part in taken(left):
                some = [x if x is None else x[part] for x in (*arrays, self._labels)]
                found.append(loop(*some, self._bits, *given, *[table[i] for table in tables]))

        in_threads(work, len(self._parts) - 1, left.clear)
        return found

    def rounded(self, name: str, *given: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return what a loop writes of tables, and the groups that it leaves undecided."""
        result, hard = np.empty(self._groups), np.empty(self._groups, np.int64)
        return result, hard[: _loop(name)(*given, self._bits, self._single, hard, result)]

    def settled(
        self, result: np.ndarray, hard: np.ndarray, skip_nan: bool = False, spread: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return results with those of groups that have Inf or NaN, and the groups that are still undecided.

        spread : whether such a result is NaN in any case; else it is the sum of these.
        """
        if not len(hard):
            return result, hard
        bad = np.zeros(self._labels.size, bool)
        for x in self.arrays:
            bad |= ~np.isfinite(x)
        if skip_nan:
            bad &= ~np.isnan(self.arrays[0])
        labels = self._labels[bad]
        terms = np.full(labels.size, np.nan) if spread else np.multiply.reduce([x[bad] for x in self.arrays])
        flags = np.full(self._groups, ORDINARY)
        np.bitwise_or.at(flags, labels, flags_of(terms))
        return flagged(result, flags), hard[(flags[hard] & NOT_FINITE) == 0]


def _in_lines(shape: tuple[int, int, int]) -> np.ndarray:
    """Return an empty table; of a large one no row lies in two lines of the cache, if one holds it."""
    size = prod(shape)
    if size < LARGE_TABLE:
        return np.empty(shape)
    memory = np.empty(size + 7)
    begin = -memory.ctypes.data % 64 // 8
    return memory[begin : begin + size].reshape(shape)


@cached_form
def _loop(name: str, pairs: bool = False) -> Any:
    """Return a loop of `groups_enclosed_numba`, which takes all arrays contiguous and aligned, unchecked."""
    loops = compiled(LOOPS)
    return loops.loop(getattr(loops, name), _FLOAT64, pairs).unchecked()
