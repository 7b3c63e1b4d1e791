"""MINRES and LSQR: beside SciPy's and dense solutions; bits for every way."""

import numpy as np
import pytest

from ozaki.sparse.linalg import lsqr, minres
from tests.sparse.systems import hermitian, in_every_way, indefinite, rectangular
from tests.sparse.test_linalg import iterates, laplacian

ss = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")


@pytest.mark.parametrize("matrix", [indefinite, hermitian])
def test_minres_has_the_same_iterates_in_every_way(matrix, monkeypatch):
    b = np.random.default_rng(2).standard_normal(16)
    found = in_every_way(
        lambda a: [x.tobytes() for x in iterates(minres, a, b, maxiter=4)], matrix(), monkeypatch
    )
    assert len(found) == 4


@pytest.mark.parametrize("matrix", [indefinite, hermitian])
def test_minres_solves(matrix):
    a, b = matrix(), np.random.default_rng(3).standard_normal(16)
    expected = np.linalg.solve(a.toarray(), b)
    for options in ({}, {"x0": np.ones(16)}, {"check": True}):
        x, info = minres(a, b[:, None], rtol=1e-13, **options)
        assert info == 0
        assert np.allclose(x, expected, rtol=1e-8, atol=0)
    shifted = np.linalg.solve(a.toarray() - 0.3 * np.eye(16), b)
    assert np.allclose(minres(a, b, shift=0.3, rtol=1e-13)[0], shifted, rtol=1e-8)


def test_minres_has_scipys_conventions(capsys):
    a, b = laplacian(12), np.ones(144)
    m = linalg.aslinearoperator(ss.diags_array(1 / a.diagonal()))
    for options in ({}, {"rtol": 1e-9}, {"M": m}, {"shift": 0.01}):
        (ours, info), (theirs, expected) = (f(a, b, **options) for f in (minres, linalg.minres))
        assert info == expected == 0
        assert np.allclose(ours, theirs, rtol=1e-4)  # both end at rtol = 1e-5
        counts = [len(iterates(f, a, b, **options)) for f in (minres, linalg.minres)]
        assert abs(counts[0] - counts[1]) <= 1
    assert minres(a, b, maxiter=3)[1] == linalg.minres(a, b, maxiter=3)[1] == 3
    assert minres(a, 0 * b)[0].tolist() == [0.0] * 144
    assert minres(ss.eye_array(4).tocsr(), np.ones(4))[0].tolist() == [1.0] * 4
    minres(a, b, maxiter=1, show=True)
    assert "residual" in capsys.readouterr().err
    with pytest.raises(ValueError, match="A must be Hermitian"):
        minres(ss.csr_array([[1.0, 3.0], [0.0, 2.0]]), np.ones(2), check=True)
    with pytest.raises(ValueError, match="positive definite"):
        minres(a, b, M=-ss.eye_array(144).tocsr())


def test_lsqr_has_the_same_iterates_in_every_way(monkeypatch):
    a = rectangular()
    b = np.random.default_rng(4).standard_normal(30)
    for matrix in (a, (a * (1 + 0.5j)).tocsr()):
        in_every_way(lambda m: [lsqr(m, b, iter_lim=k).x.tobytes() for k in (1, 5)], matrix, monkeypatch)


def test_lsqr_returns_what_scipys_does(capsys):
    a, rng = rectangular(), np.random.default_rng(5)
    of_system = a @ rng.standard_normal(12)
    for b in (of_system, rng.standard_normal(30)):
        for options in ({}, {"damp": 0.5}, {"calc_var": True}, {"x0": np.ones(12)}):
            assert lsqr(a, b, **options)[1:3] == linalg.lsqr(a, b, **options)[1:3]
            ours, theirs = (f(a, b, iter_lim=6, **options) for f in (lsqr, linalg.lsqr))
            assert ours.istop == theirs[1] == 7
            for x, y in zip(ours, theirs, strict=True):
                assert np.allclose(x, y, rtol=1e-10)
    x = lsqr(a, b, atol=1e-14, btol=1e-14)[0]
    assert np.allclose(x, np.linalg.lstsq(a.toarray(), b)[0], rtol=1e-9)
    assert lsqr(a, 0 * b)[1:3] == (0, 0)
    lsqr(a, b, show=True, iter_lim=1)
    assert "residual" in capsys.readouterr().err
    with pytest.raises(ValueError, match="A must have 12 rows"):
        lsqr(a, np.ones(12))
    with pytest.raises(TypeError, match="rmatvec"):
        lsqr(type("Op", (), {"shape": (2, 2), "dtype": float, "matvec": lambda self, x: x})(), np.ones(2))
