"""Single precision, complex products, stacks and prepared operands, against exact references."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ozaki
from multiword.engines import get_engine
from multiword.formats import FORMATS
from ozaki import accurate_cgemm, accurate_dgemm, accurate_sgemm, accurate_zgemm, matmul, prepare
from ozaki.arguments import request_of
from ozaki.product.pair import Pair
from ozaki.product.scale import scale
from tests.matrices import matrices
from tests.oracle import componentwise_error, real_products, rounded_product, same
from tests.test_dgemm import VARIANTS

pytestmark = pytest.mark.usefixtures("modular")

FP32 = FORMATS["fp32"]


def complex_matrices(kind, m, k, n, dtype=np.complex128):
    (a, b), (c, d) = matrices(kind, m, k, n, seed=1), matrices(kind, m, k, n, seed=2)
    return (a + 1j * c).astype(dtype), (b + 1j * d).astype(dtype)


@pytest.mark.parametrize("kind", ["uniform", "positive", "wide2", "wide6", "cancelling", "rows", "sparse"])
def test_single_precision(kind):
    a, b = matrices(kind, 20, 64, 15)
    if kind == "rows":
        a, b = (
            np.ldexp(np.sign(a) * 0.7, np.frexp(a)[1] // 10),
            np.ldexp(np.sign(b) * 0.6, np.frexp(b)[1] // 10),
        )
    a, b = a.astype(np.float32), b.astype(np.float32)
    exact = accurate_sgemm(a, b, accuracy="exact")
    assert same(exact, rounded_product(a, b, np.float32))
    result = accurate_sgemm(a, b)
    _, truncation = componentwise_error(result, a, b, FP32)
    native, _ = componentwise_error(a @ b, a, b, FP32)
    assert truncation <= min(native, ozaki.plan(a, b).bound)
    for variant in VARIANTS:
        assert same(accurate_sgemm(a, b, **variant), result)


def test_single_precision_overflow_and_subnormals():
    a = np.array([[3e38, 1e-30]], np.float32)
    b = np.array([[2.0, 1e-5], [0.0, 1e-15]], np.float32)
    assert same(accurate_sgemm(a, b, accuracy="exact"), rounded_product(a, b, np.float32))
    tiny, small = np.full((1, 1), 1e-30, np.float32), np.full((1, 1), 3.3e-15, np.float32)
    assert same(accurate_sgemm(tiny, small), rounded_product(tiny, small, np.float32))


@pytest.mark.parametrize("kind", ["uniform", "wide2", "wide6", "cancelling", "sparse"])
@pytest.mark.parametrize("face", [accurate_cgemm, accurate_zgemm])
def test_complex(kind, face):
    double = face is accurate_zgemm
    a, b = complex_matrices(kind, 9, 40, 11, np.complex128 if double else np.complex64)
    fmt = FORMATS["fp64" if double else "fp32"]
    exact, result, bound = face(a, b, accuracy="exact"), face(a, b), ozaki.plan(a, b).bound
    native = a @ b
    assert same(exact, rounded_product(a, b, a.dtype))
    for part, (x, y) in zip(("real", "imag"), real_products(a, b), strict=True):
        _, truncation = componentwise_error(getattr(result, part), x, y, fmt)
        of_native, _ = componentwise_error(getattr(native, part), x, y, fmt)
        assert truncation <= min(bound, of_native)
    for variant in VARIANTS:
        assert same(face(a, b, **variant), result)
    assert same(face(a, b, workspace=110_000), result)


def test_conjugate_transposes():
    a, b = complex_matrices("uniform", 6, 9, 5)
    expected = accurate_zgemm(a, b)
    assert same(accurate_zgemm(a.conj().T, b.conj().T, trans_a="C", trans_b="C"), expected)
    assert same(accurate_zgemm(a.T.copy(), b.T, trans_a=True, trans_b=True), expected)
    with pytest.raises(ValueError, match="'C'"):
        accurate_zgemm(a, b, trans_a="H")


def test_real_operands_in_complex_products():
    a, b = matrices("uniform", 5, 7, 4)
    result = accurate_zgemm(a, b)
    assert result.dtype == np.complex128
    assert not result.imag.any()
    assert np.array_equal(accurate_zgemm(a, b, accuracy="exact").real, accurate_dgemm(a, b, accuracy="exact"))


def test_complex_nonfinite():
    a, b = complex_matrices("uniform", 4, 6, 3)
    clean = accurate_zgemm(a, b)
    a[1, 2] = complex(np.inf, 0.5)
    b[3, 1] = complex(0.25, np.nan)
    result = accurate_zgemm(a, b)
    assert same(
        np.ascontiguousarray(result[[0, 2, 3]][:, [0, 2]]), np.ascontiguousarray(clean[[0, 2, 3]][:, [0, 2]])
    )
    signs = np.sign(a[1, 2].real) * np.sign(b[2].real), np.sign(b[2].imag)
    for j in (0, 2):
        assert result[1, j].real == signs[0][j] * np.inf
        assert result[1, j].imag == signs[1][j] * np.inf
    assert np.isnan(result[:, 1]).all()


def test_matmul_of_vectors_is_a_number():
    assert type(matmul(np.ones(3), np.ones(3))) is np.float64
    assert type(matmul(np.ones(3, np.complex64), np.ones(3, np.float32))) is np.complex64


@given(
    st.sampled_from([((3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 2)),
                     ((2, 1, 3, 4), (5, 4, 2)), ((0, 3, 4), (4, 2)), ((2, 3, 0), (0, 2)), ((2, 3, 4), (4,))]),
    st.sampled_from(["f4", "f8", "c8", "c16", "i4"]),
    st.sampled_from(["f4", "f8", "c8", "c16", "?"]),
)  # fmt: skip
def test_matmul_is_numpys(shapes, first, second):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 8, shape).astype(t) for shape, t in zip(shapes, (first, second), strict=True))
    expected = np.matmul(a.astype(np.result_type(a, np.float32) if a.dtype != np.float32 else a.dtype), b)
    result = matmul(a, b)
    assert result.shape == np.matmul(a, b).shape
    assert np.array_equal(result, expected)
    if {first, second} <= {"f4", "c8", "f8", "c16"}:
        assert result.dtype == np.result_type(a, b)


@pytest.mark.parametrize(("a", "b"), [((2, 3), (2, 3)), ((2, 3, 4), (3, 4, 2)), ((), (3, 3))])
def test_matmul_shapes_that_do_not_fit(a, b):
    with pytest.raises(ValueError, match=r"fit|broadcast|dimension"):
        matmul(np.ones(a), np.ones(b))


def test_prepared_operands_give_the_same_bits():
    a, b = matrices("uniform", 30, 400, 20)
    p, q = prepare(a), prepare(b.T, "right", trans=True)
    expected = accurate_dgemm(a, b)
    assert same(accurate_dgemm(p, b), expected)
    assert same(accurate_dgemm(p, q), expected)
    assert same(accurate_dgemm(p, 2 * b), 2 * expected)
    assert same(accurate_dgemm(p, q, accuracy="exact"), rounded_product(a, b))
    assert same(
        accurate_dgemm(p, matrices("wide20", 1, 400, 20)[1]),
        accurate_dgemm(a, matrices("wide20", 1, 400, 20)[1]),
    )
    with pytest.raises(ValueError, match="prepared as the left"):
        accurate_dgemm(a, p)
    with pytest.raises(ValueError, match="prepared"):
        accurate_sgemm(p, b)
    with pytest.raises(ValueError, match="side"):
        prepare(a, "middle")


@pytest.mark.parametrize(("kind", "accuracy"), [("uniform", "fp64"), ("wide2", "fp64"), ("uniform", "exact")])
def test_prepared_operands_are_split_once(kind, accuracy):
    a, b = matrices(kind, 30, 400, 20)
    expected = accurate_dgemm(a, b, accuracy=accuracy)
    p, q = prepare(a), prepare(b, "right")
    assert p.nbytes == 0
    request, seen = request_of(a, accuracy, "auto", None, "auto", None), []
    for right in (q, b, q):
        assert same(accurate_dgemm(p, right, accuracy=accuracy), expected)
        _, scaled, _ = scale(Pair(p.factor, q.factor, request))
        seen.append(
            [x.factor.cached_words(scaled.scheme, s) for x, s in zip((p, q), scaled.scales, strict=True)]
        )
    assert p.nbytes == seen[0][0].nbytes > 0
    assert all(x is y for words in seen for x, y in zip(words, seen[0], strict=True))


def test_fp32_accuracy_of_double_products_and_back():
    a, b = matrices("uniform", 12, 50, 9)
    loose = accurate_dgemm(a, b, accuracy="fp32")
    worst, _ = componentwise_error(loose, a, b)
    assert 2.0**-40 < worst <= ozaki.plan(a, b, accuracy="fp32").bound + 2.0**-52
    single = accurate_sgemm(a, b, accuracy="fp64")
    x, y = a.astype(np.float32), b.astype(np.float32)
    assert same(single, rounded_product(x, y, np.float32))


@pytest.mark.parametrize(("function", "digits"), [(accurate_dgemm, 53), (accurate_sgemm, 24)])
def test_integers_that_the_dtype_holds_are_exact_and_others_refused(function, digits):
    a, b = np.array([[2**digits, -1]]), np.array([[1], [1]])
    assert function(a, b, accuracy="exact")[0, 0] == 2**digits - 1
    with pytest.raises(TypeError, match=rf"a has integers.*beyond 2\*\*{digits}\)"):
        function(a + 1, b)


class Counting:
    """An engine of a user's own: the host's, with its calls counted."""

    name, padding = "counting", 8
    products = frozenset({"fp64", "int8"})

    def __init__(self):
        self.calls = 0

    def multiply(self, product, a, bt, *, out=None, alpha=1.0, beta=0.0):
        self.calls += 1
        return get_engine("host").multiply(product, a, bt, out=out, alpha=alpha, beta=beta)


def test_an_engine_of_ones_own_gives_the_same_bits():
    a, b = matrices("uniform", 30, 400, 20)
    engine = Counting()
    for options in ({}, {"word": "int8"}, {"scheme": "slices"}, {"accuracy": "exact"}):
        result = accurate_dgemm(a, b, engine=engine, **options)
        options.pop("word", None), options.pop("scheme", None)
        assert same(result, accurate_dgemm(a, b, **options))
    assert engine.calls > 4


def test_one_prepared_operand_in_many_threads():
    a, b = matrices("uniform", 40, 400, 30)
    p = prepare(a)
    wanted = {accuracy: accurate_dgemm(a, b, accuracy=accuracy) for accuracy in ("fp64", "fp32", "exact", 30)}
    with ThreadPoolExecutor(4) as pool:
        tasks = [(x, pool.submit(accurate_dgemm, p, b, accuracy=x)) for x in list(wanted) * 8]
        for accuracy, task in tasks:
            assert same(task.result(), wanted[accuracy])
