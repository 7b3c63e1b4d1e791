"""accurate_dgemm on the host: exact references, one set of bits, bad input."""

import os
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.runtime import parallel
from ozaki import accurate_dgemm
from ozaki.slices.integer import slice_system
from ozaki.tuning import PAIRS_AT_ONCE
from tests import golden
from tests.cells import cells
from tests.fuzz.fixed import check_family
from tests.matrices import GOLDEN, KINDS, long_rows, matrices
from tests.oracle import componentwise_error, exact_product, nearest, rounded_product, same

pytestmark = pytest.mark.usefixtures("modular")

VARIANTS = [
    {"scheme": "residues", "word": "fp64"},
    {"scheme": "residues", "word": "int8"},
    {"scheme": "slices", "word": "fp64"},
    {"scheme": "slices", "word": "int8"},
    {"scheme": "slices", "word": "fp16"},
    {"engine": "modular"},
]


@pytest.mark.parametrize("kind", KINDS)
def test_exact_is_correctly_rounded(kind):
    a, b = matrices(kind, 7, 68, 61)
    assert same(accurate_dgemm(a, b, accuracy="exact"), rounded_product(a, b))


SCALED_BACK = {"underflow": (520, 525), "subnormal": (1040, -3), "huge": (-1020, -4)}
"""The powers of two that take the operands of some kinds back to where nothing underflows or overflows."""


@cells(kind=KINDS, shape=[(7, 68, 61), (40, 256, 30), (3, 5, 4), (20, 2, 20)])
def test_fp64_is_certified_and_at_least_as_accurate_as_matmul(kind, shape):
    a, b = matrices(kind, *shape, seed=7)
    if kind in SCALED_BACK:  # errors of underflow and overflow do not scale with |A||B|
        a, b = (np.ldexp(x, e) for x, e in zip((a, b), SCALED_BACK[kind], strict=True))
    result = accurate_dgemm(a, b)
    bound = ozaki.plan(a, b).bound
    _, truncation = componentwise_error(result, a, b)
    native, _ = componentwise_error(a @ b, a, b)
    assert truncation <= bound
    assert truncation <= native
    assert bound <= 2.0**-53 * max(1, shape[1])


@pytest.mark.parametrize("shape", [(7, 68, 61), (3, 5, 4)], ids=str)
@pytest.mark.parametrize("kind", SCALED_BACK)
def test_results_that_underflow_or_overflow_are_those_of_scaled_operands_rounded_once(kind, shape):
    a, b = matrices(kind, *shape, seed=7)
    e, f = SCALED_BACK[kind]
    got, scaled = accurate_dgemm(a, b), accurate_dgemm(np.ldexp(a, e), np.ldexp(b, f))
    with np.errstate(over="ignore"):
        if kind != "underflow":
            assert same(got, np.ldexp(scaled, -e - f))
    # The integers are the same, so this is its one rounding: to a multiple of 2**-1074 where it is subnormal.
    bound = Fraction(ozaki.plan(a, b).bound)
    (whole, unit), (magnitude, _) = exact_product(a, b), exact_product(np.abs(a), np.abs(b))
    for v, w, x in zip(whole.ravel(), magnitude.ravel(), got.ravel(), strict=True):
        exact, error = Fraction(v) * Fraction(2) ** unit, bound * Fraction(w) * Fraction(2) ** unit
        assert nearest(exact - error) <= x <= nearest(exact + error)


@pytest.mark.whole
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(v.values()))
@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name, variant):
    kind, shape, accuracy = GOLDEN[name]
    a, b = matrices(kind, *shape)
    assert ozaki.fingerprint(accurate_dgemm(a, b, accuracy=accuracy, **variant)) == golden.load()[name]


@pytest.mark.parametrize("kind", ["uniform", "wide6", "sparse"])
def test_layouts_panels_and_threads_do_not_show(kind):
    a, b = matrices(kind, 70, 130, 90)
    expected = accurate_dgemm(a, b)
    variants = {
        "fortran": accurate_dgemm(np.asfortranarray(a), np.asfortranarray(b)),
        "transposed": accurate_dgemm(a.T.copy(), b.T.copy(), trans_a=True, trans_b=True),
        "reversed": accurate_dgemm(a[::-1, ::-1], b[::-1, ::-1])[::-1, ::-1],
        "strided": accurate_dgemm(np.repeat(a, 2, axis=1)[:, ::2], np.repeat(b, 3, axis=0)[::3]),
    }
    for limit in (1 << 20, 600_000):
        variants[f"workspace {limit}"] = accurate_dgemm(a, b, workspace=limit)
        assert ozaki.plan(a, b, workspace=limit).workspace <= limit
    for name, result in variants.items():
        assert same(np.ascontiguousarray(result), expected), name
    with parallel.at_most(1):
        assert same(accurate_dgemm(a, b), expected)


