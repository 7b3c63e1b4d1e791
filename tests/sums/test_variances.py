"""Variances, standard deviations and what skips NaN, against exact rationals and NumPy's shapes."""

import tracemalloc
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from ozaki.sums.table import REDUCTIONS
from tests.fuzz.fixed import check_family
from tests.oracle import nearest, nearest_root
from tests.sums.test_reductions import FLOATS, FORMAT, bits, wide

NAN_FUNCTIONS = ("nansum", "nanmean", "nanvar", "nanstd")
NAMES = ("var", "std", *NAN_FUNCTIONS)
QUIET = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def parts(v) -> list[Fraction]:
    """The real, then the imaginary parts."""
    v = np.asarray(v)
    return [Fraction(float(p)) for part in ((v.real, v.imag) if np.iscomplexobj(v) else (v,)) for p in part]


def variance(v, ddof=0) -> Fraction:
    """Σ|x − mean|²/(n − ddof), by its definition."""
    v, n = np.asarray(v), len(v)
    total = Fraction(0)
    for part in (v.real, v.imag) if np.iscomplexobj(v) else (v,):
        numbers = [Fraction(int(x)) if part.dtype.kind in "iub" else Fraction(float(x)) for x in part]
        mean = sum(numbers, Fraction(0)) / n
        total += sum((x - mean) ** 2 for x in numbers)
    return total / (n - Fraction(ddof))


def reference(name, v, fmt=FORMATS["fp64"], ddof=0) -> float:
    """The correctly rounded result for one output, NaN and n <= ddof as NumPy has them."""
    v = np.asarray(v)
    if name.startswith("nan"):
        v = v[~np.isnan(v)]
    n = len(v)
    if name == "nansum":
        return nearest(sum(parts(v), Fraction(0)), fmt)
    if n == 0 or not np.isfinite(v).all():
        return np.nan
    if name == "nanmean":
        return nearest(sum(parts(v)) / n, fmt)
    if n <= ddof:
        return np.nan if name.startswith("nan") or (v == v[0]).all() else np.inf
    value = variance(v, ddof)
    return nearest_root(value, fmt) if name.endswith("std") else nearest(value, fmt)


# values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["var", "std", "average", *NAN_FUNCTIONS])
def test_each_is_the_nearest(name):
    check_family(name)


def test_squares_of_rounding_errors_are_bounded():
    """Deviations ±(1/2 + 2⁻⁵⁴) are rounded. Without the squares of 2⁻⁵⁴ the sum is a tie, which goes down."""
    m = 2.0**-54
    x = np.array([0.5 + 2 * m, -0.5, m + 2.0**-27, m - 2.0**-27, *2 * [m + 2.0**-28, m - 2.0**-28]])
    assert ozaki.var(x) == nearest(variance(x), FORMATS["fp64"]) == (0.5 + 3 * 2.0**-53) / 8


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_format(dtype):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((37, 11)) * 5 + 60).astype(dtype)
    x[3, 4], x[5, 6], x[:, 9] = FORMAT[dtype].smallest_subnormal, FORMAT[dtype].maximum, np.nan
    x[8, 2] = np.nan
    for name in NAMES:
        got = getattr(ozaki, name)(x, axis=0)
        assert got.dtype == dtype
        expected = np.array([reference(name, x[:, j], FORMAT[dtype]) for j in range(11)])
        assert np.array_equal(got.astype(np.float64), expected, equal_nan=True), name


