"""Products of small and of thin matrices in limbs: the bits of residues, for all data and layouts."""

import numpy as np
import pytest

import ozaki
from ozaki.execution import cache, stacks
from ozaki.product import limbs
from ozaki.product.limbs import columns, small, thin
from tests.matrices import FACES, KINDS, in_dtype, long_rows, matrices
from tests.oracle import same

pytestmark = pytest.mark.gpu

SHAPES = [
    (1, 1, 1),
    (3, 4, 5),
    (16, 16, 16),
    (17, 5, 70),
    (40, 33, 31),
    (64, 64, 64),
    (70, 130, 90),
    (5, 300, 2),
]


@pytest.fixture
def cupy(monkeypatch):
    """CuPy, with limbs wherever there are enough of them."""
    cache.forget()
    monkeypatch.setattr(small, "LIMB_PRODUCTS", (1 << 40, 1 << 40))
    yield pytest.importorskip("cupy")
    cache.forget()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FACES)
def test_bits_of_every_kind_of_data(cupy, kind, dtype):
    for shape in SHAPES:
        for accuracy in ("fp64", "fp32", "normwise"):
            a, b = in_dtype(*matrices(kind, *shape), dtype)
            x, y = cupy.asarray(a), cupy.asarray(b)
            expected = FACES[dtype](a, b, accuracy=accuracy)
            for _ in range(3):  # kernel by kernel, captured, replayed
                result = FACES[dtype](x, y, accuracy=accuracy)
                assert same(result.get(), expected), (shape, accuracy)


@pytest.mark.parametrize("dtype", FACES)
def test_stacks_of_every_layout(cupy, dtype):
    rng = np.random.default_rng(3)
    for s, m, k, n in ((2, 7, 9, 8), (5, 33, 20, 36), (40, 16, 16, 16), (20, 32, 70, 4)):
        of_stack = [matrices(KINDS[i % len(KINDS)], m, k, n, seed=i) for i in range(s)]
        pairs = [in_dtype(a, b, dtype) for a, b in of_stack]
        a, b = (np.stack(x) for x in zip(*pairs, strict=True))
        a[rng.integers(s), 0, 0] = np.inf
        b[rng.integers(s), -1, -1] = np.nan
        expected = ozaki.matmul(a, b)
        x, y = cupy.asarray(a), cupy.asarray(b)
        turned = x.swapaxes(1, 2).copy().swapaxes(1, 2), y.swapaxes(1, 2).copy().swapaxes(1, 2)
        every_other = cupy.zeros((2 * s, m, 2 * k), x.dtype)[::2, :, ::2]
        every_other[...] = x
        for left, right in ((x, y), turned, (every_other, y), (x[::-1][::-1], turned[1])):
            for _ in range(3):
                assert same(ozaki.matmul(left, right).get(), expected), (s, m, k, n)


def test_more_rows_than_a_grid_is_high(cupy):
    a, b = (
        np.random.default_rng(i).standard_normal(shape)
        for i, shape in ((1, (4, 1_100_000, 2)), (2, (4, 2, 4)))
    )
    expected = ozaki.matmul(a, b)
    for _ in range(2):
        assert same(ozaki.matmul(cupy.asarray(a), cupy.asarray(b)).get(), expected)


THIN = [(1, 70, 90), (2, 1000, 33), (3, 65, 700), (12, 4096, 64), (5, 31, 1), (16, 100, 257), (8, 2048, 40)]
"""Columns, numbers of the inner dimension, and rows."""


@pytest.fixture
def shares(request, cupy, monkeypatch):
    """CuPy, with products of few columns in these limbs alone, k in as many shares as may be, or in one."""
    monkeypatch.setattr(small, "LIMB_PRODUCTS", (0, 0))
    monkeypatch.setattr(thin, "THIN_SHARE", 64 if request.param else 1 << 40)
    cache.forget()
    return cupy


@pytest.mark.parametrize("shares", [False, True], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FACES)
def test_bits_of_few_columns_and_of_few_rows(shares, kind, dtype):
    assert_bits_of_columns_and_rows(shares, THIN, kind, dtype)


def assert_bits_of_columns_and_rows(xp, shapes, kind, dtype):
    for few, k, many in shapes:
        for m, n in ((many, few), (few, many)):
            a, b = in_dtype(*matrices(kind, m, k, n), dtype)
            expected = FACES[dtype](a, b)
            for order in "CF":
                x, y = (xp.asarray(z, order=order) for z in (a, b))
                for _ in range(3):  # kernel by kernel, captured, replayed
                    assert same(FACES[dtype](x, y).get(), expected), (m, k, n, order)


