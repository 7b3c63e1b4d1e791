"""Operators on the list are independent of threads, cuts and orders, by experiment; others are counted."""

import warnings
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import ozaki.torch  # noqa: E402
from ozaki.torch import independent  # noqa: E402

F, aten = torch.nn.functional, torch.ops.aten
ROWS, COLUMNS = 601, 131  # enough for two threads, and for vectors with a rest

BINARY = {
    "fmax",
    "fmin",
    "maximum",
    "minimum",
    "heaviside",
    "nextafter",
    "copysign",
    "_prelu_kernel",
}
BINARY |= {"add", "sub", "rsub", "mul", "div", "floor_divide", "xlogy"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"}
WITH_NUMBERS = {
    "addcdiv": lambda x, y: torch.addcdiv(x, y, y.abs() + 1, value=0.3),
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=0.3),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3) + torch.lerp(x, y, y),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "clamp_max": lambda x, y: x.clamp_max(0.1),
    "clamp_min": lambda x, y: x.clamp_min(0.1),
    "hardtanh": lambda x, y: F.hardtanh(x, -0.5, 0.7),
    "hardtanh_backward": lambda x, y: aten.hardtanh_backward(x, y, -0.5, 0.7),
    "_prelu_kernel_backward": lambda x, y: sum(aten._prelu_kernel_backward(x, y, x * y)),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.3),
    "leaky_relu_backward": lambda x, y: aten.leaky_relu_backward(x, y, 0.3, False),
    "tanh_backward": lambda x, y: aten.tanh_backward(x, y),
    "threshold": lambda x, y: F.threshold(x, 0.1, 0.2),
    "threshold_backward": lambda x, y: aten.threshold_backward(x, y, 0.1),
    "argmax": lambda x, y: x.argmax(1),
    "argmin": lambda x, y: x.argmin(1),
    "amax": lambda x, y: x.amax(1),
    "amin": lambda x, y: x.amin(1),
    "aminmax": lambda x, y: torch.stack(torch.aminmax(x, dim=1)),
    "max": lambda x, y: x.max(1)[0] + x.max(1)[1],
    "min": lambda x, y: x.min(1)[0] + x.min(1)[1],
    "sort": lambda x, y: x.sort(1)[0],
    "max_pool1d": lambda x, y: F.max_pool1d(x, 3, 2),
    "max_pool2d_with_indices": lambda x, y: F.max_pool2d(x[:, None, None, :], (1, 3), 2).flatten(1),
    "max_pool3d_with_indices": lambda x, y: F.max_pool3d(x[:, None, None, None], (1, 1, 3), 2).flatten(1),
    "adaptive_max_pool2d": lambda x, y: F.adaptive_max_pool2d(x[:, None, None], (1, 20)).flatten(1),
    "adaptive_max_pool3d": lambda x, y: F.adaptive_max_pool3d(x[:, None, None, None], (1, 1, 20)).flatten(1),
    "pow": lambda x, y: x**2 + x**3 + y.abs() ** 0.5 + 1 / (1 + y.abs()) ** -0.5,
    "mse_loss": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "mse_loss_backward": lambda x, y: aten.mse_loss_backward(x, y, x, 0),
    "nll_loss_forward": lambda x, y: F.nll_loss(x, (y[:, 0] * 9).long().abs(), reduction="none"),
    "index_copy": lambda x, y: x.index_copy(1, torch.arange(0, COLUMNS, 3), y[:, ::3]),
    "scatter": lambda x, y: x.scatter(1, torch.arange(0, COLUMNS, 3).expand(len(x), -1), y).scatter(
        1, torch.zeros(len(x), 3, dtype=torch.long), 0.5
    ),
    "_index_put_impl": lambda x, y: torch.index_put(x, (x > 0.3,), torch.tensor(2, dtype=x.dtype)),
}


def unary(function, x, _):
    return function(x)


UNARY = independent.ARITHMETIC - BINARY - WITH_NUMBERS.keys()
CASES = {
    **{name: partial(unary, getattr(aten, name)) for name in UNARY},
    **{name: getattr(aten, name) for name in BINARY | COMPARISONS},
    **WITH_NUMBERS,
}


