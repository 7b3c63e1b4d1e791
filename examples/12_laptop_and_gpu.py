"""The same bits on a laptop and on a GPU: compare 16 characters for each result.

    python examples/12_laptop_and_gpu.py [--output DIR] [--gpu]

Run it on two machines, and compare what it prints. Products, sums, sums by group, a solution of a linear
system and the weights of a small network after training are shown by their fingerprints, for CPUs as they
compute them and by the model of a tensor core. With --gpu, the same functions take CuPy arrays.
The picture shows the training: the share of the weights that differ between two orders of the additions,
as two machines would have them, with `np.matmul` and with `ozaki.matmul`. What makes the bits equal is that
integers are multiplied and added without error, and rounded once: Ozaki, Uchino and Imamura, "Ozaki scheme
II" (2025), and Mukunoki, Ozaki, Ogita and Imamura, "DGEMM using tensor cores, and its accurate and
reproducible versions" (2020). Ten seconds on a CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

import ozaki
from ozaki import linalg

STEPS = 80
Product = Callable[[Any, Any], Any]


def results(xp: ModuleType, product: Product) -> Iterator[tuple[str, Any]]:
    """What two machines are to agree on; xp is NumPy or CuPy. The data come from NumPy on both."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((200, 300)), rng.standard_normal((300, 200))
    x, labels = rng.standard_normal(100_000), rng.integers(0, 50, 100_000)
    a, b, x, labels = (xp.asarray(array) for array in (a, b, x, labels))
    yield "product", product(a, b)
    yield "complex product", product(a + 1j * a[::-1], b - 1j * b[::-1])
    yield "sum", ozaki.sum(x)
    yield "variance", ozaki.var(x)
    yield "sums by group", ozaki.group_sum(x, labels, 50)
    yield "solution of a system", linalg.solve(product(a, b), x[:200])
    *_, weights = training(xp, product)
    yield "trained weights", weights


def training(xp: ModuleType, product: Product) -> Iterator[Any]:
    """The weights of a network of two layers after each step of gradient descent, as one vector."""
    rng = np.random.default_rng(2)
    x, noise = rng.standard_normal((256, 8)), rng.standard_normal((256, 1))
    inputs, targets = xp.asarray(x), xp.asarray(abs(x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.1 * noise)
    first, second = (xp.asarray(0.3 * rng.standard_normal(shape)) for shape in ((8, 32), (32, 1)))
    for _ in range(STEPS):
        hidden = xp.maximum(product(inputs, first), 0)
        slope = (product(hidden, second) - targets) / len(x)
        back = product(slope, second.T) * (hidden > 0)
        second = second - 0.1 * product(hidden.T, slope)
        first = first - 0.1 * product(inputs.T, back)
        yield xp.concatenate([first.ravel(), second.ravel()])


def in_two_halves(product: Product) -> Product:
    """Another order of the additions: the even terms, then the odd ones."""

    def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        order = np.argsort(np.arange(a.shape[1]) % 2, kind="stable")
        return product(a[:, order], b[order])

    return multiply


def draw(target: Path) -> None:
    """The share of the weights whose bits differ between two orders of the additions, step by step."""
    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axis = plt.subplots(figsize=(7, 4.5))
    for product, style, label in ((np.matmul, "C1-", "np.matmul"), (ozaki.matmul, "C0--", "ozaki.matmul")):
        runs = zip(training(np, product), training(np, in_two_halves(product)), strict=True)
        axis.plot([100 * (one != other).mean() for one, other in runs], style, label=label)
    axis.set(title="One training, two orders of additions", xlabel="step of the training", ylim=(-4, 104))
    axis.set_ylabel("% of weights that differ")
    axis.legend(loc="upper left")
    figure.savefig(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also compute on an NVIDIA GPU")
    options = parser.parse_args()
    columns = {
        "CPU": results(np, ozaki.matmul),
        "model of a GPU": results(np, partial(ozaki.matmul, engine="tensorcore")),
    }
    if options.gpu:
        import cupy

        columns["GPU"] = results(cupy, ozaki.matmul)
    print(f"{'':<22}" + "".join(f"{name:<18}" for name in columns).rstrip())
    for row in zip(*columns.values(), strict=True):
        marks = [ozaki.fingerprint(result) for _, result in row]
        print(f"{row[0][0]:<22}" + "".join(f"{mark:<18}" for mark in marks).rstrip())
        assert len(set(marks)) == 1
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "12_laptop_and_gpu.png"
    draw(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
