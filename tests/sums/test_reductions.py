"""Sums, means, dot products and norms against exact rationals, and their bits in every form."""

import itertools
import math
import tracemalloc
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.compiled import numpy_forms
from ozaki.sums import api as oz
from ozaki.sums.exact.fixed_point import FixedPoint, Rounding
from tests.cells import cells
from tests.fuzz.fixed import check_family
from tests.oracle import nearest, nearest_root
from tests.reductions import WITH_WHERE
from tests.threads import interrupted

FORMAT = {np.dtype(f.dtype): f for f in FORMATS.values() if f.name != "tf32"}
FORMAT |= {np.dtype(np.complex64): FORMATS["fp32"], np.dtype(np.complex128): FORMATS["fp64"]}
FLOATS = [np.dtype(d) for d in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]


@pytest.fixture(autouse=True)
def blocks():
    """Everything is summed number by number in NumPy; `test_forms` compares this with the other forms."""
    with numpy_forms():
        yield


def fractions(x) -> list[Fraction]:
    return [Fraction(float(v)) for v in np.asarray(x).ravel()]


def nearest_sum(x, fmt=FORMATS["fp64"]) -> float:
    return nearest(sum(fractions(x), Fraction(0)), fmt)


def bits(x) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def wide(rng, shape, octaves=40):
    return np.ldexp(rng.standard_normal(shape), rng.integers(-octaves, octaves, shape))


def along(x, axis, function):
    """Apply a function of a flat array along axes."""
    axes = tuple(
        a % x.ndim for a in (range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,))
    )
    kept = [n for a, n in enumerate(x.shape) if a not in axes]
    rows = math.prod(x.shape[a] for a in axes)
    front = np.moveaxis(x, axes, range(len(axes))).reshape(rows, math.prod(kept))
    return np.array([function(front[:, j]) for j in range(front.shape[1])]).reshape(kept)


# sum ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "norm", "dot"])
def test_each_is_the_nearest(name):
    check_family(name)


@pytest.mark.parametrize("condition", [1e0, 1e16, 1e60, 1e120, 1e300])
def test_ill_conditioned_sums_agree_with_fsum(condition):
    rng = np.random.default_rng(0)
    octaves = max(1, int(math.log2(condition) / 2))
    x = wide(rng, 30_000, octaves)
    x = rng.permutation(np.concatenate([x, -x, wide(rng, 7, 3) / condition]))
    assert oz.sum(x) == math.fsum(x)


def test_the_whole_exponent_range():
    rng = np.random.default_rng(1)
    x = np.ldexp(rng.standard_normal(50_000), rng.integers(-1075, 1000, 50_000))
    assert oz.sum(x) == nearest_sum(x)
    assert oz.sum(x[np.abs(x) < 1e-290]) == nearest_sum(x[np.abs(x) < 1e-290])
    top = np.ldexp(rng.uniform(1, 2, 3001) * rng.choice([-1, 1], 3001), 1023)
    assert oz.sum(top) == nearest_sum(top)
    top[::2] *= 2.0**-1050
    assert oz.sum(top) == nearest_sum(top)


@pytest.mark.parametrize("n", [1, 2, 1000, 32_768, 32_769, 100_003])
def test_any_permutation_chunk_and_stride_gives_the_same_bits(n):
    rng = np.random.default_rng(n)
    x = wide(rng, n)
    expected = nearest_sum(x)
    forms = [x, x[::-1], rng.permutation(x), np.repeat(x, 2)[::2], np.asfortranarray(x[:, None])]
    forms += [x.reshape(1, n, 1), np.stack([x, x])[1]]
    assert {bits(oz.sum(form)) for form in forms} == {bits(np.float64(expected))}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_format(dtype):
    rng = np.random.default_rng(2)
    fmt = FORMAT[dtype]
    x = (rng.standard_normal((40, 33)) * 3).astype(dtype)
    x[3, 5], x[7, 5] = fmt.smallest_subnormal, -fmt.maximum
    expected = along(x, 0, lambda v: nearest_sum(v, fmt))
    result = oz.sum(x, axis=0)
    assert result.dtype == dtype
    assert np.array_equal(result.astype(np.float64), expected)
    assert oz.mean(x, axis=0).astype(np.float64).tolist() == [
        nearest(sum(fractions(x[:, j])) / 40, fmt) for j in range(33)
    ]
    assert float(oz.dot(x[0], x[1])) == nearest(
        sum(a * b for a, b in zip(fractions(x[0]), fractions(x[1]), strict=True)), fmt
    )
    assert float(oz.norm(x[:, 0])) == nearest_root(sum(a * a for a in fractions(x[:, 0])), fmt)


