"""Products of Dask arrays with sparse chunks, and Krylov methods on them: the bits of the whole matrix."""

import numpy as np
import pytest

import ozaki
from ozaki.sparse.linalg import cg, lsqr
from ozaki.sparse.linalg.system import operator_of
from tests.sparse.test_linalg import iterates, laplacian
from tests.sparse.test_products import dense, numbers, reference, same

da, ss = pytest.importorskip("dask.array"), pytest.importorskip("scipy.sparse")


def chunked(a, chunks, kind="csr"):
    """A Dask array of sparse chunks that is a dense array."""
    return da.from_array(a, chunks=chunks).map_blocks(getattr(ss, f"{kind}_matrix"), dtype=a.dtype)


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
def test_blocks_of_rows_and_columns_do_not_show(dtype, kind):
    """From both sides, in one chunk or more of each; what cancels lies in different chunks."""
    rng = np.random.default_rng(8)
    a = dense(rng, dtype, (12, 20))
    a[1], a[1, [2, 19]] = 0, 2**62 if dtype == np.int64 else 2.0**60  # of which 2**60 - 2**60 is left
    for width in ((), (5,)):
        x, y = numbers(rng, (20, *width), dtype), numbers(rng, (*width, 12), dtype)
        x[[2, 19]] = np.array([1, -1]).reshape(2, *[1] * len(width)).astype(dtype)
        products = ozaki.matmul(ss.csr_matrix(a), x), ozaki.matmul(y, ss.csr_matrix(a))
        for chunks in ((12, 20), (3, 20), (5, 7), (12, (0, 9, 11))):
            matrix = chunked(a, chunks, kind)
            for vectors in (x, da.from_array(x, chunks=4)):
                assert same(ozaki.matmul(matrix, vectors).compute(), products[0])
            result = ozaki.matmul(da.from_array(y, chunks=2), matrix)
            assert same(result.compute(), products[1])
            assert result.chunks[-1] == matrix.chunks[1]


def test_iterates_of_any_number_of_chunks():
    a, b = laplacian(8).toarray(), np.random.default_rng(2).standard_normal(64)
    expected = iterates(cg, ss.csr_matrix(a), b, maxiter=6)
    for chunks in (64, 32, 16):
        found = iterates(cg, chunked(a, (chunks, 64)).persist(), b, maxiter=6)
        assert all(map(same, found, expected))
    for matrix in (chunked(a, (16, 40)).persist(), da.from_array(a, chunks=(32, 64))):
        assert same(lsqr(matrix, b, iter_lim=2).x, lsqr(a, b, iter_lim=2).x)


def test_the_adjoint_is_conjugated():
    a, x = (numbers(np.random.default_rng(9), shape, np.complex128) for shape in ((6, 4), 6))
    product = operator_of(chunked(a, 3), "A", a.dtype).rmatvec(x)
    assert same(product, reference(a.conj().T, x))


def test_invalid_arguments():
    a = np.eye(4)
    matrix = chunked(a, 2)
    unknown = matrix[da.from_array(np.ones(4, bool), chunks=2)]
    for call, error, message in (
        (lambda: ozaki.matmul(matrix, np.ones(3)), ValueError, r"inner dimensions differ: a is \(4, 4\)"),
        (lambda: ozaki.matmul(matrix, np.ones((4, 1, 1))), ValueError, "vectors and matrices"),
        (lambda: ozaki.matmul(matrix, matrix), TypeError, "both sparse"),
        (lambda: ozaki.matmul(ss.eye(4), matrix), TypeError, "both sparse"),
        (lambda: ozaki.matmul(matrix, np.ones(4), accuracy="most"), ValueError, "accuracy"),
        (lambda: ozaki.matmul(unknown, np.ones(4)), ValueError, "a has chunks of unknown sizes"),
        (lambda: cg(da.ones((2, 2, 2)), np.ones(2)), ValueError, "A must be a matrix"),
    ):
        with pytest.raises(error, match=message):
            call()
    wide = da.from_array(a, chunks=2).map_blocks(ss.csr_matrix, dtype=np.float32)
    lil = da.from_array(a, chunks=2).map_blocks(ss.lil_matrix, dtype=a.dtype)
    for damaged, message in ((wide, "says float32"), (lil, r"pass a.tocsr\(\)")):
        with pytest.raises(TypeError, match=message):
            ozaki.matmul(damaged, np.ones(4, np.float32)).compute()
