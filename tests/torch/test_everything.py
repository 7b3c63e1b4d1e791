"""reproducible(everything=True): what it replaces has this library's bits; the rest raises."""

import contextlib
import copy
import hashlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from ozaki.torch import elementwise  # noqa: E402

F = torch.nn.functional
DTYPES = (torch.float32, torch.float64)


def everything():
    return ozaki.torch.reproducible(dtypes=DTYPES, everything=True)


def bits(*tensors):
    return [t.detach().cpu().numpy().tobytes() for t in tensors]


def drawn(*shape, dtype=torch.float32, seed=0, low=None):
    """Numbers that are the same within a mode and outside, as PyTorch's are not."""
    x = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))
    return (x if low is None else x.abs() + low).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", elementwise.UNARY)
def test_functions_are_this_librarys(name, dtype):
    low = {"acosh": 1.0, "log": 0.1, "log2": 0.1, "log10": 0.1, "log1p": 0.0, "sqrt": 0.0, "rsqrt": 0.1}.get(
        name
    )
    x = drawn(3, 700, dtype=dtype, low=low)
    x = x / x.abs().max() if name in ("asin", "acos", "atanh") else x
    call = getattr(torch, name, None) or getattr(F, name)
    expected = getattr(ozaki, name)(x.numpy())
    with everything() as calls:
        found = call(x)
        written = call(x.clone(), out=torch.empty_like(x)) if name not in ("silu", "mish") else found
        kept = getattr(x.clone(), f"{name}_")() if hasattr(x, f"{name}_") else found
        assert calls[name] >= 1
    assert bits(found, written, kept) == [expected.tobytes()] * 3
    assert bits(call(x)) == bits(call(x.clone()))  # PyTorch's own again


def fractions(x):
    return torch.linspace(0, 1, x.numel(), dtype=x.dtype).reshape(x.shape).to(x.device)


