"""The second stage of the certificate, against its definition in rational numbers."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import ozaki
from multiword.engines import get_engine
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from ozaki.certificate import decision as certificate
from ozaki.certificate.counting import OCTAVES, gather
from ozaki.certificate.magnitudes import LARGEST, NONZERO, Magnitudes
from ozaki.certificate.pairwise import QUICK, THOROUGH, look
from ozaki.operand import Operand
from ozaki.residues.system import residue_system
from ozaki.scaling.scales import DISCARD, NORM_LIMITS, norm_limit
from tests.cases import KINDS, matrices
from tests.distributions import lognormal
from tests.exact import componentwise_error, real_form

PLENTY = 1 << 30


def fraction(x, shift=0):
    return abs(Fraction(float(x))) * Fraction(2) ** int(shift)


def operands(a, b):
    """Both sides, their norm scales, and where their windows are."""
    left, right = Operand(a, 0), Operand(b, 1)
    scales = left.norm_scales("fp64"), right.norm_scales("fp64")
    return left, right, scales, gather((left.profile, right.profile), FORMATS["fp64"])


def scaled_rows(operand, scales):
    """For every row, its parts as lists of |x|·2**scale."""
    return [
        [[fraction(x, s) for x in part[i].tolist()] for part in operand.parts]
        for i, s in enumerate(scales.tolist())
    ]


def by_definition(left, right, scales, counted):
    """The largest T / |A||B|, and that over its tolerance in units of u, of all pairs that are multiplied."""
    worst = [Fraction(0), 0.0]
    for row, column in product(scaled_rows(left, scales[0]), scaled_rows(right, scales[1])):
        for image in range(len(row)):
            pairs = [
                (x, y)
                for part, xs in enumerate(row)
                for x, y in zip(xs, column[(part + image) % len(row)], strict=True)
            ]
            # All numbers of a complex row are rounded, whichever the image.
            total = [sum(map(sum, parts)) for parts in (row, column)]
            terms = sum(x != 0 != y for x, y in pairs)
            magnitude = sum(x * y for x, y in pairs)
            if not all(total) or (counted and not terms):
                continue
            if not counted:
                terms = len(pairs)
            else:
                most = [max(map(max, parts)) for parts in (row, column)]
                total = [min(t, terms * m) for t, m in zip(total, most, strict=True)]
            error = (sum(total) / 2 + Fraction(terms, 4)) / magnitude if magnitude else math.inf
            tolerance = min(4 * math.sqrt(terms), terms / 2)
            worst = [max(worst[0], error), max(worst[1], float(error) / tolerance)]
    return worst


@pytest.mark.parametrize("word", ["int8", "fp64"])
@pytest.mark.parametrize("octaves", [0, 6, 900])
@pytest.mark.parametrize("parts", [1, 2])
def test_magnitudes_are_what_they_are_said_to_be(parts, octaves, word):
    rng = np.random.default_rng(0)
    numbers = [np.ldexp(rng.standard_normal((4, 9)), rng.integers(-octaves, octaves + 1, (4, 9)))]
    numbers = [numbers[0], numbers[0][::-1] * -3][:parts]
    numbers[0][0, :3] = 0
    windows, depths = np.array([0, 5, 40, DISCARD], np.int32), (0, 7, NONZERO)
    scheme = Magnitudes(depths, parts, get_engine("host" if word == "fp64" else "tensorcore"))
    with np.errstate(over="ignore"):
        found = scheme.split(numbers, windows, 0, 4)
    assert (scheme.word, found.shape) == (word, (3, parts, 4, 12))
    assert not found[:, :, 3].any()
    assert not found[..., 9:].any()
    for d, part, i, j in np.ndindex(3, parts, 3, 9):
        scaled = fraction(numbers[part][i, j], int(windows[i]) + depths[d])
        assert found[d, part, i, j] == min(LARGEST, math.floor(scaled))


@pytest.mark.parametrize("k", [1, 5, 300, 1000])
@pytest.mark.parametrize("octaves", [0, 4, 40])
def test_windows_are_where_enough_numbers_are(octaves, k):
    rng = np.random.default_rng(k)
    x = np.ldexp(rng.uniform(1, 2, (6, k)), rng.integers(-octaves, octaves + 1, (6, k)))
    x[4, ::2], x[5] = 0, 0
    _, _, (scale, _), reading = operands(x, x.T.copy())
    top = norm_limit(FORMATS["fp64"], k).bits // 2
    for numbers, s, w in zip(x.tolist(), scale.tolist(), reading.sides[0].window.tolist(), strict=True):
        if not any(numbers):
            assert w == s
            continue
        at_least = [sum(fraction(v, s) >= 2 ** (top - d) for v in numbers) for d in range(OCTAVES)]
        octave = s - w + LARGEST.bit_length() - 1
        if octaves < 10:  # far below a segment's largest, numbers are counted at every third octave only
            wanted = min(math.isqrt(k), (at_least[-1] + 1) // 2)
            assert top - octave == next(d for d in range(OCTAVES) if at_least[d] >= wanted)
        assert at_least[top - octave] > 0


@pytest.mark.parametrize("depths", [QUICK, THOROUGH], ids=["quick", "thorough"])
@pytest.mark.parametrize("kind", [*KINDS, "outliers", "special"])
def test_what_a_look_finds_is_true_of_every_pair(kind, depths):
    a, b = matrices("uniform" if kind in ("outliers", "special") else kind, 6, 50, 5)
    if kind == "outliers":
        a[np.arange(6), np.arange(6) * 7] *= 2.0**20
    if kind == "special":
        a[2, 3], b[:, 1], b[::2, 2], a[1::2, 4] = np.inf, 0, 0, np.nan
    left, right, scales, reading = operands(a, b)
    with np.errstate(all="ignore"):
        error, ratio = look(left, right, reading.sides, depths, get_engine("host"), PLENTY)()
    finite = [np.isfinite(x).all(axis=1) for x in (a, b.T)]
    left, right = Operand(a[finite[0]], 0), Operand(b[:, finite[1]], 1)
    usable = scales[0][finite[0]], scales[1][finite[1]]
    exact = by_definition(left, right, usable, depths[-1] == NONZERO)
    assert error >= exact[0]
    assert ratio >= exact[1] * (1 - 1e-12)
    if kind in ("uniform", "positive", "rows", "subnormal", "huge", "integers", "special"):
        assert error <= 1.5 * exact[0]


def test_a_look_at_complex_pairs():
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(s) + 1j * lognormal(2)(rng, s)) for s in ((5, 40), (40, 4)))
    left, right, scales, reading = operands(a, b)
    error, ratio = look(left, right, reading.sides, QUICK, get_engine("host"), PLENTY)()
    exact = by_definition(left, right, scales, False)
    assert exact[0] <= error <= 4 * exact[0]
    assert exact[1] * (1 - 1e-12) <= ratio <= 4 * exact[1]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("depths", [QUICK, THOROUGH], ids=["quick", "thorough"])
def test_engines_panels_and_blocks_see_the_same(depths, dtype, monkeypatch):
    a, b = (x.astype(dtype) for x in matrices("wide6", 70, 300, 65))
    if dtype == "complex128":
        a, b = a + 1j * a[::-1], b - 1j * b[:, ::-1]
    left, right, _, reading = operands(a, b)

    def seen(engine, workspace=PLENTY):
        return look(left, right, reading.sides, depths, get_engine(engine), workspace)()

    expected = seen("host")
    assert all(map(math.isfinite, expected))
    assert seen("host", 1 << 17) == expected
    assert seen("tensorcore") == expected
    monkeypatch.setattr("ozaki.certificate.magnitudes.INT8_DEPTH", 128)
    assert seen("tensorcore") == expected
    assert seen("tensorcore", 1 << 17) == expected


def test_sums_of_magnitudes_fit_int32():
    k = Magnitudes(QUICK, 1, get_engine("tensorcore")).depth
    assert k * LARGEST**2 < 2**31
    pair = Magnitudes(QUICK, 2, get_engine("tensorcore")).depth
    assert 2 * pair * LARGEST**2 < 2**31


@pytest.mark.parametrize("target", NORM_LIMITS)
def test_integers_grow_by_whole_moduli(target):
    for limit in NORM_LIMITS[target].values():
        steps = certificate._steps(limit)
        assert steps[0] == 0
        fewest = len(residue_system("int8", limit.log2 + 2.0**-20, 1).moduli)
        for more, bits in enumerate(steps):
            moduli = residue_system("int8", limit.log2 + 2 * bits + 2.0**-20, 1).moduli
            assert len(moduli) == fewest + more
            # Far enough from the next one for any machine's logarithms.
            room = (math.log2(math.prod(moduli)) - 1 - limit.log2 - 2 * bits) / 2
            assert 0.001 < room < 0.999 or bits == steps[-1]


def depths_of(a, b):
    """The depths of the looks that the certificate took, and its verdict."""
    left, right, _, reading = operands(a, b)
    taken = []

    def seen(depths):
        taken.append(depths)
        return look(left, right, reading.sides, depths, get_engine("host"), PLENTY)()

    with np.errstate(all="ignore"):
        return taken, certificate.verdict(reading.wait(), FORMATS["fp64"], seen)


def test_no_more_is_looked_at_than_needed():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 300, 300))
    assert depths_of(a, b)[0] == []
    half = [x * (rng.random(x.shape) < 0.5) for x in (a, b)]
    taken, told = depths_of(*half)
    assert taken == [QUICK]
    assert told.bits == 0
    taken, told = depths_of(*(lognormal(2)(rng, (300, 300)).astype(float) for _ in range(2)))
    assert taken == [QUICK]
    assert 3 <= told.bits <= 12
    few = [x * (rng.random(x.shape) < 0.02) for x in (a, b)]
    taken, told = depths_of(*few)
    assert taken == [QUICK, THOROUGH]
    assert told.bits <= certificate.WIDEST
    large = a.copy()
    large[:, 7] *= 2.0**30  # a column in other units
    taken, told = depths_of(large, b)
    assert taken == [QUICK]
    assert told.bits <= 24
    apart = np.array([[1.0, 2.0**-90], [3.0, 5.0]]), np.array([[0.0, 7.0], [1.0, 1.0]])
    taken, told = depths_of(*apart)
    assert taken == [QUICK, THOROUGH]
    assert told.bits > certificate.WIDEST


@pytest.mark.parametrize(
    "kind", ["half zeros", "few", "spread 2", "spread 4", "outliers", "blocks", "complex"]
)
@pytest.mark.parametrize("k", [3, 40, 300])
def test_the_second_stage_keeps_the_promise(k, kind):
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((6, k)), rng.standard_normal((k, 7))
    if kind in ("half zeros", "few"):
        a, b = (x * (rng.random(x.shape) < (0.5 if kind == "half zeros" else 0.1)) for x in (a, b))
    elif kind.startswith("spread"):
        a, b = (x * np.exp(int(kind[-1]) * rng.standard_normal(x.shape)) for x in (a, b))
    elif kind == "outliers":
        a[:, 0] *= 2.0**30
    elif kind == "blocks":
        a[:, : k // 2] *= 2.0**-40
        b[k // 2 :] *= 2.0**-40
    else:
        a, b = a + 1j * a[::-1] * 2.0**-30, b * np.exp(3j * rng.standard_normal(b.shape))
    result, bound = ozaki.matmul(a, b), ozaki.plan(a, b).bound
    length = k * (1 + np.iscomplexobj(a))
    assert bound <= min(12 * math.sqrt(length), length / 2) * 2.0**-53
    for c, (x, y) in zip(real_parts(result), real_form(a, b), strict=True):
        assert componentwise_error(c, x, y)[1] <= bound


@pytest.mark.parametrize("accuracy", ["fp64", 30])
def test_the_error_is_zero_where_nothing_is_rounded(accuracy):
    for a, b in (matrices("integers", 6, 50, 5), (np.eye(60), np.eye(60))):
        assert ozaki.plan(a, b, accuracy=accuracy).bound == 0
        assert (ozaki.accurate_dgemm(a, b, accuracy=accuracy) == a @ b).all()
