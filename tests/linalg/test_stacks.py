"""Stacks of small matrices: the bits of what is done one matrix at a time, by other products and loops."""

import itertools

import numpy as np
import pytest

from multiword.runtime import compiled
from ozaki import linalg
from tests.oracle import same

pytestmark = pytest.mark.skipif(not compiled.compiles(), reason="no numba")

SQUARE = {
    "lu_factor": lambda a: linalg.lu_factor(a, check_finite=False),
    "lu_solve": lambda a: linalg.lu_solve(linalg.lu_factor(a, check_finite=False), a, 2, check_finite=False),
    "solve_triangular": lambda a: linalg.solve_triangular(a, a[..., :2], check_finite=False),
    "solve": lambda a: linalg.solve(a, a[..., :2]),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "cholesky": lambda a: linalg.cholesky(a @ a.conj().swapaxes(-1, -2)),
    "eigh": lambda a: linalg.eigh(a, "U"),
    "eigvalsh": linalg.eigvalsh,
}
OF_ANY_SHAPE = {
    "qr": lambda a: linalg.qr(a),
    "complete qr": lambda a: linalg.qr(a, "complete"),
    "svd": lambda a: linalg.svd(a, full_matrices=False),
    "full svd": linalg.svd,
    "svdvals": linalg.svdvals,
}
SMALL = (1, 1), (2, 2), (3, 3), (5, 5), (7, 3), (3, 7)
LARGE = (17, 17), (33, 33), (64, 64), (40, 9), (130, 4)
EACH = dict(zip(SMALL, "DfdFdF", strict=True))
"""The kind of numbers of each shape in every run: each kind in square ones, two in others."""

CASES = [
    pytest.param(shape, dtype, marks=() if dtype in EACH.get(shape, "") else pytest.mark.slow)
    for shape, dtype in itertools.product(SMALL + LARGE, "dDfF")
]
KINDS = ("plain", "graded", "huge", "tiny", "singular", "special")


def drawn(rng, shape, dtype, kind):
    """A stack of three matrices."""
    x = rng.standard_normal((3, *shape))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(x.shape)
    reach = 30 if np.dtype(dtype).char in "fF" else 300
    if kind == "graded":
        x = x * 10.0 ** rng.integers(-12, 12, (3, 1, shape[1]))
    if kind == "huge":
        x = x * 10.0 ** rng.integers(-reach, reach, x.shape)
    if kind == "tiny":
        x = x * 2.0 ** (-140 if reach == 30 else -1060)
    if kind == "singular":
        x = np.round(4 * x)
        x[:, :, -1] = x[:, :, 0]
    if kind == "special":
        x = np.where(rng.random(x.shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], x.shape), x)
    return x.astype(dtype)


def outcome(function, a):
    """What a function returns, as a tuple, or the error that it raises."""
    try:
        with np.errstate(all="ignore"):
            result = function(a)
    except np.linalg.LinAlgError as error:
        return (str(error),)
    return tuple(result) if isinstance(result, tuple) else (result,)


def agree(got, want):
    return len(got) == len(want) and all(
        x == y if isinstance(x, str) or isinstance(y, str) else same(np.asarray(x), np.asarray(y))
        for x, y in zip(got, want, strict=True)
    )


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_a_stack_has_the_bits_of_products_and_loops_over_matrices(without_numba, shape, dtype):
    rng = np.random.default_rng(shape)
    functions = OF_ANY_SHAPE | (SQUARE if shape[0] == shape[1] else {})
    for kind in KINDS if max(shape) < 10 else KINDS[:1]:
        a = drawn(rng, shape, dtype, kind)
        for name, function in functions.items():
            for x in (a, a[0]):
                got = outcome(function, x)
                assert agree(got, without_numba(outcome, function, x)), (name, kind, x.ndim)


def test_stacks_broadcast_and_may_be_empty():
    a = np.random.default_rng(0).standard_normal((2, 1, 3, 3))
    b = np.random.default_rng(1).standard_normal((4, 3, 2))
    x = linalg.solve(a, b)
    assert x.shape == (2, 4, 3, 2)
    assert same(x[1, 2], linalg.solve(a[1, 0], b[2]))
    for result, shape in (
        (linalg.qr(a[:0]).Q, (0, 1, 3, 3)),
        (linalg.svd(np.zeros((0, 5, 2))).U, (0, 5, 5)),
        (linalg.eigh(a[:0]).eigenvalues, (0, 1, 3)),
        (linalg.det(a[:0]), (0, 1)),
        (linalg.slogdet(a[:0]).sign, (0, 1)),
        (linalg.inv(a[:0]), (0, 1, 3, 3)),
    ):
        assert result.shape == shape


def test_one_member_that_fails_is_refused_as_numpy_refuses_it():
    a = np.stack([np.eye(3), np.ones((3, 3))])
    for ours, theirs in ((linalg.inv, np.linalg.inv), (lambda x: linalg.cholesky(x - 2), np.linalg.cholesky)):
        with pytest.raises(np.linalg.LinAlgError):
            theirs(a if theirs is np.linalg.inv else a - 2)
        with pytest.raises(np.linalg.LinAlgError):
            ours(a)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
def test_small_least_squares_have_the_bits_of_products_and_loops(without_numba, dtype):
    rng = np.random.default_rng(7)
    for m, n, k in ((2, 2, 1), (5, 3, 2), (9, 4, 20)):
        a, b = drawn(rng, (m, n), dtype, "graded")[0], drawn(rng, (m, k), dtype, "plain")[0]
        special = drawn(rng, (m, k), dtype, "special")[0]
        for right in (b[:, 0], special):
            got = outcome(lambda y, a=a: linalg.lstsq(a, y), right)
            assert agree(got, without_numba(outcome, lambda y, a=a: linalg.lstsq(a, y), right)), (m, n, k)
