"""One rounding of exact integers, against exact rationals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.formats import FORMATS
from ozaki.rounding.digits import round_digits
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
