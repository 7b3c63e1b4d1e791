"""The certificate: the pairwise bound against its definition in rational numbers, and what is tolerated."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import ozaki
from multiword.engines import get_engine, get_word
from multiword.engines.words import INT8_K_BLOCK
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from ozaki.certificate import decision
from ozaki.certificate.decision import Ask
from ozaki.certificate.magnitudes import LARGEST, Magnitudes
from ozaki.definition.decision import OCTAVES, WIDENED_IN_ALL
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.product.scale import Data
from ozaki.product.steps import both_norm_scales, bounds, pairwise
from ozaki.scaling.scales import norm_limit
from ozaki.scaling.statistics import NONFINITE_ROW
from tests.matrices import KINDS, in_dtype, lognormal, matrices
from tests.oracle import componentwise_error, real_products

PLENTY = 1 << 30


def fraction(x, shift=0):
    return abs(Fraction(float(x))) * Fraction(2) ** int(shift)


def request(engine="host", workspace=PLENTY):
    return Request("fp64", "auto", None, get_engine(engine), workspace)


def factors(a, b):
    """Both factors, their norm scales, and their bounds."""
    pair = Pair(Factor(a, 0), Factor(b, 1), request())
    scales = both_norm_scales(pair)
    return pair.a, pair.b, scales, bounds(pair, scales)


def scaled_rows(operand, scales):
    """For every row, its parts as lists of |x|·2**scale."""
    return [
        [[fraction(x, s) for x in part[i].tolist()] for part in operand.parts]
        for i, s in enumerate(scales.tolist())
    ]


def by_definition(left, right, scales):
    """The largest T / |A||B|, and that over its tolerance in units of u, of all pairs that are multiplied."""
    worst = [Fraction(0), 0.0]
    for row, column in product(scaled_rows(left, scales[0]), scaled_rows(right, scales[1])):
        for component in range(len(row)):
            pairs = [
                (x, y)
                for part, xs in enumerate(row)
                for x, y in zip(xs, column[(part + component) % len(row)], strict=True)
            ]
            # All numbers of a complex row are rounded, whichever the component.
            total = [sum(map(sum, parts)) for parts in (row, column)]
            magnitude, terms = sum(x * y for x, y in pairs), len(pairs)
            if not all(total):
                continue
            error = (sum(total) / 2 + Fraction(terms, 4)) / magnitude if magnitude else math.inf
            tolerance = min(4 * math.sqrt(terms), terms / 2)
            worst = [max(worst[0], error), max(worst[1], float(error) / tolerance)]
    return worst


@pytest.mark.parametrize("word", ["int8", "fp64"])
@pytest.mark.parametrize("octaves", [0, 6, 900])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("side", [0, 1])
def test_magnitudes_are_what_they_are_said_to_be(side, parts, octaves, word):
    rng = np.random.default_rng(0)
    numbers = [np.ldexp(rng.standard_normal((4, 9)), rng.integers(-octaves, octaves + 1, (4, 9)))]
    numbers = [numbers[0], numbers[0][::-1] * -3][:parts]
    numbers[0][0, :3] = 0
    scales = np.array([0, 5, 40, NONFINITE_ROW], np.int32)
    scheme = Magnitudes(parts, word)
    with np.errstate(over="ignore"):
        words = scheme.split(numbers, scales, side, 4)
    found = words.reshape(4, -1, 12)
    assert (words.dtype, words.shape[:2]) == (get_word(word).dtype, (1, 1))
    assert found.shape[1] == parts + side * (parts - 1)  # B's first part comes again
    assert not found[3].any()
    assert not found[..., 9:].any()
    for place, i, j in np.ndindex(found.shape[1], 3, 9):
        scaled = fraction(numbers[place % parts][i, j], int(scales[i]))
        assert found[i, place, j] == min(LARGEST, math.floor(scaled))


@pytest.mark.parametrize("word", ["int8", "fp64"])
@pytest.mark.parametrize("parts", [1, 2])
def test_products_of_magnitudes_are_those_of_like_and_of_unlike_parts(parts, word):
    rng = np.random.default_rng(1)
    x, y = (list(rng.integers(-LARGEST, LARGEST + 1, (parts, r, 9)).astype(float)) for r in (4, 5))
    scheme, engine = Magnitudes(parts, word), get_engine("tensorcore")
    words = [scheme.split(z, np.zeros(len(z[0]), np.int32), side, 1) for side, z in enumerate((x, y))]
    found = scheme.multiply(*words, engine, None)
    (a, *imag_a), (b, *imag_b) = ([abs(part).astype(int) for part in z] for z in (x, y))
    expected = [a @ b.T]
    if parts == 2:
        expected = [a @ b.T + imag_a[0] @ imag_b[0].T, a @ imag_b[0].T + imag_a[0] @ b.T]
    assert np.array_equal(found[:, 0], expected)


@pytest.mark.parametrize("k", [1, 5, 300, 1000])
@pytest.mark.parametrize("octaves", [0, 4, 40])
def test_scales_are_where_enough_numbers_are(octaves, k):
    rng = np.random.default_rng(k)
    x = np.ldexp(rng.uniform(1, 2, (6, k)), rng.integers(-octaves, octaves + 1, (6, k)))
    x[4, ::2], x[5] = 0, 0
    _, _, (scale, _), pending = factors(x, x.T.copy())
    top = norm_limit(FORMATS["fp64"], k).bits // 2
    for numbers, s, w in zip(
        x.tolist(), scale.tolist(), pending.rows[0].truncation_scale.tolist(), strict=True
    ):
        if not any(numbers):
            assert w == s
            continue
        octaves_of = [math.frexp(v)[1] - 1 + s for v in numbers if v]  # 2**octave <= |v|·2**s
        at_least = [sum(octave >= top - d for octave in octaves_of) for d in range(OCTAVES)]
        octave = s - w + LARGEST.bit_length() - 1
        if octaves < 10:  # far below a row's largest, numbers are counted at every third octave only
            wanted = min(math.isqrt(k), (at_least[-1] + 1) // 2)
            assert top - octave == next(d for d in range(OCTAVES) if at_least[d] >= wanted)
        assert at_least[top - octave] > 0


@pytest.mark.parametrize("kind", [*KINDS, "outliers", "special"])
def test_the_pairwise_bound_is_true_of_every_pair(kind):
    a, b = matrices("uniform" if kind in ("outliers", "special") else kind, 6, 50, 5)
    if kind == "outliers":
        a[np.arange(6), np.arange(6) * 7] *= 2.0**20
    if kind == "special":
        a[2, 3], b[:, 1], b[::2, 2], a[1::2, 4] = np.inf, 0, 0, np.nan
    left, right, scales, pending = factors(a, b)
    with np.errstate(all="ignore"):
        error, ratio = pairwise(Pair(left, right, request()), pending)()
    finite = [np.isfinite(x).all(axis=1) for x in (a, b.T)]
    left, right = Factor(a[finite[0]], 0), Factor(b[:, finite[1]], 1)
    usable = scales[0][finite[0]], scales[1][finite[1]]
    exact = by_definition(left, right, usable)
    assert error >= exact[0]
    assert ratio >= exact[1] * (1 - 1e-12)
    if kind in ("uniform", "positive", "rows", "subnormal", "huge", "integers", "special"):
        assert error <= 1.5 * exact[0]


@pytest.mark.parametrize("k", [1, 7, 100])
def test_the_pairwise_bound_where_magnitudes_are_exact(k):
    """Numbers of one size, a power of two: all that is added to T / |A||B| covers the rounding of T."""
    left, right, scales, pending = factors(np.full((3, k), 2.0**-7), np.full((k, 4), -(2.0**5)))
    error, _ = pairwise(Pair(left, right, request()), pending)()
    totals = [fraction(x.total[0]) for x in pending.rows]
    numbers = [fraction(x, s[0]) for x, s in zip((2.0**-7, 2.0**5), scales, strict=True)]
    exact = (sum(totals) / 2 + Fraction(k, 4)) / (k * numbers[0] * numbers[1])
    assert exact < error <= exact * (1 + Fraction(1, 1 << 48))


def test_the_pairwise_bound_of_complex_matrices():
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(s) + 1j * lognormal(2)(rng, s)) for s in ((5, 40), (40, 4)))
    left, right, scales, pending = factors(a, b)
    error, ratio = pairwise(Pair(left, right, request()), pending)()
    exact = by_definition(left, right, scales)
    assert exact[0] <= error <= 4 * exact[0]
    assert exact[1] * (1 - 1e-12) <= ratio <= 4 * exact[1]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(70, 300, 65), (3, INT8_K_BLOCK + 300, 2)], ids=str)
def test_engines_panels_and_blocks_see_the_same(shape, dtype):
    a, b = in_dtype(*matrices("wide6", *shape), dtype)
    left, right, _, pending = factors(a, b)

    def seen(engine, workspace=PLENTY):
        with np.errstate(over="ignore"):
            return pairwise(Pair(left, right, request(engine, workspace)), pending)()

    expected = seen("host")
    assert all(map(math.isfinite, expected))
    assert seen("host", 1 << 17) == expected
    assert seen("tensorcore") == expected
    assert seen("tensorcore", 1 << 17) == expected


def test_sums_of_magnitudes_fit_int32():
    k = Magnitudes(1, "int8").k_block
    assert k * LARGEST**2 < 2**31
    pair = Magnitudes(2, "int8").k_block
    assert 2 * pair * LARGEST**2 < 2**31


def certified(a, b):
    """The certificate of a product; each question is asked once at most, and none without need."""
    data, questions = (
        Data(Pair(Factor(a, 0, equilibrated=True), Factor(b, 1, equilibrated=True), request())),
        [],
    )

    def answer(question):
        questions.append(question)
        return data.answer(question)

    with np.errstate(all="ignore"):
        certificate = decision.answered(decision.decide(request().limits), answer)
    wide = [Ask.EQUILIBRATE, Ask.PAIRS] if certificate.pairwise else []
    assert questions == [Ask.COUNTS, *wide]
    return certificate


def test_no_more_is_compared_than_needed():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 300, 300))
    assert not certified(a, b).pairwise
    half = certified(*(x * (rng.random(x.shape) < 0.5) for x in (a, b)))
    assert half.pairwise
    assert half.bits == 0
    spread = certified(*(lognormal(2)(rng, (300, 300)).astype(float) for _ in range(2)))
    assert spread.pairwise
    assert 3 <= spread.bits <= 12
    large = a.copy()
    large[:, 7] *= 2.0**30  # a column in other units
    assert certified(large, b).bits <= 24


def test_pairs_with_hardly_a_term_in_common_take_integers_that_lose_nothing():
    rng = np.random.default_rng(0)
    few = [x * (rng.random(x.shape) < 0.02) for x in rng.standard_normal((2, 300, 300))]
    apart = np.array([[1.0, 2.0**-90], [3.0, 5.0]]), np.array([[0.0, 7.0], [1.0, 1.0]])
    for a, b in (few, apart):
        assert certified(a, b).bits > WIDENED_IN_ALL
        assert ozaki.plan(a, b).bound == 0
        assert (ozaki.accurate_dgemm(a, b) == ozaki.accurate_dgemm(a, b, accuracy="exact")).all()


@pytest.mark.parametrize("k", [1000, 2000, 4000])
def test_what_is_tolerated_where_roots_of_k_rule(k):
    """12·sqrt(k)·u of the counting bound, 4·sqrt(k)·u of the pairwise one: between half and all of it."""
    rng, worst = np.random.default_rng(k), {False: 0.0, True: 0.0}
    for spread in np.arange(0.0, 3.0, 0.1):
        a, b = (rng.standard_normal(s) * np.exp2(spread * rng.standard_normal(s)) for s in ((4, k), (k, 5)))
        for x, y in ((a, b), (a * (rng.random(a.shape) < 0.5), b)):
            certificate = certified(x, y)
            found = certificate.bound / (math.sqrt(k) * 2.0**-53)
            worst[certificate.pairwise] = max(worst[certificate.pairwise], found)
            if not spread * 10 % 5:
                assert componentwise_error(ozaki.accurate_dgemm(x, y), x, y)[1] <= certificate.bound
    assert 6 < worst[False] <= 12
    assert 2 < worst[True] <= 4


@pytest.mark.parametrize(
    "kind", ["half zeros", "few", "spread 2", "spread 4", "outliers", "blocks", "complex"]
)
@pytest.mark.parametrize("k", [3, 40, 300])
def test_the_pairwise_bound_keeps_the_promise(k, kind):
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
    for c, (x, y) in zip(real_parts(result), real_products(a, b), strict=True):
        assert componentwise_error(c, x, y)[1] <= bound


@pytest.mark.parametrize("accuracy", ["fp64", 30])
def test_the_error_is_zero_where_nothing_is_rounded(accuracy):
    for a, b in (matrices("integers", 6, 50, 5), (np.eye(60), np.eye(60))):
        assert ozaki.plan(a, b, accuracy=accuracy).bound == 0
        assert (ozaki.accurate_dgemm(a, b, accuracy=accuracy) == a @ b).all()