@pytest.mark.parametrize("tail", [0.0, 2.0**-300, -(2.0**-300), 2.0**-1074])
def test_ties(tail):
    for one in (1.0, 1 + 2.0**-52, 2.0 - 2.0**-52, -1.0):
        x = np.array([one, math.copysign(2.0**-53, one), tail])
        assert oz.sum(x) == nearest_sum(x)
        y = np.tile(x[:, None], (1, 500))
        assert (oz.sum(y, axis=0) == nearest_sum(x)).all()


def test_overflow_of_the_sum_and_of_parts_of_it():
    big = np.finfo(np.float64).max
    assert oz.sum(np.array([big, big, -big])) == big
    assert oz.sum(np.array([big, big])) == np.inf
    half_ulp = 2.0**970
    assert oz.sum(np.array([big, half_ulp])) == np.inf
    assert oz.sum(np.array([big, half_ulp, -(2.0**-1074)])) == big
    assert oz.sum(np.array([65504, 15.9], np.float16)) == np.float16(65504)
    assert oz.sum(np.array([65504, 16], np.float16)) == np.inf


def test_signed_zeros_and_special_values():
    inf, nan = np.inf, np.nan
    rows = [
        [-0.0, -0.0],
        [0.0, -0.0],
        [1, -1],
        [inf, 1],
        [-inf, 1],
        [inf, -inf],
        [nan, 1],
        [nan, inf],
        [1e308, inf],
    ]
    expected = [-0.0, 0.0, 0.0, inf, -inf, nan, nan, nan, inf]
    x = np.array(rows)
    assert bits(oz.sum(x, axis=1)) == bits(np.array(expected))
    assert bits(oz.sum(np.tile(x, 50), axis=1)) == bits(np.array(expected))
    assert [bits(oz.sum(np.array(r, float))) for r in rows] == [bits(np.float64(e)) for e in expected]
    mixed = np.ones((3, 70_000))
    mixed[0, 40_000], mixed[1, 5] = nan, -inf
    assert bits(oz.sum(mixed, axis=1)) == bits(np.array([nan, -inf, 70_000.0]))


# axes, dtypes and forms -----------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 1), (0, 2), (1, 2), -1])
@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed"])
def test_layouts(axis, order):
    rng = np.random.default_rng(4)
    x = wide(rng, (37, 41, 29))
    expected = along(x, axis, math.fsum)
    if order == "F":
        x = np.asfortranarray(x)
    elif order == "strided":
        padded = np.zeros((74, 41, 58))
        padded[::2, :, ::2] = x
        x = padded[::2, :, ::2]
    elif order == "reversed":
        x = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    assert np.array_equal(oz.sum(x, axis=axis), expected)


def test_long_and_short_axes():
    rng = np.random.default_rng(5)
    x = wide(rng, (200_000,), 60)
    for shape in ((50_000, 4), (4, 50_000), (100, 2000), (2, 100_000)):
        for axis in (0, 1):
            y = x.reshape(shape)
            assert np.array_equal(oz.sum(y, axis=axis), along(y, axis, math.fsum))


def test_broadcast_input_is_not_copied():
    x = np.broadcast_to(np.float64(0.1), (3000, 3000))
    assert oz.sum(x) == nearest(9_000_000 * Fraction(0.1))
    assert oz.mean(x, axis=(0, 1)) == 0.1


@pytest.mark.slow
def test_memory_beyond_the_input_is_constant():
    """Arrays of 16 MB and more, in blocks of 2 MB at most."""
    x = np.random.default_rng(0).standard_normal((1000, 2000))
    calls = [lambda a=a: oz.sum(x, axis=a) for a in (None, 0, 1)]
    calls += [lambda: oz.norm(x.T, axis=0), lambda: oz.dot(x, x, axis=0), lambda: oz.mean(x[::2, ::3])]
    for call in calls:
        call()  # a thread's workspace stays
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 23
    many = np.broadcast_to(np.float64(0.1), (2**22,))
    tracemalloc.start()
    oz.sum(many)
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()


