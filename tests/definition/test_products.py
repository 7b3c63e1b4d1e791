"""Graded products have the bits of the definition, whose remainders and roundings are right."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from ozaki.definition import products, remainders, rounding
from tests.definition.comparisons import Drawn
from tests.oracle import nearest, nearest_root, same


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_graded_products(dtype):
    """Those that are equilibrated, and those of which one factor alone is graded."""
    draw = Drawn(np.random.default_rng(5), "normal", np.dtype(dtype))
    for far in (40, 150, 400):
        powers, a, b = draw.rng.integers(-far, far, 12), draw(3, 12), draw(12, 4)
        graded, inverse = a * np.ldexp(1.0, powers), b * np.ldexp(1.0, -powers)[:, None]
        for left, right in ((graded, inverse), (graded, b), (a, inverse)):
            for accuracy in ("fp64", "fp32"):
                assert same(
                    ozaki.matmul(left, right, accuracy=accuracy), products.product(left, right, accuracy)
                )


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
