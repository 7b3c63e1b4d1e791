"""IEEE fused multiply-adds on arrays against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest

from multiword import TensorCore
from multiword.engines.fma import chain, fma
from tests.multiword.engines.scalar_tensorcore import exponent
from tests.multiword.engines.test_tensorcore import same


@pytest.mark.parametrize(
    ("dtype", "spread"), [(np.float64, 3), (np.float64, 480), (np.float32, 3), (np.float32, 60)]
)
def test_fma_rounds_once(dtype, spread):
    rng = np.random.default_rng(spread)
    a, b, c = (
        (rng.standard_normal(2000) * 2.0 ** rng.integers(-spread, spread + 1, 2000)).astype(dtype)
        for _ in range(3)
    )
    near = rng.random(2000) < 0.5  # half of them cancel almost wholly
    c[near] = -(a * b)[near] * (1 + rng.integers(-3, 4, near.sum()) * np.finfo(dtype).eps).astype(dtype)
    got = fma(a, b, c)
    bits, least = (53, -1022) if dtype == np.float64 else (24, -126)
    for x, y, z, d in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        unit = Fraction(2) ** (exponent(exact, least) - bits + 1) if exact else 1
        assert Fraction(float(d)) == round(exact / unit) * unit


def test_fma_at_the_ends_of_the_range():
    big, small = 2.0**1023, 2.0**-1074
    cases = [
        (big, 2.0, -big, big),
        (small, 0.5, 0.0, 0.0),
        (small, 0.5, small, 2 * small),
        (2.0**-600, 2.0**-600, small, small),
        (big, big, 0.0, np.inf),
        (big, 2.0, -np.inf, -np.inf),
        (np.inf, 0.0, 1.0, np.nan),
        (-0.0, 1.0, -0.0, -0.0),
        (1 + 2.0**-26, 1 + 2.0**-27, 0.0, 1 + 3 * 2.0**-27),  # a tie, to even, unless the least c decides
        (1 + 2.0**-26, 1 + 2.0**-27, small, 1 + 3 * 2.0**-27 + 2.0**-52),
        (1 + 2.0**-26, 1 + 2.0**-27, -small, 1 + 3 * 2.0**-27),
        (
            2.0**-449 * (1 + 2.0**-26),
            2.0**-450 * (1 + 2.0**-27),
            small,
            2.0**-899 * (1 + 3 * 2.0**-27 + 2.0**-52),
        ),
        (
            2.0**-451 * (1 + 2.0**-26),
            2.0**-450 * (1 + 2.0**-27),
            small,
            2.0**-901 * (1 + 3 * 2.0**-27 + 2.0**-52),
        ),
    ]
    for a, b, c, d in cases:
        assert same(fma(*(np.array([x]) for x in (a, b, c))), [d])


def test_fp64_and_fp32_are_one_fma_after_another():
    rng = np.random.default_rng(6)
    for word, dtype in (("fp64", np.float64), ("fp32", np.float32)):
        a, b = rng.standard_normal((4, 30)).astype(dtype), rng.standard_normal((30, 3)).astype(dtype)
        d = TensorCore("A100").gemm(a, b, word=word)
        assert d.dtype == dtype
        bits = np.finfo(dtype).nmant
        for i, j in np.ndindex(4, 3):
            c = Fraction(0)
            for x, y in zip(a[i], b[:, j], strict=True):
                c += Fraction(float(x)) * Fraction(float(y))
                unit = Fraction(2) ** (exponent(c, -1022) - bits)
                c = round(c / unit) * unit
            assert Fraction(float(d[i, j])) == c


def test_exact_chains_take_the_short_way():
    rng = np.random.default_rng(7)
    a, b = rng.integers(-1000, 1000, (5, 60)).astype(float), rng.integers(-1000, 1000, (60, 4)).astype(float)
    c = np.zeros((5, 4))
    slow = c
    for h in range(60):
        slow = fma(a[:, h, None], b[h], slow)
    assert same(chain(a, b, c), slow)
