"""A superaccumulator: one fixed-point number per column, over the whole range of a format.

After Kulisch. Digits of base 2**32 in int64 leave 31 bits in which carries may wait, so that
adding is associative integer addition and nothing else. All columns have the same window of digits,
which grows when something falls outside: most data use five to eight digits of 134.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import islice
from types import ModuleType

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from ozaki.rounding.digits import carry
from ozaki.sums.exact.extraction import LEVEL_BITS, PartialSums
from ozaki.sums.exact.fixed_point import (
    DIGIT_BITS,
    NOT_FINITE,
    DigitRange,
    FixedPoint,
    scatter,
)

_PENDING_LIMIT = 1 << 28
"""Terms that may be added between carries: each adds less than 2**34 to a digit."""

_BATCH = 8
"""Blocks whose sums wait to be added together."""

_EXPONENTS = 1 << 11
_BINNED = 1 << 20  # values per pass: 2**20 parts of 27 bits are added in 53 bits exactly


_SIGNED = 1 << (DIGIT_BITS - 1)


class Superaccumulator:
    """Exact sums for m columns.

    Attributes
    ----------
    range : the digits that there may be.
    first : which of them `digits` begins with.
    digits : (L, m) int64, NumPy or CuPy: the window of digits in use.
    flags : (m,) uint8, as in `fixed_point`.
    """

    def __init__(self, range: DigitRange, columns: int, xp: ModuleType = np) -> None:
        self.range = range
        self._clear(columns, xp)

    @classmethod
    def of(cls, range: DigitRange, first: int, digits: Array, flags: Array) -> Superaccumulator:
        """Return the accumulator of digits of any sign, below 2**62 in magnitude, and the index of the first.

        It owns its arrays: those that came may be read-only, or belong to somebody else.
        """
        self = cls.__new__(cls)
        self.range, self.first, self.digits, self.flags, self._pending = range, first, digits, flags, 1
        return self.compacted()

    def copy(self) -> Superaccumulator:
        """Return the same sums in arrays of their own."""
        other = copy(self)
        other.digits, other.flags = self.digits.copy(), self.flags.copy()
        return other

    def _clear(self, columns: int, xp: ModuleType) -> None:
        self.first = 0
        self.digits: Array = xp.zeros((0, columns), np.int64)
        self.flags: Array = xp.zeros(columns, np.uint8)
        self._pending = 0

    @property
    def end(self) -> int:
        """One past the last digit of the window."""
        return self.first + len(self.digits)

    def add(self, sums: Iterable[PartialSums], columns: np.ndarray | None = None) -> None:
        """Add the partial sums of any number of blocks that all have these columns (default: all)."""
        sums = iter(sums)
        index = np.arange(self.flags.size) if columns is None else columns
        while batch := list(islice(sums, _BATCH)):
            self._add_batch(batch, index)

    def add_exact(self, value: int, exponent: int, flags: int, columns: np.ndarray) -> None:
        """Add an exact sum, value·2**exponent, to a single column."""
        self.flags[columns] |= np.uint8(flags)
        if value == 0:
            return
        zeros = (value & -value).bit_length() - 1  # below which a narrower range may have no digits
        digits = FixedPoint.of([(value >> zeros, 0)], np.array([flags], np.uint8)).digits[:, 0]
        places = exponent + zeros + DIGIT_BITS * np.arange(len(digits))
        self._scatter(np.repeat(columns, len(digits)), digits, places)

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

    def merge(self, other: Superaccumulator, columns: slice | Array = slice(None)) -> None:
        """Add all that another one holds, brought to where this one lies, to these columns, each once."""
        if not self._pending and is_cupy(other.flags) and not is_cupy(self.flags):
            self._clear(self.flags.size, namespace(other.flags))
        self._make_room(other._pending + 1)
        if len(other.digits):
            self._reach(other.first, other.end)
            window = slice(other.first - self.first, other.end - self.first)
            self.digits[window, columns] += self._here(other.digits)
        self.flags[columns] |= self._here(other.flags)

    def on_host(self) -> Superaccumulator:
        """The same in NumPy arrays."""
        if not is_cupy(self.flags):
            return self
        return Superaccumulator.of(self.range, self.first, self.digits.get(), self.flags.get())

    def carry(self) -> None:
        """Bring the digits into [0, 2**32), but for the last, which has the sign and as many bits."""
        self._pending = 1
        if not len(self.digits):
            return
        carry(self.digits, DIGIT_BITS)
        last = self.digits[-1]
        if self.end < self.range.digits and bool(((last < -_SIGNED) | (last >= _SIGNED)).any()):
            self._reach(self.first, self.end + 1)
            carry(self.digits[-2:], DIGIT_BITS)

    def compacted(self) -> Superaccumulator:
        """Return the same sums in carried digits that some column needs: equal for equal sums."""
        sums = self.copy()
        sums.carry()
        nonfinite = (sums.flags & NOT_FINITE) != 0
        if bool(nonfinite.any()):
            sums.digits *= ~nonfinite
        while len(sums.digits) > 1 and _is_sign(sums.digits[-1], sums.digits[-2]):
            sums.digits[-2] += sums.digits[-1] << DIGIT_BITS
            sums.digits = sums.digits[:-1]
        used = digits_in_use(sums.digits)
        end = len(sums.digits) if used.stop else 0  # the last digit may be 0, and tell the sign
        sums.first, sums.digits = (sums.first + used.start) * bool(end), sums.digits[used.start : end].copy()
        return sums

    def fixed_point(self) -> FixedPoint:
        """The exact values, without the digits that no column uses."""
        used = digits_in_use(self.digits)
        digits = self.digits[used]
        if not len(digits):
            digits = namespace(self.flags).zeros((1, self.flags.size), np.int64)
        exponent = self.range.exponent + DIGIT_BITS * (self.first + used.start)
        return FixedPoint(digits, DIGIT_BITS, exponent, self.flags)

    def _scatter(self, columns: np.ndarray, integers: np.ndarray, exponent: np.ndarray) -> None:
        self._make_room(integers.size)
        position = exponent - (self.range.exponent + DIGIT_BITS * self.first)
        room = DIGIT_BITS * (len(self.digits) - 2)
        if position.size and (position.min() < 0 or position.max() >= room):
            used = integers != 0
            columns, integers, position = columns[used], integers[used], position[used]
            if not integers.size:
                return
            first, last = (max(0, self.first + (int(p) >> 5)) for p in (position.min(), position.max()))
            before = self.first
            self._reach(first, last + 3)
            position = position + DIGIT_BITS * (before - self.first)
        scatter(self.digits, columns, integers, position)

    def _reach(self, first: int, end: int) -> None:
        """Widen the window to reach from `first` to `end`."""
        if not len(self.digits):
            self.first = first
        first, end = min(first, self.first), max(end, self.end)
        if (first, end) != (self.first, self.end):
            wider = namespace(self.digits).zeros((end - first, self.flags.size), np.int64)
            wider[self.first - first : self.end - first] = self.digits
            self.first, self.digits = first, wider

    def _here(self, x: Array) -> Array:
        """An array where this lies."""
        if is_cupy(x) and not is_cupy(self.flags):
            return x.get()
        return namespace(self.flags).asarray(x)

    def _make_room(self, terms: int) -> None:
        if self._pending + terms > _PENDING_LIMIT:
            self.carry()
        self._pending += terms


def _is_sign(last: Array, digit: Array) -> bool:
    """Whether the last digit only tells the sign of the one before, which has a bit for it."""
    return bool(((last == 0) & (digit < _SIGNED) | (last == -1) & (digit >= _SIGNED)).all())


def digits_in_use(digits: Array) -> slice:
    """From the first to the last digit that is nonzero in any column."""
    used = digits.any(axis=1).tolist()
    return slice(used.index(True), len(used) - used[::-1].index(True)) if any(used) else slice(0, 0)


def _integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite float64 numbers as integers of 53 bits and the exponents of their units."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(fraction, 53).astype(np.int64), exponent.astype(np.int64) - 53