def test_large_means_and_small_deviations():
    """Where two passes, Welford's update and shifts all lose digits."""
    rng = np.random.default_rng(1)
    x = 1e15 + rng.standard_normal(2000)
    assert ozaki.var(x) == nearest(variance(x))
    assert ozaki.std(x, ddof=1) == nearest_root(variance(x, 1))
    x = wide(rng, 3000, 400)
    assert ozaki.var(x) == nearest(variance(x))
    x = np.full(1000, 0.1)
    assert ozaki.var(x) == 0.0
    assert ozaki.std(np.array([-1.0, 1.0]) * 2.0**-1074) == 2.0**-1074
    assert ozaki.std(np.array([-1.0, 1.0]) * 1e308) == 1e308
    assert ozaki.var(np.array([-1.0, 1.0]) * 1e308) == np.inf
    assert ozaki.var(np.array([-1.0, 1.0]) * 1e-200) == 0


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_tiny_columns_beside_huge_ones_and_negative_zeros(rows):
    """Their sums are so far below the digits of the others that float64 knows nothing of them."""
    x = np.ldexp(np.random.default_rng(rows).standard_normal((rows, 6)), [-974, 0, 982, -136, -257, -1000])
    x[:, 1] = -0.0
    assert ozaki.std(x, axis=0).tolist() == [nearest_root(variance(column)) for column in x.T]


def test_any_order_gives_the_same_bits():
    rng = np.random.default_rng(2)
    x = wide(rng, 70_000)
    for name in NAMES:
        function = getattr(ozaki, name)
        assert len({bits(function(y)) for y in (x, x[::-1], rng.permutation(x), x.reshape(7, -1).T)}) == 1


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex(dtype):
    rng = np.random.default_rng(3)
    z = (rng.standard_normal((30, 7)) + 1j * rng.standard_normal((30, 7)) + 9).astype(dtype)
    real, fmt = np.zeros(0, dtype).real.dtype, FORMAT[np.dtype(dtype)]
    for name in ("var", "std", "nanvar", "nanstd"):
        got = getattr(ozaki, name)(z, axis=0, ddof=1)
        assert got.dtype == real
        assert got.tolist() == [reference(name, z[:, j], fmt, 1) for j in range(7)]
    z[2, 3], z[4, 3] = complex(np.nan, 1), complex(2, np.nan)
    for name in ("nansum", "nanmean"):
        got, kept = getattr(ozaki, name)(z, axis=0), np.delete(z[:, 3], [2, 4])
        assert got.dtype == dtype
        assert got[3].real == reference(name, kept.real, fmt)
        assert got[3].imag == reference(name, kept.imag, fmt)
    assert ozaki.nanstd(z, axis=0)[3] == reference("nanstd", z[:, 3], fmt)
    assert np.isnan(ozaki.var(z, axis=0)).tolist() == [j == 3 for j in range(7)]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, bool])
def test_integers_give_float64(dtype):
    rng = np.random.default_rng(4)
    info = (0, 2) if dtype is bool else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = rng.integers(*info, (50, 3), dtype=np.int64 if dtype is bool else dtype).astype(dtype)
    for name in ("var", "std", "nanvar", "nanstd"):
        got = getattr(ozaki, name)(x, axis=0)
        assert got.dtype == np.float64
        values = [variance(x[:, j]) for j in range(3)]
        assert got.tolist() == [nearest_root(v) if name.endswith("std") else nearest(v) for v in values]
    assert ozaki.nansum(x).dtype == np.sum(x).dtype
    assert ozaki.nansum(x) == np.sum(x)
    assert ozaki.nanmean(x) == ozaki.mean(x)


# NumPy's conventions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_special_cases_are_numpys(name):
    inf, nan = np.inf, np.nan
    rows = [[], [1.0], [1.0, 2.0], [nan], [nan, nan], [nan, 1.0], [inf, 1.0], [inf, nan], [inf, -inf, nan]]
    for row in rows + [[2.0, 2.0], [nan, 1.0, 5.0]]:
        x = np.array(row, float)
        for dtype in (np.float16, np.float32, np.float64, np.complex128):
            for ddof in (0, 1, 2, 5):
                options = {"ddof": ddof} if name[-3:] in ("var", "std") else {}
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    expected = getattr(np, name)(x.astype(dtype), **options)
                got = getattr(ozaki, name)(x.astype(dtype), **options)
                if dtype is np.complex128 and not np.isfinite(x[~np.isnan(x)]).all():
                    continue  # 0·inf in NumPy's complex arithmetic
                assert got.dtype == expected.dtype
                assert np.array_equal(got, expected, equal_nan=True), (row, dtype, ddof)


