"""Tables 1 and 2 of Ootomo and Yokota, and the probabilities of underflow against counts."""

from fractions import Fraction

import numpy as np
import pytest

from multiword import (
    expected_length,
    join,
    leading_zeros_probability,
    significand_lengths,
    split,
    underflow_counts,
    underflow_probability,
)


def test_table_1_and_2():
    quarter = Fraction(1, 4)
    assert significand_lengths("RN") == {23: 3 * quarter, 22: quarter}
    assert significand_lengths("RNA") == {23: 3 * quarter, 22: quarter}
    assert significand_lengths("RZ") == {23: 2 * quarter, 22: quarter, 21: quarter}
    assert [4 * expected_length(r) for r in ("RN", "RNA", "RZ")] == [91, 91, 89]
    assert 4 * expected_length("RNA", "tf32") == 91


@pytest.mark.parametrize("rounding", ["RN", "RNA", "RZ"])
@pytest.mark.parametrize("word", ["fp16", "tf32"])
def test_lengths_of_random_numbers(rounding, word):
    x = (1 + np.random.default_rng(1).random(200_000)).astype(np.float32)
    kept = join(split(x, word, 2, scaled=True, rounding=rounding), scaled=True, dtype=np.float64)
    lost = (np.abs(kept - x) * 2.0**23).astype(int)
    lengths = 23 - np.vectorize(lambda d: int(d).bit_length())(lost)
    assert lengths.mean() == pytest.approx(float(expected_length(rounding, word)), abs=0.01)


def test_leading_zeros_are_a_distribution():
    assert sum(leading_zeros_probability(n) for n in range(-1, 15)) == 1
    assert leading_zeros_probability(-1) == leading_zeros_probability(14) == 0


@pytest.mark.parametrize("scale", [0, 11])
@pytest.mark.parametrize("exponent", range(-26, 15, 2))
def test_underflow_probabilities_are_counted(exponent, scale):
    count = 100_000
    x = np.ldexp(1 + np.random.default_rng(exponent + 40).random(count), exponent).astype(np.float32)
    total, partly = underflow_counts(x, scale=scale)
    for counted, gradual in ((total, False), (partly, True)):
        p = float(underflow_probability(exponent, gradual=gradual, scale=scale))
        assert abs(counted / count - p) <= 5 * np.sqrt(max(p * (1 - p), 1e-5) / count)


def test_scaling_by_2_to_the_11_moves_the_curves_by_11():
    for e in range(-20, 10):
        for gradual in (False, True):
            moved = underflow_probability(e, gradual=gradual, scale=11)
            assert moved == underflow_probability(e + 11, gradual=gradual)
    assert underflow_probability(0, gradual=True) == Fraction(1, 16)
    assert underflow_probability(-14) == 1
    assert underflow_probability(15, gradual=True) == 0
    assert underflow_counts(np.zeros(3, np.float32)) == (0, 0)
