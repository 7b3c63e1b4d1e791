"""Row statistics, against their definition, number by number, and whatever the order and the cut."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from multiword.runtime.parallel import contiguous_rows
from multiword.runtime.tiles import LARGEST, strided_parts
from ozaki.certificate.counting import compute_bounds
from ozaki.definition.scales import NORM_LIMITS
from ozaki.definition.statistics import BITS, LEVELS
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import (
    NONFINITE,
    NONFINITE_ROW,
    ZERO,
    largest_exponents,
    row_statistics,
    row_sums,
)


def by_definition(numbers):
    """Exponent, total, square and counts of one row, as Python numbers."""
    finite = all(math.isfinite(x) for x in numbers)
    largest = max(map(abs, numbers)) if finite else math.inf
    if not finite or largest == 0:
        return (NONFINITE if not finite else ZERO), 0, 0, [0] * len(LEVELS)
    e = math.frexp(largest)[1]
    t = [math.floor(Fraction(abs(x)) * Fraction(2) ** (BITS - e)) for x in numbers]
    # |x| >= 2**(e - 1 - q)
    counts = [sum(x != 0 and math.frexp(x)[1] >= e - q for x in numbers) for q in LEVELS]
    return e, sum(x + 1 for x in t), sum((x + 1) ** 2 for x in t), counts


def known(statistics):
    """What `by_definition` says, of every row."""
    columns = statistics.exponent, statistics.total, statistics.square, statistics.counts.T
    return list(zip(*(x.tolist() for x in columns), strict=True))


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 8), (5, 300), (2, 2041), (2, 5000)], ids=str)
@pytest.mark.parametrize("octaves", [0, 6, 40, 1000])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_statistics(dtype, octaves, shape):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        real = np.float32 if dtype == "float32" else np.float64
        x, y = (
            np.ldexp(rng.standard_normal(shape), rng.integers(-octaves - 60, octaves - 59, shape)).astype(
                real
            )
            for _ in range(2)
        )
    x[rng.random(shape) < 0.2] = 0
    if shape[0] > 2:
        x[0], y[0], x[1, -1] = 0, 0, np.nan
    if dtype == "complex128":
        x = x + 1j * y
    layouts = {
        "by rows": x,
        "by columns": np.asfortranarray(x),
        "every other": np.repeat(x, 2, axis=1)[:, ::2],
        "backwards": x[::-1, ::-1].copy()[::-1, ::-1],
    }
    expected = [by_definition(np.concatenate(row).tolist()) for row in zip(*real_parts(x), strict=True)]
    for name, laid_out in layouts.items():
        with np.errstate(all="ignore"):
            assert known(row_statistics(real_parts(laid_out))) == expected, name


def test_rows_longer_than_a_block():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 300_001)) * 2.0 ** rng.integers(-30, 30, (2, 300_001))
    expected = [by_definition(row) for row in x.tolist()]
    for y in (x, np.asfortranarray(x)):
        assert known(row_statistics([y])) == expected


def test_the_bounds_of_a_row_are_bounds():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 3000))
    s = row_statistics([x])
    for i, row in enumerate(x.tolist()):
        unit = Fraction(2) ** (int(s.exponent[i]) - BITS)
        for power, bound in ((1, s.total[i]), (2, s.square[i])):
            exact = sum(Fraction(abs(v)) ** power for v in row) / unit**power
            assert exact <= int(bound) <= exact * Fraction(101, 100)


def test_subnormal_and_huge_rows():
    x = np.array([[2.0**-1074, 2.0**-1070], [2.0**1023, 2.0**-1074]])
    s = row_statistics([x])
    assert s.exponent.tolist() == [-1069, 1024]
    assert s.total.tolist() == [2**11 + 2**15 + 2, 2**15 + 2]


numbers = st.floats(allow_nan=False, width=64) | st.sampled_from([0.0, -0.0, 5e-324, np.nan, np.inf, 1.0])


@given(st.lists(numbers, min_size=1, max_size=40), st.randoms(), st.lists(st.integers(0, 40), max_size=4))
def test_statistics_do_not_depend_on_order_or_cut(row, random, cuts):
    whole = row_statistics([np.array([row])])
    shuffled = random.sample(row, len(row))
    pieces = [x for x in np.split(np.array([shuffled]), sorted(min(c, len(row)) for c in cuts), 1) if x.size]
    exponent = np.max([largest_exponents([x]) for x in pieces], axis=0)
    merged = [row_sums([x], exponent) for x in pieces]
    assert exponent == whole.exponent
    for name in ("total", "square", "counts"):
        assert np.array_equal(sum(getattr(s, name) for s in merged), getattr(whole, name)), name
    for limits in NORM_LIMITS.values():
        scale = norm_scales(whole, limits[math.inf])
        assert norm_scales(row_statistics([np.array([shuffled])]), limits[math.inf]) == scale


@pytest.mark.slow
def test_scales_next_to_their_limit_do_not_depend_on_the_order():
    """A quarter of a million rows whose squared norm is just below the limit, in another order."""
    rng = np.random.default_rng(0)
    limit = norm_limit(FORMATS["fp64"], 300)
    for _ in range(16):
        x = rng.standard_normal((1 << 14, 300)) * 2.0 ** rng.integers(-3, 4, (1 << 14, 300))
        x *= np.sqrt(limit.significand / 32 * (1 - 3e-5) / (x**2).sum(axis=1, keepdims=True)) * 2.0**54.5
        scales = norm_scales(row_statistics([x]), limit)
        shuffled = rng.permuted(x, axis=1)
        assert np.array_equal(norm_scales(row_statistics([shuffled]), limit), scales)


def test_widenings_use_up_whole_moduli():
    for limits in NORM_LIMITS.values():
        for limit in limits.values():

            def moduli(bits, limit=limit):
                return len(residue_system("int8", limit.log2 + 2 * bits + 2.0**-20, 1).moduli)

            assert all(moduli(bits) < moduli(bits + 1) for bits in (0, *limit.widenings))
            assert [moduli(bits) - moduli(0) for bits in limit.widenings] == [
                i + 1 for i in range(len(limit.widenings))
            ]


@pytest.mark.parametrize("octaves", [0, 3, 30])
def test_bounds_are_true_of_every_pair(octaves):
    rng = np.random.default_rng(2)
    shape, target = (5, 700), FORMATS["fp64"]
    a, b = (
        np.ldexp(rng.standard_normal(shape), rng.integers(-octaves, octaves + 1, shape)) for _ in range(2)
    )
    a[3] = 0
    statistics = row_statistics([a]), row_statistics([b])
    limit = norm_limit(target, shape[1])
    scales = norm_scales(statistics[0], limit), norm_scales(statistics[1], limit)
    bounds = compute_bounds(statistics, scales, target).wait()
    top = norm_limit(target, shape[1]).bits // 2
    lower = sum(map(Fraction, bounds.sums)) * 4 ** (top - 1)
    scaled = [
        [
            [Fraction(abs(v)) * Fraction(2) ** int(s) for v in row]
            for row, s in zip(x.tolist(), scale, strict=True)
        ]
        for x, scale in zip((a, b), scales, strict=True)
    ]
    del scaled[0][3]
    for rows, total, log2_square in zip(scaled, bounds.totals, bounds.log2_squares, strict=True):
        for row in rows:
            assert sum(row) <= Fraction(total)
            assert sum(v * v for v in row) <= Fraction(2.0 ** (log2_square + 2.0**-40))
    least = min(sum(x * y for x, y in zip(*pair, strict=True)) for pair in product(*scaled))
    assert 0 < lower <= least
    assert octaves or lower > least / 20


def test_exact_scales():
    x = np.array([[1.5, 4.0], [0.0, 0.0], [2.0**-1074, 1.0], [np.inf, 0.0], [3.0 * 2.0**60, -(2.0**61)]])
    for y in (x, np.asfortranarray(x)):
        assert exact_scales([y]).tolist() == [1, 0, 1074, NONFINITE_ROW, -60]


def test_contiguous_rows():
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for y in (x, np.asfortranarray(x), x[::-1, ::-1].copy()[::-1, ::-1]):
        assert np.array_equal(contiguous_rows(y, slice(1, 3), np.empty((2, 4))), x[1:])


@pytest.mark.parametrize("shape", [(1, LARGEST + 1), (LARGEST + 1, 1), (4, 1 << 29, 2)], ids=str)
def test_factors_that_kernels_cannot_count_are_refused(shape):
    """In 32 bits 2**31 numbers of a row are none, and their product was 0."""
    with pytest.raises(ValueError, match="a GPU takes factors of up to"):
        strided_parts([np.broadcast_to(np.float32(1), shape)])
