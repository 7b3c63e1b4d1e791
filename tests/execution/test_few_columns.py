"""Products of long rows with few columns on a CPU: the bits of all other products."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import compiled, compiles
from ozaki.execution import thin
from ozaki.execution.in_floats import Floats
from ozaki.execution.small_products import LANES
from ozaki.execution.thin import FORM, WATCHED_LANES, start_of
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.scale import bits_of_level_factors
from ozaki.product.steps import both_norm_scales, norm_widths, row_limit
from tests.cells import cells
from tests.execution.test_short_rows import request_for
from tests.executors import by, noted, row_by_row
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import rounded_product, same

pytestmark = pytest.mark.skipif(not compiles(), reason="needs numba")

LANE = 2 * WATCHED_LANES
"""Numbers from one to the next that is watched in the same lane."""

SHAPES = [(70, 130, 1), (1, 129, 65), (1, 4500, 1), (3, 160, 40), (300, 17, 2), (4, 64, 4)]


@pytest.fixture
def taken(monkeypatch):
    """Whether each product was computed row by row, whatever its size."""
    row_by_row(monkeypatch)
    return noted(monkeypatch, Floats)


@cells(shape=SHAPES, kind=KINDS, dtype=FACES)
def test_the_bits_of_all_other_products(taken, without_numba, shape, kind, dtype):
    a, b = in_dtype(*matrices(kind, *shape), dtype)
    for options in ({}, {"accuracy": "normwise"}, {"accuracy": "exact"}):
        expected = without_numba(FACES[dtype], a, b, **options)
        assert same(FACES[dtype](a, b, **options), expected), options
        if kind in ("uniform", "positive", "integers", "wide2"):
            assert taken[-1], options


@pytest.mark.parametrize("dtype", FACES)
def test_layouts_and_blocks_do_not_show(taken, dtype):
    a, b = in_dtype(*matrices("uniform", 3000, 900, 2), dtype)
    expected = FACES[dtype](a, b)
    for x in (
        *(np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1].copy()[::-1]),
        np.asfortranarray(np.repeat(a, 2, axis=0))[::2],
    ):
        assert same(FACES[dtype](x, b), expected)
        assert same(FACES[dtype](b.T, x.T), np.ascontiguousarray(expected.T))
    assert same(FACES[dtype](a[:7], b), expected[:7])
    assert all(taken)


def test_cancellation_is_watched_where_the_bound_does_not_decide(taken):
    """Sums that are 0, or far below their terms."""
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**30), 2**30, (40, 100)).astype(np.float64)
    y = rng.integers(-(2**30), 2**30, (100, 1)).astype(np.float64)
    a, b = np.hstack([x, -x]), np.vstack([y, y])
    c = ozaki.accurate_dgemm(a, b)
    assert not c.any()
    assert not np.signbit(c).any()
    a[:20, 0] += 1
    a[20:, 103] += 2.0**-20
    assert same(ozaki.accurate_dgemm(a, b), np.repeat([y[0], y[3] * 2.0**-20], 20, axis=0))
    assert taken == [True, True]


def test_what_low_floats_lose_to_terms_that_cancel(taken):
    """2^60 + 2^7 + 2^-48 - 2^60 - 2^7 in one lane, of which the second float loses the least."""
    a, b = np.zeros((1, 5 * LANE)), np.zeros((5 * LANE, 1))
    a[0, 3::LANE] = [2.0**30, 1, 2.0**-24, -(2.0**30), -1]
    b[3::LANE, 0] = [2.0**30, 2.0**7, 2.0**-24, 2.0**30, 2.0**7]
    for accuracy in ("fp64", "exact"):
        assert ozaki.accurate_dgemm(a, b, accuracy=accuracy) == 2.0**-48
    assert taken == [False, False]


def test_float32(taken):
    """A tie of float32 numbers that the low float is above, and scales beyond float32."""
    a, b = np.zeros((1, 5 * LANE), np.float32), np.zeros((5 * LANE, 1), np.float32)
    a[0, 3::LANE], b[3::LANE, 0] = [2.0**30, 1, 2.0**-24, -(2.0**30), 2.0**-60], [2.0**30, 1, 1, 2.0**30, 1]
    assert ozaki.accurate_sgemm(a, b, accuracy="exact") == np.float32(1 + 2.0**-23)
    a, b = np.zeros((3, 20), np.float32), np.zeros((20, 1), np.float32)
    a[:, 1], a[0, 0], b[:2, 0] = 1, 1, [2.0**100, 2.0**-100 * (1 + 2.0**-23)]
    expected = rounded_product(a, b, np.float32)
    for accuracy in ("fp32", "exact"):
        assert same(ozaki.accurate_sgemm(a, b, accuracy=accuracy), expected)
    assert taken == [False, True, True]


@pytest.mark.parametrize(("row", "column"), [(390, -560), (-560, 100), (100, -560)])
def test_numbers_far_below_others_of_which_nothing_may_be_lost(taken, row, column):
    a, b = np.zeros((2, 40)), np.zeros((40, 2))
    a[0, :2], b[1:3, 0] = [2.0**390, 2.0**row], [2.0**column, 2.0**390]
    a[1, :3] = b[:3, 1] = 1
    assert same(ozaki.accurate_dgemm(a, b, accuracy="exact"), rounded_product(a, b))
    assert taken == [False]


def test_rows_of_zeros(taken):
    a, b = matrices("uniform", 40, 50, 1)
    a[5] = 0
    c = ozaki.accurate_dgemm(a, b)
    assert c[5] == 0
    assert np.count_nonzero(c) == 39
    assert taken == [True]


def test_a_tie_and_its_neighbours(taken):
    a = np.zeros((3, 70))
    a[:, [3, 40, 69]] = [[1, 2.0**-53, 2.0**-54], [1, 2.0**-53, 0], [1, 2.0**-53, -(2.0**-54)]]
    c = ozaki.accurate_dgemm(a, np.ones((70, 1)))
    assert c.ravel().tolist() == [1 + 2.0**-52, 1, 1]
    assert taken == [True]


@pytest.mark.parametrize("kind", ["uniform", "wide2", "wide6"])
def test_the_bound_knows_how_wide_integers_are(taken, monkeypatch, kind):
    a, b = matrices(kind, 40, 300, 1)
    pair, found = Pair(Factor(a, 0), Factor(b, 1), request_for(a)), []
    monkeypatch.setattr(thin, "start_of", lambda given: found.append(given) or start_of(given))
    ozaki.accurate_dgemm(a, b)
    bits = bits_of_level_factors(pair)
    assert (bits > 0) == (kind != "uniform")
    assert found[-1] == norm_widths(row_limit(pair), 300, bits)[1]
    assert start_of(found[-1]) >= 4 * 2.0 ** found[-1]
    rows, columns = both_norm_scales(pair, bits)
    largest = np.abs(np.ldexp(a, rows[:, None])) @ np.abs(np.ldexp(b, columns))
    assert np.log2(largest.max()) < found[-1] < np.log2(largest.max()) + 8


@pytest.mark.parametrize("exponent", [-1060, -920, -880, 880, 920, 1000])
def test_numbers_of_extreme_size(taken, exponent, without_numba):
    a, b = matrices("uniform", 40, 50, 1)
    x = np.ldexp(a, exponent)
    assert same(ozaki.accurate_dgemm(x, b), without_numba(ozaki.accurate_dgemm, x, b))
    assert taken[0] == (abs(exponent) < 900)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_inf_and_nan(taken, bad, without_numba):
    a, b = matrices("uniform", 70, 30, 1)
    a[65, 1] = bad
    with np.errstate(invalid="ignore"):
        assert same(ozaki.accurate_dgemm(a, b), without_numba(ozaki.accurate_dgemm, a, b))
    assert taken[0] is False


@pytest.fixture(scope="module")
def quick_sum():
    """Returns a function that returns a sum of products in two floats, and the bound of what they lose."""
    from numba import njit

    form = compiled(FORM)
    add_quickly, fold, bound_of_lost = form.add_quickly, form.fold, form.bound_of_lost

    @njit
    def add_up(x, y, start, lanes):
        lanes[:LANES] = start
        lanes[LANES:] = 0.0
        sums = lanes.ctypes.data
        add_quickly(x.ctypes.data, 1, y.ctypes.data, 1, len(x) // LANES, sums, sums)
        lanes[:LANES] -= start
        return fold(lanes), bound_of_lost(len(x) // LANES, LANES, start)

    def quick_sum(x, y, start):
        (high, low), bound = add_up(x, y, start, np.empty(2 * LANES))
        return Fraction(high) + Fraction(low), Fraction(bound)

    return quick_sum


@pytest.mark.parametrize("length", [4 * LANES, 16 * LANES, 600 * LANES])
@pytest.mark.parametrize("kind", ["equal", "random", "cancelling", "growing"])
def test_the_low_floats_lose_less_than_their_bound(quick_sum, length, kind):
    """As the numbers grow that each step leaves to the low floats, up to half a unit of the high ones."""
    rng, worst = np.random.default_rng(length), 0.0
    for _ in range(20):
        x, y = rng.integers(2**52, 2**53, (2, length)).astype(np.float64)
        if kind == "equal":
            x[:], y[:] = x[0], y[0]
        elif kind == "cancelling":
            x[1::2] *= -1
        elif kind == "growing":
            x = np.rint(x * 2.0 ** -rng.integers(0, 40, length))
        exact = sum(int(p) * int(q) for p, q in zip(x, y, strict=True))
        largest = sum(abs(int(p) * int(q)) for p, q in zip(x, y, strict=True))
        found, bound = quick_sum(x, y, start_of(float(np.log2(float(largest)))))
        worst = max(worst, float(abs(exact - found) / bound))
    assert 0 < worst < 0.5  # of twice what is proved


@pytest.mark.parametrize("places", [[0, 2, 4], [5, 5 + LANE, 5 + 2 * LANE]], ids=["lanes", "one lane"])
def test_what_both_sums_leave_undecided_is_left_to_others(taken, places):
    a, b = np.zeros((1, 200)), np.zeros((200, 1))
    a[0, places], b[places, 0] = [1.0, 2.0**-53, 2.0**-54], [1.0, 1.0, 2.0**-54]
    assert by(["floats"], a, b, request_for(a)) == (None, ["floats"])
    taken.clear()
    assert same(ozaki.accurate_dgemm(a, b), rounded_product(a, b))
    assert taken == [False]


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize(("rows", "lanes"), [(3, LANES), (20, 1)], ids=["one by one", "side by side"])
def test_rows_in_more_than_one_piece(taken, dtype, rows, lanes):
    """In each layout, and sums that cancel, which are watched."""
    piece = lanes * compiled(FORM).PIECE
    a, b = in_dtype(*matrices("uniform", rows, 2 * piece + 70, 2), dtype)
    a[1, piece + 5 :] = 0
    a[2, 1::2], b[1::2] = -a[2, ::2], b[::2]
    expected = FACES[dtype](a, b)
    assert not expected[2].any()
    for x in (np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
        assert same(FACES[dtype](x, b), expected)
    with ozaki.executor("steps"):
        assert same(FACES[dtype](a, b), expected)
    assert all(taken)


@pytest.mark.parametrize("row", [0, 20, 1000, 1499])
@pytest.mark.parametrize("kind", ["wide2", "wide6"])
def test_one_row_decides_for_all(taken, row, kind):
    """Wherever it lies: in the first rows, in later ones, or in another thread's."""
    a, b = matrices("uniform", 1500, 400, 1)
    a[row] = matrices(kind, 1, 400, 1)[0]
    with ozaki.executor("steps"):
        expected = ozaki.matmul(a, b)
    assert same(ozaki.matmul(a, b), expected)
    assert same(ozaki.matmul(b.T, a.T), expected.T)
    assert all(taken)


