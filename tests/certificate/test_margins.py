"""Margins that proofs need: each test fails where one is left out, or has the wrong sign."""

import itertools
import math
import re
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

import ozaki
from multiword.engines.cublas import Cublas
from multiword.formats import FORMATS
from multiword.runtime.kernels import expanded
from ozaki.arguments import request_of
from ozaki.certificate import counting
from ozaki.certificate.counting import CERTIFIED, NOT_FINITE, OPEN, Bounds, compute_bounds, counting_tolerance
from ozaki.certificate.decision import decide_stack, log2_product, replayed
from ozaki.definition.decision import OCTAVES
from ozaki.definition.scales import NORM_LIMITS
from ozaki.definition.statistics import BITS
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.limbs import columns, in_limbs, multiply_columns, multiply_small, multiply_thin, thin
from ozaki.product.limbs.columns import limbs_of_columns
from ozaki.product.limbs.cut import limbs_of
from ozaki.product.limbs.thin import limbs_of_thin
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.product.steps import norm_widths
from ozaki.scaling.scales import norm_limit, norm_scales, normwise_error
from ozaki.scaling.statistics import row_statistics
from ozaki.schemes import ProductSpecification
from tests.certificate.test_decision import LENGTH, TARGET, bounds, row


@pytest.mark.parametrize("length", [1, 7, 1000, 33000, 1 << 22])
def test_the_bound_of_a_product_of_integers(length):
    """By Cauchy and Schwarz, norms of scaled rows grow by sqrt(length)/2 at most when they are rounded."""
    with mpmath.workprec(200):
        for squares in ((0.0, 0.0), (1.3, 0.0), (10.7, 40.1), (110.2, 109.9)):
            norms = [mpmath.sqrt(mpmath.mpf(2) ** x) + mpmath.sqrt(length) / 2 for x in squares]
            exact = mpmath.log(norms[0] * norms[1], 2)
            found = log2_product(squares, length)
            assert exact + 2.0**-11 < found < exact + 4


def test_integers_that_rounding_doubles_fit_their_moduli():
    k = 33000
    a = np.full((1, k), 0.5000001)
    a[0, 0] = 1.0
    assert ozaki.accurate_dgemm(a, a.T, accuracy=1, engine="tensorcore")[0, 0] == k


@pytest.mark.parametrize("excess", [1 - 2.0**-42, 1 + 2.0**-42, 1 - 2.0**-38, 1 + 2.0**-38])
def test_the_filter_of_stacks_leaves_what_is_near_its_tolerance(excess):
    near = bounds(excess)
    totals, sums = np.array([near.totals]).T, np.array([near.sums])
    for nonfinite in (False, True):
        (state,) = counting._states(
            np.array([nonfinite]), totals, sums, LENGTH, counting.enough(LENGTH, TARGET)
        )
        certified = CERTIFIED if excess < 1 - 2.0**-40 else OPEN
        assert state == (NOT_FINITE if nonfinite else certified)
    (bits,) = decide_stack(np.array([row(near)]), LENGTH, TARGET).tolist()
    assert bits == replayed(TARGET, (near,)).bits


