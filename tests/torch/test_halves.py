"""Products of half precision in the mode are those of integers of few bits, rounded once."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki.torch  # noqa: E402
from multiword.engines.moduli import residue_system  # noqa: E402
from multiword.formats import FORMATS  # noqa: E402
from multiword.rounding import round_to  # noqa: E402
from ozaki.definition.products import product  # noqa: E402
from ozaki.product.steps import norm_widths  # noqa: E402
from ozaki.scaling.scales import norm_limit  # noqa: E402

NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
DTYPES = pytest.mark.parametrize("dtype", NAMES)


def numbers(*shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-12, 3, shape))
    return torch.from_numpy(x).to(dtype)


def expected(a, b):
    """The product by the definition: exact sums of rounded numbers, each rounded once."""
    found = product(a.float().numpy(), b.float().numpy(), "normwise", NAMES[a.dtype])
    return torch.from_numpy(found).to(a.dtype)


@DTYPES
def test_products_are_rounded_once(dtype):
    a, b = numbers(5, 70, dtype=dtype), numbers(70, 6, dtype=dtype, seed=1)
    with ozaki.torch.reproducible(dtypes=dtype) as calls:
        found, stack, vector = a @ b, torch.stack([a, -a]) @ torch.stack([b, b]), a @ b[:, 0]
    assert calls == {"mm": 1, "bmm": 1, "mv": 1}
    assert found.dtype is stack.dtype is vector.dtype is dtype
    assert torch.equal(found, expected(a, b))
    assert torch.equal(stack, torch.stack([found, -found]))
    assert torch.equal(vector, found[:, 0])


@DTYPES
@pytest.mark.parametrize("k", [3, 300])
def test_every_executor_has_the_bits_of_the_definition(dtype, k):
    """Results from below the least subnormal number to beyond the range, and ties among them."""
    a, b = numbers(9, k, dtype=dtype), numbers(k, 8, dtype=dtype, seed=1)
    low, high = (-24, 15) if dtype is torch.float16 else (-133, 127)
    exponents = torch.tensor([0, low // 2, low // 2 - 4, low // 2 + 3, high // 2, high // 2 + 2, 1, 2, 3])
    a, b = torch.ldexp(a.double(), exponents[:, None]).to(dtype), torch.ldexp(b, exponents[:8]).to(dtype)
    a[8], b[:, 7] = 1 + torch.finfo(dtype).eps, 0.5  # equal numbers, whose sums are often ties
    wanted = expected(a, b)
    for name in (None, "floats", "bytes", "steps"):
        with ozaki.executor(name), ozaki.torch.reproducible(dtypes=dtype):
            assert torch.equal(a @ b, wanted), name


def test_no_product_is_rounded_twice():
    """1 + 2**-8 lies halfway between two bfloat16; float32 rounds what is 2**-32 more to it."""
    a = torch.tensor([[1.0, 2.0**-4, 2.0**-9]]).bfloat16()
    b = torch.tensor([[1.0], [2.0**-4], [2.0**-9 + 2.0**-16]]).bfloat16()
    with ozaki.torch.reproducible(dtypes=torch.bfloat16):
        assert torch.equal(a @ b, expected(a, b))
    a, b = torch.tensor([[1.0, 0.5**9]]).half(), torch.tensor([[1.0], [0.25 + 2.0**-9]]).half()
    assert expected(a, b).item() == 1 + 2.0**-10  # a tie that is no tie
    with ozaki.torch.reproducible(dtypes=torch.float16):
        assert (a @ b).item() == 1 + 2.0**-10


@DTYPES
def test_layers_and_their_gradients(dtype):
    """Cuts of a batch do not show; the order of samples changes no gradient of a weight."""
    layer = torch.nn.Linear(40, 3).to(dtype)
    x, order = numbers(32, 40, dtype=dtype), torch.arange(32).flip(0)
    found, biases = [], []
    with ozaki.torch.reproducible(dtypes=(torch.float32, dtype), sums=True, strict=True) as calls:
        for at in (slice(None), order):
            layer.zero_grad()
            y = layer(x[at])
            y.backward(numbers(32, 3, dtype=dtype, seed=2)[at])
            found.append(layer.weight.grad)
            biases.append(layer.bias.grad)
        assert torch.equal(torch.cat([layer(x[:5]), layer(x[5:])]), layer(x))
        product = x @ layer.weight.detach().T
        assert torch.equal(layer(x), (product.float() + layer.bias.float()).to(dtype))
        scaled = torch.addmm(layer.bias, x, layer.weight.T, beta=0.5, alpha=3)
        assert torch.equal(scaled, product * 3 + layer.bias * 0.5)
    assert torch.equal(*found)
    exact = numbers(32, 3, dtype=dtype, seed=2).double().sum(0)  # of few digits: float64 has them all
    assert torch.equal(
        biases[0], torch.from_numpy(round_to(exact.numpy(), NAMES[dtype]).astype(float)).to(dtype)
    )
    assert torch.equal(*biases)
    assert calls["mm"] > 0


@DTYPES
def test_errors_are_within_the_bound(dtype):
    a, b = numbers(30, 500, dtype=dtype).double(), numbers(500, 30, dtype=dtype, seed=1).double()
    with ozaki.torch.reproducible(dtypes=dtype):
        found = (a.to(dtype) @ b.to(dtype)).double()
    u = torch.finfo(dtype).eps / 2
    bound = 500**0.5 * u * torch.outer(a.norm(dim=1), b.norm(dim=0)) + u * found.abs()
    assert bool(((found - a @ b).abs() <= bound).all())


@pytest.mark.parametrize(("name", "moduli"), [("fp16", 5), ("bf16", 4)])
def test_moduli_of_norm_limits(name, moduli):
    for k in (1, 100, 4096, 1 << 22):
        _, log2_product = norm_widths(norm_limit(FORMATS[name], k), k, 0)
        assert len(residue_system("int8", log2_product, k, 1).moduli) == moduli


@DTYPES
def test_rows_lose_little_beside_the_last_rounding(dtype):
    a, b = (torch.randn(30, 4096, generator=torch.Generator().manual_seed(s)).to(dtype) for s in (0, 1))
    with ozaki.torch.reproducible(dtypes=dtype):
        found = (a @ b.T).double()
    exact = a.double() @ b.double().T  # its errors are far below
    assert (found - exact).norm() < 1.1 * (exact.to(dtype).double() - exact).norm()


@DTYPES
def test_special_numbers(dtype):
    largest = torch.finfo(dtype).max
    a = torch.tensor([[torch.inf, 1], [largest, largest], [0, 0], [torch.nan, 1]], dtype=dtype)
    b = torch.tensor([[1.0, -1], [1, 1]], dtype=dtype)
    with ozaki.torch.reproducible(dtypes=dtype):
        found, empty = a @ b, a[:, :0] @ b[:0]
    assert found.tolist()[:3] == [[torch.inf, -torch.inf], [torch.inf, 0], [0, 0]]
    assert bool(found[3].isnan().all())
    assert not empty.any()


def test_other_operators_of_halves_are_left_or_refused():
    x = numbers(4, 4, dtype=torch.float16)
    with ozaki.torch.reproducible(dtypes=torch.float32, everything=True):
        with pytest.raises(
            RuntimeError, match=r"mm of torch.float16 .* dtypes=\(torch.float16, torch.float32\) instead"
        ):
            x @ x
        with pytest.raises(RuntimeError, match=r"x.float\(\)"):
            x.exp()
    with ozaki.torch.reproducible(dtypes=(torch.float32, torch.float16), everything=True) as calls:
        assert (x @ x).dtype is torch.float16
        with pytest.raises(RuntimeError, match=r"exp of torch.float16 .*x.float\(\)"):
            x.exp()
        with pytest.raises(RuntimeError, match=r"convolution of torch\.float16"):
            torch.nn.functional.conv1d(x[None], x[:, :, None])
    assert calls == {"mm": 1}
