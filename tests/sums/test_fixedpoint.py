"""Digits to floating point: FixedPoint.round, quotients and roots, against rationals."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.formats import FORMATS
from ozaki.rounding.digits import round_digits
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.fixed_point import ORDINARY, DigitRange, FixedPoint, Rounding
from ozaki.sums.exact.reduction import rounded_sums
from ozaki.sums.exact.summands import Summands
from tests.oracle import nearest, nearest_root

FP64 = FORMATS["fp64"]
wide_integer = st.integers(-(2**61) + 1, 2**61 - 1)


def value(digits, base_bits, exponent) -> Fraction:
    return (
        sum(Fraction(int(d)) * Fraction(2) ** (base_bits * i) for i, d in enumerate(digits))
        * Fraction(2) ** exponent
    )


def fixed(digits, base_bits, exponent):
    digits = np.array(digits, np.int64).reshape(len(digits), -1)
    return FixedPoint(digits, base_bits, exponent, np.full(digits.shape[1], ORDINARY))


@given(
    st.lists(wide_integer, min_size=1, max_size=9),
    st.sampled_from([23, 32, 38, 46, 60]),
    st.integers(-1300, 900),
)
def test_digits_round_to_nearest(digits, base_bits, exponent):
    for name in ("fp64", "fp32", "fp16", "bf16"):
        got = fixed(digits, base_bits, exponent).round(FORMATS[name])[0]
        with np.errstate(over="ignore"):
            got = float(np.float64(got).astype(FORMATS[name].dtype))
        assert got == nearest(value(digits, base_bits, exponent), FORMATS[name])


@given(wide_integer, wide_integer, st.integers(-1250, 950))
def test_pairs_round_to_nearest(low, high, exponent):
    for name in ("fp64", "fp32"):
        got = fixed([low, high], 46, exponent).round(FORMATS[name])[0]
        with np.errstate(over="ignore"):
            got = float(np.float64(got).astype(FORMATS[name].dtype))
        assert got == nearest(value([low, high], 46, exponent), FORMATS[name])


def test_pairs_near_ties_take_either_road_to_the_same_bits():
    rng = np.random.default_rng(0)
    n = 200_000
    bits = rng.integers(1, 61, n)
    high = rng.integers(-(2**60), 2**60, n) >> rng.integers(0, 60, n)
    # low: a half unit of some place, give or take little
    low = (np.int64(1) << bits) * rng.choice([-1, 1], n) + rng.integers(-3, 4, n)
    low[::3] = rng.integers(-(2**60), 2**60, n)[::3]
    pair = fixed([low, high], 46, -100)
    assert np.array_equal(pair.round(), round_digits(np.stack([low, 0 * low, high]), 23, -100, FP64))
    for i in range(0, n, 997):
        assert pair.round()[i] == nearest(value([low[i], high[i]], 46, -100))


@given(st.lists(wide_integer, min_size=1, max_size=6), st.integers(1, 2**40), st.integers(-1200, 100))
def test_quotients(digits, divisor, exponent):
    exact = value(digits, 32, exponent) / divisor
    assert Rounding(FP64, divisor)(fixed(digits, 32, exponent))[0] == nearest(exact)


@given(st.integers(0, 2**120), st.integers(0, 200))
def test_square_roots_of_squares_and_their_neighbours(root, shift):
    for integer in (root * root, max(0, root * root - 1), root * root + 1):
        digits = [(integer >> (32 * i)) & 0xFFFFFFFF for i in range(8)]
        got = Rounding(FP64, root=True)(fixed(digits, 32, -2 * shift))[0]
        # RN(√v) is the float64 whose neighbouring midpoints' squares enclose v.
        v = Fraction(integer) / Fraction(4) ** shift
        up, down = math.nextafter(got, math.inf), math.nextafter(got, -math.inf)
        assert ((Fraction(got) + Fraction(up)) / 2) ** 2 >= v
        assert got == 0 or ((Fraction(got) + Fraction(down)) / 2) ** 2 <= v


@pytest.mark.parametrize("count", [2, 3, 7, 1000])
def test_quotient_of_many_columns(count):
    rng = np.random.default_rng(count)
    digits = rng.integers(-(2**60), 2**60, (5, 300))
    got = Rounding(FP64, count)(fixed(digits, 32, -60))
    assert got.tolist() == [nearest(value(digits[:, j], 32, -60) / count) for j in range(300)]


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("name", ["fp64", "fp32", "fp16", "bf16"])
def test_many_columns_round_as_one_does(name, root):
    """Bounds decide for most columns, integers for the others: ties, subnormal numbers, values far apart."""
    rng = np.random.default_rng(len(name))
    for case in range(40):
        base_bits, count = ((46, 2), (32, 1 + case % 9), (23, 1 + case % 9), (32, 40))[case % 4]
        digits = rng.integers(0, 1 << 60, (count, 200)) >> rng.integers(0, 61, (count, 200))
        digits[rng.random(digits.shape) < 0.3] = 0
        digits[:, ::3] = digits[:, ::3] >> 9 << 9
        signs = 1 if root else rng.choice([-1, 1], 200)
        divisor = int(rng.integers(1, 1 << 40)) if case % 2 else 1 << case
        number = FixedPoint(digits * signs, base_bits, rng.integers(-1200, 900, 200), np.full(200, ORDINARY))
        rounding = Rounding(FORMATS[name], divisor, root)
        assert rounding(number).tolist() == [rounding.ratio(v, divisor, e) for v, e in number.integers()]


@pytest.mark.parametrize("columns", [1, 9])
def test_integers_that_are_no_float64(columns):
    """Digits and divisors just beyond 2**53, which float64 would round to its even neighbour."""
    for low, high in ((1, 2**53 + 1), (2**53 + 1, 1), (-1, -(2**53) - 1)):
        pair = fixed([[low] * columns, [high] * columns], 46, -100)
        for name in ("fp64", "fp32"):
            assert (
                pair.round(FORMATS[name]).tolist()
                == [nearest(value([low, high], 46, -100), FORMATS[name])] * columns
            )
    for divisor in (2**53 - 1, 2**53, 2**53 + 1):
        digits = [[(3 * divisor >> shift) & 0xFFFFFFFF] * columns for shift in (0, 32)]
        assert Rounding(FP64, divisor)(fixed(digits, 32, 0)).tolist() == [3.0] * columns
        counts = np.full(columns, divisor)
        assert Rounding(FP64).finite(fixed(digits, 32, 0), counts).tolist() == [3.0] * columns


def halfway_roots(fmt, divisor):
    """Columns of numbers whose sums over a divisor have roots halfway between two of a format, or nearly.

    The square of a midpoint has twice the bits: a quotient cut to fewer would lie on the wrong side of it.
    """
    rng = np.random.default_rng(divisor)
    midpoints = [
        (2 * m + 1) << 40 for m in rng.integers(2 ** (fmt.precision - 1), 2**fmt.precision, 40).tolist()
    ]
    sums = [m * m * divisor + rest for m in midpoints for rest in (-1, 0, 1)]
    pieces = [
        [float(s >> low & (1 << 50) - 1) * 2.0 ** (low - 250) for s in sums] for low in range(0, 250, 50)
    ]
    return np.array(pieces), [Fraction(s, divisor) / 2**250 for s in sums]


@pytest.mark.parametrize("name", ["fp64", "fp32"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10**6 + 1, 2**32 - 1, 2**40 + 1])
def test_roots_of_quotients_are_rounded_once(name, divisor):
    x, exact = halfway_roots(FORMATS[name], divisor)
    rounding = Rounding(FORMATS[name], divisor, root=True)
    expected = [nearest_root(square, FORMATS[name]) for square in exact]
    assert rounded_sums([Summands((x,))], 1, rounding).tolist() == expected
    assert [float(rounded_sums([Summands((column,))], 1, rounding)) for column in x.T] == expected


LOW = DigitRange.of(FORMATS["fp64"]).exponent - 10
"""Of digits that begin below the range."""


@pytest.mark.parametrize("columns", [slice(None), slice(70, None), slice(0, 5000)], ids=str)
@pytest.mark.parametrize(
    ("base", "exponent"), [(32, 0), (32, -1074), (20, 5), (24, -1100), (60, 17), (20, LOW)]
)
def test_many_digits_are_added_alike(without_numba, columns, base, exponent):
    """By a compiled loop and by NumPy: of any sign, below the range, too, to columns with some already."""
    rng, size = np.random.default_rng(base), 5070
    count = len(range(*columns.indices(size)))
    digits = rng.integers(-(2**62), 2**62, (3, count)) >> rng.integers(0, 62, count)
    digits[1] = 0
    if exponent == LOW:  # without bits there
        digits[0::2] = digits[0::2] >> 10 << 10
    sums = FixedPoint(digits, base, exponent, np.zeros(count, np.uint8))

    def number(column, base, exponent):
        return sum(
            Fraction(int(digit)) * Fraction(2) ** (base * i + exponent) for i, digit in enumerate(column)
        )

    def added():
        total = Superaccumulator(DigitRange.of(FORMATS["fp64"]), size)
        for values in (sums, replace(sums, digits=digits[::-1])):  # which does not lie well
            total.add(values, columns)
        place = total.range.exponent + 32 * total.first
        for column in (0, 9, count - 1):
            exact = number(digits[:, column], base, exponent) + number(digits[::-1, column], base, exponent)
            assert number(total.digits[:, columns][:, column], 32, place) == exact
        return total.first, total.digits.tobytes()

    assert added() == without_numba(added)
