"""Linear algebra at the edges: clusters, scales, shapes of nothing, other floating-point modes."""

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import ozaki
from multiword.runtime import floats
from ozaki import linalg
from ozaki.linalg import determinant, products, verified
from ozaki.linalg.verified.tools import regularity
from tests.oracle import check_spectrum
from tests.test_float_modes import FLUSHING, known_register, mode

CLUSTER = np.array(
    [
        [1.7699409001599633, -0.1630423459100953, -0.3880065770846684],
        [-0.1630423459100953, 1.034525775360608, 0.08216410187234802],
        [-0.3880065770846684, 0.08216410187234802, 1.1955333244794277],
    ]
)
"""Two eigenvalues near 1, whose Rayleigh quotients agree in their first words."""


def clusters(count):
    rng = np.random.default_rng(5)
    for _ in range(count):
        q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        a = q * [1.0, 1.0, 2.0] @ q.T
        yield (a + a.T) / 2


@pytest.mark.parametrize("a", [CLUSTER, *clusters(200)])
def test_eigenvalues_of_clusters_are_within_their_bounds(a):
    check_spectrum(verified.eigh(a), a)


@pytest.mark.parametrize(
    "a",
    [
        *([[1.0, 2.0**40], [1.0, 2.0**40]], [[447.0, 826.0], [447.0, 826.0]]),
        *([[1, 2.0**40], [3 * 2.0**-30, 3 * 2.0**10]], [[2.0**-1000, 2.0**1000]] * 2),
    ],
)
@pytest.mark.parametrize(
    "function", [lambda a: verified.solve(a, np.ones(2)), verified.inv, verified.certify]
)
def test_null_vectors_are_those_of_the_matrix(a, function):
    with pytest.raises(verified.SingularError) as raised:
        function(np.array(a))
    z = [Fraction(x) for x in raised.value.null_vector.tolist()]
    assert any(z)
    assert all(sum(Fraction(x) * y for x, y in zip(row, z, strict=True)) == 0 for row in np.array(a).tolist())


def test_a_null_vector_that_no_float64_holds():
    with pytest.raises(verified.SingularError) as raised:
        verified.inv(np.array([[2.0**-1070, 2.0**1020], [2.0**-1071, 2.0**1019]]))
    assert raised.value.null_vector is None


def test_imaginary_parts_of_the_diagonal_are_not_read():
    a = np.array([[1 + 2.0**600 * 1j, 1], [1, 1]])
    assert np.array_equal(linalg.eigvalsh(a), linalg.eigvalsh(a.real + 0j))


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_the_other_triangle_is_not_read(triangle):
    a = np.array([[1, np.nan], [1, 1.0]])
    a = a if triangle == "L" else a.T
    assert np.array_equal(linalg.eigvalsh(a, triangle), linalg.eigvalsh(np.ones((2, 2))))
    with pytest.raises(np.linalg.LinAlgError, match="finite"):
        linalg.eigvalsh(a.T, triangle)
    assert np.array_equal(linalg.eigvalsh(a, triangle.lower()), linalg.eigvalsh(a, triangle))
    assert np.array_equal(linalg.eigh(a, triangle.lower())[1], linalg.eigh(a, triangle)[1])


@pytest.mark.parametrize(("exponent", "rank"), [(-51, 2), (-40, 2), (-53, 1)])
def test_a_negative_rcond_is_the_unit_of_the_arithmetic(exponent, rank):
    x, _, found, sizes = linalg.lstsq(np.diag([1, 2.0**exponent]), np.ones(2), rcond=-1)
    assert (x.tolist(), found) == ([1, 2.0**-exponent if rank == 2 else 0], rank)
    assert sizes.tolist() == [1, 2.0**exponent]


