"""The differentiable functions: their bits, their derivatives, under `torch.compile` and `torch.func`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.masked import masked_tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from tests.torch.test_mode import DTYPES, random, same_bits  # noqa: E402

SHAPES = [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((4,), (4, 2)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 2)),
    ((3, 4), (2, 4, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 3, 4), (4,)),
    ((1, 3, 4), (2, 4, 1)),
    ((2, 0, 4), (4, 3)),
    ((2, 3, 0), (0, 3)),
]
DOTS = [((4,), (4,), -1), ((3, 4), (3, 4), 0), ((3, 4), (4,), 1), ((2, 1, 4), (3, 1), -2)]
OVER = [(None, False), (0, False), (-1, True), ((0, 2), False), ((0, 2), True)]


def leaf(*shape, dtype=torch.float64, seed=0):
    return random(*shape, dtype=dtype, seed=seed).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES)
def test_matmul_is_this_librarys(shapes, dtype):
    a, b = (random(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes))
    for accuracy in ("normwise", "exact", 30):
        expected = np.asarray(ozaki.matmul(a.numpy(), b.numpy(), accuracy=accuracy))
        assert same_bits(ozaki.torch.matmul(a, b, accuracy=accuracy), torch.from_numpy(expected))


def test_the_accuracy_none_is_the_default():
    a = random(3, 3)
    assert same_bits(ozaki.torch.matmul(a, a, accuracy=None), ozaki.torch.matmul(a, a, accuracy="normwise"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shapes", SHAPES)
def test_derivatives_of_matmul(shapes, dtype):
    a, b = (leaf(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes))
    assert torch.autograd.gradcheck(ozaki.torch.matmul, (a, b), fast_mode=True)
    assert torch.autograd.gradgradcheck(ozaki.torch.matmul, (a, b), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("x", "y", "dim"), DOTS)
def test_dot(x, y, dim, dtype):
    x, y = leaf(*x, dtype=dtype), leaf(*y, dtype=dtype, seed=1)

    def function(x, y):
        return ozaki.torch.dot(x, y, dim)

    expected = ozaki.dot(x.detach().numpy(), y.detach().numpy(), dim)
    assert same_bits(function(x, y), torch.from_numpy(np.asarray(expected)))
    assert torch.autograd.gradcheck(function, (x, y), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, y), fast_mode=True)


def test_vdot():
    x, y = leaf(2, 3, dtype=torch.complex128), leaf(6, dtype=torch.complex128, seed=1)
    expected = ozaki.vdot(x.detach().numpy(), y.detach().numpy())
    assert ozaki.torch.vdot(x, y).item() == expected
    assert torch.autograd.gradcheck(ozaki.torch.vdot, (x, y))


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("dim", "keepdim"), OVER)
def test_sums_and_means(name, dim, keepdim, dtype):
    x, ours, theirs = leaf(2, 3, 4, dtype=dtype), getattr(ozaki.torch, name), getattr(ozaki, name)

    def function(x):
        return ours(x, dim, keepdim)

    expected = theirs(x.detach().numpy(), dim, keepdims=keepdim)
    assert same_bits(function(x), torch.from_numpy(np.asarray(expected)))
    assert torch.autograd.gradcheck(function, (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x,), fast_mode=True)


AVERAGES = [
    ((3, 4), (3, 4), None),
    ((3, 4), (4,), 1),
    ((3, 4), (3,), 0),
    ((2, 3, 4), (3, 1), (0, 1)),
    ((4,), (4,), 0),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("shape", "of_weights", "dim"), AVERAGES)
def test_averages(shape, of_weights, dim, dtype):
    x, weights = (
        leaf(*shape, dtype=dtype),
        leaf(*of_weights, seed=3).detach().square().add(0.1).requires_grad_(),
    )

    def function(x, weights):
        return ozaki.torch.average(x, dim, weights)

    w = weights.detach().numpy()
    w = np.broadcast_to(w[:, None] if of_weights == (3,) else w, shape)
    expected = torch.from_numpy(np.asarray(ozaki.average(x.detach().numpy(), dim, w)))
    assert same_bits(function(x, weights), expected)
    assert ozaki.torch.average(x, dim, weights, keepdim=True).shape == x.sum(dim, keepdim=True).shape
    assert torch.autograd.gradcheck(function, (x, weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, weights), fast_mode=True)
    weighted = torch.func.vmap(function, in_dims=(None, 0))(x.detach(), torch.stack([weights.detach()] * 2))
    assert same_bits(weighted[1], expected)
    several = torch.stack([x.detach(), 2 * x.detach()])
    mapped = torch.func.vmap(function, in_dims=(0, None))(several, weights.detach())
    assert same_bits(mapped, torch.stack([function(x, weights.detach()) for x in several]))


def test_numbers_without_dimensions():
    x = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    ozaki.torch.sum(x).backward()
    assert x.grad.item() == 1
    assert ozaki.torch.mean(x).item() == 2.5


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("matmul", lambda: (leaf(2, 3, 4), leaf(4, 2), "normwise")),
        ("dot", lambda: (leaf(3, 4), leaf(4), -1)),
        ("sum", lambda: (leaf(3, 4), [0], False)),
        ("sum", lambda: (leaf(3, 4), [0], True, torch.complex64)),
        ("var", lambda: (leaf(3, 4), [0], 1.0, False)),
        ("norm", lambda: (leaf(3, 4), [1], True)),
        ("cumsum", lambda: (leaf(3, 4), 1)),
        ("einsum", lambda: (leaf(3, 4), leaf(4, 2), "ij,jk->ki", "normwise")),
        ("mean", lambda: (leaf(3, 4), [1], True)),
        ("average", lambda: (leaf(3, 4), random(4).square().requires_grad_(), [1])),
    ],
)
def test_operators_are_what_pytorch_asks_of_them(operator, arguments):
    torch.library.opcheck(getattr(torch.ops.ozaki, operator).default, arguments())


def test_gradients_over_a_batch_are_sums_rounded_once():
    w, x = leaf(4, 2), random(2, 3, 4)
    (gradient,) = torch.autograd.grad(ozaki.torch.matmul(x, w), w, torch.ones(2, 3, 2, dtype=torch.float64))
    assert same_bits(gradient, ozaki.torch.matmul(x.reshape(6, 4).mT, torch.ones(6, 2, dtype=torch.float64)))


def train(x, y, w):
    return ozaki.torch.mean((ozaki.torch.matmul(torch.relu(ozaki.torch.matmul(x, w)), w.mT) - y) ** 2)


def test_compiled_with_derivatives():
    x, y, w = random(5, 4), random(5, 4, seed=1), leaf(4, 3)
    train(x, y, w).backward()
    expected, w.grad = w.grad, None
    torch.compile(train, backend="aot_eager", fullgraph=True)(x, y, w).backward()
    assert same_bits(w.grad, expected)


@pytest.mark.slow
def test_compiled_by_inductor():
    def function(a, b):
        return ozaki.torch.sum(ozaki.torch.matmul(a * 2, b) + 1, 0)

    a, b = random(5, 4), random(4, 3)
    assert same_bits(torch.compile(function, fullgraph=True)(a, b), function(a, b))


def test_vmap():
    a, b, w = random(5, 3, 4), random(5, 4, 2), random(4, 2)
    vmap, matmul = torch.func.vmap, ozaki.torch.matmul
    assert same_bits(vmap(matmul)(a, b), matmul(a, b))
    assert same_bits(vmap(matmul, in_dims=(0, None))(a, w), matmul(a, w))
    assert same_bits(vmap(matmul, in_dims=(None, 0))(a[0], b), matmul(a[0], b))
    assert same_bits(vmap(matmul, in_dims=(1, None), out_dims=1)(a, w), matmul(a, w))
    assert same_bits(vmap(matmul, in_dims=(0, None))(a, b), torch.stack([matmul(x, b) for x in a]))
    assert same_bits(vmap(vmap(matmul))(a[None], b[None]), matmul(a, b)[None])
    assert same_bits(vmap(matmul)(a[:, 0], b[:, :, 0]), ozaki.torch.matmul(a[:, :1], b[:, :, :1])[:, 0, 0])
    assert same_bits(vmap(lambda x: ozaki.torch.sum(x, -1))(a), ozaki.torch.sum(a, -1))
    assert same_bits(vmap(ozaki.torch.mean)(a), ozaki.torch.mean(a, (1, 2)))
    assert same_bits(vmap(ozaki.torch.dot, in_dims=(0, None))(a, a[0]), ozaki.torch.dot(a, a[0]))
    gradient = torch.func.vmap(torch.func.grad(train, argnums=2), in_dims=(0, None, None))
    w = random(4, 3)
    each = torch.stack([torch.func.grad(train, argnums=2)(x, random(3, 4), w) for x in a])
    torch.testing.assert_close(gradient(a, random(3, 4), w), each, rtol=1e-13, atol=1e-14)


def nested(x):
    return torch.nested.nested_tensor([x[:1], x])


@pytest.mark.filterwarnings("ignore:The PyTorch API of")  # nested and masked tensors are a prototype
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ozaki.torch.matmul(x, x.numpy()), TypeError, "b must be a tensor, got ndarray"),
        (lambda x: ozaki.torch.matmul(x, x.half()), TypeError, "float16"),
        (lambda x: ozaki.torch.matmul(x, x.float()), TypeError, "one dtype"),
        (lambda x: ozaki.torch.matmul(x.to_sparse(), x), TypeError, "a must be a strided tensor"),
        (lambda x: ozaki.torch.matmul(x, x.to("meta")), ValueError, "one device"),
        (lambda x: ozaki.torch.matmul(x, x[:2]), ValueError, "inner dimensions"),
        (
            lambda x: ozaki.torch.matmul(x, x[0, 0]),
            ValueError,
            "at least one dimension, got shapes .3, 3. and ..",
        ),
        (lambda x: ozaki.torch.matmul(x.expand(2, 3, 3), x.expand(4, 3, 3)), ValueError, "do not broadcast"),
        (lambda x: ozaki.torch.matmul(x, x, accuracy="best"), ValueError, "accuracy must be"),
        (lambda x: ozaki.torch.matmul(x, x, accuracy="33"), ValueError, "accuracy must be .*, got '33'"),
        (lambda x: ozaki.torch.matmul(x, x, accuracy="\u0663\u0663"), ValueError, "accuracy must be"),
        (lambda x: ozaki.torch.matmul(x, x, accuracy=True), ValueError, "accuracy must be .*, got True"),
        (lambda x: ozaki.torch.matmul(x, [x]), TypeError, "b must be a tensor, got list"),
        (lambda x: ozaki.torch.matmul(nested(x), x), TypeError, "strided tensor of .*; got a nested tensor"),
        (lambda x: ozaki.torch.sum(masked_tensor(x, x > 0)), TypeError, "got a masked tensor"),
        (lambda x: ozaki.torch.sum(x, "0"), TypeError, "dim must be an integer, a tuple of .*, got '0'"),
        (lambda x: ozaki.torch.dot(x, x, None), TypeError, "dim must be an integer, got None"),
        (lambda x: ozaki.torch.sum(x, 2), ValueError, "dim 2 is out of bounds"),
        (lambda x: ozaki.torch.sum(x, (0, -2)), ValueError, "twice"),
        (lambda x: ozaki.torch.sum(x.to(torch.int64)), TypeError, "int64"),
        (lambda x: ozaki.torch.sum(x.half()), TypeError, "float16"),
        (
            lambda x: ozaki.torch.sum(x, dtype=torch.int64),
            TypeError,
            "dtype must be torch.float32, .* got torch",
        ),
        (lambda x: ozaki.torch.sum(x + 0j, dtype=torch.float64), TypeError, "dtype must be complex"),
        (lambda x: ozaki.torch.var(x, correction="1"), TypeError, "ddof"),
        (lambda x: ozaki.torch.cumsum(x, None), TypeError, "dim must be an integer, got None"),
        (lambda x: ozaki.torch.cumsum(x[0, 0], 0), ValueError, "x must have a dimension"),
        (lambda x: ozaki.torch.einsum("ij,jk", x), ValueError, "are of 2 operands, got 1"),
        (lambda x: ozaki.torch.einsum("ij,jk", x, x.float()), TypeError, "operand 0 and operand 1 must have"),
        (lambda x: ozaki.torch.einsum("ij", x, accuracy="good"), ValueError, "accuracy must be"),
        (lambda x: ozaki.torch.norm(x, 2), ValueError, "dim 2 is out of bounds"),
        (lambda x: ozaki.torch.dot(x, x[:2]), ValueError, "must have shapes that broadcast"),
        (lambda x: ozaki.torch.average(x, 0, x[:2]), ValueError, "must have shapes that broadcast"),
        (lambda x: ozaki.torch.average(x[0], 0, x), ValueError, "weights must broadcast to x"),
        (lambda x: ozaki.torch.average(x, 0, x.float()), TypeError, "one dtype"),
        (lambda x: ozaki.torch.average(x, 0, torch.zeros_like(x)), ZeroDivisionError, "zero"),
        (lambda x: ozaki.torch.vdot(x, x[:2]), ValueError, "as many elements"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(random(3, 3))


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_results_are_contiguous_as_compiled_code_expects(backend):
    x, factor = random(2, 3, 4), random(4, 3)

    def function(x):
        summed = ozaki.torch.sum(x.permute(2, 0, 1), 1)
        return (summed * factor).reshape(-1) + ozaki.torch.dot(
            x.permute(2, 1, 0), x.permute(2, 1, 0), 2
        ).reshape(-1)

    torch._dynamo.reset()
    assert same_bits(torch.compile(function, backend=backend)(x), function(x))
    for call in ((torch.ops.ozaki.sum.default, ([1], False)), (torch.ops.ozaki.mean.default, ([0, 1], True))):
        torch.library.opcheck(call[0], (x.permute(2, 0, 1), *call[1]), test_utils="test_faketensor")


class Seen(TorchDispatchMode):
    """Notes the operators that are called within it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.append(str(function))
        return function(*arguments, **(options or {}))


