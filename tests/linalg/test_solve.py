"""Verified solutions: famous matrices against rationals, bad input, shapes, and what is not proved."""

from fractions import Fraction
from itertools import islice, zip_longest
from math import comb

import numpy as np
import pytest

import ozaki
from ozaki.linalg import products, verified
from ozaki.linalg.verified.tools import preconditioner, refinement, regularity, upward
from ozaki.linalg.verified.tools.words import rounded
from tests.cells import cells
from tests.fuzz.draw import Draw
from tests.fuzz.exact_linalg import CHECKS, conditioned
from tests.oracle import check_proof, exact_solution, nearest, same


def hilbert(n):
    return 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0)


def rump(n):
    """Rump's matrix of order 4, of condition number 6e64, on the diagonal of a random one."""
    a = np.random.default_rng(n).integers(-9, 10, (n, n)).astype(float)
    a[:4, :4] = [
        [-5046135670319638, -3871391041510136, -5206336348183639, -6745986988231149],
        [-640032173419322, 8694411469684959, -564323984386760, -2807912511823001],
        [-16935782447203334, -18752427538303772, -8188807358110413, -14820968618548534],
        [-1069537498856711, -14079150289610606, 7074216604373039, 7257960283978710],
    ]
    return a


def nievergelt():
    """[[64919121, -159018721], [41869520.5, -102558961]]: its determinant is -1/2, of products of 1e16."""
    return np.array([[64919121.0, -159018721.0], [41869520.5, -102558961.0]])


def prolate(n, w=0.25):
    d = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.where(d == 0, 2 * w, np.sin(2 * np.pi * w * d) / (np.pi * np.maximum(d, 1)))


def wilkinson(n):
    a = np.eye(n) - np.tril(np.ones((n, n)), -1)
    a[:, -1] = 1
    return a


def finite_elements(n):
    """Stiffness of a bar with coefficients over twelve orders of magnitude."""
    k = 10.0 ** np.linspace(-6, 6, n + 1)
    return np.diag(k[:-1] + k[1:]) - np.diag(k[1:-1], 1) - np.diag(k[1:-1], -1)


