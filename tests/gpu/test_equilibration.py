"""Graded inner dimensions on a GPU: the host's exponents, factors and bits, replayed from graphs."""

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from ozaki.execution import cache
from ozaki.product.factor import Factor
from ozaki.scaling.equilibration import column_exponents, inner_exponents
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import NONFINITE_ROW, row_statistics
from tests.gpu.test_captured import held_graphs
from tests.gpu.test_steps import DTYPES, layouts, matrix
from tests.matrices import FACES
from tests.oracle import same
from tests.scaling.test_equilibration import KINDS, graded

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def nothing_captured():
    cache.forget()
    cache._cached.clear()


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", [(1, 1), (6, 7), (300, 1100), (66, 2049), (5000, 3), (1, 5000)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["wide", "subnormal", "special"])
def test_exponents_and_shifts(cupy, kind, dtype, shape):
    x = matrix(kind, shape, dtype)
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for stack in (1, 3) if shape[0] % 3 == 0 else (1,):
            scale = norm_scales(row_statistics(Factor(x, 0).parts), norm_limit(FORMATS["fp64"], shape[1]))
            finite = scale != NONFINITE_ROW  # the others are left alone; only the bits of a NaN may change
            exponents = column_exponents(Factor(x, 0).parts, scale, stack)
            for octaves in (3, 90, 1500):
                shifts = rng.integers(-octaves, octaves + 1, (stack, shape[1])).astype(np.int32)
                expected, exact = Factor(x, 0, stack=stack).shifted(scale, shifts)
                for y in layouts(cupy, x):
                    for side, matrices in enumerate((y, y.T)):
                        factor = Factor(matrices, side, stack=stack)
                        found = column_exponents(factor.parts, cupy.asarray(scale), stack)
                        assert same(found.get(), exponents)
                        moved, device_exact = factor.shifted(cupy.asarray(scale), shifts)
                        assert same(device_exact(), exact())
                        if exact().all():
                            turned = (moved.matrix if side == 0 else moved.matrix.T).get()
                            assert same(turned[finite], expected.matrix[finite])


@pytest.mark.parametrize("k", [1, 255, 4096, 4097, 30000])
@pytest.mark.parametrize("stack", [1, 3])
def test_the_largest_sums_of_exponents(cupy, stack, k):
    rng = np.random.default_rng(k)
    for where in (0, k // 2, k - 1):  # the largest
        parts = [rng.standard_normal((6, k)) * (rng.random((6, k)) < 0.8) for _ in "ab"]
        for x in parts:
            x[:, where] = 2.0**60
        scales = [rng.integers(-9, 9, 6).astype(np.int32) for _ in "ab"]
        expected = inner_exponents(([parts[0]], [parts[1]]), (scales[0], scales[1]), stack)
        on_device = [[cupy.asarray(x)] for x in parts], [cupy.asarray(x) for x in scales]
        found = inner_exponents(tuple(on_device[0]), tuple(on_device[1]), stack)
        assert same(found.on_host(), expected.on_host())
        assert same(found.sums.get(), expected.sums)
        assert expected.sums.min() > 100


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("kind", KINDS)
def test_products_called_again_and_again(cupy, kind, dtype):
    for seed in range(6):
        a, b = graded(kind, (70, 130, 90), dtype, seed=seed)
        result = FACES[dtype](cupy.asarray(a), cupy.asarray(b))
        assert same(result.get(), FACES[dtype](a, b)), seed
    # One takes the bounds that say that the data are graded, the other multiplies the equilibrated factors.
    outer, inner = held_graphs()
    if kind != "zeros":
        assert {outer._expected.bits is None, inner._expected.bits is None} == {True, False}


def test_rows_of_all_sizes_are_looked_at_with_their_own_scales(cupy):
    rng = np.random.default_rng(1)
    for seed in range(8):
        a, b = graded("linear", (170, 130, 90), seed=seed)
        a *= np.exp2(rng.integers(-200, 200, (170, 1)))
        b *= np.exp2(rng.integers(-200, 200, (1, 90)))
        assert same(ozaki.accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), ozaki.accurate_dgemm(a, b))
    scale = cupy.asarray(rng.integers(-9, 9, 64), np.int32)
    x = cupy.asarray(rng.standard_normal((64, 50)))
    for rows in (slice(None, None, 4), slice(3, None, -1), slice(60, 8, -7)):
        expected = column_exponents([x.get()[rows]], scale.get()[rows])
        assert same(column_exponents([x[rows]], scale[rows]).get(), expected)


@pytest.mark.parametrize("order", ["C", "F"])
def test_graded_and_ordinary_data_take_turns(cupy, order):
    rng = np.random.default_rng(0)
    for seed in range(12):
        a, b = graded("linear", (70, 130, 90), seed=seed, octaves=(1, 200, 7, 400)[seed % 4])
        if seed % 3 == 0:
            a[3, 5], b[7, 2], a[3, -1] = np.nan, np.inf, 2.0**-1074
        if seed == 7:
            a[2, -1] = 2.0**-1074  # nothing is equilibrated
        if seed > 9:
            a, b = (x * (rng.random(x.shape) < 0.3) for x in (a, b))
        left, right = (cupy.asarray(x, order=order) for x in (a, b))
        assert same(ozaki.accurate_dgemm(left, right).get(), ozaki.accurate_dgemm(a, b)), seed


def test_prepared_operands_workspaces_words_and_addends(cupy):
    a, b = graded("random", (70, 130, 90))
    expected, c = ozaki.accurate_dgemm(a, b), np.ones((70, 90))
    left, right = cupy.asarray(a), cupy.asarray(b)
    fixed, other = ozaki.prepare(left), ozaki.prepare(right, "right")
    for _ in range(4):
        for pair in ((fixed, right), (left, other), (fixed, other), (left, right)):
            assert same(ozaki.accurate_dgemm(*pair).get(), expected)
        for options in ({"workspace": 300_000}, {"word": "fp64"}, {"scheme": "slices"}):
            assert same(ozaki.accurate_dgemm(left, right, **options).get(), expected), options
        exact = ozaki.accurate_dgemm(left, right, accuracy="exact")
        assert same(exact.get(), ozaki.accurate_dgemm(a, b, accuracy="exact"))
        found = ozaki.accurate_dgemm(left, right, alpha=2.0, beta=-1.0, c=cupy.asarray(c))
        assert same(found.get(), ozaki.accurate_dgemm(a, b, alpha=2.0, beta=-1.0, c=c))
    assert ozaki.plan(left, right, word="int8").products == ozaki.plan(a, b, engine="tensorcore").products


@pytest.mark.parametrize("dtype", FACES)
def test_stacks(cupy, dtype):
    for shape in ((3, 12, 4), (6, 90, 5)):
        pairs = [graded(kind, shape, dtype, seed=i) for i, kind in enumerate(KINDS * 5)]
        pairs += [graded("linear", shape, dtype, octaves=1)] * 20
        a, b = (np.stack(x) for x in zip(*pairs, strict=True))
        a[2, 0, 1], b[4, 2, 0] = np.nan, np.inf
        a[3, 0, 0] = np.finfo(dtype).smallest_subnormal
        for _ in range(3):
            assert same(ozaki.matmul(cupy.asarray(a), cupy.asarray(b)).get(), ozaki.matmul(a, b))


def test_other_streams(cupy):
    a, b = graded("linear", (70, 130, 90))
    expected = ozaki.accurate_dgemm(a, b)
    for _ in range(4):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            left, right = cupy.asarray(a), cupy.asarray(b)
            result = ozaki.accurate_dgemm(left, right)
            stream.synchronize()
            assert same(result.get(), expected)