@pytest.mark.parametrize("followed", [False, True])
def test_modes_and_kinds_of_tensors_see_the_operators(followed):
    """Elsewhere a call goes past PyTorch's dispatcher."""
    x = torch.ones(2, 3, requires_grad=followed)
    with Seen() as seen:
        ozaki.torch.softmax(x, 1)
    assert "ozaki.softmax.default" in seen.names
    with FakeTensorMode() as fake:
        y = ozaki.torch.softmax(fake.from_tensor(x), 1)
    assert type(y) is not torch.Tensor
    assert y.shape == x.shape
    assert ozaki.torch.softmax(x.to("meta"), 1).is_meta


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_traces_have_the_operators():
    traced = torch.jit.trace(lambda x: ozaki.torch.softmax(x, 1), torch.ones(2, 3))
    assert "ozaki::softmax" in str(traced.graph)


def test_gradients_that_nobody_follows_have_no_graph():
    x = torch.ones(2, 3, requires_grad=True)
    assert ozaki.torch.softmax(x, 1).requires_grad
    assert not ozaki.torch.softmax(x.detach(), 1).requires_grad
    with torch.no_grad():
        assert not ozaki.torch.softmax(x, 1).requires_grad
    with torch._C._AutoDispatchBelowAutograd():  # as an operator's kernel calls others
        assert not ozaki.torch.softmax(x, 1).requires_grad
