"""Sums of fields along an axis of Dask arrays, in their short form: the bits of the whole, for any data."""

import pickle

import numpy as np
import pytest

import ozaki
from tests.cells import cells
from tests.dask.test_reductions import ONE_ARRAY, check

da = pytest.importorskip("dask.array")
pytest.importorskip("numba")

from ozaki.sums.partial import PartialSums  # noqa: E402
from ozaki.sums.table import elements, products, squares  # noqa: E402
from ozaki.tuning import EXTRACTED_TERMS  # noqa: E402

pytestmark = pytest.mark.usefixtures("dask_in_this_thread")

SHAPE = 40, 13, 21
CHUNKS = [(40, 13, 21), (7, 13, 21), ((20, 0, 20), 13, (20, 1)), (1, 13, 21)]


def fields():
    """Fields of several kinds, and whether their sums have a short form in each block of seven."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(SHAPE)
    zeros = x * (rng.random(SHAPE[1:]) < 0.5)
    zeros[:, 0, :5] = -0.0
    late = x.copy()
    late[30:, 3, 4] = np.inf, np.nan, *[-np.inf] * 8
    return {
        "normal": (x, True),
        "temperatures": (280 + 10 * x, True),
        "halves of the range": (np.ldexp(x, 500), True),
        "lognormal": (np.exp(4 * x), True),
        "zeros": (zeros, True),
        "nothing but zeros": (np.where(x > 0, 0.0, -0.0), True),
        "rising": (np.ldexp(x, 3 * np.arange(40)[:, None, None]), True),
        "cancelling": (np.concatenate([x[:20] * 2.0**80, -x[:20] * 2.0**80]) + x, True),
        "infinite at last": (late, False),
        "subnormal": (np.ldexp(x, -1060), True),
        "near overflow": (np.ldexp(np.sign(x), 1023), False),
        "exponents of the whole range": (np.ldexp(x, rng.integers(-1000, 1000, SHAPE)), False),
    }


@cells(kind=fields())
def test_the_bits_of_the_whole(kind):
    x, _ = fields()[kind]
    for i, name in enumerate(ONE_ARRAY):
        function = getattr(ozaki, name)
        lazy = da.from_array(x, chunks=CHUNKS[(i + len(kind)) % 4])
        options = {"split_every": 3} if i // 4 % 2 else {}
        check(function(lazy, axis=0, **options), function(x, axis=0))
    y = x[::-1] / 4
    for chunks in CHUNKS[1:3]:
        lazy = ozaki.dot(da.from_array(x, chunks=chunks), da.from_array(y, chunks=chunks), axis=0)
        check(lazy, ozaki.dot(x, y, axis=0))


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8", "c16", "i4", "i8", "u8"])
def test_other_dtypes_and_axes(dtype):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(SHAPE) * 1000
    x = (x + 1j * rng.standard_normal(SHAPE) if dtype[0] == "c" else abs(x)).astype(dtype)
    if dtype[1] == "8" and dtype[0] in "iu":
        x = x * np.array(10**15, dtype)
    for axis in (0, 1, (0, 2), -1):
        for name in ("sum", "mean", "norm", "std", "nanmean"):
            function = getattr(ozaki, name)
            check(function(da.from_array(x, chunks=(15, 13, 21)), axis=axis), function(x, axis=axis))
        lazy = ozaki.dot(da.from_array(x, chunks=(15, 13, 21)), x[::-1], axis=0)
        check(lazy, ozaki.dot(x, x[::-1], axis=0))


@pytest.mark.parametrize("kind", fields())
def test_short_forms_hold_what_accumulators_do(kind):
    x, has_one = fields()[kind]
    shape = SHAPE[1:]
    parts = [x[:7], x[7:21], x[21:]]
    short = [PartialSums.of(elements(part, None), x.dtype, shape) for part in parts]
    if not has_one:
        assert not all(one.windows for one in short)
    totals = [ozaki.ExactSum(x.dtype, shape).add(part) for part in parts]
    for one, total in zip(short, totals, strict=True):
        assert one.exact() == total
        assert one.exact().to_bytes() == total.to_bytes()
        assert pickle.loads(pickle.dumps(one)).exact() == total
        assert one.register or one.__sizeof__() <= 64 * x[0].size
    together = PartialSums.merged(short)
    assert together.exact() == totals[0].merge(totals[1]).merge(totals[2])
    assert together.register or together.__sizeof__() <= 64 * x[0].size
    assert [one.exact() for one in short[1:]] == totals[1:]


@pytest.mark.parametrize(("dtype", "exponent"), [("f4", -126), ("f4", -140), ("f2", -14), ("f2", -22)])
def test_units_below_the_smallest_number(dtype, exponent):
    x = np.ldexp(fields()["normal"][0], exponent).astype(dtype)
    for terms in (elements, squares):
        total = ozaki.ExactSum(x.dtype, SHAPE[1:])
        total.merge_terms(terms(x, None))
        assert PartialSums.of(terms(x, None), x.dtype, SHAPE[1:]).exact() == total


def test_states_of_ordinary_fields_are_short():
    x, y = fields()["temperatures"][0], fields()["normal"][0]
    for dtype in ("f4", "f8"):
        a, b = x.astype(dtype), y.astype(dtype)
        for terms, pair in (
            (elements, (a, None)),
            (elements, (b, None)),
            (squares, (a, None)),
            (products, (a, b)),
        ):
            sums = PartialSums.of(terms(*pair), a.dtype, SHAPE[1:])
            assert sums.windows
            assert sums.__sizeof__() <= 64 * x[0].size


def test_long_columns_and_products_go_in_blocks():
    x = np.random.default_rng(2).standard_normal((40_000, 300)).astype("f4")
    assert x.size > 4 * EXTRACTED_TERMS
    for matrix in (x, np.asfortranarray(x)):
        expected = ozaki.ExactSum("f4", 300).add_products(matrix, matrix)
        assert PartialSums.of(squares(matrix, None), x.dtype, (300,)).exact() == expected


def test_without_numba_there_is_none(without_numba):
    x = fields()["normal"][0]
    assert not without_numba(PartialSums.of, elements(x, None), x.dtype, SHAPE[1:]).windows
    lazy = ozaki.sum(da.from_array(x, chunks=CHUNKS[1]), axis=0)
    assert without_numba(lazy.compute).tobytes() == ozaki.sum(x, axis=0).tobytes()
