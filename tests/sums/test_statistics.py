"""Weighted variances and covariances, moments and convolutions, against fractions and NumPy's conventions."""

import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.runtime import parallel
from multiword.runtime.compiled import numpy_forms
from ozaki.definition.sums import rounded_weighted_mean, rounded_weighted_variance
from ozaki.sums import central, convolution
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.powers import product_words
from tests.fuzz.fixed import check_family
from tests.oracle import FORMATS, integers, rounded_ratio

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 30)) + 1e6 * np.arange(4)[:, None]
F, A = RNG.integers(0, 4, 30), RNG.random(30)


@pytest.mark.parametrize("name", ["var, std with weights", "moment, skew, kurtosis", "convolve, correlate"])
def test_each_is_the_exact_value_rounded_once(name):
    check_family(name, 120)


@pytest.mark.parametrize("given", [{"fweights": F}, {"aweights": A}, {"fweights": F, "aweights": A}])
@pytest.mark.parametrize("ddof", [0, 1])
def test_weighted_covariances_are_within_their_bound(given, ddof):
    """Of exactly computed ones; variances are those of `var`."""

    def exact(x):
        return [Fraction(float(v)) for v in x]

    f, a = (exact(given.get(n, np.ones(30))) for n in ("fweights", "aweights"))
    w, rows = [p * q for p, q in zip(f, a, strict=True)], [exact(row) for row in X]
    total = sum(w)
    below = total - ddof * sum(p * q for p, q in zip(w, a, strict=True)) / total
    centred = [[v - sum(map(lambda p, q: p * q, w, row)) / total for v in row] for row in rows]
    found = ozaki.cov(X, ddof=ddof, **given)
    assert (found == found.T).all()
    assert found.diagonal().tolist() == ozaki.var(X, axis=1, ddof=ddof, **given).tolist()
    for i in range(4):
        for j in range(4):
            value = sum(p * x * y for p, x, y in zip(w, centred[i], centred[j], strict=True)) / below
            size = np.sqrt(found[i, i] * found[j, j])
            assert abs(float(value - Fraction(float(found[i, j])))) <= 3 * 2.0**-53 * size
    assert np.allclose(found, np.cov(X, ddof=ddof, **given), 1e-6)
    assert np.allclose(
        ozaki.corrcoef(X, **given), found / np.sqrt(np.outer(found.diagonal(), found.diagonal()))
    )


def test_weights_of_several_axes_are_numpys():
    x, w = RNG.standard_normal((4, 5, 6)), RNG.random((6, 4))
    for axis, weights in (((2, 0), w), ((0, 2), w.T), ((0, 1, 2), np.abs(x)), (1, w[:5, 0])):
        for keepdims in (False, True):
            expected = np.average(x, axis, weights, keepdims=keepdims)
            assert np.allclose(ozaki.average(x, axis, weights, keepdims), expected)
            if axis != (0, 1, 2):
                assert np.allclose(np.average(ozaki.array(x), axis, weights, keepdims=keepdims), expected)


def test_weights_that_do_not_fit_are_refused():
    for function in (ozaki.var, ozaki.std):
        with pytest.raises(TypeError, match="fweights must be integers"):
            function(X, axis=1, fweights=A)
        with pytest.raises(ValueError, match="aweights must not be negative"):
            function(X, axis=1, aweights=-A)
        with pytest.raises(ValueError, match="Shape of fweights must be consistent with shape of a"):
            function(X, axis=0, fweights=F)
        with pytest.raises(ValueError, match="mean is not taken"):
            function(X, axis=1, mean=0.0, aweights=A)
        with pytest.raises(ZeroDivisionError):
            function(X, axis=1, fweights=0 * F)
    for function in (ozaki.cov, ozaki.corrcoef):
        with pytest.raises(RuntimeError, match="incompatible numbers of samples and fweights"):
            function(X, fweights=F[1:])
        with pytest.raises(ZeroDivisionError):
            function(X, fweights=0 * F)
        assert np.isnan(function(X, aweights=np.where(A[0] == A, np.nan, A))).all()


