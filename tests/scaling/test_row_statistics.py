"""Row statistics bound rows, whatever the order and the cut; `tests.definition` compares their bits."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from multiword.runtime.parallel import contiguous_rows
from multiword.runtime.tiles import LARGEST, strided_parts
from ozaki.certificate.counting import compute_bounds
from ozaki.definition.scales import NORM_LIMITS
from ozaki.definition.statistics import BITS
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import (
    NONFINITE_ROW,
    largest_exponents,
    row_statistics,
    row_sums,
)


def test_the_bounds_of_a_row_are_bounds():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 3000))
    s = row_statistics([x])
    for i, row in enumerate(x.tolist()):
        unit = Fraction(2) ** (int(s.exponent[i]) - BITS)
        for power, bound in ((1, s.total[i]), (2, s.square[i])):
            exact = sum(Fraction(abs(v)) ** power for v in row) / unit**power
            assert exact <= int(bound) <= exact * Fraction(101, 100)


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


def test_scales_next_to_their_limit_do_not_depend_on_the_order():
    """Rows whose squared norm is just below the limit, in another order."""
    rng = np.random.default_rng(0)
    limit = norm_limit(FORMATS["fp64"], 300)
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
