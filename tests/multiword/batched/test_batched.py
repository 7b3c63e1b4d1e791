"""Batches of small half and half-complex matrices against exact arithmetic."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from multiword.batched import (
    HalfComplex,
    attainable_flops,
    batched_matmul,
    bytes_moved,
    from_complex,
    from_planes,
    least_seconds,
    operational_intensity,
    to_complex,
)
from multiword.formats import FORMATS
from tests.fuzz.fixed import check_family
from tests.oracle import nearest

BF16 = np.dtype(ml_dtypes.bfloat16)
FP16 = np.dtype(np.float16)
ROUNDOFF = {FP16: 2.0**-11, BF16: 2.0**-8}
TINY = {FP16: 2.0**-25, BF16: 2.0**-134}
SUMS = {"fp32": 2.0**-23, "fp16": 2.0**-10}
UNDERFLOW = {"fp32": 2.0**-149, "fp16": 2.0**-24}
ODD_SHAPES = [
    (7, 68, 61),
    (1, 1, 1),
    (1, 64, 1),
    (64, 1, 64),
    (3, 5, 2),
    (17, 31, 63),
    (2, 9, 130),
    (33, 8, 16),
]


def random_words(rng, shape, word=FP16):
    return rng.standard_normal(shape).astype(np.float32).astype(word)


def random_pairs(rng, shape, word=FP16):
    return HalfComplex(random_words(rng, (*shape, 2), word))


def wide(x):
    """The same values in float64, or complex128: exact."""
    if isinstance(x, HalfComplex):
        pairs = np.asarray(x.pairs).astype(np.float64)
        return pairs[..., 0] + 1j * pairs[..., 1]
    return np.asarray(x).astype(np.float64)


def planes(x):
    return (x.real, x.imag) if np.iscomplexobj(x) else (x, np.zeros_like(x))


def magnitudes(a, b):
    """The sum of the magnitudes of the real products behind each part of A·B."""
    (ar, ai), (br, bi) = (tuple(map(np.abs, planes(x))) for x in (a, b))
    return np.maximum(ar @ br + ai @ bi, ar @ bi + ai @ br)


def check(result, a, b, alpha=1.0, beta=0.0, c=None, accumulate="fp32", rounded_twice=False):
    """The result must lie within the documented bound of the exact one, entry by entry.

    The reference is evaluated in float64, whose own error, k·2⁻⁵³|A||B|, is far inside.
    `rounded_twice`: alpha·P may have been rounded to the format before beta·C was added.
    """
    word = np.dtype(result.dtype)
    ref_a, ref_b = wide(a), wide(b)
    k = ref_a.shape[-1] * (2 if isinstance(a, HalfComplex) else 1)
    exact = alpha * (ref_a @ ref_b)
    size = abs(alpha) * ((k + 16) * SUMS[accumulate] * magnitudes(ref_a, ref_b) + k * UNDERFLOW[accumulate])
    held = abs(alpha) * magnitudes(ref_a, ref_b)
    if beta:
        first = np.maximum(*map(np.abs, planes(exact))) * (1.01 if rounded_twice else 0)
        exact = exact + beta * wide(c)
        held = held + abs(beta) * np.abs(wide(c))
    size = size * (2 if isinstance(alpha, complex) else 1) + 8 * SUMS[accumulate] * held
    size = size + 4 * UNDERFLOW["fp32"]  # of alpha·P and beta·C, part by part
    if beta:
        size = size + ROUNDOFF[word] * first
    tiny = TINY[word] * (2 if rounded_twice else 1)
    bound = size + ROUNDOFF[word] * (np.maximum(*map(np.abs, planes(exact))) + size) + tiny
    got = wide(result)
    for part, ref in zip(planes(got), planes(exact), strict=True):
        assert np.all(np.abs(part - ref) <= bound)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("accumulate", ["fp32", "fp16"])
def test_every_size_to_64_is_within_its_bound(kind, accumulate):
    rng = np.random.default_rng(1)
    make = random_words if kind == "real" else random_pairs
    for n in range(1, 65):
        a, b = make(rng, (3, n, n)), make(rng, (3, n, n))
        check(batched_matmul(a, b, accumulate=accumulate), a, b, accumulate=accumulate)


@pytest.mark.parametrize("word", [FP16, BF16])
@pytest.mark.parametrize("make", [random_words, random_pairs])
@pytest.mark.parametrize(("m", "n", "k"), ODD_SHAPES)
def test_odd_shapes_with_alpha_and_beta(m, n, k, make, word):
    rng = np.random.default_rng(2)
    a, b, c = make(rng, (4, m, k), word), make(rng, (4, k, n), word), make(rng, (4, m, n), word)
    alpha, beta = (1.5, -0.5) if make is random_words else (1.5 - 0.25j, 0.5 + 1j)
    check(batched_matmul(a, b, alpha=alpha, beta=beta, c=c), a, b, alpha, beta, c)


@pytest.mark.parametrize("accumulate", ["fp32", "fp16"])
def test_small_integers_are_exact(accumulate):
    rng = np.random.default_rng(3)
    for m, n, k in ODD_SHAPES:
        a = rng.integers(-3, 4, (2, m, k)).astype(np.float16)
        b = rng.integers(-3, 4, (2, k, n)).astype(np.float16)
        expected = a.astype(np.int64) @ b.astype(np.int64)
        assert np.array_equal(batched_matmul(a, b, accumulate=accumulate), expected)
        z, w = HalfComplex(rng.integers(-3, 4, (2, m, k, 2)).astype(np.float16)), from_complex(b * (1 - 2j))
        assert np.array_equal(to_complex(batched_matmul(z, w, accumulate=accumulate)), wide(z) @ wide(w))


def test_fp16_sums_are_one_fused_step_for_each_term():
    rng = np.random.default_rng(5)
    a = (rng.standard_normal((1, 60)) * 2.0 ** rng.integers(-12, 6, 60)).astype(np.float16)
    b = (rng.standard_normal((60, 1)) * 2.0 ** rng.integers(-12, 6, (60, 1))).astype(np.float16)
    total = Fraction(0)
    for x, y in zip(a[0], b[:, 0], strict=True):
        total = Fraction(nearest(total + Fraction(float(x)) * Fraction(float(y)), FORMATS["fp16"]))
    assert Fraction(float(batched_matmul(a, b, accumulate="fp16")[0, 0])) == total


@pytest.mark.parametrize("trans_a", [False, True, "N", "T", "C"])
@pytest.mark.parametrize("trans_b", [False, True, "C"])
@pytest.mark.parametrize("make", [random_words, random_pairs])
def test_transposes_and_conjugates(trans_a, trans_b, make):
    rng = np.random.default_rng(6)
    a, b = make(rng, (3, 5, 7)), make(rng, (3, 7, 4))
    stored_a, stored_b = stored(a, trans_a), stored(b, trans_b)
    assert_equal(batched_matmul(stored_a, stored_b, trans_a=trans_a, trans_b=trans_b), batched_matmul(a, b))


def stored(x, trans):
    """What has to be stored so that op() gives x."""
    if trans in (False, "N"):
        return x
    if isinstance(x, HalfComplex):
        return x.mT if trans in (True, "T") else x.mT.conj()
    return x.swapaxes(-1, -2)


def assert_equal(x, y):
    if isinstance(y, HalfComplex):
        x, y = x.pairs, y.pairs
    assert x.dtype == y.dtype
    assert np.array_equal(x, y, equal_nan=x.dtype != BF16)


def test_broadcast_lists_strides_and_out():
    rng = np.random.default_rng(8)
    for make in (random_words, random_pairs):
        a, b = make(rng, (2, 3, 4, 5)), make(rng, (5, 6))
        whole = batched_matmul(a, b)
        assert whole.shape == (2, 3, 4, 6)
        check(whole, a, b)
        listed = [HalfComplex(x) for x in a.pairs[0]] if make is random_pairs else list(a[0])
        first = HalfComplex(whole.pairs[0]) if make is random_pairs else whole[0]
        assert_equal(batched_matmul(listed, b), first)
        assert_equal(batched_matmul(tuple(listed), [b] * 3), first)
    spaced = random_words(rng, (6, 20, 20))
    view, reverse = spaced[::2, 1:8, 3:9], spaced[::2, 9:1:-1, 18:12:-1]
    check(batched_matmul(view, reverse, trans_b=True), view, reverse.swapaxes(-1, -2))
    target = np.full((3, 7, 16), np.nan, np.float16)[:, :, ::2]
    result = batched_matmul(view, reverse, trans_b=True, out=target)
    assert result is target
    assert_equal(result, batched_matmul(view, reverse, trans_b=True))


def test_out_may_be_c_or_overlap_the_operands():
    rng = np.random.default_rng(9)
    a, b, c = (random_words(rng, (4, 6, 6)) for _ in range(3))
    expected = batched_matmul(a, b, beta=1, c=c)
    batched_matmul(a, b, beta=1, c=c, out=c)
    assert_equal(c, expected)
    expected = batched_matmul(a, b)
    batched_matmul(a, b, out=a)
    assert_equal(a, expected)


def test_infinities_nans_and_overflow():
    a, b = np.zeros((1, 3, 3), np.float16), np.ones((1, 3, 3), np.float16)
    a[0, 0, 0], a[0, 1, 1] = np.inf, np.nan
    result = batched_matmul(a, b)[0]
    assert np.all(result[0] == np.inf)
    assert np.all(np.isnan(result[1]))
    assert np.all(result[2] == 0)
    large = np.full((1, 2, 2), 60000, np.float16)
    assert np.all(batched_matmul(large, np.ones_like(large)) == np.inf)
    halves = np.full_like(large, 0.5)
    assert np.all(batched_matmul(large, halves) == 60000)
    assert np.all(batched_matmul(-large, np.ones_like(large), accumulate="fp16") == -np.inf)
    difference = np.array([[[1, -1], [1, -1]]], np.float16)
    assert np.all(batched_matmul(large * np.float16(1), difference, trans_b=True) == 0)
    # 60000 + 60000 − 60000 overflows on the way in fp16, and not in fp32.
    row, column = np.full((1, 3), 60000, np.float16), np.array([[1], [1], [-1]], np.float16)
    assert batched_matmul(row, column)[0, 0] == 60000
    assert batched_matmul(row, column, accumulate="fp16")[0, 0] == np.inf


def test_an_infinite_part_stays_in_its_part_under_real_scalars():
    a, b = from_complex(np.array([[np.inf + 0j]])), HalfComplex(np.array([[[1, 0]]], np.float16))
    real, imag = batched_matmul(a, b, alpha=2).pairs[0, 0]
    assert real == np.inf
    assert np.isnan(imag)  # Inf·0 of the four real products
    c = HalfComplex(np.array([[[np.inf, 1]]], np.float16))
    zero = HalfComplex(np.zeros((1, 1, 2), np.float16))
    assert batched_matmul(zero, zero, beta=2, c=c).pairs[0, 0].tolist() == [np.inf, 2]


def test_nothing_is_read_that_does_not_count():
    nan = np.full((2, 2), np.nan, np.float16)
    one = np.ones((2, 2), np.float16)
    assert np.all(batched_matmul(nan, nan, alpha=0) == 0)
    assert np.all(batched_matmul(nan, nan, alpha=0, beta=2, c=one) == 2)
    assert np.all(batched_matmul(one, one, beta=0, c=nan) == 2)
    empty = np.ones((3, 4, 0), np.float16)
    assert np.all(batched_matmul(empty, empty, trans_b=True) == np.zeros((3, 4, 4)))
    assert np.all(batched_matmul(empty, empty, trans_b=True, beta=1, c=np.ones((4, 4), np.float16)) == 1)


def test_empty_batches_and_dimensions():
    for shape in ((0, 4, 4), (3, 0, 4), (2, 0, 3, 4)):
        result = batched_matmul(np.ones(shape, np.float16), np.ones((4, 5), np.float16))
        assert result.shape == (*shape[:-1], 5)
        z = HalfComplex(np.ones((*shape, 2), np.float16))
        assert batched_matmul(z, z, trans_b="C").shape == (*shape[:-1], shape[-2])


def test_subnormals_survive():
    least = np.float16(2.0**-24)
    a, b = np.full((1, 1), least), np.full((1, 1), np.float16(1))
    assert batched_matmul(a, b)[0, 0] == least
    assert batched_matmul(a, b, alpha=0.5)[0, 0] == 0  # a tie, to even
    assert batched_matmul(np.full((1, 3), least), np.full((3, 1), np.float16(0.5)))[0, 0] == 2.0**-23


def underflowing(make, word, shape, rng):
    """Numbers whose products underflow in the accumulator, some wholly and some in their last bits."""
    lowest, highest = (-12, -3) if word == FP16 else (-110, -60)
    x = make(rng, shape, word)
    pairs = x.pairs if isinstance(x, HalfComplex) else x
    scaled = pairs.astype(np.float32) * 2.0 ** rng.integers(lowest, highest, pairs.shape)
    return HalfComplex(scaled.astype(word)) if isinstance(x, HalfComplex) else scaled.astype(word)


UNDERFLOWING = [(BF16, "fp32", 2.0**100), (FP16, "fp16", 2.0**10), (FP16, "fp32", 2.0**10)]


@pytest.mark.parametrize(("word", "accumulate", "alpha"), UNDERFLOWING)
@pytest.mark.parametrize("make", [random_words, random_pairs])
def test_products_that_underflow_are_within_the_bound(word, accumulate, alpha, make):
    rng = np.random.default_rng(12)
    for k in (1, 3, 17, 64):
        a, b = underflowing(make, word, (4, 5, k), rng), underflowing(make, word, (4, k, 6), rng)
        c = underflowing(make, word, (4, 5, 6), rng)
        check(batched_matmul(a, b, alpha=alpha, accumulate=accumulate), a, b, alpha, accumulate=accumulate)
        result = batched_matmul(a, b, alpha=alpha, beta=-0.5, c=c, accumulate=accumulate)
        check(result, a, b, alpha, -0.5, c, accumulate)
    tiny = np.full((1, 1), 2.0**-100).astype(BF16)
    lost = batched_matmul(tiny, tiny, alpha=2.0**100)
    assert float(lost[0, 0]) == 0  # 2**-100 of the exact result is no rounding error of |A||B|
    check(lost, tiny, tiny, 2.0**100)


ONES = np.ones((2, 3, 3), np.float16)
FROZEN = np.broadcast_to(ONES, ONES.shape)
PAIRS = HalfComplex(np.ones((2, 3, 3, 2), np.float16))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: batched_matmul(ONES.astype(np.float32), ONES), TypeError, "a must be float16"),
        (lambda: batched_matmul(ONES, ONES.astype(BF16)), TypeError, "one kind"),
        (lambda: batched_matmul(ONES, PAIRS), TypeError, "one kind"),
        (lambda: batched_matmul(to_complex(PAIRS), PAIRS), TypeError, "from_complex"),
        (lambda: batched_matmul("x", ONES), TypeError, "a must be an array of numbers"),
        (lambda: batched_matmul(ONES, np.ones((3, 3, 3), np.float16)), ValueError, "batches"),
        (lambda: batched_matmul(ONES, np.ones((2, 4, 3), np.float16)), ValueError, "inner dimension"),
        (lambda: batched_matmul(ONES[0, 0], ONES), ValueError, "a must be a matrix"),
        (lambda: batched_matmul(ONES, ONES, beta=1), ValueError, "c must be given"),
        (lambda: batched_matmul(ONES, ONES, beta=1, c=ONES[:, :2]), ValueError, "c must have shape"),
        (lambda: batched_matmul(ONES, ONES, beta=1, c=PAIRS), TypeError, "c must be of"),
        (lambda: batched_matmul(ONES, ONES, alpha=1j), TypeError, "alpha must be real"),
        (lambda: batched_matmul(ONES, ONES, alpha="x"), TypeError, "alpha must be a number"),
        (lambda: batched_matmul(ONES, ONES, alpha="2"), TypeError, "alpha must be a number"),
        (lambda: batched_matmul(ONES, ONES, alpha=10**400), ValueError, "alpha is out of the range"),
        (lambda: batched_matmul(ONES, ONES, trans_a="H"), ValueError, "trans_a"),
        (lambda: batched_matmul(ONES, ONES, trans_b=[]), ValueError, "trans_b"),
        (lambda: batched_matmul(ONES, ONES, accumulate="fp64"), ValueError, "accumulate"),
        (lambda: batched_matmul(*[ONES.astype(BF16)] * 2, accumulate="fp16"), ValueError, "accumulate"),
        (lambda: batched_matmul(ONES, ONES, out=ONES[0]), ValueError, "out must be"),
        (lambda: batched_matmul(ONES, ONES, out=FROZEN), ValueError, "writeable"),
        (lambda: batched_matmul(ONES, ONES, out=PAIRS), TypeError, "out must be"),
        (lambda: batched_matmul(PAIRS, PAIRS, out=PAIRS.pairs), TypeError, "out must be"),
        (lambda: batched_matmul([ONES[0], ONES[0, :2]], ONES), ValueError, "one shape"),
        (lambda: batched_matmul([ONES[0], ONES[0].astype(BF16)], ONES), TypeError, "one dtype"),
        (lambda: HalfComplex(np.ones((2, 3), np.float16)), ValueError, "last axis"),
        (lambda: HalfComplex(np.ones((2, 2))), TypeError, "float16"),
        (lambda: from_planes(ONES, ONES[0]), ValueError, "one shape"),
        (lambda: from_planes(ONES, ONES.astype(BF16)), TypeError, "both"),
        (lambda: from_complex(ONES, "tf32"), ValueError, "word"),
        (lambda: to_complex(ONES), TypeError, "HalfComplex"),
        (lambda: operational_intensity(1, 1, 1, "split"), ValueError, "layout"),
        (lambda: operational_intensity(0, 0, 0), ValueError, "must be positive, got 0, 0, 0"),
        (lambda: least_seconds(4, -1, 4, 10, bandwidth=1e12), ValueError, "must be positive"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_conversions_round_once():
    # 1 + 2⁻¹¹ is a tie in fp16 and 2⁻⁴⁰ decides it; float32 would lose the decider. Likewise in bf16.
    halves = from_complex(np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40]))
    assert halves.real.tolist() == [1 + 2.0**-10, 1]
    brains = from_complex(np.array([-1 - 2.0**-8 - 2.0**-40, -1 - 2.0**-8 + 2.0**-40]), "bf16")
    assert brains.real.astype(float).tolist() == [-1 - 2.0**-7, -1]
    extremes = from_complex(np.array([1e6 - 1e300j, np.nan + 1j * -np.inf]))
    assert extremes.real[0] == np.inf
    assert np.all(extremes.imag == -np.inf)
    assert np.isnan(extremes.real[1])


@pytest.mark.parametrize("family", ["half-complex", "batched_matmul"])
def test_any_numbers_and_shapes(family):
    """Conversions to the nearest half, products within their bound."""
    check_family(family)


def test_roofline_of_the_paper():
    """Equations (1) and (2), and the closed forms below them."""
    for n in (4, 32, 256):
        assert operational_intensity(n, n, n, "interleaved") == 0.5 * n
        assert operational_intensity(n, n, n, "planar") == 0.25 * n
        assert operational_intensity(n, n, 16, "planar") == pytest.approx(8 * n**2 / (n**2 + 16 * n))
        assert operational_intensity(n, n, 16, "interleaved") == pytest.approx(16 * n**2 / (n**2 + 16 * n))
    assert bytes_moved(2, 3, 4, "interleaved") == 4 * (2 * 6 + 4 * 5)
    assert attainable_flops(300, 300, 300, "planar", bandwidth=847e9, peak=1e12) == 1e12
    assert least_seconds(4, 4, 4, 10**4, bandwidth=4.2e12, read_c=False) == pytest.approx(0.96e6 / 4.2e12)
