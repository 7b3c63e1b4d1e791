"""Products of every form have the bits of the definition, and its steps those of the library's."""

import math
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from ozaki.definition import products, remainders, rounding, scales, statistics
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import NONFINITE, NONFINITE_ROW, ZERO, row_statistics
from tests.oracle import nearest, nearest_root, same

DRAWN = {
    "normal": lambda rng, x: x,
    "spread": lambda rng, x: x * np.exp(4 * rng.standard_normal(x.shape)),
    "far": lambda rng, x: np.ldexp(x, rng.integers(-300, 300, x.shape)),
    "zeros": lambda rng, x: np.where(rng.random(x.shape) < 0.5, 0.0, x),
    "ends": lambda rng, x: np.ldexp(x, rng.choice([-1060, 900, 0], x.shape)),
    "special": lambda rng, x: np.where(
        rng.random(x.shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan], x.shape), x
    ),
}
ACCURACIES = ("fp64", "fp32", "normwise", "exact", 20, 60)


def drawn(rng, kind, shape, dtype):
    x = DRAWN[kind](rng, rng.standard_normal(shape))
    with np.errstate(all="ignore"):
        x = x + 1j * DRAWN[kind](rng, rng.standard_normal(shape)) if dtype.startswith("c") else x
        return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.filterwarnings("ignore")
def test_products(accuracy, dtype):
    rng = np.random.default_rng(len(dtype))
    for k in (1, 2, 3, 5, 9, 17, 40):
        kinds = rng.choice(list(DRAWN), 2)
        m, n = rng.integers(1, 6, 2)
        a, b = drawn(rng, kinds[0], (m, k), dtype), drawn(rng, kinds[1], (k, n), dtype)
        assert same(ozaki.matmul(a, b, accuracy=accuracy), products.product(a, b, accuracy)), (kinds, a, b)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_graded_products(dtype):
    """Those that are equilibrated, and those of which one factor alone is graded."""
    rng = np.random.default_rng(5)
    for far in (40, 150, 400):
        powers = rng.integers(-far, far, 12)
        a, b = drawn(rng, "normal", (3, 12), dtype), drawn(rng, "normal", (12, 4), dtype)
        graded, inverse = a * np.ldexp(1.0, powers), b * np.ldexp(1.0, -powers)[:, None]
        for left, right in ((graded, inverse), (graded, b), (a, inverse)):
            for accuracy in ("fp64", "fp32"):
                assert same(
                    ozaki.matmul(left, right, accuracy=accuracy), products.product(left, right, accuracy)
                )


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.filterwarnings("ignore")
def test_statistics_and_scales(kind, dtype):
    rng = np.random.default_rng(7)
    for k in (1, 3, 16, 300):
        x = drawn(rng, kind, (6, k), dtype)
        x[0] = 0
        parts = real_parts(x)
        found, rows = row_statistics(parts), np.concatenate(parts, axis=1).astype(np.float64).tolist()
        for target in ("fp64", "fp32"):
            limit = norm_limit(FORMATS[target], found.length)
            of_norms, exact = norm_scales(found, limit), exact_scales(parts)
            for i, row in enumerate(rows):
                expected = statistics.statistics_of(row)
                if expected is None:
                    nonfinite = not all(map(math.isfinite, row))
                    assert found.exponent[i] == (NONFINITE if nonfinite else ZERO)
                    assert of_norms[i] == exact[i] == (NONFINITE_ROW if nonfinite else 0)
                    continue
                sums = found.exponent[i], found.total[i], found.square[i], tuple(found.counts[:, i].tolist())
                assert sums == expected
                assert of_norms[i] == scales.norm_scale(expected, limit)
                assert exact[i] == scales.exact_scale(row)


def test_remainders_give_the_product():
    rng = np.random.default_rng(1)
    for bits in (3, 30, 60, 150):
        a, b = ([int(v) << bits for v in rng.integers(-9, 10, 7)] for _ in range(2))
        a[0] += 1
        assert remainders.product_by_remainders(a, b) == sum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", FORMATS)
def test_roundings_are_those_of_another_reference(name):
    """`tests.oracle` rounds with integers alone."""
    rng, target = np.random.default_rng(2), FORMATS[name]
    for _ in range(300):
        exponent = int(rng.integers(target.emin - target.precision - 3, target.emax + 3))
        numerator, denominator = (int(v) for v in rng.integers(1, 1 << int(rng.integers(2, 62)), 2))
        value = Fraction(numerator, denominator if rng.random() < 0.5 else 1) * Fraction(2) ** exponent
        for x in (value, -value):
            assert rounding.nearest(x, target) == nearest(x, target)
        assert rounding.nearest_root(value, target) == nearest_root(value, target)
