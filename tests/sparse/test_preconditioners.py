"""Preconditioners: beside what defines them and dense references; bits for every way."""

import numpy as np
import pytest

from ozaki.sparse.linalg import block_jacobi, cg, gmres, ic0, ilu0
from tests.sparse.systems import in_every_way
from tests.sparse.test_linalg import iterates, laplacian

ss = pytest.importorskip("scipy.sparse")


def pattern_of(a):
    return (a != 0).toarray()


@pytest.mark.parametrize("kind", [ilu0, ic0])
def test_incomplete_factors_have_the_product_that_defines_them(kind):
    """(LU)ᵢⱼ = aᵢⱼ on the pattern of A: its inverse takes the columns of LU to those of the identity."""
    a = laplacian(4)
    inverse = np.stack([kind(a).matvec(e) for e in np.eye(16)], axis=1)
    product = np.linalg.inv(inverse)
    on = pattern_of(a)
    assert np.allclose(product[on], a.toarray()[on], rtol=1e-12)
    assert not np.allclose(product, a.toarray())
    line = (a * ss.diags_array(np.ones(48), shape=(16, 16))).tocsr()
    line = ss.diags_array([line.diagonal(), -np.ones(15), -np.ones(15)], offsets=[0, 1, -1]).tocsr()
    line = line + ss.eye_array(16) * 3
    r = np.arange(16.0)  # a tridiagonal matrix has no fill-in: the factors are complete
    assert np.allclose(kind(line.tocoo()).matvec(r), np.linalg.solve(line.toarray(), r), rtol=1e-12)


@pytest.mark.parametrize("kind", [ilu0, ic0, lambda a: block_jacobi(a, 3)])
def test_preconditioners_have_the_same_bits_in_every_way(kind, monkeypatch):
    r = np.random.default_rng(6).standard_normal(16) * (1 + 2j)

    def applied(a):
        m = kind(a if ss.issparse(a) else ss.csr_array(a))
        return [m.matvec(r.real.copy()).tobytes(), m.matvec(r).tobytes()]

    in_every_way(applied, laplacian(4), monkeypatch)


def test_preconditioners_need_fewer_iterations():
    a, b = laplacian(10), np.ones(100)
    plain = len(iterates(cg, a, b))
    for m in (ic0(a), block_jacobi(a, 10), ilu0(a)):
        assert len(iterates(cg, a, b, M=m)) < plain
    x, info = gmres(a, b, M=ilu0(a), rtol=1e-10, restart=30)
    assert info == 0
    assert np.allclose(x, np.linalg.solve(a.toarray(), b), rtol=1e-6)


def test_blocks_are_inverted():
    a = laplacian(4)
    dense, inverse = a.toarray(), np.zeros((16, 16))
    for i in range(0, 16, 5):
        inverse[i : i + 5, i : i + 5] = np.linalg.inv(dense[i : i + 5, i : i + 5])
    r = np.arange(16.0)
    assert np.allclose(block_jacobi(a, 5).matvec(r), inverse @ r, rtol=1e-13)


def test_preconditioners_refuse():
    a = ss.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]]))
    hollow = ss.csr_array(np.array([[1.0, 2.0], [2.0, 0.0]]))
    for call, message in (
        (lambda: ilu0(ss.csr_array((2, 3))), "square"),
        (lambda: ic0(ss.csr_array((2, 3))), "square"),
        (lambda: block_jacobi(ss.csr_array((2, 3)), 2), "square"),
        (lambda: block_jacobi(a, 0), "size must be at least 1"),
        (lambda: ilu0(hollow), "no diagonal element in row 1"),
        (lambda: ic0(hollow), "no diagonal element in row 1"),
        (lambda: ic0(a), "pivot of row 1 is not positive"),
        (lambda: ilu0(ss.csr_array(np.array([[1.0, 1.0], [1.0, 1.0]]))), "pivot of row 1 is zero"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="real"):
        ilu0(a.astype(complex))
