"""Products of many short rows on a CPU: the bits, scales and bounds of all other products."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.compiled import compiled, compiles
from ozaki.arguments import request_of
from ozaki.certificate.counted import counted_scales, counting_limits
from ozaki.certificate.decision import Ask
from ozaki.definition.decision import OCTAVES
from ozaki.execution import short_rows
from ozaki.execution.in_floats import Floats
from ozaki.execution.short_rows import FORM, ShortRows
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import row_statistics
from tests.cells import cells
from tests.executors import by, noted, row_by_row
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import nearest, rounded_product, same

pytestmark = pytest.mark.skipif(not compiles(), reason="needs numba")

SHAPES = [(300, 3, 3), (3, 3, 300), (257, 1, 1), (256, 16, 16), (16, 16, 513), (1000, 7, 2), (256, 2, 128)]
REAL = ["float64", "float32"]


@pytest.fixture
def taken(monkeypatch):
    return noted(monkeypatch, Floats)


@pytest.fixture
def every_size(monkeypatch):
    row_by_row(monkeypatch)


def request_for(x, accuracy="fp64"):
    return request_of(x, accuracy, "auto", None, "auto", None)


@cells(shape=SHAPES, kind=KINDS, dtype=REAL)
def test_the_bits_of_all_other_products(taken, without_numba, shape, kind, dtype):
    a, b = in_dtype(*matrices(kind, *shape), dtype)
    for options in ({}, {"accuracy": "normwise"}, {"accuracy": "exact"}):
        expected = without_numba(FACES[dtype], a, b, **options)
        assert same(FACES[dtype](a, b, **options), expected), options
        if kind in ("uniform", "positive", "integers"):
            assert taken[-1], options


@pytest.mark.parametrize("dtype", REAL)
def test_layouts_do_not_show(taken, dtype):
    a, b = in_dtype(*matrices("uniform", 300, 5, 4), dtype)
    expected, bytes_ = FACES[dtype](a, b), a.tobytes()
    unaligned = np.frombuffer(b"." + bytes_, np.uint8)[1:].view(dtype).reshape(a.shape)
    read_only = np.frombuffer(bytes_, dtype).reshape(a.shape)
    swapped = a.astype(a.dtype.newbyteorder())
    strided, fortran = np.repeat(a, 2, axis=1)[:, ::2], np.asfortranarray(a)
    for x in (unaligned, read_only, swapped, strided, fortran, a[::-1].copy()[::-1]):
        assert same(FACES[dtype](x, b), expected)
        assert same(FACES[dtype](b.T, x.T), np.ascontiguousarray(expected.T))
    assert all(taken)


def test_blocks_of_threads_do_not_show(taken):
    a, b = matrices("wide2", 150_001, 3, 2)
    whole = ozaki.accurate_dgemm(a, b)
    for rows in (slice(0, 70_000), slice(70_000, None)):
        assert same(ozaki.accurate_dgemm(a[rows], b), whole[rows])
    assert all(taken)


@pytest.mark.parametrize("target", ["fp64", "fp32"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 16])
@pytest.mark.parametrize("octaves", [0, 1, 2, 4, 7, 12, 40])
def test_scales_and_bits_are_those_of_the_statistics(target, k, octaves):
    rng, form, bits_found = np.random.default_rng(k), compiled(FORM), set()
    limits = counting_limits(target, k, True)
    for trial in range(30):
        spread = np.exp2(rng.integers(-octaves, octaves + 1, (130, k)))
        x = rng.choice([0.5, 0.75, 1 - 2.0**-53, 0.5 + 2.0**-40, 0.6], (130, k)) * spread
        x *= rng.choice([1, -1], x.shape)
        if trial % 3 == 0:
            x[rng.random(x.shape) < 0.1] = 0
            x[5] = 0
        rows, columns = x[:100], x[100:]
        sides = [short_rows._Side(form, side, limits) for side in (rows, columns)]
        statistics = row_statistics([x])
        scale = np.concatenate([side.scale for side in sides])
        assert same(scale, norm_scales(statistics, norm_limit(FORMATS[target], k)))
        sums = statistics.exponent, statistics.total, statistics.square, statistics.counts
        expected = counted_scales(sums, k, len(columns), target)[1]
        found = np.array([x.first_octaves for x in sides]), np.array([x.largest for x in sides])
        bits = form.counted_bits(*found, limits, np.empty((2, OCTAVES)))
        assert bits == expected
        bits_found.add(bits)
    if octaves == 0 and k > 2:
        assert 0 in bits_found
    if octaves == 40 and k > 1:
        assert -1 in bits_found


def sparse(rng, shape, dtype, zeros, octaves):
    """Normal numbers times powers of two, some of them zeros, and some rows of zeros."""
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-octaves, octaves + 1, shape))
    x[rng.random(shape) < zeros] = 0
    x[rng.random(len(x)) < 0.02] = 0
    return x.astype(dtype)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("octaves", [0, 2, 6, 20, 60])
@pytest.mark.parametrize("zeros", [0, 0.3, 0.7])
@pytest.mark.parametrize("dtype", REAL)
def test_pairs_are_compared_as_everywhere(dtype, zeros, octaves, k):
    rng = np.random.default_rng(k)
    for n in (1, 3, 16):
        x, y = (sparse(rng, (rows, k), dtype, zeros, octaves) for rows in (300, n))
        request = request_for(x, "fp64" if dtype == "float64" else "fp32")
        pair = Pair(Factor(x, 0), Factor(y.T, 1), request)
        data = ShortRows(pair)
        data.counted_bits()
        with np.errstate(all="ignore"):
            pending = steps.bounds(pair, steps.both_norm_scales(pair))
            bounds = pending.wait()
            assert data.answer(Ask.PAIRS) == steps.pairwise(pair, pending)()
        found = data.answer(Ask.COUNTS)
        assert (found.totals, found.sums) == (bounds.totals, bounds.sums)


@pytest.mark.parametrize("accuracy", ["fp64", "fp32"])
@pytest.mark.parametrize("dtype", REAL)
def test_points_and_sparse_matrices(taken, without_numba, dtype, accuracy):
    """Rotations about an axis, points in a plane, and matrices of which many elements are 0."""
    rng, rotation = np.random.default_rng(3), np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]], dtype)
    points = rng.standard_normal((1000, 3)).astype(dtype)
    plane = points * np.array([1, 1, 0], dtype)
    cases = [(points, rotation), (plane, rotation), (plane, rotation.T), (plane, points[:3])]
    cases += [(sparse(rng, (400, k), dtype, z, s), sparse(rng, (k, 5), dtype, z, s)) for k in (2, 5, 16)
              for z in (0.2, 0.6) for s in (0, 3, 9)]  # fmt: skip
    for a, b in cases:
        for x, y in ((a, b), (b.T, a.T)):
            found = FACES[dtype](x, y, accuracy=accuracy)
            assert same(found, without_numba(FACES[dtype], x, y, accuracy=accuracy))
    assert all(taken[:16:2])  # every other call is that without numba


@pytest.mark.parametrize("dtype", REAL)
def test_ties_and_what_lies_next_to_them(taken, every_size, dtype):
    """Sums at a tie, and above and below it by what integers of 66 and of 40 bits just hold."""
    u, least = (2.0**-53, 2.0**-64) if dtype == "float64" else (2.0**-24, 2.0**-38)
    some = [0.0, 1.0, -1.0, 2.0, -2.0]
    rows = [[1.0, u, least * x, least * y] for x in some for y in some]
    rows += [[-x for x in row] for row in rows] + [[1 + 2 * u, *row[1:]] for row in rows]
    a = np.array(rows).astype(dtype)
    b = np.array([[1.0, 1], [1, 0.5], [1, 1], [1, 1]]).astype(dtype)
    expected = rounded_product(a, b, dtype)
    assert len(np.unique(expected[:, 0])) == 5
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 0]):
        assert same(FACES[dtype](a[:, order], b[order]), expected)
    assert all(taken)


def test_float32_results_are_not_rounded_twice(taken, every_size):
    """1 + 2^-24 + 2^-77, whose float64 is a tie of two float32."""
    a = np.array([[1.0, 2.0**-24, s * 2.0**-38] for s in (1, 0, -1)], np.float32)
    b = np.array([[1.0], [1.0], [2.0**-38]], np.float32)
    expected = rounded_product(a, b, np.float32)
    assert expected.ravel().tolist() == [1 + 2.0**-23, 1, 1]
    assert same(ozaki.accurate_sgemm(a, b), expected)
    assert taken == [False]
    assert same(ozaki.accurate_sgemm(a[1:2], b), expected[1:2])
    assert taken == [False, True]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ([2.0**30, 1, 2.0**-24, -(2.0**30), 2.0**-60], [2.0**30, 1, 1, 2.0**30, 1]),  # low is above high
        ([1, 2.0**-24, 2.0**-45], [1, 1, 2.0**-45]),
        # The low float loses what is above the tie, and is 0.
        ([1, 2.0**-24, 2.0**-30, 2.0**-60, -(2.0**-60)], [1, 1, 2.0**-30, 2.0**-60, 1]),
    ],
)
def test_float32_ties_and_what_lies_below_them(every_size, row, column):
    a, b = np.array([row], np.float32), np.array([column], np.float32).T
    expected = rounded_product(a, b, np.float32)
    assert expected[0, 0] == 1 + 2.0**-23
    assert same(ozaki.accurate_sgemm(a, b, accuracy="exact"), expected)


def test_what_the_error_of_a_product_loses_counts(every_size):
    """A tie, but for 2^-116, which is what a product's error has to offer."""
    x = 2.0**-28 * (1 + 2.0**-30)
    a = np.array([[1, 2.0**-53, x, -(2.0**-56) * (1 + 2.0**-29)]])
    b = np.array([[1, 1, x, 1]]).T
    expected = rounded_product(a, b)
    assert expected[0, 0] == 1 + 2.0**-52
    assert same(ozaki.accurate_dgemm(a, b, accuracy="exact"), expected)


