"""Formats, rounding and splitting into words, against exact arithmetic."""

from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword import join, round_to, split
from multiword.fp32 import split as split_module
from multiword.fp32.measure import common_shift, exact_bits, measure_operands
from multiword.fp32.schemes import Scheme
from multiword.fp32.split import SMALL, split_elements, split_operands
from multiword.rounding import product_error, two_sum
from tests.fuzz.fixed import check_family


@pytest.mark.parametrize("family", ["round_to", "split, join"])
def test_each_word_is_the_definition(family):
    check_family(family)


def test_rounding_agrees_with_other_implementations():
    x = np.random.default_rng(1).integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    for name, dtype in (("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        with np.errstate(over="ignore"):
            assert round_to(x, name).tobytes() == x.astype(dtype).tobytes()


def test_special_values_pass_through_rounding():
    x = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0])
    for name in ("fp16", "bf16", "tf32"):
        for rounding in ("RN", "RZ", "RNA"):
            result = round_to(x, name, rounding).astype(np.float32)
            assert np.array_equal(result, x, equal_nan=True)
            assert np.array_equal(np.signbit(result[3:]), np.signbit(x[3:]))


def test_split_of_special_values_and_shapes():
    x = np.float32([[np.inf, np.nan, -np.inf], [1, 2, 3]])
    first, second = split(x)
    assert np.array_equal(first[0].astype(np.float32), x[0], equal_nan=True)
    assert not second[0].any()
    assert split(np.float32(3.5))[0].shape == ()
    assert split(np.empty((0, 3), np.float32), "bf16", 3)[2].shape == (0, 3)
    assert np.array_equal(split(x[:, ::-1])[0], first[:, ::-1], equal_nan=True)