DEFICIENT = {
    "equal columns": np.array([[1.0, 1], [1, 1], [0, 0]]),
    "dummies of all levels": np.c_[np.ones(20), np.eye(4)[np.arange(20) % 4]],
    "wide": np.outer(np.arange(1.0, 4), [1, 2, 0, -1, 3]),
    "zeros": np.zeros((3, 2)),
    "a row": np.array([[0.0, 0, 3]]),
    "at the top of the range": np.ones((4, 3)) * 2.0**1000,
    "near zero": np.ones((4, 3)) * 2.0**-1000,
}


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
@pytest.mark.parametrize("name", DEFICIENT)
@pytest.mark.parametrize("columns", [(), (2,)])
def test_least_squares_of_any_rank_are_numpys(name, columns, dtype):
    a = DEFICIENT[name] * (1 + 2j if dtype is np.complex128 else 1)
    if dtype is np.float32:
        a = np.clip(a, 0, 2).astype(dtype)
    b = np.random.default_rng(4).standard_normal((len(a), *columns)).astype(dtype) * max(1, abs(a).max())
    got, expected = linalg.lstsq(a, b), np.linalg.lstsq(a, b, rcond=None)
    assert got[2] == expected[2]
    for x, y in zip(got[:2] + got[3:], expected[:2] + expected[3:], strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert np.allclose(
            x, y, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=abs(y).max(initial=0) * 1e-14
        )


def test_least_squares_have_their_singular_values():
    a = np.random.default_rng(5).standard_normal((9, 4)) * [1, 2.0**30, 1, 2.0**-30]
    for matrix in (a, a.T, a * 2.0**980):
        sizes = linalg.lstsq(matrix, np.ones(len(matrix)), rcond=0)[3]
        assert np.allclose(sizes, linalg.svdvals(matrix), rtol=1e-14, atol=sizes[0] * 1e-15)
    with pytest.raises(ValueError, match="rcond"):
        linalg.lstsq([[1.0]], [1.0], rcond=np.nan)
    with pytest.raises(np.linalg.LinAlgError, match="finite"):
        linalg.lstsq([[1.0, np.nan]], [1.0])
    assert np.isnan(linalg.lstsq(np.eye(2), [1.0, np.nan])[0][1])


def test_words_that_round_to_subnormal_numbers_have_an_error():
    x = verified.solve(np.array([[2.0**1000]]), np.array([3 * 2.0**-75]))
    exact = Fraction(3, 2 ** (75 + 1000))
    assert abs(exact - sum(Fraction(float(word[0])) for word in x.words)) <= Fraction(float(x.error[0]))


@pytest.mark.parametrize("a", [[[3, 5], [5, 7]], [[-4 - 3j]], [[1, -1], [1, 1]], [[0.5, 0.25], [0.125, 3]]])
def test_mantissas_are_between_a_half_and_one(a):
    result = verified.det(np.array(a))
    parts = result.mantissa.real, result.mantissa.imag
    assert 0.5 <= max(map(abs, parts)) < 1
    value = result.value
    assert complex(*(np.ldexp(part, result.exponent) for part in parts)) == complex(value)
    assert result.integer is None or (result.relative == 0 and result.integer == value)


def test_determinants_of_float32_are_rounded_once():
    factors = np.array([2, 2, 2, 2, 3, 3, 3, 691, 1078001, 3582769], np.float32)  # (2**24 + 1)·2**36 + 16
    expected = np.float32(2.0**36 * (2**24 + 2))
    for sign in (1, -1):
        factors[0] = 2 * sign
        assert linalg.det(np.diag(factors)) == sign * expected
        assert linalg.det(np.diag(factors + 0j)) == sign * expected


def test_infinite_determinants():
    assert linalg.det(np.diag([np.inf, -1.0])) == -np.inf
    assert linalg.slogdet(np.diag([np.inf, -1.0])) == (-1, np.inf)
    assert linalg.det(np.array([[1, 1e308], [-1, 1e308]])) == np.inf
    assert np.isnan(linalg.det(np.diag([np.inf, 0])))


def test_small_parts_of_signs_and_small_logarithms():
    assert linalg.slogdet(np.array([[1e-200 + 1j]])).sign == 1e-200 + 1j
    assert linalg.slogdet(np.diag([1 - 2.0**-53] * 4)).logabsdet == 4 * np.log1p(-(2.0**-53))
    near = np.diag([1 + 2.0**-52, 1 - 2.0**-52])
    assert linalg.slogdet(near).logabsdet == -(2.0**-104)  # log(1 - x) = -x - x²/2 …
    assert float(determinant._logarithm(2**700 + 1, -700)) == 2.0**-700
    assert linalg.slogdet(np.diag([1e308] * 3000)).logabsdet == pytest.approx(3000 * np.log(1e308), rel=2e-16)


def test_systems_of_nothing():
    assert verified.solve(np.zeros((0, 3, 3)), np.ones(3)).value.shape == (0, 3)
    proof = verified.certify(np.zeros((0, 0)))
    assert (proof.solve(np.zeros(0)).value.shape, proof.inv().value.shape) == ((0,), (0, 0))


def test_right_sides_are_as_well_proved_together_as_alone():
    """Graded solutions, tiny ones, those with zeros and unit vectors, beside one another."""
    rng, alone, together = np.random.default_rng(3), 0, 0
    for _ in range(25):
        n = int(rng.integers(3, 12))
        u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        a = u * 10.0 ** -np.linspace(0, rng.uniform(2, 14), n) @ v
        b = rng.standard_normal((n, 5))
        b[:, 1], b[:, 2] = a[:, 0], a @ 10.0 ** -np.linspace(0, 60, n)
        b[:, 3] *= 10.0 ** -np.linspace(0, 320, n)
        b[:, 4] = a @ np.r_[np.full(n - 1, 1 / 3), 0]
        certificate = verified.certify(a)
        together += certificate.solve(b).rounded.all(axis=0).sum()
        alone += sum(certificate.solve(column).rounded.all() for column in b.T)
    assert together >= alone - 3  # which LAPACK's inverse decides, and that is not everywhere the same


def test_a_certificate_solves_vectors_and_matrices():
    for shape in ((1, 3, 1), (3, 3, 2)):
        with pytest.raises(np.linalg.LinAlgError, match="right sides"):
            verified.certify(np.diag([1.0, 2, 4])).solve(np.ones(shape))


def test_transposition_by_an_array_is_refused():
    with pytest.raises(ValueError, match="trans must be"):
        linalg.solve_triangular(np.eye(2), np.ones(2), trans=np.array([0, 1]))


@known_register
def test_modes_that_flush_to_zero_change_nothing():
    x = verified.solve(np.array([[3.0]]), np.array([3.5e-310]))
    tiny, single = np.array([[5e-324]]), np.array([[1e-40]], np.float32)
    expected = [x.interval(), linalg.solve(single, single)]
    for bits in FLUSHING:
        with mode(bits):
            assert not floats.is_default()
            found = [x.interval(), linalg.solve(single, single)]
            assert linalg.solve_triangular(tiny, tiny[0]) == 1
            for function in (verified.is_positive_definite, verified.eigh):
                with pytest.raises(ValueError, match="symmetric"):
                    function(np.array([[1, 5e-324], [0, 1]]))
        assert [np.array_equal(p, q) for p, q in zip(found, expected, strict=True)] == [True, True]


def test_residuals_of_an_empty_product_are_the_sum_of_the_words():
    a, x, ones = np.ones((3, 0)), np.ones(0), np.ones(3)
    assert ozaki.residual(a, x, (ones, 2 * ones)).tolist() == [3, 3, 3]
    low = np.full(3, 1e-30)
    assert [word.tolist() for word in ozaki.residual(a, x, (low, ones), words=2)] == [[1] * 3, [1e-30] * 3]


def test_words_beyond_the_last_are_arrays_of_their_own():
    words = ozaki.residual(np.eye(2), np.ones(2), np.ones(2), words=3)
    words[1][0] = 5
    assert not words[2].any()


@pytest.mark.parametrize("columns", [12, 13])
@pytest.mark.parametrize("unit", [1, 1j])
def test_an_element_that_overflows_leaves_the_others_their_words(columns, unit):
    a, b = np.array([[1e300, 1e-300], [0.1, 1e-300]]) * unit, np.full((2, columns), 1e300)
    b[1] = 1e-300
    high, low = (word / unit for word in ozaki.two_word_product(a, b))
    assert (high[0].real == np.inf).all()
    assert (low[0].real == -np.inf).all()
    exact = Fraction(0.1) * Fraction(1e300) + Fraction(1e-300) ** 2
    assert (high[1] == float(exact)).all()
    assert (low[1] == float(exact - Fraction(float(exact)))).all()
    narrow = np.array([[1e200], [0.1]]) * unit  # of integers that fit
    high, low = (word / unit for word in ozaki.two_word_product(narrow, np.full((1, columns), 1e200)))
    assert (low[0].real == -np.inf).all()
    assert (low[1] == float(Fraction(0.1) * Fraction(1e200) - Fraction(0.1 * 1e200))).all()


@pytest.mark.parametrize("name", ["eigh", "svdvals"])
def test_where_lapack_does_not_converge_this_librarys_own_is_the_start(name, monkeypatch):
    def fails(_):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    a = np.diag([1.0, 2.0, 3.0]) + 0.1
    expected = getattr(verified, name)(a)
    monkeypatch.setattr(np.linalg, "eigh", fails)
    monkeypatch.setattr(np.linalg, "svd", fails)
    result = getattr(verified, name)(a)
    assert result.rounded.all()
    assert result.value.tolist() == expected.value.tolist()


@pytest.mark.parametrize(
    "a",
    [
        [[1e-300, 0, 1e300], [0, 1e-300, 0], [1e300, 0, 1e-300]],
        [[1e-300, 1e300j], [-1e300j, 1e-300]],
    ],
)
def test_a_factorization_that_overflows_proves_nothing(a):
    assert not verified.is_positive_definite(np.array(a))


def test_a_preconditioner_without_words_is_refused():
    for function in (verified.is_positive_definite, verified.inv):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            function(np.eye(2), max_words=0)


@pytest.mark.parametrize(("a", "b"), [(np.eye(2), [1e308, 5e-324]), ([[2.0, 1], [1, 3]], [1e300, 3e-320])])
def test_right_sides_that_cannot_be_scaled_are_solved_as_they_are(a, b):
    x = verified.solve(a, b)
    (p, q), (r, s) = ([Fraction(v) for v in row] for row in np.asarray(a).tolist())
    u, v = map(Fraction, b)
    exact = [(s * u - q * v) / (p * s - q * r), (p * v - r * u) / (p * s - q * r)]
    for value, bound, true, rounded in zip(x.value, x.bound, exact, x.rounded, strict=True):
        assert not np.isfinite(bound) or abs(Fraction(float(value)) - true) <= Fraction(float(bound))
        assert not rounded or float(value) == float(true)


@pytest.mark.parametrize("sign", [1, -1])
def test_intervals_of_what_overflows_are_infinite(sign):
    low, high = verified.solve([[1e-300]], [sign * 1e300]).interval()
    assert (low[0], high[0]) == (-np.inf, np.inf)
    with pytest.raises(np.linalg.LinAlgError):
        verified.solve(np.full((2, 2), 0.1), np.ones(2))
    low, high = verified.solve(np.full((2, 2), 0.1), np.ones(2), throw=False).interval()
    assert (low.tolist(), high.tolist()) == ([-np.inf] * 2, [np.inf] * 2)


@pytest.mark.parametrize("unit", [1, 1j, 1 + 2j])
def test_a_component_that_overflows_leaves_the_others(unit):
    """Of which 0 times an Inf would make NaN."""
    a, b = np.diag([1, 1e-200]) * unit, np.array([3, 1e200]) * unit
    lu = linalg.lu_factor(a)
    for x in (
        linalg.solve(a, b),
        linalg.lu_solve(lu, b),
        linalg.solve_triangular(a, b),
    ):
        assert x[0] == 3
        assert np.isinf(x[1])
    inverse = linalg.inv(np.diag([1, 1e-310, 4.0]) * unit) * unit
    assert np.isinf(inverse[1, 1])
    assert (inverse[0, 0], inverse[2, 2]) == (1, 0.25)
    assert not inverse[~np.eye(3, dtype=bool)].any()


def test_a_component_that_overflows_changes_no_column_beside_it():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((200, 200)), rng.standard_normal((200, 3))
    a[:, -1] *= 2.0**-1000
    expected = linalg.solve(a, b * 2.0**-100)
    b[:, 1] *= 2.0**100
    x = linalg.solve(a, b)
    assert np.array_equal(x[:, [0, 2]], linalg.solve(a, b[:, [0, 2]]))
    assert np.isfinite(x[:-1]).all()
    assert np.allclose(x[:-1, 1], expected[:-1, 1] * 2.0**200, rtol=1e-12)


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("shape", [(2,), (2, 3)])
def test_right_sides_are_overwritten_where_asked(shape, trans):
    """As by SciPy, on which scikit-learn's LARS and orthogonal matching pursuit rely."""
    a = np.array([[2.0, 0], [1, 4]])
    lu = linalg.lu_factor(a)
    for function in (
        lambda b, **o: linalg.solve_triangular(a, b, trans=trans, lower=True, **o),
        lambda b, **o: linalg.lu_solve(lu, b, trans=trans, **o),
    ):
        b = np.asfortranarray(np.arange(1.0, 1 + np.prod(shape)).reshape(shape))
        before, expected = b.copy(), function(b)
        assert np.array_equal(b, before)
        assert function(b, overwrite_b=True) is b
        assert np.array_equal(b, expected)
        before.flags.writeable = False
        integers = before.astype(int)
        for other in (before, integers, before.tolist()):
            assert np.array_equal(function(other, overwrite_b=True), expected)
        assert np.array_equal(before, integers)
    assert linalg.lu_factor(a.copy(), overwrite_a=True)[0].tolist() == lu[0].tolist()
    assert linalg.lu_factor(c := a.copy(), overwrite_a=True)[0] is c


@pytest.mark.parametrize("unit", [1, 1 + 2j])
def test_qr_leaves_columns_of_zeros_alone_as_lapack(unit):
    q, r = linalg.qr(np.eye(2) * (1 if unit == 1 else 1 + 0j))
    assert np.array_equal(q, np.eye(2))
    assert np.array_equal(r, np.eye(2))
    assert not np.signbit(r.real).any()
    rng = np.random.default_rng(2)
    for shape in ((3, 3), (4, 3), (3, 5), (1, 1), (1, 4), (150, 150)):
        a = np.triu(rng.standard_normal(shape)) if shape[0] % 2 else rng.standard_normal(shape) * unit
        for q_is in ("reduced", "complete"):
            got, expected = linalg.qr(a, q_is), np.linalg.qr(a, q_is)
            assert np.allclose(got.R, expected.R, rtol=0, atol=1e-12)
            k = min(shape)
            assert np.allclose(got.Q[:, :k], expected.Q[:, :k], rtol=0, atol=1e-9)
        assert np.array_equal(linalg.qr(a, "r"), linalg.qr(a).R)


def test_the_words_of_numpys_messages():
    for function in (linalg.solve, lambda a, b: linalg.inv(a), verified.solve):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            function(np.ones((2, 2)), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
        linalg.cholesky(-np.eye(2))
    for function in (
        linalg.svd,
        linalg.svdvals,
        linalg.eigh,
        linalg.eigvalsh,
        verified.eigh,
        verified.svdvals,
    ):
        with pytest.raises(np.linalg.LinAlgError, match="a must be finite"):
            function(np.full((2, 2), np.nan))


def test_empty_systems_are_solved_by_their_factors():
    assert linalg.lu_solve((np.empty((0, 0)), np.array([])), np.empty(0)).shape == (0,)
    assert linalg.lu_solve(linalg.lu_factor(np.empty((0, 0))), np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("n", [2, 4, 8, 30])
@pytest.mark.parametrize("unit", [1, 2, 3 * 2.0**300])
def test_singular_matrices_are_not_definite_by_a_null_vector(n, unit):
    a = unit * np.ones((n, n))
    answer = verified.is_positive_definite(a)
    assert (answer.definite, answer.how) == (False, "witness")
    x = [Fraction(v) for v in answer.witness.tolist()]
    assert any(x)
    assert sum(x) == 0


def test_results_convert_to_numbers():
    exact, complex_one = verified.det(np.array([[2, 1], [1, 3]])), verified.det(np.array([[1j]]))
    assert (int(exact), float(exact), complex(exact), bool(exact)) == (5, 5.0, 5 + 0j, True)
    assert np.asarray(exact) == 5
    assert (complex(complex_one), bool(complex_one), bool(verified.det(np.zeros((1, 1))))) == (
        1j,
        True,
        False,
    )
    with pytest.raises(ValueError, match="not known as an integer"):
        int(verified.det(np.array([[0.1, 0.3], [0.7, 0.2]])))
    with pytest.raises(TypeError):
        float(complex_one)
    assert bool(verified.is_positive_definite(np.eye(2)))


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3), (0, 0)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_decompositions_of_hermitian_matrices_are_numpys(shape, dtype):
    a = np.random.default_rng(9).integers(-9, 10, shape).astype(dtype) * (
        1 + 1j if dtype is np.complex64 else 1
    )
    upper = a.copy()
    a = np.tril(a) + np.tril(a, -1).conj().swapaxes(-1, -2)
    a = a.real + 1j * (a.imag * (1 - np.eye(shape[-1]))) if dtype is np.complex64 else a
    a = a.astype(dtype)
    got, expected = linalg.svd(a, hermitian=True), np.linalg.svd(a, hermitian=True)
    for x, y in zip(got, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
    assert np.allclose(got.S, expected.S, rtol=1e-5)
    assert np.allclose((got.U * got.S[..., None, :]) @ got.Vh, a, atol=1e-4)
    assert np.array_equal(linalg.svd(a, compute_uv=False, hermitian=True), got.S)
    one_triangle = np.tril(a) + np.triu(upper, 1)  # what is above is not read
    assert np.array_equal(linalg.svd(one_triangle, hermitian=True).S, got.S)
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        linalg.svd(np.ones((2, 3)), hermitian=True)


def test_a_contraction_without_a_positive_divisor_proves_nothing(monkeypatch):
    contraction = 1 - 2.0**-53
    monkeypatch.setattr(regularity, "_contraction", lambda _: (contraction, np.ones(2), np.ones(2)))
    with pytest.raises(verified.NotProvedError):
        verified.certify(np.array([[2.0, 1], [1, 3]]))


def test_products_of_vectors_in_proofs_are_our_own_on_a_gpu(monkeypatch):
    a, v, calls = np.array([[1.0, 2], [3, 4]]), np.array([1.0, 1]), []
    monkeypatch.setattr(products, "is_cupy", lambda x: True)
    monkeypatch.setattr(products, "multiply", lambda a, b: calls.append(b.shape) or a @ b)
    assert products.classical(a, v).tolist() == [3, 7]
    assert products.classical(a, v[:, None]).tolist() == [[3], [7]]
    assert calls == [(2, 1), (2, 1)]


def test_nothing_in_proofs_multiplies_but_by_these_products():
    for path in Path(verified.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(getattr(node, "op", None), ast.MatMult), (path.name, node.lineno)
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", "")
            assert name not in ("dot", "matmul", "tensordot", "einsum", "inner"), (path.name, node.lineno)


def test_conditions_of_least_squares_are_those_of_the_matrix():
    rng = np.random.default_rng(3)
    for digits in (0, 3, 8, 12):
        u, v = np.linalg.qr(rng.standard_normal((12, 6)))[0], np.linalg.qr(rng.standard_normal((6, 6)))[0]
        a = u * 10.0 ** -np.linspace(0, digits, 6) @ v
        a /= 2.0 ** np.frexp(abs(a).max(axis=0))[1]  # as it is scaled
        condition = verified.lstsq(a, np.ones(12)).stats.condition
        assert 0.99 * np.linalg.cond(a) <= condition <= 6 * np.linalg.cond(a)