def test_columns_of_any_scale_share_blocks():
    rng = np.random.default_rng(10)
    for octaves in (0, 3, 7, 30, 400):
        x = rng.standard_normal((300, 40)) * np.ldexp(1.0, rng.integers(-octaves, octaves + 1, 40))
        x[:, 3], x[:, 4], x[5:, 6] = 0.0, -0.0, 0.0
        x[200:, 8] *= 2.0**60
        for y in (x, np.asfortranarray(x)):
            expected = np.array([nearest_sum(y[:, j]) for j in range(40)])
            expected[4] = -0.0
            assert bits(oz.sum(y, axis=0)) == bits(expected)
            assert bits(oz.sum(np.concatenate([y] * 50)[:, 8:9], axis=0)) == bits(
                np.array([nearest(50 * sum(fractions(y[:, 8])))])
            )
    x[7, 5] = np.nan
    assert np.isnan(oz.sum(x, axis=0)).nonzero()[0].tolist() == [5]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_sums_of_few_float32_are_rounded_once(values):
    x = np.array(values, np.float32)
    expected = nearest_sum(x, FORMATS["fp32"])
    rows = oz.sum(np.stack([x, x, -x]), axis=1).astype(float)
    assert rows.tolist() == [expected, expected, 0.0 if expected == 0 else -expected]
    assert float(oz.sum(x)) == expected


def test_inputs_are_never_written_to():
    x = np.array([[np.inf, 1e308, 1e-320], [np.nan, 1.0, 2.0]])
    before = bits(x)
    x.flags.writeable = False
    for function in (oz.sum, oz.mean, oz.norm):
        function(x, axis=0)
    oz.dot(x, x, axis=0)
    assert bits(x) == before


def test_dtype_out_and_keepdims():
    x = np.array([[1 + 2.0**-24, 2.0**-60], [1.0, 2.0]])
    assert oz.sum(x, axis=1, dtype=np.float32)[0] == np.float32(1 + 2.0**-23)
    out = np.zeros((2, 1))
    assert oz.sum(x, axis=1, keepdims=True, out=out) is out
    assert out[1, 0] == 3
    assert oz.sum(x.astype(np.float32), dtype=np.float64) == nearest_sum(x.astype(np.float32))
    with pytest.raises(ValueError, match="out"):
        oz.sum(x, axis=1, out=out)
    with pytest.raises(TypeError, match="out"):
        oz.sum(x, out=np.array(0))
    assert np.array_equal(oz.sum(x, axis=()), x)
    assert oz.sum(x, dtype=np.complex128) == complex(nearest_sum(x))


def test_where_and_initial():
    x = wide(np.random.default_rng(9), (5, 6, 7))
    where = np.random.default_rng(10).random((6, 1)) < 0.5
    for axis in (None, 1, (0, 2), (2, 0)):
        kept = oz.sum(np.where(where, x, 0), axis)
        assert np.array_equal(oz.sum(x, axis, where=where), kept)
        shape = oz.sum(x, axis, keepdims=True, initial=0).shape
        assert shape == np.sum(x, axis, keepdims=True).shape
    first = np.full(7, 1e300)
    sums = oz.sum(x, (0, 1), initial=first)
    assert sums.tolist() == [nearest(sum(fractions(x[..., i])) + Fraction(1e300)) for i in range(7)]
    assert oz.sum(np.array([1e300, -1e300]), initial=0.1) == 0.1
    assert oz.sum(np.array([True, True]), initial=5) == 7
    assert oz.sum(np.zeros(0), initial=2) == 2
    assert oz.sum(np.ones(2, np.complex64), initial=1j) == 2 + 1j
    for wrong in (1j, 2**53 + 1):
        with pytest.raises(TypeError, match="initial must convert"):
            oz.sum(x, initial=wrong)
    with pytest.raises(TypeError, match="where must be boolean"):
        oz.sum(x, where=np.ones(7))


def test_integers_are_summed_as_numpy_does():
    x = np.arange(12, dtype=np.int8).reshape(3, 4)
    assert oz.sum(x, axis=0).dtype == np.sum(x, axis=0).dtype
    assert np.array_equal(oz.sum(x, axis=0), np.sum(x, axis=0))
    assert oz.sum(x > 3) == 8
    assert oz.mean(x) == 5.5
    big = np.array([2**62, 2**62 + 1, 3], np.int64)
    assert oz.mean(big) == nearest(Fraction(sum(big.tolist()), 3))
    assert oz.dot(x[0], x[1]) == int(x[0].astype(int) @ x[1].astype(int)) % 256
    assert oz.norm(np.array([3, 4])) == 5.0
    assert oz.norm(big) == nearest_root(Fraction(sum(v * v for v in big.tolist())))
    assert oz.dot(big, np.ones(3)) == nearest(Fraction(sum(big.tolist())))


