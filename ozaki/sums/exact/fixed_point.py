"""Exact values in fixed point, and the one rounding that ends every reduction (Kulisch).

A sum, a mean or a norm is held exactly, as an integer in digits times a power of two and flags
for what is not a finite number, until `FixedPoint.round` turns it into floating point once.
`fixed_point.cuh` is the CUDA form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isqrt, ldexp
from typing import Any

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from ozaki.rounding.digits import carry, last_place, round_digits
from ozaki.rounding.error_free import two_sum

PLUS_INFINITY, MINUS_INFINITY, NAN, ORDINARY, MINUS_ZERO = (np.uint8(1 << bit) for bit in range(5))
"""What has been added: flags that merge by `|`, ORDINARY for any finite number but −0.

Blocks do not note every −0 or Inf beside what outweighs it; `canonical_flags` does not either."""

DIGIT_BITS = 32
_LARGEST_INTEGER = 2**53
_FEW = 4  # values that Python's integers round sooner than arrays
_LARGEST_DIVISOR = 1 << 30  # of the schoolbook division
_DIGIT_MASK = np.int64((1 << DIGIT_BITS) - 1)


@dataclass(frozen=True)
class DigitRange:
    """Which digits a superaccumulator has: digit l weighs 2**(exponent + 32·l).

    Wide enough for 2**64 products of any two numbers of a format, hence for sums as well.
    """

    exponent: int
    digits: int

    @classmethod
    @cache
    def of(cls, source: Format) -> DigitRange:
        """The range for a format.

        >>> DigitRange.of(FORMATS["fp64"])
        DigitRange(exponent=-2148, digits=134)
        """
        lowest = 2 * (source.emin - source.precision + 1)
        highest = 2 * (source.emax + 1) + 64
        return cls(lowest, -(-(highest - lowest) // DIGIT_BITS))


@dataclass(frozen=True)
class Rounding:
    """What becomes of an exact sum: divided, or its square root taken, and rounded once to a format."""

    target: Format
    divisor: int = 1
    root: bool = False

    def __call__(self, value: FixedPoint) -> np.ndarray:
        if self.root or self.divisor >= _LARGEST_DIVISOR or value.flags.size <= _FEW:
            return flagged([self.ratio(v, self.divisor, e) for v, e in value.integers()], value.flags)
        return (value.quotient(self.divisor) if self.divisor > 1 else value).round(self.target)

    def ratio(self, numerator: int, denominator: int, exponent: int = 0) -> float:
        """RN(numerator/denominator·2**exponent), or RN of its root, for integers; denominator > 0.

        The quotient keeps at least 132 bits, its root half of them; the last one says whether anything
        was cut off, far below the place of the rounding and of its square.

        >>> Rounding(FORMATS["fp64"], root=True).ratio(1, 4)
        0.5
        """
        magnitude = max(numerator, 0) if self.root else abs(numerator)
        shift = max(0, 132 + denominator.bit_length() - magnitude.bit_length())
        shift += (exponent - shift) & 1
        quotient, rest = divmod(magnitude << shift, denominator)
        value, exponent = (quotient << 2) | (rest != 0), exponent - shift - 2
        if self.root:
            root = isqrt(value)
            value, exponent = (root << 1) | (root * root != value), exponent // 2 - 1
        if not value:
            return 0.0
        drop = max(value.bit_length() - self.target.precision, last_place(self.target) - exponent)
        kept, cut, half = value >> drop, value & ((1 << drop) - 1), 1 << (drop - 1)
        kept += cut > half or (cut == half and kept & 1)
        try:
            result = ldexp(kept, exponent + drop)
        except OverflowError:
            result = inf
        return -result if numerator < 0 else result


@dataclass(frozen=True)
class FixedPoint:
    """The numbers Σ digits[l]·2**(base_bits·l + exponent), one for each of m columns.

    Attributes
    ----------
    digits : (L, m) int64, least significant first, of any sign, below 2**62 in magnitude.
    base_bits : bits between one digit and the next: up to 32, or, for two digits below 2**61, an
        even number up to 60.
    exponent : (m,) int64 or int.
    flags : (m,) uint8, a union of the flags above; Inf and NaN take precedence over the digits.
    """

    digits: np.ndarray
    base_bits: int
    exponent: np.ndarray | int
    flags: np.ndarray

    @classmethod
    def of(cls, value: int, exponent: int, flags: np.ndarray) -> FixedPoint:
        """A single number, value·2**exponent.

        >>> FixedPoint.of(-(2**40), 0, np.array([ORDINARY])).digits.tolist()
        [[0], [-256]]
        """
        size = value.bit_length() // DIGIT_BITS + 1
        digits = np.frombuffer(value.to_bytes(4 * size, "little", signed=True), "<u4").astype(np.int64)
        digits[-1] -= (value < 0) << DIGIT_BITS
        return cls(digits[:, None], DIGIT_BITS, exponent, flags)

    def round(self, target: Format = FORMATS["fp64"]) -> np.ndarray:
        """Return the (m,) float64 numbers of the target format nearest to the exact values.

        Exact zeros are −0 where every term was −0, and +0 otherwise, as IEEE 754 adds.
        """
        if len(self.digits) == 2 and self.base_bits > DIGIT_BITS:
            value = self._round_pair(target)
        else:
            value = round_digits(self.digits, self.base_bits, self.exponent, target)
        return flagged(value, self.flags)

    def _round_pair(self, target: Format) -> np.ndarray:
        """As round_digits, by float64 arithmetic where it is plain that this rounds correctly.

        high·2**b + low becomes s + e + rest, s and e two float64 numbers of TwoSum, rest an integer
        of few bits. The nearest is s, unless e is so near to half an ulp that rest might decide.
        """
        if (value := self._round_small(target)) is not None:
            return value
        low, high = self.digits
        a = high.astype(np.float64)
        low = low + ((high - a.astype(np.int64)) << self.base_bits)
        b = low.astype(np.float64)
        rest = (low - b.astype(np.int64)).astype(np.float64)
        s, e = two_sum(a * 2.0**self.base_bits, b)
        # Eight times the rest outweighs the rounding of e + rest, which is below 2**55.
        plain = (s + (e + 8 * rest) == s) & (s + (e - 8 * rest) == s)
        with np.errstate(over="ignore"):
            value = np.ldexp(s, self.exponent)
        magnitude = np.abs(value)
        plain &= ((magnitude >= 2.0**-1021) & (magnitude < np.inf)) | (s == 0)
        if target.precision != 53:
            plain[...] = False
        if not plain.all():
            digits, exponent = self._narrowed(), np.broadcast_to(self.exponent, low.shape)
            hard = ~plain
            value[hard] = round_digits(digits[:, hard], self.base_bits // 2, exponent[hard], target)
        return value

    def _round_small(self, target: Format) -> np.ndarray | None:
        """The sums of pairs of float64 numbers, which are rounded by adding them; or None.

        For float32 the sum is rounded to odd first, so that it is as if rounded once (Boldo and Melquiond).
        """
        low, high = self.digits
        if (
            not isinstance(self.exponent, int)
            or abs(self.exponent + 46) > 900
            or target.precision not in (24, 53)
        ):
            return None
        if not low.size or max(low.max(), -low.min(), high.max(), -high.min()) > _LARGEST_INTEGER:
            return None
        a, b = high * 2.0**self.base_bits, low.astype(np.float64)
        if target.precision == 53:
            s = a + b
            s *= 2.0**self.exponent
            return s
        s, e = two_sum(a, b)
        bits = s.view(np.int64)
        bits += np.where((e != 0) & (bits & 1 == 0), np.where((e > 0) == (s > 0), 1, -1), 0)
        with np.errstate(over="ignore"):
            return (s * 2.0**self.exponent).astype(np.float32).astype(np.float64)

    def _narrowed(self) -> np.ndarray:
        """The digits of a pair, with a base of half as many bits."""
        return np.stack([self.digits[0], np.zeros_like(self.digits[0]), self.digits[1]])

    def quotient(self, divisor: int) -> FixedPoint:
        """Return the values divided by a positive integer, below 2**30, to be rounded as if exact.

        Schoolbook division by one digit, 96 bits beyond the last; a remainder leaves its trace
        in the last bit, far below the place of any rounding.
        """
        if self.base_bits > DIGIT_BITS:
            return replace(self, digits=self._narrowed(), base_bits=self.base_bits // 2).quotient(divisor)
        magnitude, sign = self._magnitude()
        extra = -(-96 // self.base_bits)
        digits = np.concatenate([np.zeros((extra,) + magnitude.shape[1:], np.int64), magnitude])
        remainder = np.zeros(magnitude.shape[1:], np.int64)
        for digit in digits[::-1]:
            quotient, remainder[:] = np.divmod((remainder << self.base_bits) | digit, divisor)
            digit[:] = quotient
        digits[0] |= remainder != 0
        return replace(self, digits=digits * sign, exponent=self.exponent - extra * self.base_bits)

    def integers(self) -> list[tuple[int, int]]:
        """Return every value as a Python integer and the exponent of its unit."""
        shape = self.digits.shape[1:]
        exponents = np.broadcast_to(np.asarray(self.exponent, np.int64), shape).tolist()
        values = []
        for column in self.digits[::-1].T.tolist():
            value = 0
            for digit in column:
                value = (value << self.base_bits) + digit
            values.append(value)
        return list(zip(values, exponents, strict=True))

    def on_host(self) -> FixedPoint:
        """The same in NumPy arrays."""
        if not is_cupy(self.flags):
            return self
        return replace(self, digits=self.digits.get(), flags=self.flags.get())  # type: ignore[attr-defined]

    def _magnitude(self) -> tuple[np.ndarray, np.ndarray]:
        """Digits in [0, 2**base_bits) of the absolute values, and the signs."""
        top = -(-64 // self.base_bits)  # so that the last digit's excess finds room
        digits = np.concatenate([self.digits, np.zeros((top,) + self.digits.shape[1:], np.int64)])
        carry(digits, self.base_bits)
        sign = np.where(digits[-1] < 0, np.int64(-1), np.int64(1))
        digits *= sign
        return carry(digits, self.base_bits), sign


def flagged(values: Any, flags: Array) -> Array:
    """Put zeros of the right sign, Inf and NaN among rounded values."""
    values = namespace(flags).asarray(values, np.float64)
    if (flags == ORDINARY).all():
        return values
    flags = canonical_flags(flags)
    values = np.where(flags == MINUS_ZERO, -0.0, values)
    values = np.where(flags == PLUS_INFINITY, np.inf, values)
    values = np.where(flags == MINUS_INFINITY, -np.inf, values)
    return np.where(flags == NAN, np.nan, values)


def canonical_flags(flags: np.ndarray) -> np.ndarray:
    """Keep the one flag that decides, so that the order of the terms cannot be seen; 0 for no terms."""
    infinite = flags & (PLUS_INFINITY | MINUS_INFINITY)
    undefined = ((flags & NAN) != 0) | (infinite == (PLUS_INFINITY | MINUS_INFINITY))
    finite = np.where((flags & ORDINARY) != 0, ORDINARY, flags & MINUS_ZERO)
    return np.where(undefined, NAN, np.where(infinite != 0, infinite, finite)).astype(np.uint8)


def joined(parts: Sequence[FixedPoint]) -> FixedPoint:
    """Put values of the same form side by side."""
    if len(parts) == 1:
        return parts[0]
    exponents = [np.broadcast_to(np.asarray(p.exponent, np.int64), p.flags.shape) for p in parts]
    return FixedPoint(
        np.concatenate([p.digits for p in parts], axis=1),
        parts[0].base_bits,
        np.concatenate(exponents),
        np.concatenate([p.flags for p in parts]),
    )


def scatter(digits: np.ndarray, columns: np.ndarray, integers: np.ndarray, position: np.ndarray) -> None:
    """Add integers·2**position to the (L, m) digits of base 2**32, each to its column.

    Every int64 becomes three digits. A negative position drops bits that are zero: whoever
    calls knows that the sum has no bits there. Columns may repeat.
    """
    if position.size and position.min() < 0:
        integers = integers >> np.clip(-position, 0, 63)
        position = np.maximum(position, 0)
    width = digits.shape[1]
    flat = digits.reshape(-1)
    shift = position & (DIGIT_BITS - 1)
    index = (position >> 5) * width + columns
    low = (integers & _DIGIT_MASK) << shift
    high = (integers >> DIGIT_BITS) << shift
    np.add.at(flat, index, low & _DIGIT_MASK)
    np.add.at(flat, index + width, (low >> DIGIT_BITS) + (high & _DIGIT_MASK))
    np.add.at(flat, index + 2 * width, high >> DIGIT_BITS)