MATRICES = {
    "Hilbert": hilbert(18),
    "Rump 4": rump(4),
    "Rump 12": rump(12),
    "Nievergelt": nievergelt(),
    "Vandermonde": np.vander(np.linspace(0, 1, 16)),
    "prolate": prolate(24),
    "Wilkinson": wilkinson(40),
    "graded": np.random.default_rng(1).standard_normal((14, 14)) * 2.0 ** np.linspace(-300, 300, 14),
    "finite elements": finite_elements(20),
    "Pascal": np.array([[comb(i + j, i) for j in range(20)] for i in range(20)], float),
    "complex Hilbert": 1 / (np.arange(9)[:, None] + np.arange(9) + 1.0 + 1j),
    "random": np.random.default_rng(2).standard_normal((30, 30)),
    "1": np.array([[3.0]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_famous_matrices(name):
    a = MATRICES[name]
    b = np.ones((len(a), 1)) + 0 * a[:, :1]
    solution = verified.solve(a, b, max_words=6)
    assert check_proof(solution, *exact_solution(a, b)) >= 0.95
    assert solution.result == "proved"


def test_tiers():
    """Each tier is the first to prove matrices of its condition numbers."""
    rng = np.random.default_rng(0)
    tiers = []
    for digits in (3, 14.5, 24):
        a = conditioned(rng, 40, digits, np.dtype(float))
        tiers.append(verified.solve(a, np.ones(40)).stats.tier)
    tiers.append(verified.solve(rump(4), np.ones(4), max_words=6).stats.tier)
    assert tiers == ["native", "certified", "factored", "words"]


@pytest.mark.parametrize("cases", [range(50), pytest.param(range(50, 200), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CHECKS)
def test_random_systems(name, cases):
    check = CHECKS[name]
    for case in cases:
        assert check(Draw([34, case])) is None, "a mismatch is raised"


@pytest.mark.parametrize(
    "a",
    [
        np.arange(9.0).reshape(3, 3),
        np.zeros((3, 3)),
        np.ones((20, 20)),
        np.array([[1, 1j], [1j, -1]]),
        np.diag([1.0, 0, 2]),
        np.kron(np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3)),
        np.array([[2.0**-600, 2.0**-600], [2.0**600, 2.0**600]]),
    ],
    ids=lambda a: f"{a.shape} {a.dtype}",
)
def test_singular_is_proved(a):
    with pytest.raises(verified.SingularError) as raised:
        verified.solve(a, np.ones(len(a)))
    z = raised.value.null_vector
    assert z.any()
    for row in a:
        for part in (row.real, row.imag):
            for other in (z.real, z.imag):
                assert all(float(x).is_integer() for x in other)
                if a.dtype.kind == "f":
                    assert sum(Fraction(x) * Fraction(y) for x, y in zip(part, other, strict=True)) == 0
    solution = verified.solve(a, np.ones(len(a)), throw=False)
    assert solution.result == "singular"
    assert np.isnan(solution.value).all()
    assert np.isinf(solution.bound).all()


def test_a_singular_approximate_inverse():
    """An R of few digits beside its largest elements, 2**54, which is singular itself."""
    a = np.array(
        [
            [-0.7925434126268669, -0.4689330264438498, -0.38984196261045445],
            [0.09760602608511669, -0.7285836157311963, 0.6779667975350474],
            [-0.6949373865417503, -1.1975166421750465, 0.288124834924593],
        ]
    )
    solution = verified.solve(a, np.ones((3, 1)))
    assert check_proof(solution, *exact_solution(a, np.ones((3, 1)))) == 1


def test_what_is_not_proved_is_said():
    """A singular matrix without a null vector of small integers; and a condition beyond the words allowed."""
    a = np.random.default_rng(3).integers(-(2**40), 2**40, (6, 6)).astype(float)
    a[5] = a[:5].sum(axis=0)
    with pytest.raises(verified.NotProvedError) as raised:
        verified.solve(a, np.ones(6), max_words=3)
    assert raised.value.words == 3
    assert raised.value.contraction >= 1
    assert verified.solve(a, np.ones(6), max_words=3, throw=False).result == "not proved"
    with pytest.raises(verified.NotProvedError, match="max_words=1"):
        verified.solve(hilbert(20), np.ones(20), max_words=1)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32, np.int64, np.bool_])
def test_shapes_are_those_of_numpy(n, dtype):
    a = np.eye(n, dtype=dtype)
    for shape in [(n,), (n, 0), (n, 2), (3, n, 2), (2, 1, n, 1)]:
        b = np.ones(shape, dtype)
        expected = np.linalg.solve(
            a.astype(np.result_type(dtype, float)), b.astype(np.result_type(dtype, float))
        )
        solution = verified.solve(a, b)
        for x in (solution.value, solution.bound, solution.rounded):
            assert x.shape == expected.shape
        assert (solution.value == expected).all()
        assert solution.rounded.all()
    stack = np.broadcast_to(a, (2, 3, n, n))
    assert verified.inv(stack).value.shape == (2, 3, n, n)
    assert verified.solve(stack, np.ones(n)).value.shape == (2, 3, n)


def test_a_stack_is_its_matrices():
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((2, 3, 5, 5)), rng.standard_normal((3, 5, 2))
    solution = verified.solve(a, b)
    for i, j in np.ndindex(2, 3):
        assert (solution.value[i, j] == verified.solve(a[i, j], b[j]).value).all()
    assert solution.stats.condition.shape == (2, 3)
    a[0, 0] = 1
    mixed = verified.solve(a, b, throw=False)
    assert mixed.result.tolist() == [["singular", "proved", "proved"], ["proved"] * 3]


@pytest.mark.parametrize(
    ("a", "b", "error", "said"),
    [
        (np.ones((2, 3)), np.ones(2), np.linalg.LinAlgError, "a must be square"),
        (np.ones(3), np.ones(3), np.linalg.LinAlgError, "a must be a matrix"),
        (np.eye(3), np.ones(2), np.linalg.LinAlgError, "b must have 3 rows"),
        (np.eye(2), np.array([1, np.inf]), ValueError, "b must be finite"),
        (np.array([[np.nan]]), np.ones(1), ValueError, "a must be finite"),
        (np.array([[2**60 + 1]]), np.ones(1), TypeError, "a has integers"),
        (np.zeros((2, 3, 3)), np.zeros((3, 3, 1)), np.linalg.LinAlgError, "do not broadcast"),
    ],
)
def test_bad_input(a, b, error, said):
    with pytest.raises(error, match=said):
        verified.solve(a, b)
    with pytest.raises(ValueError, match="max_words"):
        verified.certify(np.eye(2), max_words=0)


def test_a_certificate_solves_and_inverts():
    a = hilbert(12)
    proof = verified.certify(a)
    for b in (np.ones(12), np.eye(12)[:, :5]):
        assert (proof.solve(b).value == verified.solve(a, b).value).all()
    inverse = proof.inv()
    assert check_proof(inverse, *exact_solution(a, np.eye(12))) == 1
    assert proof.condition > 1e15


def test_many_right_sides():
    """More columns than are summed one by one."""
    rng = np.random.default_rng(5)
    a, b = conditioned(rng, 10, 17, np.dtype(complex)), rng.standard_normal((10, 30)) * (1 + 1j)
    assert check_proof(verified.solve(a, b), *exact_solution(a, b)) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("digits", [9, 14])
def test_columns_that_are_decided_take_no_further_steps(monkeypatch, digits, dtype):
    """Nor do those that are hard to decide, of solutions with zeros or nearly so, keep the others from it."""
    rng, widths = np.random.default_rng(6), []
    a = np.rint(conditioned(rng, 10, digits, np.dtype(dtype)) * 2.0**30)
    integers = rng.integers(-9, 10, (10, 20))
    b = a @ np.hstack([integers, integers / 10, rng.standard_normal((10, 20))])
    original = refinement.renormalized

    def noted(words, count):
        widths.append(words[0].shape[1])
        return original(words, count)

    monkeypatch.setattr(refinement, "renormalized", noted)
    result = verified.solve(a, b)
    check_proof(result, *exact_solution(a, b))
    assert result.rounded[:, 40:].all()
    assert widths == sorted(widths, reverse=True)
    assert 60 == widths[0] > widths[-1]


def test_a_solution_with_zeros_takes_no_more_steps_than_one_without():
    """They are put in once the other components are decided, and then solve the system exactly."""
    a = np.random.default_rng(8).standard_normal((9, 9))
    b = a @ np.ones(9)
    of_zeros, of_others = verified.solve(a, a), verified.solve(a, b)
    assert (of_zeros.value == np.eye(9)).all()
    assert (of_zeros.bound == 0).all()
    assert of_zeros.stats.steps == of_others.stats.steps


def test_zeros_and_what_underflows():
    """Components that are 0, and one below the range of float64."""
    a = np.array([[1.0, 1.0], [1.0, -1.0]])
    solution = verified.solve(a, np.array([2.0, 2.0]))
    assert solution.value.tolist() == [2, 0]
    assert solution.rounded.all()
    solution = verified.solve(np.diag([2.0**600, 1.0]), np.array([2.0**-600, 1.0]))
    assert solution.value.tolist() == [0, 1]
    assert solution.bound[0] > 0
    assert not solution.rounded[0]
    solution = verified.solve(np.diag([2.0**-600, 1.0]), np.array([2.0**600, 1.0]))
    assert np.isinf(solution.bound[0])
    assert abs(solution.value[1] - 1) <= solution.bound[1]
    # A true 0 that no float64 arithmetic sees: (x + y) - x with y = 0 in rationals alone.
    a = np.array([[3.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.1, 0.2, 0.3]])
    b = np.array([4.0, 4.0, 0.1 + 0.2])
    check_proof(verified.solve(a, b[:, None]), *exact_solution(a, b[:, None]))


def test_solutions_print_and_convert():
    solution = verified.solve(np.eye(12) * 3, np.ones(12))
    assert np.asarray(solution).tolist() == [1 / 3] * 12
    lower, upper = solution.interval()
    assert (lower < upper).all()
    assert all(Fraction(x) <= Fraction(1, 3) <= Fraction(y) for x, y in zip(lower, upper, strict=True))
    assert "2 more, 12 rounded in all" in str(solution)
    assert "proved by tier native" in str(solution)
    with pytest.raises(TypeError, match="complex"):
        verified.solve(np.eye(2) * 1j, np.ones(2)).interval()


def test_upper_bounds_are_upper_bounds():
    """Bounds of sums and products of nonnegative numbers, subnormal ones too, against exact ones."""
    rng = np.random.default_rng(6)
    for octaves in (0, 30, 500):
        a = rng.random((7, 40)) * 2.0 ** rng.integers(-octaves - 30, 1, (7, 40))
        v = rng.random(40) * 2.0 ** -(2.0 * octaves)
        bound, total = upward.apply(a, v), upward.plus(*a.T)
        size = upward.norms(a, 1)
        for i, row in enumerate(a.tolist()):
            exact = sum(Fraction(x) * Fraction(y) for x, y in zip(row, v.tolist(), strict=True))
            assert Fraction(bound[i]) >= exact
            assert Fraction(total[i]) >= sum(map(Fraction, row))
            assert Fraction(size[i]) ** 2 >= sum(Fraction(x) ** 2 for x in row)
            assert Fraction(bound[i]) <= exact * (1 + Fraction(1, 2**40)) + Fraction(1, 2**1065)
    assert Fraction(upward.gamma(1000)) >= Fraction(1000, 2**53) / (1 - Fraction(1000, 2**53))


def test_roundings_that_a_bound_decides():
    """Words near half way between two numbers, at powers of two and the ends of the range, against fractions.

    The ends of an interval round to x only if all between them do. Of those that are far from half way, and
    of exact sums, none is left undecided.
    """
    largest, smallest = np.finfo(float).max, 2.0**-1074
    heads = [1.0, -1.0, 1.0 + 2.0**-52, 1.5, 2.0**-1000, 2.0**-1022, 3 * smallest, largest, -largest, 0.0]
    shares = [0.0, 0.2, -0.2, 0.5, -0.5, 0.5 - 2.0**-40, -0.5 + 2.0**-40, 1.0, 1.0 - 2.0**-40, 2.0**-60]
    cases = [
        (x, share * (abs(x) - np.nextafter(abs(x), 0.0)), third * x, error)
        for x in heads
        for share in shares
        for third in (0.0, 2.0**-110, -(2.0**-106))
        for error in (0.0, smallest, abs(x) * 2.0**-108, abs(x) * 2.0**-53, abs(x) / 2)
    ]
    *words, error = map(np.array, zip(*cases, strict=True))
    with np.errstate(all="ignore"):
        results = rounded(words, error)
    for value, bound, sure, case in zip(*map(np.ndarray.tolist, results), cases, strict=True):
        *parts, away = map(Fraction, case)
        ends = [sum(parts) + sign * away for sign in (-1, 0, 1)]
        if np.isnan(bound):  # rounded beyond the range
            assert (sure, abs(case[0])) == (False, largest)
            continue
        assert all(abs(x - Fraction(value)) <= Fraction(bound) for x in ends)
        assert not sure or all(float(x) == value for x in ends)
        far = abs(case[1]) < 2.0**-54 * abs(case[0]) and away <= 2.0**-80 * abs(parts[0])
        assert sure or not (far or away == parts[2] == 0) or abs(case[0]) < 2.0**-1000
    with np.errstate(all="ignore"):
        assert not rounded([np.array([np.inf]), np.array([0.0])], np.array([1.0]))[2].any()


def test_what_is_rounded_up_is_no_less_than_the_next_number():
    """Of all magnitudes, with the first and the last of an octave, and hardly more."""
    octaves = 2.0 ** np.arange(-1074, 1024)
    x = np.concatenate([[0.0], octaves, np.nextafter(octaves, 0.0), octaves * 1.25, octaves * (1 + 2.0**-52)])
    following = np.nextafter(x, np.inf)
    assert (upward.up(x) >= following).all()
    assert (upward.up(x) <= np.nextafter(following, np.inf)).all()
    assert [upward.up(y) for y in x.tolist()] == following.tolist()
    with np.errstate(over="ignore"):
        assert np.isinf(upward.up(np.array([np.inf, np.finfo(float).max]))).all()
    assert np.isnan(upward.up(np.array([np.nan]))).all()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("digits", [2, 14])
def test_the_error_of_a_certified_product_is_a_bound(dtype, digits):
    """|value - RA|·v against the exact product, elementwise."""
    rng = np.random.default_rng(7)
    a = conditioned(rng, 8, digits, np.dtype(dtype))
    r, v = np.linalg.inv(a), rng.random(8) + 0.5
    for product in (regularity.certified(r, a), regularity._native(r, a)):
        bound = product.error(v)
        parts = [[[Fraction(0)] * 8 for _ in range(8)] for _ in range(2)]
        for i, j in np.ndindex(8, 8):
            for x, y in zip(r[i], a[:, j], strict=True):
                xr, xi, yr, yi = (Fraction(float(t)) for t in (x.real, x.imag, y.real, y.imag))
                parts[0][i][j] += xr * yr - xi * yi
                parts[1][i][j] += xr * yi + xi * yr
        for i in range(8):
            error = sum(
                np.hypot(
                    float(Fraction(float(product.value[i, j].real)) - parts[0][i][j]),
                    float(Fraction(float(product.value[i, j].imag)) - parts[1][i][j]),
                )
                * v[j]
                for j in range(8)
            )
            assert error <= bound[i] * (1 + 1e-12)


@cells(octaves=[0, 40, 120, 250], dtype=[np.float64, np.complex128])
def test_words_of_products_are_those_of_exact_sums(dtype, octaves, monkeypatch):
    """Words from residues, whatever is faster, and by exact sums, of matrices of few and of many octaves."""
    monkeypatch.setattr(products, "WIDEST_ON_CPU", products.WIDEST_ON_GPU)
    rng = np.random.default_rng(8)
    for m, k, n in ((1, 1, 1), (7, 30, 13), (20, 4, 15)):
        a = rng.standard_normal((m, k)) * 2.0 ** rng.integers(-octaves, octaves + 1, (m, k))
        b = (rng.standard_normal((k, n)) * 2.0 ** rng.integers(-octaves, octaves + 1, (k, n))).astype(dtype)
        c = rng.standard_normal((m, n))
        if dtype == np.complex128:
            b, a = b * (1 - 3j), a + 1j * rng.standard_normal((m, k))
        for words in (1, 2, 4):
            expected = products._summed([(a, b), (a, b)], [c], words)
            result = products._multiplied([(a, b), (a, b)], [c], words)
            assert len(result) == len(expected)
            assert all(np.array_equal(x, y) for x, y in zip(result, expected, strict=True))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_words_of_small_products_are_those_of_exact_sums(dtype):
    """Of numbers that cancel, of zeros of either sign, of any number of columns and addends."""
    rng = np.random.default_rng(9)
    kinds = (
        lambda x: x,
        np.rint,
        lambda x: np.copysign(0.0, x),
        lambda x: x * 2.0 ** rng.integers(-450, 450, x.shape),
    )
    for case, (m, k, n) in enumerate([*rng.integers(1, 9, (40, 3)), (67, 66, 2), (2, 70, 67)]):
        arrays = [kinds[case % 4](rng.standard_normal(shape)) for shape in ((m, k), (k, n), (k, n), (m, n))]
        a, b, more, c = (x.astype(dtype) for x in arrays)
        if dtype == np.complex128:
            a.imag, b.imag, c.imag = a.real[::-1], -b.real, 0.0
        pairs, words = [(a, b), (a, -b), (a, more)][case % 3 :], 1 + case % 3
        columns = [
            products.summed_words([(x, y[:, j]) for x, y in pairs], [c[:, j]], words) for j in range(n)
        ]
        zero = np.zeros(m, dtype)
        expected = [np.stack(word, axis=1) for word in zip_longest(*columns, fillvalue=zero)]
        result = products._summed(pairs, [c], words)
        assert len(result) == len(expected)
        assert all(map(same, result, expected))


def test_no_residual_of_an_ordinary_inverse_takes_exact_sums(monkeypatch):
    def exactly(*_):
        raise AssertionError("undecided")

    monkeypatch.setattr(products, "summed_words", exactly)
    rng = np.random.default_rng(0)
    assert all(verified.inv(rng.standard_normal((n, n))).rounded.all() for n in (4, 8, 16))


@cells(wild=[False, True], dtype=[np.float64, np.complex128])
def test_words_of_large_products_are_those_of_exact_sums(without_numba, dtype, wild):
    """From bytes, where the processor multiplies them, and from fp64 words; some are subnormal, or cancel."""
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((200, 200)).astype(dtype) for _ in range(2))
    if dtype == np.complex128:
        a, b = a + 1j * a.T, b - 1j * b[::-1]
    b[:, 5] = np.linalg.inv(a)[:, 5]  # whose products with rows cancel
    if wild:
        a[3] *= 2.0**-530
        b[:, 7:9] *= 2.0**-530
        a[4], b[:, 9] = 0, 0
    for words in (2, 3):
        some = [0, 5, 7, 8, 9, 11]
        expected = products._summed([(a, b[:, some])], [], words)
        for result in (
            products._multiplied([(a, b)], [], words),
            without_numba(products._multiplied, [(a, b)], [], words),
        ):
            assert all(same(x[:, some], y) for x, y in zip(result, expected, strict=True))


def test_constants_of_the_proofs():
    """What the docstrings claim of them."""
    assert regularity.ENOUGH < 1
    assert refinement.FLOOR * refinement.DECIDED >= 2.0 ** (-53 * 5)
    assert preconditioner.tail([np.ones(1)])[0] >= 2 * upward.U


@pytest.mark.parametrize("n", [(), (1,), (20,)])
def test_residuals(n):
    """B - AX of sums of words, in words, against rationals."""
    rng = np.random.default_rng(9)
    a = tuple(rng.standard_normal((6, 4)) * 2.0**-p for p in (0, 53))
    x = tuple(rng.standard_normal((4, *n)) * 2.0**-p for p in (0, 53, 106))
    b = (a[0] @ x[0], np.full((6, *n), 2.0**-90))
    words = ozaki.residual(a, x, b, words=3)
    assert (words[0] == ozaki.residual(a, x, b)).all()
    sums = [
        [sum(map(Fraction, t)) for t in zip(*(w.ravel().tolist() for w in y), strict=True)] for y in (a, x, b)
    ]
    columns = n[0] if n else 1
    for i, j in np.ndindex(6, columns):
        exact = sums[2][i * columns + j]
        exact -= sum(sums[0][4 * i + h] * sums[1][h * columns + j] for h in range(4))
        for word in words:
            assert word.ravel()[i * columns + j] == nearest(exact)
            exact -= Fraction(float(word.ravel()[i * columns + j]))


@pytest.mark.parametrize("columns", [1, 20])
@pytest.mark.parametrize("octaves", [0, 200])
def test_products_in_two_words(columns, octaves):
    rng = np.random.default_rng(10)
    a, b = rng.standard_normal((3, 8)), rng.standard_normal((8, columns))
    a = np.ldexp(a, rng.integers(-octaves, octaves + 1, a.shape))
    a[:, 4:], b[4:] = -a[:, :4], b[:4] * (1 + 2.0**-40)
    high, low = ozaki.two_word_product(a, b)
    for i, j in np.ndindex(high.shape):
        exact = sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(a[i], b[:, j], strict=True))
        assert high[i, j] == nearest(exact)
        assert low[i, j] == nearest(exact - Fraction(float(high[i, j])))
    integers = [word.tolist() for word in ozaki.two_word_product(np.eye(2), np.array([[1j], [2]]))]
    assert integers == [[[1j], [2]], [[0], [0]]]
    assert ozaki.two_word_product(np.ones((2, 0)), np.ones((0, 3)))[1].tolist() == [[0] * 3] * 2
    with pytest.raises(ValueError, match="shapes do not fit"):
        ozaki.two_word_product(a, b[1:])
    with pytest.raises(ValueError, match="b must be finite"):
        ozaki.two_word_product(a, b * np.inf)


