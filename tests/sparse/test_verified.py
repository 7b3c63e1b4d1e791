"""Sparse systems with a proof: exact solutions lie within the bounds, and nothing false is proved."""

import numpy as np
import pytest

from ozaki.linalg import verified
from ozaki.sparse import verified as sparse_verified
from tests.sparse.test_linalg import laplacian

ss = pytest.importorskip("scipy.sparse")
flint = pytest.importorskip("flint")


def exact(a, b):
    """The solution in rational numbers."""
    n = a.shape[0]
    matrix, right = ([rational(x) for x in y.ravel().tolist()] for y in (a.toarray(), b))
    x = flint.fmpq_mat(n, n, matrix).solve(flint.fmpq_mat(n, 1, right))
    return [x[i, 0] for i in range(n)]


def rational(x):
    return flint.fmpq(*float(x).as_integer_ratio())


def graded(n):
    """Numbers of the diagonal 2**-60 to 2**60."""
    a = laplacian(n)
    scale = ss.diags_array(np.exp2(np.linspace(-30, 30, n * n).round()))
    return (scale @ a @ scale).tocsr()


def wide(n):
    rng = np.random.default_rng(1)
    a = ss.random_array((n * n, n * n), density=0.1, rng=rng)
    return (a @ a.T + 1e-6 * ss.eye_array(n * n)).tocsr()


@pytest.mark.parametrize("make", [laplacian, graded, wide])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_bounds_hold_and_values_are_rounded(make, form):
    a = make(5)
    a = ((a + a.T) / 2).asformat(form)
    b = np.random.default_rng(2).standard_normal(25)
    found, expected = verified.solve(a, b), exact(a, b)
    assert (found.result, found.stats.tier) == ("proved", "shifted")
    assert found.rounded.all()
    for x, bound, error, words, y in zip(
        found.value, found.bound, found.error, zip(*found.words, strict=True), expected, strict=True
    ):
        assert abs(rational(x) - y) <= rational(bound)
        assert abs(sum(map(rational, words)) - y) <= rational(error)
        assert bound <= abs(x) * 2.0**-52
        assert float(y) == pytest.approx(x, rel=2.0**-52)
    several = verified.solve(a, np.stack([b, 2 * b, 0 * b], axis=1))
    assert several.value[:, 0].tobytes() == found.value.tobytes()
    assert several.value[:, 1].tolist() == (2 * found.value).tolist()
    assert not several.value[:, 2].any()


def hermitian(n):
    """Whose imaginary part is a coupling of neighbours in one direction."""
    turn = 0.3j * ss.diags_array([1.0, -1.0], offsets=[1, -1], shape=(n * n, n * n))
    return (laplacian(n) + turn).tocsr()


def test_complex_systems():
    """Against the exact solution of the real system of twice the order; real matrices, too."""
    rng = np.random.default_rng(4)
    b = rng.standard_normal((9, 2)) @ np.array([1, 1j])
    for a, right in ((hermitian(3), b), (hermitian(3), b.real), (laplacian(3), b)):
        whole = np.block([[a.real.toarray(), -a.imag.toarray()], [a.imag.toarray(), a.real.toarray()]])
        expected = exact(ss.csr_array(whole), np.concatenate([right.real, right.imag]))
        found = verified.solve(a, right)
        assert (found.result, found.value.dtype) == ("proved", complex)
        for i, (x, bound) in enumerate(zip(found.value, found.bound, strict=True)):
            off = [rational(part) - y for part, y in zip((x.real, x.imag), expected[i::9], strict=True)]
            assert off[0] * off[0] + off[1] * off[1] <= rational(bound) * rational(bound)
            assert bound <= abs(x) * 2.0**-52
        assert found.rounded.all()
        total = sum(word[0].real for word in map(np.asarray, found.words))
        assert total == found.value[0].real
    with pytest.raises(verified.NotProvedError, match="Hermitian"):
        verified.solve((1j * laplacian(3)).tocsr(), np.ones(9))
    with pytest.raises(verified.NotProvedError, match="positive definite"):
        verified.solve((-hermitian(3)).tocsr(), np.ones(9))
    unproved = verified.solve((-hermitian(3)).tocsr(), b, throw=False)
    assert np.isnan(unproved.value).all()
    assert unproved.bound.shape == (9,)
    assert np.isinf(unproved.bound).all()


