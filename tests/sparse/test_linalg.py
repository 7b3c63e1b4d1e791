"""Krylov methods: iterates against plain Python, bits for threads and formats, SciPy's conventions."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import numpy_forms
from ozaki.definition.rounding import nearest, nearest_root
from ozaki.definition.sums import rounded_dot, rounded_norm
from ozaki.sparse import rows
from ozaki.sparse.linalg import bicgstab, cg, gmres, jacobi, vectors

ss = pytest.importorskip("scipy.sparse")
linalg = pytest.importorskip("scipy.sparse.linalg")

METHODS = (cg, bicgstab, gmres)


def laplacian(n, seed=0):
    """A graded one on n × n points: symmetric, positive definite."""
    line = ss.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    grid = ss.kron(line, ss.eye_array(n)) + ss.kron(ss.eye_array(n), line)
    scale = ss.diags_array(np.exp2(np.random.default_rng(seed).integers(-3, 4, n * n) / 2))
    return (scale @ grid @ scale).tocsr()


def plain_cg(a, b, steps):
    """The iterates in Python's floats, with dot products of fractions that are rounded once."""

    def dot(x, y):
        return nearest(sum((Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True)), Fraction(0)))

    x, r, p, before = [0.0] * len(b), b, b, 0.0
    for i in range(steps):
        rho = dot(r, r)
        p = [u + rho / before * v for u, v in zip(r, p, strict=True)] if i else r
        q = [dot(row, p) for row in a]
        alpha = rho / dot(p, q)
        x = [u + alpha * v for u, v in zip(x, p, strict=True)]
        r = [u + -alpha * v for u, v in zip(r, q, strict=True)]
        before = rho
        yield x


def iterates(method, a, b, **options):
    found = []
    method(a, b, callback=lambda x: found.append(x.copy()), **options)
    return found


def test_iterates_are_what_the_definition_makes():
    a, b = laplacian(4), np.random.default_rng(1).standard_normal(16)
    found = iterates(cg, a, b, maxiter=9, rtol=0)
    expected = list(plain_cg(a.toarray().tolist(), b.tolist(), 9))
    assert [x.tolist() for x in found] == expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [float, complex])
def test_iterates_are_the_same_for_threads_and_formats(method, kind, monkeypatch):
    a, rng = laplacian(8).astype(kind), np.random.default_rng(2)
    b = rng.standard_normal(64).astype(kind)
    if kind is complex:
        upper = ss.triu(a, 1)
        a, b = (a + 1j * (upper - upper.T) / 4).tocsr(), b + 1j * rng.standard_normal(64)
    cut = {"maxiter": 2, "restart": 3} if method is gmres else {"maxiter": 6}
    expected = iterates(method, a, b, **cut)
    assert len(expected) > 0
    monkeypatch.setattr(rows, "SPARSE_ENTRIES_OF_A_THREAD", 1)
    for threads in (1, 2):
        monkeypatch.setattr(rows, "thread_count", lambda threads=threads: threads)
        for form in (a, a.tocsc(), a.tocoo(), a.toarray()):
            found = iterates(method, form, b, **cut)
            assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]


@pytest.mark.parametrize("method", METHODS)
def test_solutions(method):
    """Of real and complex systems, from a first guess, preconditioned and by operators."""
    a, rng = laplacian(4), np.random.default_rng(3)
    b, more = rng.standard_normal(16), {"restart": 16} if method is gmres else {}
    upper = ss.triu(a, 1)
    hermitian = (a + 1j * (upper - upper.T) / 4).tocsr()
    for matrix, right in ((a, b), (hermitian, b + 1j), (hermitian, b)):
        expected = np.linalg.solve(matrix.toarray(), right)
        for options in ({}, {"x0": np.ones(16)}, {"M": jacobi(a)}):
            x, info = method(matrix, right[:, None], rtol=1e-12, **options, **more)
            assert info == 0
            assert np.allclose(x, expected, rtol=1e-8, atol=0)
    operator = linalg.aslinearoperator(a)
    assert np.allclose(method(operator, b, rtol=1e-12, **more)[0], np.linalg.solve(a.toarray(), b))
    if method is not cg:
        skew = (a + ss.triu(a, 1)).tocsr()
        assert np.allclose(method(skew, b, rtol=1e-12, **more)[0], np.linalg.solve(skew.toarray(), b))


