"""Pseudoinverses, ranks, norms, generalized eigenproblems, failures in stacks: as NumPy and SciPy do."""

import numpy as np
import pytest

import ozaki
from ozaki import linalg

RNG = np.random.default_rng(12)
STACK = RNG.standard_normal((3, 5, 4))
LOW = STACK @ np.diag([1.0, 1, 1, 0]) @ RNG.standard_normal((4, 4))


def test_pseudoinverses_and_ranks_are_numpys():
    for a in (STACK, STACK[0], LOW, LOW.swapaxes(-1, -2), STACK * (1 + 2j), STACK[0].astype(np.float32)):
        found, expected = linalg.pinv(a), np.linalg.pinv(a)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert np.allclose(found, expected, rtol=0, atol=1e-4 if a.dtype == np.float32 else 1e-11)
        assert np.array_equal(linalg.matrix_rank(a), np.linalg.matrix_rank(a))
    symmetric = LOW.swapaxes(-1, -2) @ LOW
    assert np.allclose(linalg.pinv(symmetric, 1e-10, hermitian=True), np.linalg.pinv(symmetric, 1e-10, True))
    assert linalg.matrix_rank(symmetric, hermitian=True).tolist() == [3, 3, 3]
    assert linalg.matrix_rank(STACK, tol=np.array([0.0, 1e9, 0.0])).tolist() == [4, 0, 4]
    assert linalg.matrix_rank(np.zeros(3)) == 0
    assert linalg.matrix_rank(np.zeros((2, 3))) == 0
    assert linalg.pinv(np.ones((0, 3))).shape == (3, 0)
    for function in (lambda: linalg.pinv(LOW, 1e-3, rtol=1e-3), lambda: linalg.matrix_rank(LOW, 1, rtol=1)):
        with pytest.raises(ValueError, match="can't be both set"):
            function()


@pytest.mark.parametrize("ord", [None, "fro", 1, -1, 2, -2, np.inf, -np.inf, "nuc"])
def test_norms_and_conditions_are_numpys(ord):
    for a in (STACK, LOW, STACK * (1 + 2j)):
        for axis in ((1, 2), (2, 1), (0, 2)):
            for keepdims in (False, True):
                found = linalg.norm(a, ord, axis, keepdims)
                assert found.shape == np.linalg.norm(a, ord, axis, keepdims).shape
                assert np.allclose(found, np.linalg.norm(a, ord, axis, keepdims), 1e-12, 1e-13)
    square = STACK[:, :4]
    assert np.allclose(linalg.norm(STACK[0], ord), np.linalg.norm(ozaki.array(STACK[0]), ord))
    if ord not in ("fro", None):
        assert np.allclose(linalg.cond(square, ord), np.linalg.cond(square, ord), 1e-11)
        assert linalg.cond(np.ones((2, 2)), ord) in (np.inf, *([0.0] if ord == -2 else []))


def test_norms_of_vectors_and_of_orders_that_are_none():
    x = RNG.standard_normal(7)
    for ord in (None, 1, 2, 3, np.inf, 0):
        assert linalg.norm(x, ord) == ozaki.norm(x, ord)
    assert linalg.norm(STACK) == ozaki.norm(STACK)
    for ord in (3, "max"):
        with pytest.raises(ValueError, match="ord must be"):
            linalg.norm(STACK[0], ord)
    with pytest.raises(np.linalg.LinAlgError):
        linalg.cond(np.ones((0, 0)))


@pytest.mark.parametrize("n", [4, 70])
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_generalized_eigenpairs(n, triangle):
    a, b = (x + x.conj().T for x in RNG.standard_normal((2, n, n)) + 1j * RNG.standard_normal((2, n, n)))
    b = b @ b
    b = b + b.conj().T + np.eye(n)
    half = np.tril if triangle == "L" else np.triu
    values, x = linalg.eigh(half(a), triangle, b=half(b))
    assert (
        np.abs(a @ x - b @ x * values).max()
        < 1e-10 * np.abs(b).max() * np.abs(x).max() * np.abs(values).max()
    )
    assert np.abs(x.conj().T @ b @ x - np.eye(n)).max() < 1e-10
    assert (np.diff(values) >= 0).all()
    assert linalg.eigvalsh(a, b=b).tobytes() == linalg.eigh(a, b)[0].tobytes() == values.tobytes()
    few = linalg.eigh(a, b, subset_by_index=(1, 2))
    assert few.eigenvalues.tobytes() == values[1:3].tobytes()
    assert few.eigenvectors.shape == (n, 2)
    assert linalg.eigvalsh(a, subset_by_index=[0, 0]).tobytes() == linalg.eigvalsh(a)[:1].tobytes()


def test_what_generalized_problems_refuse():
    eye = np.eye(3)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        linalg.eigh(eye, -eye)
    with pytest.raises(np.linalg.LinAlgError, match="one size"):
        linalg.eigh(eye, np.eye(2))
    for subset in ((2, 1), (0, 3), (-1, 0)):
        with pytest.raises(ValueError, match="subset_by_index"):
            linalg.eigh(eye, subset_by_index=subset)
    with pytest.raises(TypeError, match="subset_by_index"):
        linalg.eigvalsh(eye, subset_by_index=1)


@pytest.mark.parametrize("n", [3, 70])
def test_failures_in_a_stack_are_named_or_nan(n):
    stack = np.stack([np.eye(n) * (i + 1) for i in range(6)]).reshape(2, 3, n, n)
    stack[0, 1] = stack[1, 2] = 0
    right = RNG.standard_normal((2, 3, n, 2))
    for function in (linalg.inv, linalg.cholesky, lambda a, **o: linalg.solve(a, right, **o)):
        with pytest.raises(np.linalg.LinAlgError, match=r"matrices \(0, 1\), \(1, 2\) of the stack"):
            function(stack)
        found = function(stack, errors="nan")
        failed = np.isnan(found).all(axis=(-2, -1))
        assert np.argwhere(failed).tolist() == [[0, 1], [1, 2]]
        good = np.isfinite(found).all(axis=(-2, -1))
        assert (good ^ failed).all()
        if function in (linalg.inv, linalg.cholesky):
            assert found[0, 2].tobytes() == function(stack[0, 2]).tobytes()
        with pytest.raises(ValueError, match="errors"):
            function(stack, errors="ignore")
    assert np.isnan(linalg.inv(np.zeros((n, n)), errors="nan")).all()
    stack[0, 1, 0, 0] = np.nan
    values, vectors = linalg.eigh(stack, errors="nan")
    assert np.isnan(values).any(axis=-1).tolist() == [[False, True, False], [False] * 3]
    assert np.isnan(vectors[0, 1]).all()
    with pytest.raises(np.linalg.LinAlgError, match=r"matrices \(0, 1\) of the stack"):
        linalg.eigh(stack)
