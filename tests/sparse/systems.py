"""Sparse matrices of small systems, and the ways in which a result must have the same bits."""

import numpy as np
import pytest

from multiword.runtime.compiled import numpy_forms
from ozaki.sparse import rows
from tests.sparse.test_linalg import laplacian

ss = pytest.importorskip("scipy.sparse")


def hermitian(n=16):
    a = laplacian(n // 4)
    upper = ss.triu(a, 1)
    return (a + 1j * (upper - upper.T) / 4).tocsr()


def indefinite(n=4):
    a = laplacian(n)
    return (a - ss.eye_array(n * n) * 2.0).tocsr()


def rectangular(seed=0):
    rng = np.random.default_rng(seed)
    return ss.random_array((30, 12), density=0.4, rng=rng, format="csr") + ss.eye_array(30, 12).tocsr()


def in_every_way(compute, matrix, monkeypatch):
    """The bytes of compute(matrix), which must be those of threads, formats and NumPy's forms."""
    expected = compute(matrix)
    monkeypatch.setattr(rows, "SPARSE_ENTRIES_OF_A_THREAD", 1)
    for threads in (1, 2):
        monkeypatch.setattr(rows, "thread_count", lambda threads=threads: threads)
        for form in (matrix, matrix.tocsc(), matrix.tocoo(), matrix.toarray()):
            assert compute(form) == expected
    with numpy_forms():
        assert compute(matrix) == expected
    return expected