@pytest.mark.parametrize("method", METHODS)
def test_conventions(method, capsys):
    """SciPy's, of what is returned for zeros, for too few iterations and for singular systems."""
    a, b, reference = laplacian(5), np.ones(25), getattr(linalg, method.__name__)
    x, info = method(a, np.zeros(25), x0=np.ones(25))
    assert (x.tolist(), info) == ([0.0] * 25, 0)
    assert method(a, b, rtol=1e-14, maxiter=2)[1] == reference(a, b, rtol=1e-14, maxiter=2)[1] != 0
    assert method(a, b, atol=1e9)[0].tolist() == [0.0] * 25
    assert method(ss.csr_array((3, 3)), np.ones(3), maxiter=4)[1] != 0
    steps = []
    method(a, b, progress=lambda *told: steps.append(told))
    assert steps[0] == (0, 5.0, 5e-5)
    assert steps[-1][1] <= 5e-5
    method(a, b, progress=True)
    assert "residual 5.000e+00" in capsys.readouterr().err
    for arguments, message in (
        ((a, np.ones(24)), "must be square and fit b"),
        ((a, np.ones((5, 5))), "b must be a vector"),
        ((a, np.full(25, np.nan)), "b must be finite"),
        ((a, b, np.ones(3)), "x0 must have 25 numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            method(*arguments)


def test_the_same_number_of_iterations_as_scipy():
    a, b = laplacian(12), np.ones(144)
    ours, theirs = iterates(cg, a, b), iterates(linalg.cg, a, b)
    assert abs(len(ours) - len(theirs)) <= 1
    assert np.allclose(ours[-1], theirs[-1], rtol=1e-3)


def test_jacobi():
    a = ss.coo_array(([1e16, 1.0, -1e16, 2.0], ([0, 0, 0, 1], [0, 0, 0, 1])), (2, 2))
    assert jacobi(a).matvec(np.ones(2)).tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match="zero on its diagonal"):
        jacobi(ss.csr_array((2, 2)))
    with pytest.raises(ValueError, match="square"):
        jacobi(ss.csr_array((2, 3)))


def test_norms_are_rounded_once():
    assert ozaki.sparse.linalg.vectors.norm(np.array([1.0, 2.0])) == nearest_root(Fraction(5)) == sqrt(5)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_a_matrix_that_has_changed_is_read_again(form):
    """Nothing of a call is kept for the next one; within a method rows are checked in every product."""
    a, b = laplacian(4).asformat(form), np.random.default_rng(5).standard_normal(16)
    before = ozaki.matmul(a, b), cg(a, b)[0]
    a.data *= 3.0
    for found, old, expected in zip(
        (ozaki.matmul(a, b), cg(a, b)[0]),
        before,
        (ozaki.matmul(a.copy(), b), cg(a.copy(), b)[0]),
        strict=True,
    ):
        assert found.tobytes() == expected.tobytes() != old.tobytes()
    if form == "csr":
        with pytest.raises(ValueError, match="out of range"):
            cg(a, b, rtol=0, callback=lambda x: a.indices.__setitem__(3, 16))


@pytest.mark.parametrize("size", [1, 511, 512, 513, 2000])
def test_operations_on_vectors(size, monkeypatch):
    """Dot products, norms and sums of whole vectors, of parts, without compiled code; sums that cancel."""
    rng = np.random.default_rng(size)
    x, y = rng.standard_normal((2, size)) * np.exp2(rng.integers(-20, 20, (2, size)))
    twice, opposite = np.concatenate([x, x]), np.concatenate([y, -y])
    expected = [rounded_dot(x.tolist(), y.tolist()), rounded_norm(x.tolist()), x + 0.3 * y]

    def check():
        found = [vectors.dot(x, y), vectors.norm(x), vectors.added(x, 0.3, y)]
        assert [np.asarray(value).tobytes() for value in found] == [np.asarray(v).tobytes() for v in expected]
        assert vectors.norm_and_dot(x, y) == (expected[1], expected[0])
        assert vectors.norm_and_dot(x, x) == (expected[1], rounded_dot(x.tolist(), x.tolist()))
        assert vectors.dot(twice, opposite) == 0

    check()
    monkeypatch.setattr(vectors, "SPARSE_VECTORS", 100)
    check()
    with numpy_forms():
        check()


def test_operators_of_another_size():
    """An error, not numbers from beyond the end of a vector."""
    short = linalg.LinearOperator((9, 9), matvec=lambda x: x)
    short.matvec = lambda x: x[:4]
    with pytest.raises(ValueError, match="as many elements, got 9 and 4"):
        cg(short, np.ones(9))
