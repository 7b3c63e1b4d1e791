"""The summation algorithms in floating point, against exact rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozaki.sums.textbook import acc_sum, near_sum, sum_k
from tests.fuzz.fixed import check_family

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**900), max_value=2.0**900)


def exact(x) -> Fraction:
    return sum(map(Fraction, np.asarray(x, np.float64).tolist()), Fraction(0))


def ill_conditioned(rng, n, bits):
    """A vector whose sum is about 2**-bits of its largest elements."""
    x = np.ldexp(rng.standard_normal(n), rng.integers(-bits // 2, bits // 2 + 1, n))
    return rng.permutation(np.concatenate([x, -x, np.ldexp(rng.standard_normal(3), -bits)]))


def test_each_is_exact_or_the_nearest():
    check_family("near_sum, acc_sum, …", 200)


@pytest.mark.parametrize("bits", [10, 60, 200, 400, 1500])
def test_ill_conditioned(bits):
    rng = np.random.default_rng(bits)
    for n in (1, 7, 60, 1000):
        p = ill_conditioned(rng, n, bits)
        s = exact(p)
        assert near_sum(p) == float(s)
        faithful = acc_sum(p)
        assert math.nextafter(faithful, -math.inf) < s < math.nextafter(faithful, math.inf)


@pytest.mark.parametrize("tail", [0.0, 2.0**-300, -(2.0**-300), 2.0**-1074, -(2.0**-1074)])
@pytest.mark.parametrize("one", [1.0, 1 + 2.0**-52, -1.0, 2.0 - 2.0**-52])
def test_ties(one, tail):
    """The last three numbers, which cancel, lead to the odd one of two faithful sums."""
    half, small = math.copysign(2.0**-53, one), math.copysign(0.375 * 2.0**-104, one)
    p = np.array([one, 2.0**200, half, tail, -(2.0**200), small, small, -2 * small])
    assert near_sum(p) == float(exact(p))


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=20))
def test_subnormal_sums_are_exact(integers):
    p = np.array([math.ldexp(i, -1074) for i in integers])
    assert near_sum(p) == float(exact(p))
    assert acc_sum(p) == float(exact(p)) or abs(exact(p)) > Fraction(2) ** -1021


def test_any_order():
    rng = np.random.default_rng(5)
    p = ill_conditioned(rng, 500, 300)
    assert len({near_sum(rng.permutation(p)) for _ in range(20)}) == 1


def test_empty_and_single():
    assert near_sum(np.array([])) == 0.0
    assert near_sum(np.array([3.5])) == 3.5
    assert sum_k(np.array([])) == 0.0
    assert sum_k(np.array([3.5])) == 3.5


@pytest.mark.parametrize("k", [2, 3, 5])
def test_sum_k_keeps_its_bound(k):
    """|res − s| <= (u + 3γ²_{n−1})|s| + γ_{2n−2}^k Σ|p| (ORO, Proposition 4.10)."""
    rng = np.random.default_rng(k)
    u = Fraction(2) ** -53
    for bits in (20, 60, 120, 200):
        p = ill_conditioned(rng, 100, bits)
        n, s, size = p.size, exact(p), exact(np.abs(p))
        gamma = (2 * n - 2) * u / (1 - (2 * n - 2) * u)
        bound = (u + 3 * gamma**2) * abs(s) + gamma**k * size
        assert abs(Fraction(sum_k(p, k)) - s) <= bound


def test_vectors_outside_the_range_are_refused():
    with pytest.raises(ValueError, match="vector"):
        near_sum(np.ones((2, 2)))
    for bad in (np.inf, np.nan, 2.0**1000):
        with pytest.raises(ValueError, match="2\\*\\*960"):
            near_sum(np.array([1.0, bad]))
    with pytest.raises(ValueError, match="k of at least 2"):
        sum_k(np.ones(3), 1)