def test_rounding_with_powers_of_any_size():
    """RN of high + low scaled by powers of two that are no float64 numbers."""
    from numba import njit

    rounded = compiled("ozaki.execution.in_floats_numba").rounded

    @njit
    def call(high, low, back, single):
        return rounded(high, low, 0.0, back, single)

    rng = np.random.default_rng(0)
    for back in (*range(-700, 1101, 37), 1050, 1075):
        for single in (False, True):
            high = float(rng.integers(2**52, 2**53)) * 2.0 ** rng.integers(-100, 70)
            low = float(rng.integers(-(2**52), 2**52)) * 2.0 ** (np.frexp(high)[1] - 107)
            result, certain = call(high, low, back, single)
            exact = (Fraction(high) + Fraction(low)) / Fraction(2) ** back
            if certain:
                fmt = FORMATS["fp32" if single else "fp64"]
                with np.errstate(over="ignore"):
                    found = float(np.float32(result)) if single else result
                assert found == nearest(exact, fmt)
            else:
                assert abs(exact) < 2.0 ** (-125 if single else -999)


@pytest.mark.parametrize("sign", [1, -1])
def test_results_that_are_not_certain_are_left_to_others(every_size, sign):
    """A tie but for what the low float loses."""
    a = np.array([[1.0, 2.0**-53, sign * 2.0**-64]])
    b = np.array([[1.0], [1.0], [2.0**-64]])
    assert by(["floats"], a, b, request_for(a)) == (None, ["floats"])
    assert same(ozaki.accurate_dgemm(a, b), rounded_product(a, b))
    assert ozaki.accurate_dgemm(a, b)[0, 0] == (1 + 2.0**-52 if sign > 0 else 1)


