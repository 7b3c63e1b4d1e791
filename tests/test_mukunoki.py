"""The published fp16 slices: error-free splitting, exact products, correct rounding, slice counts."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from multiword.engines import WORDS, get_engine
from ozaki.mukunoki import mukunoki_dgemm, mukunoki_split, slice_bits, slice_count
from tests.fuzz.fixed import check_family
from tests.matrices import KINDS, matrices
from tests.oracle import componentwise_error, rounded_product, same


def value_of(split, shape):
    """The sum of all slices, as exact rationals."""
    total = np.full(shape, Fraction(0), object)
    for part, exponent in zip(split.slices, split.exponents, strict=True):
        for index, x in np.ndenumerate(part):
            total[index] += Fraction(float(x)) * Fraction(2) ** int(exponent[index[:-1]])
    return total


def check_error_free(x):
    split = mukunoki_split(x)
    assert all(
        total == Fraction(float(v))
        for v, total in zip(x.ravel(), value_of(split, x.shape).ravel(), strict=True)
    )
    for part, exponent in zip(split.slices, split.exponents, strict=True):
        assert part.dtype == np.float16
        assert exponent.shape == x.shape[:-1]
        integers = np.ldexp(part.astype(float), split.bits)
        assert (integers == np.rint(integers)).all()
        assert np.abs(part).max(initial=0) <= 1
    for earlier, later in pairwise(split.exponents):
        assert (later <= earlier).all()
    return split


@pytest.mark.parametrize("kind", KINDS)
def test_splitting_is_error_free(kind):
    a, b = matrices(kind, 7, 68, 9)
    check_error_free(a)
    check_error_free(b.T)


def test_extremes_split_without_overflow():
    largest, smallest = np.finfo(np.float64).max, 2.0**-1074
    split = check_error_free(np.array([[largest, smallest, -1.0], [0.0, -largest, 2.0**1023]]))
    assert int(split.exponents[0][0]) == 1024
    assert check_error_free(np.zeros((2, 3))).slices == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_leading_slices_leave_little(count):
    a, _ = matrices("wide6", 9, 50, 1)
    split = mukunoki_split(a, count)
    assert len(split.slices) == count
    rest = [
        abs(Fraction(float(x)) - y) for x, y in zip(a.ravel(), value_of(split, a.shape).ravel(), strict=True)
    ]
    limits = np.repeat(split.exponents[-1], a.shape[1])
    assert all(r <= Fraction(2) ** int(e - split.bits) for r, e in zip(rest, limits, strict=True))


@pytest.mark.parametrize("k", [1, 2, 3, 5, 16, 17, 1000, 4096, 2**20, 2**22])
def test_bits_are_the_most_that_are_exact(k):
    word, bits = WORDS["fp16"], slice_bits(k)
    assert bits <= word.bits
    assert k * 4**bits <= 2**24
    assert bits == word.bits or k * 4 ** (bits + 1) > 2**24


def test_products_are_exact_in_the_worst_case():
    """All elements at a slice's limit, where fp32 has no bit to spare, on every engine here."""
    for k in (4, 64, 1000):
        a = np.ones((3, k))
        a[1] = -1
        a[2, ::2] = 1 - 2.0 ** -slice_bits(k)
        split = mukunoki_split(a)
        exact = split.slices[0].astype(float) @ split.slices[0].astype(float).T
        for name in ("host", "tensorcore"):
            product = get_engine(name).multiply("fp16", split.slices[0], split.slices[0])
            assert (product == exact).all()


@pytest.mark.parametrize("kind", KINDS)
def test_all_slices_with_nearsum_round_correctly(kind):
    a, b = matrices(kind, 7, 68, 61)
    expected = rounded_product(a, b)
    assert same(mukunoki_dgemm(a, b, summation="nearsum"), expected)
    if kind in ("uniform", "cancelling", "subnormal"):
        assert same(mukunoki_dgemm(a, b, summation="nearsum", engine="tensorcore"), expected)


def test_nearsum_rounds_correctly_for_all_doubles():
    check_family("mukunoki", 20)


@pytest.mark.parametrize("kind", ["uniform", "positive", "wide2", "graded", "rows", "sparse"])
def test_estimated_slices_in_fast_mode_have_dgemm_accuracy(kind):
    """What Algorithm 3 promises, probabilistically, with the paper's factor 2 on either side."""
    a, b = matrices(kind, 20, 256, 20)
    error, _ = componentwise_error(mukunoki_dgemm(a, b, slices="estimated", fast=True), a, b)
    assert error <= 4 * 256**0.5 * 2.0**-53


@pytest.mark.parametrize("fast", [False, True])
def test_more_slices_are_more_accurate(fast):
    a, b = matrices("uniform", 20, 256, 20)
    bits = slice_bits(256)
    errors = [componentwise_error(mukunoki_dgemm(a, b, slices=d, fast=fast), a, b)[0] for d in (1, 2, 3, 4)]
    for d, error in enumerate(errors, 1):
        assert error < 8 * (d + 1) * 2.0 ** (-d * (bits - 1))
    assert errors == sorted(errors, reverse=True)


class Counting:
    """An engine that counts its products."""

    padding = 1
    name = "host"
    products = frozenset({"fp16"})

    def __init__(self):
        self.calls = 0

    def multiply(self, product, a, bt, **options):
        self.calls += 1
        return get_engine("host").multiply(product, a, bt, **options)