def test_residuals_of_bad_input():
    assert ozaki.residual(np.ones((2, 0)), np.ones(0), np.ones(2)).tolist() == [1, 1]
    assert [w.tolist() for w in ozaki.residual(np.eye(1), np.ones(1), np.ones(1), words=2)] == [[0], [0]]
    with pytest.raises(ValueError, match="words"):
        ozaki.residual(np.eye(2), np.ones(2), np.ones(2), words=0)
    with pytest.raises(ValueError, match=r"shapes do not fit: a \(2, 2\), x \(2,\), b \(3,\)"):
        ozaki.residual(np.eye(2), np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="words of x"):
        ozaki.residual(np.eye(2), (np.ones(2), np.ones(3)), np.ones(2))
    with pytest.raises(ValueError, match="finite"):
        ozaki.residual(np.eye(2), np.ones(2), np.full(2, np.nan))


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_an_inverse_that_is_not_near_enough_is_brought_nearer(dtype):
    n, rng = 60, np.random.default_rng(9)
    noise = rng.standard_normal((2, n, n)).astype(dtype) * (1 if dtype is np.float64 else 1 + 1j)
    a = noise[0] + 3 * n**0.5 * np.eye(n)
    far = (np.eye(n) + noise[1] / n) @ np.linalg.inv(a)  # rows of I - RA sum up to about 1
    single, no_native = preconditioner.Single(far), 1e14
    attempts = islice(regularity._attempts(a, single, no_native, 1, upward.apply(single.size)), 2)
    (first, before), (second, after) = (
        (tier, regularity._contraction(product)[0]) for tier, _, product in attempts
    )
    assert (first, second) == ("certified", "certified")
    assert before > regularity.ENOUGH > after
    hopeless = (np.eye(n) + noise[1]) @ np.linalg.inv(a)
    assert len(list(regularity._certified(hopeless, a))) == 2