@pytest.mark.parametrize("shares", [False, True], indirect=True)
def test_few_columns_of_every_view(shares):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((300, 500)), rng.standard_normal((500, 6))
    a[7, 3], b[11, 2], a[9] = np.inf, np.nan, 0
    expected = ozaki.accurate_dgemm(a, b)
    wide, tall = shares.zeros((600, 1000)), shares.zeros((1000, 12))
    wide[::2, ::2], tall[::2, ::2] = shares.asarray(a), shares.asarray(b)
    views = [
        (shares.asarray(a)[::-1, ::-1], shares.asarray(b)[::-1]),
        (wide[::2, ::2], tall[::2, ::2]),
        (wide.T[::2, ::2].T, tall[::2, ::2]),
    ]
    for i, (x, y) in enumerate(views):
        out = shares.zeros((6, 600)).T[::2] if i else shares.zeros((300, 6))
        for _ in range(3):
            ozaki.accurate_dgemm(x, y, out=out)
            assert same(out.get(), expected if i else expected[::-1])


@pytest.mark.parametrize("kind", KINDS)
def test_many_short_rows(cupy, kind):
    """As many as make the bounds of each 32 a warp's own; in limbs of both sorts, and in residues."""
    for m, k, n in ((100_000, 4, 3), (2, 7, 80_000), (90_000, 16, 25), (70_000, 40, 20)):
        a, b = matrices(kind, m, k, n)
        a[m // 2, 0], b[-1, n // 2] = np.nan, np.inf
        expected = ozaki.accurate_dgemm(a, b)
        x, y = cupy.asarray(a), cupy.asarray(b)
        for _ in range(3):
            assert same(ozaki.accurate_dgemm(x, y).get(), expected), (m, k, n)


WIDE = [
    (17, 70, 90),
    (40, 1000, 33),
    (64, 65, 700),
    (5, 4096, 64),
    (33, 31, 65),
    (128, 100, 257),
    (8, 2048, 40),
    (20, 33, 129),
]
"""Columns, numbers of the inner dimension, and rows."""


@pytest.fixture
def in_bytes(request, cupy, monkeypatch):
    """CuPy, with some tens of columns in limbs of a byte, k in as many shares as may be, or in one."""
    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("Hopper's tensor cores")
    monkeypatch.setattr(small, "LIMB_PRODUCTS", (0, 0))
    monkeypatch.setattr(limbs, "FEW_PRODUCTS", 0)
    monkeypatch.setattr(columns, "SHORT_ROWS", 0)
    monkeypatch.setattr(columns, "LEAST_IN_BYTES", 1)
    monkeypatch.setattr(columns, "STEPS_OF_A_BLOCK", 1 if request.param else 1 << 40)
    cache.forget()
    return cupy


@pytest.mark.parametrize("in_bytes", [False, True], indirect=True)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FACES)
def test_bits_of_some_tens_of_columns_and_rows(in_bytes, kind, dtype):
    assert_bits_of_columns_and_rows(in_bytes, WIDE, kind, dtype)


@pytest.mark.parametrize("in_bytes", [False, True], indirect=True)
@pytest.mark.parametrize("dtype", FACES)
def test_integers_of_every_width_in_bytes(in_bytes, dtype):
    for kind in ("integers", "uniform", "wide2", "sparse"):
        for accuracy in ("exact", 8, 24, 36, 40, 45, 53, 61):
            a, b = in_dtype(*matrices(kind, 130, 71, 40), dtype)
            a = np.rint(a * 64) if accuracy == "exact" else a  # not as wide as B
            expected = FACES[dtype](a, b, accuracy=accuracy)
            for x, y in ((a, b), (b.T, a.T)):
                got = FACES[dtype](in_bytes.asarray(x), in_bytes.asarray(y), accuracy=accuracy).get()
                assert same(got, expected if x is a else expected.T), (kind, accuracy)


@pytest.mark.parametrize("in_bytes", [False], indirect=True)
def test_a_stack_of_one_in_bytes(in_bytes, monkeypatch):
    """What is left of a long stack is one product, whose rows are not a matrix's."""
    monkeypatch.setattr(stacks, "AT_ONCE", 20)
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((64, 65)), rng.standard_normal((21, 65, 8))
    expected = ozaki.matmul(a, b)
    for _ in range(3):
        assert same(ozaki.matmul(in_bytes.asarray(a), in_bytes.asarray(b)).get(), expected)


