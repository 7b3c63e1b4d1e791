"""Products of Dask arrays in pieces: the bits of the whole, for any chunks and every accuracy."""

from itertools import cycle

import numpy as np
import pytest

import ozaki
from multiword.engines import get_engine
from multiword.engines.host import Host
from tests.cells import cells
from tests.oracle import nearest
from tests.scaling.test_equilibration import graded

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
from dask.callbacks import Callback  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402

pytestmark = pytest.mark.usefixtures("dask_in_this_thread", "modular")

CHUNKS = [
    ((9, 20), (20, 7)),
    ((4, 6), (7, 3)),
    (((0, 8, 1), (1, 19)), (5, (6, 0, 1))),
    (((3, 0, 6), (0, 20)), (20, (3, 4))),  # the inner dimension in one piece
]


def factors(dtype, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((9, 20)), rng.standard_normal((20, 7))
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * rng.standard_normal(a.shape), b - 1j * b[::-1]
    return (a * 100).astype(dtype), (b * 100).astype(dtype)


def check(a, b, chunks=CHUNKS, **options):
    expected = ozaki.matmul(a, b, **options)
    for of_a, of_b in chunks:
        x, y = da.from_array(a, chunks=of_a), da.from_array(b, chunks=of_b)
        lazy = ozaki.matmul(x, y, **options)
        assert isinstance(lazy, da.Array)
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        assert lazy.chunks == (x.chunks[0], y.chunks[1])
        found = lazy.compute()
        assert found.dtype == expected.dtype
        assert ozaki.fingerprint(found) == ozaki.fingerprint(expected), (of_a, of_b, options)


@cells(dtype=["f8", "f4", "c16", "c8", "i4", "f2"])
def test_the_bits_of_the_whole(dtype):
    a, b = factors(dtype)
    for accuracy, chunks in zip((None, "exact", 30), CHUNKS[1:], strict=True):
        check(a, b, [chunks], accuracy=accuracy)
    check(a, b, accuracy="normwise")
    check(a, b, CHUNKS[:2], engine="modular")


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        (((5, 4, 6), (2, 3, 4)), ((5, 6, 3), (3, 6, 2))),
        (((2, 1, 4, 6), 2), ((5, 6, 3), 2)),
        (((4, 6), 3), ((5, 6, 3), ((0, 4, 1), 2, (1, 0, 2)))),
        (((6,), 4), ((5, 6, 3), 2)),
        (((5, 4, 6), 2), ((6,), 4)),
        (((0, 4, 6), 2), ((6, 3), 3)),
        (((3, 4, 0), 2), ((3, 0, 2), 2)),
    ],
)
def test_stacks(of_a, of_b):
    """Cut anywhere, also within their matrices; what broadcasts has a chunk of its own."""
    rng = np.random.default_rng(7)
    for dtype in ("f8", "i4"):
        a, b = ((rng.standard_normal(shape) * 50).astype(dtype) for shape, _ in (of_a, of_b))
        lazy = ozaki.matmul(*(da.from_array(x, chunks=c) for x, (_, c) in ((a, of_a), (b, of_b))))
        found, expected = lazy.compute(), ozaki.matmul(a, b)
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f8", "c8"])
def test_nonfinite_zero_and_wide_rows(dtype):
    a, b = factors(dtype)
    a[1, 3], a[2, :], a[3, 5], a[4] = np.inf, 0, -np.inf, a[4] * 2.0**40
    b[7, 2], b[5, 4], b[3, 1], b[:, 6] = np.nan, -np.inf, 0, 0
    for accuracy in (None, "exact", 60):
        check(a, b, accuracy=accuracy)


