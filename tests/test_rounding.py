"""One rounding of exact integers, against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.formats import FORMATS
from ozaki._rounding import round_digits, round_short
from tests.exact import nearest

digit = st.integers(-(2**61), 2**61) | st.sampled_from([0, 1, -1, 2**27, 2**53, 2**53 + 1, -(2**54) - 2])


@given(
    st.lists(digit, min_size=1, max_size=7),
    st.integers(20, 31),
    st.integers(-1400, 1100),
    st.sampled_from(["fp64", "fp32", "fp16"]),
)
def test_round_digits_is_the_nearest(digits, base, exponent, name):
    fmt = FORMATS[name]
    value = sum(d << (base * i) for i, d in enumerate(digits)) * Fraction(2) ** exponent
    got = round_digits(np.array(digits, dtype=np.int64)[:, None], base, exponent, fmt)
    with np.errstate(over="ignore"):
        assert got.astype(fmt.dtype)[0] == nearest(value, fmt)


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_ties_and_subnormals(name):
    fmt = FORMATS[name]
    p = fmt.precision
    cases = []
    for middle in (2**p + 1, 2**p + 3, 2 ** (p + 1) - 1, 2 ** (p - 1) + 1):
        for sticky in (-1, 0, 1):
            for exponent in (
                0,
                fmt.emin - p,
                fmt.emin - p + 1,
                fmt.emin - 2 * p - 1,
                fmt.emin - 2 * p + 2,
                fmt.emax - p,
            ):
                cases.append(((middle << 40) + sticky, exponent - 40))
    for value, exponent in cases:
        for sign in (1, -1):
            digits = [(value >> (25 * i)) & (2**25 - 1) for i in range(4)]
            array = sign * np.array(digits, dtype=np.int64)[:, None]
            got = round_digits(array, 25, exponent, fmt)
            with np.errstate(over="ignore"):
                assert got.astype(fmt.dtype)[0] == nearest(sign * value * Fraction(2) ** exponent, fmt)


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_long_integers_around_half_of_the_smallest_subnormal(name):
    fmt = FORMATS[name]
    smallest = fmt.emin - fmt.precision + 1
    for length in range(1, 130):
        for leading in (1, 3, 5, 7, 2**53 + 1):
            value = (leading << 200) >> (200 + leading.bit_length() - length)
            digits = np.array([(value >> (30 * i)) & (2**30 - 1) for i in range(5)], np.int64)[:, None]
            for exponent in range(smallest - length - 2, smallest - length + 3):
                got = round_digits(digits, 30, exponent, fmt)
                assert got.astype(fmt.dtype)[0] == nearest(value * Fraction(2) ** exponent, fmt)


@given(
    st.lists(
        st.lists(
            st.integers(-(2**52), 2**52) | st.sampled_from([0, 1, 2**25, -(2**25), 2**25 + 2**51]),
            min_size=4,
            max_size=6,
        ),
        min_size=1,
        max_size=4,
    ).filter(lambda rows: len({len(r) for r in rows}) == 1),
    st.integers(-1200, 900),
    st.integers(-200, 200) | st.integers(-1200, 1200),
    st.integers(20, 26),
)
def test_round_short_is_round_digits_or_declines(rows, row, column, base):
    digits = np.array(rows, np.float64).T[:, :, None].copy()
    exponents = np.full((digits.shape[1], 1), row), np.array([column])
    before = digits.astype(np.int64)
    result = round_short(digits, base, *exponents, FORMATS["fp64"])
    if result is not None:
        assert np.array_equal(result, round_digits(before, base, sum(exponents)))
    weights = [1 << (base * i) for i in range(len(digits))]
    for got, expected in zip(digits[:, :, 0].T, before[:, :, 0].T, strict=True):
        assert sum(int(d) * w for d, w in zip(got, weights, strict=True)) == sum(
            int(d) * w for d, w in zip(expected, weights, strict=True)
        )


def test_round_short_takes_ties_and_long_cancellations():
    cases = []
    for middle in (2**53 + 1, 2**53 + 3, 2**54 - 1, 2**53):
        for shift in (20, 40, 55, 57):
            for delta in (-1, 0, 1, 2**8, -(2**10)):
                cases.append((middle << shift) + delta)
    digits = np.array([[(v >> (26 * i)) & (2**26 - 1) for v in cases] for i in range(5)], np.float64)[
        :, :, None
    ]
    taken = 0
    for i, value in enumerate(cases):
        one = digits[:, i : i + 1].copy()
        result = round_short(one, 26, np.zeros((1, 1), int), np.zeros(1, int), FORMATS["fp64"])
        if result is not None:
            taken += 1
            assert result[0, 0] == nearest(Fraction(value))
    assert taken > len(cases) // 3
