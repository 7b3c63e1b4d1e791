"""Profiles of rows, against their definition, number by number."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from multiword.runtime.parallel import SCRATCH_BYTES, contiguous_rows, scratch
from ozaki.certificate.counting import gather
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.profile import profile
from ozaki.scaling.scales import DISCARD, norm_limit
from ozaki.scaling.segments import BITS, COUNT_BITS, LEVELS, NONFINITE, SEGMENT, ZERO


def segment_by_definition(numbers):
    """Exponent, total, square and counts of one segment, as Python numbers."""
    finite = all(math.isfinite(x) for x in numbers)
    largest = max(map(abs, numbers)) if finite else math.inf
    if not finite or largest == 0:
        return (NONFINITE if not finite else ZERO), 0, 0, [0] * len(LEVELS)
    e = math.frexp(largest)[1]
    t = [math.floor(Fraction(abs(x)) * Fraction(2) ** (BITS - e)) for x in numbers]
    # |x| >= 2**(e - 1 - q)
    counts = [sum(x != 0 and math.frexp(x)[1] >= e - q for x in numbers) for q in LEVELS]
    return e, sum(x + 1 for x in t), sum((x + 1) ** 2 for x in t), counts


def by_definition(parts, row):
    """The segments of a row, and what they make of it: exponent, total and square."""
    width = SEGMENT // len(parts)
    numbers = [x[row].astype(np.float64).tolist() for x in parts]
    starts = range(0, len(numbers[0]), width)
    segments = [segment_by_definition([v for x in numbers for v in x[i : i + width]]) for i in starts]
    e = max(s[0] for s in segments)
    if e == NONFINITE:
        return segments, (e, 0, 0)
    total = sum(math.ceil(Fraction(s[1], 2 ** (e - s[0]))) for s in segments)
    square = sum(math.ceil(Fraction(s[2], 4 ** (e - s[0]))) for s in segments)
    return segments, (e, total, square)


def unpacked(words):
    """The counts by level that words hold, (COUNT_WORDS, r) to (r, len(LEVELS))."""
    return np.concatenate([words >> COUNT_BITS * i & (2**COUNT_BITS - 1) for i in range(3)]).T


def found(profile, row):
    """What `by_definition` says, of a profile."""
    s = profile.segments
    segments = [
        (*(int(x[i, row]) for x in (s.exponent, s.total, s.square)), unpacked(s.counts[i])[row].tolist())
        for i in range(len(s.exponent))
    ]
    return segments, tuple(
        int(x[row]) for x in (profile.rows.exponent, profile.rows.total, profile.rows.square)
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 8), (5, 300), (2, 2041), (2, 5000)], ids=str)
@pytest.mark.parametrize("octaves", [0, 6, 40, 1000])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_profile(dtype, octaves, shape):
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
    x[:, 256:512], y[:, 256:512] = 0, 0  # a segment without a number
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
    expected = [by_definition(real_parts(x), i) for i in range(len(x))]
    for name, laid_out in layouts.items():
        with np.errstate(all="ignore"):
            p = profile(real_parts(laid_out))
        assert [found(p, i) for i in range(len(x))] == expected, name


def test_the_bounds_of_a_row_are_bounds():
    rng = np.random.default_rng(1)
    x = np.ldexp(rng.standard_normal((4, 3000)), rng.integers(-40, 40, (4, 3000)))
    p = profile([x]).rows
    for i, row in enumerate(x.tolist()):
        unit = Fraction(2) ** (int(p.exponent[i]) - BITS)
        for power, bound in ((1, p.total[i]), (2, p.square[i])):
            exact = sum(Fraction(abs(v)) ** power for v in row) / unit**power
            assert exact <= int(bound) <= exact * Fraction(101, 100)


def test_subnormal_and_huge_rows():
    x = np.array([[2.0**-1074, 2.0**-1070], [2.0**1023, 2.0**-1074]])
    p = profile([x]).rows
    assert p.exponent.tolist() == [-1069, 1024]
    assert p.total.tolist() == [2**11 + 2**15 + 2, 2**15 + 2]


@pytest.mark.parametrize("octaves", [0, 3, 30])
def test_evidence_is_true_of_every_pair(octaves):
    rng = np.random.default_rng(2)
    shape, target = (5, 700), FORMATS["fp64"]
    a, b = (
        np.ldexp(rng.standard_normal(shape), rng.integers(-octaves, octaves + 1, shape)) for _ in range(2)
    )
    a[3] = 0
    profiles = profile([a]), profile([b])
    scales = tuple(p.rows.norm_scales["fp64"] for p in profiles)
    evidence = gather(profiles, target).wait()
    assert gather(profiles, target, scales).wait() == evidence
    top = norm_limit(target, shape[1]).bits // 2
    lower = sum(map(Fraction, evidence.sums)) * 4 ** (top - 1)
    scaled = [
        [
            [Fraction(abs(v)) * Fraction(2) ** int(s) for v in row]
            for row, s in zip(x.tolist(), scale, strict=True)
        ]
        for x, scale in zip((a, b), scales, strict=True)
    ]
    del scaled[0][3]
    for rows, total, log2_square in zip(scaled, evidence.totals, evidence.log2_squares, strict=True):
        for row in rows:
            assert sum(row) <= Fraction(total)
            assert sum(v * v for v in row) <= Fraction(2.0 ** (log2_square + 2.0**-40))
    least = min(sum(x * y for x, y in zip(*pair, strict=True)) for pair in product(*scaled))
    assert 0 < lower <= least
    assert octaves or lower > least / 20


def test_exact_scales():
    x = np.array([[1.5, 4.0], [0.0, 0.0], [2.0**-1074, 1.0], [np.inf, 0.0], [3.0 * 2.0**60, -(2.0**61)]])
    for y in (x, np.asfortranarray(x)):
        assert exact_scales([y]).tolist() == [1, 0, 1074, DISCARD, -60]


def test_scratch_is_kept_unless_it_is_large():
    first = scratch("test", (3, 5))
    assert np.shares_memory(first, scratch("test", (2, 4), np.float32))
    assert scratch("test", (SCRATCH_BYTES,)).nbytes == 8 * SCRATCH_BYTES
    assert np.shares_memory(first, scratch("test", (3, 5)))
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for y in (x, np.asfortranarray(x), x[::-1, ::-1].copy()[::-1, ::-1]):
        assert np.array_equal(contiguous_rows(y, slice(1, 3), np.empty((2, 4))), x[1:])