def bits(x):
    view = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    if not x.is_floating_point():
        return x
    return torch.where(x.isnan(), torch.nan, x).contiguous().view(view[x.element_size()])  # NaNs are alike


def same(x, y):
    return x.shape == y.shape and torch.equal(bits(x), bits(y))


def on_threads(count, function):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        return function()
    finally:
        torch.set_num_threads(before)


def gradient(f, x, y):
    x = x.clone().requires_grad_()
    result = f(x, y)
    if result.grad_fn is None or "NotImplemented" in str(result.grad_fn):
        return torch.zeros_like(x)
    (derivative,) = torch.autograd.grad(
        result, x, (y[:, : result.shape[1]] if result.dim() == 2 else y[:, 0]).clone()
    )
    return derivative.detach()


def varies_with(f, x, y, axis=0):
    """What the bits of f depend on beside its arguments."""
    whole, found = on_threads(1, lambda: f(x, y)), set()
    if not same(on_threads(2, lambda: f(x, y)), whole):
        found.add("threads")
    for start, stop in ((0, 1), (1, 8), (5, ROWS // 2), (ROWS - 3, ROWS)):
        part = slice(start, stop)
        if not same(f(x[part].clone(), y[part].clone()), whole.narrow(axis, start, stop - start)):
            found.add("cut")
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(2))
    if not same(f(x[order], y[order]), whole.index_select(axis, order)):
        found.add("order")
    return found


def operands(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(ROWS, COLUMNS, dtype=torch.float64, generator=generator).to(dtype) for _ in range(2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_arithmetic_on_the_list_is_independent_forward_and_backward(name, dtype):
    (x, y), f = operands(dtype), CASES[name]
    axis = 1 if name == "aminmax" else 0
    for scale in (1, 40):  # of which some are beyond what saturates
        try:
            f(x[:9], y[:9])
        except (RuntimeError, NotImplementedError) as error:
            pytest.skip(str(error))
        assert varies_with(f, scale * x, y, axis) == set()
        if name not in ("nll_loss_forward", "_index_put_impl", "mse_loss_backward", "aminmax"):
            assert varies_with(lambda x, y: gradient(f, x, y), scale * x, y) == set()


def test_every_operator_on_the_list_is_tried():
    assert CASES.keys() >= independent.ARITHMETIC | independent.CONDITIONS.keys()


@pytest.mark.parametrize("name", ["sigmoid", "silu", "elu", "softplus", "mish"])
def test_the_experiment_finds_what_varies(name):
    x, y = operands(torch.float32)
    assert "cut" in varies_with(lambda x, y: getattr(aten, name)(x), x, y)


def test_the_experiment_finds_what_varies_with_unusual_numbers():
    """Quotients of any size, Inf and NaN: such calls are counted."""
    (x, y), f = operands(torch.float32), aten.fmod
    spread = torch.randint(-140, 100, x.shape, generator=torch.Generator().manual_seed(0)).double()
    wide = (x.double() * 2.0**spread).float()  # with subnormal numbers
    assert varies_with(f, wide, torch.where(x > 2, torch.inf, wide.flip(0)))
    assert not {"fmod", "remainder", "hardtanh_backward"} & independent.ARITHMETIC
    with pytest.warns(match="1 fmod, 1 hardtanh_backward"), ozaki.torch.reproducible():
        x.fmod(y), aten.hardtanh_backward(y, x, -1, 1), aten.hardtanh_backward(y, x / 0 * 0, -1, 1)


def test_random_numbers_do_not_depend_on_threads():
    def drawn():
        torch.manual_seed(3)
        x = torch.empty(ROWS, COLUMNS)
        draws = [x.normal_(), x.clone().uniform_(), x.clone().exponential_(), x.clone().bernoulli_(0.3)]
        draws += [
            x.clone().cauchy_(),
            x.clone().log_normal_(),
            x.clone().geometric_(0.3),
            x.clone().random_(),
        ]
        return torch.stack(
            [*draws, F.dropout(torch.ones_like(x)), torch.randperm(x.numel()).reshape(x.shape)]
        )

    assert same(on_threads(1, drawn), on_threads(2, drawn))


def test_what_moves_numbers_is_not_counted_and_what_varies_is():
    x, y = operands(torch.float32)
    index = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings(), ozaki.torch.reproducible(dtypes=torch.float32, sums=True, strict=True):
        warnings.simplefilter("error")
        torch.cat([x, y]), torch.stack([x, y]), x[index], x.gather(0, index[:, None]), x.flip(0).roll(3)
        x.masked_fill(x > 0, 1.0), torch.where(x > y, x, y), x.tril(), x.T.contiguous(), x.repeat(2, 1)
        (
            F.pad(x, (1, 2)),
            F.pad(x[None], (1, 2), mode="reflect"),
            x.unfold(0, 3, 2).clone(),
            x.double().float(),
        )
        (
            x.sort(1),
            x.argmax(),
            x.nonzero(),
            torch.unique(x),
            (x > 0).any(),
            torch.equal(x, y),
            x.item if 0 else 0,
        )
        x[x > 0] = 2.0
        F.dropout(x), torch.empty(3).normal_(), x**2, x.abs(), F.relu(x), x.clamp(0, 1), (x @ y.T).mean()
    with pytest.warns(match="2 sigmoid, 1 cumsum, 1 pow; reproducible"), ozaki.torch.reproducible(sums=True):
        x.sigmoid(), torch.sigmoid_(x.clone()), x.cumsum(0), x.abs() ** 1.5


STRICT = {
    "_softmax of torch.float32 .*; write e = torch.exp": lambda x: x.softmax(-1),
    "gelu of torch.float32 .*; write 0.5": F.gelu,
    "native_layer_norm ": lambda x: F.layer_norm(x, x.shape[-1:]),
    "native_batch_norm ": lambda x: F.batch_norm(x, None, None, training=True),
    "cumsum of": lambda x: x.cumsum(0),
    "std of torch.float32 .*sums=True": lambda x: x.std(),
    "convolution of .*unfold": lambda x: torch.conv1d(x[None], x[:5, :1, None].expand(5, ROWS, 1)),
    r"mm of torch.float64 .*write dtypes=\(torch.float32, torch.float64\)": lambda x: (
        x.double() @ x.double().T
    ),
    "index_add of .*one_hot": lambda x: x.index_add(0, torch.zeros(ROWS, dtype=torch.long), x),
    "_index_put_impl ": lambda x: (
        x.clone().requires_grad_()[torch.zeros(5, dtype=torch.long)].sum().backward()
    ),
    "linalg_inv_ex ": lambda x: torch.linalg.inv(x[:9, :9]),
    "_linalg_svd ": lambda x: torch.linalg.pinv(x[:9, :5]),
    "logaddexp ": lambda x: torch.logaddexp(x, x),
    "special_xlog1py ": lambda x: torch.special.xlog1py(x, 2.0),
    "_fused_sgd ": lambda x: _step(x),
}


def _step(x):
    x = x.clone().requires_grad_()
    x.grad = torch.ones_like(x)
    torch.optim.SGD([x], 0.1, fused=True).step()


@pytest.mark.parametrize("said", STRICT)
def test_strict_raises_at_the_first_operator_that_may_vary(said):
    (x, _), f = operands(torch.float32), STRICT[said]
    with (
        pytest.raises(RuntimeError, match=said),
        ozaki.torch.reproducible(dtypes=torch.float32, sums=True, strict=True),
    ):
        f(x)
    f(x)  # outside nothing is refused


def test_sums_are_counted_unless_they_are_replaced():
    x, _ = operands(torch.float32)
    with (
        pytest.warns(match="2 sum, 1 mean; to replace sums and means, say sums=True"),
        ozaki.torch.reproducible(),
    ):
        x.sum(), x.mean()  # which makes a sum


def test_outside_of_the_mode_results_are_pytorchs():
    with ozaki.torch.reproducible():
        pass
    x, _ = operands(torch.float32)
    assert torch.special.xlog1py(x[:3].abs(), 2).dtype is torch.float32
    assert torch.special.xlog1py(torch.ones(3, dtype=torch.int64), 0.5).dtype is torch.float32
    assert torch.special.zeta(2.0, x[0].abs() + 1).dtype is torch.float32
