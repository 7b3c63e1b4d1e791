"""Small products on a CPU: the compiled kernel gives the pipeline's bits, or leaves the product to it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ozaki
from ozaki.arguments import request_of
from ozaki.execution.groups import Groups
from ozaki.execution.small_products import LANES, SmallProducts
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.scale import scale, scaled_by_counting
from ozaki.tuning import FEWEST_SIDE_BY_SIDE
from tests.cells import cells
from tests.execution.test_stacks import mixed_stack
from tests.executors import COMPILED, by
from tests.matrices import FACES, KINDS, TARGETS, in_dtype, matrices
from tests.oracle import rounded_product, same

pytest.importorskip("numba")
pytestmark = pytest.mark.filterwarnings("ignore:invalid value")

ACCURACIES = st.one_of(st.sampled_from(["fp64", "fp32", "normwise", "exact"]), st.integers(1, 150))
FIXTURES = [HealthCheck.function_scoped_fixture]


def direct(a, b, accuracy="fp64", scheme="auto", word=None, engine="auto"):
    """The product by the compiled kernel alone, or None."""
    return by(COMPILED, a, b, request_of(a, accuracy, scheme, word, engine, None))[0]


def operands(kind, shape, dtype, seed):
    m, k, n = shape
    return in_dtype(*matrices(kind, m, k + k % 2 if kind == "cancelling" else k, n, seed), dtype)


@settings(suppress_health_check=FIXTURES, max_examples=200, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.tuples(st.integers(1, 20), st.integers(1, 70), st.integers(1, 20)),
    st.sampled_from(list(FACES)),
    ACCURACIES,
    st.integers(0, 2**32),
)
def test_same_bits_as_the_pipeline(without_numba, kind, shape, dtype, accuracy, seed):
    a, b = operands(kind, shape, dtype, seed)
    face = FACES[dtype]
    assert same(face(a, b, accuracy=accuracy), without_numba(face, a, b, accuracy=accuracy))


@settings(suppress_health_check=FIXTURES, max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.floats(width=32), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.floats(), min_size=6, max_size=6),
    ACCURACIES,
)
def test_any_numbers_at_all(without_numba, rows, numbers, accuracy):
    a, b = np.array(rows), np.array(numbers).reshape(3, 2)
    for dtype in ("float64", "float32"):
        with np.errstate(over="ignore"):
            given = a.astype(dtype), b.astype(dtype)
        face = FACES[dtype]
        found = face(*given, accuracy=accuracy)
        assert same(found, without_numba(face, *given, accuracy=accuracy))


@pytest.mark.parametrize("accuracy", ["fp64", "fp32", "normwise", "exact", 60])
@pytest.mark.parametrize("shape", [(5, 6, 3), (7, 68, 61), (2, 40, 1), (16, 16, 16)], ids=str)
@pytest.mark.parametrize("dtype", FACES)
def test_stacks(without_numba, dtype, shape, accuracy):
    a, b = mixed_stack(shape, dtype)
    found = ozaki.matmul(a, b, accuracy=accuracy)
    assert same(found, without_numba(ozaki.matmul, a, b, accuracy=accuracy))


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("accuracy", ["fp64", "fp32", "normwise", "exact", 55])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 40])
def test_ordinary_products_need_no_pipeline(n, accuracy, dtype):
    a, b = operands("uniform", (n, n, n), dtype, n)
    assert same(direct(a, b, accuracy), FACES[dtype](a, b, accuracy=accuracy))


STRUCTURED = {
    "triangular": lambda x: np.tril(x),
    "diagonal": lambda x: np.diag(np.diag(x)),
    "identity": lambda x: np.eye(len(x), dtype=x.dtype),
    "tridiagonal": lambda x: np.triu(np.tril(x, 1), -1),
    "few": lambda x: np.where(np.abs(x) > np.quantile(np.abs(x), 0.9), x, 0),
}


@cells(share=4, kind=STRUCTURED, n=[4, 24, 60, 130], dtype=FACES)
def test_products_with_many_zeros_need_no_pipeline(without_numba, kind, n, dtype):
    a, b = operands("uniform", (n, n, n), dtype, n)
    a = STRUCTURED[kind](a)
    for accuracy in ("fp64", "fp32"):
        for x, y in ((a, b), (b, a)):
            found = direct(x, y, accuracy)
            assert found is not None
            assert same(found, without_numba(FACES[dtype], x, y, accuracy=accuracy))
    assert same(FACES[dtype](a, a.T), without_numba(FACES[dtype], a, a.T))


SPREAD = {
    "small integers": lambda rng, size: rng.integers(0, 4, size).astype(float),
    "half zeros": lambda rng, size: rng.standard_normal(size) * (rng.random(size) < 0.5),
    "log-normal": lambda rng, size: rng.lognormal(0, 5, size),
}


@pytest.mark.parametrize("kind", SPREAD)
@pytest.mark.parametrize("dtype", FACES)
def test_the_compiled_call_decides_how_wide_integers_are(without_numba, monkeypatch, dtype, kind):
    """By counts, by pairs, or by what loses nothing, alone and in a stack."""
    rng = np.random.default_rng(5)
    for shape in ((3, 3, 3), (4, 8, 5), (9, 16, 2)):
        a, b = (SPREAD[kind](rng, (20, *size)) for size in (shape[:2], shape[1:]))
        if dtype[0] == "c":
            a, b = a + 1j * np.roll(a, 1), b - 1j * np.roll(b, 1)
        a, b = a.astype(dtype), b.astype(dtype)
        with monkeypatch.context() as patch:
            patch.setattr("ozaki.execution.small_products.bits_of_level_factors", None)
            patch.setattr(Groups, "run", None)
            found = [ozaki.matmul(a, b), np.array([ozaki.matmul(x, y) for x, y in zip(a, b, strict=True)])]
        expected = without_numba(ozaki.matmul, a, b)
        assert all(same(x, expected) for x in found)


def transforms(rng, n, dtype):
    """Linear maps and translations in n dimensions, whose last row is (0, …, 0, 1)."""
    (x, _), last = in_dtype(*rng.standard_normal((2, 40, n, n)), dtype), n - 1
    x[:, :last, last] *= 1000
    x[:, last] = np.eye(n)[last]
    return x


def blocks(rng, n, dtype):
    """Two blocks on the diagonal."""
    x, _ = in_dtype(*rng.standard_normal((2, 40, n, n)), dtype)
    x[:, : n // 2, n // 2 :] = x[:, n // 2 :, : n // 2] = 0
    return x


@pytest.mark.parametrize("n", [4, 6, 40])
@pytest.mark.parametrize("make", [transforms, blocks])
@pytest.mark.parametrize("dtype", FACES)
def test_products_that_lose_nothing_need_no_pipeline(without_numba, monkeypatch, dtype, make, n):
    """A row and a column without a common nonzero number leave nothing to decide, in digits or in bytes."""
    rng = np.random.default_rng(n)
    x, y = make(rng, n, dtype), make(rng, n, dtype)
    with monkeypatch.context() as patch:
        patch.setattr(Groups, "run", None)
        found = ozaki.matmul(x, y)
    expected = without_numba(ozaki.matmul, x, y)  # last: kinds of call are cached
    assert same(found, expected)
    assert same(direct(x[0], y[0]), expected[0])
    if dtype == "float64" and n < 10:
        for a, b, c in zip(x, y, expected, strict=True):
            assert same(c, rounded_product(a, b))


@settings(suppress_health_check=FIXTURES, max_examples=100, deadline=None)
@given(
    st.tuples(*(st.integers(1, 7) for _ in range(3))),
    st.sampled_from(list(FACES)),
    st.sampled_from(["fp64", "fp32"]),
    st.sampled_from([0.2, 0.5, 0.8]),
    st.sampled_from([1, 30, 300]),
    st.integers(0, 2**32),
)
def test_stacks_with_zeros(without_numba, shape, dtype, accuracy, zeros, spread, seed):
    """Numbers of all sizes, graded ones, zeros, some Inf and NaN."""
    (m, k, n), rng, pair = shape, np.random.default_rng(seed), []
    grades = 2.0 ** rng.integers(-spread, spread + 1, k) if seed % 2 else np.ones(k)
    for size, of_grades in (((6, m, k), grades), ((6, k, n), 1 / grades[:, None])):
        x = rng.standard_normal(size) * 2.0 ** rng.integers(-spread, spread + 1, size) * of_grades
        x[rng.random(size) < zeros] = 0
        x[rng.random(size) < 0.005] = rng.choice([np.inf, -np.inf, np.nan])
        pair.append(in_dtype(x, x, dtype)[0])
    with np.errstate(all="ignore"):
        found = ozaki.matmul(*pair, accuracy=accuracy)
        assert same(found, without_numba(ozaki.matmul, *pair, accuracy=accuracy))


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
    "across": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, 2)), 2, 0),
    "apart": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=2)[::2, :, ::3],
    "backwards": lambda x: np.ascontiguousarray(x[::-1, :, ::-1])[::-1, :, ::-1],
}


@settings(suppress_health_check=FIXTURES, max_examples=300, deadline=None)
@given(
    st.integers(2, 40),
    st.tuples(st.integers(1, 12), st.integers(1, 33), st.integers(1, 12)),
    st.sampled_from(list(FACES)),
    st.tuples(st.sampled_from(list(LAYOUTS)), st.sampled_from(list(LAYOUTS))),
    st.one_of(st.sampled_from(["fp64", "fp32", "normwise", "exact"]), st.integers(1, 100)),
    st.tuples(st.sampled_from([0.0, 0.1, 0.6]), st.sampled_from([0, 3, 12, 400, 1070]), st.booleans()),
    st.integers(0, 2**32),
)
def test_products_side_by_side_have_the_bits_of_each_alone(
    stack, shape, dtype, layouts, accuracy, numbers, seed
):
    """Of any layout, with numbers and rows of all sizes, zeros of both signs, and some Inf and NaN."""
    rng, pair, (zeros, spread, special) = np.random.default_rng(seed), [], numbers
    (m, k, n) = shape
    with np.errstate(all="ignore"):
        for size, layout in zip(((stack, m, k), (stack, k, n)), layouts, strict=True):
            x = np.ldexp(rng.standard_normal(size), rng.integers(-spread, spread + 1, size))
            if seed % 2:
                x = np.ldexp(x, rng.integers(-spread, spread + 1, (stack, 1, 1)))
            x[rng.random(size) < zeros] = rng.choice([0.0, -0.0])
            if special:
                x[rng.random(size) < 0.003] = rng.choice([np.inf, -np.inf, np.nan, 5e-324, 1.7e308])
            pair.append(LAYOUTS[layout](in_dtype(x, x, dtype)[0]))
        found = ozaki.matmul(*pair, accuracy=accuracy)
        alone = [ozaki.matmul(x, y, accuracy=accuracy) for x, y in zip(*pair, strict=True)]
    assert same(found, np.array(alone))


@pytest.mark.parametrize("n", [2, 3, 8, 16])
@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("accuracy", ["fp64", "normwise", "exact", 55])
@pytest.mark.parametrize("make", [np.array, np.tril, np.triu])
def test_ordinary_stacks_are_computed_side_by_side(without_numba, monkeypatch, make, accuracy, dtype, n):
    """A last group is filled up; what is left of it, too little for that, is computed one by one."""
    x, y = np.random.default_rng(n).standard_normal((2, 2 * LANES + FEWEST_SIDE_BY_SIDE, n, n))
    a, b = (make(z).astype(dtype) for z in in_dtype(x, y, dtype))
    expected = without_numba(ozaki.matmul, a, b, accuracy=accuracy)
    write_rest, left = SmallProducts._write_rest, []

    def note(self, rows, columns, bits, target, outcomes):
        left.append(np.count_nonzero(outcomes))
        return write_rest(self, rows, columns, bits, target, outcomes)

    monkeypatch.setattr(SmallProducts, "_write_rest", note)
    assert same(ozaki.matmul(a, b, accuracy=accuracy), expected)
    assert sum(left) <= len(a) // 10
    assert same(ozaki.matmul(a[:-1], b[:-1], accuracy=accuracy), expected[:-1])
    assert left[-1] >= FEWEST_SIDE_BY_SIDE - 1
    if n == 16:  # too little memory for so many
        left.clear()
        assert same(ozaki.matmul(a, b, accuracy=accuracy, workspace=80_000), expected)
        assert sum(left) == len(a)


def test_stacks_with_exact_sums_are_rounded_correctly():
    """Also where results are zero, and half way between two numbers."""
    rng = np.random.default_rng(8)
    a = rng.integers(-3, 4, (50, 3, 5)) * 2.0 ** rng.integers(-30, 30, (50, 3, 1))
    b = rng.integers(-3, 4, (50, 5, 4)) * (1 + 2.0**-30 * rng.integers(0, 2, (50, 5, 4)))
    for accuracy in ("fp64", "exact"):
        found = ozaki.matmul(a, b, accuracy=accuracy)
        assert all(same(z, rounded_product(x, y)) for x, y, z in zip(a, b, found, strict=True))


@pytest.mark.parametrize("bits", range(1, 30))
def test_halves_and_few_bits(without_numba, bits):
    """Sums that lie half way between two numbers of the result's format are rounded to even."""
    rng = np.random.default_rng(bits)
    a = rng.integers(-(2**bits), 2**bits, (9, 12)).astype(float)
    b = rng.integers(-(2**bits), 2**bits, (12, 7)).astype(float)
    made = []
    for size in (1.0, 2.0**-70):
        x = a * np.exp2(rng.integers(0, 12, a.shape)) * size
        assert same(ozaki.accurate_dgemm(x, b, accuracy="exact"), rounded_product(x, b))
        y, z = x.astype(np.float32), b.astype(np.float32)
        found = ozaki.accurate_sgemm(y, z, accuracy="exact")
        assert same(found, without_numba(ozaki.accurate_sgemm, y, z, accuracy="exact"))
        made += [direct(x, b, "exact") is not None, direct(y, z, "exact") is not None]
    assert any(made)