CASES = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": lambda x: F.softplus(x, beta=1.5, threshold=3),
    "elu": lambda x: F.elu(x, alpha=0.7),
    "selu": F.selu,
    "logit": lambda x: torch.logit(torch.sigmoid(x)),
    "atan2": lambda x: torch.atan2(x, 1 + x * x),
    "hypot": lambda x: torch.hypot(x, 1 + x),
    "logaddexp": lambda x: torch.logaddexp(x, 2 * x),
    "pow": lambda x: (1 + x * x) ** x,
    "softmax": lambda x: F.softmax(x, -1) ** 2,
    "log_softmax": lambda x: F.log_softmax(x, 0)[:1],
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], x[0] + 2, x[1] - 1) ** 2,
    "var": lambda x: x.var(-1) + x.std(-1, unbiased=False) + torch.var_mean(x, -1)[1],
    "norm": lambda x: x.norm(dim=-1) + torch.linalg.vector_norm(x),
    "cumsum": lambda x: x.cumsum(-1) ** 2,
    "mse": lambda x: F.mse_loss(x, x.flip(0) ** 2) + F.mse_loss(x, 3 * x, reduction="sum"),
    "huber": lambda x: F.huber_loss(x, x.flip(0) ** 2, delta=0.3) + F.huber_loss(x, 3 * x, reduction="sum"),
    "smooth": lambda x: (
        F.smooth_l1_loss(x, x.flip(0) ** 2, beta=0.3) + F.smooth_l1_loss(x, 3 * x, reduction="sum")
    ),
    "binary": lambda x: F.binary_cross_entropy(torch.sigmoid(x), fractions(x)),
    "binary, weighted": lambda x: F.binary_cross_entropy(
        torch.sigmoid(x), fractions(x).round(), weight=fractions(x), reduction="sum"
    ),
    "binary, of logits": lambda x: (
        F.binary_cross_entropy_with_logits(x, fractions(x).round())
        + F.binary_cross_entropy_with_logits(
            x, fractions(x), weight=fractions(x) ** 2, pos_weight=fractions(x[0])
        )
    ),
    "hardswish": lambda x: F.hardswish(4 * x),
    "hardsigmoid": lambda x: F.hardsigmoid(4 * x),
    "glu": lambda x: F.glu(x, 0) ** 2,
    "logsigmoid": F.logsigmoid,
    "prelu": lambda x: F.prelu(x, fractions(x[0])) + F.prelu(x, x[0, :1] ** 2),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(len(x)) % x.shape[1]),
    "weighted": lambda x: F.cross_entropy(
        x,
        torch.arange(len(x)) % 3,
        weight=torch.tensor([0.5, 2, 1] + [0.0] * (x.shape[1] - 3), dtype=x.dtype),
    ),
    "ignored": lambda x: F.cross_entropy(
        x, torch.tensor([-100, 1, 2, -100, 0, 1])[: len(x)], reduction="sum"
    ),
    "embedding": lambda x: F.embedding(torch.tensor([0, 1, 1, 3, 0, 1]), x) ** 2,
    "padded": lambda x: F.embedding(torch.tensor([[0, 1], [1, 3]]), x, padding_idx=1) ** 2,
    "index_add": lambda x: x.index_add(0, torch.tensor([1, 1, 0]), x[:3] ** 2, alpha=0.3),
    "scatter_add": lambda x: x.scatter_add(1, torch.tensor([[0, 2, 2], [1, 1, 1]]), x[:2, :3] ** 2),
    "index": lambda x: x[torch.tensor([0, 1, 1, 1]), torch.tensor([0, 2, 2, 1])] ** 2,
    "addcmul": lambda x: torch.addcmul(x, x, x + 1, value=0.3) + torch.add(x, x * x, alpha=0.7),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3) + torch.lerp(x, x * x, 0.7) + torch.sub(x, x * x, alpha=0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    """By differences, in float64; and near to PyTorch's own, which the forward values are, too."""
    x = (drawn(6, 5, dtype=torch.float64) * 0.7).requires_grad_()
    with everything():
        if name != "padded":  # whose gradient leaves a row out
            assert torch.autograd.gradcheck(CASES[name], x, eps=1e-6, atol=1e-6, rtol=1e-6)
        found = CASES[name](x)
        found.sum().backward()
    mine, x.grad = x.grad, None
    native = CASES[name](x)
    native.sum().backward()
    torch.testing.assert_close(found, native, rtol=1e-12, atol=1e-13)
    near = 1e-7 if name == "hardsigmoid" else 1e-11  # where PyTorch multiplies by a float32 number, 1/6
    torch.testing.assert_close(mine, x.grad, rtol=near, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "at"),
    [
        (lambda x: F.binary_cross_entropy(x, torch.tensor([0.0, 1, 0, 1, 0.3])), [0.0, 1, 1, 0, 1e-30]),
        (lambda x: F.huber_loss(x, torch.zeros(5), delta=0.5), [0.5, -0.5, 0.25, -0.75, 0]),
        (lambda x: F.smooth_l1_loss(x, torch.zeros(5), beta=0.5), [0.5, -0.5, 0.25, -0.75, 0]),
        (lambda x: F.hardswish(x).sum(), [-2.5, 2.5, -3.5, 3.5, 0]),
        (lambda x: F.hardsigmoid(x).sum(), [-3.0, 3, -3.5, 3.5, 0]),
    ],
    ids=["binary", "huber", "smooth", "hardswish", "hardsigmoid"],
)
def test_where_formulas_change(function, at):
    """PyTorch's own values and gradients, which bound logarithms and quotients of probabilities."""
    found = []
    for mode in (everything(), contextlib.nullcontext()):
        x = torch.tensor(at, requires_grad=True)
        with mode:
            y = function(x)
            y.backward()
        found.append((y.detach(), x.grad))
    torch.testing.assert_close(*found, rtol=1e-6, atol=0)


def test_hardswish_where_it_has_no_derivative():
    """Those of 0 and of x, as PyTorch 2.13 has."""
    x = torch.tensor([-3.0, 3.0], requires_grad=True)
    with everything():
        F.hardswish(x).sum().backward()
    assert x.grad.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_threads_do_not_show(name, dtype):
    x, threads = drawn(6, 40_001, dtype=dtype), torch.get_num_threads()
    if name in ("cross_entropy", "weighted", "ignored"):
        x = x[:, :100]
    found = []
    for n in (1, 2):
        torch.set_num_threads(n)
        leaf = x.clone().requires_grad_()
        with everything():
            y = CASES[name](leaf)
            y.sum().backward()
        found.append(bits(y, leaf.grad))
    torch.set_num_threads(threads)
    assert found[0] == found[1]