@pytest.mark.parametrize(
    ("kind", "accuracy"), [("uniform", "fp64"), *((k, x) for k in ("wide6", "sparse") for x in ("exact", 40))]
)
def test_rows_alone_have_the_bits_of_the_whole(kind, accuracy):
    """For "fp64" only where the certificate widens no integers, here or there."""
    a, b = matrices(kind, 70, 130, 90)
    parts = [accurate_dgemm(a[i : i + 13], b, accuracy=accuracy) for i in range(0, 70, 13)]
    assert same(np.concatenate(parts), accurate_dgemm(a, b, accuracy=accuracy))


def test_powers_of_two_and_permutations_pass_through():
    a, b = matrices("wide6", 30, 80, 25)
    expected = accurate_dgemm(a, b)
    assert same(accurate_dgemm(a * 2.0**-37, b * 2.0**11), expected * 2.0**-26)
    rng = np.random.default_rng(3)
    rows, columns, inner = rng.permutation(30), rng.permutation(25), rng.permutation(80)
    assert same(accurate_dgemm(a[rows][:, inner], b[inner][:, columns]), expected[rows][:, columns])


def test_long_inner_dimension_on_int8():
    a, b = long_rows()
    expected = accurate_dgemm(a, b, accuracy="exact")
    assert same(accurate_dgemm(a, b, accuracy="exact", word="int8"), expected)
    assert same(expected, rounded_product(a, b))


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("m", [0, 1, 3])
def test_empty_and_tiny(m, k):
    result = accurate_dgemm(np.full((m, k), 3.0), np.full((k, 2), 0.1))
    assert same(result, np.full((m, 2), 3.0 * 0.1 if k else 0.0))


def test_nonfinite_rows_and_columns():
    a, b = matrices("uniform", 6, 20, 5)
    b[3, 4], b[4:6] = 0.0, np.abs(b[4:6])
    clean = accurate_dgemm(a, b)
    a[1, 3], a[2, 4], a[2, 5] = np.inf, np.inf, -np.inf
    b[7, 2] = np.nan
    with np.errstate(invalid="ignore"):
        native = a @ b
    result = accurate_dgemm(a, b)
    bad = ~np.isfinite(native)
    assert np.array_equal(result[bad], native[bad], equal_nan=True)
    untouched = np.ix_([0, 3, 4, 5], [0, 1, 3, 4])
    assert same(result[untouched], clean[untouched])
    assert np.isnan(result[1, 4])  # Inf times zero
    assert np.isnan(result[2]).all()  # both infinities


def test_infinities_do_not_depend_on_finite_overflow():
    a = np.array([[1e308, 1e308, np.inf], [1e308, -1e308, -np.inf]])
    b = np.full((3, 1), 1e308)
    assert same(accurate_dgemm(a, b), np.array([[np.inf], [-np.inf]]))


def test_alpha_beta_c_and_out():
    a, b = matrices("uniform", 5, 9, 4)
    c = np.arange(20.0).reshape(5, 4) / 3
    product = accurate_dgemm(a, b)
    assert same(accurate_dgemm(a, b, alpha=0.3, beta=-1.7, c=c), 0.3 * product + -1.7 * c)
    assert same(accurate_dgemm(a, b, beta=0.0, c=np.full((5, 4), np.nan)), product)
    out = np.zeros((10, 8))[::2, ::2]
    assert accurate_dgemm(a, b, out=out) is out
    assert same(np.ascontiguousarray(out), product)
    square = accurate_dgemm(a.T, a.T.T)
    alias = np.ascontiguousarray(a.T @ a)
    accurate_dgemm(a, a, trans_a=True, out=alias)
    assert same(alias, square)


