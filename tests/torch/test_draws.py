"""Random numbers in a mode of everything: those of `ozaki.random`, of seeds from PyTorch's generator."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki.random  # noqa: E402
import ozaki.torch  # noqa: E402
from tests.torch.test_everything import bits, everything  # noqa: E402
from tests.torch.test_independent import on_threads  # noqa: E402

F = torch.nn.functional


def seeds(count=1, seed=3):
    """What PyTorch's generator gives to calls in the mode."""
    generator = torch.Generator().manual_seed(seed)
    return [int(torch.empty((), dtype=torch.int64).random_(generator=generator)) for _ in range(count)]


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
        assert sum(calls.values()) == 1 + (name in ("dropout",) and calls["div"])
        assert found.numpy().dtype == wanted.dtype
        assert bits(found) == [wanted.tobytes()]


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
