"""A superaccumulator: one fixed-point number per column, over the whole range of a format.

After Kulisch. Digits of base 2**32 in int64 leave 31 bits in which carries may wait, so that
adding is associative integer addition and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from multiword.formats import Format
from ozaki.sums.fixedpoint import DIGIT_BITS, FixedPoint, carry_digits, scatter
from ozaki.sums.window import LEVEL_BITS, Terms

_PENDING_LIMIT = 1 << 28
"""Terms that may be added between carries: each adds less than 2**34 to a digit."""

_BATCH = 8
"""Blocks whose sums wait to be added together."""

_EXPONENTS = 1 << 11
_BINNED = 1 << 20  # values per pass: 2**20 parts of 27 bits are added in 53 bits exactly


@dataclass(frozen=True)
class Layout:
    """Where a superaccumulator's digits lie: digit l weighs 2**(exponent + 32·l).

    Wide enough for 2**64 products of any two numbers of the format, hence for sums as well.
    """

    exponent: int
    digits: int

    @classmethod
    def of(cls, source: Format) -> Layout:
        """The layout for a format.

        >>> from multiword.formats import FORMATS
        >>> Layout.of(FORMATS["fp64"])
        Layout(exponent=-2148, digits=134)
        """
        lowest = 2 * (source.emin - source.precision + 1)
        highest = 2 * (source.emax + 1) + 64
        return cls(lowest, -(-(highest - lowest) // DIGIT_BITS))


class Superaccumulator:
    """Exact sums for m columns. Digits are (layout.digits, m) int64, flags (m,) uint8."""

    def __init__(self, layout: Layout, columns: int) -> None:
        self.layout = layout
        self.digits = np.zeros((layout.digits, columns), np.int64)
        self.flags = np.zeros(columns, np.uint8)
        self._pending = 0

    def add_all(self, terms: Iterable[Terms]) -> None:
        """Add the sums of any number of blocks of all the columns."""
        terms = iter(terms)
        while batch := list(islice(terms, _BATCH)):
            self.add_terms(batch)

    def add_terms(self, batch: Sequence[Terms], columns: np.ndarray | None = None) -> None:
        """Add the sums of blocks that all have these columns (default: all)."""
        if not batch:
            return
        index = np.arange(self.flags.size) if columns is None else columns
        for name, shift in (("low", 0), ("high", LEVEL_BITS)):
            integers = np.concatenate([getattr(terms, name) for terms in batch])
            exponent = np.concatenate([terms.exponent for terms in batch]) + shift
            self._scatter(np.tile(index, len(batch)), integers, exponent)
        for terms in batch:
            self.flags[index] |= terms.flags
            if not isinstance(terms.scales, int):
                self.add_values(index[terms.columns], terms.values, terms.scales)
        unscaled = [terms for terms in batch if isinstance(terms.scales, int) and terms.values.size]
        if unscaled:
            values = np.concatenate([terms.values for terms in unscaled])
            if len(index) == 1:
                outside = np.broadcast_to(index, values.shape)
            else:
                outside = index[np.concatenate([terms.columns for terms in unscaled])]
            self.add_values(outside, values)

    def add_values(self, columns: np.ndarray, values: np.ndarray, scale: np.ndarray | int = 0) -> None:
        """Add finite float64 values times 2**scale to their columns. Flags are left alone."""
        if isinstance(scale, int) and values.size * 2 > _EXPONENTS * self.flags.size:
            for start in range(0, values.size, _BINNED):
                part = slice(start, start + _BINNED)
                self._add_binned(columns[part], values[part], scale)
            return
        fraction, exponent = np.frexp(values)
        integers = np.ldexp(fraction, 53).astype(np.int64)
        self._scatter(columns, integers, exponent.astype(np.int64) + scale - 53)

    def _add_binned(self, columns: np.ndarray, values: np.ndarray, scale: int) -> None:
        """Values of equal exponent have a common quantum: halves of 27 bits add up exactly."""
        pattern = values.view(np.int64)
        exponent = (pattern >> 52) & (_EXPONENTS - 1)
        huge = exponent >= _EXPONENTS - 64  # whose sum might overflow
        if huge.any():
            fraction, power = np.frexp(values[huge])
            self._scatter(
                columns[huge], np.ldexp(fraction, 53).astype(np.int64), power.astype(np.int64) + scale - 53
            )
            self._add_binned(columns[~huge], values[~huge], scale)
            return
        leading = (pattern & np.int64(-1 << 26)).view(np.float64)
        index = exponent if self.flags.size == 1 else exponent + columns * _EXPONENTS
        bins = self.flags.size * _EXPONENTS
        for part in (leading, values - leading):
            total = np.bincount(index, weights=part, minlength=bins)
            used = np.flatnonzero(total)
            fraction, power = np.frexp(total[used])
            integers = np.ldexp(fraction, 53).astype(np.int64)
            self._scatter(used // _EXPONENTS, integers, power.astype(np.int64) + scale - 53)

    def merge(self, other: Superaccumulator, columns: slice | np.ndarray = slice(None)) -> None:
        """Add all that another one holds, to these columns, each once."""
        self._make_room(other._pending + 1)
        self.digits[:, columns] += other.digits
        self.flags[columns] |= other.flags

    def carry(self) -> None:
        """Bring the digits into canonical form: in [0, 2**32) but for the last, which has the sign."""
        carry_digits(self.digits)
        self._pending = 1

    def fixed_point(self) -> FixedPoint:
        """The exact values, without the digits that no column uses."""
        used = np.flatnonzero(self.digits.any(axis=1))
        low, high = (used[0], used[-1] + 1) if used.size else (0, 1)
        exponent = self.layout.exponent + DIGIT_BITS * int(low)
        return FixedPoint(self.digits[low:high], DIGIT_BITS, exponent, self.flags)

    def _scatter(self, columns: np.ndarray, integers: np.ndarray, exponent: np.ndarray) -> None:
        self._make_room(integers.size)
        scatter(self.digits, columns, integers, exponent - self.layout.exponent)

    def _make_room(self, terms: int) -> None:
        if self._pending + terms > _PENDING_LIMIT:
            self.carry()
        self._pending += terms