def test_empty():
    assert bits(oz.sum(np.array([]))) == bits(np.float64(0.0))
    assert oz.sum(np.zeros((0, 3)), axis=0).tolist() == [0, 0, 0]
    assert oz.sum(np.zeros((0, 3)), axis=1).shape == (0,)
    assert oz.norm(np.zeros((0, 3))) == 0
    assert oz.dot(np.array([]), np.array([])) == 0
    assert np.isnan(oz.mean(np.zeros(0)))
    assert oz.sum(np.float64(3.0)) == 3.0


@pytest.mark.parametrize("function", [oz.sum, oz.mean, oz.norm])
def test_refusals(function):
    for bad in (np.array([1, None]), np.array(["a"]), np.array([1], "M8[s]"), np.ones(2, np.longdouble)):
        with pytest.raises(TypeError):
            function(bad)
    for axis in (2, (0, 0), (0, -2)):
        with pytest.raises(ValueError, match="axis"):
            function(np.ones((2, 2)), axis=axis)


# mean, norm, dot ------------------------------------------------------------------------------------


def test_mean_ties_subnormals_and_many():
    assert oz.mean(np.array([2.0**-1074, 0.0])) == 0.0
    assert oz.mean(np.array([2.0**-1074, 0.0, 2.0**-1074])) == 2.0**-1074
    assert oz.mean(np.array([3 * 2.0**-1074, 0.0])) == 2.0**-1073
    for values in ([1, 1 + 2.0**-52], [1 + 2.0**-52, 1 + 2.0**-51], [-1, -1 - 2.0**-52]):
        assert oz.mean(np.array(values)) == nearest(sum(map(Fraction, values)) / 2)
    x = wide(np.random.default_rng(6), (33, 1001), 300)
    assert oz.mean(x, axis=0).tolist() == [nearest(sum(fractions(x[:, j])) / 33) for j in range(1001)]
    assert bits(oz.mean(np.array([-0.0, -0.0]))) == bits(np.float64(-0.0))


def test_division_by_a_large_count():
    value = FixedPoint(np.array([[3], [-5]]), 32, -7, np.array([8], np.uint8))
    for divisor in (3, 2**29, 2**31 + 1, 2**40 + 3):
        exact = (3 - 5 * Fraction(2) ** 32) / 2**7 / divisor
        assert Rounding(FORMATS["fp64"], divisor)(value).tolist() == [nearest(exact)]


def test_norm_of_exact_squares_midpoints_and_extremes():
    assert oz.norm(np.array([3 * 2.0**900, 4 * 2.0**900])) == 5 * 2.0**900
    assert oz.norm(np.array([3 * 2.0**-1074, 4 * 2.0**-1074])) == 5 * 2.0**-1074
    assert oz.norm(np.array([2.0**-1074] * 2)) == 2.0**-1074
    assert oz.norm(np.array([np.finfo(float).max] * 2)) == np.inf
    x = wide(np.random.default_rng(7), (300, 21), 20)
    assert oz.norm(x, axis=0).tolist() == [
        nearest_root(sum(v * v for v in fractions(x[:, j]))) for j in range(21)
    ]
    assert oz.norm(np.array([np.inf, np.nan])) != oz.norm(np.array([np.inf, 1.0])) == np.inf
    # Beside infinity the products' errors alone are left, and may be negative.
    assert (
        oz.norm(np.append(wide(np.random.default_rng(7), (50, 40)), [[np.inf]] * 50, 1), axis=1) == np.inf
    ).all()


def test_dot_special_values():
    inf, nan = np.inf, np.nan
    rows = [
        ([inf, 1], [1, 1], inf),
        ([inf, 1], [0, 1], nan),
        ([inf, inf], [1, -1], nan),
        ([nan, 1], [1, 1], nan),
        ([1e300, 1e300], [1e300, -1e300], 0.0),
        ([-0.0, 0.0], [1.0, -1.0], -0.0),
        ([0.0, -0.0], [1e300, 1e-320], 0.0),
        ([-0.0], [1e300], -0.0),
        ([inf, 1e300], [1e300, 1e-300], inf),
        ([1e-320, 0.0], [1e-320, 0.0], 0.0),
        ([1e-320, 0.0], [-1e-320, 0.0], -0.0),
    ]
    for x, y, expected in rows:
        got = oz.dot(np.array(x), np.array(y))
        assert bits(got) == bits(np.float64(expected)), (x, y, got)