def test_the_sum_of_nothing_but_nan_is_plus_zero():
    assert bits(ozaki.nansum(np.array([np.nan]))) == bits(np.float64(0.0))
    assert bits(ozaki.nansum(np.array([-0.0, -0.0]))) == bits(ozaki.sum(np.array([-0.0, -0.0])))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_has_one_bit_pattern(dtype):
    payload = np.array([np.nan, -np.nan, 1], dtype)
    unsigned = f"u{dtype.itemsize}"
    for name, x in (
        ("var", payload),
        ("std", payload),
        ("nanmean", payload[:2]),
        ("nanvar", payload[:2]),
        ("nanstd", payload[:2]),
        ("var", np.array([np.inf, -np.inf], dtype)),
        ("nanmean", np.array([np.inf, -np.inf, np.nan], dtype)),
        ("var", payload[:0]),
    ):
        got = getattr(ozaki, name)(x)
        assert int(np.asarray(got).view(unsigned)) == QUIET[dtype.name], name


def test_dtype_and_out_are_rounded_to_once():
    x = np.array([0.0, 2.0, 1 + 2.0**-12, 1 - 2.0**-12])
    v = variance(x)
    assert ozaki.var(x, dtype=np.float32) == nearest(v, FORMATS["fp32"])
    out = np.zeros((), np.float16)
    assert ozaki.var(x, out=out) is out
    assert out == nearest(v, FORMATS["fp16"])
    wide_out = np.zeros(1)
    single = x.astype(np.float32)
    assert ozaki.nanstd(single, out=wide_out, keepdims=True)[0] == nearest_root(variance(single))
    assert ozaki.nanmean(np.float32([1, 2**-24, np.nan]), dtype=float) == (1 + 2.0**-24) / 2
    for name in NAMES:
        with pytest.raises(TypeError, match="out"):
            getattr(ozaki, name)(x, out=np.zeros((), int))
        with pytest.raises(ValueError, match="out"):
            getattr(ozaki, name)(x, out=np.zeros(2))
        with pytest.raises(ValueError, match="axis"):
            getattr(ozaki, name)(x, axis=1)


def test_what_is_refused():
    x = np.ones(3)
    for name in ("var", "std", "nanvar", "nanstd"):
        with pytest.raises(TypeError, match="real"):
            getattr(ozaki, name)(x, dtype=complex)
        for ddof in ("1", None, np.nan, np.inf, 1j, np.ones(1)):
            with pytest.raises(TypeError, match="ddof"):
                getattr(ozaki, name)(x, ddof=ddof)
    assert ozaki.var([0.0, 1.0, 2.0], ddof=Fraction(1, 3)) == 0.75
    assert ozaki.var([0.0, 1.0], ddof=10**400) == np.inf
    if np.finfo(np.longdouble).nmant > 52:
        with pytest.raises(TypeError, match="ddof"):
            ozaki.var(x, ddof=1 / np.longdouble(3))
    assert ozaki.var(x, ddof=np.float32(0.5)) == ozaki.var(x, ddof=np.int8(1)) == 0


