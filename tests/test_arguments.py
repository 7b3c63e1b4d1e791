"""What the public products accept, and what they say of the rest."""

import warnings

import numpy as np
import pytest

import ozaki
from ozaki.residues.system import _system, residue_system
from tests.cases import matrices
from tests.exact import same
from tests.fuzz.rational import rounded_product

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
