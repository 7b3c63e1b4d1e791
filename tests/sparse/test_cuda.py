"""The kernels of sparse products and Krylov methods, and what launches them, without a GPU: the CPU's bits.

`tests/gpu/test_sparse.py` compares them on one.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import ozaki
from multiword.runtime import graphs
from ozaki.definition.sums import rounded_dot, rounded_norm
from ozaki.sparse import products_cuda
from ozaki.sparse.linalg import cg, vectors, vectors_cuda
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.products import product_with_vector, rounded_products
from tests.sparse.test_linalg import iterates, laplacian
from tests.sparse.test_products import dense, numbers, ss


@pytest.fixture
def gpu(monkeypatch, emulated):
    gpu = emulated
    for name in ("isnan", "isfinite", "flatnonzero"):
        setattr(gpu.cupy, name, getattr(np, name))
    gpu.cupy.array = lambda x, dtype=None: gpu.asarray(np.array(x, dtype))
    gpu.cupy.ascontiguousarray = lambda x: x if x.flags.c_contiguous else gpu.asarray(x.copy("C"))
    gpu.cupy.zeros = lambda shape, dtype=float: gpu.asarray(np.zeros(shape, dtype))
    monkeypatch.setattr(products_cuda, "_THREADS", 32)
    monkeypatch.setattr(products_cuda, "_EXACT_THREADS", 32)
    monkeypatch.setattr(products_cuda, "_in_range", set())
    products_cuda._invalid.cache_clear()
    products_cuda._prepared.cache_clear()
    monkeypatch.setattr(vectors_cuda, "_THREADS", 64)
    for name in ("_dots", "_add"):
        constants = dict(getattr(vectors_cuda, name).constants) | {"THREADS": 64}
        monkeypatch.setattr(vectors_cuda, name, getattr(vectors_cuda, name).kernel.instance(**constants))
    return gpu


def there(gpu, matrix):
    """A CSR matrix of SciPy's as one on the GPU."""
    parts = (gpu.asarray(part) for part in (matrix.data, matrix.indptr, matrix.indices))
    values, *indices = parts
    return Matrix(matrix.shape, values, "csr", tuple(indices))


@pytest.mark.parametrize(
    ("of_matrix", "of_x", "mean"),
    [
        (np.float64, np.float32, 5),
        (np.complex128, np.float64, 9),
        pytest.param(np.float64, np.float64, 1, marks=pytest.mark.slow),
        pytest.param(np.float32, np.float32, 40, marks=pytest.mark.slow),
        pytest.param(np.float64, np.complex64, 70, marks=pytest.mark.slow),
        pytest.param(np.complex64, np.complex64, 3, marks=pytest.mark.slow),
        pytest.param(np.float32, np.int32, 17, marks=pytest.mark.slow),
    ],
)
def test_products(gpu, compiled, of_matrix, of_x, mean):
    rng = np.random.default_rng(mean)
    n = 2 * mean
    a = ss.csr_array(dense(rng, of_matrix, (9, n)))
    x = numbers(rng, (n, 2), np.float32).astype(of_x) if of_x == np.int32 else numbers(rng, (n, 2), of_x)
    matrix, columns = there(gpu, a), gpu.asarray(x)
    assert product_with_vector(matrix, columns[:, 1]).tobytes() == ozaki.matmul(a, x[:, 1]).tobytes()
    expected = ozaki.matmul(a, x)
    assert rounded_products([(matrix, columns)], [], expected.dtype).tobytes() == expected.tobytes()
    assert set(compiled.launched) == {"add_sparse_rows", "add_sparse_rows_exactly"}


def test_places_of_64_bits(gpu, monkeypatch):
    """As matrices have that are too large for these tests."""
    monkeypatch.setattr(products_cuda, "_FURTHEST", 0)
    monkeypatch.setattr(products_cuda, "_prepared", products_cuda._prepared.__wrapped__)
    rng = np.random.default_rng(5)
    a, x = ss.csr_array(dense(rng, np.complex128, (9, 14))), numbers(rng, 14, np.complex128)
    assert product_with_vector(there(gpu, a), gpu.asarray(x)).tobytes() == ozaki.matmul(a, x).tobytes()


