"""Verified determinants, definiteness, least squares and spectra, against exact arithmetic."""

from fractions import Fraction

import flint
import numpy as np
import pytest

from ozaki.linalg import verified
from ozaki.linalg.verified.tools import integers
from tests.fuzz.exact_linalg import conditioned
from tests.oracle import check_proof, check_spectrum, embedded, fractions, rational_matrix


def exact_det(a):
    value = rational_matrix(a).det()
    return Fraction(int(value.p), int(value.q))


def small(rng, case):
    """A matrix of normal numbers, of integers, singular, nearly singular, or badly scaled."""
    n = int(rng.integers(1, 10))
    a = rng.standard_normal((n, n)) if case % 2 else rng.integers(-9, 10, (n, n)).astype(float)
    if case % 5 == 1 and n > 1:
        a[-1] = a[0] * (1 + 2.0**-50 * rng.integers(-2, 3, n))
    if case % 5 == 2:
        a *= 2.0 ** rng.integers(-200, 200, n)
    if case % 5 == 3 and n > 1:
        a[-1] = a[0] + a[n // 2]
    return a


@pytest.mark.parametrize("exact", [False, True])
def test_determinants(exact):
    rng = np.random.default_rng(0)
    for case in range(60):
        a = small(rng, case)
        result, true = verified.det(a, exact=exact), exact_det(a)
        assert result.sign == (true > 0) - (true < 0)
        value = Fraction(result.mantissa) * Fraction(2) ** result.exponent
        assert abs(value - true) <= abs(value) * Fraction(result.relative) * (1 + Fraction(1, 10**6))
        if (a == np.rint(a)).all() and np.abs(a).max() < 1e6:
            assert result.integer == true
        assert result.integer in (None, true)


def test_complex_determinants():
    rng = np.random.default_rng(1)
    for n in (1, 2, 6):
        a = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
        real, imaginary, exponent = integers.exact_determinant(a)
        true = [Fraction(x) * Fraction(2) ** exponent for x in (real, imaginary)]
        square = exact_det(embedded(a))  # |det|²
        assert true[0] ** 2 + true[1] ** 2 == square
        result = verified.det(a)
        error = [
            (Fraction(x) * Fraction(2) ** result.exponent - y) ** 2
            for x, y in zip((result.mantissa.real, result.mantissa.imag), true, strict=True)
        ]
        assert sum(error) <= square * Fraction(result.relative) ** 2 * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("octaves", [-400, -50, -8, 8, 20])
def test_determinants_have_the_same_bound_at_any_scale(octaves):
    rng = np.random.default_rng(11)
    left, right = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
    near_singular = left * 10.0 ** -np.linspace(0, 14, 6) @ right
    for a in (near_singular, rng.standard_normal((5, 5)) + 0.5j):
        usual, scaled = (verified.det(x) for x in (a, a * 2.0**octaves))
        assert scaled.relative == pytest.approx(usual.relative, rel=1e-9)
        assert (scaled.mantissa, scaled.exponent) == (usual.mantissa, usual.exponent + len(a) * octaves)
    integers = rng.integers(-99, 100, (7, 7)).astype(float)
    assert verified.det(integers * 2.0**octaves).relative == 0 == verified.det(integers).relative


def test_determinants_beyond_the_range_and_of_no_rows():
    assert verified.det(np.zeros((0, 0))).value == 1
    large = verified.det(np.eye(20) * 2.0**100)
    assert (large.value, large.mantissa, large.exponent) == (np.inf, 0.5, 2001)
    assert verified.det(np.eye(20) * -(2.0**-100)).value == 0
    hilbert = 1 / (np.arange(16)[:, None] + np.arange(16) + 1.0)
    result = verified.det(hilbert)
    assert result.sign == np.sign(exact_det(hilbert))


def test_elimination_modulo_primes_takes_its_time():
    assert integers.exact_determinant(np.ones((3000, 3000))) is None


def exact_form(a, x):
    """xᴴAx, exactly."""
    x, a = (np.concatenate([x.real, x.imag]), embedded(a)) if a.dtype.kind == "c" else (x, a)
    column = rational_matrix(x[:, None])
    return (column.transpose() * rational_matrix(a) * column)[0, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_definiteness(n, dtype):
    rng = np.random.default_rng(n)
    for digits in (0, 4, 7, 7.7):
        x = conditioned(rng, n, digits, np.dtype(dtype)) * 2.0 ** rng.integers(-100, 100, (n, 1))
        a = x @ x.conj().T
        a = (a + a.conj().T) / 2
        for matrix in (a, -a, a - 1.5 * np.linalg.eigvalsh(a)[0] * np.eye(n)):
            try:
                answer = verified.is_positive_definite(matrix)
            except verified.NotProvedError:
                continue
            real = embedded(matrix)
            minors = [rational_matrix(real[:k, :k]).det() > 0 for k in range(1, len(real) + 1)]
            assert bool(answer) == all(minors)
            if not answer:
                assert answer.witness.any()
                assert exact_form(matrix, answer.witness) <= 0


def test_ways_of_definiteness():
    hilbert = 1 / (np.arange(13)[:, None] + np.arange(13) + 1.0)
    ways = [verified.is_positive_definite(x).how for x in (hilbert[:5, :5], hilbert, np.ones((3, 3)))]
    assert ways == ["Cholesky", "congruence", "witness"]
    with pytest.raises(ValueError, match="symmetric"):
        verified.is_positive_definite([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_least_squares(dtype):
    rng = np.random.default_rng(2)
    for case in range(25):
        m = int(rng.integers(1, 12))
        n = int(rng.integers(1, m + 1))
        a = rng.standard_normal((m, n)) * (1 + (1j * rng.random((m, n)) if dtype == np.complex128 else 0))
        if case % 3 == 0:
            a *= np.vander(np.linspace(0.1, 1, m), n)
        if case % 4 == 1:
            a *= 2.0 ** rng.integers(-200, 200, n)
        if case % 5 == 2:
            a = rng.integers(-2, 3, (m, n)).astype(dtype)
        b = rng.standard_normal((m, 2)) + 0 * a[:, :1]
        right = np.vstack([b.real, b.imag]) if dtype == np.complex128 else b
        x, y = rational_matrix(embedded(a)), rational_matrix(right)
        try:
            solution = verified.lstsq(a, b)
        except verified.NotProvedError:
            assert np.linalg.cond(a) > 1e12
            continue
        true = fractions((x.transpose() * x).solve(x.transpose() * y))
        assert check_proof(solution, true[:n], true[n:] or None) >= 0.9 or case % 5 == 2
    assert verified.lstsq(np.ones((3, 2)), np.ones(3), throw=False).result == "not proved"
    with pytest.raises(np.linalg.LinAlgError, match="m >= n"):
        verified.lstsq(np.ones((2, 3)), np.ones(2))


def true_eigenvalues(a):
    """Ascending, by Arb, to a hundred digits; None where Arb does not isolate them."""
    with flint.ctx.workprec(400):
        matrix = flint.acb_mat([[flint.acb(float(x.real), float(x.imag)) for x in row] for row in a])
        try:
            values = matrix.eig()
        except ValueError:
            return None
        return sorted((x.real for x in values), key=lambda x: float(x.mid()))


def check_enclosures(result, true):
    with flint.ctx.workprec(400):
        for x, bound, rounded, value in zip(result.value, result.bound, result.rounded, true, strict=True):
            assert abs(flint.arb(float(x)) - value) <= flint.arb(float(bound))
            assert not rounded or float(value.mid()) == x


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_eigenvalues(dtype):
    rng = np.random.default_rng(3)
    checked = 0
    for case in range(24):
        n = int(rng.integers(1, 9))
        x = conditioned(rng, n, 3, np.dtype(dtype)) * (1 + rng.random((n, 1)))
        a = x + x.conj().T
        if case % 3 == 1:
            d = 10.0 ** -np.linspace(0, 10, n)
            a = (d[:, None] * d) * a
        if case % 3 == 2:
            a = np.rint(8 * a.real) + 1j * np.rint(8 * a.imag) if dtype == np.complex128 else np.rint(8 * a)
        a = (a + a.conj().T) / 2
        result, true = verified.eigh(a), true_eigenvalues(a)
        if true is None:
            continue
        checked += 1
        check_enclosures(result, true)
        apart = [i for i in range(n) if (result.cluster == result.cluster[i]).sum() == 1]
        assert all(result.rounded[i] or result.value[i] == 0 for i in apart)
    assert checked > 12


def test_clusters_are_told():
    q = np.linalg.qr(np.random.default_rng(4).standard_normal((6, 6)))[0]
    a = q @ np.diag([1.0, 2, 2, 2, 3, 3]) @ q.T
    result = verified.eigh((a + a.T) / 2)
    assert result.cluster.tolist() == [0, 1, 1, 1, 2, 2]
    assert (np.abs(result.value - [1, 2, 2, 2, 3, 3]) <= 1e-14).all()
    assert (result.bound < 1e-14).all()
    assert result.angle[0] < 1e-14
    assert result.angle[1] > 1.5
    assert len(verified.eigh(np.zeros((0, 0))).value) == 0
    with pytest.raises(ValueError, match="Hermitian"):
        verified.eigh([[0.0, 1.0], [2.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_singular_values(dtype):
    """Against the roots of the eigenvalues of AᴴA."""
    rng = np.random.default_rng(5)
    for m, n in ((1, 1), (5, 5), (7, 3), (3, 7), (6, 6)):
        a = rng.standard_normal((m, n)) + (1j * rng.standard_normal((m, n)) if dtype == np.complex128 else 0)
        result, k = verified.svdvals(a), min(m, n)
        with flint.ctx.workprec(400):
            x = flint.acb_mat([[flint.acb(float(z.real), float(z.imag)) for z in row] for row in a])
            adjoint = flint.acb_mat([[flint.acb(float(z.real), -float(z.imag)) for z in row] for row in a.T])
            squares = sorted(
                ((adjoint * x) if n <= m else (x * adjoint)).eig(), key=lambda z: -float(z.real.mid())
            )
            check_enclosures(result, [z.real.sqrt() for z in squares[:k]])
        assert result.rounded.all()
    repeated = verified.svdvals(np.eye(4)[:, :3] * 2)
    assert repeated.value.tolist() == [2, 2, 2]
    assert set(repeated.cluster.tolist()) == {0}
    assert verified.svdvals(np.ones((0, 3))).value.shape == (0,)


def numbers(dtype, n=6):
    """A matrix, a Hermitian one, and right sides; the same on every machine."""
    rng = np.random.default_rng(59)
    x = rng.integers(-(2**30), 2**30, (2, n, n + 2)) * 2.0**-30
    x = x[0] + 1j * x[1] if dtype is np.complex128 else x[0]
    return x[:, :n], x[:, :n] + x[:, :n].conj().T, x[:, n:]


PROOFS = {
    "eigh": (lambda a, h, b: verified.eigh(h), 1),
    "svdvals": (lambda a, h, b: verified.svdvals(a), 1),
    "svdvals of a tall matrix": (lambda a, h, b: verified.svdvals(a[:, :3]), 1),
    "lstsq": (lambda a, h, b: verified.lstsq(a[:, :3], b), 0),
    "solve": (lambda a, h, b: verified.solve(a, b), 0),
    "a certificate": (lambda a, h, b: verified.certify(a).solve(b), 0),
}
"""Results, and whether they are as large as the matrix; of right sides as large as it they stay the same."""


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("exponent", [-1000, -900, -540, 580, 900, 1000])
@pytest.mark.parametrize("name", PROOFS)
def test_proofs_at_any_scale_are_those_in_the_middle(name, exponent, dtype):
    function, power = PROOFS[name]
    expected, got = (function(*(x * 2.0**e for x in numbers(dtype))) for e in (0, exponent))
    assert expected.rounded.all()
    for of in ("value", "bound"):
        middle = np.atleast_1d(getattr(expected, of)) * 2.0 ** (power * exponent)
        if of == "value" or (middle >= 2.0**-1022).all():
            assert np.array_equal(getattr(got, of), middle)
        assert (got.bound <= 2 * middle).all() or of == "value"
    assert got.rounded.all()


@pytest.mark.parametrize("exponent", [-960, -900, 900, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_right_sides_of_any_scale(exponent, dtype):
    a, _, b = numbers(dtype)
    for function in (verified.solve, verified.lstsq, lambda a, b: verified.certify(a).solve(b)):
        expected, got = function(a, b), function(a, b * 2.0**exponent)
        assert np.array_equal(got.value, expected.value * 2.0**exponent)
        assert got.rounded.all()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_graded_matrices_of_any_scale(dtype):
    """Rows and columns from 2**-450 to 2**450 each, against rationals."""
    a, h, b = numbers(dtype)
    of_rows, of_columns = 2.0 ** np.linspace(-450, 450, 6).round(), 2.0 ** np.linspace(450, -440, 6).round()
    for graded in (a * of_rows[:, None], a * of_columns, a * of_rows[:, None] * of_columns):
        for right in (b, b * of_rows[:, None] ** 2):
            solution = verified.certify(graded).solve(right)
            assert check_proof(solution, *rationally_solved(graded, right)) > 0.5
    tall = (a * of_columns)[:, :3]
    assert check_proof(verified.lstsq(tall, b), *least_squares(tall, b)) == 1
    graded = h * of_columns[:, None] * of_columns
    result = verified.eigh(graded)
    assert np.isfinite(result.bound).all()
    assert result.rounded[[0, -1]].any()
    if dtype is np.float64:
        check_spectrum(result, graded)


def rationally_solved(a, b):
    n, right = len(a), np.vstack([b.real, b.imag]) if a.dtype.kind == "c" else b
    x = fractions(rational_matrix(embedded(a)).solve(rational_matrix(right)))
    return x[:n], x[n:] or None


def least_squares(a, b):
    n, right = a.shape[1], np.vstack([b.real, b.imag]) if a.dtype.kind == "c" else b
    x, y = rational_matrix(embedded(a)), rational_matrix(right)
    x = fractions((x.transpose() * x).solve(x.transpose() * y))
    return x[:n], x[n:] or None


def test_right_sides_wider_than_any_scale():
    """What float64 cannot hold beside one another is solved in parts, and these are added."""
    a = np.array([[2.0, 1, 0], [1, 3, 0], [0, 0, 5]])
    b = np.array([[2.0**1000, 2.0**1000], [2.0**-1000, -(2.0**1000)], [2.0**-1060, 7 * 2.0**-1074]])
    for matrix in (a, a * (1 + 2j)):
        right = b.astype(matrix.dtype)
        solution = verified.solve(matrix, right)
        check_proof(solution, *rationally_solved(matrix, right))
        assert solution.rounded[:2].all()
    x = verified.solve(np.eye(2), [1e308, 5e-324])
    assert x.value.tolist() == [1e308, 5e-324]
    assert not x.bound.any()


def test_what_scaling_rounds_is_in_the_bounds():
    """A matrix whose smallest numbers vanish beside its largest: eigenvalues move by that, at most."""
    a = np.diag([2.0**1000, 3 * 2.0**-1000])
    result = verified.eigh(a)
    assert result.value[1] == 2.0**1000
    assert abs(result.value[0] - 3 * 2.0**-1000) <= result.bound[0] <= 2.0**-60
    assert result.cluster.tolist() == [0, 1]


def test_columns_whose_numbers_are_far_apart_are_scaled_as_far_as_all_stay_exact():
    a = np.array([[2.0**700, 1], [3 * 2.0**-500, 1], [2.0**700, -1]])
    b = np.array([[1.0], [2], [4]])
    assert check_proof(verified.lstsq(a, b), *least_squares(a, b)) == 1


def test_systems_without_right_sides_are_proved_as_others():
    for function in (verified.solve, verified.lstsq):
        with pytest.raises(np.linalg.LinAlgError):
            function(np.zeros((2, 2)), np.ones((2, 0)))
    with pytest.raises(ValueError, match="max_words must be at least 1"):
        verified.solve(np.eye(2), np.ones((2, 0)), max_words=0)
    with pytest.raises(ValueError, match="max_words must be at least 1"):
        verified.solve(np.ones((0, 2, 2)), np.ones((0, 2, 2)), max_words=0)
    assert verified.solve(np.eye(2), np.ones((2, 0))).value.shape == (2, 0)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_values_of_zeros_are_exact(dtype):
    for shape in ((1, 1), (3, 3), (4, 2), (2, 5)):
        singular = verified.svdvals(np.zeros(shape, dtype))
        assert singular.value.shape == (min(shape),)
        assert singular.rounded.all()
        assert not singular.value.any()
        assert not singular.bound.any()
    spectrum = verified.eigh(np.zeros((3, 3), dtype))
    assert spectrum.rounded.all()
    assert not spectrum.bound.any()
    assert (spectrum.vectors[0] == np.eye(3)).all()
    assert (spectrum.angle == np.pi / 2).all()
