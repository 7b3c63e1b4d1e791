"""Numbers as unevaluated sums of one or two float64, with the operations that texts are written in.

`Words(bits)` computes with relative errors of some 2**-bits: in plain float64 up to 50 bits, in pairs beyond.
`many.Many` has the same operations on integers of any length: a text is written once for all of them.
Sources: Dekker 1971; Knuth, TAOCP 2, 4.2.2; Joldes, Muller, Popescu, "Tight and rigorous error bounds for
basic building blocks of double-word arithmetic" (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import log2
from typing import Any

from multiword.rounding import two_sum
from ozaki.elementary import values
from ozaki.elementary.digits import Big
from ozaki.elementary.values import fma, where


def ordered_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b, rounded, and what that leaves, for |a| >= |b| or a = 0."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a·b, rounded, and what that leaves, unless it underflows."""
    p = a * b
    return p, fma(a, b, -p)


def words_of(x: Any, count: int = 2) -> list[float]:
    """Return the float64 numbers whose sum comes closest to x, a Big or a Fraction."""
    fraction = Fraction(x.m) * Fraction(2) ** x.e if isinstance(x, Big) else Fraction(x)
    words = []
    for _ in range(count):
        words.append(float(fraction))
        fraction -= Fraction(words[-1])
    return words


class Number:
    """hi + lo; lo is None where it is zero, or not computed."""

    __slots__ = ("hi", "lo", "words")
    __array_ufunc__ = None

    def __init__(self, words: Words, hi: Any, lo: Any = None) -> None:
        self.words, self.hi, self.lo = words, hi, lo

    def __lt__(self, other: float) -> Any:
        return self.hi < other

    def __gt__(self, other: float) -> Any:
        return self.hi > other

    def __add__(self, other: Any) -> Number:
        return self.plus(self.words.number(other), two_sum)

    def plus(self, other: Number, add: Callable[[Any, Any], tuple[Any, Any]]) -> Number:
        """Return the sum, of which `add` adds the upper words."""
        if not self.words.pairs:
            return Number(self.words, self.hi + other.hi)
        s, e = add(self.hi, other.hi)
        rest = [x for x in (self.lo, other.lo) if x is not None]
        if not rest:
            return Number(self.words, s, e)
        return Number(self.words, *ordered_sum(s, e + (rest[0] if len(rest) == 1 else rest[0] + rest[1])))

    def plus_smaller(self, other: Any) -> Number:
        """Return the sum with a number that is smaller in magnitude, in three operations less."""
        return self.plus(self.words.number(other), ordered_sum)

    def __neg__(self) -> Number:
        return Number(self.words, -self.hi, None if self.lo is None else -self.lo)

    def __sub__(self, other: Any) -> Number:
        return self + -self.words.number(other)

    def __rsub__(self, other: Any) -> Number:
        return self.words.number(other) + -self

    def __mul__(self, other: Any) -> Number:
        other = self.words.number(other)
        if not self.words.pairs:
            return Number(self.words, self.hi * other.hi)
        p, e = two_product(self.hi, other.hi)
        if other.lo is not None:
            e = fma(self.hi, other.lo, e)
        if self.lo is not None:
            e = fma(self.lo, other.hi, e)
        exact = self.lo is None and other.lo is None
        return Number(self.words, *((p, e) if exact else ordered_sum(p, e)))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Number:
        other = self.words.number(other)
        if not self.words.pairs:
            return Number(self.words, self.hi / other.hi)
        inverse = values.near_inverse(other.hi) if self.words.near else 1.0 / other.hi
        q = self.hi * inverse
        rest = fma(-q, other.hi, self.hi)
        if self.lo is not None:
            rest = rest + self.lo
        if other.lo is not None:
            rest = fma(-q, other.lo, rest)
        return Number(self.words, *ordered_sum(q, rest * inverse))

    def __rtruediv__(self, other: Any) -> Number:
        return self.words.number(other) / self

    def sqrt(self) -> Number:
        """Return the square root of a positive number, or of 0."""
        if not self.words.pairs:
            return Number(self.words, values.sqrt(self.hi))
        if self.words.near:
            inverse = values.near_inverse_root(where(self.hi == 0.0, 1.0, self.hi))
            s = self.hi * inverse
        else:
            s = values.sqrt(self.hi)
            inverse = 1.0 / where(s == 0.0, 1.0, s)
        rest = fma(-s, s, self.hi)
        if self.lo is not None:
            rest = rest + self.lo
        return Number(self.words, *ordered_sum(s, rest * (inverse * 0.5)))

    def plus_product(self, a: Number, b: Number) -> Number:
        """Return self + a·b for |a·b| <= |self|/2, or self = 0; the words may overlap (`tidy`).

        The sum with a·b's upper words is rounded once, and within a factor of 2 of self: the difference of
        the two is exact (Sterbenz), and so what the sum leaves is known to 2**-106. The product of the lower
        words is left out: where those of one factor overlap by 2**-18 of it, the other's have to be tidy but
        for a bit, and 2**-70 is lost.
        """
        s = fma(a.hi, b.hi, self.hi)
        if not self.words.pairs:
            return Number(self.words, s)
        e = fma(a.hi, b.hi, self.hi - s)
        if a.lo is not None:
            e = fma(a.lo, b.hi, e)
        if self.lo is not None:
            e = e + self.lo
        return Number(self.words, s, e if b.lo is None else fma(a.hi, b.lo, e))

    def tidy(self) -> Number:
        """Return the same with the rounded sum as its upper word, for |hi| >= |lo|."""
        return self if self.lo is None else Number(self.words, *ordered_sum(self.hi, self.lo))

    def times_power(self, factor: Any) -> Number:
        """Return the product with a power of two."""
        return Number(self.words, self.hi * factor, None if self.lo is None else self.lo * factor)