def test_a_mask_leaves_out_numbers_and_their_weights():
    where = RNG.random(X.shape) < 0.7
    for name in ("var", "std"):
        of = getattr(ozaki, name)
        expected = [of(row[mask], ddof=1, aweights=A[mask]) for row, mask in zip(X, where, strict=True)]
        masked = np.where(where, X, np.nan)
        assert of(masked, axis=1, ddof=1, aweights=A, where=where).tolist() == expected


def test_moments_of_few_equal_and_missing_numbers_are_scipys():
    stats = pytest.importorskip("scipy.stats")
    rows = [[1.0], [1.0, 2.0], [1.0, 2.0, 4.0], [2.0, 2.0, 2.0, 2.0], [1.0, np.nan, 2.0], [np.inf, 1.0]]
    for row in rows:
        for bias in (True, False):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = stats.skew(row, bias=bias), stats.kurtosis(row, bias=bias)
            found = ozaki.skew(np.array(row), bias=bias), ozaki.kurtosis(np.array(row), bias=bias)
            assert np.allclose(found, expected, equal_nan=True), (row, bias)
    assert np.isnan(ozaki.skew(np.ones((0, 3)))).tolist() == [True] * 3
    assert ozaki.skew(np.ones((3, 0))).shape == (0,)
    assert ozaki.moment([1.0, 2.0], order=0) == 1.0
    for bad, error in (
        ({"order": -1}, ValueError),
        ({"order": 1.5}, TypeError),
        ({"center": "0"}, TypeError),
    ):
        with pytest.raises(error):
            ozaki.moment([1.0, 2.0], **bad)
    with pytest.raises(TypeError, match="x must be real"):
        ozaki.skew(np.array([1j, 2.0]))


def test_many_rows_of_all_sizes_have_the_bits_of_single_ones():
    """Enclosures decide most of many rows, integers all of a few."""
    x = np.ldexp(RNG.standard_normal((60, 7)), RNG.integers(-40, 40, (60, 7)))
    x[::5], x[1::7], x[2] = np.arange(7.0), 3.25, np.array([-2.0, -1, 0, 0, 0, 1, 2])
    long = np.tile(x, 6)
    for of in (ozaki.skew, ozaki.kurtosis, lambda v, axis=0: ozaki.moment(v, 3, axis)):
        for rows in (x, long, x * 2.0**-600, x * 2.0**300):
            every = of(rows, axis=1)
            assert every.tobytes() == np.array([of(row) for row in rows]).tobytes()


def test_convolutions_of_ints_and_of_arrays_that_do_not_fit():
    for dtype in (np.int8, np.uint64, bool):
        a, v = np.array([1, 0, 1, 1], dtype), np.array([1, 1], dtype)
        for name in ("convolve", "correlate"):
            for mode in ("full", "same", "valid"):
                expected = getattr(np, name)(a, v, mode)
                got = getattr(ozaki, name)(a, v, mode)
                assert (got.dtype, got.tolist()) == (expected.dtype, expected.tolist())
    x = ozaki.array([1e200, 1.0, -1e200])
    assert np.convolve(x, np.ones(3))[2] == 1.0
    assert np.correlate(x, np.ones(3)).tolist() == [1.0]
    for bad in (np.ones((2, 2)), np.ones(0), 1.0):
        with pytest.raises(ValueError, match="must be a vector"):
            ozaki.convolve(bad, np.ones(2))
    with pytest.raises(ValueError, match="mode"):
        ozaki.correlate(np.ones(2), np.ones(2), "all")


