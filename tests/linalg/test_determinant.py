"""Products of pivots, and their logarithms: what compiled loops decide has the bits of integers."""

import mpmath
import numpy as np
import pytest

from multiword.runtime import compiled
from ozaki.linalg import determinant
from tests.oracle import same

pytestmark = pytest.mark.skipif(not compiled.compiles(), reason="no numba")

KINDS = {
    "plain": lambda rng, x: x,
    "ties": lambda rng, x: np.rint(x * 2.0**14) + 0.5,
    "huge": lambda rng, x: x * 10.0 ** rng.integers(-300, 300, x.shape),
    "subnormal products": lambda rng, x: x * 2.0 ** -(1060 / x.shape[1]),
    "near 1": lambda rng, x: 1 + x * 2.0 ** -rng.integers(5, 53, (len(x), 1)),
    "powers": lambda rng, x: 2.0 ** np.rint(x),
    "special": lambda rng, x: np.where(
        rng.random(x.shape) < 0.1, rng.choice([0, np.inf, np.nan], x.shape), x
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_what_is_decided_is_what_integers_give(kind, dtype):
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 9, 70):
        x = KINDS[kind](rng, rng.standard_normal((12, n))).astype(dtype)
        if dtype == np.complex128:
            x.imag[::3], x.imag[1::3] = x.real[::3] * rng.standard_normal(n), x.real[1::3, ::-1]
        pivots = rng.integers(0, 3, x.shape)
        signs = [determinant._sign(row) for row in pivots]
        rows = list(zip(x, signs, strict=True))
        with np.errstate(all="ignore"):
            assert same(
                determinant.determinants(x, pivots, False),
                np.array([determinant.determinant(*row) for row in rows], dtype),
            )
            narrow = np.complex64 if dtype == np.complex128 else np.float32
            assert same(
                determinant.determinants(x, pivots, True).astype(narrow),
                np.array([determinant.determinant(*row, single=True) for row in rows], dtype).astype(narrow),
            )
            directions, sizes = determinant.signs_and_logarithms(x, pivots)
            expected = np.array([determinant.sign_and_logarithm(*row) for row in rows], dtype).T
            assert same(directions, expected[0].copy())
            assert same(sizes, expected[1].real.copy())


def test_ordinary_pivots_are_decided(monkeypatch):
    def integers(*_, **__):
        raise AssertionError("undecided")

    monkeypatch.setattr(determinant, "determinant", integers)
    monkeypatch.setattr(determinant, "sign_and_logarithm", integers)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((50, 64))
    for diagonals in (
        x,
        np.rint(4 * x),
        x + 1j * x[::-1],
        np.ones((3, 5)),
        np.zeros((1, 2)),
        -(2.0 ** np.rint(x)),
    ):
        pivots = rng.integers(0, 3, diagonals.shape)
        determinant.determinants(diagonals, pivots, False)
        determinant.signs_and_logarithms(diagonals, pivots)


def test_operations_of_two_words_lose_no_more_than_their_bounds_say():
    import numba

    form, rng = compiled.compiled(determinant.FORM), np.random.default_rng(5)
    logarithm, divided, square_root = form.logarithm, form.divided, form.square_root

    @numba.njit
    def computed(high, low, other, e):
        return logarithm(high, low, 0.0, e), divided(high, low, other, -low), square_root(high, low)

    near = 1 + 2.0 ** -rng.integers(1, 50, 60) * rng.standard_normal(60)
    with mpmath.workprec(300):
        for high, e in zip([*rng.uniform(0.5, 2, 60), *near], rng.integers(-900, 900, 120), strict=True):
            e = 0 if abs(high - 1) < 0.25 else int(e)
            low, other = high * 2.0**-54 * rng.uniform(-1, 1), rng.uniform(0.5, 2)
            number = mpmath.mpf(high) + low
            (s, t, error), (q, rest), (root, below) = computed(high, low, other, e)
            assert abs(mpmath.log(number) + e * mpmath.log(2) - s - t) <= error
            assert abs(number / (mpmath.mpf(other) - low) - q - rest) <= form.QUOTIENT * abs(q)
            assert abs(mpmath.sqrt(number) - root - below) <= form.QUOTIENT * root
