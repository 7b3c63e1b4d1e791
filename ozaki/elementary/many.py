"""The operations that texts are written in, on numbers of any precision: what decides every doubt."""

from __future__ import annotations

from fractions import Fraction
from math import copysign
from typing import Any

from ozaki.elementary import digits, tables
from ozaki.elementary.digits import Big


class Many:
    """As `cores.Machine`, of single arguments, with relative errors of some 2**(8 - bits)."""

    pairs = last = True
    of_single = False
    most = 10**6

    def __init__(self, bits: int) -> None:
        self.bits, self.lost = bits, 0

    def number(self, x: Any, lo: Any = None) -> Big:
        if isinstance(x, Big):
            return x
        numerator, denominator = x.as_integer_ratio()
        power = denominator & (denominator - 1) == 0
        return Big.of(x, self.bits) if power else Big.of(numerator, self.bits) / denominator

    def balanced(self, a: Big, b: Big) -> Big:
        """Return a + b, and count the bits that are lost where that is small."""
        total = a + b
        self.lost = max(0, a.top - total.top) if total.m else self.bits
        return total

    def finer(self) -> Many:
        return Many(self.bits + 12)

    def doubtful(self, condition: Any) -> None:
        """Nothing is."""

    def exact_root(self, root: Big, x: Big) -> None:
        """All digits are."""

    def where(self, condition: bool, a: Any, b: Any) -> Any:
        return a if condition else b

    def signed(self, x: float, result: Big) -> Big:
        return -result if copysign(1.0, x) < 0 else result

    def power(self, e: int) -> Big:
        return Big(1, int(e), self.bits)

    def constant(self, name: str) -> Big:
        return Big.of(tables.constant(name, self.bits + 64), self.bits)

    def exp(self, x: Any, base: str = "e", factor: bool = False) -> tuple[Big, int]:
        x = self.number(x)
        x = (
            x
            if base == "e"
            else Big.of(x, self.bits + 16) * tables.constant({"2": "ln2", "10": "ln10"}[base], self.bits + 64)
        )
        return Big.of(digits.exp(x), self.bits), 0

    def expm1(self, x: Any) -> tuple[Big, Big, int]:
        x = self.number(x)
        return digits.expm1(x), digits.exp(x), 0

    def sinh(self, x: Any) -> tuple[Big, int]:
        A, M, _ = self.expm1(x)
        return A + A / M, -1

    def log(self, x: Any, octaves: int = 0) -> Big:
        return digits.log(self.number(x).scaled(octaves))

    def log1p(self, x: Any, octaves: int = 0, part: bool = False) -> Big:
        x = self.number(x)
        return digits.log((Big.of(x, 2 * self.bits) + 1).scaled(octaves)) if octaves else digits.log1p(x)

    def log_near_1(self, near: bool, x: Big, octaves: int = 0) -> Big:
        return self.log1p(x) if near else self.log(x, octaves)

    def log_of_sum(self, a: Big, b: Big, octaves: int = 0) -> Big:
        return self.log1p(a - 1 + b, octaves)

    def asinh(self, x: Any) -> Big:
        a = self.number(x)
        square = a * a
        return digits.log1p(a + square / ((square + 1).sqrt() + 1))

    def log_of_squares(self, a: float, b: float, octaves: int = 0) -> tuple[Big, int]:
        less = Fraction(a) ** 2 + Fraction(b) ** 2 - 1
        if not octaves and abs(less) < 0.75:
            return digits.log1p(Big.of(less, self.bits)), 0
        return digits.log(Big.of(less + 1, self.bits).scaled(octaves)), 0

    def square_root(self, x: Any) -> Big:
        return self.number(x).sqrt()

    def cbrt(self, x: Any) -> tuple[Big, int]:
        return digits.exp(digits.log(Big.of(self.number(x), self.bits + 16)) / 3), 0

    def turned(self, x: Any) -> tuple[Big, bool]:
        return self.number(x), False

    def half_turned(self, x: Any) -> tuple[Big, bool]:
        return self.number(x), True

    def sin_cos(self, r: Big, turns: bool) -> tuple[Big, Big]:
        return digits.sin_cos(r, turns)

    def tan(self, r: Big, turns: bool) -> Big:
        s, c = digits.sin_cos(r, turns)
        return s / c

    def atan(self, y: Any, x: Any, behind: bool = False) -> Big:
        y, x = self.number(y), self.number(x)
        angle = digits.atan(y / x) if x.m else digits.pi(self.bits).scaled(-1)
        return digits.pi(self.bits) - angle if behind else angle

    angle_on_circle = atan

    def erf(self, x: Any) -> Big:
        return digits.erf(self.number(x))

    def tail(self, x: Any, normal: bool) -> Big:
        x = self.number(x)
        return digits.erfcx(x / self.number(2).sqrt()).scaled(-1) if normal else digits.erfcx(x)
