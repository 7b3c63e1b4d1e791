"""Factorizations and solvers: one definition, whatever compiles it, and however the BLAS multiplies."""

import os
import subprocess
import sys
import warnings
from threading import Thread

import numpy as np
import pytest

import ozaki
import ozaki.linalg
from multiword.runtime import compiled
from multiword.runtime.arrays import on_host
from ozaki.linalg import arithmetic, panels
from ozaki.linalg.products import multiply
from ozaki.nonfinite import one_nan
from tests.oracle import same

needs_numba = pytest.mark.skipif(not compiled.compiles(), reason="no numba")
DTYPES = (np.float64, np.complex128)
RECORDED = {
    "float64": ("6b1d4fc28d5e7800", "0658c0f12b355577", "c3dda43bbfc32ceb", "f67b0048d85b0ab7"),
    "complex128": ("090fff2f239a13c0", "04ee1c276abe8bd0", "9a633311f51e2d5b", "c598a2f76d76c0d4"),
}
"""Fingerprints of LU, a solution, R and a Cholesky factor that every machine must reproduce."""


def numbers(rng, shape, dtype):
    """Integers over a power of two: the same on every machine."""
    x = np.ldexp(rng.integers(-(2**40), 2**40, shape).astype(float), -40)
    return x + 1j * numbers(rng, shape, np.float64) if np.dtype(dtype).kind == "c" else x


def definite(rng, n, dtype):
    x = numbers(rng, (n, n), dtype)
    return ozaki.matmul(x, x.conj().T, accuracy="exact") + np.eye(n)


def leaves(rng, w, m, dtype):
    """The leaves, and arguments of each."""
    columns = numbers(rng, (w, m), dtype)
    columns[w // 2 :: 3] = columns[0]  # columns that are the same, and so zero pivots
    k = min(w, m)
    triangle = numbers(rng, (k, k), dtype) + 2 * np.eye(k)
    spread = columns * 2.0 ** rng.integers(-1060, 1000, columns.shape)
    special = np.where(
        rng.random(columns.shape) < 0.02, rng.choice([np.nan, np.inf, 0.0], columns.shape), columns
    )
    rows = columns * 2.0 ** -(9 * np.arange(m))
    zeros = columns * (np.arange(w) % 2 - 0.5)[:, None] * 0.0  # of both signs
    for x in (columns, spread, special, rows, zeros):
        yield panels.lu_panel, [x]
        if w <= m:
            yield panels.qr_panel, [x]
        for unit in (False, True):
            yield panels.lower_leaf, [triangle, x[:k].copy(), unit]
    yield panels.cholesky_leaf, [definite(rng, w, dtype)]
    yield panels.cholesky_leaf, [-definite(rng, w, dtype)]


def alike(x, y):
    """The same bits, but for those of NaNs."""
    x, y = (np.asarray(z) for z in (x, y))
    return same(one_nan(x), one_nan(y)) if x.dtype.kind in "fc" else same(x, y)


SHAPES = [(1, 1), (3, 5), (7, 4), (20, 33), (61, 64), (128, 200), (2, 0)]


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("w", "m"), SHAPES)
def test_leaves_are_what_is_defined(without_numba, w, m, dtype):
    for leaf, arguments in leaves(np.random.default_rng(w), w, m, dtype):
        results = []
        for run in (lambda f, *x: f(*x), without_numba):
            own = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
            with np.errstate(all="ignore"):
                returned = run(leaf, *own)
            results.append([*own, *(returned if isinstance(returned, tuple) else [returned])])
        for x, y in zip(*results, strict=True):
            assert alike(x, y), leaf.__name__


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("w", "m"), [*SHAPES, (128, 5000), (37, 20_011)])
def test_leaves_on_a_gpu_are_what_is_defined(w, m, dtype):
    cupy = pytest.importorskip("cupy")
    for leaf, arguments in leaves(np.random.default_rng(w), w, m, dtype):
        results = []
        for move in (np.array, cupy.array):
            own = [move(x) if isinstance(x, np.ndarray) else x for x in arguments]
            with np.errstate(all="ignore"):
                returned = leaf(*own)
            results.append([*own, *(returned if isinstance(returned, tuple) else [returned])])
        for x, y in zip(*results, strict=True):
            assert alike(x, on_host(y)), leaf.__name__


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [-1065, -540, -520, 0, 511, 1010])
def test_the_scale_of_a_column_changes_no_bit_of_its_factorization(exponent, dtype):
    rng = np.random.default_rng(exponent % 1000)
    few = 8 if exponent < -1000 else 40  # bits, so that subnormal numbers keep them
    x = np.ldexp(rng.integers(-(2**few), 2**few, (150, 9)).astype(float), -few)
    x = (x + 1j * x[::-1]).astype(dtype) if dtype is np.complex128 else x
    b = x @ np.arange(9.0) + 2.0**-20
    scaled = arithmetic.times_powers(x, np.full(9, exponent, np.int32))
    (q, r), (want_q, want_r) = ozaki.linalg.qr(scaled), ozaki.linalg.qr(x)
    assert same(q, want_q)
    assert same(r, arithmetic.times_powers(want_r, np.full(9, exponent, np.int32)))
    want = ozaki.linalg.lstsq(x, b)[0]
    got = ozaki.linalg.lstsq(scaled, b)[0]
    with np.errstate(over="ignore"):  # x·2**1065
        assert same(got, arithmetic.times_powers(want, np.full(9, -exponent, np.int32)))
    want = ozaki.linalg.lstsq(x.T, b[:9])[0]
    got = ozaki.linalg.lstsq(scaled.T, arithmetic.times_powers(b[:9], np.full(9, exponent, np.int32)))[0]
    assert exponent < -1000 or same(got, want)


