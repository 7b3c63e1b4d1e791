"""One rounding of exact integers, against exact rationals."""

from contextlib import nullcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.formats import FORMATS
from multiword.runtime.compiled import numpy_forms
from ozaki.rounding.digits import round_digits
from tests.oracle import nearest, same

digit = st.integers(-(2**61), 2**61) | st.sampled_from([0, 1, -1, 2**27, 2**53, 2**53 + 1, -(2**54) - 2])


def is_nearest(digits, base, exponent, fmt):
    """Whether Σ digits[i]·2**(base·i + exponent) is rounded as its exact value is, by either form."""
    value = sum(d << (base * i) for i, d in enumerate(digits)) * Fraction(2) ** exponent
    column, got = np.array(digits, np.int64)[:, None], []
    for form in (nullcontext, numpy_forms):
        with form():
            got.append(round_digits(column, base, exponent, fmt))
    with np.errstate(over="ignore"):
        return same(*got) and got[0].astype(fmt.dtype)[0] == nearest(value, fmt)


@given(
    st.lists(digit, min_size=1, max_size=7),
    st.integers(20, 60),
    st.integers(-1400, 1100),
    st.sampled_from(["fp64", "fp32", "fp16"]),
)
def test_round_digits_is_the_nearest(digits, base, exponent, name):
    assert is_nearest(digits, base, exponent, FORMATS[name])


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_ties_and_subnormals(name):
    fmt = FORMATS[name]
    p, least = fmt.precision, fmt.emin - fmt.precision
    middles = 2**p + 1, 2**p + 3, 2 ** (p + 1) - 1, 2 ** (p - 1) + 1
    exponents = 0, least, least + 1, least - p - 1, least - p + 2, fmt.emax - p
    for middle, sticky, exponent, sign in product(middles, (-1, 0, 1), exponents, (1, -1)):
        value = (middle << 40) + sticky
        digits = [sign * ((value >> (25 * i)) & (2**25 - 1)) for i in range(4)]
        assert is_nearest(digits, 25, exponent - 40, fmt)


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_long_integers_around_half_of_the_smallest_subnormal(name):
    fmt = FORMATS[name]
    smallest = fmt.emin - fmt.precision + 1
    for length, leading in product(range(1, 130), (1, 3, 5, 7, 2**53 + 1)):
        value = (leading << 200) >> (200 + leading.bit_length() - length)
        digits = [(value >> (30 * i)) & (2**30 - 1) for i in range(5)]
        for exponent in range(smallest - length - 2, smallest - length + 3):
            assert is_nearest(digits, 30, exponent, fmt)


@pytest.mark.parametrize("name", ["fp64", "fp32"])
def test_two_digits_around_the_largest_number(name):
    fmt = FORMATS[name]
    digits = (0, 1), (1, 1), (0, -1), (3, 2**23), (-1, 2**24 - 1), (2**52 + 1, 2**52)
    for (low, high), base, above in product(digits, (20, 37, 60), (*range(-60, 9), *range(60, 140, 9))):
        assert is_nearest([low, high], base, fmt.emax - base + above, fmt)
