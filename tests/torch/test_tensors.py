"""Tensors in, tensors out: every public function on PyTorch's tensors."""

import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
from tests.reductions import ONE_ARRAY  # noqa: E402
from tests.torch.test_mode import random, same_bits  # noqa: E402

UNARY = ["cumsum", *ONE_ARRAY]
BINARY = [
    "accurate_dgemm",
    "accurate_zgemm",
    "dot",
    "matmul",
    "mukunoki_dgemm",
    "two_product",
    "two_sum",
    "vdot",
]


def as_tensor(x):
    return torch.from_numpy(np.asarray(x))


def alike(ours, expected):
    if isinstance(expected, tuple | list):
        return all(map(alike, ours, expected))
    return isinstance(ours, torch.Tensor) and same_bits(ours, as_tensor(expected))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_results_are_tensors_with_the_same_bits(name):
    function = getattr(ozaki, name)
    x = [random(5, 5, seed=i) for i in range(2 if name in BINARY else 1)]
    views = (lambda t: t[0], lambda t: t[:, 0]) if name == "dot" else (lambda t: t, lambda t: t.mT)
    for view in views:
        tensors = [view(t) for t in x]
        assert alike(function(*tensors), function(*(t.numpy() for t in tensors)))


@pytest.mark.parametrize("name", ["acc_sum", "near_sum", "sum_k"])
def test_textbook_sums(name):
    x = random(9)
    expected = getattr(ozaki, name)(x.numpy())
    assert float(getattr(ozaki, name)(x)) == float(expected)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.complex64, torch.int32]
)
def test_dtypes(dtype):
    x = random(7).mul(9).to(dtype)
    result = ozaki.sum(x)
    assert result.dtype is (torch.int64 if dtype is torch.int32 else dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    assert result == x.to(wide).sum().to(result.dtype)


def test_conjugate_and_negative_views():
    x = random(4, dtype=torch.complex128)
    assert ozaki.sum(x.conj()) == ozaki.sum(x).conj()
    assert ozaki.sum(x.conj().imag) == -ozaki.sum(x).imag


def test_memory_is_shared():
    out = torch.empty(3, dtype=torch.float64)
    assert ozaki.sum(random(2, 3), 0, out=out) is out
    assert same_bits(out, ozaki.sum(random(2, 3), 0))
    assert ozaki.sum(random(2, 3), dtype=torch.float32).dtype is torch.float32


def test_products_are_written_to_tensors():
    x = random(2, 3, 3)
    out = torch.empty_like(x)
    assert ozaki.matmul(x, x[0], out=out) is out
    assert same_bits(out, ozaki.matmul(x, x[0]))


def test_sums_of_words_are_tuples():
    a, x, b = random(3, 3), tuple(random(2, 3, seed=1)), random(3, seed=2)
    expected = ozaki.residual(a.numpy(), tuple(word.numpy() for word in x), b.numpy(), words=2)
    assert alike(ozaki.residual(a, x, b, words=2), expected)
    with pytest.raises(TypeError, match="NumPy and PyTorch"):
        ozaki.residual(a, (x[0], x[1].numpy()), b)


def test_other_results_are_as_they_were():
    x = random(4, 4)
    assert ozaki.fingerprint(x) == ozaki.fingerprint(x.numpy())
    assert isinstance(ozaki.plan(x, x), ozaki.Plan)
    prepared = ozaki.prepare(x)
    assert isinstance(prepared, ozaki.Operand)
    assert alike(ozaki.accurate_dgemm(prepared, x), ozaki.accurate_dgemm(x.numpy(), x.numpy()))


@pytest.mark.filterwarnings("ignore:The PyTorch API of")  # nested and masked tensors are a prototype
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: ozaki.sum([x, x]),
            r"x\[0\] is a torch\.Tensor",
        ),
        (lambda x: ozaki.matmul([[x[0, 0]]], [[1.0]]), r"a\[0\]\[0\] is a torch\.Tensor"),
        (lambda x: ozaki.sum(torch.nested.nested_tensor([x[:1], x])), "got a nested tensor"),
        (lambda x: ozaki.sum(torch.masked.masked_tensor(x, x > 0)), "got a masked tensor"),
        (lambda x: ozaki.matmul(x, x.numpy()), "NumPy and PyTorch"),
        (lambda x: ozaki.sum(x, out=np.zeros(())), "out must be None or .*PyTorch tensors, got ndarray"),
        (lambda x: ozaki.dot(x[0], x[0], None, None, np.zeros(())), "out must be None or .*PyTorch tensors"),
        (lambda x: ozaki.matmul(x[0], x[0], out=[0.0]), "out must be None or .*PyTorch tensors, got list"),
        (lambda x: ozaki.matmul(x.clone().requires_grad_(), x), r"use ozaki\.torch\.matmul, or detach"),
        (lambda x: ozaki.accurate_dgemm(x.clone().requires_grad_(), x), r"use ozaki\.torch\.matmul"),
        (lambda x: ozaki.cumsum(x.clone().requires_grad_()), r"use ozaki\.torch\.cumsum"),
        (lambda x: ozaki.nansum(x.clone().requires_grad_()), "ozaki.nansum has no gradient: detach"),
        (lambda x: ozaki.sum(x.to_sparse()), "strided tensors"),
        (lambda x: ozaki.sum(x.to("meta")), "on meta"),
        (lambda x: ozaki.sum(torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8)), "qint8"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call(random(3, 3))


