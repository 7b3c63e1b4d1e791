"""The bound of a plan against exact errors, over ranges that words and float32 hold, and that they do not."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from multiword import SCHEMES, error_bound, matmul, matmul_plan
from tests.cells import cells
from tests.oracle import exact_product

SCALED = [name for name, scheme in SCHEMES.items() if scheme.scaled_lines and not scheme.plain]


def relative_error(got, a, b):
    """The largest |C - Ĉ|_ij / (|A||B|)_ij, exactly; infinite where the product overflows."""
    (exact, e), (size, _) = exact_product(a, b), exact_product(np.abs(a), np.abs(b))
    worst = Fraction(0)
    for i, j in np.ndindex(*got.shape):
        if not np.isfinite(got[i, j]):
            return math.inf
        error = abs(Fraction(float(got[i, j])) - exact[i, j] * Fraction(2) ** e)
        worst = max(worst, error / (size[i, j] * Fraction(2) ** e) if size[i, j] else error * 10**100)
    return worst


def grid(seed):
    """Matrices near powers of two from the least to the largest of float32, spread over octaves."""
    rng = np.random.default_rng(seed)

    def near(e, spread, shape):
        exponents = e + rng.integers(-spread, spread + 1, shape)
        return np.ldexp(rng.standard_normal(shape), exponents).astype(np.float32)

    for left in (-149, -130, -100, -63, -24, -14, -3, 0, 10, 16, 40, 63, 120):
        for right in (-120, -63, -12, 0, 14, 63):
            k, spread = int(rng.choice([1, 5, 40])), int(rng.choice([0, 2, 12, 60]))
            with np.errstate(over="ignore", under="ignore"):
                a, b = near(left, spread, (3, k)), near(right, spread, (k, 2))
            if rng.random() < 0.2:
                a[rng.random(a.shape) < 0.4] = 0
            if np.isfinite(a).all() and np.isfinite(b).all():
                yield a, b


@cells(scheme=[None, *SCHEMES], engine=["host", "tensorcore"])
@pytest.mark.filterwarnings("ignore:no bound holds")
def test_bounds_hold_in_every_range_or_are_infinite(scheme, engine):
    finite = 0
    for a, b in grid(7):
        plan, got = (f(a, b, scheme=scheme, engine=engine) for f in (matmul_plan, matmul))
        assert relative_error(got, a, b) <= plan.bound, (a, b)
        finite += plan.bound < math.inf
    assert finite >= 2  # of unscaled fp16 words few are


@pytest.mark.parametrize("scheme", SCALED)
def test_numbers_that_scaling_makes_too_small_have_no_bound(scheme):
    """Beside a large one that a zero cancels: the whole result is what float32 loses of the other."""
    a, b = np.float32([[-2.09e-32, -3.07e32]]), np.float32([[1], [0]])
    with pytest.warns(UserWarning, match="no bound holds"):
        assert matmul_plan(a, b, scheme=scheme).bound == math.inf


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ordinary_numbers_keep_the_bound_of_the_scheme(scheme):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((20, 300), np.float32), rng.standard_normal((300, 20), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound = matmul_plan(a, b, scheme=scheme).bound
    assert error_bound(300, scheme) <= bound < 1.2 * error_bound(300, scheme)


@pytest.mark.parametrize("scheme", ["double-fp16", "markidis", "halfhalf", "fabsum-v1", "fabsum-v2"])
@pytest.mark.parametrize("scale", [1e5, 1e-12])
def test_words_out_of_range_are_named_with_the_schemes_that_scale(scheme, scale):
    x = np.float32([[scale, 1], [1, 2]]) if scale > 1 else np.float32([[scale, scale], [scale, 2 * scale]])
    with pytest.warns(UserWarning, match="the range of fp16 words") as caught:
        assert matmul_plan(x, x, scheme=scheme).bound == math.inf
    assert caught[0].filename == __file__
    assert all(f'"{name}"' in str(caught[0].message) for name in SCALED)
    for name in SCALED:
        assert matmul_plan(x, x, scheme=name).bound < 1e-4
