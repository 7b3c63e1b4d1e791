"""Eigenvalues of sparse matrices: beside LAPACK's; bits for every way."""

import numpy as np
import pytest

from ozaki.sparse.linalg import eigsh
from tests.cells import cells
from tests.sparse.systems import hermitian, in_every_way, indefinite
from tests.sparse.test_linalg import laplacian

ss = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")


@cells(which=["LM", "LA", "SA"])
@pytest.mark.parametrize("matrix", [indefinite, hermitian])
def test_eigenvalues(matrix, which):
    a = matrix()
    every = np.linalg.eigvalsh(a.toarray())
    order = {"LM": np.argsort(-abs(every)), "LA": np.argsort(-every), "SA": np.argsort(every)}[which]
    for k, options in ((1, {}), (4, {"ncv": 9}), (3, {"v0": np.ones(16) + np.arange(16)})):
        values, vectors = eigsh(a, k, which=which, **options)
        assert np.allclose(values, np.sort(every[order[:k]]), rtol=1e-12, atol=1e-12)
        assert np.allclose(a @ vectors, vectors * values, atol=1e-11)
        assert np.allclose(vectors.conj().T @ vectors, np.eye(k), atol=1e-13)
        alone = eigsh(a, k, which=which, return_eigenvectors=False, **options)
        assert alone.tobytes() == values.tobytes()
    theirs = np.sort(linalg.eigsh(a, 3, which=which)[0])
    assert np.allclose(eigsh(linalg.aslinearoperator(a), 3, which=which)[0], theirs, atol=1e-12)


def test_eigenvalues_have_the_same_bits_in_every_way(monkeypatch):
    def found(a):
        return [x.tobytes() for x in eigsh(a, 2, ncv=6, which="LA", tol=1e-8)]

    in_every_way(found, hermitian(), monkeypatch)


def test_eigenvalues_of_multiples_and_of_bad_input():
    values, vectors = eigsh(2 * ss.eye_array(6).tocsr(), 3)
    assert np.allclose(values, 2.0, rtol=1e-15, atol=0)
    assert np.allclose(vectors.T @ vectors, np.eye(3), atol=1e-14)
    assert eigsh(ss.csr_array((5, 5)), 2, return_eigenvectors=False).tolist() == [0.0, 0.0]
    a = laplacian(4)
    for options, message in (
        ({"k": 16}, "k must be from 1 to 15"),
        ({"k": 0}, "k must be"),
        ({"which": "SM"}, "which must be"),
        ({"ncv": 6}, "ncv must be more than k = 6"),
        ({"v0": np.zeros(16)}, "not all zero"),
    ):
        with pytest.raises(ValueError, match=message):
            eigsh(a, **options)
    with pytest.raises(linalg.ArpackNoConvergence, match="of 2 eigenvalues"):
        eigsh(laplacian(12), 2, which="SA", maxiter=1)