def test_the_bound_of_the_smallest_eigenvalue_holds():
    for a in (laplacian(6), wide(4)):
        scaled, _ = sparse_verified._scaled(((a + a.T) / 2).tocsr())
        lowest, lost = sparse_verified._smallest_eigenvalue(scaled, sparse_verified._factors(scaled))
        true = np.linalg.eigvalsh(scaled.toarray())[0]
        assert 0.3 * true < lowest < true
        assert 0 < lost < 1e-3


def test_the_factorization_error_is_above_the_true_one():
    a, _ = sparse_verified._scaled(laplacian(8))
    factors = sparse_verified._factors(a)
    p, lower = factors.perm_c, factors.L.toarray()
    product = lower @ np.diag(factors.U.diagonal()) @ lower.T
    order = np.argsort(p)
    error = np.linalg.norm(a.toarray()[np.ix_(order, order)] - product, 2)
    assert error < sparse_verified._backward_error(factors) < 1e-12


def test_a_pivot_that_lies_is_seen():
    """Factors that are not of the matrix: U is not DLᵀ, and the bound says by how much."""
    a = laplacian(4)
    factors = sparse_verified._factors(a)

    class Wrong:
        L, U = factors.L, (factors.U + ss.eye_array(16) * 0 + ss.eye_array(16, k=1) * 1e-3).tocsc()

    assert sparse_verified._backward_error(Wrong) > 1e-3


def test_what_is_not_definite_is_not_proved():
    a = laplacian(4)
    smallest = np.linalg.eigvalsh(a.toarray())[0]
    line = ss.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(9, 9)).tolil()
    line[0, 0] = line[8, 8] = 1.0  # singular: constants go to zero
    for matrix in (
        (a - smallest * (1 + 1e-9) * ss.eye_array(16)).tocsr(),
        (a - smallest * (1 + 1e-15) * ss.eye_array(16)).tocsr(),
        (a + ss.eye_array(16, k=1)).tocsr(),
        (-a).tocsr(),
        ss.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]])),
        ss.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])),
        line.tocsr(),
        ss.csr_array((3, 3)),
    ):
        b = np.ones(matrix.shape[0])
        with pytest.raises(verified.NotProvedError):
            verified.solve(matrix, b)
        unproved = verified.solve(matrix, b, throw=False)
        assert unproved.result == "not proved"
        assert np.isinf(unproved.bound).all()


def test_invalid_arguments_and_empty_ones():
    a, b = laplacian(3), np.ones(9)
    twice = ss.coo_array(([1.0, 1.0, 2.0], ([0, 0, 1], [0, 0, 1])), (2, 2))
    infinite = ss.csr_array(np.array([[np.inf, 0.0], [0.0, 1.0]]))
    for arguments, kind, message in (
        ((ss.csr_array((2, 3)), b), np.linalg.LinAlgError, "square"),
        ((a, np.ones(8)), np.linalg.LinAlgError, "b must have 9 rows"),
        ((a, np.full(9, np.nan)), np.linalg.LinAlgError, "b must be finite"),
        ((infinite, np.ones(2)), np.linalg.LinAlgError, "a must be finite"),
        ((twice, np.ones(2)), ValueError, "duplicate"),
    ):
        with pytest.raises(kind, match=message):
            verified.solve(*arguments)
    assert verified.solve(ss.csr_array((0, 0)), np.zeros(0)).value.shape == (0,)
    assert verified.solve(ss.csr_array((0, 0), dtype=complex), np.zeros(0)).value.shape == (0,)
    assert verified.solve(hermitian(3), np.zeros((9, 0))).value.shape == (9, 0)
    assert verified.solve(a, np.zeros((9, 0))).value.shape == (9, 0)
    assert verified.solve(ss.eye_array(3, dtype=int).tocsr(), np.ones(3)).value.tolist() == [1.0] * 3


def test_small_components_take_more_words():
    """Each component is a hundredth of the one before it, the 16th 2⁻¹⁰⁶ of the first."""
    a = ss.diags_array([-1.0, 100.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40)).tocsr()
    x = verified.solve(a, np.eye(40)[0])
    assert x.rounded[:17].all()
    assert 2.0**-107 < x.value[16] / x.value[0] < 2.0**-105