@pytest.mark.parametrize("in_bytes", [False, True], indirect=True)
@pytest.mark.parametrize("dtype", FACES)
def test_some_tens_of_columns_of_every_view(in_bytes, dtype):
    a, b = in_dtype(*matrices("wide2", 300, 500, 40), dtype)
    a[7, 3], b[11, 2], a[9] = np.inf, np.nan, 0
    expected = FACES[dtype](a, b)
    wide, tall = in_bytes.zeros((600, 1001), a.dtype), in_bytes.zeros((1000, 80), a.dtype)
    wide[::2, ::2][:, :500], tall[::2, ::2] = in_bytes.asarray(a), in_bytes.asarray(b)
    beside, odd = in_bytes.zeros((300, 501), a.dtype), in_bytes.zeros((300, 502), a.dtype)
    beside[:, 1:], odd[:, 1:501] = in_bytes.asarray(a), in_bytes.asarray(a)
    turned = in_bytes.asarray(a, order="F")
    views = [in_bytes.asarray(a)[:, ::-1][:, ::-1], wide[::2, :999:2][:, :500], beside[:, 1:], odd[:, 1:501]]
    for x in (*views, turned, in_bytes.asarray(a[::-1])[::-1]):
        for y in (tall[::2, ::2], in_bytes.asarray(b), in_bytes.asarray(b.T).T):
            out = in_bytes.zeros((40, 600), a.dtype).T[::2]
            for _ in range(3):
                FACES[dtype](x, y, out=out)
                assert same(out.get(), expected)


@pytest.mark.parametrize("in_bytes", [False], indirect=True)
def test_rows_of_numbers_as_small_and_as_large_as_there_are(in_bytes):
    rng = np.random.default_rng(8)
    of_double, of_float = (-1074, -1040, -1000, 900, 970), (-149, -130, -100, 80, 96)
    for dtype, exponents in ((np.float64, of_double), (np.float32, of_float)):
        a = np.ldexp(rng.integers(-(2**20), 2**20, (200, 150)).astype(dtype), 0)
        a *= rng.random(a.shape) < 0.7
        with np.errstate(over="ignore", under="ignore"):
            a = np.ldexp(a, np.resize(exponents, 200)[:, None]).astype(dtype)
            b = np.ldexp(rng.integers(-9, 9, (150, 40)).astype(dtype), np.resize((0, exponents[0] // 2), 40))
        face = FACES[a.dtype.name]
        for x, y in ((a, b), (b.T.copy(), a.T.copy())):
            for accuracy in ("fp64", "fp32"):
                expected = face(x, y, accuracy=accuracy)
                assert same(face(in_bytes.asarray(x), in_bytes.asarray(y), accuracy=accuracy).get(), expected)


@pytest.mark.parametrize("in_bytes", [False, True], indirect=True)
def test_long_inner_dimensions_in_bytes(in_bytes):
    a, b = long_rows()
    b = np.concatenate([b, -b, b[::-1]], axis=1)
    expected = ozaki.accurate_dgemm(a, b)
    for _ in range(3):
        assert same(ozaki.accurate_dgemm(in_bytes.asarray(a), in_bytes.asarray(b)).get(), expected)


def test_limbs_take_the_products_of_few_columns(cupy, monkeypatch):
    """The tests above would pass without."""
    calls = []
    monkeypatch.setattr(small, "LIMB_PRODUCTS", (0, 0))
    monkeypatch.setattr("ozaki.product.limbs.multiply_thin", lambda *args: calls.append(args[0].share))
    few, more = (cupy.ones((500, n)) for n in (12, 13))
    ozaki.accurate_dgemm(cupy.ones((300, 500)), few)
    assert calls
    assert "limbs: 2 limbs, 4 int32 products" in str(ozaki.plan(cupy.ones((300, 500)), few))
    calls.clear()
    ozaki.accurate_dgemm(cupy.ones((300, 500)), more)
    assert not calls
    assert ozaki.plan(cupy.ones((300, 500)), more).scheme == "residues"


def test_limbs_of_a_byte_take_the_products_of_tens_of_columns(cupy, monkeypatch):
    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("Hopper's tensor cores")
    monkeypatch.setattr(small, "LIMB_PRODUCTS", (0, 0))
    for m, k, n in ((2000, 1000, 64), (64, 2000, 1000)):
        plan = ozaki.plan(cupy.ones((m, k)), cupy.ones((k, n)))
        assert "limbs: 7 limbs, 49 int8 products" in str(plan)
        assert plan.predicted_seconds is None or plan.predicted_seconds > 0
    assert ozaki.plan(cupy.ones((2000, 1000)), cupy.ones((1000, 129))).scheme == "residues"
