"""Many digits: numbers of any precision in Python integers, which decide what float64 leaves undecided.

They also make the tables. Each operation is wrong by a few units of its last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from math import isqrt
from typing import Any


class Big:
    """A number m·2**e, of no more than so many bits."""

    __slots__ = ("bits", "e", "m")

    def __init__(self, m: int, e: int, bits: int) -> None:
        excess = m.bit_length() - bits
        self.m, self.e = (m >> excess, e + excess) if excess > 0 else (m, e)
        self.bits = bits

    @classmethod
    def of(cls, x: Any, bits: int) -> Big:
        """Return a float or an integer, exactly, or a Big with so many bits."""
        if isinstance(x, Big):
            return Big(x.m, x.e, bits)
        numerator, denominator = x.as_integer_ratio()
        return Big(numerator, 1 - denominator.bit_length(), bits)

    def _other(self, x: Any) -> Big:
        return x if isinstance(x, Big) else Big.of(x, max(self.bits, 64))

    @property
    def top(self) -> int:
        """The exponent: 2**(top - 1) <= |x| < 2**top."""
        return self.m.bit_length() + self.e if self.m else -(10**6)

    def fixed(self, places: int) -> int:
        """Return x·2**places, rounded down."""
        shift = self.e + places
        return self.m << shift if shift >= 0 else self.m >> -shift

    def scaled(self, power: int) -> Big:
        """Return x·2**power."""
        return Big(self.m, self.e + power, self.bits)

    def __add__(self, other: Any) -> Big:
        other = self._other(other)
        gap = self.top - other.top
        if abs(gap) > 2 * max(self.bits, other.bits) + 64:  # the smaller one counts for nothing
            larger = self if gap > 0 else other
            return Big(larger.m, larger.e, self.bits)
        e = min(self.e, other.e)
        return Big((self.m << (self.e - e)) + (other.m << (other.e - e)), e, self.bits)

    def __neg__(self) -> Big:
        return Big(-self.m, self.e, self.bits)

    def __abs__(self) -> Big:
        return Big(abs(self.m), self.e, self.bits)

    def __sub__(self, other: Any) -> Big:
        return self + -self._other(other)

    def __rsub__(self, other: Any) -> Big:
        return self._other(other) - self

    def __mul__(self, other: Any) -> Big:
        other = self._other(other)
        return Big(self.m * other.m, self.e + other.e, self.bits)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Big:
        other = self._other(other)
        shift = max(0, self.bits + 2 + other.m.bit_length() - self.m.bit_length())
        return Big((self.m << shift) // other.m, self.e - other.e - shift, self.bits)

    def __rtruediv__(self, other: Any) -> Big:
        return self._other(other) / self

    def sqrt(self) -> Big:
        shift = max(0, 2 * self.bits + 2 - self.m.bit_length())
        shift += (self.e - shift) & 1
        return Big(isqrt(self.m << shift), (self.e - shift) >> 1, self.bits)

    def plus_smaller(self, other: Any) -> Big:
        """Return the sum."""
        return self + other

    def plus_product(self, a: Big, b: Big) -> Big:
        """Return self + a·b."""
        return self + a * b

    def tidy(self) -> Big:
        """Return the same."""
        return self

    def times_power(self, factor: Any) -> Big:
        """Return the product."""
        return self * factor

    def __lt__(self, other: Any) -> bool:
        return (self - other).m < 0

    def __gt__(self, other: Any) -> bool:
        return (self - other).m > 0

    def nearest(self) -> int:
        return (self.fixed(1) + 1) >> 1


def _precisely(function: Callable[[Big, int], Big]) -> Callable[[Big], Big]:
    """Make a function of x and a precision one of x, whose results have the bits of x."""

    @wraps(function)
    def rounded(x: Any) -> Big:
        return Big.of(function(x, x.bits + 24), x.bits)

    return rounded


@lru_cache(64)
def pi(bits: int) -> Big:
    """π = 16 arctan(1/5) - 4 arctan(1/239), Machin's formula."""
    places = bits + 16
    return Big(4 * (4 * _of_inverse(5, -1, places) - _of_inverse(239, -1, places)), -places, bits)


@lru_cache(64)
def ln2(bits: int) -> Big:
    """log 2 = 18 artanh(1/26) - 2 artanh(1/4801) + 8 artanh(1/8749)."""
    places = bits + 16
    terms = (factor * _of_inverse(n, 1, places) for factor, n in ((18, 26), (-2, 4801), (8, 8749)))
    return Big(sum(terms), -places, bits)


def _of_inverse(n: int, sign: int, places: int) -> int:
    """Return artanh(1/n)·2**places for sign 1, arctan(1/n)·2**places for -1, by their series."""
    term = total = (1 << places) // n
    k = 1
    while term:
        term //= sign * n * n
        k += 2
        total += term // k
    return total


