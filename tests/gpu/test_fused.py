"""Products of residues, reduced in the kernel: exact residues, and the bits of all other products."""

import math

import numpy as np
import pytest

import ozaki
from multiword.engines import cublas, machine, residues
from multiword.engines.fused import HOPPER, HOPPER_ALONE, LARGE, MIDDLE, SMALL
from multiword.engines.moduli import residue_system
from multiword.engines.residues import LONGEST
from multiword.tuning import SHORTEST_SHARE
from ozaki import accurate_dgemm
from ozaki.execution import cache
from tests import golden
from tests.matrices import FACES, GOLDEN, KINDS, in_dtype, long_rows, matrices
from tests.oracle import same

pytestmark = pytest.mark.gpu

TILES = {"large": LARGE, "middle": MIDDLE, "small": SMALL, "hopper": HOPPER, "hopper alone": HOPPER_ALONE}
MODULI = {
    "usual": residue_system("int8", 109.2, 4096).moduli,
    "all": residue_system("int8", 329.0, 4096).moduli,
    "one": (255,),
}


def reference(a, b, moduli, earlier=0):
    """Residues of least magnitude of A·Bᵀ, in integers: the terms are exact in float64."""
    exact = np.matmul(a.astype(float), b.astype(float).swapaxes(-1, -2)).astype(np.int64) + earlier
    p = np.resize(moduli, len(a))[:, None, None, None]
    return ((exact + p // 2) % p - p // 2).astype(np.int8)


def words(cupy, rng, shape, margins=(0, 0, 0, 0)):
    """Random bytes, in the middle of others."""
    whole = rng.integers(-128, 128, [d + e for d, e in zip(shape, margins, strict=True)], dtype=np.int8)
    part = tuple(slice(0, d) for d in shape)
    return whole[part], cupy.asarray(whole)[part]


@pytest.fixture
def engine(cupy):
    return cublas.Cublas(fused=True)


@pytest.fixture(params=TILES)
def tile(request, cupy, monkeypatch):
    """Every product with this tile."""
    if TILES[request.param].wgmma and machine.compute_capability() != (9, 0):
        pytest.skip("Hopper's own instructions")
    monkeypatch.setattr(residues, "choose_tile", lambda *_: TILES[request.param])
    return TILES[request.param]


SHAPES = [
    *((1, 1, 16), (3, 5, 48), (16, 16, 16), (33, 31, 320), (64, 64, 64), (65, 127, 112)),
    *((128, 256, 128), (129, 257, 144), (200, 300, 1040), (1, 700, 2048), (513, 4, 256), (7, 9, 0)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("moduli", MODULI)
@pytest.mark.parametrize("stack", [1, 3])
def test_residues_are_exact(cupy, engine, tile, stack, moduli, shape):
    (m, n, k), p = shape, MODULI[moduli]
    rng = np.random.default_rng(m * n + k)
    images = 3 * len(p) if moduli == "usual" else len(p)
    a, x = words(cupy, rng, (images, stack, m, k))
    b, y = words(cupy, rng, (images, stack, n, k))
    found = engine.multiply_residues(x, y, p)
    assert np.array_equal(found.get(), reference(a, b, p))


@pytest.mark.parametrize("width", range(16, 257, 16))
def test_tiles_of_every_width(cupy, engine, tile, width):
    """Of one tile across, and of two."""
    p = MODULI["usual"][:3]
    for n in (width, width - 3, 256 + width, 2 * width - 12):
        rng = np.random.default_rng(n)
        a, x = words(cupy, rng, (3, 2, 150, 208))
        b, y = words(cupy, rng, (3, 2, n, 208))
        found = engine.multiply_residues(x, y, p)
        assert np.array_equal(found.get(), reference(a, b, p))
        if n % 4 == 0:  # as products are padded
            engine.multiply_residues(x, y, p, out=found, add=True)
            assert np.array_equal(found.get(), reference(a, b, p, reference(a, b, p).astype(np.int64)))


def test_one_row_may_lie_anywhere(cupy, engine, tile):
    """Views of one row have any stride."""
    p = MODULI["usual"][:2]
    a, x = words(cupy, np.random.default_rng(1), (2, 1, 100, 48))
    b, y = words(cupy, np.random.default_rng(2), (2, 1, 1, 48))
    for stride in (0, 5):
        row = cupy.lib.stride_tricks.as_strided(y, strides=(48, stride, stride, 1))
        found = engine.multiply_residues(x, row, p)
        assert np.array_equal(found.get(), reference(a, b, p))


@pytest.mark.parametrize("n", [1, 33, 257, 600, 1100, 2800])
@pytest.mark.parametrize("stack", [1, 2])
def test_of_a_symmetric_product_nothing_below_the_diagonal_is_missing(cupy, engine, tile, stack, n):
    p = MODULI["usual"][:2]
    a, x = words(cupy, np.random.default_rng(n), (4, stack, n, 32))
    out = cupy.full((4, stack, n, n), 77, np.int8)
    assert engine.multiply_residues(x, x, p, out=out, symmetric=True) is out
    found, whole = out.get(), reference(a, a, p)
    assert np.array_equal(np.tril(found), np.tril(whole))
    if n > 8 * tile.n:  # squares above the diagonal are left out
        assert (found[:, :, : tile.n, -tile.n :] == 77).all()
    with pytest.raises(ValueError, match="square"):
        engine.multiply_residues(x, x[:, :, :0], p, symmetric=True)


@pytest.mark.parametrize("moduli", MODULI)
def test_products_are_multiplied_by_weights(cupy, engine, tile, moduli):
    p, rng = MODULI[moduli], np.random.default_rng(1)
    weights = tuple(int(rng.choice([w for w in range(1, q) if math.gcd(w, q) == 1])) for q in p)
    a, x = words(cupy, rng, (len(p), 1, 40, 64))
    b, y = words(cupy, rng, (len(p), 1, 50, 64))
    found = engine.multiply_residues(x, y, p, weights=weights)
    scaled = np.array([int(w) for w in weights])[:, None, None, None] * a.astype(np.int64)
    assert np.array_equal(found.get(), reference(scaled, b, p))


@pytest.mark.parametrize("case", range(20))
def test_random_shapes_strides_and_sums(cupy, engine, tile, case):
    rng = np.random.default_rng(case)
    images, stack = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    m, n = (int(2 ** rng.uniform(0, 9)) for _ in range(2))
    k = 16 * int(2 ** rng.uniform(0, 6))
    p = tuple(rng.choice(MODULI["all"], images, replace=False).tolist())
    margins = [rng.integers(0, 3), rng.integers(0, 2), rng.integers(0, 9), 16 * rng.integers(0, 3)]
    a, x = words(cupy, rng, (images, stack, m, k), margins)
    b, y = words(cupy, rng, (images, stack, n, k), margins)
    whole = cupy.full((images, stack + 1, m + 2, n + int(rng.integers(0, 20))), 77, np.int8)
    out = whole[:, :stack, 1 : m + 1, int(rng.integers(0, 2)) :][..., :n]
    n = out.shape[3]
    b, y = b[:, :, :n], y[:, :, :n]
    assert engine.multiply_residues(x, y, p, out=out) is out
    once = reference(a, b, p)
    assert np.array_equal(out.get(), once)
    engine.multiply_residues(x, y, p, out=out, add=True)
    assert np.array_equal(out.get(), reference(a, b, p, once.astype(np.int64)))
    out[...] = 77
    assert bool((whole == 77).all())  # nothing is written beside it


@pytest.mark.parametrize("case", range(12))
def test_a_long_inner_dimension_is_computed_in_shares(cupy, engine, case):
    rng = np.random.default_rng(case)
    p = MODULI["all" if case % 3 == 0 else "usual"]
    m, n = (int(rng.integers(1, (100, 20)[case % 3 == 0])) for _ in range(2))
    k = 16 * int(rng.integers(4 * SHORTEST_SHARE // 16, 3000))
    assert residues.share_of_k(m, k, n, len(p))
    a, x = words(cupy, rng, (len(p), 1, m, k), (0, 0, 1, 32))
    b, y = words(cupy, rng, (len(p), 1, n, k), (1, 0, 2, 0))
    whole = cupy.full((len(p), 1, m + 2, n + 3), 77, np.int8)
    out = whole[:, :, 1 : m + 1, 2 : n + 2]
    assert engine.multiply_residues(x, y, p, out=out) is out
    once = reference(a, b, p)
    assert np.array_equal(out.get(), once)
    engine.multiply_residues(x, y, p, out=out, add=True)
    assert np.array_equal(out.get(), reference(a, b, p, once.astype(np.int64)))
    weights = tuple(next(w for w in range(2, q) if math.gcd(w, q) == 1) for q in p)
    engine.multiply_residues(x, y, p, out=out, weights=weights)
    scaled = np.array(weights)[:, None, None, None] * a.astype(np.int64)
    assert np.array_equal(out.get(), reference(scaled, b, p))
    out[...] = 77
    assert bool((whole == 77).all())  # nothing is written beside it


def test_nothing_is_shared_out_of_an_empty_result(cupy, engine):
    assert not engine.reduces("int8", (0, 10**6, 5))
    assert not engine.reduces("int8", (5, 10**6, 0))


@pytest.mark.parametrize("case", range(8))
def test_int32_products_of_a_long_inner_dimension(cupy, engine, case):
    rng = np.random.default_rng(case)
    m, n = (4 * int(rng.integers(1, 16)) for _ in range(2))
    k = 4 * int(rng.integers(4 * SHORTEST_SHARE // 4, 12000))
    assert residues.share_of_k(m, k, n, 1)
    a, x = words(cupy, rng, (m, k), (1, 16))
    b, y = words(cupy, rng, (n, k), (0, 32))
    exact = (a.astype(float) @ b.astype(float).T).astype(np.int64)
    earlier = rng.integers(-99, 99, (m, n)).astype(np.int32)
    for alpha, beta in ((1, 0), (1, 1), (-3, 2)):
        out = cupy.asarray(earlier)
        assert engine.multiply("int8", x, y, out=out, alpha=alpha, beta=beta) is out
        assert np.array_equal(out.get(), (alpha * exact + beta * earlier).astype(np.int32))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("k", [LONGEST, LONGEST + 16, 2 * LONGEST + 4096])
def test_the_largest_sums(cupy, engine, tile, k, shared, monkeypatch):
    p = MODULI["usual"]
    if not shared:
        monkeypatch.setattr(residues, "share_of_k", lambda *_: 0)
    for left, right in ((-128, -128), (-128, 127), (127, 127)):
        a = np.full((len(p), 1, 2, k), left, np.int8)
        b = np.full((len(p), 1, 3, k), right, np.int8)
        found = engine.multiply_residues(cupy.asarray(a), cupy.asarray(b), p)
        assert np.array_equal(found.get(), reference(a, b, p))


def test_what_does_not_fit_is_refused(cupy, engine):
    x, y = cupy.zeros((2, 1, 4, 32), np.int8), cupy.zeros((2, 1, 5, 32), np.int8)
    for arguments, options, message in (
        ((x, y[:1], (3,)), {}, "agree"),
        ((x[..., :8], y[..., :8], (3,)), {}, "aligned"),
        ((x[..., 8:24], y[..., 8:24], (3,)), {}, "aligned"),
        ((x, y, (6,)), {}, "moduli"),
        ((x, y, ()), {}, "moduli"),
        ((x, y, (3,)), {"add": True}, "out must be given"),
        ((x, y, (3,)), {"out": cupy.zeros((2, 1, 4, 4), np.int8)}, "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.multiply_residues(*arguments, **options)
    for arguments in ((x.get(), y, (3,)), (x, y.astype(np.int32), (3,))):
        with pytest.raises(TypeError):
            engine.multiply_residues(*arguments)


@pytest.fixture
def always(cupy, monkeypatch):
    """Products of residues are reduced in the kernel whatever is faster, counted, and not replayed."""
    cache.forget()
    monkeypatch.setattr(cublas, "longest_reduced", lambda engine: 1 << 40)
    calls, multiply = [], cublas.multiply_residues

    def counted(*arguments, **options):
        calls.append(arguments[0].shape)
        return multiply(*arguments, **options)

    monkeypatch.setattr(cublas, "multiply_residues", counted)
    return calls


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(cupy, always, name):
    kind, shape, accuracy = GOLDEN[name]
    a, b = (cupy.asarray(x) for x in matrices(kind, *shape))
    for _ in range(3):  # launched, captured, replayed
        assert ozaki.fingerprint(accurate_dgemm(a, b, accuracy=accuracy)) == golden.load()[name]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(300, 1000, 257), (13, 5000, 13), (1025, 33, 640)], ids=str)
def test_products_are_the_hosts(cupy, always, kind, shape):
    a, b = matrices(kind, *shape, seed=3)
    expected = accurate_dgemm(a, b)
    x, y = cupy.asarray(a), cupy.asarray(b)
    for options in ({}, {}, {"workspace": 1 << 21}):
        assert same(accurate_dgemm(x, y, **options).get(), expected)
    assert always or kind == "wide20"  # some of whose integers take fp64 moduli


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("accuracy", ["fp32", "fp64", "exact", 30])
def test_other_precisions(cupy, always, dtype, accuracy):
    a, b = in_dtype(*matrices("wide2", 60, 301, 45), dtype)
    expected = FACES[dtype](a, b, accuracy=accuracy)
    for options in ({}, {}, {"workspace": 3 << 18}):
        assert same(
            FACES[dtype](cupy.asarray(a), cupy.asarray(b), accuracy=accuracy, **options).get(), expected
        )
    assert always


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize(
    "shape",
    [(40, 16, 16, 16), (40, 3, 5, 2), (20, 64, 64, 64), (17, 70, 33, 130), (16, 1, 200, 257)],
    ids=str,
)
def test_stacks(cupy, always, shape, dtype):
    stack, m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((stack, m, k)), rng.standard_normal((stack, k, n))
    if dtype.startswith("c"):
        a, b = a + 1j * a[:, ::-1], b - 1j * b[:, :, ::-1]
    a, b = a.astype(dtype), b.astype(dtype)
    assert same(ozaki.matmul(cupy.asarray(a), cupy.asarray(b), scheme="residues").get(), ozaki.matmul(a, b))
    assert always


def test_a_long_inner_dimension(cupy, always):
    a, b = long_rows()
    expected = accurate_dgemm(a, b, accuracy="exact")
    result = accurate_dgemm(cupy.asarray(a), cupy.asarray(b), accuracy="exact", word="int8")
    assert same(result.get(), expected)
    assert len(always) == 2


def test_cublas_by_name_leaves_everything_to_cublas(cupy, always):
    a, b = (cupy.asarray(x) for x in matrices("uniform", 70, 130, 90))
    for _ in range(3):
        accurate_dgemm(a, b, engine="cublas")
    assert not always
    accurate_dgemm(a, b)
    assert always
