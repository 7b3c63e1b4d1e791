"""Eigenvalues and singular values: one definition, as accurate as LAPACK's."""

from collections import defaultdict

import numpy as np
import pytest

import ozaki.linalg
from multiword.runtime import compiled
from ozaki.linalg import rotations, verified
from tests.cells import cells
from tests.fuzz.draw import Draw
from tests.fuzz.spectra import check_pairs, check_triplets, clustered, spectra
from tests.gpu.same import same_on_the_gpu
from tests.linalg.test_same_bits import DTYPES, numbers
from tests.oracle import same

needs_numba = pytest.mark.skipif(not compiled.compiles(), reason="no numba")
N = 60
RANK_3 = np.arange(3.0) + 1 / (1 + np.arange(N))[:, None]


def graded(rng, octaves):
    return 2.0 ** -(octaves * np.arange(N))


MATRICES = {
    "normal": lambda rng: rng.standard_normal((N, N)),
    "zeros": lambda rng: np.zeros((N, N)),
    "identity": lambda rng: np.eye(N),
    "rank 3": lambda rng: RANK_3 @ rng.standard_normal((3, N)),
    "graded rows": lambda rng: rng.standard_normal((N, N)) * graded(rng, 10)[:, None],
    "graded both": lambda rng: rng.standard_normal((N, N)) * graded(rng, 8)[:, None] * graded(rng, 8),
    "below 1e-300": lambda rng: rng.standard_normal((N, N)) * 2.0**-1000,
    "near overflow": lambda rng: rng.standard_normal((N, N)) * 2.0**1015,
    "a Jordan block": lambda rng: np.eye(N, k=1),
    "bidiagonal with zeros": lambda rng: np.diag(1.0 * (np.arange(N) % 7 > 0)) + np.eye(N, k=1),
    "Wilkinson's": lambda rng: np.diag(abs(np.arange(N) - 30.0)) + np.eye(N, k=1) + np.eye(N, k=-1),
    "Kahan's": lambda rng: np.triu(np.full((N, N), -0.9), 1) + np.eye(N),
    "Hilbert's": lambda rng: 1 / (np.arange(N)[:, None] + np.arange(N) + 1.0),
    "signs": lambda rng: np.sign(rng.standard_normal((N, N))),
    "a column of zeros": lambda rng: rng.standard_normal((N, N)) * (np.arange(N) > 0),
}


def matrix(name, dtype):
    x = MATRICES[name](np.random.default_rng(3))
    return x * (1 - 0.5j) if dtype is np.complex128 else x


def orthonormal(x):
    return abs(x.conj().T @ x - np.eye(x.shape[1])).max() <= N * 2.0**-50


def scaled(*arrays):
    """The same numbers at about 1, so that their squares can be compared."""
    exponent = np.frexp(max(abs(arrays[0]).max(), 1e-300))[1]
    return [x * 2.0 ** (-exponent // 2) * 2.0 ** (-exponent - -exponent // 2) for x in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRICES)
def test_eigenpairs_are_as_accurate_as_lapacks(name, dtype):
    x = matrix(name, dtype) / 2
    a = x + x.conj().T
    values, vectors = ozaki.linalg.eigh(a)
    assert orthonormal(vectors)
    a, values = scaled(a, values)
    assert (np.diff(values) >= 0).all()
    assert np.linalg.norm(a @ vectors - vectors * values) <= N * 2.0**-52 * np.linalg.norm(a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRICES)
def test_singular_triplets_are_as_accurate_as_lapacks(name, dtype):
    a = matrix(name, dtype)
    u, s, vh = ozaki.linalg.svd(a)
    assert orthonormal(u)
    assert orthonormal(vh.T)
    a, s = scaled(a, s)
    assert (np.diff(s) <= 0).all()
    assert (s >= 0).all()
    assert np.linalg.norm((u * s) @ vh - a) <= N * 2.0**-52 * np.linalg.norm(a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_within_their_backward_error_of_proved_ones(dtype):
    a = numbers(np.random.default_rng(4), (40, 40), dtype)
    h = a + a.conj().T
    for got, proved in (
        (ozaki.linalg.eigvalsh(h), verified.eigh(h)),
        (ozaki.linalg.svdvals(a), verified.svdvals(a)),
    ):
        exact, bound = (np.sort(np.asarray(x)) for x in (proved.value, proved.bound))
        assert abs(np.sort(got) - exact).max() <= bound.max() + 40 * 2.0**-52 * exact.max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7, 7), (9, 4), (4, 9), (1, 5), (5, 1), (150, 131), (3, 2, 5, 3)])