class Words:
    """Arithmetic with relative errors of some 2**-bits."""

    def __init__(self, bits: int) -> None:
        self.bits, self.pairs = bits, bits > 50
        # A quotient and a root that are known to so many bits are to twice as many by what they leave.
        self.near = self.pairs and bits < 2 * values.NEAR

    @property
    def last(self) -> bool:
        """Whether this is the longer of the texts for pairs: slow, and for any argument."""
        return self.bits > 90

    @property
    def quick(self) -> bool:
        """Whether this is the shorter of the texts for pairs."""
        return self.pairs and not self.last

    def number(self, x: Any, lo: Any = None) -> Number:
        """Return a float64 value, a sum of two, or an exact constant as a number."""
        if isinstance(x, Number):
            return x
        if isinstance(x, Big | Fraction):
            hi, lo = words_of(x)
            return Number(self, hi, lo if self.pairs and lo else None)
        return Number(self, x, lo if self.pairs else None)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """Return a where the condition holds, b elsewhere: numbers or values."""
        if not (isinstance(a, Number) or isinstance(b, Number)):
            return where(condition, a, b)
        a, b = self.number(a), self.number(b)
        lo = None
        if not (a.lo is None and b.lo is None):
            lo = where(condition, *(0.0 if x.lo is None else x.lo for x in (a, b)))
        return Number(self, where(condition, a.hi, b.hi), lo)

    def signed(self, x: Any, result: Number) -> Number:
        """Return a result with the sign of x turned into it: negated where x is negative, -0 included."""
        sign = (values.bits(x) >> 63) << 63
        turned = [None if y is None else values.unbits(values.bits(y) ^ sign) for y in (result.hi, result.lo)]
        return Number(self, *turned)

    def power(self, e: Any) -> Any:
        """Return 2**e, for an exponent between -1022 and 1023."""
        return values.power(e)

    def row(self, name: str, table: Any, i: Any, column: int) -> Number:
        """Return the number in two columns of a row of a table."""
        hi = values.take(name, table, i, column)
        return Number(self, hi, values.take(name, table, i, column + 1) if self.pairs else None)

    def polynomial(self, x: Number, coefficients: Sequence[Any], largest: float, bits: int) -> Number:
        """Return Σ c_j·x**j for |x| <= largest, with an error of some 2**-bits of c_0.

        coefficients : exact numbers, or functions that return them, with a bound: (bound, function).

        So many terms are taken as that needs. A term is computed in float64 where its rounding errors are
        small enough.
        """
        sizes = [
            float(abs(c[0] if isinstance(c, tuple) else c)) * largest**j for j, c in enumerate(coefficients)
        ]
        count = next(j for j in range(1, len(sizes)) if max(sizes[j:]) < sizes[0] * 2.0 ** -(bits + 2))
        plain = Words(0)
        total: Number | None = None
        for j in reversed(range(count)):
            pair = self.pairs and sizes[j] > sizes[0] * 2.0 ** -(bits - 53)
            c = coefficients[j]
            tabled, words = isinstance(c, tuple), self if pair else plain
            c = c[1](words) if tabled else words.number(c)
            if total is None:
                total = c
            elif not pair:
                total = Number(plain, fma(total.hi, x.hi, c.hi))
            else:
                product = total * x if total.words is self else Number(self, total.hi * x.hi)
                # In a row of a table c may be the smaller one, near a zero of the derivative.
                total = c.plus(product, two_sum if tabled else ordered_sum)
        assert total is not None
        return Number(self, total.hi, total.lo)

    def series(self, x: Number, coefficients: Sequence[Fraction], largest: float, bits: int) -> Number:
        """Return x·Σ c_j·x**j, c_0 = 1, with an error of some 2**-bits of it; in `lo` what is below c_1·x².

        Where float64 is enough for the terms from x² on, they are one.
        """
        if not self.pairs:
            rest = self._rest(x, coefficients[1:], largest, bits)
            return Number(self, fma(x.hi * x.hi, rest, x.hi))
        if abs(coefficients[1]) * largest < 2.0 ** (53 - bits):
            rest = self._rest(x, coefficients[1:], largest, bits)
            return Number(self, x.hi, fma(x.hi * x.hi, rest, 0.0 if x.lo is None else x.lo))
        return x * self.polynomial(x, coefficients, largest, bits)

    def odd_series(self, x: Number, coefficients: Sequence[Fraction], largest: float, bits: int) -> Number:
        """Return x·Σ c_j·x**(2·j), c_0 = 1, for x² <= largest; as `series`, in `lo` what is below x."""
        if self.pairs and abs(coefficients[1]) * largest >= 2.0 ** (53 - bits):
            return x * self.polynomial(x * x, coefficients, largest, bits)
        square = x.hi * x.hi
        rest = self._rest(self.number(square), coefficients[1:], largest, bits)
        if not self.pairs:
            return Number(self, fma(x.hi * square, rest, x.hi))
        return Number(self, x.hi, fma(x.hi * square, rest, 0.0 if x.lo is None else x.lo))

    def _rest(self, x: Number, coefficients: Sequence[Fraction], largest: float, bits: int) -> Any:
        """Return Σ c_j·x**j in float64, with as many terms as x·c_0 wants that is good to 2**-bits of 1."""
        drop = -int(log2(abs(coefficients[0]) * largest))
        return self.polynomial(x, coefficients, largest, min(bits - drop, 53)).hi