def test_dot_along_axes_and_broadcast():
    rng = np.random.default_rng(8)
    x, y = wide(rng, (5, 60, 7)), wide(rng, (60, 7))
    result = oz.dot(x, y, axis=1)
    for i in range(5):
        for j in range(7):
            terms = [a * b for a, b in zip(fractions(x[i, :, j]), fractions(y[:, j]), strict=True)]
            assert result[i, j] == nearest(sum(terms))
    assert oz.dot(x, y, axis=1, keepdims=True).shape == (5, 1, 7)
    long_x, long_y = wide(rng, 70_001), wide(rng, 70_001)
    terms = sum(a * b for a, b in zip(fractions(long_x), fractions(long_y), strict=True))
    assert oz.dot(long_x, long_y) == nearest(terms)
    with pytest.raises(ValueError):
        oz.dot(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="elements"):
        oz.vdot(np.ones(3), np.ones(4))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex(dtype):
    rng = np.random.default_rng(9)
    fmt = FORMAT[np.dtype(dtype)]
    x, y = ((wide(rng, (31, 3), 9) + 1j * wide(rng, (31, 3), 9)).astype(dtype) for _ in range(2))

    def parts(v):
        return fractions(v.real), fractions(v.imag)

    total = oz.sum(x, axis=0)
    assert total.dtype == dtype
    assert total.imag.astype(float).tolist() == [nearest_sum(x[:, j].imag, fmt) for j in range(3)]
    (a, b), (c, d) = parts(x), parts(y)
    pairs = list(zip(a, b, c, d, strict=True))
    flat_x, flat_y = x.ravel(), y.ravel()
    plain, conjugate = oz.dot(flat_x, flat_y), oz.vdot(x, y)
    assert float(plain.real) == nearest(sum(p * r - q * s for p, q, r, s in pairs), fmt)
    assert float(plain.imag) == nearest(sum(p * s + q * r for p, q, r, s in pairs), fmt)
    assert float(conjugate.real) == nearest(sum(p * r + q * s for p, q, r, s in pairs), fmt)
    assert float(conjugate.imag) == nearest(sum(p * s - q * r for p, q, r, s in pairs), fmt)
    assert oz.norm(x).dtype == FORMAT[np.dtype(dtype)].dtype
    assert float(oz.norm(x)) == nearest_root(sum(p * p + q * q for p, q, _, _ in pairs), fmt)
    assert complex(oz.mean(x)) == complex(nearest(sum(a) / 93, fmt), nearest(sum(b) / 93, fmt))
    for function in (oz.sum, oz.mean):
        with pytest.raises(TypeError, match="complex"):
            function(x, dtype=np.float64)
    mixed = oz.dot(flat_x, flat_y.real)
    assert float(mixed.imag) == nearest(sum(q * r for _, q, r, _ in pairs), fmt)


@cells(name=WITH_WHERE, dtype=["f8", "f4", "c16", "i8"])
def test_where_leaves_numbers_out(name, dtype):
    function, rng = getattr(ozaki, name), np.random.default_rng(13)
    x = (100 * rng.standard_normal((4, 3, 50))).astype(dtype)
    x = x + 1j * x[::-1] if dtype == "c16" else x
    x[..., 7] = 3 if dtype == "i8" else np.nan
    where = rng.random((3, 50)) < 0.5
    where[:2, 7], where[2, 7], where[1] = False, True, False
    found = function(x, axis=2, where=where)
    with np.errstate(invalid="ignore"):
        want = [[function(row[mask]) for row, mask in zip(rows, where, strict=True)] for rows in x]
    assert np.array_equal(found, want, equal_nan=True)
    assert found.dtype == function(x).dtype
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(x, chunks=(2, 3, 20))
    for mask in (where, da.from_array(where, chunks=17)):
        assert np.array_equal(function(lazy, axis=2, where=mask).compute(), found, equal_nan=True)
    for array in (x, lazy):
        with pytest.raises(TypeError, match="where must be boolean, got int64"):
            function(array, where=where.astype(int))
        with pytest.raises(ValueError, match="x and where must have shapes that broadcast"):
            function(array, where=where[:2])


def test_a_sum_inside_a_sum():
    """As in the handler of a signal, whatever line it comes before: neither finds the other's numbers."""
    rng = np.random.default_rng(12)
    x, y = rng.standard_normal((2, 300)), rng.standard_normal((2, 500))
    expected, inner, outer, lines = (oz.dot(*x), oz.dot(*y)), [], [], itertools.count()
    while interrupted(next(lines), lambda: inner.append(oz.dot(*y)), lambda: outer.append(oz.dot(*x))):
        pass
    assert (set(outer), set(inner)) == ({expected[0]}, {expected[1]})
    assert len(inner) > 50
