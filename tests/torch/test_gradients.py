"""Gradients of a batch are exact sums, rounded once: the same for any cut into parts, and any workers."""

from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")

import ozaki.torch  # noqa: E402

F, nn = torch.nn.functional, torch.nn


def everything():
    return ozaki.torch.reproducible(dtypes=torch.float32, everything=True)


class Language(nn.Module):
    """A transformer whose last layer is its embedding."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(9, 8), nn.Embedding(5, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.2, activation="gelu", batch_first=True)

    def forward(self, tokens):
        return self.layer(self.words(tokens) + self.places.weight).mean(1) @ self.words.weight.T


def images():
    return nn.Sequential(
        *(nn.Conv1d(2, 4, 3, padding=1, groups=2), nn.GELU(), nn.GroupNorm(2, 4), nn.Flatten()),
        *(nn.Linear(20, 6, bias=False), nn.Dropout(0.3), nn.LayerNorm(6), nn.Linear(6, 9)),
    )


def photographs():
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 2), nn.Flatten()),
        nn.Linear(64, 9),
    )


NETWORKS = {
    "language": (Language, lambda g: torch.randint(9, (8, 5), generator=g)),
    "images": (images, lambda g: torch.randn(8, 2, 5, generator=g)),
    "photographs": (photographs, lambda g: torch.randn(8, 3, 6, 6, generator=g)),
}


def made(name):
    torch.manual_seed(0)
    make, inputs = NETWORKS[name]
    generator = torch.Generator().manual_seed(1)
    return make(), inputs(generator), torch.randint(9, (8,), generator=generator)


def add(exact, model, x, y, parts, synchronized=False):
    """Add the gradients of parts, of all but the last in `no_sync`."""
    torch.manual_seed(2)
    with everything():
        for i, (first, size) in enumerate(parts):
            waits = synchronized and i + 1 < len(parts)
            with exact.part(first, size), model.no_sync() if waits else nullcontext():
                loss = F.cross_entropy(
                    model(x[first : first + size]), y[first : first + size], reduction="sum"
                )
                (loss / len(x)).backward()


def bits(model):
    return [p.grad.cpu().numpy().tobytes() for p in model.parameters()]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_cut_of_a_batch_does_not_show(name):
    model, x, y = made(name)
    exact, found, states = ozaki.torch.ExactGradients(model.parameters()), [], []
    for parts in ([(0, 8)], [(4, 4), (0, 4)], [(0, 2), (2, 1), (5, 3), (3, 2)]):
        add(exact, model, x, y, parts)
        exact.write()
        found.append(bits(model))
        states.append(torch.get_rng_state().tolist())
    assert found[0] == found[1] == found[2]
    assert states[0] == states[1] == states[2]
    model.zero_grad()
    torch.manual_seed(2)
    with everything():
        F.cross_entropy(model(x), y).backward()
    for p, exactly in zip(model.parameters(), found[0], strict=True):
        rounded = torch.frombuffer(bytearray(exactly), dtype=torch.float32).reshape(p.shape)
        torch.testing.assert_close(rounded, p.grad, rtol=1e-5, atol=1e-7)


def test_sums_over_parts_are_exact():
    """Sums that are rounded between parts lose the 1."""
    layer, x = nn.Linear(1, 1), torch.tensor([[1e8], [1.0], [-1e8]])
    exact = ozaki.torch.ExactGradients(layer.parameters())
    with everything():
        for i in (0, 1, 2):
            with exact.part(i, 1):
                (layer(x[i : i + 1]) * x[i]).sum().backward()
            with exact.part(i, 1):
                (-layer(x[i : i + 1]) * x[i] + layer(x[i : i + 1])).sum().backward()
    exact.write()
    assert layer.weight.grad.item() == 1
    assert layer.bias.grad.item() == 3


def test_a_gradient_that_is_no_sum_is_refused():
    layer = nn.Linear(2, 2)
    exact = ozaki.torch.ExactGradients([layer.weight])
    with everything(), exact.part(0, 1), pytest.raises(RuntimeError, match=r"shape \(2, 2\) is no sum"):
        (layer(torch.ones(1, 2)).sum() + layer.weight.square().sum()).backward()
    with everything(), exact.part(0, 1), pytest.raises(RuntimeError, match="is no sum"):
        (torch.ones(1, 2) @ layer.weight.exp()).sum().backward()


def test_what_parts_ask_for():
    exact = ozaki.torch.ExactGradients([nn.Parameter(torch.ones(2))])
    with pytest.raises(RuntimeError, match="everything=True"), exact.part(0, 1):
        pass
    with everything():
        with pytest.raises(ValueError, match="got -1 and 1"), exact.part(-1, 1):
            pass
        with exact.part(2, 4):
            with pytest.raises(RuntimeError, match="has no parts"), exact.part(0, 1):
                pass
            with pytest.raises(RuntimeError, match="of 4 samples"):
                torch.rand(3)
            numbers = torch.rand(8, 3)
            order = torch.randperm(5)
            counts = torch.arange(2).add_(1)
    with pytest.raises(TypeError, match="float16"):
        ozaki.torch.ExactGradients([nn.Parameter(torch.ones(2).half())])
    with pytest.raises(ValueError, match="no others"):
        exact.attach(nn.Linear(2, 2))
    assert numbers.shape == (8, 3)
    assert counts.tolist() == [1, 2]
    assert order.sort().values.tolist() == [*range(5)]


@pytest.mark.parametrize("draw", ["rand", "randn", "uniform", "normal", "integers", "bernoulli"])
def test_random_numbers_of_a_part_are_those_of_the_batch(draw):
    def drawn(n):
        return {
            "rand": lambda: torch.rand(n, 3),
            "randn": lambda: torch.randn(n, 3),
            "uniform": lambda: torch.empty(n, 3).uniform_(1, 2),
            "normal": lambda: torch.empty(n, 3).normal_(1, 2),
            "integers": lambda: torch.randint(9, (n, 3)),
            "bernoulli": lambda: torch.bernoulli(torch.full((n, 3), 0.5)),
        }[draw]()

    exact = ozaki.torch.ExactGradients([])
    with everything():
        torch.manual_seed(0)
        whole = drawn(7)
        torch.manual_seed(0)
        parts = []
        for first, n in ((0, 3), (3, 4)):
            with exact.part(first, n):
                parts.append(drawn(n))
    assert torch.equal(torch.cat(parts), whole)


class Shared(nn.Module):
    """What samples meet is made of parameters first; `made` names how."""

    def __init__(self, made):
        super().__init__()
        self.made, self.words, self.places = made, nn.Embedding(9, 8), nn.Embedding(8, 8)
        self.left, self.right = (nn.Parameter(torch.randn(shape) / 3) for shape in ((8, 2), (2, 8)))
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens):
        h, every = self.words(tokens), torch.arange(tokens.shape[1])
        return {
            "positions": lambda: h + self.places(every),
            "positions of one": lambda: h + self.places(every[None]),
            "low rank": lambda: F.linear(h, self.left @ self.right),
            "square": lambda: h @ (self.places.weight @ self.places.weight),
            "slice": lambda: h + self.places.weight[: len(every)],
            "norm": lambda: h + self.norm(self.places(every)),
            "function": lambda: h * self.places.weight[0].exp(),
        }[self.made]().mean(1)


@pytest.mark.parametrize(
    "made", ["positions", "positions of one", "low rank", "square", "slice", "norm", "function"]
)
@pytest.mark.parametrize("samples", [2, 4, 8])
def test_parameters_that_samples_do_not_meet_are_refused(made, samples):
    """Their gradients are made of rounded sums over the samples of a part, of any number of tokens."""
    torch.manual_seed(0)
    model, x, y = Shared(made), torch.randint(9, (8, 8)), torch.randint(8, (8,))
    exact = ozaki.torch.ExactGradients(model.parameters())
    with pytest.raises(RuntimeError, match="depend on the cut"):
        add(exact, model, x, y, [(0, samples)])


def test_positions_of_every_sample():
    torch.manual_seed(0)
    model, x, y = Shared(""), torch.randint(9, (8, 8)), torch.randint(8, (8,))
    found = []
    model.forward = lambda x: (model.words(x) + model.places(torch.arange(8).expand(len(x), 8))).mean(1)
    exact = ozaki.torch.ExactGradients([model.words.weight, model.places.weight])
    for parts in ([(0, 8)], [(4, 4), (0, 4)], [(i, 1) for i in range(8)]):
        add(exact, model, x, y, parts)
        exact.write()
        found.append([e.weight.grad.numpy().tobytes() for e in (model.words, model.places)])
    assert found[0] == found[1] == found[2]


def test_gradients_of_no_part_are_not_written():
    exact = ozaki.torch.ExactGradients([torch.ones(2, requires_grad=True)])
    with pytest.raises(RuntimeError, match="no backward pass"):
        exact.write()


def worker(rank, path, backend):
    """Every second part of two samples: by the hook of DistributedDataParallel, then by `all_reduce`."""
    torch.set_num_threads(1)
    store = f"file://{path}/store"
    torch.distributed.init_process_group(backend, init_method=store, rank=rank, world_size=2)
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    net, x, y = (of.to(device) for of in made("images"))
    model, parts = nn.parallel.DistributedDataParallel(net), [(2 * i, 2) for i in range(rank, 4, 2)]
    exact = ozaki.torch.ExactGradients(net.parameters())
    exact.attach(model)
    found = []
    for _ in range(2):
        add(exact, model, x, y, parts, synchronized=True)
        exact.write()
        found.append(bits(net))
        net.zero_grad()
    add(exact, net, x, y, parts)
    exact.all_reduce()
    exact.write()
    torch.save([*found, bits(net)], f"{path}/{rank}")
    torch.distributed.destroy_process_group()


ON_TWO_GPUS = [pytest.mark.gpu, pytest.mark.two_gpus]


@pytest.mark.parametrize(
    "backend",
    [pytest.param("gloo", marks=pytest.mark.slow), pytest.param("nccl", marks=ON_TWO_GPUS)],
)
def test_workers_have_the_gradients_of_one(tmp_path, backend):
    model, x, y = made("images")
    exact = ozaki.torch.ExactGradients(model.parameters())
    add(exact, model, x, y, [(0, 8)])
    exact.write()
    torch.multiprocessing.spawn(worker, (str(tmp_path), backend), nprocs=2)
    for rank in range(2):
        assert torch.load(tmp_path / str(rank)) == [bits(model)] * 3
