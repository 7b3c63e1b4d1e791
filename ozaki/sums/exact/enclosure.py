"""Exact values as float64 numbers with a bound, which mostly is enough to round what is computed of them.

If rounding both ends of an interval gives one number, that is what the value in between rounds to (Ziv, Fast
evaluation of elementary mathematical functions with correctly rounded last bit). The few values for which it
does not are left to integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.rounding import product_error, two_sum
from multiword.runtime.arrays import is_cupy, namespace

_LARGEST_INTEGER = 1 << 53  # integers up to this are float64 numbers
_REACH = 900  # bits below the first digit that may matter
_WIDER = 1 + 2.0**-20  # for the roundings of the bounds themselves
_POWERS = 1000  # exponents below which powers of two are normal numbers
_NEAR = 100  # bits between units in which nothing underflows
_TINY = 2.0**-1000  # numbers below may have lost bits
_SMALL = 2.0**-850  # the error of a larger product is a number
_ROUNDINGS = 2.0**-50  # of the few operations that are not exact, relative to what they give


@dataclass(frozen=True)
class Enclosure:
    """Values within `error` of high + low, all in units of 2**exponent; |low| is half an ulp of high at most.

    high, low, error : (m,) float64.
    exponent : (m,) int64 or int.
    """

    high: np.ndarray
    low: np.ndarray
    error: np.ndarray
    exponent: np.ndarray | int

    @classmethod
    def of(cls, digits: np.ndarray, base_bits: int, exponent: np.ndarray | int) -> Enclosure:
        """The values of the digits of a `FixedPoint`."""
        top = len(digits) - 1
        high, low, error = namespace(digits).zeros((3, digits.shape[1]))
        large = digits.size and max(digits.max(), -digits.min()) > _LARGEST_INTEGER
        for index in range(top, -1, -1):
            weight = base_bits * (index - top)
            if weight < -_REACH:
                error += (digits[index] != 0) * 2.0 ** (64 - _REACH)
                continue
            leading = digits[index].astype(np.float64)
            rest = [(digits[index] - leading.astype(np.int64)).astype(np.float64)] if large else []
            for part in (leading, *rest):
                high, more = two_sum(high, part * 2.0**weight)
                low, lost = two_sum(low, more)
                error += np.abs(lost)
        high, low = two_sum(high, low)
        return cls(high, low, error * _WIDER, exponent + base_bits * top)

    @classmethod
    def exactly(cls, x: np.ndarray) -> Enclosure:
        """Float64 numbers, without error."""
        return cls(x, 0 * x, 0 * x, 0)

    def normalized(self) -> Enclosure:
        """In units of their own, in which `high` is 0, or from 1/2 to 1."""
        return self.scaled(self.exponent + np.frexp(self.high)[1])

    def scaled(self, exponent: np.ndarray) -> Enclosure:
        """In other units, in which they are neither huge nor tiny."""
        shift = self.exponent - exponent
        if not is_cupy(shift) and np.max(np.abs(shift), initial=0) < _POWERS:  # a fourth of the time
            power = np.ldexp(1.0, shift)
            high, low, error = self.high * power, self.low * power, self.error * power
        else:
            high, low, error = (np.ldexp(x, shift) for x in (self.high, self.low, self.error))
        tiny = [(np.abs(y) < _TINY) & (x != 0) for x, y in ((self.low, low), (self.error, error))]
        return Enclosure(high, low, error + (tiny[0] | tiny[1]) * _TINY, exponent)

    def times(self, other: Enclosure) -> Enclosure:
        """Products; exact of numbers."""
        high, x, y = self.high * other.high, self.high * other.low, self.low * other.high
        low = product_error(self.high, other.high, high) + (x + y)
        error = (np.abs(x) + np.abs(y) + np.abs(low)) * _ROUNDINGS + np.abs(self.low * other.low)
        some = (np.abs(high) > _SMALL) | (self.high == 0) | (other.high == 0)
        sure = (self.error == 0) & (other.error == 0)  # else a product of errors may underflow
        exact = (self.low == 0) & (other.low == 0) & some & sure
        error = np.where(exact, 0.0, error * _WIDER + 2.0**-1000)  # of what underflows
        error += (self.error * (np.abs(other.high) + other.error) + other.error * np.abs(self.high)) * _WIDER
        return Enclosure(*two_sum(high, low), error, self.exponent + other.exponent)

    def times_numbers(self, x: Any) -> Enclosure:
        """Products with numbers, or a number, as `times`."""
        high, part = self.high * x, self.low * x
        low = product_error(self.high, x, high) + part
        error = (np.abs(part) + np.abs(low)) * _ROUNDINGS + self.error * np.abs(x)
        some = (np.abs(high) > _SMALL) | (self.high == 0) | (x == 0)
        exact = (self.low == 0) & (self.error == 0) & some
        error = np.where(exact, 0.0, error * _WIDER + 2.0**-1000)  # of what underflows
        return Enclosure(*two_sum(high, low), error, self.exponent)

    def plus(self, other: Enclosure) -> Enclosure:
        """Sums of values in the same units."""
        high, more = two_sum(self.high, other.high)
        low, lost = two_sum(self.low, other.low)
        low, rest = two_sum(more, low)
        error = (self.error + other.error + np.abs(lost) + np.abs(rest)) * _WIDER
        return Enclosure(*two_sum(high, low), error, self.exponent)

    def minus(self, other: Enclosure) -> Enclosure:
        """Differences of values in the same units."""
        return self.plus(other.negative())

    def negative(self) -> Enclosure:
        """The values with the other sign."""
        return replace(self, high=-self.high, low=-self.low)

    def total(self) -> Enclosure:
        """Sums over the first axis, of values in the same units."""
        rows = zip(self.high, self.low, self.error, strict=True)
        first, *others = (Enclosure(*row, self.exponent) for row in rows)
        for row in others:
            first = first.plus(row)
        return first

    def less(self, other: Enclosure) -> Enclosure:
        """Differences of values in any units, in units of their own."""
        larger = np.maximum(self.exponent, other.exponent)
        unit = np.where(self.high == 0, other.exponent, np.where(other.high == 0, self.exponent, larger))
        apart = np.abs(self.exponent - other.exponent) > _NEAR
        result = self.scaled(unit).minus(other.scaled(unit))
        return replace(result, error=result.error + apart * 2.0**-900).normalized()  # of what underflows

    def over(self, other: Enclosure) -> Enclosure:
        """Quotients by values; both normalized, none of the divisors 0."""
        quotient = self.high / other.high
        product = Enclosure.exactly(quotient).times(replace(other, exponent=0))
        rest = replace(self, exponent=0).minus(product)
        low = rest.high / other.high
        error = rest.error + np.abs(rest.low) + np.abs(rest.high) * _ROUNDINGS
        error += np.abs(low) * (np.abs(other.low) + other.error)
        error = error / (np.abs(other.high) - np.abs(other.low) - other.error) * _WIDER
        error = np.where(error >= 0, error, np.inf)  # of divisors that may be 0
        return Enclosure(*two_sum(quotient, low), error, self.exponent - other.exponent).normalized()

    def divided(self, divisor: np.ndarray) -> Enclosure:
        """Quotients by float64 numbers."""
        quotient = self.high / divisor
        rest, lost = two_sum(_remainder(self.high, divisor, quotient), self.low)
        low = rest / divisor
        exact = (lost == 0) & (_remainder(rest, divisor, low) == 0)  # as half-way cases are
        error = self.error + np.where(exact, 0.0, np.abs(rest) * _ROUNDINGS)
        return replace(self, high=quotient, low=low, error=error / np.abs(divisor) * _WIDER)

    def root(self) -> Enclosure:
        """Square roots. NaN for negative ones."""
        odd = 1.0 + (self.exponent & 1)
        high, low, error = self.high * odd, self.low * odd, self.error * odd
        root = np.sqrt(high)
        square = root * root
        rest = (high - square) - product_error(root, root, square)  # exactly
        slope = np.where(root == 0, 1.0, 2 * root)
        correction = (rest + low) / slope
        error = (error + (np.abs(rest) + np.abs(low)) * _ROUNDINGS + 2 * correction * correction) / slope
        return Enclosure(root, correction, error * _WIDER, (self.exponent - (self.exponent & 1)) // 2)

    def rounded(self, target: Format) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of a format nearest to the values, and where that is certain."""
        margin = 2 * self.error + np.abs(self.low) * _ROUNDINGS
        margin[self.error == 0] = 0  # an exact value; where the error is NaN, nothing is certain
        if target.precision < 53:
            margin += np.abs(self.high) * _ROUNDINGS
        ends = [self.high + (self.low + sign * margin) for sign in (-1, 1)]
        if target.precision < 53:  # Veltkamp's splitting
            factors = [x * (2.0 ** (53 - target.precision) + 1) for x in ends]
            ends = [factor - (factor - x) for factor, x in zip(factors, ends, strict=True)]
        values = np.ldexp(ends[0], self.exponent)
        magnitude = np.abs(values)
        inside = (magnitude >= 2.0 ** (target.emin + 1)) & (magnitude <= target.maximum)
        return values, (ends[0] == ends[1]) & (inside | (ends[0] == 0))


def _remainder(x: np.ndarray, divisor: np.ndarray, quotient: np.ndarray) -> np.ndarray:
    """x - quotient·divisor, exactly, of a quotient rounded to nearest."""
    product = quotient * divisor
    return (x - product) - product_error(quotient, divisor, product)