def test_memory_does_not_grow_with_the_outputs():
    x = np.random.default_rng(5).standard_normal((3, 100_000))
    tracemalloc.start()
    ozaki.var(x, axis=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # 540 bytes of digits for each output would be 54e6


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_gpu_gives_the_same_bits(name):
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(6)
    x = wide(rng, (33, 201), 300)
    x[4, :7], x[:, 9], x[3, 11] = np.nan, np.nan, np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        bfloat16 = x.astype(np.float32).astype(ml_dtypes.bfloat16)
        given = [x, x.astype(np.float32), x.astype(np.float16), bfloat16, (x + 1j * x[::-1])]
    given += [rng.integers(-100, 100, (33, 201)), rng.integers(-100, 100, (33, 201)).astype(np.int8)]
    for y in given:
        for axis in (None, 0, 1, ()):
            got = getattr(ozaki, name)(cupy.asarray(y), axis=axis)
            assert isinstance(got, cupy.ndarray)
            assert bits(got.get()) == bits(getattr(ozaki, name)(y, axis=axis))


def test_the_mean_of_negative_zeros_does_not_depend_on_the_rows_beside_it():
    for rows in (2, 3000):
        x = np.full((rows, 3), -0.0)
        x[0, 0] = np.nan
        means = ozaki.nanmean(x, axis=1)
        assert np.signbit(means).all()  # NaN is left out


# the table and weighted means ------------------------------------------------------------------------


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
def test_what_the_table_says_is_what_the_function_returns(name, dtype):
    """So whoever brings exact sums together, of chunks say, needs nothing but the table."""
    rng, reduction = np.random.default_rng(5), REDUCTIONS[name]
    x = (8 * wide(rng, (9, 7, 5), 30)).astype(dtype)
    arrays = [x, np.abs(x[::-1]).astype(np.float64)][: 2 if name in ("dot", "vdot", "average") else 1]
    target = np.dtype(np.float64) if reduction.real or dtype == np.int64 else np.result_type(*arrays)
    options = {"ddof": Fraction(1), "skip_nan": reduction.skip_nan} if name[-3:] in ("var", "std") else {}
    function, axis = getattr(ozaki, name), {"vdot": None, "dot": 1}.get(name, (0, 2))
    expected = function(
        *arrays[:1],
        **({} if name == "vdot" else {"axis": axis}),
        **({"weights": arrays[1]} if name == "average" else {"y": arrays[-1]} if len(arrays) == 2 else {}),
        **({"ddof": 1} if options else {}),
        **({} if name == "average" else {"dtype": target}),
    )
    axes = tuple(range(3)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    assert bits(reduction.of(arrays, axes, target, **options)) == bits(expected)


def test_averages_over_axes_as_numpy_has_them():
    rng = np.random.default_rng(6)
    x, weights = rng.integers(-9, 9, (3, 4, 5)), rng.integers(1, 9, (3, 4, 5))
    for y in (x, x.astype(np.float32), x + 2j * x[::-1]):
        for axis, w in ((None, weights), (1, weights), ((0, 2), weights), (1, weights[0, :, 0]), (-1, None)):
            for keepdims in (False, True):
                expected = np.average(y, axis, w, keepdims=keepdims)
                got = ozaki.average(y, axis, w, keepdims)
                assert (np.shape(got), got.dtype.kind) == (np.shape(expected), expected.dtype.kind)
                assert np.allclose(got, expected, 1e-6)
    big = np.array([2**63 - 1, 2**62 + 1])
    assert ozaki.average(big, weights=[3, 1]) == nearest(Fraction(3 * (2**63 - 1) + 2**62 + 1, 4))
    assert ozaki.average(np.array([np.inf, 1.0]), weights=[1.0, 1.0]) == np.inf
    assert np.isnan(ozaki.average(np.array([1.0, 1.0]), weights=[1.0, np.inf]))
    assert np.signbit(ozaki.average(np.array([-0.0, -0.0]), weights=[1.0, 2.0]))


def test_weights_that_do_not_fit_are_refused():
    x = np.ones((2, 3))
    for weights in (np.ones(2), np.ones((3, 2)), 2.0):
        with pytest.raises(ValueError, match="Shape of weights must be consistent with shape of a"):
            ozaki.average(x, weights=weights)
    with pytest.raises(ValueError, match="Shape of weights must be consistent with shape of a"):
        ozaki.average(x, 1, np.ones(2))
    with pytest.raises(TypeError, match="weights must be real"):
        ozaki.average(x, weights=x * 1j)
    with pytest.raises(ZeroDivisionError, match="weights must not sum to zero"):
        ozaki.average(x, 0, np.array([[1.0, 1, 1], [-1, 1, 1]]))