X = np.float32([1.0, 2.0])
WORD_DTYPES = "float16, bfloat16 or float32"
LARGE = [np.int64([2**53 + 1]), np.uint64([2**64 - 1]), np.int64([-(2**63)])]
REFUSED = [
    (lambda: split(X, word="fp32"), ValueError, "known are fp16, bf16, tf32"),
    (lambda: split(X, words=0), ValueError, "words must be at least 1"),
    (lambda: split(X, rounding="RU"), ValueError, "known are RN, RZ, RNA"),
    (lambda: split(X + 0j), TypeError, "real"),
    (lambda: split(LARGE[0]), TypeError, "integers beyond"),
    *((lambda x=x: round_to(x, "fp32"), TypeError, "integers beyond") for x in LARGE),
    (lambda: round_to(np.longdouble([1]), "fp32"), TypeError, "does not hold"),
    (lambda: join(()), ValueError, "at least one"),
    (lambda: join((X.astype(np.int8),) * 2), TypeError, WORD_DTYPES),
    (lambda: join((X.astype(float),) * 2, scaled=True), TypeError, WORD_DTYPES),
    (lambda: join((X, X.astype(np.float16))), TypeError, WORD_DTYPES),
    (lambda: join((X + 1j,), scaled=True), TypeError, WORD_DTYPES),
    (lambda: join((X, X[:1])), ValueError, "one shape"),
    *(
        (lambda d=d: join((X, X), dtype=d), ValueError, "float32 or float64")
        for d in (np.float16, np.int32, np.complex64)
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_cannot_be_split_joined_or_rounded_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_what_can_be_joined_and_rounded():
    swapped = [w.astype(w.dtype.newbyteorder()) for w in split(X, scaled=True)]
    assert np.array_equal(join(swapped, scaled=True), X)
    assert round_to(np.int64([-(2**53), 2**53 - 1]), "fp64").tolist() == [-(2.0**53), 2.0**53 - 1]
    x = X.astype(float)
    assert not np.shares_memory(round_to(x, "fp64"), x)


@given(a=st.floats(-1e300, 1e300), b=st.floats(-1e300, 1e300))
def test_two_sum_is_exact(a, b):
    s, e = two_sum(a, b)
    assert s == a + b
    assert Fraction(s) + Fraction(e) == Fraction(a) + Fraction(b)


@given(a=st.floats(1e-100, 1e100), b=st.floats(1e-100, 1e100))
def test_product_error_is_exact(a, b):
    assert Fraction(a * b) + Fraction(product_error(a, b, a * b)) == Fraction(a) * Fraction(b)


def wide_matrix(shape, seed=0, spread=3.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp(spread * rng.standard_normal(shape))
    return x.astype(np.float32)


@pytest.mark.parametrize("guess", [False, True])
def test_operands_are_scaled_by_powers_of_two_and_rejoin(guess):
    a, bt = wide_matrix((7, 68), 1), wide_matrix((61, 68), 2)
    a[2] = 0
    a[3, 5] = 1e-42
    pair = split_operands(measure_operands(a, bt, Scheme(), target=9 if guess else 14, guess=guess))
    for operand, reverse in ((pair.left, False), (pair.right, True)):
        words = operand.words.reshape(len(operand.x), 2, operand.padded_k).astype(np.float64)
        assert not words[:, :, operand.x.shape[1] :].any()
        first, second = (words[:, 1], words[:, 0]) if reverse else (words[:, 0], words[:, 1])
        y = (first + second * 2.0**-11)[:, : operand.x.shape[1]]
        back = np.ldexp(y, -operand.of["shift"][:, None])
        floor = np.ldexp(2.0**-36, -operand.of["shift"])[:, None]
        assert (np.abs(back - operand.x) <= 2.0**-22 * np.abs(operand.x) + floor).all()
        assert np.abs(first).max() < 2.0**15


def test_centred_operands_only_if_both_sides_stand_out():
    rng = np.random.default_rng(3)
    positive, zero_mean = 1 - rng.random((9, 700)), rng.standard_normal((9, 700))
    scheme = Scheme(centred=True)
    for left, right, centred in (
        (positive, positive, True),
        (positive, zero_mean, False),
        (zero_mean, positive, False),
    ):
        of = measure_operands(np.float32(left), np.float32(right), scheme, target=9, guess=True)
        pair = split_operands(of)
        assert pair.left.of["centre"].any() == pair.right.of["centre"].any() == centred
        np.testing.assert_allclose(pair.left.of["total"], np.float32(left).sum(1, dtype=float), rtol=1e-7)


@pytest.mark.parametrize(("mean", "centred"), [(0.2, False), (0.45, True)])
def test_means_stand_out_from_three_tenths_of_the_root_mean_square(mean, centred):
    spread = np.sqrt(1 - mean**2)
    a, bt = (mean + spread * np.random.default_rng(s).standard_normal((9, 9000)) for s in (5, 6))
    vectors = measure_operands(np.float32(a), np.float32(bt), Scheme(centred=True), target=14, guess=False)
    assert split_operands(vectors).left.of["centre"].any() == centred


def test_vectors_within_a_factor_of_four_share_a_scale():
    for apart, shared in ((0, True), (2, True), (3, False)):
        assert common_shift(300 + 5, 300 - (5 - apart), 14) == (9 if shared else None)
    assert "range <= 602" in Path(split_module.__file__).with_name("fp32.cuh").read_text()  # 600 + COMMON


@pytest.mark.parametrize("k", [1, 30, 1000, 30_000])
def test_integers_of_exact_bits_have_sums_that_fp32_holds(k):
    rng, bits = np.random.default_rng(8), exact_bits(k)
    a, b = (rng.integers(-(2**n) + 1, 2**n, (500, k)) for n in (bits // 2, bits - bits // 2))
    assert 2**18 < np.abs((a * b).sum(axis=1)).max() <= 2**24


def test_small_elements_lose_no_more_than_is_assumed():
    # plan.rejection: at most 2^-36, which is 2^-24 of the largest small element.
    y = np.random.default_rng(7).random(200_000).astype(np.float32) * np.float32(SMALL)
    first, second = split_elements(y, Scheme())
    loss = np.abs(y - (first.astype(float) + second.astype(float) * 2.0**-11))
    assert 2.0**-37 < loss.max() <= 2.0**-36 == 2.0**-24 * SMALL
