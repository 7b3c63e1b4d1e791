"""exp, log, sin, cos, atan on numbers of one or two words: reductions by tables, and polynomials.

Texts of functions (`functions`) call these. `Machine.bits` says how many bits they are good for.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from multiword.rounding import two_sum
from ozaki.elementary import equations, tables, values
from ozaki.elementary.tables import ASIN, ASINH, ATAN, CBRT, COS, COSH, EXP, LOG, SIN, SINH, TAN
from ozaki.elementary.values import bits, fma, nearest, power, real, take, unbits, where
from ozaki.elementary.words import Number, Words, ordered_sum, two_product

LARGEST_R = 0.693148 / 256
LARGEST_Z = 1 / 248
LARGEST_TURN, LARGEST_FINE_TURN = 3.1416 / 128, 3.1416 / 512
LARGEST_SINE = 0.5625 * 1.4143 / 128
NEAR_1 = 2.0**-9
"""Numbers so near 1 are in the intervals of `tables.logs` whose r is 1."""
ORDINARY = 2.0**20
"""sin, cos, tan: arguments up to which three words of a step do."""


class Machine(Words):
    """The functions that texts are written in, on float64 values.

    Attributes
    ----------
    doubts, ties : conditions under which a result is left to a longer text, or is exact.
    beside : what the result's error is relative to, if that is not the result itself.
    """

    def __init__(self, bits: int, of_single: bool = False) -> None:
        super().__init__(bits)
        self.of_single = of_single
        self.doubts: list[Any] = []
        self.ties: list[Any] = []
        self.beside: Any = None
        self.most = 300 if of_single else 1900
        """The largest power of two of results, which are infinite far below."""

    def finer(self) -> Machine:
        """Return a machine for arguments of `exp`, whose errors that makes relative."""
        return Machine(self.bits + 12) if self.quick else self

    def doubtful(self, condition: Any) -> None:
        """Leave arguments for which a condition holds to a longer text."""
        self.doubts.append(condition)

    def exact_root(self, root: Number, x: Number) -> None:
        """Take the upper word of the root of two float32 numbers' squares for exact where its square is x.

        It may be half way between two float32 numbers, which no digits tell; x is exact.
        """
        if self.last and self.of_single:
            square, rest = two_product(root.hi, root.hi)
            self.ties.append((square == x.hi) & (rest == x.lo))

    def balanced(self, a: Number, b: Number) -> Number:
        """Return a + b, whose error is one of a where that is larger.

        In one word, where the sum is much smaller, it is left to a longer text.
        """
        total = a + b
        if self.pairs:
            self.beside = where(abs(a.hi) > abs(total.hi), abs(a.hi), abs(total.hi))
        else:
            self.doubtful(abs(total.hi) * 8.0 < abs(a.hi))
        return total

    def constant(self, name: str) -> Number:
        """Return a constant of `tables`."""
        return self.number(tables.constant(name))

    # exp ----------------------------------------------------------------------------------------------

    def _reduced(self, x: Number, base: str) -> tuple[Number, Any]:
        """Return r and k: base**x = 2**(k/128)·exp(r), |r| <= log(2)/256.

        k times the first word of the step is exact, and so is the difference from x (Sterbenz).
        """
        step = {"e": tables.constant("ln2"), "2": Fraction(1), "10": tables.constant("log10(2)")}[base] / 128
        first, second, third = tables.words(step, 3, 39)
        n, k = nearest(x.hi * float(1 / step))
        a = fma(-n, first, x.hi)
        if second == 0.0:
            r = self.number(a, x.lo)
        elif self.last:
            b, e = two_product(-n, second)
            r = self.number(a) + self.number(b, fma(-n, third, e))
            r = r if x.lo is None else r + x.lo
        else:
            # Where |a| < |n·second|, some 2**-77 is lost: nothing beside 1, and n is large. The third is
            # less than that.
            s = fma(-n, second, a)
            r = self.number(s, fma(-n, second, a - s)) if self.pairs else self.number(s)
            if x.lo is not None:  # below 2**-43: where s is less than that, 2**-96 is lost, nothing beside 1
                r = self.number(*ordered_sum(s, r.lo + x.lo))
        logarithm = {"e": None, "2": "ln2", "10": "ln10"}[base]
        return (r if logarithm is None else r * self.constant(logarithm)), k

    def exp(self, x: Number, base: str = "e", factor: bool = False) -> tuple[Number, Any]:
        """Return M and e, base**x = M·2**e, for |x·log(base)| <= 1500; M is between 0.99 and 2.

        Where that is only a `factor`, a quick text leaves up to 2**-18 of it to the lower word.
        """
        r, k = self._reduced(x, base)
        p = self.series(r, EXP, LARGEST_R, self.bits - 8)
        power_of_two = self.row("powers", tables.powers(), k & 127, 0)
        if self.last:
            return power_of_two.plus_smaller(power_of_two * p), k >> 7
        M = power_of_two.plus_product(power_of_two, p)
        return (M if factor else M.tidy()), k >> 7

    def expm1(self, x: Number) -> tuple[Number, Number, Any]:
        """Return A, M, e: exp(x) - 1 = A·2**e, exp(x) = M·2**e, for -90 < x < 800.

        2**(k/128) - 1 is no smaller than twice what is added to it, so nothing cancels, near 0 neither; for
        k = 1 it is by a thousandth, and `plus_product` exact all the same.
        """
        r, k = self._reduced(x, "e")
        table, i, e = tables.powers(), k & 127, k >> 7
        power_of_two = self.row("powers", table, i, 0)
        one = power(where(e > 200, -200, -e))  # 2**-200 is as good as less
        if self.quick:
            # Exact for -1 <= e <= 52: both are multiples of 2**-52, and the difference is below 2.
            far = e > 52
            s, d = ordered_sum(where(far, 0.0, -one), power_of_two.hi)
            less = self.number(s, d + (power_of_two.lo - where(far, one, 0.0)))
            more = self._exp_less_two_terms(r)
            first, second = (x.plus_product(power_of_two, r) for x in (less, power_of_two))
            return *(x.plus_product(power_of_two, more).tidy() for x in (first, second)), e
        p = self.series(r, EXP, LARGEST_R, self.bits)
        if self.pairs:
            less = power_of_two - one
        else:
            less = self.number((power_of_two.hi - one) + take("powers", table, i, 1))
        product = power_of_two * p
        return less.plus_smaller(product), power_of_two.plus_smaller(product), e

    def _exp_less_two_terms(self, r: Number) -> Number:
        """Return exp(r) - 1 - r = r²/2 + r³/6 + …, of which terms from the second on are in `lo`."""
        half, e = two_product(r.hi, r.hi * 0.5)
        rest = self._rest(r, [2 * c for c in EXP[2:]], LARGEST_R, self.bits)
        return self.number(half, fma(half * r.hi, rest, fma(r.hi, r.lo, e)))

    def sinh(self, x: Any) -> tuple[Number, Any]:
        """Return S and e: sinh(x) = S·2**e of a value x, 0 <= x <= 711.

        Of one word (a + a/(a + 1)) / 2 for a = exp(x) - 1. Two would be slow to divide: there x = y + r,
        y = k·log(2)/128, and powers of two are the sinh and cosh of y. What is added to sinh(y) is at most
        half as large, a hundred-thousandth more for k = 1, which is exact all the same; or that is 0.
        """
        if not self.pairs:
            A, M, e = self.expm1(self.number(x))
            return A + (A / M).times_power(power(where(e > 200, -200, -e))), e - 1
        r, k = self._reduced(self.number(x), "e")
        table, e, f = tables.powers(), k >> 7, (0 - k) >> 7
        grown = self.row("powers", table, k & 127, 0)
        small = power(where(f - e < -200, -200, f - e))  # 2**-200 is as good as less
        left = self.row("powers", table, (0 - k) & 127, 0).times_power(small)
        sine, less = self._odd_and_even(r, SINH, COSH, LARGEST_R)
        if self.quick:  # words may overlap
            (s, d), (c, g) = ordered_sum(grown.hi, -left.hi), ordered_sum(grown.hi, left.hi)
            S, C = self.number(s, d + (grown.lo - left.lo)), self.number(c, g + (grown.lo + left.lo))
            return S.plus_product(C, sine).plus_product(S, less).tidy(), e - 1
        S, C = grown.plus_smaller(-left), grown.plus_smaller(left)
        return S.plus_smaller(C * sine + S * less), e - 1

    # log ----------------------------------------------------------------------------------------------

    def log(self, x: Any, octaves: Any = 0) -> Number:
        """Return log(x·2**octaves) of a positive number or value, 2**-1022 and more."""
        x = self.number(x)
        return self._log(x.hi, x.lo, None, octaves)

    def log1p(self, x: Any, octaves: Any = 0, part: bool = False) -> Number:
        """Return log((1 + x)·2**octaves) of a number or value above -1; of 0 to 1 where it is a `part`."""
        x = self.number(x)
        s, t = (ordered_sum if part else two_sum)(1.0, x.hi)
        return self._log(s, t, x.lo, octaves, (abs(x.hi) < NEAR_1, x), part)

    def log_near_1(self, near: Any, x: Number, octaves: Any = 0) -> Number:
        """Return log(1 + x) where a condition holds, log(x·2**octaves) elsewhere, by one reduction."""
        s, t = two_sum(1.0, x.hi)
        lo = 0.0 if x.lo is None else x.lo
        u = where(near, lo, 0.0) if self.pairs else None
        known = near & (abs(x.hi) < NEAR_1), x
        return self._log(where(near, s, x.hi), where(near, t, lo), u, octaves, known)

    def log_of_sum(self, a: Number, b: Number, octaves: Any = 0) -> Number:
        """Return log((a + b)·2**octaves) of numbers a >= b >= 0, a + b >= 1, one of which is of one word."""
        s, t = ordered_sum(a.hi, b.hi)
        u = b.lo if a.lo is None else a.lo
        return self._log(s, t + u, None, octaves) if self.quick else self._log(s, t, u, octaves)

    def asinh(self, x: Any) -> Number:
        """Return log(x + √(1 + x²)) of a value x >= 0; near 0, where that loses bits, a series."""
        near_0 = 2.0**-17 if self.quick else 2.0**-5
        if self.of_single:
            a = self.number(x)
            log = self.log_of_sum((a * a + 1.0).sqrt(), a)
        else:
            huge = x > 2.0**130
            a = self.number(where(huge, 1.0, x))
            root = self.where(huge, self.number(x), (a * a + 1.0).sqrt())
            log = self.log_of_sum(root, self.number(where(huge, 0.0, x)), where(huge, 1, 0))
        series = self.odd_series(self.number(where(x < near_0, x, near_0)), ASINH, near_0**2, self.bits)
        return self.where(x < near_0, series.tidy(), log)

    def _interval(self, s: Any) -> tuple[Any, Any, Any]:
        """Return m, n and the row of `logs`: s = m·2**n, 0.707 <= m < 1.415."""
        pattern = bits(s)
        n = (pattern - 0x3FE6A00000000000) >> 52
        m = unbits(pattern - (n << 52))
        return m, n, (bits(m) >> 44) & 255

    def _scaled(self, s: Any, octaves: Any, part: bool) -> tuple[Any, Any, Any, Any]:
        """Return m and the row as `_interval` does, n + octaves as a value, and 2**-n, or 0 for n > 1000."""
        if part:  # 1 <= s <= 2
            upper = s >= 1.4140625
            m, n, down = where(upper, s * 0.5, s), where(upper, 1.0, 0.0), where(upper, 0.5, 1.0)
            return m, (bits(s) >> 44) & 255, n, down
        m, n, i = self._interval(s)
        far = n > 1000  # no sum of float32 numbers
        down = power(-n) if self.of_single else where(far, 0.0, power(where(far, 0, -n)))
        return m, i, real(n + octaves), down

    def _log(
        self,
        s: Any,
        t: Any,
        u: Any,
        octaves: Any,
        known: tuple[Any, Number] | None = None,
        part: bool = False,
    ) -> Number:
        """Return log((s + t + u)·2**octaves) = n·log 2 - log(r) + log1p(z), z = m·r - 1, exact without t.

        known : where s + t + u is 1 + x, |x| < NEAR_1, and x; there r is 1, and z is x.
        part : whether s is at least 1, and at most 2, and octaves 0.
        """
        m, i, n, down = self._scaled(s, octaves, part)
        table = tables.logs()
        r = take("logs", table, i, 0)
        z = Number(self, fma(m, r, -1.0))
        if t is not None:
            if self.quick:  # elsewhere a smaller z is nothing beside high
                z = Number(self, *ordered_sum(z.hi, (t if u is None else t + u) * (down * r)))
                z = z if u is None or known is None else self.where(*known, z)
            else:
                z = z + self.number(t, u).times_power(down) * r
        if not self.pairs:
            high = fma(n, float(tables.constant("ln2")), take("logs", table, i, 4))
            return self.number(high + self.series(z, LOG, LARGEST_Z, self.bits).hi)
        first, *rest = tables.words(tables.constant("ln2"), 3, 42)
        high = fma(n, first, take("logs", table, i, 1))  # exact: multiples of 2**-42 below 2**10
        if not self.last:
            low = fma(n, rest[0], take("logs", table, i, 2))
            return self._log_in_words(high, low, z)
        of_z = self.series(z, LOG, LARGEST_Z, self.bits)
        low_words = self.number(n) * self.number(*rest) + self.row("logs", table, i, 2)
        return (self.number(high) + of_z) + low_words

    def _log_in_words(self, high: Any, low: Any, z: Number) -> Number:
        """Return high + low + log1p(z); high is 0, or no less than log1p(z).

        Terms are added to the sum one by one, and in float64 from where that is enough: from z³ or z⁴ on.
        """
        s, e = ordered_sum(high, z.hi)
        low = e + low
        if z.lo is not None:
            low = low + fma(-z.hi, z.lo, z.lo)
        total = Number(self, s, low).plus_product(Number(self, z.hi), Number(self, z.hi * -0.5))
        first, square = 2, z.hi * z.hi
        if 2.0 ** (53 - self.bits) < LARGEST_Z**2 / 3:
            third = self.number(z.hi) * self.number(LOG[2])
            total = total.plus_product(Number(self, *two_product(z.hi, z.hi)), third)
            first = 3
        rest = self._rest(z, LOG[first:], LARGEST_Z, self.bits)
        power_of_z = square * (z.hi if first == 2 else square)
        return Number(self, *ordered_sum(total.hi, fma(power_of_z, rest, total.lo)))

    def log_of_squares(self, a: Any, b: Any, octaves: Any = 0) -> tuple[Number, Any]:
        """Return L and e, log((a² + b²)·2**octaves) = L·2**e, for a >= b >= 0 between 2**-474 and 2**425.

        Near 1 it is log1p of a² + b² - 1, added up without an error; for a = 1 and a tiny b it is b².
        """
        (p, e), (q, f) = two_product(a, a), two_product(b, b)
        if self.pairs:
            total, less = self.number(p, e) + self.number(q, f), self._collected([p, -1.0, q, e, f])
        else:
            total, less = self.number(p + q), self.number((p - 1.0) + q)  # exact squares of float32
        near = (p > 0.25) & (p < 2.0)
        s, t = two_sum(1.0, less.hi)
        u = where(near, less.lo, 0.0) if self.pairs else None
        t = where(near, t, total.lo if self.pairs else 0.0)
        L = self._log(where(near, s, total.hi), t, u, octaves, (near & (abs(less.hi) < NEAR_1), less))
        tiny = (a == 1.0) & (b < 2.0**-300)
        square = self.number(*two_product(b * 2.0**600, b * 2.0**600))
        return self.where(tiny, square, L), where(tiny, -1200, 0)

    def cbrt(self, x: Any) -> tuple[Number, Any]:
        """Return M and e, x**(1/3) = M·2**e, of x >= 2**-1022: (m·r)**(1/3)·(2**j/r)**(1/3)."""
        m, n, i = self._interval(x)
        n = n + 1200  # positive
        e = (n * 21846) >> 16  # n // 3
        row = i + ((n - e * 3) << 8)
        z = Number(self, fma(m, take("logs", tables.logs(), i, 0), -1.0))
        root = self.polynomial(z, CBRT, LARGEST_Z, self.bits)
        return self.row("cube_roots", tables.cube_roots(), row, 0) * root, e - 400

    # sin, cos -----------------------------------------------------------------------------------------

    def turned(self, x: Any) -> tuple[Number, Any]:
        """Return r and k, x = k·π/256 + r modulo 2π, for any x; k is a multiple of 4 where `quick` is false.

        A step's first word times n is exact, and so is the difference from x (Sterbenz).
        """
        finest = 4 if self.quick else 1
        words = tables.words(tables.constant("pi") / (64 * finest), 5, 33)
        n, k = nearest(where(abs(x) > ORDINARY, 0.0, x) * float(64 * finest / tables.constant("pi")))
        a = fma(-n, words[0], x)
        if self.quick:
            b, e = two_product(-n, words[1])
            s, t = two_sum(a, b)
            self.doubtful(abs(x) > ORDINARY)
            self.doubtful((abs(s) < 2.0**-40) & (n != 0.0))
            return self.number(s, t + fma(-n, words[2], e)), k
        if self.last:
            terms = [a] + [w for word in words[1:] for w in two_product(-n, word)]
            r = self._collected(terms)
            r, k = self._or_huge(x, r, k)
            return r, k << 2
        self.doubtful(abs(x) > ORDINARY)
        self.doubtful((abs(a) < 2.0**-20) & (n != 0.0))
        return self.number(fma(-n, words[2], fma(-n, words[1], a))), k << 2

    def _collected(self, terms: list[Any]) -> Number:
        """Return the sum of terms that cancel, by three passes of error-free sums."""
        for _ in range(3):
            for j in reversed(range(len(terms) - 1)):
                terms[j], terms[j + 1] = two_sum(terms[j], terms[j + 1])
        low = terms[-1]
        for x in reversed(terms[1:-1]):
            low = low + x
        return self.number(*ordered_sum(terms[0], low))

    def _or_huge(self, x: Any, r: Number, k: Any) -> tuple[Number, Any]:
        """Return the same by Payne and Hanek's reduction where x is huge: X·(2**e·64/π modulo 128)."""
        huge = abs(x) > ORDINARY
        pattern = bits(where(huge, x, ORDINARY))
        exponent = ((pattern >> 52) & 2047) - 1023
        integer = unbits((pattern & 0x000FFFFFFFFFFFFF) | 0x4330000000000000)  # of 53 bits
        terms = []
        for j in range(tables.TURN_WORDS):
            w = take("quarters", tables.quarters(), exponent - tables.FIRST_TURN, j)
            p, e = two_product(integer, w)
            cut = 1.5 * 2.0**68  # multiples of 2**16 are whole turns
            terms += [p - ((p + cut) - cut), e]
        n, of_turn = nearest(self._collected(list(terms)).hi)
        terms[0] = terms[0] - n
        rest = self._collected(terms) * self.number(tables.constant("pi") / 64)
        negative = x < 0.0
        signed = self.where(negative, -rest, rest)
        return self.where(huge, signed, r), where(huge, where(negative, -of_turn, of_turn), k)

    def half_turned(self, x: Any) -> tuple[Number, Any]:
        """Return r and k, π·x = k·π/256 + r modulo 2π, as `turned`."""
        steps, shift = (256, 0) if self.quick else (64, 2)
        cut = 1.5 * 2.0**61  # multiples of 2**9 are whole turns, and so are all numbers from 2**53 on
        x = where(abs(x) < 2.0**60, x - ((x + cut) - cut), 0.0)
        n, k = nearest(x * float(steps))
        return self.number(x - n * (1 / steps)) * self.constant("pi"), k << shift

    def sin_cos(self, r: Number, k: Any) -> tuple[Number, Number]:
        """Return sin and cos of k·π/256 + r: two terms each, of which the first is twice the second, or 0."""
        table, i = tables.turns(), k & 511
        s, c = self.row("turns", table, i, 0), self.row("turns", table, i, 2)
        sine, less = self._odd_and_even(r, SIN, COS, LARGEST_FINE_TURN if self.quick else LARGEST_TURN)
        if self.quick:
            of_sine, of_cosine = s.plus_product(c, sine), c.plus_product(-s, sine)
            return of_sine.plus_product(s, less).tidy(), of_cosine.plus_product(c, less).tidy()
        return s.plus_smaller(c * sine + s * less), c.plus_smaller(c * less - s * sine)

    def tan(self, r: Number, k: Any) -> Number:
        """Return tan(k·π/256 + r): the quotient of sine and cosine, both over cos(r)."""
        table, i = tables.turns(), k & 511
        s, c = self.row("turns", table, i, 0), self.row("turns", table, i, 2)
        if self.quick:
            tangent = self.odd_series(r, TAN, LARGEST_FINE_TURN**2, self.bits - 1)
            return s.plus_product(c, tangent).tidy() / c.plus_product(-s, tangent).tidy()
        tangent = r * self.polynomial(r * r, TAN, LARGEST_TURN**2, self.bits)
        return s.plus_smaller(c * tangent) / c.plus_smaller(-(s * tangent))

    def _odd_and_even(
        self, r: Number, odd: list[Fraction], even: list[Fraction], largest: float
    ) -> tuple[Number, Number]:
        """Return r·Σ odd_j·r**(2j) and r²·Σ even_j·r**(2j), |even_0| = 1/2, for |r| <= largest.

        In a `quick` text `lo` has all terms but the first.
        """
        if self.quick:
            square, e = two_product(r.hi, r.hi)
            rest = self._rest(self.number(square), even[1:], largest**2, self.bits - 5)
            half, double = float(even[0]), r.hi * r.lo
            low = fma(square * square, rest, fma(e, half, double if half > 0 else -double))
            return self.odd_series(r, odd, largest**2, self.bits), self.number(square * half, low)
        square = r * r
        first = r * self.polynomial(square, odd, largest**2, self.bits)
        return first, square * self.polynomial(square, even, largest**2, self.bits - 5)

    # atan, roots ---------------------------------------------------------------------------------------

    def square_root(self, x: Any) -> Number:
        """Return the square root of a value: rounded correctly, so that nothing has to be added."""
        return self.number(values.sqrt(x))

    def atan(self, y: Any, x: Any, behind: Any = False) -> Number:
        """Return the angle of (x, y), both >= 0 and not both 0, from 0 to π/2; of (-x, y) where `behind`.

        atan(a) = atan(i/128) + atan((a - i/128) / (1 + a·i/128)), for a = y/x or x/y.
        """
        y, x = self.number(y), self.number(x)
        steep = y.hi > x.hi
        small, large = self.where(steep, x, y), self.where(steep, y, x)
        n, i = nearest(small.hi * values.near_inverse(large.hi) * 128.0)
        c = n * (1 / 128)
        if small.lo is None and large.lo is None:  # 51 bits, or small itself
            z = Number(self, fma(-large.hi, c, small.hi)) / large.plus_product(small, Number(self, c))
        else:
            z = (small - large * c) / large.plus_smaller(small * c)
        angle = self.row("arctangents", tables.arctangents(), i & 255, 0)
        return self._placed(angle.plus_smaller(self.odd_series(z, ATAN, 2.0**-16, self.bits)), steep, behind)

    def _placed(self, angle: Number, steep: Any, behind: Any) -> Number:
        """Return an angle, or what it leaves of π/2 where `steep`; where `behind`, what that leaves of π."""
        half, whole = (self.number(tables.constant("pi") / n) for n in (2, 1))
        if self.pairs and behind is not False:  # one sum of words is left out
            start = self.where(steep, half, self.where(behind, whole, self.number(0.0)))
            return start.plus_smaller(self.where(steep ^ behind, -angle, angle))
        angle = self.where(steep, half.plus_smaller(-angle), angle)
        return angle if behind is False else self.where(behind, whole.plus_smaller(-angle), angle)

    def angle_on_circle(self, y: Any, x: Any, behind: Any = False) -> Number:
        """Return the angle of (x, y), both >= 0, x² + y² = 1, from 0 to π/2; of (-x, y) where `behind`.

        asin(a) = asin(c) + asin(a·√(1 - c²) - √(1 - a²)·c), c = i/128, for a = y or x: nothing is divided.
        The products differ by less than a factor of 2, or c is 0: i is the nearest to a little less.
        """
        y, x = self.number(y), self.number(x)
        steep = y.hi > x.hi
        small, large = self.where(steep, x, y), self.where(steep, y, x)
        n, i = nearest(small.hi * 128.0 - 0.0625)
        row = self.row("arcsines", tables.arcsines(), i & 127, 0)
        cosine = self.row("arcsines", tables.arcsines(), i & 127, 2)
        z = self._difference(small, cosine, large, n * (1 / 128))
        angle = row.plus_smaller(self.odd_series(z, ASIN, LARGEST_SINE**2, self.bits))
        return self._placed(angle, steep, behind)

    def _difference(self, a: Number, b: Number, c: Number, d: Any) -> Number:
        """Return a·b - c·d, of a value d; the difference of the rounded products is exact (Sterbenz)."""
        if not self.pairs:
            return self.number(a.hi * b.hi - c.hi * d)
        (p, e), (q, f) = two_product(a.hi, b.hi), two_product(c.hi, d)
        e = fma(a.hi, b.lo, e) if a.lo is None else fma(a.lo, b.hi, fma(a.hi, b.lo, e))
        f = f if c.lo is None else fma(c.lo, d, f)
        return Number(self, *ordered_sum(p - q, e - f))

    # erf ----------------------------------------------------------------------------------------------

    def erf(self, x: Any) -> Number:
        """Return erf(x) for 0 <= x <= 6."""
        return equations.value(self, "erf", x).tidy()

    def tail(self, x: Any, normal: bool) -> Number:
        """Return exp(x²)·erfc(x), or exp(x²/2)·Q(x), for 0 <= x <= 28, or 40.

        As a factor: its words overlap by a bit.
        """
        value = equations.value(self, "normal_tail" if normal else "tail", x)
        return value if self.quick else value.tidy()