@pytest.mark.parametrize(
    ("x", "divisor", "quotient"),
    [
        (1.5e308 * (1 + 1j), 2 + 2j, 7.5e307),
        (1e308, 1e308 + 1e308j, 0.5 - 0.5j),
        (1e308, 1.5e308 * (1 + 1j), 1 / 3 - 1j / 3),
        (5e-324, 1.5e-323 + 5e-324j, 0.3 - 0.1j),
        (2.0**-1074 * 1j, 2.0**-1000, 2.0**-74 * 1j),
        (0, 1e308j, 0),
    ],
)
def test_complex_quotients_at_the_ends_of_the_range(x, divisor, quotient):
    got = ozaki.linalg.solve(np.array([[divisor]], complex), np.array([x], complex))[0]
    assert abs(got - quotient) <= 4e-16 * abs(quotient)


def test_warnings_of_cost_stay_those_of_others():
    """Python's filters belong to all threads: linear algebra leaves them alone."""
    a = numbers(np.random.default_rng(0), (300, 300), float)
    before = list(warnings.filters)
    threads = [Thread(target=lambda: [ozaki.linalg.lu_factor(a) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before
    spread = np.array([[1.0, 2.0**400, 2.0**-400]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        multiply(spread, spread.T.copy(), "exact")
        assert not caught
        ozaki.accurate_dgemm(spread, spread.T.copy(), accuracy="exact")
    assert [x.category for x in caught] == [ozaki.CostWarning]


def test_nans_are_the_canonical_one():
    for x in ([[np.inf, np.inf], [np.inf, np.nan]], [[-np.nan, 1], [1, np.inf]]):
        for of in (ozaki.linalg.qr, ozaki.linalg.solve):
            with np.errstate(all="ignore"):
                results = of(np.array(x)) if of is ozaki.linalg.qr else [of(np.array(x), np.ones(2))]
            for result in results:
                assert same(result, one_nan(result))


@pytest.mark.parametrize("piv", [[-1, 1], [0, 2]])
def test_pivots_are_rows(piv):
    with pytest.raises(ValueError, match="piv must be rows of lu, from 0 to 1"):
        ozaki.linalg.lu_solve((np.eye(2), np.array(piv)), np.ones(2))


def test_arithmetic_rounds_every_step():
    """A complex product is four products and two sums, each rounded; a contracted one differs here."""
    x = np.array([1 + 2.0**-30 + 1j * (1 + 2.0**-29)])
    y = np.array([1 + 2.0**-28 + 1j * (1 - 2.0**-27)])
    a, b, c, d = (float(t) for t in (x.real[0], x.imag[0], y.real[0], y.imag[0]))
    assert arithmetic.product(x, y)[0] == complex(a * c - b * d, a * d + b * c)
    rng = np.random.default_rng(0)
    z, w = rng.standard_normal((2, 1000)) + 1j * rng.standard_normal((2, 1000))
    for value in w[:20]:
        assert np.abs(arithmetic.quotient(z, value) * value / z - 1).max() < 1e-15
    tiny = arithmetic.quotient(np.array([2.0**-600 + 0j]), np.complex128(2.0**-600 + 2.0**-600 * 1j))
    assert tiny[0] == 0.5 - 0.5j
    for n in (0, 1, 2, 7, 64):
        x = np.arange(float(n))
        assert arithmetic.tree_sum(x) == x.sum()
    assert arithmetic.largest(np.array([1.0, -3.0, 3.0])) == 1
    assert arithmetic.largest(np.array([1.0, np.nan, np.inf])) == 1


def relative(x, y):
    return np.abs(x - y).max(initial=0) / max(np.abs(y).max(initial=0), 1e-300)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 129, 300])
def test_backward_errors(n, dtype):
    rng = np.random.default_rng(n)
    a, b, s = numbers(rng, (n, n), dtype), numbers(rng, (n, 3), dtype), definite(rng, n, dtype)
    tolerance = 100 * max(n, 1) * 2.0**-53
    lu, piv = ozaki.linalg.lu_factor(a)
    lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
    swapped = a.copy()
    for j, p in enumerate(piv):
        swapped[[j, p]] = swapped[[p, j]]
    assert relative(lower @ upper, swapped) < tolerance
    assert (np.abs(lower) <= 1.5).all()
    for trans, turned in ((0, a), (1, a.T), (2, a.conj().T)):
        x = ozaki.linalg.lu_solve((lu, piv), b, trans=trans)
        assert relative(turned @ x, b) < tolerance * 1e3
    assert relative(a @ ozaki.linalg.solve(a, b), b) < tolerance * 1e3
    assert relative(a @ ozaki.linalg.inv(a), np.eye(n)) < tolerance * 1e4
    factor = ozaki.linalg.cholesky(s)
    assert relative(factor @ factor.conj().T, s) < tolerance
    assert (factor == np.tril(factor)).all()
    assert relative(ozaki.linalg.cholesky(s, upper=True), factor.conj().T) == 0
    q, r = ozaki.linalg.qr(a)
    assert relative(q @ r, a) < tolerance
    assert relative(q.conj().T @ q, np.eye(n)) < tolerance
    x = ozaki.linalg.solve_triangular(factor, b, lower=True)
    assert relative(factor @ x, b) < tolerance * 1e3
    sign, logarithm = ozaki.linalg.slogdet(a)
    expected = np.linalg.slogdet(a)
    assert abs(logarithm - expected[1]) <= 1e-11 * max(n, 1)
    assert abs(sign - expected[0]) < 1e-10


@pytest.mark.parametrize("shape", [(150, 40), (40, 150), (5, 0), (0, 5), (140, 140)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_of_qr_and_lu(shape, dtype):
    a = numbers(np.random.default_rng(1), shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = ozaki.linalg.qr(a, mode)
        expected = np.linalg.qr(a, mode)
        assert (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
        assert relative(q @ r, a) < 1e-13
        assert same(ozaki.linalg.qr(a, "r"), ozaki.linalg.qr(a).R)
    lu, piv = ozaki.linalg.lu_factor(a)
    k = min(shape)
    lower = np.tril(lu[:, :k], -1) + np.eye(shape[0], k)
    for j, p in enumerate(piv):
        a[[j, p]] = a[[p, j]]
    assert relative(lower @ np.triu(lu[:k]), a) < 1e-13


@pytest.mark.parametrize("name", ["solve", "inv", "det", "slogdet", "cholesky", "qr"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.float32, np.int32])
@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (2, 1)])
def test_stacks_and_dtypes_are_those_of_numpy(name, dtype, batch):
    rng = np.random.default_rng(2)
    a = (rng.integers(-3, 4, (*batch, 4, 4)) + 9 * np.eye(4)).astype(dtype)
    a = a + a.swapaxes(-1, -2)
    arguments = (a, np.ones((4, 2), dtype)) if name == "solve" else (a,)
    result, expected = getattr(ozaki.linalg, name)(*arguments), getattr(np.linalg, name)(*arguments)
    if not isinstance(expected, tuple):
        result, expected = (result,), (expected,)
    for x, y in zip(result, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        assert np.allclose(np.abs(x), np.abs(y), rtol=1e-4)
    if 0 not in batch and batch:
        first = getattr(ozaki.linalg, name)(*(x[(0,) * len(batch)] if x.ndim > 2 else x for x in arguments))
        first = first if isinstance(first, tuple) else (first,)
        assert all(
            same(np.asarray(x[(0,) * len(batch)]), np.asarray(y)) for x, y in zip(result, first, strict=True)
        )


def test_least_squares():
    rng = np.random.default_rng(3)
    for m, n in ((30, 7), (7, 30), (9, 9)):
        for dtype in DTYPES:
            a, b = numbers(rng, (m, n), dtype), numbers(rng, (m, 2), dtype)
            for right in (b, b[:, 0]):
                x, residuals, rank, _ = ozaki.linalg.lstsq(a, right)
                expected = np.linalg.lstsq(a, right)
                assert x.shape == expected[0].shape
                assert np.allclose(x, expected[0])
                assert np.allclose(residuals, expected[1])
                assert residuals.dtype == expected[1].dtype
                assert rank == expected[2]


def test_determinants_of_any_size():
    assert ozaki.linalg.det(np.eye(400) * 1e-5) == 0
    assert ozaki.linalg.det(np.eye(401) * -1e5) == -np.inf
    assert ozaki.linalg.det(np.diag([3e200, 1e-200, 0.1])) == pytest.approx(0.3)
    assert ozaki.linalg.det(np.ones((2, 2))) == 0
    assert ozaki.linalg.slogdet(np.zeros((2, 2))) == (0, -np.inf)
    assert ozaki.linalg.det(np.eye(2) * (1 + 1j)) == 2j
    assert np.isnan(ozaki.linalg.det(np.full((2, 2), np.nan)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scaled_rows_and_columns_lose_nothing(dtype):
    """Backward errors are relative to the numbers of their own row, or row and column, as LAPACK's are."""
    n, tolerance = 300, 1e5 * 2.0**-53
    rng = np.random.default_rng(7)
    a, b, s = numbers(rng, (n, n), dtype), numbers(rng, (n, 3), dtype), definite(rng, n, dtype)
    of_rows, of_columns = (2.0 ** rng.integers(-400, 400, n) for _ in range(2))
    for scaled in (of_rows[:, None] * a, a * of_columns):
        x = ozaki.linalg.solve(scaled, b)
        size = np.abs(scaled) @ np.abs(x) + np.abs(b)
        assert (np.abs(ozaki.matmul(scaled, x) - b) / size).max() < tolerance
    both = np.sqrt(of_rows)
    factor = ozaki.linalg.cholesky(both[:, None] * s * both)
    assert relative((factor / both[:, None]) @ (factor / both[:, None]).conj().T, s) < tolerance
    q, r = ozaki.linalg.qr(a * of_columns)
    assert relative(q @ (r / of_columns), a) < tolerance


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(3,), (2, 1), (0,)])
def test_stacks_of_factors_solve_like_their_matrices(batch, dtype):
    rng = np.random.default_rng(5)
    a, b = numbers(rng, (*batch, 7, 7), dtype), numbers(rng, (2, 3, 7, 2)[-2 - len(batch) :], dtype)
    b = b if len(batch) == 2 or batch == (3,) else b[:0]
    lu, piv = ozaki.linalg.lu_factor(a)
    for trans in (0, 1, 2):
        x = ozaki.linalg.lu_solve((lu, piv), b, trans=trans)
        shape = np.broadcast_shapes(batch, b.shape[:-2])
        of_a, of_piv = np.broadcast_to(lu, (*shape, 7, 7)), np.broadcast_to(piv, (*shape, 7))
        right = np.broadcast_to(b, (*shape, 7, 2))
        assert x.shape == right.shape
        for index in np.ndindex(shape):
            alone = ozaki.linalg.lu_solve((of_a[index], of_piv[index]), right[index], trans=trans)
            assert x[index].tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda f: f.solve(np.ones((2, 3)), np.ones(2)), np.linalg.LinAlgError, "square"),
        (lambda f: f.solve(np.zeros((2, 2)), np.ones(2)), np.linalg.LinAlgError, "singular"),
        (lambda f: f.cholesky(-np.eye(3)), np.linalg.LinAlgError, "positive definite"),
        (lambda f: f.cholesky(np.diag([1.0] * 140 + [-1.0])), np.linalg.LinAlgError, "positive definite"),
        (lambda f: f.qr(np.eye(2), "raw"), ValueError, "mode"),
        (lambda f: f.lu_factor(np.array([[np.inf]])), ValueError, "finite"),
        (
            lambda f: f.lu_solve(f.lu_factor(np.eye(2)), np.ones(3)),
            np.linalg.LinAlgError,
            "b must have 2 rows",
        ),
        (lambda f: f.lu_solve((np.eye(2), [0, 1, 1]), np.ones(2)), ValueError, "piv must be"),
        (lambda f: f.lu_solve((np.eye(2), [0.0, 1.0]), np.ones(2)), ValueError, "piv must be"),
        (lambda f: f.solve_triangular(np.zeros((2, 2)), np.ones(2)), np.linalg.LinAlgError, "diagonal"),
        (lambda f: f.solve_triangular(np.eye(2), np.ones(2), trans=5), ValueError, "trans"),
        (lambda f: f.det("ab"), TypeError, "a must be"),
        (lambda f: f.lstsq(np.eye(2), np.ones(3)), np.linalg.LinAlgError, "as many rows"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call(ozaki.linalg)


FINGERPRINTS = """
import numpy as np, ozaki, ozaki.linalg as f
from tests.linalg.test_same_bits import definite, numbers
for dtype in (np.float64, np.complex128):
    rng = np.random.default_rng(9)
    a, b, s = numbers(rng, (280, 280), dtype), numbers(rng, (280, 5), dtype), definite(rng, 280, dtype)
    results = [f.lu_factor(a)[0], f.solve(a, b), f.cholesky(s), *f.qr(a[:, :150])]
    results += [np.asarray(f.det(a[:90, :90])), *f.eigh(a[:150, :150]), *f.svd(a[:150, :140])]
    print(*(ozaki.fingerprint(x) for x in results))
"""


@pytest.mark.slow
def test_every_blas_and_thread_count_gives_the_same_bits():
    """OpenBLAS's kernels of several processors, one and two threads; unknown names are ignored elsewhere."""
    printed = set()
    for kernels, threads in (("Haswell", "1"), ("Prescott", "2"), ("SkylakeX", "1"), ("Zen", "2")):
        environment = {**os.environ, "OPENBLAS_CORETYPE": kernels, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", FINGERPRINTS]
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=600
        )
        printed.add(run.stdout)
    assert len(printed) == 1


def test_least_squares_at_the_ends_of_the_range():
    a = 1e300 * np.array([[1, 1], [1, 1 + 1e-10], [0, 0]])
    b = np.array([1.0, 2.0, 0.0])
    want = ozaki.linalg.lstsq(a * 2.0**-996, b * 1e300 * 2.0**-996)[0]
    assert same(ozaki.linalg.lstsq(a, b * 1e300)[0], want)
    assert np.isfinite(want).all()
    x = ozaki.linalg.lstsq(np.diag([1e300, 1e-300]), np.array([3e300, 0]), rcond=0)[0]
    assert np.array_equal(x, [3, 0])
    x, _, rank, _ = ozaki.linalg.lstsq(np.diag([1e300, 1e-300]), np.ones(2))
    assert (x.tolist(), rank) == ([1e-300, 0], 1)
    x, _, rank, _ = ozaki.linalg.lstsq(np.diag([1.0, 0.0]), np.ones(2), rcond=0)
    assert (x.tolist(), rank) == ([1, 0], 1)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_an_empty_stack_is_solved(n):
    lu = np.zeros((0, n, n)), np.zeros((0, n), np.int32)
    assert ozaki.linalg.lu_solve(lu, np.zeros((0, n, 3))).shape == (0, n, 3)


def defined(dtype):
    """Fingerprints of a system of 300 unknowns, its factors, and those of a definite matrix."""
    rng = np.random.default_rng(300)
    a, right, positive = numbers(rng, (300, 300), dtype), numbers(rng, 300, dtype), definite(rng, 300, dtype)
    results = (
        *(ozaki.linalg.lu_factor(a)[0], ozaki.linalg.solve(a, right)),
        *(ozaki.linalg.qr(a, mode="r"), ozaki.linalg.cholesky(positive, upper=True)),
    )
    return tuple(map(ozaki.fingerprint, results))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_bits_are_those_of_the_definition(dtype):
    """Other leaves, or another order in them, would be equal on every machine, too: to other bits."""
    assert defined(dtype) == RECORDED[dtype]