def test_integers_booleans_lists_and_float32_are_promoted():
    assert accurate_dgemm([[1, 2]], [[3], [4]])[0, 0] == 11.0
    assert accurate_dgemm(np.ones((2, 3), bool), np.ones((3, 1), np.int8))[0, 0] == 3.0
    x = np.float32(0.1) * np.ones((1, 1), np.float32)
    assert accurate_dgemm(x, x)[0, 0] == float(np.float32(0.1)) ** 2


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((np.ones((2, 3)), np.ones((2, 3))), {}, ValueError, "inner dimensions differ"),
        ((np.ones(3), np.ones((3, 3))), {}, ValueError, "a must be a matrix"),
        ((np.ones((3, 3)), np.ones((3, 3), complex)), {}, TypeError, "b must be real"),
        ((np.array([["x"]]), np.ones((1, 1))), {}, TypeError, "a must be a numeric"),
        ((np.array([[None]]), np.ones((1, 1))), {}, TypeError, "a must be a numeric"),
        ((np.eye(2), np.eye(2)), {"accuracy": "fp128"}, ValueError, "accuracy"),
        ((np.eye(2), np.eye(2)), {"accuracy": True}, ValueError, "accuracy"),
        ((np.eye(2), np.eye(2)), {"accuracy": 0}, ValueError, "accuracy"),
        ((np.eye(2), np.eye(2)), {"accuracy": 2.5}, ValueError, "accuracy"),
        ((np.eye(2), np.eye(2)), {"scheme": "karatsuba"}, ValueError, "scheme"),
        ((np.eye(2), np.eye(2)), {"word": "fp8"}, ValueError, "fp8"),
        ((np.eye(2), np.eye(2)), {"engine": "tpu"}, ValueError, "engine"),
        ((np.eye(2), np.eye(2)), {"alpha": None}, TypeError, "alpha must be a number"),
        ((np.eye(2), np.eye(2)), {"alpha": "2"}, TypeError, "alpha must be a number"),
        ((np.eye(2), np.eye(2)), {"beta": 1j, "c": np.eye(2)}, TypeError, "beta must be real"),
        ((np.eye(2), np.eye(2)), {"beta": 1.0}, ValueError, "c must be given"),
        ((np.eye(2), np.eye(2)), {"beta": 1.0, "c": np.eye(3)}, ValueError, "c must be"),
        ((np.eye(2), np.eye(2)), {"beta": 1.0, "c": 1j * np.eye(2)}, TypeError, "c must be real"),
        ((np.ma.masked_equal(np.eye(2), 0), np.eye(2)), {}, TypeError, "a has masked elements"),
        ((np.eye(2), np.eye(2)), {"out": np.eye(3)}, ValueError, "out must be"),
        ((np.eye(2), np.eye(2)), {"out": [[0, 0], [0, 0]]}, TypeError, "out must be a NumPy or CuPy array"),
        ((np.eye(2), np.eye(2)), {"out": np.eye(2, dtype=np.float32)}, TypeError, "out must be"),
    ],
)
def test_bad_input_says_what_is_wrong(arguments, options, error, message):
    with pytest.raises(error, match=message):
        accurate_dgemm(*arguments, **options)


def test_overflow_of_alpha_and_beta_needs_no_warning():
    c = np.full((2, 2), 1.5e308)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = accurate_dgemm(np.eye(2), np.eye(2), alpha=-1.5e308, beta=-1.0, c=c)
    assert same(result, np.where(np.eye(2) == 1, -np.inf, -c))


def test_too_little_workspace_is_a_memory_error_with_sizes():
    a, b = matrices("uniform", 200, 200, 200)
    with pytest.raises(MemoryError, match=r"needs \d+ bytes .* limit is 1000"):
        accurate_dgemm(a, b, workspace=1000)


@pytest.mark.parametrize("exponents", [(254, -1060), (-1060, 254), (900, -1070), (1000, -1050)], ids=str)
def test_subnormal_operands_of_ordinary_products(exponents):
    a, b = (np.ldexp(x, e) for x, e in zip(matrices("uniform", 3, 300, 4), exponents, strict=True))
    c = accurate_dgemm(a, b)
    assert all(same(c, accurate_dgemm(a, b, **variant)) for variant in VARIANTS)
    assert componentwise_error(c, a, b)[1] <= ozaki.plan(a, b).bound


@pytest.mark.parametrize("k", [2, 3, 4, 8, 9])
def test_integers_of_54_and_55_bits_and_the_largest_moduli(k):
    rng = np.random.default_rng(k)
    a = np.ones((100, k))
    a[:, 1] = rng.integers(int(0.99 * 2**53), int(0.9993 * 2**53), len(a)) * 4.0
    a[::2, 1] /= 2
    b = np.full((k, 1), float(2**22 - 1))
    b[1] = 1
    assert same(accurate_dgemm(a, b, accuracy="exact"), rounded_product(a, b))
    assert same(accurate_dgemm(b.T, a.T, accuracy="exact"), rounded_product(b.T, a.T))


@pytest.mark.parametrize("width", [900, 1090, 1110, 2060, 2075])
def test_the_bound_of_a_wide_product_that_loses_a_column(width):
    a, b = np.array([[2.0**1000, 3 * 2.0**-1070]]), np.array([[0.0], [1.0]])
    lost = accurate_dgemm(a, b, accuracy=width)[0, 0] != a[0, 1]
    assert (ozaki.plan(a, b, accuracy=width).bound >= 1) == lost