def loss_of_images(reduction, weighted, of_points=False, device="cpu"):
    """The bits of a loss, some of whose points are ignored, and of its gradient."""
    x, target = drawn(3, 5, 4, 6, seed=2), torch.arange(72).reshape(3, 4, 6) % 5
    target[0, 0, :3], x[0, 1, 0, 0] = -100, torch.nan
    weight = (torch.arange(1.0, 6) / 7).to(device) if weighted else None  # a GPU's own quotients are others
    x, target = x.to(device).requires_grad_(), target.to(device)
    y, t = (x.movedim(1, -1).reshape(-1, 5), target.reshape(-1)) if of_points else (x, target)
    with everything():
        loss = F.nll_loss(y, t, weight, reduction=reduction)
        factor = 1.0 if loss.dim() == 0 else torch.arange(72.0, device=device).reshape(loss.shape)
        (loss * factor).sum().backward()
    return bits(loss.reshape(-1).cpu(), x.grad.cpu())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_images_are_those_of_their_points(reduction, weighted):
    assert loss_of_images(reduction, weighted) == loss_of_images(reduction, weighted, of_points=True)


def test_losses_of_images_of_other_shapes_are_refused():
    with everything(), pytest.raises((RuntimeError, ValueError)):
        F.nll_loss(torch.zeros(2, 3, 4, 5), torch.zeros(2, 5, 4, dtype=torch.int64))


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "layer_norm", "gelu"])
def test_the_cut_of_a_batch_does_not_show(function):
    x, g = drawn(31, 333, seed=1), drawn(31, 333, seed=2)
    call = {"layer_norm": lambda v: F.layer_norm(v, (333,)), "gelu": F.gelu}.get(
        function, lambda v: getattr(F, function)(v, -1)
    )
    parts = []
    with everything():
        for cut in ((slice(None),), (slice(0, 5), slice(5, 31)), tuple(slice(i, i + 1) for i in range(31))):
            leaves = [x[c].clone().requires_grad_() for c in cut]
            values = [call(leaf) for leaf in leaves]
            for value, c in zip(values, cut, strict=True):
                value.backward(g[c])
            parts.append(bits(torch.cat(values), torch.cat([leaf.grad for leaf in leaves])))
    assert parts[0] == parts[1] == parts[2]


def test_what_goes_to_one_place_is_summed_exactly():
    """In any order: against fractions."""
    rng = np.random.default_rng(3)
    index = torch.from_numpy(rng.integers(0, 7, 500))
    values = torch.from_numpy(
        np.float32(rng.standard_normal((500, 3)) * 2.0 ** rng.integers(-20, 20, (500, 3)))
    )
    base, order = drawn(7, 3), torch.from_numpy(rng.permutation(500))
    expected = np.array(
        [[float(ozaki.sum(np.append(values[index == i, j], base[i, j]))) for j in range(3)] for i in range(7)]
    ).astype(np.float32)
    with everything():
        for at, v in ((index, values), (index[order], values[order])):
            wide = at[:, None].expand(-1, 3)
            for found in (
                base.index_add(0, at, v),
                base.scatter_add(0, wide, v),
                base.index_put((at,), v, accumulate=True),
                base.clone().index_add_(0, at, v),
            ):
                assert bits(found) == [expected.tobytes()]
            table = base.clone().requires_grad_()
            F.embedding(at, table).backward(v)
            assert bits(table.grad) == bits(torch.zeros(7, 3).index_add(0, at, v))


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("at", [[], [2, 0, 2, -1, 2]])
def test_additions_along_any_dimension(dim, at):
    x, index = drawn(4, 5, 6).transpose(0, 1), torch.tensor(at, dtype=torch.int32)
    source = drawn(*(len(at) if d == dim % 3 else n for d, n in enumerate(x.shape)), seed=1)
    expected = np.moveaxis(x.double().numpy().copy(), dim, -1)
    np.add.at(expected, (..., index.numpy()), np.moveaxis(source.double().numpy(), dim, -1))  # few bits
    with everything():
        found = x.index_add(dim, index, source), x.clone().index_add_(dim, index, source)
        with pytest.raises((RuntimeError, IndexError)):
            x.index_add(dim, index, drawn(2, 2, 2))
    assert bits(*found) == [np.moveaxis(np.float32(expected), -1, dim).tobytes()] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y, z: (x.addcmul_, x.addcmul, (y, z), {"value": 0.3}),
        lambda x, y, z: (x.addcmul_, x.addcmul, (x, x), {}),
        lambda x, y, z: (x.addcdiv_, x.addcdiv, (y, z), {"value": -0.3}),
        lambda x, y, z: (x.addcdiv_, x.addcdiv, (y[:1], z[:, :1]), {}),
        lambda x, y, z: (x.lerp_, x.lerp, (y, 0.3), {}),
        lambda x, y, z: (x.lerp_, x.lerp, (y, 0.7), {}),
        lambda x, y, z: (x[0].lerp_, x[0].lerp, (x[1], 0.7), {}),
    ],
)
def test_steps_in_place(call):
    """What is written in place is what is returned otherwise, and the version of the tensor is another."""
    x, y, z = (drawn(40, 50, seed=seed) for seed in range(3))
    with everything():
        write, compute, arguments, options = call(x, y, z)
        expected, version, of = bits(compute(*arguments, **options)), x._version, write.__self__
        assert write(*arguments, **options) is of
        assert bits(of) == expected
        assert x._version > version
        with pytest.raises(RuntimeError):
            x[0].clone().addcmul_(y, z)  # which has more rows