@pytest.mark.parametrize("d", [1, 2, 4, 5])
def test_fast_mode_takes_half_the_products(d):
    a, b = matrices("uniform", 5, 64, 5)
    full, fast = Counting(), Counting()
    mukunoki_dgemm(a, b, slices=d, engine=full)
    mukunoki_dgemm(a, b, slices=d, engine=fast, fast=True)
    assert (full.calls, fast.calls) == (d * d, d * (d + 1) // 2)


def counts_by_definition(a, b):
    """Algorithm 3 in exact rationals, the square root squared away."""
    k = a.shape[1]
    be = [sum(abs(Fraction(float(x))) for x in row) for row in b]
    bound = [
        4
        * k
        * Fraction(2) ** -106
        * sum(abs(Fraction(float(x))) * w for x, w in zip(row, be, strict=True)) ** 2
        for row in a
    ]
    split = mukunoki_split(a)
    for d, (part, exponent) in enumerate(zip(split.slices, split.exponents, strict=True), 1):
        sizes = [
            Fraction(2) ** int(e) * sum(abs(Fraction(float(x))) * w for x, w in zip(row, be, strict=True))
            for row, e in zip(part, exponent, strict=True)
        ]
        if all(size**2 < limit or limit == 0 for size, limit in zip(sizes, bound, strict=True)):
            return d
    return len(split.slices)


@pytest.mark.parametrize("kind", KINDS)
def test_slice_count_is_algorithm_3(kind):
    a, b = matrices(kind, 7, 68, 11)
    assert slice_count(a, b) == max(counts_by_definition(a, b), counts_by_definition(b.T, a.T))


def test_slice_count_scales_with_nothing():
    a, b = matrices("uniform", 7, 68, 11)
    assert (
        slice_count(a, b) == slice_count(np.ldexp(a, 900), np.ldexp(b, 900)) == slice_count(a * 2.0**-900, b)
    )
    assert slice_count(np.zeros((3, 4)), np.ones((4, 2))) == 1
    assert slice_count(np.ones((3, 0)), np.ones((0, 2))) == 0


def test_nonfinite_rows_and_columns():
    a, b = matrices("uniform", 6, 30, 5)
    clean = mukunoki_dgemm(a, b)
    a[1, 2], a[3, 4], b[5, 0] = np.inf, np.nan, -np.inf
    result = mukunoki_dgemm(a, b)
    with np.errstate(invalid="ignore"):
        native = a @ b
    affected = ~np.isfinite(native)
    assert (np.isnan(result) == np.isnan(native)).all()
    assert (result[affected & ~np.isnan(native)] == native[affected & ~np.isnan(native)]).all()
    assert same(result[~affected], clean[~affected])
    with pytest.raises(ValueError, match="finite"):
        mukunoki_split(a)
    with pytest.raises(ValueError, match="finite"):
        slice_count(a, b)


@pytest.mark.parametrize("shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("summation", ["fp64", "nearsum"])
@pytest.mark.parametrize("slices", [None, 2, "estimated"])
def test_empty_and_single(shape, summation, slices):
    m, k, n = shape
    result = mukunoki_dgemm(np.ones((m, k)), np.ones((k, n)), slices=slices, summation=summation)
    assert same(result, np.full((m, n), float(k)))


def test_any_layout_and_dtype_and_inputs_unchanged():
    a, b = matrices("uniform", 12, 40, 9)
    expected, copies = mukunoki_dgemm(a, b), (a.copy(), b.copy())
    assert same(mukunoki_dgemm(np.asfortranarray(a), np.repeat(b, 2, axis=1)[:, ::2]), expected)
    assert same(mukunoki_dgemm(a[::-1], b[:, ::-1])[::-1, ::-1].copy(), expected)
    assert same(a, copies[0])
    assert same(b, copies[1])
    assert mukunoki_dgemm([[1, 2]], [[3], [4]]).tolist() == [[11.0]]
    assert mukunoki_dgemm(np.array([[True, False]]), np.float32([[3], [4]])).tolist() == [[3.0]]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((np.ones((2, 3)), np.ones((2, 3))), {}, ValueError, "inner dimensions differ"),
        ((np.ones(3), np.ones((3, 1))), {}, ValueError, "a must be a matrix"),
        ((np.ones((2, 3), complex), np.ones((3, 1))), {}, TypeError, "a must be real"),
        ((np.array([["x"]]), np.ones((1, 1))), {}, TypeError, "numeric"),
        ((np.eye(2), np.eye(2)), {"summation": "kahan"}, ValueError, "unknown summation"),
        ((np.eye(2), np.eye(2)), {"slices": 0}, ValueError, "at least 1"),
        ((np.eye(2), np.eye(2)), {"slices": "all"}, ValueError, "'estimated'"),
        ((np.eye(2), np.eye(2)), {"slices": 1.5}, TypeError, "integer"),
        ((np.ones((1, 2**22 + 1)), np.ones((2**22 + 1, 1))), {}, ValueError, "2\\*\\*22"),
    ],
)
def test_bad_input(arguments, options, error, match):
    with pytest.raises(error, match=match):
        mukunoki_dgemm(*arguments, **options)


def test_infinities_of_both_signs_make_the_one_nan():
    a = [-5.866351897533694e283, 2.320968376776988e307, 1.3640516406626199e293, -1.6747434320061429e305]
    b = [-6.000754685096976e-13, -44744.91405301407, 1.6481769051108484e-06, 224093.23669071327]
    (found,) = mukunoki_dgemm(np.array([a]), np.array(b)[:, None], slices=4).ravel().view(np.uint64)
    assert found == np.array(np.nan).view(np.uint64)