def test_without_gradients_no_tensor_is_refused():
    x = random(3).requires_grad_()
    with torch.no_grad():
        assert ozaki.sum(x) == ozaki.sum(x.detach())


@pytest.mark.parametrize("by_position", [False, True])
def test_autograd_is_told_of_what_is_written(by_position):
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    factor = torch.full((3,), 2.0, dtype=torch.float64)
    y = (w * factor).sum()
    x = torch.ones(5, 3, dtype=torch.float64)
    out = ozaki.sum(x, 0, None, factor) if by_position else ozaki.sum(x, 0, out=factor)
    assert out is factor
    assert factor.tolist() == [5, 5, 5]
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_conjugate_and_negative_views_are_written_to():
    x = torch.ones(5, 3, dtype=torch.float64)
    negative = torch.zeros(3, dtype=torch.complex128).conj().imag
    assert ozaki.sum(x, 0, out=negative) is negative
    assert negative.tolist() == [5, 5, 5]
    conjugate = torch.zeros(3, dtype=torch.complex128).conj()
    ozaki.mean(x + 1j, 0, out=conjugate)
    assert conjugate.tolist() == [1 + 1j] * 3
    with torch.inference_mode():
        out = torch.zeros(3, dtype=torch.float64)
        assert ozaki.sum(torch.ones(5, 3, dtype=torch.float64), 0, out=out).tolist() == [5, 5, 5]


WITH_OUT = {
    name: f
    for name, f in vars(ozaki).items()
    if inspect.isfunction(f) and "out" in inspect.signature(f).parameters
}
WRONG_OUTS = [np.zeros(()), np.zeros((2, 2)), np.float64(0), [0.0], "x", 0.0, (torch.zeros(()),), object()]


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_of_another_kind_is_refused_before_anything_is_computed(name):
    function = WITH_OUT[name]
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    for shape in ((2,), (2, 2)):
        operands = [torch.ones(shape, dtype=torch.float64)] * len(required)
        for out in WRONG_OUTS:
            before = np.copy(out) if isinstance(out, np.ndarray) else None
            with pytest.raises(TypeError, match="kind"):
                function(*operands, out=out)
            assert before is None or np.array_equal(out, before)


def test_out_of_another_kind_is_refused_by_its_position():
    with pytest.raises(TypeError, match="out must be None or of the operands' kind, PyTorch tensors"):
        ozaki.sum(torch.ones(2), None, None, np.zeros(()))


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", [torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2])
def test_dtypes_that_no_array_has_are_named(dtype):
    x = torch.zeros(3).to(dtype)
    into = "complex64" if dtype is torch.complex32 else "float32"
    with pytest.raises(TypeError, match=rf"got {dtype}; convert it first: x\.to\(torch\.{into}\)"):
        ozaki.sum(x)
