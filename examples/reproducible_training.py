"""Training whose losses do not depend on the order of a batch, its cut or the threads.

    python examples/reproducible_training.py [--output DIR] [--gpu]

PyTorch's float64 products change their last bits with the shape of a batch, the order of its samples
and the number of threads, and training makes them grow. Within `ozaki.torch.reproducible` an element of a
product depends on its row and its column alone (Ozaki, Uchino and Imamura, "Ozaki scheme II"), and sums
are correctly rounded (Rump, Ogita and Oishi, "Accurate floating-point summation"). First a small network,
in float64 and in float32, trained twice: with the samples of each batch in order, one thread, and validated
on all samples at once; then with the samples of each batch in another order, eight threads, and validated 32
at a time. In float32 also with gradients of 16 samples each, which one worker takes, or four in turn: their
correctly rounded sum is the same. Then a Gaussian process, fitted by gradients through a Cholesky
factorization in blocks; its matrix of distances is made at once, or 37 rows at a time. The code of the models
is the same in the mode and without it. The counts say how many products PyTorch made, and how many of them
were this library's. Some 20 seconds on a CPU; with --gpu all are trained on an NVIDIA GPU, too, and their
losses compared with the CPU's.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from matplotlib import pyplot as plt
from torch.profiler import ProfilerActivity, profile

import ozaki.torch

EPOCHS, STEPS, BLOCK, MICROBATCH = 24, 5, 32, 16
DTYPES = (torch.float32, torch.float64)
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot")
Run = tuple[np.ndarray, list[torch.Tensor]]
"""Losses and final parameters."""


def data(n: int, features: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(11)
    x = rng.standard_normal((n, features))
    y = np.abs(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(n)
    return torch.from_numpy(x), torch.from_numpy(y)


def gradients(
    model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, workers: int
) -> list[torch.Tensor]:
    """The gradients of a batch, summed over microbatches that workers take in turn."""
    parts, n = list(zip(inputs.split(MICROBATCH), targets.split(MICROBATCH), strict=True)), len(inputs)
    each = []
    for x, y in (part for worker in range(workers) for part in parts[worker::workers]):
        loss = (model(x)[:, 0] - y).square().sum() / n
        each.append(torch.autograd.grad(loss, list(model.parameters())))
    return [torch.stack(gradient).sum(0) for gradient in zip(*each, strict=True)]


def train_network(dtype: torch.dtype, reordered: bool, validation: int, workers: int, device: str) -> Run:
    """The validation losses of all epochs, and the parameters that came out; whole batches for no workers."""
    torch.manual_seed(1)
    x, y = (t.to(device, dtype) for t in data(1024, 16))
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 1),
    ).to(device, dtype)
    order = torch.randperm(128, generator=torch.Generator().manual_seed(2)).to(device)
    losses = []
    for _ in range(EPOCHS):
        for inputs, targets in zip(x[:512].split(128), y[:512].split(128), strict=True):
            if reordered:
                inputs, targets = inputs[order], targets[order]
            if workers:
                step = gradients(model, inputs, targets, workers)
            else:
                loss = (model(inputs)[:, 0] - targets).square().mean()
                step = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for p, gradient in zip(model.parameters(), step, strict=True):
                    p -= 0.5 * gradient
        with torch.no_grad():
            predicted = torch.cat([model(part)[:, 0] for part in x[512:].split(validation)])
            losses.append((predicted - y[512:]).square().mean().item())
    return np.array(losses), list(model.parameters())


def squared_distances(x: torch.Tensor, rows: int) -> torch.Tensor:
    """Of all pairs of points, some rows at a time."""
    norms = (x * x).sum(1)
    return torch.cat(
        [norms[i : i + rows, None] + norms - 2 * (x[i : i + rows] @ x.mT) for i in range(0, len(x), rows)]
    )


def factorize(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The pivots D of K = LDLᵀ, L with a unit diagonal, and D·L⁻¹y, from the matrix [K; yᵀ].

    Cholesky's factorization without square roots: PyTorch's differ in the last bit between CPUs and GPUs.
    """
    pivots, last = [], []
    while a.shape[1]:
        panel, columns = a[:, :BLOCK], []
        for i in range(BLOCK):
            below = torch.arange(len(a), device=a.device) >= i
            column = torch.where(below, panel[:, i], 0)
            columns.append(column)
            panel = panel - torch.outer(column, column[:BLOCK] / panel[i, i])
        factor = torch.stack(columns, 1)
        pivots.append(factor.diagonal())
        last.append(factor[-1])
        a = a[BLOCK:, BLOCK:] - factor[BLOCK:] @ (factor[BLOCK:-1] / pivots[-1]).mT
    return torch.cat(pivots), torch.cat(last)