@pytest.mark.parametrize("kind", ["spread", "sparse", "graded"])
def test_the_certificate_decides_as_for_the_whole(kind):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((12, 40)), rng.standard_normal((40, 9))
    if kind == "spread":
        a, b = (x * np.exp(3 * rng.standard_normal(x.shape)) for x in (a, b))
    elif kind == "sparse":
        a, b = (x * (rng.random(x.shape) < 0.05) for x in (a, b))
    else:
        grades = 2.0 ** np.linspace(-100, 100, 40)
        a, b = a * grades, b / grades[:, None]
    check(a, b, [((5, 11), (13, 4))])
    check(a.astype(np.float32), (b + 1j * b[::-1]).astype(np.complex64), [((5, 11), (13, 4))])


@cells(kind=["linear", "random", "blocks", "zeros", "nan", "not exact", "one row"])
def test_a_graded_inner_dimension_is_equilibrated_as_that_of_the_whole(kind):
    shape = (1 if kind == "one row" else 7, 40, 5)
    for dtype in ("f8", "c8"):
        a, b = graded(
            "linear" if kind in ("nan", "not exact", "one row") else kind, shape, np.dtype(dtype).name
        )
        if kind == "nan":
            a[1, 3], b[5, 2], a[3, 39] = np.nan, np.inf, -np.inf
            a[1, 39] = np.finfo(dtype).smallest_subnormal  # which needs not be multiplied exactly
        if kind == "not exact":
            a[3, -1] = np.finfo(dtype).smallest_subnormal
        whole, uneven = ((3, 40), (40, 4)), ((4, 11), (13, 4))
        single = (((3, 0, shape[0] - 3) if shape[0] > 3 else 1, 1), (1, 5))
        check(a, b, [uneven, single] if dtype == "f8" else [whole])


def test_exact_products_are_nearest():
    from fractions import Fraction

    rng = np.random.default_rng(2)
    a, b = np.ldexp(rng.standard_normal((2, 3, 30)), rng.integers(-300, 300, (2, 3, 30)))
    found = ozaki.matmul(da.from_array(a, chunks=(2, 7)), da.from_array(b.T, chunks=(4, 2)), accuracy="exact")
    for (i, j), value in np.ndenumerate(found.compute()):
        exact = sum(Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[j].tolist(), strict=True))
        assert value == nearest(exact)


def test_vectors_and_empty_arrays():
    a, b = factors("f8")
    x, y = da.from_array(a, chunks=4), da.from_array(b, chunks=3)
    for left, right, of_left, of_right in (
        (a[0], b, x[0], y),
        (a, b[:, 0], x, y[:, 0]),
        (a[0], b[:, 0], x[0], y[:, 0]),
    ):
        expected = ozaki.matmul(left, right)
        lazy = ozaki.matmul(of_left, of_right)
        assert lazy.shape == np.shape(expected)
        assert ozaki.fingerprint(lazy.compute()) == ozaki.fingerprint(expected)
    assert ozaki.matmul(x, b).compute().tobytes() == ozaki.matmul(a, b).tobytes()
    for shape in ((0, 20), (9, 0)):
        empty = np.zeros(shape)
        other = np.ones((shape[1], 7))
        lazy = ozaki.matmul(da.from_array(empty), da.from_array(other, chunks=3))
        assert lazy.compute().tobytes() == ozaki.matmul(empty, other).tobytes()
    assert ozaki.matmul(x[:, :0], y[:0]).compute().tobytes() == bytes(9 * 7 * 8)


def test_partial_products_take_a_byte_a_modulus():
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((30, 40)), rng.standard_normal((40, 30))
    for chunk in (10, 20):
        graph = ozaki.matmul(da.from_array(a, chunks=chunk), da.from_array(b, chunks=chunk)).dask
        products = [key for key in graph if str(key[0]).startswith("ozaki-matmul-products")]
        assert len(products) > 1
        for part in dask.get(graph, products):
            # Five moduli of fp64 words, four bytes each.
            assert part.residues.nbytes == 20 * part.residues[0, 0].size