def test_sums_that_two_floats_do_not_hold_are_left_to_others():
    """A tie but for what the low float loses, alone and in a stack."""
    a = np.array([[[1.0, 2.0**-53, sign * 2.0**-64]] for sign in (1, 0, -1)])
    b = np.tile([[1.0], [1.0], [2.0**-64]], (3, 1, 1))
    expected = [1 + 2.0**-52, 1, 1]
    taken = [
        by(["floats"], x, y, request_of(x, "exact", "auto", None, "auto", None))[0]
        for x, y in zip(a, b, strict=True)
    ]
    assert [x is not None for x in taken] == [False, True, False]
    for accuracy in ("fp64", "exact"):
        assert ozaki.matmul(a, b, accuracy=accuracy).ravel().tolist() == expected


@pytest.mark.parametrize("dtype", FACES)
def test_layouts_and_read_only_operands(dtype):
    a, b = operands("uniform", (12, 20, 14), dtype, 5)
    expected = FACES[dtype](a, b)
    frozen = a.copy()
    frozen.flags.writeable = False
    for x in (np.asfortranarray(a), frozen, np.repeat(a, 2, axis=1)[:, ::2], a[::-1][::-1]):
        assert same(FACES[dtype](x, np.asfortranarray(b)), expected)
        assert same(direct(x, np.asfortranarray(b), TARGETS[dtype]), expected)
    assert same(FACES[dtype](np.ascontiguousarray(a.T), b.T, trans_a=True, trans_b=True), expected)
    assert same(FACES[dtype](ozaki.prepare(a), ozaki.prepare(b, "right")), expected)
    assert same(FACES[dtype](a, b, scheme="residues"), expected)