def test_the_compiled_bound_leaves_what_is_near_its_tolerance():
    counting_numba = pytest.importorskip("ozaki.certificate.counting_numba")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 60))
    limits = norm_limit(TARGET, 60)
    both = [row_statistics([y[None]]) for y in x]
    scales = tuple(norm_scales(y, limits) for y in both)
    counted = compute_bounds(tuple(both), scales, TARGET).wait()
    upper = 0.5 * sum(counted.totals) + 0.25 * 60
    lower = math.fsum(counted.sums) * 4.0 ** (limits.bits // 2 - 1)
    joined = [
        np.concatenate([getattr(y, name) for y in both], axis=-1)
        for name in ("exponent", "total", "square", "counts")
    ]
    scale, width = np.empty((2, 2), np.int32)
    for factor, expected in ((1 + 2.0**-30, 0), (1 + 2.0**-45, -1), (1 - 2.0**-45, -1), (1 - 2.0**-30, 3)):
        given = np.array([limits.significand, limits.bits, upper / lower * factor, 3, 7])
        bits = np.empty(1, np.int64)
        counting_numba.certified_scales(*joined, 60, 1, given, scale, width, bits, np.empty((2, OCTAVES)))
        assert bits.tolist() == [expected]


@pytest.mark.parametrize("x", [1.0, 1.9, 1.0 + 2.0**-52, 1.5, 2 - 2.0**-30])
@pytest.mark.parametrize("width", [1, 8, 30, 53])
def test_integers_are_no_wider_than_their_scheme_is_told(x, width):
    a = np.full((1, 1), x)
    request = request_of(a, width, "auto", None, "auto", None)
    pair = Pair(Factor(a, 0), Factor(a, 1), request)
    scales = steps.given_scales(pair)
    scaled = steps.bounded(pair, scales, steps.bounds(pair, scales).wait())
    assert (
        abs(round(Fraction(x) * Fraction(2) ** int(scales[0][0])))
        <= 2 ** scaled.scheme.specification.widths[0]
    )


@pytest.mark.parametrize("length", [1, 10, 1000, 1 << 20, 1 << 24])
@pytest.mark.parametrize("name", NORM_LIMITS)
def test_the_bound_of_normwise_products_is_that_of_its_proof(name, length):
    limit = norm_limit(FORMATS[name], length)
    with mpmath.workprec(200):
        k, size = mpmath.mpf(length), mpmath.mpf(limit.significand) / 32 * mpmath.mpf(2) ** limit.bits
        grown = 1 + mpmath.sqrt(k) * mpmath.mpf(2) ** -(BITS - 1)
        exact = 2 * grown * mpmath.sqrt(k / size) + grown**2 * k / size
        assert exact <= normwise_error(limit, length) <= exact * (1 + mpmath.mpf(2) ** -38)


def test_the_tolerance_of_counts_is_that_of_the_guarantee():
    for length in (1, 100, 577, 10000):
        assert counting_tolerance(length, TARGET) == min(length / 2, 12 * math.sqrt(length)) * 2.0**-53


@pytest.mark.parametrize("terms", [1, 2, 3, 8, 17, 32, 37, 64, 75, 600, 5000, 1 << 13, 1 << 14])
def test_limbs_and_their_sums_stay_below_the_words_that_hold_them(terms):
    """Of rows that fill the bound: equal numbers, whose lower limbs are all as large as they get."""
    for width in range(1, 120):
        if (limbs := limbs_of(width, terms)) is not None:
            assert_limbs_fit(limbs, width, terms)


def assert_limbs_fit(limbs, width, terms):
    base, above = 1 << limbs.bits, limbs.bits * (limbs.number - 1)
    lower = [base // 2] * (limbs.number - 1)
    largest = math.isqrt((1 << 2 * width) // terms)  # its row's norm is 2**width
    for x in (largest, 1 << width) if terms == 1 else (largest,):
        limb = [*lower, (x >> above) + 1]
        assert limb[-1] < 2**31
        sums = [
            terms * sum(limb[i] * limb[d - i] for i in range(limbs.number) if 0 <= d - i < limbs.number)
            for d in range(2 * limbs.number - 1)
        ]
        assert max(sums) < 2**63
        assert sum(s << limbs.bits * d for d, s in enumerate(sums)) < 2 ** (64 * limbs.number - 1)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("k", [1, 31, 32, 63, 64, 100, 127, 128, 1000, 4096, 8192, 65536, 70000, 10**6])
def test_a_thread_of_a_thin_product_adds_up_no_more_than_its_limbs_hold(monkeypatch, k, parts):
    monkeypatch.setattr(thin, "multiprocessors", lambda: 132)
    found = 0
    for m, n, width in itertools.product((1, 40, 8192, 10**6), (1, 3, 6, 12, 16), range(20, 70)):
        specification = ProductSpecification((m, k, n), 1, parts, (width, width), 110.0, TARGET)
        if (cut := limbs_of_thin(specification)) is None:
            continue
        found += 1
        assert (cut.shares - 1) * cut.share < k <= cut.shares * cut.share
        terms = len(range(0, min(cut.share, k), cut.slices))  # of the first thread of a row
        assert_limbs_fit(cut.limbs, width, parts * terms)
        assert cut.words == (cut.shares > 1) * cut.shares * parts * m * n * cut.limbs.number
    assert found


@pytest.fixture
def hopper(monkeypatch):
    for module in (thin, columns):
        monkeypatch.setattr(module, "multiprocessors", lambda: 132)
    monkeypatch.setattr(columns, "compute_capability", lambda: (9, 0))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("k", [129, 1000, 4096, 16352, 16384, 18720, 18721, 10**6])
def test_limbs_of_a_byte_and_their_sums_fit(hopper, k, parts):
    for m, n, width in itertools.product((64, 8192, 10**5), (1, 20, 32, 33, 64, 128), range(20, 66)):
        specification = ProductSpecification((m, k, n), 1, parts, (width, width), 110.0, TARGET)
        cut = limbs_of_columns(specification)
        few, large = min(m, n) * parts, k * max(m, n) * parts >= 1 << 20
        assert (cut is not None) == (width <= 63 and large and few <= (128 if width < 56 else 64))
        if cut is None:
            continue
        assert 127 * 2**width // 128 <= 127 * (256**cut.number - 1) // 255  # the largest of such limbs
        assert 2 * width < 128
        assert (cut.shares - 1) * cut.share < k <= cut.shares * cut.share
        assert cut.share % 32 == 0
        assert cut.number * parts * min(cut.share, k) * 2**14 < 2**31
        assert cut.wide % (2 * cut.columns) == 0
        assert few <= cut.wide
        assert (2 * cut.number - 1) * cut.columns // 2 < 224  # registers, beside others
        assert cut.shared <= 227 << 10


def test_memory_of_limbs_of_a_byte(hopper):
    for parts, widths, number in ((1, (30, 55), 7), (2, (62, 40), 8)):
        cut = limbs_of_columns(ProductSpecification((128, 10**5, 20), 1, parts, widths, 110.0, TARGET))
        steps, words = -(-(10**5) // 32), 2
        assert cut.number == number
        assert cut.of_columns == (2 * number - 1) * cut.wide * 32 * steps * parts
        assert cut.shares > 1
        assert cut.of_sums == 8 * words * cut.shares * parts * 128 * 20
        assert cut.workspace == cut.of_columns + cut.of_sums
    source = expanded(columns._FILE)
    names = ("STEP", "STAGES", "AHEAD")
    step, stages, ahead = (int(re.search(rf"#define {name} (\d+)", source)[1]) for name in names)
    assert (step, stages) == (columns._STEP, columns._STAGES)
    assert stages >= 2 * ahead + 1  # what is written is none of what may still be read


def test_pairs_are_rows_of_whatever_array():
    """Of aligned rows of an even length, in a matrix or in a stack of one."""
    layout = {"ALONG_K": 1, "UNIT": 1}
    for shape, pitch, address, expected in (
        ((4, 6), 48, 0, True),
        ((4, 6), 48, 8, False),
        ((4, 6), 56, 0, False),
        ((4, 5), 48, 0, False),
        ((1, 4, 6), 48, 16, True),
        ((1, 4, 5), 40, 0, False),
        ((1, 4, 6), 56, 0, False),
    ):
        strides = (shape[-2] * pitch, pitch, 8)[-len(shape) :]
        x = SimpleNamespace(shape=shape, strides=strides, itemsize=8, data=SimpleNamespace(ptr=address))
        assert columns._in_pairs(x, layout) == expected
        assert not columns._in_pairs(x, {**layout, "UNIT": 0})
        assert not columns._in_pairs(x, {**layout, "ALONG_K": 0})


def test_integers_leave_room_for_limbs_with_signs():
    for target, lengths in NORM_LIMITS.items():
        for length, limit in lengths.items():
            length = min(length, 1 << 24)
            for bits in (0, *limit.widenings):
                width, _ = norm_widths(norm_limit(FORMATS[target], length), length, bits)
                assert 2.0 ** (limit.log2 / 2 + bits) + 0.5 <= 127 / 128 * 2.0**width
    a, b = (Factor(x, side) for side, x in enumerate((np.ones((2, 300)), np.ones((300, 2)))))
    request = request_of(a.matrix, "exact", "auto", None, "host", None)
    for log2_square in np.linspace(40, 120, 5001):
        found = Bounds(False, (1.0, 1.0), (log2_square, log2_square), [1.0], 300)
        scaled = steps.bounded(Pair(a, b, request), (a.exact_scales, b.exact_scales), found)
        width, _ = scaled.scheme.specification.widths
        assert 2.0 ** (log2_square / 2) <= 127 / 128 * 2.0**width


@pytest.mark.parametrize(
    ("shape", "stack", "bits", "kernel"),
    [
        ((16, 16, 16), 1, 55, "small"),
        ((32, 37, 32), 500, 55, "small"),
        ((10**6, 16, 32), 1, 55, "small"),
        ((10**6, 16, 33), 1, 55, None),
        ((10**6, 16, 16), 1, 55, "thin"),
        ((12, 1000, 1000), 1, 55, "thin"),
        ((1000, 1000, 13), 1, 55, None),
        ((4, 5000, 5000), 1, 55, "thin"),
        ((5, 5000, 5000), 1, 55, "columns"),
        ((5000, 5000, 1), 1, 62, "thin"),
        ((5000, 5000, 2), 1, 62, "columns"),
        ((5000, 5000, 8), 1, 72, "thin"),
        ((5000, 5000, 9), 1, 72, None),
        ((5000, 128, 16), 1, 55, "thin"),
        ((5000, 129, 16), 1, 55, None),
        ((10000, 129, 16), 1, 55, "columns"),
        ((128, 8192, 8192), 1, 55, "columns"),
        ((8192, 8192, 129), 1, 55, None),
        ((64, 8192, 8192), 1, 62, "columns"),
        ((65, 8192, 8192), 1, 62, None),
        ((64, 64, 64), 1, 55, None),
    ],
    ids=str,
)
def test_which_products_are_multiplied_in_limbs(hopper, monkeypatch, shape, stack, bits, kernel):
    engine = object.__new__(Cublas)
    engine.fused = True
    request = Request("fp64", "auto", None, engine, 1 << 30)
    specification = ProductSpecification(shape, stack, 1, (bits, bits), 110.0, TARGET)
    limbs = in_limbs(specification, request)
    kernels = {"small": multiply_small, "thin": multiply_thin, "columns": multiply_columns, None: None}
    assert (limbs and limbs.multiply.func) is kernels[kernel]
    if limbs is not None and limbs.workspace:
        assert in_limbs(specification, request._replace(workspace=limbs.workspace)) is not None
        less = in_limbs(specification, request._replace(workspace=limbs.workspace - 1))
        assert less is None or (
            kernel == "columns" and less.word == "int32"
        )  # where few columns are thin, too
    monkeypatch.setattr(columns, "compute_capability", lambda: (8, 0))
    elsewhere = in_limbs(specification, request)
    assert elsewhere is None or elsewhere.word == "int32"
    assert kernel != "thin" or elsewhere is not None
    engine.fused = False
    assert in_limbs(specification, request) is None