@_precisely
def exp(x: Big, bits: int) -> Big:
    """e**x, by x = n·log 2 + r and Taylor's series of r / 256."""
    places = bits + max(0, x.top) + 24
    of_x = x.fixed(places)
    log2 = ln2(places + 16).fixed(places)
    n = of_x // log2
    r = (of_x - n * log2) >> 8
    total = term = 1 << places
    k = 1
    while term:
        term = (term * r >> places) // k
        total += term
        k += 1
    for _ in range(8):
        total = total * total >> places
    return Big(total, n - places, bits)


@_precisely
def expm1(x: Big, bits: int) -> Big:
    """e**x - 1, with as many bits more as cancel."""
    return exp(Big.of(x, bits + max(0, 2 - x.top))) - 1


@_precisely
def log(x: Big, bits: int) -> Big:
    """log x, by 2 artanh of the (m**(1/256) - 1) / (m**(1/256) + 1), and log 2."""
    if not (x - 1).m:
        return Big(0, 0, bits)
    places = bits + max(0, 4 - (x - 1).top) + 32
    n = x.top - (2 * (x.m * x.m).bit_length() < 4 * x.m.bit_length())  # m about 1, from 0.7 to 1.5
    m = Big.of(x, places).scaled(-n)
    for _ in range(8):
        m = m.sqrt()
    t = ((m - 1) / (m + 1)).fixed(places)
    square, total, term, k = t * t >> places, t, t, 1
    while term not in (0, -1):
        term = term * square >> places
        k += 2
        total += term // k
    return Big(total, 9 - places, places) + n * ln2(places)


@_precisely
def log1p(x: Big, bits: int) -> Big:
    """log(1 + x), of a sum that is exact."""
    return x if x.top < -bits else log(Big.of(x, bits + max(64, 2 - x.top)) + 1)


def sin_cos(x: Big, turns: bool = False) -> tuple[Big, Big]:
    """sin and cos of x, or of π·x."""
    bits = x.bits + 24
    quarter = Big(1, -1, 64) if turns else pi(2 * bits + 1200).scaled(-1)
    extra = max(0, x.top) + 32
    while True:
        wide = Big.of(x, bits + extra + x.bits)
        n = (wide / quarter).nearest() if x.top > -2 else 0
        r = wide - n * Big.of(quarter, bits + extra)
        if not r.m or r.top > x.top - extra + 16 or not n or turns:
            break
        extra *= 2
    places = bits + (max(0, -r.top) if r.m else 0) + 16
    t = (r * pi(places) if turns else r).fixed(places)
    square = t * t >> places
    sine, cosine, term, k = 0, 0, 1 << places, 0
    while term not in (0, -1):
        cosine += term
        of_sine = (term * t >> places) // (k + 1)
        sine += of_sine
        k += 2
        term = -(term * square >> places) // (k * (k - 1))
    pair = Big(sine, -places, x.bits), Big(cosine, -places, x.bits)
    s, c = (pair[1], -pair[0]) if n & 1 else pair
    return (-s, -c) if n & 2 else (s, c)


@_precisely
def atan(x: Big, bits: int) -> Big:
    """atan x for x >= 0, by halving the angle six times."""
    wide = Big.of(x, bits + 32)
    for _ in range(6):
        wide = wide / ((wide * wide + 1).sqrt() + 1)
    places = bits + max(0, -x.top) + 32
    t = wide.fixed(places)
    square, total, term, k = t * t >> places, 0, t, 1
    while term not in (0, -1):
        total += term // k
        term = -(term * square >> places)
        k += 2
    return Big(total, 6 - places, bits)


@_precisely
def erf(x: Big, bits: int) -> Big:
    """erf x = 2/√π·exp(-x²)·Σ 2**k·x**(2k + 1) / (2k + 1)!!, whose terms are all of one sign."""
    wide = Big.of(x, bits + 16)
    square = wide * wide
    places = bits + 32
    twice = square.fixed(places + 1)
    total, term, k = 0, 1 << places, 1
    while term:
        total += term
        k += 2
        term = (term * twice >> places) // k
    return Big(total, -places, bits + 32) * wide * exp(-square) * 2 / pi(bits).sqrt()


@_precisely
def erfcx(x: Big, bits: int) -> Big:
    """exp(x²)·erfc(x) for x >= 0: 1 - erf x below 4, a continued fraction beyond."""
    if x.top < 3:
        wide = Big.of(x, bits + 32)
        return (1 - erf(wide)) * exp(wide * wide)
    places, wide = bits + 16, Big.of(x, bits + 16)
    of_x = wide.fixed(places)
    terms = int((0.35 * places / (2.0 * max(1, of_x >> places))) ** 2 * 4) + 24
    t = of_x
    for k in range(terms, 0, -1):  # x + (k/2) / (x + ((k + 1)/2) / (x + ...
        t = of_x + ((k << (2 * places - 1)) // t)
    return Big(1 << (2 * places), -places, places) / Big(t, 0, places) / pi(bits).sqrt()
