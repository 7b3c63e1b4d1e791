"""Profiles of rows, against their definition, number by number."""

import math

import numpy as np
import pytest

from ozaki._last_places import exact_scales, rows_with_zeros
from ozaki._parallel import SCRATCH_BYTES, contiguous_rows, scratch
from ozaki._profile import BITS, LEVELS, NONFINITE, ZERO, profile
from ozaki._scales import DISCARD


def by_definition(row):
    """The profile of one row, as Python numbers."""
    finite = all(math.isfinite(x) for x in row)
    largest = max(map(abs, row)) if finite else math.inf
    if not finite or largest == 0:
        return (NONFINITE if not finite else ZERO), 0, 0, [0] * len(LEVELS)
    e = math.frexp(largest)[1]
    t = [math.floor(math.ldexp(*shifted(x, BITS - e))) for x in row]
    # |x| >= 2**(e - 1 - q)
    counts = [sum(x != 0 and math.frexp(x)[1] >= e - q for x in row) for q in LEVELS]
    return e, sum(t), sum(x * x for x in t), counts


def shifted(x, bits):
    significand, exponent = math.frexp(abs(x))
    return significand, max(exponent + bits, -100)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 8), (5, 300), (2, 2041), (2, 5000)], ids=str)
@pytest.mark.parametrize("octaves", [0, 6, 40, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_profile(dtype, octaves, shape):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        x = np.ldexp(rng.standard_normal(shape), rng.integers(-octaves - 60, octaves - 59, shape)).astype(
            dtype
        )
    x[rng.random(shape) < 0.2] = 0
    if shape[0] > 2:
        x[0], x[1, -1] = 0, np.nan
    layouts = {
        "by rows": x,
        "by columns": np.asfortranarray(x),
        "every other": np.repeat(x, 2, axis=1)[:, ::2],
        "backwards": x[::-1, ::-1].copy()[::-1, ::-1],
    }
    expected = [by_definition(row.astype(np.float64).tolist()) for row in x]
    for name, y in layouts.items():
        with np.errstate(all="ignore"):
            p = profile([y])
        found = list(
            zip(p.exponent.tolist(), p.total.tolist(), p.square.tolist(), p.counts.tolist(), strict=True)
        )
        assert found == expected, name


def test_subnormal_and_huge_rows():
    x = np.array([[2.0**-1074, 2.0**-1070], [2.0**1023, 2.0**-1074]])
    p = profile([x])
    assert p.exponent.tolist() == [-1069, 1024]
    assert p.total.tolist() == [2**11 + 2**15, 2**15]


def test_last_places_and_zeros():
    x = np.array([[1.5, 4.0], [0.0, 0.0], [2.0**-1074, 1.0], [np.inf, 0.0], [3.0 * 2.0**60, -(2.0**61)]])
    for y in (x, np.asfortranarray(x)):
        assert exact_scales([y]).tolist() == [1, 0, 1074, DISCARD, -60]
        assert rows_with_zeros([y]).tolist() == [False, True, False, True, False]


def test_scratch_is_kept_unless_it_is_large():
    first = scratch("test", (3, 5))
    assert np.shares_memory(first, scratch("test", (2, 4), np.float32))
    assert scratch("test", (SCRATCH_BYTES,)).nbytes == 8 * SCRATCH_BYTES
    assert np.shares_memory(first, scratch("test", (3, 5)))
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for y in (x, np.asfortranarray(x), x[::-1, ::-1].copy()[::-1, ::-1]):
        assert np.array_equal(contiguous_rows(y, slice(1, 3), np.empty((2, 4))), x[1:])
