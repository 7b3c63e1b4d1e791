"""What the public products accept, and what they say of the rest."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

import multiword
import ozaki
from multiword.engines.moduli import _system, residue_system
from tests.matrices import matrices
from tests.oracle import rounded_product, same

BIG = 2**53 + 1


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def xp(request):
    return pytest.importorskip(request.param)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("accuracy", ["exact", "fp64", 60])
def test_integers_are_never_rounded_in_silence(xp, accuracy, dtype):
    b = xp.asarray([[1], [2]], dtype)
    with pytest.raises(TypeError, match=r"a has integers that float64 cannot hold exactly.*astype"):
        ozaki.accurate_dgemm(xp.asarray([[BIG, 2**53]], dtype), b, accuracy=accuracy)
    with pytest.raises(TypeError, match="b has integers"):
        ozaki.matmul(xp.ones((1, 1), dtype), xp.asarray([[BIG]], dtype), accuracy=accuracy)
    with pytest.raises(TypeError, match="c has integers"):
        ozaki.accurate_dgemm(b, b.T, beta=1.0, c=xp.full((2, 2), BIG, dtype))
    for limit in (np.iinfo(dtype).max, np.iinfo(dtype).max - 1):
        with pytest.raises(TypeError, match="a has integers"):
            ozaki.accurate_dgemm(xp.asarray([[limit, 1]], dtype), b, accuracy=accuracy)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_float64_holds_are_exact(xp, dtype):
    a = np.array([[2**53, 3 << 60, 2**62], [1, 2**53 - 1, 0]], dtype)
    b = np.array([[1, 2], [5, 1], [3, 2**40]], dtype)
    found = ozaki.accurate_dgemm(xp.asarray(a), xp.asarray(b), accuracy="exact")
    exact = a.astype(object).dot(b.astype(object))
    assert (found if xp is np else found.get()).tolist() == [[float(x) for x in row] for row in exact]


def test_numbers_out_of_single_precisions_range(xp):
    with pytest.raises(ValueError, match="a has numbers out of the range of float32"):
        ozaki.accurate_sgemm(xp.asarray([[1e39]]), xp.ones((1, 1)))
    with pytest.raises(ValueError, match="b has numbers out of the range of complex64"):
        ozaki.accurate_cgemm(xp.ones((1, 1)), xp.asarray([[-1e39]]))
    with pytest.raises(TypeError, match=r"a has integers that float32 cannot hold.*2\*\*24"):
        ozaki.accurate_sgemm(xp.asarray([[2**24 + 1]], np.int32), xp.ones((1, 1)))
    found = ozaki.accurate_sgemm(xp.asarray([[np.inf, 1e-50]]), xp.ones((2, 1)))
    assert float(found[0, 0]) == np.inf


def test_prepared_operands_in_matmul(xp):
    a, b = (xp.asarray(x) for x in matrices("uniform", 5, 8, 6))
    p, q = ozaki.prepare(a), ozaki.prepare(b, "right")
    assert repr(p) == "Operand(left, 5 x 8, float64, not split yet)"
    assert (p.shape, q.side, q.dtype) == ((5, 8), "right", "float64")
    for x, y in ((p, b), (a, q), (p, q)):
        assert bool((ozaki.matmul(x, y) == ozaki.accurate_dgemm(a, b)).all())
    with pytest.raises(ValueError, match="not stacks"):
        ozaki.matmul(p, b[None])
    with pytest.raises(ValueError, match="inner dimensions differ"):
        ozaki.matmul(p, b[1:])


def test_alpha_may_be_any_number(xp):
    a, b = (xp.asarray(x) for x in matrices("uniform", 3, 4, 2))
    expected = ozaki.accurate_dgemm(a, b, alpha=2.0**70)
    for alpha in (2**70, np.array(2.0**70), np.float32(2.0**70)):
        assert bool((ozaki.accurate_dgemm(a, b, alpha=alpha) == expected).all())
    for alpha in ("1", np.ones(1), None, np.array("x")):
        with pytest.raises(TypeError, match="alpha must be a number"):
            ozaki.accurate_dgemm(a, b, alpha=alpha)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_every_nan_has_one_bit_pattern(xp, dtype):
    real = np.dtype(dtype).type(0).real.dtype
    pattern = np.uint64 if real == np.float64 else np.uint32
    odd = np.array(-1, pattern.__name__.replace("u", "")).view(real)  # negative, with a payload
    a, c = np.ones((3, 3), dtype), np.full((3, 3), 2, dtype)
    a.real[1, 1], c.real[2, 0] = odd, odd
    letter = {"float64": "d", "float32": "s", "complex128": "z", "complex64": "c"}[dtype]
    gemm = getattr(ozaki, f"accurate_{letter}gemm")
    for options in ({}, {"alpha": -3.0}, {"alpha": np.nan}, {"beta": -1.0, "c": xp.asarray(c)}):
        with np.errstate(all="ignore"):
            found = gemm(xp.asarray(a), xp.asarray(a), **options)
        numbers = (found if xp is np else found.get()).view(real)
        patterns = {int(x) for x in numbers[np.isnan(numbers)].view(pattern)}
        assert patterns == {int(np.array(np.nan, real).view(pattern))}, options


def test_a_warning_says_what_data_cost(xp):
    n = 64
    i = np.arange(n)
    kernel = xp.asarray(np.exp(-((i[:, None] - i) ** 2) / 2.0))
    with pytest.warns(ozaki.CostWarning, match=r"takes \d+ \w+ products where \d+ are usual") as caught:
        ozaki.accurate_dgemm(kernel, kernel, accuracy="exact")
    assert caught[0].filename == __file__
    a, b = (xp.asarray(x) for x in matrices("uniform", n, n, n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ozaki.accurate_dgemm(a, b)
        ozaki.accurate_dgemm(a, b, accuracy="exact")
        ozaki.accurate_dgemm(kernel, kernel, accuracy=1000)  # which was asked for


def test_systems_are_not_kept_without_end():
    for bits in np.arange(40.0, 300.0, 0.05):
        residue_system("fp64", float(bits), 1024)
    assert _system.cache_info().currsize <= 512


def test_integers_and_floats_of_all_sizes_multiply_as_they_are():
    rng = np.random.default_rng(0)
    for dtype in (bool, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.float16):
        a, b = (rng.integers(0, 2 if dtype is bool else 100, s).astype(dtype) for s in ((4, 9), (9, 3)))
        expected = rounded_product(a.astype(float), b.astype(float))
        assert same(ozaki.matmul(a, b).astype(np.float64), expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_subnormal_numbers_of_any_dtype_count(xp, dtype):
    a = np.array([[1e-40, -3e-41]], np.float32)
    b = np.array([[1e30], [2e30]])
    expected = rounded_product(a.astype(float), b)
    for x in (a, a.astype(np.complex64)):
        found = ozaki.accurate_zgemm(xp.asarray(x), xp.asarray(b.astype(dtype)), accuracy="exact")
        assert (
            complex(found[0, 0]) == rounded_product(a.astype(float), b.astype(dtype).real.astype(float))[0, 0]
        )
    assert expected[0, 0] > 0


MASKED = np.ma.masked_equal([1.0, 2.0], 2.0)

LISTS = {
    "masked": ([*MASKED], "masked elements"),
    "masked, within": ([[1.0, 3.0], MASKED], "masked elements"),
    "None": ([1.0, None], "None"),
    "text": ([1.0, "2"], "str"),
    "integers among floats": ([2**53 + 1, 0.5], "cannot hold exactly"),
    "integers deep among floats": ([[2**53 + 1, 1], [0.5, 1]], "cannot hold exactly"),
    "arrays of integers": ([np.array([2**53 + 1, 1]), np.array([0.5, 1])], "cannot hold exactly"),
    "NumPy's integers": ([np.int64(2**53 + 1), 0.5], "cannot hold exactly"),
    "both signs": ([2**63 + 1, -1], "cannot hold exactly"),
    "complex": ([2**53 + 1, 1j], "cannot hold exactly"),
}


@pytest.mark.parametrize(("x", "message"), LISTS.values(), ids=LISTS)
def test_what_lists_hold_is_looked_at(x, message):
    column = np.ones((2, 1))
    for name, call in (
        ("x", lambda: ozaki.sum(x)),
        ("array", lambda: ozaki.ExactSum("complex128").add(x)),
        ("a", lambda: ozaki.accurate_zgemm(x, column)),
        ("b", lambda: ozaki.matmul(column.T, x)),
    ):
        with pytest.raises(TypeError, match=rf"\b{name}\b.*{message}|{message}.*\b{name}\b"):
            call()


def test_lists_that_lose_nothing():
    assert ozaki.sum([2**53 + 1, -(2**53)]) == 1
    assert ozaki.sum([2**60, 0.5, -(2**60), True]) == 1.5
    assert ozaki.sum([np.float32(0.1), 1]) == 1 + float(np.float32(0.1))
    assert ozaki.sum([np.ones(2), [np.ma.array([1.0]), 2.0]][:1]) == 2
    with pytest.raises(ValueError, match="x must be sequences of equal lengths"):
        ozaki.sum([[1.0], [1.0, 2.0]])


ONE = np.ones((1, 1))
WRONG_OPTIONS = {
    "alpha too large": (lambda: ozaki.accurate_sgemm(ONE, ONE, alpha=1e300), ValueError, "alpha .*range"),
    "alpha huge": (lambda: ozaki.accurate_dgemm(ONE, ONE, alpha=10**400), ValueError, "alpha .*range"),
    "alpha rounded": (lambda: ozaki.accurate_dgemm(ONE, ONE, alpha=2**53 + 1), TypeError, "alpha .*exactly"),
    "beta rounded": (
        lambda: ozaki.accurate_cgemm(ONE, ONE, beta=2**24 + 1, c=ONE),
        TypeError,
        "beta .*exactly",
    ),
    "c alone": (lambda: ozaki.accurate_dgemm(ONE, ONE, c=ONE), ValueError, "c is given.*add beta"),
    "trans None": (lambda: ozaki.accurate_dgemm(ONE, ONE, trans_a=None), ValueError, "trans_a must be"),
    "trans empty": (lambda: ozaki.accurate_dgemm(ONE, ONE, trans_b=""), ValueError, "trans_b must be"),
    "trans list": (lambda: ozaki.accurate_dgemm(ONE, ONE, trans_b=[]), ValueError, "trans_b must be"),
    "trans of prepare": (lambda: ozaki.prepare(ONE, trans=None), ValueError, "trans must be"),
    "workspace float": (lambda: ozaki.matmul(ONE, ONE, workspace=1.5), TypeError, "workspace must be an int"),
    "workspace zero": (lambda: ozaki.matmul(ONE, ONE, workspace=0), ValueError, "workspace must be positive"),
    "axis text": (lambda: ozaki.sum(ONE, axis="0"), TypeError, "axis must be an integer"),
    "axis list": (lambda: ozaki.mean(ONE, axis=[0, 1]), TypeError, "axis must be an integer"),
    "axis float": (lambda: ozaki.cumsum(ONE, axis=1.0), TypeError, "axis must be an integer"),
    "ddof infinite": (lambda: ozaki.var(ONE, ddof=np.inf), TypeError, "ddof must be a finite number"),
    "engine gpu": (
        lambda: ozaki.matmul(ONE, ONE, engine="gpu"),
        ValueError,
        "engine 'gpu'.*cublas is that of",
    ),
    "a at prepare": (lambda: ONE @ ozaki.prepare(ONE), TypeError, r"ozaki.matmul\(a, b\)"),
    "prepare at a": (lambda: ozaki.prepare(ONE) @ ONE, TypeError, r"ozaki.matmul\(a, b\)"),
    "accuracy digits": (lambda: ozaki.matmul(ONE, ONE, accuracy="３"), ValueError, "accuracy must be"),
    "accuracy text": (lambda: ozaki.matmul(ONE, ONE, accuracy="33"), ValueError, "accuracy must be"),
}


@pytest.mark.parametrize(("call", "error", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_messages_name_the_option(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_ddof_is_never_rounded():
    assert ozaki.var([0.0, 1.0], ddof=2 - Fraction(1, 10**20)) == 0.5e20
    assert ozaki.var([0.0, 1.0], ddof=10**400) == np.inf


def test_an_addend_is_read_where_its_factor_underflows():
    found = ozaki.accurate_sgemm(ONE, ONE, beta=1e-300, c=[[np.nan]])
    assert np.isnan(found).all()
    assert ozaki.accurate_dgemm(ONE, ONE, beta=0.0, c=[[np.nan]]) == 1


@pytest.mark.parametrize("strides", [(8, 8), (0, 8), (4, 8), (8, 16)])
def test_out_that_overlaps_itself_is_refused(strides):
    out = np.lib.stride_tricks.as_strided(np.zeros(12), (3, 3), strides)
    with pytest.raises(ValueError, match="out must have memory for each element"):
        ozaki.accurate_dgemm(np.eye(3), np.eye(3), out=out)
    with pytest.raises(ValueError, match="out must have memory for each element"):
        ozaki.sum(np.ones((3, 3, 2)), axis=2, out=out)


NO_INTEGERS = {
    "k": lambda: ozaki.sum_k(np.ones(3), "2"),
    "words": lambda: multiword.matmul(np.eye(2, dtype="f"), np.eye(2, dtype="f"), words="2"),
    "block": lambda: multiword.matmul(np.eye(2, dtype="f"), np.eye(2, dtype="f"), block="x"),
    "workers": lambda: multiword.TensorCore(workers=1.5),
    "k ": lambda: multiword.error_bound("10"),
    "confidence": lambda: multiword.error_bound(10, kind="probabilistic", confidence="x"),
}


@pytest.mark.parametrize("name", NO_INTEGERS)
def test_options_that_are_no_numbers_are_named(name):
    with pytest.raises(TypeError, match=f"^{name.strip()} must be a"):
        NO_INTEGERS[name]()
