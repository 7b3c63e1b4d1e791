"""Sums of every form have the bits of the definition."""

import numpy as np
import pytest

import ozaki
from ozaki.definition import sums

TERMS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "cancelling": lambda rng, n: np.ldexp(rng.integers(-3, 4, n).astype(float), rng.integers(-60, 60, n)),
    "far": lambda rng, n: np.ldexp(rng.standard_normal(n), rng.integers(-1000, 500, n)),
    "ties": lambda rng, n: rng.choice([1.0, 2.0**-53, -(2.0**-53), 2.0**-106], n),
    "zeros": lambda rng, n: np.full(n, -0.0),
    "special": lambda rng, n: rng.choice([np.inf, -np.inf, np.nan, 1.0, -0.0], n),
}


def same(x, y):
    return np.float64(x).tobytes() == np.float64(y).tobytes() or (np.isnan(x) and np.isnan(y))


@pytest.mark.parametrize("kind", TERMS)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 200])
@pytest.mark.filterwarnings("ignore")
def test_sums(kind, n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        x, y = TERMS[kind](rng, n), TERMS["far"](rng, n) / 2.0**500
        assert same(ozaki.sum(x), sums.rounded_sum(x.tolist()))
        assert same(ozaki.mean(x), sums.rounded_sum(x.tolist(), divisor=n))
        assert same(ozaki.norm(x), sums.rounded_norm(x.tolist()))
        assert same(ozaki.dot(x, y), sums.rounded_dot(x.tolist(), y.tolist()))
        for ddof in (0, 1):
            assert same(ozaki.var(x, ddof=ddof), sums.rounded_variance(x.tolist(), ddof)), x
