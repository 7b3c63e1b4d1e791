"""Sparse products and Krylov methods on a GPU: the bits of the CPU."""

from functools import cache

import numpy as np
import pytest

import ozaki
from ozaki.sparse.linalg import bicgstab, block_jacobi, cg, eigsh, gmres, jacobi, lsqr, minres, vectors
from tests.sparse.test_linalg import iterates, laplacian
from tests.sparse.test_products import dense, numbers

pytestmark = pytest.mark.gpu
ss = pytest.importorskip("scipy.sparse")


@cache
def example(dtype, shape):
    """A matrix, arrays of vectors for both of its sides, and what the CPU makes of each: bytes by name."""
    rng = np.random.default_rng(1)
    a, found = ss.csr_matrix(dense(rng, dtype, shape)), {}
    for width in ((), (1,), (3,), (40,)):
        x, b = numbers(rng, (shape[1], *width), dtype), numbers(rng, (shape[0], *width), dtype)
        results = ozaki.matmul(a, x), ozaki.matmul(x.T, a.T), ozaki.matmul(a.T, b), ozaki.residual(a, x, b)
        found[width] = x, b, [np.asarray(result, order="C").tobytes() for result in results]
    return a, found, [np.asarray(ozaki.sum(a, axis)).tobytes() for axis in (None, 0, 1)], ozaki.norm(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia"])
@pytest.mark.parametrize("shape", [(40, 30), (300, 4), (9, 2000)])
def test_products(kind, dtype, shape):
    """Of vectors and matrices, from both sides; sums, norms, residuals."""
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    a, products, sums, norm = example(dtype, shape)
    there = getattr(sparse, f"{kind}_matrix")(a.asformat(kind))
    turned = there.T
    for host_x, host_b, expected in products.values():
        x, b = cupy.asarray(host_x), cupy.asarray(host_b)
        results = (
            ozaki.matmul(there, x),
            ozaki.matmul(x.T, turned),
            ozaki.matmul(turned, b),
            ozaki.residual(there, x, b),
        )
        assert [result.get().tobytes() for result in results] == expected
    assert [np.asarray(ozaki.sum(there, axis).get()).tobytes() for axis in (None, 0, 1)] == sums
    assert ozaki.norm(there).get() == norm


def test_zeros_specials_and_invalid_indices():
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    rows = [[1, -1, 0], [np.inf, 1, 0], [0, np.nan, 0], [0, 0, 0], [2.0**-1000, 0, 0]]
    host = ss.csr_matrix(np.array(rows))
    there = sparse.csr_matrix(host)
    for x in (np.ones(3), np.zeros(3), np.full(3, 2.0**-1000)):
        assert ozaki.matmul(there, cupy.asarray(x)).get().tobytes() == ozaki.matmul(host, x).tobytes()
    least = np.float32(2.0**-149)  # products of it are exact, and round to 0
    tiny = np.array([[1, -1, -least], [-least, 0, 0], [-least, least, -least]], np.float32)
    for dtype in (np.float32, np.complex64):
        x = cupy.full(3, least, dtype)
        result = ozaki.matmul(sparse.csr_matrix(ss.csr_matrix(tiny.astype(dtype))), x)
        assert not result.view(np.uint8).any(), result
    for name, place, wrong in (("indptr", 1, 9), ("indices", 0, 3)):
        part = getattr(there, name)
        before = int(part[place])
        part[place] = wrong
        new = sparse.csr_matrix((there.data, there.indices.copy(), there.indptr.copy()), shape=(5, 3))
        with pytest.raises(ValueError, match="out of range"):
            ozaki.matmul(new, cupy.ones(3))
        assert cupy.isnan(ozaki.matmul(there, cupy.ones(3))[0])  # whose indices were read before they changed
        part[place] = before
        cupy.cuda.Device().synchronize()
        with pytest.raises(ValueError, match="out of range"):
            ozaki.matmul(there, cupy.ones(3))
        assert ozaki.matmul(there, cupy.ones(3)).get().tobytes() == ozaki.matmul(host, np.ones(3)).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_what_bounds_leave_undecided(dtype):
    """Of rows short and long, whose sums are tiny beside their terms: they are added up exactly."""
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    rng, tiny = np.random.default_rng(3), dtype(2.0**-100)
    rows = [rng.standard_normal(n).astype(dtype) for n in (1, 2, 300_000, 5, 40)]
    values = np.concatenate([np.concatenate([x, [tiny], -x[::-1]]) for x in rows])
    pointers = np.cumsum([0, *(2 * len(x) + 1 for x in rows)])
    host = ss.csr_matrix((values, np.arange(len(values)) % 7, pointers), shape=(5, 7))
    there = sparse.csr_matrix(host)
    for x in (np.ones(7, dtype), np.linspace(1, 2, 14).reshape(7, 2).astype(dtype)):
        expected = ozaki.matmul(host, x)
        assert np.abs(expected).max() < 1e9
        assert ozaki.matmul(there, cupy.asarray(x)).get().tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [1, 1000, 300_000])
