"""Random numbers in a mode of everything: those of `ozaki.random`, of seeds from PyTorch's generator."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki.random  # noqa: E402
import ozaki.torch  # noqa: E402
from ozaki.torch import draws  # noqa: E402
from tests.torch.test_everything import bits, everything  # noqa: E402
from tests.torch.test_independent import on_threads  # noqa: E402

F = torch.nn.functional
DRAWING = {name.partition(".")[0].rstrip("_") for name in draws.KERNELS}


def seeds(count=1, seed=3):
    """What PyTorch's generator gives to calls in the mode."""
    generator = torch.Generator().manual_seed(seed)
    return [int(torch.empty((), dtype=torch.int64).random_(generator=generator)) for _ in range(count)]


def exponentials(rng, n):
    return np.maximum(-ozaki.log(1 - rng.random(n)), 2.0**-54)


def trials(rng, n, p):
    return np.maximum(np.ceil(exponentials(rng, n) / -ozaki.log1p(-p)), 1)


def tangents(rng, n):
    v = rng.random(n) - (0.5 - 2.0**-54)
    return ozaki.sinpi(v) / ozaki.cospi(v)


DRAWS = {
    "rand": (lambda: torch.rand(30, 7), lambda rng: rng.random((30, 7), np.float32)),
    "rand of float64": (lambda: torch.rand(9, dtype=torch.float64), lambda rng: rng.random(9)),
    "rand_like": (lambda: torch.rand_like(torch.ones(9)), lambda rng: rng.random(9, np.float32)),
    "rand of a number": (lambda: torch.rand(()), lambda rng: rng.random((), np.float32)),
    "rand of nothing": (lambda: torch.rand(0, 3), lambda rng: rng.random((0, 3), np.float32)),
    "randn": (lambda: torch.randn(31, 7), lambda rng: rng.standard_normal((31, 7), np.float32)),
    "randint": (lambda: torch.randint(10, (50,)), lambda rng: rng.integers(10, size=50)),
    "randint from": (lambda: torch.randint(-5, 2**40, (50,)), lambda rng: rng.integers(-5, 2**40, 50)),
    "random_": (
        lambda: torch.empty(50, dtype=torch.uint8).random_(256),
        lambda rng: rng.integers(256, size=50).astype(np.uint8),
    ),
    "randperm": (lambda: torch.randperm(40), lambda rng: rng.permutation(40)),
    "normal_": (lambda: torch.empty(9).normal_(2, 0.3), lambda rng: rng.normal(2, 0.3, 9, np.float32)),
    "normal": (lambda: torch.normal(2.0, 0.3, (9,)), lambda rng: rng.normal(2, 0.3, 9, np.float32)),
    "uniform_": (lambda: torch.empty(9).uniform_(-1, 3), lambda rng: rng.uniform(-1, 3, 9, np.float32)),
    "bernoulli": (
        lambda: torch.bernoulli(torch.linspace(0, 1, 50)),
        lambda rng: (rng.random(50) < torch.linspace(0, 1, 50).numpy()).astype(np.float32),
    ),
    "bernoulli_": (
        lambda: torch.empty(50, dtype=torch.bool).bernoulli_(0.3),
        lambda rng: rng.bernoulli(0.3, 50),
    ),
    "exponential_": (lambda: torch.empty(60).exponential_(0.7), lambda rng: exponentials(rng, 60) / 0.7),
    "geometric_": (lambda: torch.empty(60).geometric_(0.3), lambda rng: trials(rng, 60, 0.3)),
    "geometric_ of bytes": (
        lambda: torch.empty(60, dtype=torch.int8).geometric_(0.01),
        lambda rng: np.minimum(trials(rng, 60, 0.01), 127),
    ),
    "cauchy_": (lambda: torch.empty(60).cauchy_(2, 0.5), lambda rng: tangents(rng, 60) * 0.5 + 2),
    "log_normal_": (
        lambda: torch.empty(60).log_normal_(1, 2),
        lambda rng: ozaki.exp(rng.normal(1.0, 2.0, 60)),
    ),
    "normal of means": (
        lambda: torch.normal(torch.arange(60.0), 0.3),
        lambda rng: rng.standard_normal(60, np.float32) * np.float32(0.3) + np.arange(60),
    ),
    "normal of deviations": (
        lambda: torch.normal(2.0, torch.arange(60.0)),
        lambda rng: rng.standard_normal(60, np.float32) * np.arange(60, dtype=np.float32) + np.float32(2),
    ),
    "normal of both": (
        lambda: torch.normal(torch.ones(60, 1), torch.arange(9.0)),
        lambda rng: rng.standard_normal((60, 9), np.float32) * np.arange(9, dtype=np.float32) + np.float32(1),
    ),
    "complex randn": (
        lambda: torch.view_as_real(torch.randn(30, dtype=torch.complex64)),
        lambda rng: rng.normal(0, 0.5**0.5, (30, 2), np.float32),
    ),
    "half rand": (
        lambda: torch.rand(60, dtype=torch.float16),
        lambda rng: np.floor(rng.random(60, np.float32) * 2**11) / 2**11,
    ),
    "half randn": (
        lambda: torch.randn(60, dtype=torch.float16),
        lambda rng: rng.standard_normal(60, np.float32),
    ),
    "random_ without bounds": (
        lambda: torch.empty(60).random_(),
        lambda rng: rng.integers(2**24 + 1, size=60),
    ),
    "random_ of integers": (
        lambda: torch.empty(60, dtype=torch.int64).random_(),
        lambda rng: rng.integers(2**63, size=60),
    ),
    "random_ of booleans": (
        lambda: torch.empty(60, dtype=torch.bool).random_(),
        lambda rng: rng.integers(2, size=60),
    ),
    "randint as floats": (
        lambda: torch.randint(-3, 9, (60,), dtype=torch.float64),
        lambda rng: rng.integers(-3, 9, 60),
    ),
    "randperm as floats": (lambda: torch.randperm(40, dtype=torch.float32), lambda rng: rng.permutation(40)),
    "multinomial with replacement": (
        lambda: torch.multinomial(torch.tensor([0.0, 1, 0, 2, 5, 0]), 60, replacement=True),
        lambda rng: np.searchsorted([0, 1, 1, 3, 8, 8], rng.random(60) * 8, side="right"),
    ),
    "multinomial of one": (
        lambda: torch.multinomial(torch.tensor([[3.0, 1], [1, 0]]), 1),
        lambda rng: (rng.random((2, 1)) * [[4], [1]] >= [[3], [1]]).astype(np.int64),
    ),
    "multinomial": (
        lambda: torch.multinomial(torch.tensor([0.0, 1, 0.5, 2, 5, 0]), 3),
        lambda rng: np.argsort(-np.array([0, 1, 0.5, 2, 5, 0]) / exponentials(rng, 6), kind="stable")[:3],
    ),
    "rrelu": (
        lambda: F.rrelu(torch.linspace(-2, 1, 60), 0.2, 0.3, training=True),
        lambda rng: np.where(
            (x := torch.linspace(-2, 1, 60).numpy()) <= 0, x * rng.uniform(0.2, 0.3, 60, np.float32), x
        ),
    ),
    "native_dropout": (
        lambda: torch.native_dropout(torch.full((50,), 3.0), 0.5, True)[0],
        lambda rng: 6 * rng.bernoulli(0.5, 50),
    ),
    "alpha_dropout": (
        lambda: (F.alpha_dropout(torch.ones(60), 0.5, training=True) > 0).int(),
        lambda rng: rng.bernoulli(0.5, 60),
    ),
    "gumbel_softmax": (
        lambda: F.gumbel_softmax(torch.zeros(60), hard=True),
        lambda rng: np.arange(60) == exponentials(rng, 60).argmin(),
    ),
    "dropout": (
        lambda: F.dropout(torch.full((50,), 3.0), 0.3),
        lambda rng: np.float32(3) * (rng.bernoulli(0.7, 50) / np.float32(0.7)),
    ),
    "initializer": (
        lambda: torch.nn.init.uniform_(torch.empty(4, 3), -1, 1),
        lambda rng: rng.uniform(-1, 1, (4, 3), np.float32),
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_this_librarys(name):
    call, expected = DRAWS[name]
    wanted = np.asarray(expected(ozaki.random.Generator(*seeds())))
    for threads in (1, 2):
        torch.manual_seed(3)
        with everything() as calls:
            found = on_threads(threads, call)
        assert 1 <= sum(calls[draw] for draw in DRAWING) <= 2  # some are made of another one
        assert bits(found) == [wanted.astype(found.numpy().dtype).tobytes()]


def test_a_number_depends_on_its_place_and_not_on_the_layout():
    torch.manual_seed(3)
    with everything():
        plain = torch.rand(2, 3, 4, 5)
        torch.manual_seed(3)
        strided = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last).uniform_()
    assert torch.equal(plain, strided)


def test_generators_and_states_do_what_they_do_outside():
    first, second = seeds(2)
    with everything():
        torch.manual_seed(3)
        state = torch.get_rng_state()
        found = torch.rand(5), torch.rand(5)
        torch.set_rng_state(state)
        with torch.random.fork_rng():
            torch.rand(2)
        again = torch.rand(5), torch.rand(5, generator=torch.Generator().manual_seed(3))
    expected = [ozaki.random.Generator(seed).random(5, np.float32).tobytes() for seed in (first, second)]
    assert bits(*found) == expected
    assert bits(*again) == [expected[0]] * 2


def test_the_gradient_of_dropout_is_its_factor():
    x = torch.full((100,), 2.0, requires_grad=True)
    with everything():
        y = F.dropout(x, 0.4)
        y.sum().backward()
    assert torch.equal(x.grad * 2, y)
    assert set(x.grad.tolist()) == {0.0, float(torch.tensor(1.0) / torch.tensor(0.6))}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.empty(2).uniform_(3, 2), "from=3 > to=2"),
        (lambda: torch.empty(2).normal_(0, -1), "std >= 0"),
        (lambda: torch.empty(2).bernoulli_(2), r"\[0, 1\]"),
        (lambda: torch.randint(5, 3, (2,)), "from=5 >= to=3"),
        (lambda: torch.randint(0, 300, (2,), dtype=torch.uint8), "out of bounds"),
        (lambda: F.dropout(torch.ones(3), 1.5), "probability"),
        (lambda: torch.empty(2).exponential_(-1), "lambda"),
        (lambda: torch.empty(2).geometric_(1.5), "p to be in"),
        (lambda: torch.empty(2).cauchy_(0, -1), "sigma"),
        (lambda: torch.empty(2).log_normal_(0, -1), "std"),
        (lambda: torch.normal(torch.ones(2), -1.0), "std >= 0"),
        (lambda: torch.multinomial(torch.zeros(3), 1), "sum of probabilities"),
        (lambda: torch.multinomial(torch.ones(3), 4), "without replacement"),
    ],
)
def test_errors_are_pytorchs(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message), everything():
        call()


def test_other_modes_draw_pytorchs_numbers():
    torch.manual_seed(3)
    expected = torch.rand(5), F.dropout(torch.ones(9))
    torch.manual_seed(3)
    with ozaki.torch.reproducible(dtypes=torch.float32):
        found = torch.rand(5), F.dropout(torch.ones(9))
    assert bits(*found) == bits(*expected)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: torch.poisson(torch.ones(3)), "poisson of .* write numbers that were drawn once"),
        (lambda: torch.binomial(torch.ones(3), torch.ones(3)), "binomial of .*bernoulli"),
        (lambda: torch.distributions.Gamma(torch.ones(3), 1.0).sample(), "_standard_gamma "),
        (lambda: torch.randint(5, (3,), dtype=torch.uint64), "random of torch.uint64"),
    ],
)
def test_what_is_left_to_pytorch_is_refused_by_name(call, said):
    with pytest.raises(RuntimeError, match=said), everything():
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_uniform_numbers_are_below_one_and_exponential_ones_above_zero(dtype):
    torch.manual_seed(3)
    with everything():
        assert torch.rand(2**17, dtype=dtype).max() < 1
        assert torch.empty(2**17, dtype=dtype).exponential_().min() > 0