@pytest.mark.parametrize("kind", ["wide2", "wide6", "cancelling"])
def test_small_products_are_decided_in_one_call(monkeypatch, kind):
    row_by_row(monkeypatch)
    monkeypatch.setattr(thin, "LARGEST_TO_DECIDE", 1 << 15)
    monkeypatch.setattr(thin, "bits_of_level_factors", None)  # which takes longer
    monkeypatch.setattr(thin, "counted_bits", None)
    for shape in ((40, 50, 1), (1, 60, 60)):
        a, b = matrices(kind, *shape)
        with ozaki.executor("steps"):
            expected = ozaki.matmul(a, b)
        assert same(ozaki.matmul(a, b), expected)


@pytest.mark.parametrize("behind", [1e30, 45.0, np.nan])
@pytest.mark.parametrize("dtype", FACES)
def test_what_lies_behind_a_row_is_not_read(taken, dtype, behind):
    """Of a row alone, of one given a dimension, and of one repeated: all have no step to a next one."""
    k = 1001
    room = np.full(k + 63, behind).astype(dtype)
    room[:k], w = np.sin(np.arange(k)), np.cos(np.arange(k)).astype(dtype)
    v, columns = room[:k], np.stack([w, w[::-1]], axis=1)
    with ozaki.executor("steps"):
        expected = [ozaki.matmul(np.array(v), w), ozaki.matmul(np.array(v), columns)]
    assert same(ozaki.matmul(v, w), expected[0])
    assert same(ozaki.matmul(w, v), expected[0])
    assert same(ozaki.matmul(v[None, :], columns)[0], expected[1])
    assert same(ozaki.matmul(np.broadcast_to(v, (5, k)), columns), np.broadcast_to(expected[1], (5, 2)))
    assert all(taken)


def test_nothing_is_warned_of():
    """Of numbers that are too small for the dtype of the result, or not finite, in every layout."""
    small = np.full((4, 4), 1e-22, np.float32)
    wide = np.full((3, 900), np.inf, np.float32)
    signalling = np.full((4, 4), 0x7FA00000, np.uint32).view(np.float32)
    for _ in range(3):
        for a, b in (
            (small, small),
            (np.full((1, 70), 1e-22, np.float32), np.full((70, 1), 1e-22, np.float32)),
            (wide, np.ones((900, 2), np.float32)),
            (signalling, small),
        ):
            with np.errstate(all="raise"):
                ozaki.matmul(a, b)
                ozaki.matmul(np.stack([a] * 9), np.stack([b] * 9))
                ozaki.matmul(a.astype(np.complex64), b.astype(np.complex64)) if a is not signalling else None