def test_dots(n):
    """Of Krylov methods: of one block, of several, and of more numbers than the grid has threads."""
    cupy, rng = pytest.importorskip("cupy"), np.random.default_rng(n)
    x, y = (numbers(rng, n, np.float64) for _ in range(2))
    on_device = cupy.asarray(x), cupy.asarray(y)
    expected = ozaki.norm(x), ozaki.vdot(x, y)
    assert vectors.norm_and_dot(*on_device) == expected
    assert vectors.norm_and_dot(on_device[0], on_device[0]) == (expected[0], ozaki.vdot(x, x))
    assert (vectors.norm(on_device[0]), vectors.dot(*on_device)) == expected
    assert vectors.added(on_device[0], 0.1, on_device[1]).get().tobytes() == (x + 0.1 * y).tobytes()


@pytest.mark.parametrize("mean", [1, 5, 12, 60, 200])
def test_long_and_short_rows(mean):
    """Of as many lanes as there are; of x in float32, and with as many rows as keep a GPU busy."""
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    rng = np.random.default_rng(mean)
    for rows in (50, 40_000):
        pointers, n = np.arange(0, rows * mean + 1, mean), 1000
        entries = numbers(rng, rows * mean, np.float64), rng.integers(0, n, rows * mean)
        host = ss.csr_matrix((*entries, pointers), shape=(rows, n))
        there = sparse.csr_matrix(host)
        for dtype in (np.float64, np.float32):
            x = numbers(rng, n, dtype)
            assert ozaki.matmul(there, cupy.asarray(x)).get().tobytes() == ozaki.matmul(host, x).tobytes()


@pytest.mark.parametrize("method", [cg, bicgstab, gmres, minres])
def test_iterates(method):
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    a, b = laplacian(8), np.random.default_rng(2).standard_normal(64)
    there, right = sparse.csr_matrix(ss.csr_matrix(a)), cupy.asarray(b)
    for on_host, on_device in (
        ({}, {}),
        ({"M": jacobi(a)}, {"M": jacobi(there)}),
        ({"M": block_jacobi(a, 5)}, {"M": block_jacobi(there, 5)}),
    ):
        expected = iterates(method, a, b, maxiter=5, **on_host)
        found = iterates(method, there, right, maxiter=5, **on_device)
        assert [x.get().tobytes() for x in found] == [x.tobytes() for x in expected]


def test_least_squares_and_eigenvalues():
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    a, b = laplacian(8), np.random.default_rng(2).standard_normal(64)
    there, right = sparse.csr_matrix(ss.csr_matrix(a)), cupy.asarray(b)
    expected, found = (lsqr(*system, iter_lim=5, calc_var=True) for system in ((a, b), (there, right)))
    assert found.x.get().tobytes() == expected.x.tobytes()
    assert found.var.get().tobytes() == expected.var.tobytes()
    assert found[1:-1] == expected[1:-1]
    for ours, theirs in zip(eigsh(there, 3), eigsh(a, 3), strict=True):
        assert ours.get().tobytes() == np.ascontiguousarray(theirs).tobytes()


def test_products_of_two_sparse_matrices():
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    rng = np.random.default_rng(5)
    a, b = (ss.csr_matrix(dense(rng, np.float64, shape)) for shape in ((12, 16), (16, 9)))
    product = ozaki.matmul(sparse.csr_matrix(a), sparse.csr_matrix(b))
    assert product.get().toarray().tobytes() == ozaki.matmul(a, b).toarray().tobytes()


def test_products_in_a_callers_graph_are_refused():
    cupy, sparse = pytest.importorskip("cupy"), pytest.importorskip("cupyx.scipy.sparse")
    with cupy.cuda.Stream(non_blocking=True) as stream:  # which nothing else waits for
        a, x = sparse.csr_matrix(laplacian(5)), cupy.ones(25)
        expected = ozaki.matmul(a, x)
        stream.begin_capture()
        try:
            with pytest.raises(ValueError, match="CUDA graph"):
                ozaki.matmul(a, x)
        finally:
            stream.end_capture()
        assert (ozaki.matmul(a, x) == expected).all()
