"""Accuracy "normwise": its bound against exact rationals; elements depend on their row and column alone."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from ozaki import accurate_dgemm, matmul
from ozaki.definition.statistics import BITS
from ozaki.scaling.scales import norm_limit, normwise_error
from tests.cells import cells
from tests.matrices import FACES, KINDS, matrices
from tests.oracle import exact_product, integers, real_products, same

pytestmark = pytest.mark.usefixtures("modular")


def operands(kind, shape, dtype, seed=1):
    """Matrices of a kind, in a dtype: those that float32 would not hold are brought into its range."""
    a, b = matrices(kind, *shape, seed)
    if dtype.startswith("c"):
        a, b = a + 1j * a[::-1, ::-1], b - 1j * b[::-1]
    if dtype in ("float32", "complex64"):
        a, b = (np.array(x * 2.0 ** -max(0, math.frexp(abs(x).max())[1] - 100)) for x in (a, b))
    with np.errstate(all="ignore"):
        return a.astype(dtype), b.astype(dtype)


def normwise(a, b, **options):
    return FACES[a.dtype.name](a, b, accuracy="normwise", **options)


def squared_norms(x, axis):
    """Exact squared norms, and the exponent of their unit."""
    whole, exponent = integers(x)
    return (whole * whole).sum(axis=axis), 2 * exponent


def share_of_bound(result, a, b):
    """The largest (|R - AB| - u|R|)² over (bound·‖a‖‖b‖)², which must be at most 1."""
    fmt = FORMATS["fp64" if result.dtype.name in ("float64", "complex128") else "fp32"]
    bound = Fraction(ozaki.plan(a, b, accuracy="normwise").bound)
    tiny, worst = Fraction(2) ** (fmt.emin - fmt.precision), Fraction(0)
    for part, (left, right) in zip((result.real, result.imag), real_products(a, b), strict=False):
        (whole, e), (of_a, f), (of_b, g) = (
            exact_product(left, right),
            squared_norms(left, 1),
            squared_norms(right, 0),
        )
        for (i, j), r in np.ndenumerate(part):
            value = Fraction(int(whole[i, j])) * Fraction(2) ** e
            if np.isinf(r):
                assert abs(value) * (1 + 4 * bound) >= Fraction(2) ** (fmt.emax + 1) * (1 - tiny)
                continue
            error = abs(value - Fraction(float(r))) - max(
                Fraction(2) ** -fmt.precision * abs(Fraction(float(r))), tiny
            )
            norms = Fraction(int(of_a[i]) * int(of_b[j])) * Fraction(2) ** (f + g)
            if error > 0:
                assert norms > 0
                worst = max(worst, error**2 / (bound**2 * norms))
    return float(worst)


# the bound ------------------------------------------------------------------------------------------


@cells(kind=KINDS, dtype=FACES)
def test_errors_are_below_the_bound(kind, dtype):
    for shape in ((5, 3, 4), (7, 68, 6), (4, 1030, 3)):
        a, b = operands(kind, shape, dtype)
        assert share_of_bound(normwise(a, b), a, b) <= 1


def one_large(rng, shape):
    x = rng.standard_normal(shape)
    x[:, 0] = 2.0**30
    return x


def wild(rng, shape):
    return np.ldexp(rng.standard_normal(shape), rng.integers(-500, 400, shape))


def subnormal(rng, shape):
    return np.ldexp(rng.integers(-9, 9, shape).astype(float), -1074)


def nearly_overflowing(rng, shape):
    return np.ldexp(rng.uniform(-1, 1, shape), 1024)


def alternating(rng, shape):
    return np.ldexp(1.0, -60 * (np.arange(shape[1]) % 2)) * rng.uniform(0.5, 1, shape)


@pytest.mark.parametrize("second", [one_large, wild, alternating, subnormal])
@pytest.mark.parametrize("first", [one_large, wild, alternating, subnormal, nearly_overflowing])
def test_adversarial_rows(first, second):
    rng = np.random.default_rng(0)
    a, b = first(rng, (6, 300)), second(rng, (5, 300)).T
    assert share_of_bound(normwise(a, b), a, b) <= 1


def test_nearly_half_of_the_bound_is_attained():
    """A row just above half of its limit, whose numbers but one lose a half each, times equal numbers."""
    k = 1024
    limit = norm_limit(FORMATS["fp64"], k)
    half = math.sqrt(math.ldexp(limit.significand, limit.bits - 5)) / 2
    half *= 1 + math.sqrt(k) * 2.0 ** (2 - BITS)
    a, b = np.full((1, k), 2.5), np.full((k, 1), float(math.ceil(half / math.sqrt(k))))
    a[0, 0] = float(math.ceil(half))
    share = share_of_bound(normwise(a, b), a, b)
    assert 0.47**2 < share <= 1


def test_the_bound_is_below_sqrt_k():
    for name in ("fp64", "fp32"):
        target = FORMATS[name]
        for k in [*range(1, 2000), *(2**i for i in range(11, 25))]:
            assert normwise_error(norm_limit(target, k), k) <= math.sqrt(k) * target.unit_roundoff


@pytest.mark.parametrize("dtype", FACES)
def test_ordinary_data_have_the_bits_of_the_certified_accuracy(dtype):
    a, b = operands("uniform", (7, 300, 5), dtype)
    assert same(normwise(a, b), FACES[dtype](a, b))


@pytest.mark.parametrize("dtype", FACES)
def test_the_plan_depends_on_k_and_dtype_alone(dtype):
    """But for the executor, which may decline rows of extreme size."""
    for k in (4, 68, 1030):
        plans = [ozaki.plan(*operands(kind, (7, k, 5), dtype), accuracy="normwise") for kind in KINDS]
        assert len({replace(plan, executor="") for plan in plans}) == 1
        unit = FORMATS["fp64" if dtype in ("float64", "complex128") else "fp32"].unit_roundoff
        length = k * (2 if dtype.startswith("c") else 1)
        assert 0 < plans[0].bound / math.sqrt(length) <= unit
        assert "|a_i||b_j|" in str(plans[0])


def test_moduli_by_k():
    def pieces(dtype, k):
        a = np.broadcast_to(np.ones((), dtype), (2, k))
        plan = ozaki.plan(a, a.T, accuracy="normwise", word="int8")
        return plan.pieces

    assert [pieces(np.float64, k) for k in (4, 16, 256, 300, 1 << 18)] == [17, 16, 15, 14, 14]
    assert [pieces(np.float32, k) for k in (4, 16, 256, 300, 1 << 18)] == [10, 9, 8, 7, 7]


# rows and columns by themselves -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("kind", KINDS)
def test_slices_of_a_product_are_products_of_slices(kind, dtype):
    a, b = operands(kind, (9, 68, 8), dtype)
    whole = normwise(a, b)
    for rows, columns in (
        (slice(0, 1), slice(None)),
        (slice(3, 7), slice(2, 3)),
        (slice(None, None, 2), slice(5, None)),
    ):
        assert same(normwise(a[rows], b[:, columns]), whole[rows, columns])


@pytest.mark.parametrize("dtype", FACES)
def test_stacks_have_the_bits_of_their_matrices(dtype):
    rng = np.random.default_rng(0)
    pairs = [operands(kind, (5, 20, 6), dtype, seed) for seed, kind in enumerate(KINDS)]
    a, b = (np.stack(x) for x in zip(*pairs, strict=True))
    a[3, 2, 1], b[5, 0, 0] = np.nan, np.inf
    whole = matmul(a, b, accuracy="normwise")
    for i in range(len(a)):
        assert same(whole[i], normwise(a[i], b[i]))
        assert same(matmul(a[i], b[i], accuracy="normwise"), whole[i])
    some = rng.permutation(len(a))[:4]
    assert same(matmul(a[some], b[some], accuracy="normwise"), whole[some])
    assert same(matmul(a, b[0], accuracy="normwise")[7], normwise(a[7], b[0]))
    assert same(matmul(a[0, 0], b, accuracy="normwise")[7], normwise(a[0, :1], b[7])[0])


def test_large_stacks_in_parts():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 12, 30)), rng.standard_normal((40, 30, 11))
    assert same(matmul(a, b, accuracy="normwise", workspace=1 << 18), matmul(a, b, accuracy="normwise"))


@pytest.mark.parametrize("kind", ["uniform", "wide20", "sparse", "rows"])
def test_every_way_has_the_same_bits(kind):
    a, b = matrices(kind, 20, 68, 17)
    expected = normwise(a, b)
    order = np.random.default_rng(0).permutation(68)
    assert same(normwise(a[:, order], b[order]), expected)
    engines = {"engine": "modular"}, {"engine": "tensorcore"}
    for options in ({"word": "int8"}, {"scheme": "slices"}, {"workspace": 60000}, *engines):
        assert same(normwise(a[:3], b[:, :4], **options), expected[:3, :4]), options
    left, right = ozaki.prepare(a), ozaki.prepare(b, "right")
    for _ in range(2):
        assert same(normwise(a, right), expected)
        assert same(accurate_dgemm(left, b, accuracy="normwise"), expected)
        assert same(accurate_dgemm(left, right, accuracy="fp64"), accurate_dgemm(a, b))


def test_a_wild_row_widens_nothing_and_warns_of_nothing():
    a, b = matrices("uniform", 8, 68, 7)
    expected = normwise(a, b)
    a[3] *= np.ldexp(1.0, np.random.default_rng(0).integers(-300, 300, 68))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = normwise(a, b)
    assert same(np.delete(found, 3, 0), np.delete(expected, 3, 0))


def test_where_the_limits_agree_ordinary_data_have_the_bits_of_fp64():
    a, b = matrices("uniform", 30, 200, 20)  # both take 15 int8 moduli
    assert same(normwise(a, b), accurate_dgemm(a, b))


# Inf and NaN -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FACES)
def test_infinities_and_nans_stay_in_their_rows_and_columns(dtype):
    a, b = operands("uniform", (9, 40, 8), dtype)
    clean = normwise(a, b)
    a[2, 3], a[5, 0], b[7, 4], b[1, 6], b[3, 1] = np.inf, np.nan, -np.inf, np.nan, 0
    found = normwise(a, b)
    rows, columns = [0, 1, 3, 4, 6, 7, 8], [0, 2, 3, 5, 7]
    assert same(found[np.ix_(rows, columns)], clean[np.ix_(rows, columns)])
    assert same(normwise(a, b)[[2, 5]], FACES[dtype](a, b, accuracy="exact")[[2, 5]])
    assert same(normwise(a, b)[:, [4, 6]], FACES[dtype](a, b, accuracy="exact")[:, [4, 6]])
    assert np.isnan(found[2, 1])  # inf times 0


def test_special_shapes():
    for m, k, n in ((0, 3, 2), (2, 0, 3), (1, 1, 1), (1, 5, 1)):
        a, b = np.ones((m, k)), np.ones((k, n))
        assert same(normwise(a, b), a @ b)
    assert same(normwise(np.zeros((2, 3)), np.ones((3, 2))), np.zeros((2, 2)))
    a, b = matrices("integers", 6, 50, 5)
    assert same(normwise(a, b), a @ b)
    assert same(matmul(a, b[:, 0], accuracy="normwise"), a @ b[:, 0])


def test_alpha_beta_and_out():
    a, b = matrices("uniform", 6, 30, 5)
    c, out = np.ones((6, 5)), np.empty((6, 5))
    result = normwise(a, b, alpha=2.0, beta=-1.0, c=c, out=out)
    assert result is out
    assert same(out, 2 * normwise(a, b) - c)