def fit_process(rows: int, device: str) -> Run:
    """The negative log likelihoods of a rational quadratic Gaussian process, and its parameters."""
    x, y = (t.to(device) for t in data(128, 16))
    distances, eye = squared_distances(x, rows), torch.eye(len(x), dtype=x.dtype, device=device)
    parameters = [
        torch.tensor(v, dtype=x.dtype, device=device, requires_grad=True) for v in (1.0, 2.0, 0.001)
    ]
    losses = []
    for _ in range(STEPS):
        amplitude, length, noise = parameters
        kernel = amplitude**2 / (1 + distances / (2 * length**2)) + noise**2 * eye
        pivots, white = factorize(torch.cat([kernel, y[None]]))
        quadratic = (white * white / pivots).sum()
        # x / x has the logarithm's derivative; a GPU's logarithm is another function than the CPU's.
        twice = quadratic + (pivots / pivots.detach()).sum()
        gradients = torch.autograd.grad(twice / 2, parameters)
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p -= 0.0005 * g
        losses.append(((quadratic.cpu() + pivots.detach().cpu().log().sum()) / 2).item())
    return np.array(losses), parameters


def trained(train: Callable[..., Run], ways: list[tuple], gpu: bool) -> list[Run]:
    """The runs on the CPU, with one thread and with eight, and the second one's on the GPU if asked."""
    runs, threads = [], torch.get_num_threads()
    for count, way in zip((1, 8), ways, strict=True):
        torch.set_num_threads(count)
        runs.append(train(*way, "cpu"))
    torch.set_num_threads(threads)
    return [*runs, train(*ways[-1], "cuda")] if gpu else runs


def difference(run: Run, other: Run) -> np.ndarray:
    """The relative differences of the losses."""
    return np.abs(run[0] - other[0]) / np.abs(run[0])


def fingerprint(parameters: list[torch.Tensor]) -> str:
    return ozaki.fingerprint(torch.cat([p.detach().cpu().flatten() for p in parameters]))


def counted(name: str, compute: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> str:
    """How many products PyTorch makes of a function and its derivative, and how many were this library's."""
    tensors = [torch.ones(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    every_cycle = profile(activities=[ProfilerActivity.CPU], acc_events=True)
    with warnings.catch_warnings(), ozaki.torch.reproducible() as calls, every_cycle as seen:
        warnings.simplefilter("ignore")  # what is left to PyTorch, sums and the like, is not counted here
        compute(*tensors).sum().backward()
    made = {e.key.removeprefix("aten::"): e.count for e in seen.key_averages()}
    ours = sum(calls[p] for p in PRODUCTS)
    return f"  {name:<28} {sum(made.get(p, 0) for p in PRODUCTS):5d} {ours:10d}"


def print_counts() -> None:
    print("products, backward passes included   made   replaced")
    attention = torch.nn.functional.scaled_dot_product_attention
    linear = torch.nn.functional.linear
    print(
        counted(
            "einsum bhid,bhjd->bhij", lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), *[(2, 4, 8, 16)] * 2
        )
    )
    print(counted("linear", linear, (64, 16), (32, 16), (32,)))
    print(counted("attention", attention, *[(2, 4, 8, 16)] * 3))
    network = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, dtype=torch.float64)
    print(counted("transformer layer", network, (2, 8, 16)))


def draw(axis: plt.Axes, title: str, native: np.ndarray, ours: np.ndarray, steps: str) -> None:
    axis.semilogy(np.maximum(native, 1e-18), "C1-", label="PyTorch")
    axis.semilogy(np.maximum(ours, 1e-18), "C0--", label="in the mode")
    ticks = range(-15, 1, 3)
    axis.set_yticks([1e-18, *(10.0**e for e in ticks)], ["0", *(f"$10^{{{e}}}$" for e in ticks)])
    axis.set(title=title, xlabel=steps, ylim=(3e-19, 1), ylabel="difference of losses")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument(
        "--gpu", action="store_true", help="also train on an NVIDIA GPU, and compare the bits"
    )
    options = parser.parse_args()
    models = {
        "network": (train_network, [(torch.float64, False, 512, 0), (torch.float64, True, 32, 0)]),
        "float32 network": (train_network, [(torch.float32, False, 512, 0), (torch.float32, True, 32, 0)]),
        "float32 network, 1 and 4 workers": (
            train_network,
            [(torch.float32, False, 512, workers) for workers in (1, 4)],
        ),
        "Gaussian process": (fit_process, [(128,), (37,)]),
    }
    differences: dict[str, list[np.ndarray]] = {}
    for name, (train, ways) in models.items():
        for mode in (None, "reproducible"):
            with ozaki.torch.reproducible(dtypes=DTYPES, sums=True) if mode else nullcontext():
                first, *others = trained(train, ways, options.gpu)
            found = [difference(first, other) for other in others]
            differences.setdefault(name, []).append(found[0])
            print(f"{name}, {mode or 'PyTorch'}: losses of two runs differ by up to {found[0].max():.1e}")
            if options.gpu:
                print(f"  those on the GPU from the first on the CPU by up to {found[1].max():.1e}")
            if mode:
                assert not np.any(found)
                print(f"  fingerprint of the parameters: {fingerprint(first[1])}")
    print()
    print_counts()
    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplots(2, 1, figsize=(7, 7))
    for axis, name, steps in zip(axes, ("network", "Gaussian process"), ("epoch", "step"), strict=True):
        draw(axis, f"A {name}, trained twice", *differences[name], steps)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "reproducible_training.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
