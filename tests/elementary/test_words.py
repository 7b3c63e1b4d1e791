"""What the short texts rest on, in exact fractions: sums of products, reduced arguments, and Ziv's test."""

from fractions import Fraction

import numpy as np
import pytest

from ozaki.elementary import tables
from ozaki.elementary.cores import LARGEST_FINE_TURN, LARGEST_Z, Machine
from ozaki.elementary.rounding import _at_once, _near_middle

M = Machine(70)


def fractions(x):
    return [Fraction(value) for value in np.asarray(x, np.float64).ravel().tolist()]


@pytest.mark.parametrize("share", [0.5, 0.25, 2.0**-8, 2.0**-40])
def test_a_sum_with_a_product_loses_no_more_than_two_words_do(share):
    rng = np.random.default_rng(1)
    s, a = (rng.uniform(1, 2, 2000) * rng.choice([-1, 1], 2000) for _ in range(2))
    b = rng.uniform(-share, share, 2000) * 0.999 * np.abs(s / a)
    words = [(x, x * rng.uniform(-1, 1, 2000) * 2.0**-54) for x in (s, a, b)]
    found = M.number(*words[0]).plus_product(M.number(*words[1]), M.number(*words[2])).tidy()
    exact = [
        (h + low) + (p + q) * (v + w)
        for h, low, p, q, v, w in zip(*(fractions(x) for pair in words for x in pair), strict=True)
    ]
    for hi, lo, expected in zip(fractions(found.hi), fractions(found.lo), exact, strict=True):
        assert abs(hi + lo - expected) <= 2.0**-103 * abs(expected)
        assert float(hi + lo) == float(hi)  # tidy


def test_reduced_arguments_of_logarithms_are_numbers_and_small():
    """m·r - 1 at both ends of each interval: a float64 number holds it, and no ordered sum cancels."""
    largest = Fraction(0)
    for i, (centre, row) in enumerate(zip(tables._log_centres(), tables.logs(), strict=True)):
        half = Fraction(1, 2 * tables.LOG_STEPS) / (2 if i >= tables.LOG_SPLIT else 1)
        unit = Fraction(2) ** (-52 if centre > 1 else -53)
        r, high = Fraction(row[0]), Fraction(row[4])
        for m in (centre - half, centre + half - unit):
            z = m * r - 1
            assert Fraction(float(z)) == z
            assert abs(z) <= unit / 256 * 2**53
            assert not high or abs(np.log1p(float(z))) <= abs(high)
            largest = max(largest, abs(z))
    assert LARGEST_Z * 0.99 < largest <= LARGEST_Z


@pytest.mark.parametrize("loss", [0, 4])
def test_what_is_decided_is_rounded_for_every_number_within_the_error(loss):
    """Rests near half of the gap to a neighbour, of powers of two and others, of either sign."""
    rng, error = np.random.default_rng(2), 2.0 ** (loss - 67)
    hi = np.concatenate([rng.uniform(1, 2, 3000), np.ones(1000), np.nextafter(2.0, 1) * np.ones(1000)])
    hi *= rng.choice([-1.0, 1.0], hi.size)
    near = 1 + rng.uniform(-4, 4, hi.size) * error * 2.0**54
    gap = np.where(rng.random(hi.size) < 0.5, 0.5, 0.25) * np.spacing(np.abs(hi))
    lo = gap * near * rng.choice([-1, 1], hi.size)
    result, undecided = _at_once(hi, lo, None, error)
    for x, y, value, doubt in zip(fractions(hi), fractions(lo), result, undecided, strict=True):
        ends = {float(x + y + side * Fraction(error) * abs(x)) for side in (-1, 1)}
        assert doubt or ends == {value}
    assert 0.2 < undecided.mean() < 0.9


def test_what_float32_is_rounded_to_is_so_for_every_number_within_the_error():
    rng, error = np.random.default_rng(3), 2.0**-45
    middles = rng.uniform(1, 2, 4000).astype(np.float32).astype(np.float64) + 2.0**-24
    middles[:1000] = np.nextafter(np.float32(2), np.float32(1)) + 2.0**-24
    middles[3000:] = (rng.integers(0, 2 ** rng.integers(1, 24, 1000)) + 0.5) * 2.0**-149  # subnormal ones
    x = middles * (1 + rng.uniform(-3, 3, 4000) * error) * rng.choice([-1, 1], 4000)
    undecided = _near_middle(x, error)
    for value, doubt in zip(x, undecided, strict=True):
        assert doubt or np.float32(value * (1 - error)) == np.float32(value * (1 + error))
    assert 0.2 < undecided[:3000].mean() < 0.9
    assert undecided[3000:].mean() > 0.9  # whose error is taken for that of the smallest normal number
    assert _near_middle(rng.uniform(0, 2.0**-126, 4000), error).mean() < 0.01
    assert not _near_middle(np.array([2.0**-127, 0.0, -0.0]), error).any()


def nearly_multiples(step):
    """float64 numbers below 2**20 that are nearer to multiples of a step than others: its convergents."""
    for e in range(-60, -32):
        rest, (m, before), (n, last) = step / Fraction(2) ** e, (1, 0), (0, 1)
        while m < 2**53 and n < 2**27:
            whole = rest.numerator // rest.denominator
            (m, before), (n, last) = (whole * m + before, m), (whole * n + last, n)
            rest = 1 / (rest - whole)
            if 0 < m < 2**53 and m * 2.0**e < 2.0**20:
                yield m * 2.0**e


def test_turns_are_reduced_to_all_bits_or_left_open():
    step = tables.constant("pi") / 256
    x = np.concatenate([[*nearly_multiples(step)], np.random.default_rng(4).uniform(-1e5, 1e5, 4000)])
    m = Machine(70)
    r, k = m.turned(x)
    doubtful = np.logical_or.reduce(m.doubts)
    assert 5 < doubtful.sum() < 1000
    assert LARGEST_FINE_TURN * 0.99 < np.abs(r.hi).max() <= LARGEST_FINE_TURN
    for value, count, hi, lo, doubt in zip(*map(fractions, (x, k, r.hi, r.lo)), doubtful, strict=True):
        exact = value - count * step
        assert doubt or abs(hi + lo - exact) < Fraction(2) ** -72 * abs(exact)