@pytest.mark.parametrize(
    "dtype", [np.float64, np.complex64, pytest.param(np.float32, marks=pytest.mark.slow)]
)
def test_what_is_added_up_exactly(gpu, dtype):
    """Of sums that are tiny beside their terms, and have either sign."""
    rng, n = np.random.default_rng(4), 12
    values, tiny = rng.standard_normal((40, n)).astype(dtype), rng.standard_normal((40, 1)) * 2.0**-90
    a = ss.csr_array(np.hstack([values, tiny.astype(dtype), -values[:, ::-1]]))
    ones, matrix = np.ones(2 * n + 1, dtype), there(gpu, a)
    expected = ozaki.matmul(a, ones)
    assert np.abs(expected).max() < 2.0**-80
    assert (expected.real < 0).any()
    assert product_with_vector(matrix, gpu.asarray(ones)).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("pointers", "index"),
    [([0, 2, 4, 4], 3), ([0, 2, 4, 4], -1), ([0, 3, 2, 4], 0), ([1, 2, 4, 4], 0), ([0, 2, 4, 5], 0)],
)
def test_invalid_indices(gpu, pointers, index):
    """After an invalid product a valid one is computed: the flag is zero again."""
    indices, x = np.array([0, 1, 2, index], np.int32), gpu.asarray(np.ones(3))
    for given in (np.array(pointers, np.int32), np.array([0, 2, 3, 3], np.int32)):
        parts = gpu.asarray(given), gpu.asarray(indices)
        matrix = Matrix((3, 3), gpu.asarray(np.arange(4.0)), "csr", parts)
        if given[-1] == 3:
            assert product_with_vector(matrix, x).tolist() == [1.0, 2.0, 0.0]
        else:
            with pytest.raises(ValueError, match="out of range"):
                product_with_vector(matrix, x)


def test_a_matrix_is_waited_for_once(gpu):
    """To tell of indices that are out of range; what becomes so later is told by the next product."""
    matrix, x = there(gpu, ss.csr_array(np.eye(3))), gpu.asarray(np.ones(3))
    before = gpu.synchronized
    for _ in range(2):
        assert product_with_vector(matrix, x).tolist() == [1.0] * 3
        assert gpu.synchronized == before + 1
    matrix.indices[1][1] = 3
    assert np.isnan(product_with_vector(matrix, x)).tolist() == [False, True, False]
    matrix.indices[1][1] = 1
    with pytest.raises(ValueError, match="out of range"):
        product_with_vector(matrix, x)
    assert product_with_vector(matrix, x).tolist() == [1.0] * 3
    assert gpu.synchronized == before + 1


def test_the_high_part_of_a_sum_may_cancel(gpu):
    """What is left to be rounded to float32 is in the low part, and no tie: it is left to exact sums."""
    a = np.zeros((3, 5), np.float32)  # with rows so short on average that a thread has one
    a[0] = 2.0**-53, 1.0, 2.0**-77, -1.0, 2.0**-106
    a[1] = 1.0, 2.0, 3.0, 4.0, 5.0
    ones = np.ones(5, np.float32)
    matrix = there(gpu, ss.csr_array(a))
    found = products_cuda.rows_on_device(matrix, gpu.asarray(ones), (), np.dtype(np.float32))
    assert found.tobytes() == ozaki.matmul(ss.csr_array(a), ones).tobytes()


def test_captures_are_refused(gpu, monkeypatch):
    """As sums and functions are, before anything waits for the device."""
    monkeypatch.setattr(graphs, "capturing", lambda: True)
    a, b, before = ss.csr_array(np.eye(3)), gpu.asarray(np.ones(3)), gpu.waits
    of_gpu = SimpleNamespace(format="csr", shape=a.shape, ndim=2, data=gpu.asarray(a.data))
    of_gpu.indptr, of_gpu.indices = gpu.asarray(a.indptr), gpu.asarray(a.indices)
    for call in (lambda: Matrix.of(of_gpu, "a"), lambda: cg(of_gpu, b)):
        with pytest.raises(ValueError, match="cannot take part in a CUDA graph of your own"):
            call()
    assert gpu.waits == before


@pytest.mark.parametrize(
    "n", [300, pytest.param(1, marks=pytest.mark.slow), pytest.param(3000, marks=pytest.mark.slow)]
)
def test_vectors(gpu, compiled, n):
    """Of two blocks and more, of numbers that cancel."""
    rng = np.random.default_rng(n)
    host = [numbers(rng, n, np.float64) for _ in range(2)]
    x, y = map(gpu.asarray, host)
    found = [vectors.norm(x), vectors.dot(x, y), *vectors.norm_and_dot(x, y), *vectors.norm_and_dot(x, x)]
    lists = [x.tolist() for x in host]
    norm, product, square = rounded_norm(lists[0]), rounded_dot(*lists), rounded_dot(lists[0], lists[0])
    assert found == [norm, product, norm, product, norm, square]
    assert vectors.added(x, 0.1, y).tobytes() == (host[0] + 0.1 * host[1]).tobytes()
    assert gpu.waits == 4
    assert set(compiled.launched[-5:]) == {"enclosed_dots", "add_scaled"}


def test_iterates(gpu):
    """Of conjugate gradients, which wait for the device twice an iteration."""
    a, b, waits = ss.csr_array(laplacian(4)), np.random.default_rng(2).standard_normal(16), []
    matrix = there(gpu, a)
    operator = SimpleNamespace(shape=a.shape, dtype=a.dtype, matvec=lambda x: product_with_vector(matrix, x))
    found = []
    cg(operator, gpu.asarray(b), maxiter=2, callback=lambda x: (found.append(x), waits.append(gpu.waits)))
    assert [x.tobytes() for x in found] == [x.tobytes() for x in iterates(cg, a, b, maxiter=2)]
    assert np.diff(waits).tolist() == [2]