def test_shapes_are_numpys(shape, dtype):
    a = numbers(np.random.default_rng(5), shape, dtype)
    for full in (True, False):
        u, s, vh = ozaki.linalg.svd(a, full_matrices=full)
        expected = np.linalg.svd(a, full_matrices=full)
        assert [x.shape for x in (u, s, vh)] == [x.shape for x in expected]
        assert [x.dtype for x in (u, s, vh)] == [x.dtype for x in expected]
        k = s.shape[-1]
        assert np.allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, rtol=0, atol=1e-12)
        assert all(orthonormal(x.reshape(-1, *x.shape[-2:])[0]) for x in (u, vh.swapaxes(-1, -2)))
    assert same(ozaki.linalg.svdvals(a), s)
    assert same(ozaki.linalg.svd(a, compute_uv=False), s)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2)])
def test_empty_matrices_have_numpys_shapes(shape):
    a = np.ones(shape)
    assert [x.shape for x in ozaki.linalg.svd(a)[::2]] == [x.shape for x in np.linalg.svd(a)[::2]]
    if shape[-1] == shape[-2]:
        assert [x.shape for x in ozaki.linalg.eigh(a)] == [x.shape for x in np.linalg.eigh(a)]


def test_precision_is_that_of_the_argument():
    a = np.array([[2, 1], [1, 2]])
    assert ozaki.linalg.eigh(a.astype(np.complex64)).eigenvalues.dtype == np.float32
    assert ozaki.linalg.svd(a.astype(np.float32)).U.dtype == np.float32
    assert np.allclose(ozaki.linalg.eigvalsh(a), [1, 3], rtol=2.0**-51)


def test_one_triangle_is_read():
    a = numbers(np.random.default_rng(6), (9, 9), np.complex128)
    imaginary = a + 1j * np.eye(9)
    np.fill_diagonal(a, a.diagonal().real)
    assert all(map(same, ozaki.linalg.eigh(imaginary), ozaki.linalg.eigh(a)))
    lower, upper = np.tril(a), np.triu(a)
    for uplo, whole in (("L", lower + np.tril(a, -1).conj().T), ("U", upper + np.triu(a, 1).conj().T)):
        assert all(map(same, ozaki.linalg.eigh(a, uplo), ozaki.linalg.eigh(whole)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    for function in (ozaki.linalg.eigh, ozaki.linalg.svd, ozaki.linalg.svdvals, ozaki.linalg.eigvalsh):
        with pytest.raises(ValueError, match="a must be finite"):
            function(np.array([[1, bad], [bad, 1]]))


def test_what_is_no_square_matrix_or_triangle_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        ozaki.linalg.eigh(np.ones((2, 3)))
    with pytest.raises(ValueError, match="unknown UPLO"):
        ozaki.linalg.eigh(np.eye(2), "lower")


DUMMIES = np.c_[np.ones(62), np.eye(10)[np.arange(62) % 10][:, 1:]]
"""A block [x e; 0 x] of it is left, whose e is a few units roundoff of x, and which no sweep changes."""


@pytest.mark.parametrize("a", [DUMMIES, DUMMIES.T, 2 * DUMMIES, DUMMIES * (1 - 1j), DUMMIES[:, ::-1]])
def test_clusters_of_equal_singular_values(a):
    check_triplets(np.ascontiguousarray(a))
    check_pairs(a.conj().T @ a)


@pytest.mark.parametrize("case", [1634, 2805, *range(40)])
def test_a_sample_of_clusters(case):
    spectra(Draw((5, case)))


@pytest.mark.slow
def test_a_hundred_thousand_clusters():
    """In stacks of one shape; the fuzz takes each of its own alone, at another scale, too."""
    stacks = defaultdict(list)
    for case in range(100_000):
        a = clustered(Draw((6, case)))
        stacks[a.shape, a.dtype].append(a)
    for several in stacks.values():
        a = np.stack(several)
        check_triplets(a)
        gram = a.conj().mT @ a
        check_pairs((gram + gram.conj().mT) / 2)


def check_bidiagonal(d, e):
    """The rotations are orthogonal, and take B to the diagonal."""
    n = len(d)
    bidiagonal = np.diag(d) + np.diag(e[:-1], 1)
    u, v = np.eye(n), np.eye(n)
    values = d.copy()
    rotations.diagonalize(values, e.copy(), [u, v])
    assert orthonormal(u)
    assert orthonormal(v)
    assert abs((u.T * values) @ v - bidiagonal).max() <= n * 2.0**-50 * abs(bidiagonal).max()


@pytest.mark.parametrize("zeros", [[0], [4], [9], [0, 1, 5], range(10)])
@pytest.mark.parametrize("size", [0.0, 2.0**-300])
def test_zeros_on_the_diagonal_are_found_by_one_sweep(zeros, size):
    """Exactly zero, so that they need not be told from rounding errors."""
    d, e = np.ones(10), np.append(np.full(9, 0.5), 0)
    d[list(zeros)] = size
    angles = np.zeros((2, 2, 10))
    after, beside = d.copy(), e.copy()
    assert not rotations.bidiagonal_sweep(after, beside, 0, 9, angles)
    assert (after[9], beside[8]) == (0, 0)
    check_bidiagonal(d, e)


def test_stalled_sweeps_end_with_what_they_leave_dropped(monkeypatch):
    """Sweeps that change nothing, as of rounding errors: numbers are dropped within PATIENCE + 60 of them."""
    sweeps = []
    for sweep in ("tridiagonal_sweep", "bidiagonal_sweep"):
        monkeypatch.setattr(rotations, sweep, lambda *_: sweeps.append(1) or np.True_)
    monkeypatch.setattr(rotations, "compiled", lambda _: None)
    for matrices in ([np.eye(3)], [np.eye(3), np.eye(3)]):
        d, e = np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.5, 0.0])
        rotations.diagonalize(d, e, matrices)
        assert not e.any()
        assert rotations.PATIENCE < len(sweeps) < 2 * (rotations.PATIENCE + 60)
        sweeps.clear()
    assert rotations.dropped(rotations.PATIENCE) == 0
    assert rotations.dropped(rotations.PATIENCE + 1) == 2 * rotations.NEGLIGIBLE