@pytest.mark.parametrize("dtype", FACES)
def test_columns_at_any_distance(dtype):
    """NumPy 2.4 negates numbers that lie 64 bytes apart wrongly if the result has strides, too."""
    a, b = operands("uniform", (3, 20, 1), dtype, 1)
    expected = FACES[dtype](a, b)
    for distance in range(1, 12):
        wide = np.zeros((20, distance), dtype)
        wide[:, :1] = b
        assert same(FACES[dtype](a, wide[:, :1]), expected)
        assert same(FACES[dtype](wide.T[:1], a.T), np.ascontiguousarray(expected.T))


def test_named_schemes_words_and_engines_take_the_pipeline():
    a, b = operands("uniform", (4, 5, 6), "float64", 1)
    for options in ({"scheme": "slices"}, {"word": "int8"}, {"engine": "tensorcore"}):
        assert direct(a, b, **options) is None


def test_threads():
    a, b = operands("uniform", (16, 16, 16), "float64", 3)
    expected = ozaki.accurate_dgemm(a, b)
    with ThreadPoolExecutor(24) as pool:
        results = list(pool.map(lambda _: ozaki.accurate_dgemm(a, b), range(200)))
    assert all(same(x, expected) for x in results)


@pytest.mark.parametrize("accuracy", ["fp64", "fp32"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("kind", KINDS)
def test_scales_of_single_products_are_the_pipelines(kind, dtype, accuracy):
    a, b = operands(kind, (70, 80, 90), dtype, 5)
    request = request_of(a, accuracy, "auto", None, "auto", None)
    with np.errstate(all="ignore"):
        pair = Pair(Factor(a, 0, prepared=True), Factor(b, 1), request)
        found = scaled_by_counting(pair)
        if found is None:
            return
        _, expected, certificate = scale(Pair(Factor(a, 0), Factor(b, 1), request))
        again = scaled_by_counting(pair)
    for x, y in zip(found.scales, expected.scales, strict=True):
        np.testing.assert_array_equal(x, y)
    assert found.scheme.system == expected.scheme.system
    assert found.nonfinite == expected.nonfinite
    assert not certificate.pairwise
    assert again.scales[0] is found.scales[0]  # by which a prepared split is known


def test_scales_of_ordinary_numbers_are_counted():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100, 100))
    request = request_of(a, "fp64", "auto", None, "auto", None)
    assert scaled_by_counting(Pair(Factor(a, 0), Factor(b, 1), request)) is not None
    a[3, 4] = np.nan
    with np.errstate(all="ignore"):
        assert scaled_by_counting(Pair(Factor(a, 0), Factor(b, 1), request)) is None