@pytest.mark.parametrize("width", [50, 60, 80, 200, 1074, 1100, 1200, 2070])
def test_bounds_of_wide_products_are_bounds(width):
    far = np.array([[2.0**1000, -(2.0**1000), 2.0**-1000]]), np.ones((3, 1))
    (a, b), bound = far, ozaki.plan(*far, accuracy=width).bound
    assert bound > 0 or accurate_dgemm(a, b, accuracy=width)[0, 0] == 2.0**-1000
    for seed in range(3):
        a, b = matrices("uniform", 5, 30, 4, seed=seed)
        a[0, 3] = 1 / 3
        bound = Fraction(ozaki.plan(a, b, accuracy=width).bound)
        assert bound <= Fraction(2) ** max(30 - width, -1074)
        c = accurate_dgemm(a, b, accuracy=width)
        for i, j in np.ndindex(5, 4):
            terms = [Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True)]
            error = abs(Fraction(float(c[i, j])) - sum(terms))
            assert error <= bound * sum(map(abs, terms)) + abs(sum(terms)) / 2**53


def test_the_second_stage_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(5)

    def graded(rows):
        shape = (rows, 2)
        small = rng.standard_normal(shape) * 2.0 ** -rng.integers(20, 50, shape)
        return np.c_[rng.uniform(1, 2, (rows, 1)).repeat(2, 1), small]

    rows = 2 * PAIRS_AT_ONCE // 400
    a, b = graded(rows), graded(400).T.copy()
    b[1] *= -1
    a[0], b[:, 0], a[1, 3] = [2.0**-20 / 3, 1.1, 2.0**-20 / 7, 2.0**-20 / 9], [1 / 3, 0, 0, 0], 0
    order = np.r_[0, 2:rows, 1]
    assert same(accurate_dgemm(a, b)[order], accurate_dgemm(a[order], b))
    assert same(accurate_dgemm(a, b), accurate_dgemm(b.T, a.T).T)


@pytest.mark.parametrize("word", [pytest.param("fp64", marks=pytest.mark.slow), "int8", "fp16"])
def test_sums_of_slices_fit_their_integers(word):
    d = 2**20 - 1
    system = slice_system(word, (60, 60), k := 6 << 20)
    assert 2 * k * min(system.counts) * 4 ** (system.bits - 1) < 2**62
    if word == "fp64":
        a = np.full((1, k), float((512 << 42) | (d << 21) | d))
        c = accurate_dgemm(a, a.T, accuracy="exact", scheme="slices", word=word)
        assert c[0, 0] == float(k * int(a[0, 0]) ** 2)


class NoRoom:
    """An engine of a user's own that never has memory."""

    name, padding, products = "no room", 1, frozenset({"fp64"})

    def multiply(self, *operands, **options):
        raise MemoryError("no room for the product")


def test_no_memory_at_all_is_a_memory_error():
    with pytest.raises(MemoryError, match=r"needs \d+ bytes"):
        accurate_dgemm(np.eye(2), np.eye(2), engine=NoRoom())


def test_long_products_in_a_small_workspace():
    a, b = matrices("uniform", 4, 1 << 17, 3)
    assert same(accurate_dgemm(a, b, workspace=1 << 20), accurate_dgemm(a, b))


def test_a_forked_process_multiplies():
    source = """
import os, numpy as np, ozaki
x = np.ones((300, 600))
ozaki.matmul(x, x.T)
if child := os.fork():
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(int((ozaki.matmul(x, x.T) != 600).any()))
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", source], env=environment, timeout=60, check=False)
    assert done.returncode == 0


def test_inputs_are_not_written_to():
    a, b = matrices("wide20", 9, 30, 8)
    before = a.tobytes(), b.tobytes()
    a.setflags(write=False)
    b.setflags(write=False)
    accurate_dgemm(a, b)
    accurate_dgemm(a, b, accuracy="exact", scheme="slices")
    assert (a.tobytes(), b.tobytes()) == before


@pytest.mark.parametrize("family", ["gemm, exact", "gemm, same bits", "gemm, certified", "gemm, Inf and NaN"])
def test_any_product_is_what_is_promised(family):
    check_family(family, cases=20)


@pytest.mark.parametrize("width", [20, 40, 60])
@pytest.mark.parametrize("kind", ["uniform", "wide2", "graded", "sparse"])
def test_a_width_in_bits_is_certified_too(kind, width):
    a, b = matrices(kind, 12, 50, 10)
    _, truncation = componentwise_error(accurate_dgemm(a, b, accuracy=width), a, b)
    assert truncation <= ozaki.plan(a, b, accuracy=width).bound
