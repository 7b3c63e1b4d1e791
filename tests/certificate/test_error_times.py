"""`Plan.error_times`: a bound of |C - AB|·|v| against rationals, and how close it comes."""

import math
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from tests.cells import cells
from tests.matrices import FACES, KINDS, in_dtype, matrices, wide
from tests.oracle import exact_product, real_products

ACCURACIES = ["fp64", "fp32", "normwise", "exact", 1, 12, 60, 1200]


def root(x):
    """The square root of a fraction from below, to 200 bits."""
    shift = max(0, 400 + x.denominator.bit_length() - x.numerator.bit_length())
    shift += shift & 1
    return Fraction(math.isqrt((x.numerator << shift) // x.denominator), 1 << shift // 2)


def true_errors(c, a, b, v):
    """Σ_j |C - AB|_ij·|v_j| for every i; None where C is not finite."""
    squares = Fraction(0)
    for part, (x, y) in zip(real_parts(c), real_products(a, b), strict=True):
        integers, exponent = exact_product(x, y)
        unit = Fraction(2) ** exponent
        values = [Fraction(float(z)) if np.isfinite(z) else Fraction(0) for z in part.ravel()]
        errors = [z - int(n) * unit for z, n in zip(values, integers.ravel(), strict=True)]
        squares = squares + np.array([e * e for e in errors], object).reshape(c.shape)
    size = np.vectorize(root, otypes=[object])(squares)
    sums = (size * [abs(Fraction(float(x))) for x in v]).sum(axis=1)
    return [s if np.isfinite(row).all() else None for s, row in zip(sums, c, strict=True)]


def check(a, b, v, accuracy):
    c = FACES[a.dtype.name](a, b, accuracy=accuracy)
    bound = ozaki.plan(a, b, accuracy=accuracy).error_times(v)
    assert bound.shape == (len(a),)
    for error, of_row in zip(true_errors(c, a, b, v), bound.tolist(), strict=True):
        assert of_row == math.inf or (error is not None and error <= Fraction(of_row))
    return c, bound


@cells(kind=KINDS, accuracy=ACCURACIES)
def test_it_is_a_bound(kind, accuracy):
    for seed, dtype in enumerate(FACES):
        a, b = in_dtype(*matrices(kind, 4, 11, 5, seed), dtype)
        v = wide(np.random.default_rng(seed), 5, 40) if seed & 1 else [1, -2, 0, 0.25, 3]
        check(a, b, np.asarray(v, float), accuracy)


@pytest.mark.parametrize("accuracy", ["fp64", "normwise", "exact", 20])
def test_rows_and_columns_in_units_of_500_octaves_have_their_own_bounds(accuracy):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((6, 30)), rng.standard_normal((30, 5))
    e, f = np.array([500, -500, 0, 250, -250, 500]), np.array([-500, 500, 0, -450, 450])
    v = rng.random(5)
    plain = ozaki.plan(a, b, accuracy=accuracy).error_times(v)
    rows = ozaki.plan(np.ldexp(a, e[:, None]), b, accuracy=accuracy).error_times(v)
    np.testing.assert_allclose(np.ldexp(rows, -e), plain, rtol=1e-12)
    columns = ozaki.plan(a, np.ldexp(b, f), accuracy=accuracy).error_times(np.ldexp(v, -f))
    np.testing.assert_allclose(columns, plain, rtol=1e-12)
    check(np.ldexp(a, e[:, None]), np.ldexp(b, f), v, accuracy)


def halfway(rng, shape, bits):
    """Numbers of so many bits, each rounded up by nearly a half, one of them to 2**bits."""
    x = rng.integers(1 << (bits - 1), 1 << bits, shape) + 0.5 + 2.0**-20
    return np.where(np.arange(x.size).reshape(shape) % max(shape) == 0, 2.0**bits - 0.5 + 2.0**-20, x)


@pytest.mark.parametrize("bits", [3, 10])
def test_it_is_attained_where_all_roundings_go_one_way(bits):
    rng, k = np.random.default_rng(bits), 50
    a, b = halfway(rng, (1, k), bits), halfway(rng, (k, 1), bits)
    for x, y in ((a, np.ones((k, 1))), (np.ones((1, k)), b), (a, b)):
        c = ozaki.accurate_dgemm(x, y, accuracy=bits)
        bound = ozaki.plan(x, y, accuracy=bits).error_times([1.0], rounding=False)
        (error,) = true_errors(c, x, y, [1.0])
        assert 0.99 < error / Fraction(bound[0]) <= 1
    # Both parts of a complex number are wrong by as much.
    z = (a[:, :1] + 1j * a[:, :1]).repeat(k, axis=1)
    (error,) = true_errors(
        ozaki.matmul(z, np.ones((k, 1)) + 0j, accuracy=bits), z, np.ones((k, 1)) + 0j, [1.0]
    )
    bound = ozaki.plan(z, np.ones((k, 1)) + 0j, accuracy=bits).error_times([1.0], rounding=False)
    assert 0.99 < error / Fraction(bound[0]) <= 1


@pytest.mark.parametrize("dtype", FACES)
def test_the_last_rounding_is_attained(dtype):
    format_ = FORMATS["fp32" if dtype in ("float32", "complex64") else "fp64"]
    u = format_.unit_roundoff
    a, b = np.array([[1 + 2 * u]], dtype), np.array([[1.5]], dtype)  # 1.5 + 3u, a tie
    c, bound = check(a, b, [3.0], "exact")
    (error,) = true_errors(c, a, b, [3.0])
    assert 0.6 < error / Fraction(bound[0]) <= 1
    tiny = np.array([[format_.smallest_subnormal]], dtype)
    _, bound = check(tiny, np.array([[0.5]], dtype), [4.0], "exact")
    assert bound[0] <= 8 * format_.smallest_subnormal


@pytest.mark.parametrize("k", [4, 50, 1000])
@pytest.mark.parametrize("accuracy", ["fp64", "normwise", "exact", 30])
def test_it_is_no_larger_than_what_the_plan_certifies(accuracy, k):
    rng = np.random.default_rng(k)
    a, b, v = rng.standard_normal((20, k)), rng.standard_normal((k, 10)), rng.random(10)
    plan = ozaki.plan(a, b, accuracy=accuracy)
    if accuracy == "normwise":
        size = np.linalg.norm(a, axis=1) * (np.linalg.norm(b, axis=0) @ v)
    else:
        size = np.abs(a) @ np.abs(b) @ v
    assert (plan.error_times(v, rounding=False) <= 1.001 * plan.bound * size).all()
    assert (plan.error_times(v) <= 2 * (plan.bound + 2.0**-53) * size).all()
    (high, low), c = ozaki.two_word_product(a, b), ozaki.accurate_dgemm(a, b, accuracy=accuracy)
    assert (plan.error_times(v) <= 20 * math.sqrt(k) * (np.abs(c - high - low) @ v)).all()


def test_rows_that_are_not_finite_or_may_overflow_have_no_bound():
    a, b = np.ones((3, 2)), np.ones((2, 2))
    a[0, 0], a[1, 0], a[2] = np.nan, 2.0**1023, 0
    assert ozaki.plan(a, b).error_times([1, 1]).tolist() == [math.inf, math.inf, 0]
    nonfinite, large, zero = ozaki.plan(a, b, accuracy=60).error_times([1, 1], rounding=False).tolist()
    assert (nonfinite, zero) == (math.inf, 0)
    assert 0 < large <= 2.0**966  # a number of 2**1023, in 60 bits
    b[0, 0] = np.inf
    assert ozaki.plan(a, b).error_times([1, 1]).tolist() == [math.inf] * 3
    large = np.full((1, 1), 2.0**510)
    assert ozaki.plan(large, large).error_times([0.5])[0] < math.inf


def test_weights_are_real_numbers_one_to_a_column():
    plan = ozaki.plan(np.eye(3), np.eye(3))
    assert (plan.error_times([1, -2, 3]) == plan.error_times(np.array([1, 2, 3], np.float32))).all()
    assert plan.error_times([0, 0, 0]).max() <= 2.0**-1070
    for wrong in ([1.0], [[1.0, 2.0, 3.0]], [1.0, 2.0, math.nan]):
        with pytest.raises(ValueError, match="v must be"):
            plan.error_times(wrong)
    with pytest.raises(TypeError, match="v must be real"):
        plan.error_times([1j, 0, 0])
