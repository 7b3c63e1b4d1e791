"""Elementary functions of tensors: their bits and derivatives, under `torch.func` and compilation, too."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from ozaki.elementary.derivatives import derivative  # noqa: E402
from ozaki.public import PUBLIC  # noqa: E402


@pytest.mark.parametrize("name", ["exp", "atan", "erf", "gelu", "mish", "pow", "atan2"])
def test_values_and_gradients_have_the_bits_of_arrays(name):
    count = len(PUBLIC[name].arrays)
    for dtype in (torch.float32, torch.float64):
        x = [torch.linspace(1.25 - i, 3.0, 7, dtype=dtype, requires_grad=True) for i in range(count)]
        y = getattr(ozaki.torch, name)(*x)
        arrays = [v.detach().numpy() for v in x]
        assert y.detach().numpy().tobytes() == getattr(ozaki, name)(*arrays).tobytes()
        y.backward(torch.full_like(y, 2.0))
        for i, v in enumerate(x):
            slope = derivative(name, [int(i == j) for j in range(count)], *arrays)
            assert v.grad.numpy().tobytes() == (2 * slope).tobytes()


@pytest.mark.parametrize("name", ["tanh", "gelu", "pow", "hypot"])
def test_second_derivatives(name):
    """pow at exponent 0, too, and broadcasting."""
    x = [torch.linspace(0.5, 2, 3, dtype=torch.float64, requires_grad=True)]
    if len(PUBLIC[name].arrays) == 2:
        x.append(torch.tensor([[-1.5], [0.0]], dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(getattr(ozaki.torch, name), x, fast_mode=True)
    assert torch.autograd.gradgradcheck(getattr(ozaki.torch, name), x, fast_mode=True)


def test_func_and_arguments():
    x = torch.linspace(-2, 2, 6)
    slope = derivative("gelu_tanh", (1,), x.numpy())
    by_func = torch.func.grad(lambda v: ozaki.torch.gelu(v, approximate="tanh").sum())(x)
    assert by_func.numpy().tobytes() == slope.tobytes()
    rows = torch.vmap(ozaki.torch.hypot, (0, None))(x.reshape(2, 3), x[:3])
    assert rows.numpy().tobytes() == ozaki.hypot(x.numpy().reshape(2, 3), x[:3].numpy()).tobytes()
    assert torch.equal(ozaki.torch.pow(x.abs(), 2.0), x * x)
    half = x.to(torch.bfloat16).requires_grad_()
    ozaki.torch.sigmoid(half).sum().backward()
    assert half.grad.dtype == torch.bfloat16
    for bad in (x.to(torch.int64), x.to(torch.complex64), [1.0]):
        with pytest.raises(TypeError):
            ozaki.torch.sin(bad)
    with pytest.raises(TypeError, match=r"ozaki\.torch\.exp"):
        ozaki.exp(x.requires_grad_())


@pytest.mark.parametrize("name", ["exp", "log", "abs", "angle"])
def test_functions_of_complex_numbers(name):
    z = torch.tensor([0.3 + 0.5j, -1.2 + 0.7j, 2 - 3j], dtype=torch.complex128, requires_grad=True)
    function, native = getattr(ozaki.torch, name), getattr(torch, name)
    for x in (z, z.to(torch.complex64)):
        assert function(x).detach().numpy().tobytes() == getattr(ozaki, name)(x.detach().numpy()).tobytes()
    assert torch.autograd.gradcheck(function, z)
    assert torch.autograd.gradgradcheck(function, z)
    pulled = [torch.autograd.grad(f(z), z, torch.full_like(f(z), 2)) for f in (function, native)]
    torch.testing.assert_close(*pulled, rtol=1e-14, atol=1e-14)
    assert torch.vmap(function)(z).equal(function(z))


def test_abs_and_angle_have_derivative_0_at_zero():
    for x in (torch.tensor([-2.0, 0.0, -0.0, 3.0]), torch.tensor([0j, complex(-0.0, 0.0), 2j])):
        x.requires_grad_()
        for name in ("abs", "angle"):
            function, native = getattr(ozaki.torch, name), getattr(torch, name)
            assert torch.equal(
                function(x.detach()), torch.from_numpy(getattr(ozaki, name)(x.detach().numpy()))
            )
            (found,), (expected,) = (torch.autograd.grad(f(x).sum(), x) for f in (function, native))
            assert torch.equal(found, expected)


@pytest.mark.slow
def test_compiled():
    x = torch.linspace(-2, 2, 6, requires_grad=True)
    compiled = torch.compile(lambda v: ozaki.torch.tanh(v), fullgraph=True)
    assert torch.equal(compiled(x), ozaki.torch.tanh(x))


def test_gradients_of_zero_dimensions():
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    ozaki.torch.exp(x).backward()
    assert x.grad.item() == float(ozaki.exp(np.float64(0.5)))


@pytest.mark.parametrize("norm", [ozaki.torch.layer_norm, ozaki.torch.rms_norm])
def test_norms_of_layers_with_weights(norm):
    """Gradients of weights and biases are exact sums; tangents, and a batch of weights, as the formula."""
    generator = torch.Generator().manual_seed(5)
    x, g = (torch.randn(3000, 6, generator=generator) for _ in range(2))
    w, b = (torch.randn(6, generator=generator).requires_grad_() for _ in range(2))
    given = (w, b) if norm is ozaki.torch.layer_norm else (w,)
    norm(x, (6,), *given).backward(g)
    centred = x - ozaki.torch.mean(x, 1, keepdim=True) if len(given) > 1 else x
    y = centred * ozaki.torch.rsqrt(ozaki.torch.dot(centred, centred, 1)[:, None] / 6 + 1e-5)
    assert torch.equal(w.grad, ozaki.torch.dot(g, y, 0))
    if len(given) > 1:
        assert torch.equal(b.grad, ozaki.torch.sum(g, 0))
    tangents = tuple(torch.randn(6, generator=generator) for _ in given)
    _, found = torch.func.jvp(lambda *v: norm(x, (6,), *v), tuple(v.detach() for v in given), tangents)
    expected = y * tangents[0]
    assert torch.equal(found, expected + tangents[1] if len(given) > 1 else expected)
    _, found = torch.func.jvp(lambda x: norm(x, (6,), *(v.detach() for v in given)), (x,), (g,))
    _, plain = torch.func.jvp(lambda x: norm(x, (6,)), (x,), (g,))
    assert torch.equal(found, plain * w)
    many = torch.randn(4, 6, generator=generator)
    each = torch.vmap(lambda w: norm(x, (6,), w))(many)
    assert torch.equal(each, torch.stack([norm(x, (6,), w) for w in many]))


def test_functions_of_rows():
    """Their bits, and derivatives twice."""
    x = torch.linspace(-2, 3, 12, dtype=torch.float64).reshape(3, 4).sin().requires_grad_()
    w, b = (torch.linspace(i, 2, 4, dtype=torch.float64, requires_grad=True) for i in (1, 0))
    front, array = ozaki.torch, x.detach().numpy()
    for function, arguments, expected in (
        (lambda x: front.softmax(x, 0), (x,), ozaki.softmax(array, 0)),
        (lambda x: front.log_softmax(x, 1), (x,), ozaki.log_softmax(array, 1)),
        (lambda x: front.logsumexp(x, 0), (x,), ozaki.logsumexp(array, 0)),
        (
            lambda x, w, b: front.layer_norm(x, (4,), w, b),
            (x, w, b),
            ozaki.layer_norm(array, -1, w.detach().numpy(), b.detach().numpy()),
        ),
        (
            lambda x, w: front.rms_norm(x, (4,), w),
            (x, w),
            ozaki.rms_norm(array, -1, w.detach().numpy()),
        ),
    ):
        assert torch.equal(function(*arguments), torch.from_numpy(expected))
        assert torch.autograd.gradcheck(function, arguments, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, arguments, fast_mode=True)
    rows = torch.vmap(lambda row: front.softmax(row, 0))(x.detach())
    assert torch.equal(rows, front.softmax(x.detach(), 1))
    with pytest.raises(ValueError, match="normalized_shape"):
        front.layer_norm(x, (3,))