class Block(torch.nn.Module):
    """A layer of a transformer, as anybody would write it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(mixed.reshape(b, t, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Transformer(torch.nn.Module):
    def __init__(self, width=32, heads=2, layers=2, words=50, length=16):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, words, bias=False)

    def forward(self, x):
        places = self.places(torch.arange(x.shape[1], device=x.device))
        return self.head(self.norm(self.blocks(self.words(x) + places)))


def trained(device="cpu", steps=3, mode=everything):
    """The checkpoint after some steps: a digest of all parameters, and the loss."""
    torch.manual_seed(0)
    model = Transformer()
    text = torch.randint(50, (8, 17))
    model, text = copy.deepcopy(model).to(device), text.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    with mode():
        for _ in range(steps):
            optimizer.zero_grad()
            logits = model(text[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
            optimizer.step()
    digest = hashlib.sha256(b"".join(bits(*model.state_dict().values()))).hexdigest()
    return digest, loss.item()


def test_a_transformer_trains_to_one_checkpoint():
    threads, found = torch.get_num_threads(), []
    for n in (1, 2):
        torch.set_num_threads(n)
        found.append(trained())
    torch.set_num_threads(threads)
    assert found[0] == found[1]
    assert found[0][1] < 3.9  # log 50 at the beginning


def between(x, y, weight):
    return np.where(weight < 0.5, x + (y - x) * weight, y - (y - x) * (1 - weight))


def test_other_dtypes_are_refused():
    with (
        pytest.raises(
            RuntimeError,
            match=r"exp of torch.float64 .*write dtypes=\(torch.float32, torch.float64\) instead",
        ),
        ozaki.torch.reproducible(dtypes=torch.float32, everything=True),
    ):
        torch.ones(3, dtype=torch.float64).exp()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda x: torch.arange(9).exp(), lambda x: ozaki.exp(np.arange(9, dtype=np.float32))),
        (lambda x: torch.atan2(x, x.double() + 1), lambda x: ozaki.atan2(np.float64(x), np.float64(x) + 1)),
        (lambda x: torch.xlogy(x, 3.0), lambda x: x * ozaki.log(np.float32(3))),
        (lambda x: torch.sinc(x), lambda x: ozaki.sinpi(x) / (x * np.float32(np.pi))),
        (lambda x: torch.lerp(x, 2 * x, x.abs()), lambda x: between(x, 2 * x, abs(x))),
    ],
)
def test_dtypes_that_meet_and_functions_of_functions(found, expected):
    x = drawn(700)
    with everything():
        y = found(x)
    assert bits(y) == [np.asarray(expected(x.numpy())).tobytes()]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.interpolate(x[None, None], (9, 9), mode="bilinear"), "upsample_bilinear2d"),
        (lambda x: torch._foreach_add([x], [x]), None),
        (lambda x: torch.linalg.solve(x[:5, :5], x[:5]), "solve"),
        (lambda x: torch.cumprod(x, 0), "cumprod"),
        (torch.lgamma, "lgamma of torch.float32"),
        (lambda x: x.half().exp(), r"exp of torch.float16 .*x.float\(\)"),
        (lambda x: torch.complex(x, x).exp(), "exp of torch.complex64"),
        (lambda x: (x > 0).to(torch.int32).lgamma(), "lgamma of torch.float32"),
    ],
)
def test_what_is_left_raises(call, message):
    with everything():
        if message is None:
            call(drawn(6, 5))
            return
        with pytest.raises(RuntimeError, match=message):
            call(drawn(6, 5))