def test_what_stalls_is_dropped_and_nothing_larger():
    """Rounding errors of zeros that are equal, beside a number that joins two large ones."""
    d, e = np.array([3.0, -3.0, 0.0, 0.0]), np.array([2.0**-46, 2.0**-50, 2.0**-58, 0.0])
    assert rotations.block(d, e, 3, rotations.dropped(rotations.PATIENCE + 3)) == 3
    assert rotations.block(d, e, 2, rotations.dropped(rotations.PATIENCE + 3)) == 2
    assert e.tolist() == [2.0**-46, 0, 0, 0]
    assert rotations.block(d, e, 1, rotations.dropped(rotations.PATIENCE + 3)) == 0


@needs_numba
@cells(name=MATRICES, dtype=DTYPES)
def test_compiled_forms_have_the_bits_of_numpys(name, dtype, without_numba):
    a = matrix(name, dtype)[:33, :27]
    for function, x in ((ozaki.linalg.svd, a), (ozaki.linalg.eigh, a[:27])):
        assert all(map(same, function(x), without_numba(function, x)))


@needs_numba
def test_rotations_of_many_columns_and_sweeps(without_numba):
    rng = np.random.default_rng(8)
    spans = np.array([[0, 9], [3, 4], [5, 9]])
    angles, rows = rng.standard_normal((3, 2, 10)), rng.standard_normal((10, 300))
    form, expected = compiled.compiled(rotations.FORM), rows.copy()
    rotations.rotate(expected, spans, angles)
    form.rotate(rows, spans, angles)
    assert same(rows, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(30, 30), (150, 131), (20, 200), (2, 5, 5)])
def test_a_gpu_gives_the_same_bits(shape, dtype):
    a = numbers(np.random.default_rng(7), shape, dtype)
    for i in range(3):
        same_on_the_gpu(lambda x, i=i: ozaki.linalg.svd(x)[i], a)
    for i in range(2 if shape[-1] == shape[-2] else 0):
        same_on_the_gpu(lambda x, i=i: ozaki.linalg.eigh(x)[i], a)