@pytest.mark.parametrize(
    "dtypes", [(float, float), (complex, complex), (np.float32, int), (np.float16, np.float16)]
)
def test_convolutions_add_what_products_there_are(monkeypatch, dtypes):
    """Zeros of either sign, Inf and NaN: also where sums of all windows come first, as on a GPU."""
    rng, (first, second) = np.random.default_rng(4), dtypes
    cases = [(rng.integers(-1, 2, n).astype(first), rng.integers(-1, 2, 5).astype(second)) for n in (9, 3, 5)]
    cases += [(-0.0 * abs(a), v) for a, v in cases]
    cases[0][0][:2] = np.inf, np.nan
    for a, v in cases:
        n, m = a.size, v.size
        bounds = [(k, max(0, k - m + 1), min(n, k + 1)) for k in range(n + m - 1)]
        with np.errstate(all="ignore"):
            expected = np.array([ozaki.dot(a[i:j], v[k - j + 1 : k - i + 1][::-1]) for k, i, j in bounds])
            for on_gpu in (False, True):
                monkeypatch.setattr(convolution, "is_cupy", lambda x, on_gpu=on_gpu: on_gpu)
                assert ozaki.convolve(a, v).tobytes() == expected.tobytes()
                valid = expected[min(n, m) - 1 : max(n, m)]
                assert ozaki.convolve(a, v, "valid").tobytes() == valid.tobytes()


def test_what_leaves_the_range_of_words_is_not_taken_for_exact():
    """(1 + u)² has its last bit 2⁻¹⁰⁴ below: no number holds it of products below 2⁻⁹⁷⁰."""
    for exponent in range(-520, -470, 5):
        x = np.full((3, 2), (1 + 2.0**-52) * 2.0**exponent)
        exact, number = Fraction(x[0, 0]) ** 2, Enclosure.exactly(x)
        for product in (number.times(number), number.times_numbers(x)):
            value = Fraction(product.high[0, 0]) + Fraction(product.low[0, 0])
            assert abs(exact - value) <= Fraction(product.error[0, 0])
        compiled = product_words(x, x)
        with numpy_forms():
            plain = product_words(x, x)
        for words in (compiled, plain):
            assert words is None or sum(Fraction(w[0, 0]) for w in words) == exact


@pytest.mark.parametrize("octaves", [0, 40, 250])
def test_products_with_numbers_and_their_units_are_enclosed(octaves):
    """Of products of three numbers, of twice these, and of both in units of their own."""
    rng = np.random.default_rng(octaves)
    x = np.ldexp(rng.standard_normal((3, 300)), rng.integers(-octaves - 1, octaves + 1, (3, 300)))
    exact = [Fraction(a) * Fraction(b) * Fraction(c) for a, b, c in x.T.tolist()]
    product = Enclosure.exactly(x[0]).times_numbers(x[1]).times_numbers(x[2])
    for factor, found in (
        (1, product),
        (6, product.normalized().times_numbers(6.0)),
        (2, product.plus(product)),
    ):
        exponents = np.broadcast_to(found.exponent, 300).tolist()
        for value, high, low, error, e in zip(
            exact, found.high, found.low, found.error, exponents, strict=True
        ):
            unit = Fraction(2) ** e
            assert abs(factor * value - (Fraction(high) + Fraction(low)) * unit) <= Fraction(error) * unit


def test_powers_of_counts_are_numbers_where_moments_are_enclosed():
    """n³ is the largest coefficient of an enclosed polynomial."""
    assert (central._MOST - 1) ** 3 < 2**53


def test_weights_far_apart_leave_no_deviation_of_zero():
    """Of many outputs: √(w₁w₂)·|x₁ − x₂|/(w₁ + w₂); its square is 2⁻⁴⁰⁰⁰ of what it is the difference of."""
    x, w = np.tile([[3.0], [7.0]], (1, 40)), np.tile([[2.0**1000], [2.0**-1000]], (1, 40))
    assert (ozaki.std(x, axis=0, aweights=w) == 4 * 2.0**-1000).all()


