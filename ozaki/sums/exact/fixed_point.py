"""Exact values in fixed point, and the one rounding that ends every reduction (Kulisch).

A sum, a mean or a norm is an integer in digits times a power of two and flags
for what is not a finite number, until `FixedPoint.round` turns it into floating point once.
`fixed_point.cuh` is the CUDA form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import frexp, inf, isqrt, ldexp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, is_cupy, namespace, where_lies
from multiword.runtime.kernels import Kernel
from ozaki.rounding.digits import round_digits
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.levels import TOGETHER, WORD
from ozaki.tuning import INTEGER_RATIOS

FLAGS = PLUS_INFINITY, MINUS_INFINITY, NAN, ORDINARY, MINUS_ZERO = [np.uint8(1 << bit) for bit in range(5)]
"""What has been added: flags that merge by `|`, ORDINARY for any finite number but −0.

Blocks do not note every −0 or Inf beside what outweighs it; `canonical_flags` does not either."""

NOT_FINITE = PLUS_INFINITY | MINUS_INFINITY | NAN

DIGIT_BITS = 32
DIGIT_MASK = np.int64((1 << DIGIT_BITS) - 1)
Integers = list[tuple[int, int]]
"""Exact values, each an integer and the exponent of its unit."""

DIGITS_BELOW, DIGITS_ABOVE = 5, 4
"""Digits beyond a range's that the kernels want. A quotient has as many more below, whose root is then taken
of 128 bits: halfway between two numbers of 53 bits lies the root of one of 108."""

_LARGEST_INTEGER = 2**53
_HUGE = 2**1000


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
        lowest = 2 * source.last_place
        highest = 2 * (source.emax + 1) + 64
        return cls(lowest, -(-(highest - lowest) // DIGIT_BITS))


class Rounding(NamedTuple):
    """What becomes of an exact sum: divided, then its square root taken, and rounded once to a format."""

    target: Format
    divisor: int = 1
    root: bool = False

    def __call__(self, value: FixedPoint) -> np.ndarray:
        if not self.root and self.divisor & (self.divisor - 1) == 0:
            exponent = value.exponent - (self.divisor.bit_length() - 1)
            return replace(value, exponent=exponent).round(self.target)
        divisors = namespace(value.flags).full(value.flags.shape, self.divisor)
        return flagged(self.finite(value, divisors), value.flags)

    def finite(self, value: FixedPoint, divisors: np.ndarray) -> np.ndarray:
        """Of values that have a divisor each, float64 numbers; flags are left alone."""
        if value.flags.size > INTEGER_RATIOS and (divisors <= _LARGEST_INTEGER).all():
            with np.errstate(all="ignore"):
                quotient = value.enclosure().divided(divisors.astype(np.float64))
                result, certain = (quotient.root() if self.root else quotient).rounded(self.target)
        else:
            xp, shape = namespace(value.flags), value.flags.shape
            result, certain = xp.empty(shape), xp.zeros(shape, bool)
        if certain.all():
            return result
        hard = np.flatnonzero(~certain)
        exact = zip(value.columns(hard).integers(), divisors[hard].tolist(), strict=True)
        result[hard] = where_lies(result, [self.ratio(v, n, e) for (v, e), n in exact])
        return result

    def ratio(self, numerator: int, denominator: int, exponent: int = 0) -> float:
        """RN(numerator/denominator·2**exponent), or RN of its root, for integers; denominator > 0.

        The quotient keeps at least 132 bits, its root half of them; the last one says whether anything
        was cut off, far below the place of the rounding and of its square.

        >>> Rounding(FORMATS["fp64"], root=True).ratio(1, 4)
        0.5
        """
        if not self.root and self.target.precision == 53 and max(abs(numerator), denominator) < _HUGE:
            value = numerator / denominator  # as Python rounds it, which is correctly
            if -1000 < frexp(value)[1] + exponent < 1000:
                return ldexp(value, exponent)
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
        drop = max(value.bit_length() - self.target.precision, self.target.last_place - exponent)
        significand, cut, half = value >> drop, value & ((1 << drop) - 1), 1 << (drop - 1)
        significand += cut > half or (cut == half and significand & 1)
        try:
            result = ldexp(significand, exponent + drop)
        except OverflowError:
            result = inf
        return -result if numerator < 0 else result


@dataclass(frozen=True)
class FixedPoint:
    """The numbers Σ digits[l]·2**(base_bits·l + exponent), one for each of m columns.

    Attributes
    ----------
    digits : (L, m) int64, least significant first, of any sign, below 2**62 in magnitude.
    base_bits : bits between one digit and the next: up to 60.
    exponent : (m,) int64 or int.
    flags : (m,) uint8, a union of the flags above; Inf and NaN take precedence over the digits.
    bound : of the magnitudes of digits.
    """

    digits: np.ndarray
    base_bits: int
    exponent: np.ndarray | int
    flags: np.ndarray
    bound: int = 1 << WORD

    @classmethod
    def of(cls, values: Integers, flags: np.ndarray) -> FixedPoint:
        """Integers times powers of two.

        >>> FixedPoint.of([(-(2**40), 0)], np.array([ORDINARY])).digits.tolist()
        [[0], [-256]]
        """
        size = max((v.bit_length() for v, _ in values), default=0) // DIGIT_BITS + 1
        data = b"".join(v.to_bytes(4 * size, "little", signed=True) for v, _ in values)
        digits = np.frombuffer(data, "<u4").reshape(-1, size).T.astype(np.int64)
        digits[-1] = digits[-1].astype(np.int32)  # the sign
        return cls(digits, DIGIT_BITS, np.array([e for _, e in values], np.int64), flags)

    def plus(self, other: FixedPoint) -> FixedPoint | None:
        """Return the sum of both in the finer of their units, or None if 64 bits might not hold it.

        Both have as many digits, one base and one exponent for all columns, as the windows of blocks have.
        """
        exponent = min(self.exponent, other.exponent)
        up, other_up = int(self.exponent - exponent), int(other.exponent - exponent)
        bound = (self.bound << up) + (other.bound << other_up)
        if max(up, other_up) > self.base_bits or bound > TOGETHER:
            return None
        digits = (self.digits << up) + (other.digits << other_up)
        return FixedPoint(digits, self.base_bits, exponent, self.flags | other.flags, bound)

    def round(self, target: Format = FORMATS["fp64"]) -> np.ndarray:
        """Return the (m,) float64 numbers of the target format nearest to the exact values.

        Exact zeros are −0 where every term was −0, and +0 otherwise, as IEEE 754 adds.
        """
        return flagged(round_digits(self.digits, self.base_bits, self.exponent, target), self.flags)

    def enclosure(self) -> Enclosure:
        """The values as float64 numbers and bounds."""
        return Enclosure.of(self.digits, self.base_bits, self.exponent)

    def columns(self, chosen: np.ndarray | slice) -> FixedPoint:
        """Some of the values."""
        exponent = self.exponent if isinstance(self.exponent, int) else self.exponent[chosen]
        return FixedPoint(self.digits[:, chosen], self.base_bits, exponent, self.flags[chosen])

    def integers(self) -> Integers:
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


def merged(sums: Iterable[FixedPoint]) -> Iterator[FixedPoint]:
    """Add up neighbouring sums as far as 64 bits hold them."""
    total: FixedPoint | None = None
    for new in sums:
        both = new if total is None else total.plus(new)
        if both is None and total is not None:
            yield total
        total = both or new
    if total is not None:
        yield total


def flagged(values: Any, flags: Array) -> Array:
    """Put zeros of the right sign, Inf and NaN among rounded values."""
    values = namespace(flags).asarray(values, np.float64)
    if is_cupy(flags):
        return _flagged_on_device(values, flags)
    if (flags == ORDINARY).all():
        return values
    flags = canonical_flags(flags)
    values = np.where(flags == MINUS_ZERO, -0.0, values)
    values = np.where(flags == PLUS_INFINITY, np.inf, values)
    values = np.where(flags == MINUS_INFINITY, -np.inf, values)
    return np.where(flags == NAN, np.nan, values)


FLAG_CONSTANTS: dict[str, Any] = {
    name: f"{flag}u"
    for name, flag in zip(
        ("PLUS_INFINITY", "MINUS_INFINITY", "NOT_A_NUMBER", "ORDINARY", "MINUS_ZERO"), FLAGS, strict=True
    )
}
"""The flags as kernels take them."""

_FLAGGED = Kernel(
    "flagged",
    Path(__file__).with_name("flagged.cu"),
    (FLAG_CONSTANTS,),
    equals="ozaki.definition.sums.rounded_sum",
)


def _flagged_on_device(values: Array, flags: Array) -> Array:
    values, flags = (namespace(flags).ascontiguousarray(x) for x in (values, flags))
    out = namespace(flags).empty(flags.shape)
    grid = (min(1 << 16, -(-out.size // 256)),)
    _FLAGGED(grid, (256,), (values, flags, np.int64(out.size), out), **FLAG_CONSTANTS)
    return out


def flags_of(x: np.ndarray) -> np.ndarray:
    """Return the flag of each of some float64 numbers."""
    flags = namespace(x).full(x.shape, ORDINARY)
    flags[(x == 0) & np.signbit(x)] = MINUS_ZERO
    for flag, special in ((NAN, np.isnan(x)), (PLUS_INFINITY, x == np.inf), (MINUS_INFINITY, x == -np.inf)):
        flags[special] = flag
    return flags


def canonical_flags(flags: np.ndarray) -> np.ndarray:
    """Keep the one flag that decides, so that the order of the terms cannot be seen; 0 for no terms."""
    infinite = flags & (PLUS_INFINITY | MINUS_INFINITY)
    undefined = ((flags & NAN) != 0) | (infinite == (PLUS_INFINITY | MINUS_INFINITY))
    finite = np.where((flags & ORDINARY) != 0, ORDINARY, flags & MINUS_ZERO)
    return np.where(undefined, NAN, np.where(infinite != 0, infinite, finite)).astype(np.uint8)
