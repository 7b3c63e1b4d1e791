"""A superaccumulator: one fixed-point number per column, over the whole range of a format.

After Kulisch. Digits of base 2**32 in int64 leave 31 bits in which carries may wait, so that
adding is associative integer addition and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from ozaki.rounding.digits import carry
from ozaki.sums.extraction import LEVEL_BITS, PartialSums
from ozaki.sums.fixed_point import DIGIT_BITS, DigitRange, FixedPoint, scatter

_PENDING_LIMIT = 1 << 28
"""Terms that may be added between carries: each adds less than 2**34 to a digit."""

_BATCH = 8
"""Blocks whose sums wait to be added together."""

_EXPONENTS = 1 << 11
_BINNED = 1 << 20  # values per pass: 2**20 parts of 27 bits are added in 53 bits exactly


class Superaccumulator:
    """Exact sums for m columns. Digits are (range.digits, m) int64, flags (m,) uint8."""

    def __init__(self, range: DigitRange, columns: int) -> None:
        self.range = range
        self.digits = np.zeros((range.digits, columns), np.int64)
        self.flags = np.zeros(columns, np.uint8)
        self._pending = 0

    def add(self, sums: Iterable[PartialSums], columns: np.ndarray | None = None) -> None:
        """Add the partial sums of any number of blocks that all have these columns (default: all)."""
        sums = iter(sums)
        index = np.arange(self.flags.size) if columns is None else columns
        while batch := list(islice(sums, _BATCH)):
            self._add_batch(batch, index)

    def _add_batch(self, batch: Sequence[PartialSums], index: np.ndarray) -> None:
        columns = np.tile(index, len(batch))
        exponent = np.concatenate([np.broadcast_to(sums.exponent, index.shape) for sums in batch])
        self._scatter(columns, np.concatenate([sums.low for sums in batch]), exponent)
        self._scatter(columns, np.concatenate([sums.high for sums in batch]), exponent + LEVEL_BITS)
        for sums in batch:
            self.flags[index] |= sums.flags
            if not isinstance(sums.scales, int):
                self.add_values(index[sums.columns], sums.values, sums.scales)
        unscaled = [sums for sums in batch if isinstance(sums.scales, int) and sums.values.size]
        if unscaled:
            values = np.concatenate([sums.values for sums in unscaled])
            if len(index) == 1:
                outside = np.broadcast_to(index, values.shape)
            else:
                outside = index[np.concatenate([sums.columns for sums in unscaled])]
            self.add_values(outside, values)

    def add_values(self, columns: np.ndarray, values: np.ndarray, scale: np.ndarray | int = 0) -> None:
        """Add finite float64 values times 2**scale to their columns. Flags are left alone."""
        if isinstance(scale, int) and values.size * 2 > _EXPONENTS * self.flags.size:
            for start in range(0, values.size, _BINNED):
                part = slice(start, start + _BINNED)
                self._add_binned(columns[part], values[part], scale)
            return
        integers, exponent = _integers(values)
        self._scatter(columns, integers, exponent + scale)

    def _add_binned(self, columns: np.ndarray, values: np.ndarray, scale: int) -> None:
        """Values of equal exponent have a common quantum: halves of 27 bits add up exactly."""
        pattern = values.view(np.int64)
        exponent = (pattern >> 52) & (_EXPONENTS - 1)
        huge = exponent >= _EXPONENTS - 64  # whose sum might overflow
        if huge.any():
            integers, power = _integers(values[huge])
            self._scatter(columns[huge], integers, power + scale)
            self._add_binned(columns[~huge], values[~huge], scale)
            return
        leading = (pattern & np.int64(-1 << 26)).view(np.float64)
        index = exponent if self.flags.size == 1 else exponent + columns * _EXPONENTS
        bins = self.flags.size * _EXPONENTS
        for part in (leading, values - leading):
            total = np.bincount(index, weights=part, minlength=bins)
            used = np.flatnonzero(total)
            integers, power = _integers(total[used])
            self._scatter(used // _EXPONENTS, integers, power + scale)

    def merge(self, other: Superaccumulator, columns: slice | np.ndarray = slice(None)) -> None:
        """Add all that another one holds, to these columns, each once."""
        self._make_room(other._pending + 1)
        self.digits[:, columns] += other.digits
        self.flags[columns] |= other.flags

    def carry(self) -> None:
        """Bring the digits into canonical form: in [0, 2**32) but for the last, which has the sign."""
        carry(self.digits, DIGIT_BITS)
        self._pending = 1

    def fixed_point(self) -> FixedPoint:
        """The exact values, without the digits that no column uses."""
        used = np.flatnonzero(self.digits.any(axis=1))
        low, high = (used[0], used[-1] + 1) if used.size else (0, 1)
        exponent = self.range.exponent + DIGIT_BITS * int(low)
        return FixedPoint(self.digits[low:high], DIGIT_BITS, exponent, self.flags)

    def _scatter(self, columns: np.ndarray, integers: np.ndarray, exponent: np.ndarray) -> None:
        self._make_room(integers.size)
        scatter(self.digits, columns, integers, exponent - self.range.exponent)

    def _make_room(self, terms: int) -> None:
        if self._pending + terms > _PENDING_LIMIT:
            self.carry()
        self._pending += terms


def _integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite float64 numbers as integers of 53 bits and the exponents of their units."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(fraction, 53).astype(np.int64), exponent.astype(np.int64) - 53