@pytest.mark.parametrize("n", [300, 1000, 4000])
def test_weights_whose_sum_is_rounded_all_one_way(n):
    """They leave more than a unit below it, by which the square of a sum is divided, too."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = 2.0**52 + rng.integers(0, 30, n)
        w = np.full(n, (1 + 2.0**-20 * rng.random()) * 1.3 / n)
        w[0] = 1
        assert ozaki.var(x, aweights=w) == rounded_weighted_variance(x.tolist(), w.tolist(), reliable=True)


def test_many_equal_weights_and_degrees_of_freedom_beside_a_tie():
    """Σw²/Σw is needed to twice the bits; a² is all but half way between two numbers."""
    n, zeros, a, w = 4096, 2048, 131417487, float.fromhex("0x1.4b1c8dbdedce8p+0")
    x = np.concatenate([np.tile([a, -a], (n - zeros) // 2) * 1.0, np.zeros(zeros)])
    x[-1] = a * 2.0**-45
    squares, total = 2048 * a * a + Fraction(x[-1]) ** 2, Fraction(x[-1])
    exact = (n * squares - total**2) / (n * (n - zeros))  # equal weights are counts, times ddof
    assert ozaki.var(x, aweights=np.full(n, w), ddof=zeros) == float(exact)


@pytest.mark.parametrize("n", [9743, 10001, 100003])
def test_fourth_moments_of_counts_whose_power_is_no_float64_number(n):
    """Of several columns, which are enclosed; one has the bits that it has alone."""
    x = np.random.default_rng(n).standard_normal((n, 8))
    found = ozaki.moment(x, 4)
    for column, moment in zip(x.T, found, strict=True):
        numbers, e = integers(column)
        total, count = sum(numbers.tolist()), n
        powers = sum((count * v - total) ** 4 for v in numbers.tolist())
        assert moment == rounded_ratio(powers, count**5, 4 * e, FORMATS[np.dtype(float)])
        assert moment == ozaki.moment(column, 4)


@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_powers_of_two_in_reliabilities_cancel(name):
    """Wherever the weights lie in float64's range."""
    function, w = getattr(ozaki, name), RNG.integers(1, 64, 30) / 64
    expected = function(X, aweights=w)
    for power in (-1060, -1000, -500, 600, 1000, 1023):
        assert function(X, aweights=np.ldexp(w, power)).tobytes() == expected.tobytes()
    given = function(X, fweights=F, aweights=np.ldexp(w, 1000))
    assert given.tobytes() == function(X, fweights=F, aweights=w).tobytes()


def test_weighted_variances_of_halves_are_rounded_once():
    """47² is halfway between two numbers of 11 bits, and what lies above it is lost in 53 bits."""
    x, w = np.array([-47, 47, 60, -60], np.float16), np.array([1, 1, 2.0**-60, 2.0**-60])
    assert ozaki.var(x, aweights=w) == 2210


def test_rounding_errors_of_a_mean_whose_squares_underflow():
    """The mean, 2³⁰ times the deviations, is rounded: what that adds to their squares is taken off again."""
    for x in 2.0**-195 + 2.0**-225 * RNG.standard_normal((8, 3)):
        w = 2.0**-440 * (1 + RNG.random(3))
        assert ozaki.var(x, aweights=w) == rounded_weighted_variance(x.tolist(), w.tolist(), reliable=True)


def test_a_weighted_mean_whose_remainder_underflows():
    """The sum is 5·2⁻¹⁰⁰³, and divided by the weights all but halfway between two numbers."""
    x = [2.0**-450 * (1 + 5 * 2.0**-52), -(2.0**-450) * (1 + 6 * 2.0**-52), 0.0]
    w = [2.0**-449 * (1 + 2.0**-52), 2.0**-449, float.fromhex("-0x1.6d51c97c55aep-454")]
    assert ozaki.average(np.array(x), weights=np.array(w)) == rounded_weighted_mean(x, w)


def test_weighted_means_widen_blocks_of_single_numbers(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(parallel, "thread_count", lambda: 1)  # each has a block
    x, w = np.ones((60, 50_000), np.float32), np.arange(60, dtype=np.float32)
    ozaki.average(x[:, :9], axis=0, weights=w)
    tracemalloc.start()
    found = ozaki.average(x, axis=0, weights=w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found == 1).all()
    assert peak < 9e6 < x.nbytes