@pytest.mark.parametrize("exponent", [-1060, -1022, -901, -900, 0, 900, 901, 1000])
def test_numbers_of_extreme_size(every_size, exponent, without_numba):
    a, b = matrices("uniform", 40, 3, 2)
    x = np.ldexp(0.5 + abs(a), exponent)
    found, _ = by(["floats"], x, b, request_for(x))
    assert (found is not None) == (abs(exponent) <= 900)
    assert same(ozaki.accurate_dgemm(x, b), without_numba(ozaki.accurate_dgemm, x, b))


@pytest.mark.parametrize(
    ("row", "column", "is_taken"),
    [
        ([1, 2.0**-300, 0], [0, 2.0**-300, 1], True),
        ([2.0**390, 2.0**-400, 0], [0, 2.0**-400, 2.0**390], False),  # products underflow once scaled
        ([2.0**100, 2.0**-200, 0], [0, 2.0**-560, 2.0**390], False),
        ([2.0**390, 2.0**-560, 0], [0, 2.0**-200, 2.0**100], False),
        ([1, 2.0**-500, 0], [0, 2.0**-540, 1], False),  # the result is subnormal
    ],
)
def test_numbers_far_below_others_of_which_nothing_may_be_lost(every_size, row, column, is_taken):
    a, b = np.array([row, [1, 1, 1]]), np.array([column, [1, 1, 1]]).T  # ones, for data that are not graded
    found, _ = by(["floats"], a, b, request_for(a))
    assert (found is not None) == is_taken
    assert same(ozaki.accurate_dgemm(a, b), rounded_product(a, b))


def test_subnormal_results_are_not_rounded_twice(every_size):
    """A tie of subnormal numbers but for a bit that float64 has no room for."""
    top, t, u = 2.0**-230, 2.0**-530, 2.0**-565
    a = np.array([[top, t, u, 0], [1, 1, 1, 1]])
    b = np.array([[0, 1], [t * (1 + 2.0**-15), 1], [u, 1], [top, 1]])
    expected = rounded_product(a, b)
    assert expected[0, 0] == 2.0**-1060 * (1 + 2.0**-14)
    assert same(ozaki.accurate_dgemm(a, b), expected)
    a = np.array([[2.0**-70, 2.0**-80, 2.0**-100]], np.float32)
    b = np.array([[2.0**-70], [2.0**-70], [2.0**-100]], np.float32)
    expected = rounded_product(a, b, np.float32)
    assert expected[0, 0] == 2.0**-140 * (1 + 2.0**-9)
    assert same(ozaki.accurate_sgemm(a, b), expected)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_inf_and_nan(every_size, bad, without_numba):
    a, b = matrices("uniform", 70, 3, 2)
    a[65, 1] = bad
    with np.errstate(invalid="ignore"):
        assert same(ozaki.accurate_dgemm(a, b), without_numba(ozaki.accurate_dgemm, a, b))


def test_zeros_are_positive(every_size, taken):
    a, b = -np.zeros((70, 3)), np.ones((3, 2))
    a[5] = [1, -1, 0]
    c = ozaki.accurate_dgemm(a, b)
    assert taken == [True]
    assert not c.any()
    assert not np.signbit(c).any()