@pytest.mark.parametrize("kind", ["normal", "graded"])
def test_blocks_are_the_results_of_no_task_but_those_that_multiply(kind):
    """Another would lie on one worker, and be sent to those that have the block."""
    n, sizes = 160, {}
    a, b = (
        np.random.default_rng(4).standard_normal((2, n, n))
        if kind == "normal"
        else graded("linear", (n, n, n))
    )

    def note(key, value, *_):
        if str(key[0]).startswith("ozaki-") and not key[0].startswith("ozaki-matmul"):
            sizes[key] = sizeof(value)

    for of_a, of_b in (((n // 2, n), (n, n)), ((n, 50), (50, n // 2))):
        with Callback(posttask=note):
            found = ozaki.matmul(da.from_array(a, chunks=of_a), da.from_array(b, chunks=of_b)).compute()
        assert found.tobytes() == ozaki.matmul(a, b).tobytes()
    assert len(sizes) > 20
    assert max(sizes.values()) < 200 * n


def test_it_is_lazy_and_bad_arguments_are_refused():
    def fail(block):
        raise AssertionError("computed")

    x = da.map_blocks(fail, da.zeros((4, 4), chunks=2), dtype=float, meta=np.zeros((0, 0)))
    lazy = ozaki.matmul(x, x)
    assert any(name.startswith("ozaki-matmul") for name in lazy.dask.layers)
    assert ozaki.matmul(x, x).name == lazy.name
    with pytest.raises(AssertionError, match="computed"):
        lazy.compute()
    ones = da.ones((4, 4), chunks=2)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        ozaki.matmul(ones[ones[:, 0] > 0], ones)
    with pytest.raises(ValueError, match="inner dimensions differ"):
        ozaki.matmul(ones, ones[:3])
    with pytest.raises(ValueError, match="do not broadcast"):
        ozaki.matmul(da.ones((2, 4, 4)), da.ones((3, 4, 4)))
    with pytest.raises(ValueError, match="scheme"):
        ozaki.matmul(ones, ones, scheme="slices")
    with pytest.raises(ValueError, match="accuracy"):
        ozaki.matmul(ones, ones, accuracy="good")
    with pytest.raises(TypeError, match="longdouble"):
        ozaki.matmul(ones.astype(np.longdouble), ones)
    with pytest.raises(TypeError, match="integers"):
        ozaki.matmul(da.from_array(np.array([[2**53 + 1]])), da.ones((1, 1), dtype=int)).compute()


class WithoutMemory(Host):
    """An engine that has none for any product."""

    def multiply(self, *_, **__):
        raise MemoryError("needs 3 TiB")


def test_a_task_without_memory_is_named():
    for chunks, shape in ((2, r"\(2, 2\)"), ((2, 4), r"\(2, 4\), \(4, 2\)")):
        b = da.ones((4, 4), chunks=chunks if chunks == 2 else chunks[::-1])
        lazy = ozaki.matmul(da.ones((4, 4), chunks=chunks), b, accuracy="exact", engine=WithoutMemory())
        with pytest.raises(MemoryError, match=f"ozaki.dask.matmul, products of blocks .*{shape}.*3 TiB"):
            lazy.compute()


class UnlikeWorkers(Callback):
    """An engine that is the next one of several in every task, as if a worker of another machine had it."""

    def __init__(self, engines):
        super().__init__()
        self.engines = cycle(engines)
        self.engine = next(self.engines)

    def _pretask(self, *_):
        self.engine = next(self.engines)

    def __getattr__(self, name):
        return getattr(vars(self)["engine"], name)


@cells(share=4, accuracy=["fp64", "normwise", "exact", 40], first=range(4))
def test_workers_of_unlike_machines_agree_on_the_residues(accuracy, first):
    """Their engines prefer other words, and other moduli."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((400, 400)), rng.standard_normal((400, 300))
    names = "auto", "host", "host", "auto"
    workers = UnlikeWorkers(get_engine(name) for name in names[first:] + names[:first])
    x, y = da.from_array(a, chunks=(200, 130)), da.from_array(b, chunks=(130, 300))
    with workers:
        product = ozaki.matmul(x, y, accuracy=accuracy, engine=workers).compute(scheduler="sync")
    assert np.array_equal(product, ozaki.matmul(a, b, accuracy=accuracy))
