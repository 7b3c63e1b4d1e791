"""A superaccumulator: one fixed-point number per column, over the whole range of a format.

After Kulisch. Digits of base 2**32 in int64 leave 31 bits in which carries may wait, so that
adding is associative integer addition and nothing else. All columns have the same window of digits,
which grows when something falls outside: most data use five to eight digits of 134.
"""

from __future__ import annotations

import math
from copy import copy
from functools import reduce
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, backwards, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel
from multiword.runtime.parallel import over_rows
from multiword.runtime.readback import anywhere, everywhere
from ozaki.rounding.digits import carry
from ozaki.rounding.error_free import product_error
from ozaki.sums.exact.fixed_point import (
    DIGIT_BITS,
    DIGIT_MASK,
    FLAGS,
    NOT_FINITE,
    DigitRange,
    FixedPoint,
    flags_of,
)
from ozaki.sums.exact.summands import Summands

_PENDING_LIMIT = 1 << 28
"""Terms that may be added between carries: each adds less than 2**34 to a digit."""

_SIGNED = 1 << (DIGIT_BITS - 1)

Columns = np.ndarray | slice

FILE = Path(__file__).with_suffix(".cu")
_THREADS, _MANY, _TOGETHER = 256, 1 << 12, 1 << 16
"""Of a block of the kernel; digits that a compiled loop adds, at least, and a thread at a time."""
_ADD = Kernel("add_fixed_point", FILE, equals="ozaki.definition.sums.rounded_sum")


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

    def taken(self, columns: Array) -> Superaccumulator:
        """Return the sums of some columns, which may repeat."""
        other = copy(self)
        other.digits, other.flags = self.digits[:, columns], self.flags[columns]
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

    def add(self, sums: FixedPoint, columns: Columns = slice(None)) -> None:
        """Add exact values, of one unit, to these columns, each once."""
        exponent = int(sums.exponent)
        if is_cupy(self.flags):
            self._add_on_device(columns, sums, exponent - self.range.exponent)
            return
        self.flags[columns] |= sums.flags
        if sums.base_bits == DIGIT_BITS and exponent >= self.range.exponent:
            if sums.digits.any():
                self._add_digits(columns, sums.digits, exponent)
            return
        used = [i for i, digit in enumerate(sums.digits) if digit.any()]
        for i in [*used[-1:], *used[:-1]]:  # from both ends, so that the window is widened twice at most
            self._add_digits(columns, sums.digits[i][None], exponent + sums.base_bits * i)

    def add_terms(self, block: Summands, columns: Array) -> None:
        """Add terms to columns, which broadcast to them and may repeat: the plain definition of exact sums.

        A finite float64 is an integer of 53 bits in units of a power of two. So is each of the two parts of
        a product of significands, which cannot overflow or underflow (TwoProduct).
        """
        everywhere = namespace(columns).broadcast_to(columns, block.shape)
        with np.errstate(all="ignore"):
            for factors in block.in_float64():
                significands, exponents = zip(*map(np.frexp, factors), strict=True)
                value, exponent = block.sign * reduce(np.multiply, significands), reduce(np.add, exponents)
                flags = flags_of(value)
                for flag in FLAGS:
                    self.flags[everywhere[flags == flag]] |= flag
                parts, finite = [value], np.isfinite(value)
                if len(factors) == 2:
                    parts.append(product_error(block.sign * significands[0], significands[1], value))
                for part in parts:
                    integers, unit = _integers(part[finite])
                    self._scatter(everywhere[finite], integers, unit + exponent[finite])

    def add_in_parts(self, terms: Summands, columns: Array, step: int) -> None:
        """Add one-dimensional terms, each to its column, so many at a time: as caches hold temporaries of."""
        for start in range(0, columns.size, step):
            chosen = itemgetter(slice(start, start + step))
            self.add_terms(terms.apply(chosen), chosen(columns))

    def merge(self, other: Superaccumulator, columns: slice | Array = slice(None)) -> None:
        """Add all that another one holds, brought to where this one lies, to these columns, each once."""
        if is_cupy(other.flags) and not is_cupy(self.flags) and self._is_empty():
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
        if self.end < self.range.digits and anywhere((last < -_SIGNED) | (last >= _SIGNED)):
            self._reach(self.first, self.end + 1)
            carry(self.digits[-2:], DIGIT_BITS)

    def compacted(self) -> Superaccumulator:
        """Return the same sums in carried digits that some column needs: equal for equal sums."""
        sums = self.copy()
        sums.carry()
        nonfinite = (sums.flags & NOT_FINITE) != 0
        if anywhere(nonfinite):
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

    def _add_on_device(self, columns: Columns, sums: FixedPoint, position: int) -> None:
        """Add exact values in one launch; their unit is the range's bit of that position."""
        digits, more = (namespace(x).ascontiguousarray(x) for x in map(self._here, (sums.digits, sums.flags)))
        count, many = digits.shape
        if count:
            self._make_room(count)
            end = max(position + sums.base_bits * (count - 1), 0) // DIGIT_BITS + 3
            self._reach(max(position, 0) // DIGIT_BITS, end)
        where, start = np.uint64(0), 0
        if isinstance(columns, slice):
            start = columns.indices(self.flags.size)[0]
        else:
            where = self._here(columns)
        values = digits, np.int32(count), np.int32(sums.base_bits)
        places = np.int64(position), np.int64(DIGIT_BITS * self.first)
        sizes = np.int64(start), np.int64(many)
        own = self.digits, np.int64(self.flags.size), self.flags
        _ADD((-(-many // _THREADS),), (_THREADS,), (*values, *places, more, where, *sizes, *own))

    def _add_digits(self, columns: Columns, digits: np.ndarray, exponent: int) -> None:
        """Add digits of base 2**32, the first in units of 2**exponent, to columns, each once.

        There are no bits below the range: a single digit may reach there.
        """
        self._make_room(1)
        position, count = exponent - self.range.exponent, len(digits)
        first, shift = divmod(max(position, 0), DIGIT_BITS)
        self._reach(first, first + count + 2)
        down, first = max(-position, 0), first - self.first
        loops = self._loops(digits)
        if loops is None or not isinstance(columns, slice):
            for start, part in enumerate(_in_digits(digits >> down, shift), first):
                self.digits[start : start + count, columns] += part
            return
        at, *_ = columns.indices(self.flags.size)

        def work(block: slice) -> None:
            loops.add_digits(digits, block.start, block.stop, down, shift, first, self.digits, at)

        over_rows(work, digits.shape[1], count, _TOGETHER)

    def _loops(self, digits: np.ndarray) -> Any:
        """Return the compiled loops, if there are some, for digits that are worth it."""
        lie_well = digits.flags.c_contiguous and self.digits.flags.c_contiguous
        return compiled("ozaki.sums.exact.accumulator_numba") if digits.size >= _MANY and lie_well else None

    def _scatter(self, columns: np.ndarray, integers: np.ndarray, exponent: np.ndarray) -> None:
        """Add integers·2**exponent, each to its column; columns may repeat. No bits lie below the range."""
        nonzero = integers != 0
        columns, integers, position = columns[nonzero], integers[nonzero], exponent[nonzero]
        if not integers.size:
            return
        self._make_room(integers.size)
        position = position - self.range.exponent
        integers, position = integers >> np.maximum(-position, 0), np.maximum(position, 0)
        first = position >> 5
        self._reach(int(first.min()), int(first.max()) + 3)
        for i, part in enumerate(_in_digits(integers, position & (DIGIT_BITS - 1))):
            index = (first - self.first + i) * self.flags.size + columns
            namespace(index).add.at(self._words(), index, part.view(np.uint64))

    def _reach(self, first: int, end: int) -> None:
        """Widen the window to reach from `first` to `end`."""
        if not len(self.digits):
            self.first = first
        first, end = min(first, self.first), max(end, self.end)
        if (first, end) != (self.first, self.end):
            wider = namespace(self.digits).zeros((end - first, self.flags.size), np.int64)
            wider[self.first - first : self.end - first] = self.digits
            self.first, self.digits = first, wider

    def _is_empty(self) -> bool:
        """Whether nothing has been added: numbers that cancel, zeros, Inf and NaN leave flags, not digits."""
        return not len(self.digits) and not self.flags.any()

    def _words(self) -> Array:
        """The digits as a vector of unsigned words, to which CuPy can scatter: they add alike."""
        return self.digits.reshape(-1).view(np.uint64)

    def _here(self, x: Array) -> Array:
        """An array where this lies."""
        if is_cupy(x) and not is_cupy(self.flags):
            return x.get()
        return namespace(self.flags).asarray(x)

    def _make_room(self, terms: int) -> None:
        if self._pending + terms > _PENDING_LIMIT:
            self.carry()
        self._pending += terms


def _in_digits(integers: np.ndarray, shift: np.ndarray | int) -> tuple[np.ndarray, ...]:
    """The digits of int64 numbers times 2**shift, shift < 32: the first two are not negative."""
    low, high = (integers & DIGIT_MASK) << shift, (integers >> DIGIT_BITS) << shift
    return low & DIGIT_MASK, (low >> DIGIT_BITS) + (high & DIGIT_MASK), high >> DIGIT_BITS


def _is_sign(last: Array, digit: Array) -> bool:
    """Whether the last digit only tells the sign of the one before, which has a bit for it."""
    return everywhere((last == 0) & (digit < _SIGNED) | (last == -1) & (digit >= _SIGNED))


def digits_in_use(digits: Array) -> slice:
    """From the first to the last digit that is nonzero in any column."""
    if is_cupy(digits) and digits.flags.c_contiguous and digits.size:
        # A GPU has one block for a row: of more rows it has more.
        parts = math.gcd(digits.shape[1], 1 << 10)
        digits = backwards(digits.reshape(len(digits), parts, -1), 2).any(axis=2)
    used = backwards(digits, 1).any(axis=1).tolist()
    return slice(used.index(True), len(used) - used[::-1].index(True)) if any(used) else slice(0, 0)


def _integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite float64 numbers as integers of 53 bits and the exponents of their units."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(fraction, 53).astype(np.int64), exponent.astype(np.int64) - 53
