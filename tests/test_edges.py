"""Arguments at the edges of what functions take: other dtypes, other scales, other shapes."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import multiword
import ozaki
from tests.oracle import same

BFLOAT16 = np.array([256, 1, 1, 1, 1], ml_dtypes.bfloat16)


def test_arrays_of_bfloat16_are_summed_exactly_and_stay_arrays():
    x = ozaki.array(BFLOAT16)
    assert x.sum() == ozaki.sum(BFLOAT16) == 260
    assert np.cumsum(x).tolist() == [256, 256, 258, 260, 260]  # bfloat16 has 8 bits
    assert isinstance(x + x, ozaki.array)
    with pytest.raises(TypeError, match="multiply"):
        ozaki.array(BFLOAT16, strict=True).prod()


def test_rounded_arrays_stay_arrays():
    assert ozaki.array([[1e16, 1.0, -1e16]]).round(1).sum() == 1
    rounded = ozaki.array([1.0], strict=True).round(1)
    with pytest.raises(TypeError, match="logaddexp2"):
        np.logaddexp2(rounded, rounded)


def test_arrays_without_axes_are_summed_over_their_last():
    x = ozaki.array(3.0)
    assert np.add.reduce(x) == x.sum(axis=0) == x.sum(axis=-1) == 3
    with pytest.raises(ValueError, match="axis 1"):
        x.sum(axis=1)


def test_a_second_variable_alone_is_not_transposed():
    x = np.array([[1.0, 2, 3], [4, 5, 7]])
    assert np.allclose(np.cov(ozaki.array(x.T), x[:1], rowvar=False), np.cov(x.T, x[:1], rowvar=False))


@pytest.mark.parametrize("exponents", [(520, 0), (-530, 0), (-700, 0), (-535, -535), (1000, -1000)])
def test_correlations_do_not_depend_on_the_scales(exponents):
    x = np.array([[1.0, -1, 0], [2, 1, 0]])
    assert ozaki.corrcoef(np.ldexp(x, np.array(exponents)[:, None])).tolist() == [[1, 0.5], [0.5, 1]]


def test_covariances_with_too_few_degrees_of_freedom_are_infinite():
    x = np.array([[1.0, 2, 4], [2, 1, 0]])
    assert ozaki.cov(x, ddof=5).tolist() == [[np.inf, -np.inf], [-np.inf, np.inf]]


@pytest.mark.parametrize(("subscripts", "shapes"), [("ii->", [(3, 1)]), ("ii,i->i", [(1, 3), (3,)])])
def test_a_diagonal_is_of_axes_of_one_length(subscripts, shapes):
    with pytest.raises(ValueError, match="two lengths"):
        ozaki.einsum(subscripts, *map(np.ones, shapes))


@pytest.mark.parametrize("optimize", [[(0, 0), (0, 1)], 3])
def test_a_path_that_is_none_is_refused(optimize):
    with pytest.raises(ValueError, match="optimize"):
        ozaki.einsum("ij,jk,kl->il", *[np.eye(2)] * 3, optimize=optimize)


@pytest.mark.parametrize(
    ("dtype", "initial"),
    [
        *((np.int64, np.nan), (np.uint8, -1), (np.int64, 2**63), (np.float64, complex(1, np.nan))),
        *((np.float64, 1j), (np.int64, 0.5), (np.float32, 0.1), (complex, 2**53 + 1), (np.complex64, 0.1)),
    ],
)
def test_an_initial_number_that_the_dtype_does_not_hold_is_refused(dtype, initial):
    with pytest.raises(TypeError, match="without loss"):
        ozaki.sum(np.ones(2, dtype), initial=initial)


@pytest.mark.filterwarnings("error")
def test_initial_numbers_have_the_shape_of_the_sums():
    x = np.ones((2, 3))
    assert ozaki.sum(np.zeros((3, 0)), axis=0, initial=1.0).shape == (0,)
    assert same(ozaki.sum(x, axis=1, keepdims=True, initial=np.array([[0.5], [1]])), np.array([[3.5], [4]]))
    assert same(ozaki.sum(x, axis=1, initial=np.array([0.5, 1])), np.array([3.5, 4]))
    assert np.isnan(ozaki.sum(x, initial=np.nan))
    assert same(ozaki.sum(x + 1j, initial=2**52 + 1), np.complex128(2**52 + 7 + 6j))
    with pytest.raises(ValueError, match="initial"):
        ozaki.sum(x, axis=1, initial=np.zeros(3))


@pytest.mark.parametrize("shape", [0, (2, 0), (0, 2)])
def test_groups_of_nothing(shape):
    leading = shape[:-1] if isinstance(shape, tuple) else ()
    total = ozaki.ExactSum(shape=shape).add_groups(np.zeros((*leading, 0)), np.zeros(0, int))
    assert total.round().shape == np.zeros(shape).shape


@pytest.mark.parametrize("chunks", [(0, 1), (0, 1, 0), (1, 0)])
def test_weights_with_empty_chunks(chunks):
    da = pytest.importorskip("dask.array")
    x, weights = da.from_array(np.arange(5.0)[:, None], chunks=2), da.from_array(np.ones(1), chunks=(chunks,))
    assert ozaki.average(x, axis=1, weights=weights).compute().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("workspace", [None, 40000])
def test_the_first_element_that_does_not_fit_is_named(workspace):
    a, b = np.zeros((200, 2), int), np.zeros((2, 200), int)
    a[0, 0] = a[1, 1] = 1
    b[0, 199], b[1, 0] = 300, 400
    with pytest.raises(OverflowError, match=r"\(0, 199\) of the product is 300") as raised:
        ozaki.matmul(a, b, dtype=np.uint8, workspace=workspace)
    assert raised.type is OverflowError


def test_correlations_are_exact_to_20_units():
    x = np.random.default_rng(0).standard_normal((3, 20))
    rows = [[Fraction(v) for v in row] for row in x.tolist()]
    means = [sum(row) / len(row) for row in rows]
    d = [[v - mean for v in row] for row, mean in zip(rows, means, strict=True)]
    found = ozaki.corrcoef(x)
    for i in range(3):
        for j in range(3):
            product = sum(p * q for p, q in zip(d[i], d[j], strict=True))
            squares = sum(p * p for p in d[i]) * sum(q * q for q in d[j])
            exact = float(product * abs(product) / squares)  # r·|r|
            assert abs(found[i, j] * abs(found[i, j]) - exact) <= 60 * 2.0**-53


def test_a_format_of_ones_own_is_rounded_to_by_its_numbers():
    precise = multiword.Format("x", 30, -1022, 1023, np.dtype(float))
    coarse = multiword.Format("fp16", 4, -6, 7, np.dtype(np.float16))
    assert multiword.round_to(np.array([1 + 2.0**-29, 1e200]), precise)[0] == 1 + 2.0**-29
    assert multiword.round_to(np.array([1e200]), precise)[0] == pytest.approx(1e200, rel=2.0**-30)
    assert multiword.round_to(np.array([1.3]), coarse)[0] == 1.25


def test_multiword_is_quiet_and_does_not_depend_on_what_numpy_raises():
    rng = np.random.default_rng(0)
    a = np.ldexp(rng.standard_normal((20, 30)), rng.integers(-140, 100, (20, 30))).astype(np.float32)
    special, tiny = np.float32([[np.inf, 1], [np.nan, 3]]), np.ldexp(a.astype(float), -100)
    with np.errstate(all="raise"):
        for scheme in ("double-fp16", "fast-fp16", "fp32", "triple-bf16", None):
            chosen = {"scheme": scheme} if scheme else {}
            multiword.matmul(a, a.T, **chosen)
            assert np.isnan(multiword.matmul(special, special, **chosen)[1, 0])
        multiword.from_complex(np.array([[1e300 + 1e-300j]]))
        words = multiword.split(a, "bf16", 3)
        multiword.join(words)
        multiword.round_to(tiny, "fp16")
        multiword.TensorCore().gemm(tiny, a.T, word="fp32")
        assert multiword.underflow_counts(special) == multiword.underflow_counts(np.float32([1, 3]))


def test_words_are_not_taken_for_short_sums():
    """Their errors would be larger than those of an fp32 product."""
    rng = np.random.default_rng(0)
    for k in (2, 3, 8, 33):
        a, b = (rng.standard_normal(s).astype(np.float32) for s in ((64, k), (k, 64)))
        exact, scale = a.astype(float) @ b, abs(a).astype(float) @ abs(b)
        error = abs(multiword.matmul(a, b, engine="tensorcore") - exact) / scale
        assert error.max() <= 1.1 * (abs(a @ b - exact) / scale).max() + 2.0**-24


@pytest.mark.parametrize("beta", ["", [], np.array([1.0, 2.0])], ids=str)
def test_beta_is_a_number(beta):
    with pytest.raises(TypeError, match="beta"):
        ozaki.accurate_dgemm(np.eye(2), np.eye(2), beta=beta, c=np.eye(2))


def test_options_are_refused_by_their_names():
    eye, half = np.eye(2), np.eye(2, dtype=np.float16)
    for call, error, name in (
        (lambda: ozaki.residual(eye, eye, eye, words=1.5), TypeError, "words"),
        (lambda: ozaki.matmul(np.eye(2, dtype=int), np.eye(2, dtype=int), mod=2.0), TypeError, "mod"),
        (lambda: ozaki.sum(np.ones((3, 4)), where=[True, False]), ValueError, "x and where must have shapes"),
        (lambda: ozaki.sum(np.ones(2), where=np.ones((2, 2), bool)), ValueError, "where must broadcast to x"),
        (lambda: ozaki.norm(eye, "nuc"), ValueError, "got 'nuc' over 2$"),
        (lambda: multiword.split(eye, words=2.0), TypeError, "words"),
        (lambda: multiword.batched_matmul(half, half, trans_a=1.0), ValueError, "trans_a"),
        (lambda: multiword.batched_matmul(half, half, alpha=1e5, accumulate="fp16"), ValueError, "alpha"),
        (lambda: multiword.from_complex(np.ones(2, complex)).mT, ValueError, "mT"),
    ):
        with pytest.raises(error, match=name):
            call()
