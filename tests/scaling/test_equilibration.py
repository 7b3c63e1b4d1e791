"""Graded inner dimensions: equilibrated exactly, by a rule of maxima, to ordinary products."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.parallel import BLOCK_ELEMENTS
from ozaki import accurate_dgemm
from ozaki.arguments import request_of
from ozaki.execution.executors import product
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.scale import scale
from ozaki.product.steps import equilibrated, inner_exponents
from ozaki.scaling import equilibration
from ozaki.scaling.equilibration import NOTHING, column_exponents
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import NONFINITE_ROW, row_statistics
from tests.cells import cells
from tests.matrices import TARGETS
from tests.oracle import componentwise_error, real_products, rounded_product, same

pytestmark = pytest.mark.usefixtures("modular")

OCTAVES = {"fp64": 200, "fp32": 50}


def grades(kind, k, octaves, rng):
    """The exponents g_h of a graded inner dimension."""
    if kind == "random":
        return rng.integers(-octaves, octaves + 1, k)
    if kind == "blocks":
        return np.repeat([-octaves, octaves // 3, octaves], -(-k // 3))[:k]
    linear = np.linspace(-octaves, octaves, k).astype(int)
    return linear[::-1] if kind == "falling" else linear


def graded(kind, shape, dtype="float64", seed=0, octaves=None):
    """X·G and G⁻¹·Y, with zeros or rows that are not finite if the kind says so."""
    rng = np.random.default_rng(seed)
    m, k, n = shape
    g = grades(kind, k, octaves or OCTAVES[TARGETS[dtype]], rng)
    x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if np.dtype(dtype).kind == "c":
        x, y = x + 1j * rng.standard_normal(x.shape), y - 1j * rng.standard_normal(y.shape)
    if kind == "zeros":
        x, y = x * (rng.random(x.shape) < 0.5), y * (rng.random(y.shape) < 0.5)
        x[:, 1], y[2], x[1:2], y[:, 1:2] = 0, 0, 0, 0
    return (x * np.ldexp(1.0, g)).astype(dtype), (y * np.ldexp(1.0, -g)[:, None]).astype(dtype)


KINDS = ["linear", "falling", "random", "blocks", "zeros"]
SHAPES = [(5, 40, 6), (1, 300, 1), (9, 70, 3)]


@pytest.mark.parametrize("target", ["fp64", "fp32"])
def test_what_counts_as_graded_is_what_the_proof_allows(target):
    """M·2**-e >= 2**3.5·k**1.5; no more than two of the exponents e for which that holds are left out."""
    for k in (*range(1, 70), 127, 128, 1000, 4095, 4096, 100_003, 1 << 20):
        limit = norm_limit(FORMATS[target], k)
        sums = np.arange(-200, limit.bits)
        largest = int(sums[equilibration.is_graded(sums, k, limit)].max())
        squared = (Fraction(limit.significand, 32) * 2**limit.bits) ** 2 / (
            2**7 * k**3
        )  # (M·2**-3.5·k**-1.5)²
        assert Fraction(4) ** largest <= squared < Fraction(4) ** (largest + 3)


@pytest.mark.parametrize("dtype", TARGETS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_within_the_certificate(kind, shape, dtype):
    a, b = graded(kind, shape, dtype)
    plan, result = ozaki.plan(a, b), ozaki.matmul(a, b)
    parts = [result.real, result.imag] if result.dtype.kind == "c" else [result]
    length = shape[1] * len(parts)
    assert plan.bound <= min(12 * length**0.5, length / 2) * FORMATS[TARGETS[dtype]].unit_roundoff
    for c, (x, y) in zip(parts, real_products(a, b), strict=True):
        assert componentwise_error(c, x, y, FORMATS[TARGETS[dtype]])[1] <= plan.bound


@pytest.mark.parametrize("dtype", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_the_products_of_ordinary_data(kind, dtype):
    shape = (9, 70, 8)
    of_graded, usual = (
        ozaki.plan(*graded(kind, shape, dtype, octaves=octaves), engine="tensorcore").products
        for octaves in (None, 1)
    )
    # Where zeros hide the largest numbers of some rows, of a G in steps of six octaves, some of it is left.
    assert of_graded <= usual * (1.5 if kind == "zeros" else 1.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ozaki.CostWarning)
        ozaki.matmul(*graded(kind, shape, dtype))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_inner_dimension_cannot_show(kind, dtype):
    a, b = graded(kind, (6, 90, 5), dtype)
    order = np.random.default_rng(1).permutation(90)
    assert same(ozaki.matmul(a[:, order], b[order]), ozaki.matmul(a, b))


@pytest.mark.parametrize("kind", KINDS)
def test_engines_schemes_and_panels_agree(kind):
    a, b = graded(kind, (20, 48, 18))
    expected = accurate_dgemm(a, b)
    for options in (
        {"engine": "modular"},
        {"engine": "tensorcore"},
        {"engine": "tensorcore", "word": "fp64"},
        {"scheme": "slices"},
        {"scheme": "slices", "engine": "tensorcore"},
        {"workspace": 80_000},
    ):
        assert same(accurate_dgemm(a, b, **options), expected), options
    left, right = ozaki.prepare(a), ozaki.prepare(b, "right")
    for pair in ((left, b), (a, right), (left, right), (left, right)):
        assert same(accurate_dgemm(*pair), expected)
    assert same(accurate_dgemm(np.asfortranarray(a), b), expected)
    assert same(accurate_dgemm(a.T.copy(), b.T.copy(), trans_a=True, trans_b=True), expected)


@pytest.mark.parametrize("dtype", TARGETS)
def test_stacks_have_the_bits_of_single_products(dtype):
    for shape in ((3, 12, 4), (6, 90, 5)):
        pairs = [graded(kind, shape, dtype, seed=i) for i, kind in enumerate(KINDS * 2)]
        pairs += [graded("linear", shape, dtype, octaves=1)] * 3
        a, b = (np.stack(x) for x in zip(*pairs, strict=True))
        a[2, 0, 1], b[4, 2, 0] = np.nan, np.inf
        a[1, 1] = 0
        a[3, 0, 0] = np.finfo(dtype).smallest_subnormal
        expected = np.stack([ozaki.matmul(x, y) for x, y in zip(a, b, strict=True)])
        assert same(ozaki.matmul(a, b), expected)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_rows_that_are_not_finite_leave_the_others_alone(dtype):
    a, b = graded("linear", (7, 60, 6), dtype)
    a[2, 5], a[4, 7], b[3, 1] = np.nan, -np.inf, np.inf
    # What else is in these rows need not be multiplied exactly.
    a[2, -1], a[4, -1], b[0, 1] = 2.0**-1074, 3 * 2.0**-1074, 2.0**-1070
    result = ozaki.matmul(a, b)
    rows, columns = [0, 1, 3, 5, 6], [0, 2, 3, 4, 5]
    assert same(result[np.ix_(rows, columns)], ozaki.matmul(a[rows], b[:, columns]))
    assert not np.isfinite(result[[2, 4]]).any()
    assert not np.isfinite(result[:, 1]).any()
    sign = np.sign(a.real[4, 7]) if dtype == "float64" else 0
    if sign:
        assert same(result[4, columns], -np.inf * np.sign(b[7, columns]))


def test_what_cannot_be_done_exactly_is_not_done():
    a, b = graded("linear", (6, 40, 5))
    usual = ozaki.plan(a, b)
    a[3, -1] = 3 * 2.0**-1074  # in a column that is to be multiplied by a power of two below 1
    plan = ozaki.plan(a, b)
    assert plan.products > 2 * usual.products
    assert componentwise_error(accurate_dgemm(a, b), a, b)[1] <= plan.bound
    stack = ozaki.matmul(np.stack([a, a]), np.stack([b, b]))
    assert same(stack[0], accurate_dgemm(a, b))


def test_subnormal_numbers_may_be_multiplied_exactly():
    a, b = graded("linear", (6, 40, 5))
    a = a * 2.0**-830
    assert ozaki.plan(a, b).products == ozaki.plan(a * 2.0**300, b).products
    assert same(accurate_dgemm(a, b), accurate_dgemm(a * 2.0**300, b) * 2.0**-300)


@pytest.mark.parametrize("dtype", TARGETS)
@pytest.mark.parametrize("kind", ["linear", "blocks"])
def test_exact_products_are_the_same_and_cheaper(kind, dtype):
    a, b = graded(kind, (9, 70, 8), dtype)
    request = request_of(a, "exact", "auto", None, "auto", None)
    results, costs = [], []
    for equilibrated_before in (False, True):  # factors that have been are not equilibrated again
        factors = [Factor(x, side, equilibrated=equilibrated_before) for side, x in enumerate((a, b))]
        results.append(product(Pair(*factors, request)))
        costs.append(scale(Pair(*factors, request))[1].scheme.products)
    assert same(results[0], rounded_product(a, b, dtype))
    assert same(results[1], results[0])
    assert 3 * costs[0] < costs[1] or TARGETS[dtype] == "fp32"


@pytest.mark.parametrize("accuracy", ["normwise", 40])
def test_other_accuracies_are_not_equilibrated(accuracy):
    a, b = graded("linear", (6, 40, 5))
    request = request_of(a, accuracy, "auto", None, "auto", None)
    pair, _, _ = scale(Pair(Factor(a, 0), Factor(b, 1), request))
    assert not any(x.equilibrated for x in (pair.a, pair.b))


# the parts -------------------------------------------------------------------------------------------


def scaled(a, b, target="fp64"):
    """Both factors, their norm scales, and the request."""
    factors = Factor(a, 0), Factor(b, 1)
    limit = norm_limit(FORMATS[target], factors[0].length)
    return (
        factors,
        tuple(norm_scales(x.statistics, limit) for x in factors),
        request_of(a, target, "auto", None, "auto", None),
    )


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_largest_exponents_of_columns(dtype, stack):
    rng = np.random.default_rng(stack)
    tiny = np.finfo(dtype).smallest_subnormal
    x = (rng.standard_normal((6 * stack, 9)) * np.exp2(rng.integers(-40, 40, (6 * stack, 9)))).astype(dtype)
    x[0, 0], x[1, 1], x[2, :3], x[:, 4], x[::2, 5] = np.nan, np.inf, tiny, 0, 0
    x[4] = 0
    scale = norm_scales(row_statistics([x]), norm_limit(FORMATS["fp64"], 9))
    for order in "CF":
        found = column_exponents([np.asarray(x, order=order)], scale, stack)
        for s, h in np.ndindex(stack, 9):
            rows = range(6 * s, 6 * s + 6)
            sizes = [
                Fraction(abs(float(x[i, h]))) * Fraction(2) ** int(scale[i])
                for i in rows
                if scale[i] != NONFINITE_ROW
            ]
            if largest := max(sizes):
                p = int(found[s, h])
                assert Fraction(2) ** (p - 1) <= largest < Fraction(2) ** p
            else:
                assert found[s, h] == NOTHING


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_shifted_factors_are_exact_or_said_not_to_be(dtype):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 5)).astype(dtype)
    x[1, 2], x[2, 2] = np.nan, 0
    scale = np.array([0, NONFINITE_ROW, 5, -5], np.int32)
    for shifts in ([3, -7, 0, 90, -90], [0, 0, 0, 0, -1000], [0, 2000, 0, 0, 0], [-140, 0, 0, 0, 0]):
        d = np.array([shifts], np.int32)
        for side in (0, 1):
            with np.errstate(over="ignore"):
                factor, exact = Factor(x if side == 0 else x.T, side).shifted(scale, d)
            assert factor.equilibrated
            assert factor.matrix.dtype == x.dtype
            assert factor.matrix.strides == (x if side == 0 else x.T).strides
            truth = True
            for part, given in zip(factor.parts, Factor(x, 0).parts, strict=True):
                for i, h in np.ndindex(4, 5):
                    if i != 1:
                        wanted = Fraction(float(given[i, h])) * Fraction(2) ** shifts[h]
                        got = part[i, h]
                        truth &= bool(np.isfinite(got)) and Fraction(float(got)) == wanted
                    else:
                        assert same(part[i, h], given[i, h])
            assert exact().tolist() == [truth]


@cells(kind=[*KINDS, "mild", "wild"])
def test_no_pair_is_certified_worse(kind):
    """T / Σ|a'||b'| of every pair, from the numbers themselves."""
    shape = (6, 30, 5)
    for seed in range(20):
        if kind in ("mild", "wild"):
            rng = np.random.default_rng(seed)
            a, b = (np.exp2(60 * rng.standard_normal(s)) for s in ((2, 30), (30, 2)))
            if kind == "mild":
                a, b = graded("random", shape, seed=seed, octaves=int(rng.integers(4, 12)))
        else:
            a, b = graded(kind, shape, seed=seed)
        (left, right), scales, request = scaled(a, b)
        pair = Pair(left, right, request)
        done = equilibrated(pair, scales, inner_exponents(pair, scales))
        assert done is not None or kind in ("mild", "wild")
        if done is None:
            continue
        _, (new_left, new_right, *_) = done
        (*_,), new_scales, _ = scaled(new_left.matrix, new_right.matrix)
        before, after = (
            ratios(x, y, s) for x, y, s in ((a, b, scales), (new_left.matrix, new_right.matrix, new_scales))
        )
        assert all(x >= y for x, y in zip(before, after, strict=True))


def ratios(a, b, scales):
    """T / Σ|a'||b'| of all pairs, exactly."""
    left, right = (
        [
            [abs(Fraction(float(v))) * Fraction(2) ** int(s) for v in row]
            for row, s in zip(x, of_x, strict=True)
        ]
        for x, of_x in zip((a, b.T), scales, strict=True)
    )
    found = []
    for x in left:
        for y in right:
            lower = sum(v * w for v, w in zip(x, y, strict=True))
            if lower:
                found.append(((sum(x) + sum(y)) / 2 + Fraction(len(x), 4)) / lower)
    return found


def test_a_column_in_other_units_is_no_grade():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 50, 50))
    a[:, 7] *= 2.0**60
    (left, right), scales, request = scaled(a, b)
    pair = Pair(left, right, request)
    assert equilibrated(pair, scales, inner_exponents(pair, scales)) is None


def test_exponents_of_blocks_of_rows_merge():
    a, b = graded("random", (40, 30, 7))
    (left, _), (scale, _), _ = scaled(a, b)
    whole = column_exponents(left.parts, scale)
    blocks = [column_exponents([left.parts[0][i : i + 9]], scale[i : i + 9]) for i in range(0, 40, 9)]
    assert same(np.maximum.reduce(blocks), whole)
    cut = [column_exponents([left.parts[0][:, h : h + 8]], scale) for h in range(0, 30, 8)]
    assert same(np.concatenate(cut, axis=1), whole)
    times = BLOCK_ELEMENTS // left.matrix.size + 1  # rows that are more than one block
    many = column_exponents([np.tile(left.parts[0], (times, 1))], np.tile(scale, times))
    assert same(many, whole)


def test_the_request_of_a_plan_and_of_a_product_agree():
    a, b = graded("linear", (6, 40, 5))
    request = request_of(a, "fp64", "auto", None, "auto", None)
    pair, scaled_product, certificate = scale(Pair(Factor(a, 0), Factor(b, 1), request))
    assert pair.a.equilibrated
    assert pair.b.equilibrated
    assert certificate.bits <= 7
    assert ozaki.plan(a, b).products == scaled_product.scheme.products
