"""One product, many ways: np.matmul's bits change, these do not.

    python examples/02_same_bits_everywhere.py [--output DIR] [--gpu]

Rounding errors depend on the order of the additions, and the order depends on the machine, the
library, the number of threads, the blocking. Here a product is computed with its inner dimension
permuted, cut and transposed, and by every scheme and engine of the library; then the difference
is let loose on a chaotic system, globally coupled maps x ← (1 - ε) f(x) + ε W f(x), f(x) = 1 - a x²
(Kaneko, 1990), in which a last bit grows to everything within a hundred steps. With
`ozaki.accurate_dgemm` all ways stay together for ever, bit for bit: reproducibility as in Mukunoki,
Ozaki, Ogita and Imamura, "DGEMM using tensor cores, and its accurate and reproducible versions"
(2020). About ten seconds on a CPU; --gpu adds an NVIDIA GPU to the ways.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np

import ozaki

mpl.use("Agg")
from matplotlib import pyplot as plt

NODES, RUNS, STEPS = 96, 16, 160
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def permuted(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inner dimension in another order: the same product."""
    order = np.random.default_rng(0).permutation(a.shape[1])
    return a[:, order], b[order]


def on_gpu(multiply: Callable[..., np.ndarray]) -> Product:
    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        import cupy

        return multiply(cupy.asarray(a), cupy.asarray(b)).get()

    return product


def native_ways(gpu: bool) -> dict[str, Product]:
    ways: dict[str, Product] = {
        "as it is": np.matmul,
        "inner dimension permuted": lambda a, b: np.matmul(*permuted(a, b)),
        "in two halves": lambda a, b: a[:, ::2] @ b[::2] + a[:, 1::2] @ b[1::2],
        "transposed": lambda a, b: (np.asfortranarray(b.T) @ np.asfortranarray(a.T)).T,
        "column by column": lambda a, b: np.stack([a @ x for x in b.T.copy()], axis=1),
    }
    if gpu:
        ways["on the GPU"] = on_gpu(lambda a, b: a @ b)
    return ways


def accurate_ways(gpu: bool) -> dict[str, Product]:
    gemm = ozaki.accurate_dgemm
    ways: dict[str, Product] = {
        "as it is": gemm,
        "inner dimension permuted": lambda a, b: gemm(*permuted(a, b)),
        "in panels": lambda a, b: gemm(a, b, workspace=1 << 20),
        "transposed": lambda a, b: gemm(b, a, trans_a=True, trans_b=True).T,
        "int8 residues": lambda a, b: gemm(a, b, word="int8"),
        "fp16 slices": lambda a, b: gemm(a, b, scheme="slices", word="fp16"),
        "modelled tensor core": lambda a, b: gemm(a, b, engine="tensorcore"),
    }
    if gpu:
        ways["on the GPU"] = on_gpu(gemm)
    return ways


def iterate(product: Product) -> np.ndarray:
    """The states after each step, of several runs at once: the columns of x."""
    rng = np.random.default_rng(4)
    weights = rng.random((NODES, NODES))
    weights /= weights.sum(axis=1, keepdims=True)
    x = rng.random((NODES, RUNS))
    states = []
    for _ in range(STEPS):
        f = 1 - 1.9 * x * x
        x = 0.9 * f + 0.1 * product(weights, f)
        states.append(x)
    return np.array(states)


def distances(ways: dict[str, Product]) -> dict[str, np.ndarray]:
    """How far each way is from the first one, after each step."""
    states = {name: iterate(product) for name, product in ways.items()}
    first = next(iter(states.values()))
    return {name: abs(x - first).max(axis=(1, 2)) for name, x in states.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also multiply on an NVIDIA GPU")
    options = parser.parse_args()

    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((200, 300)), rng.standard_normal((300, 200))
    families = {"np.matmul": native_ways(options.gpu), "ozaki.accurate_dgemm": accurate_ways(options.gpu)}
    for family, ways in families.items():
        print(f"{family}: fingerprints of one product")
        for name, product in ways.items():
            print(f"  {name:<26} {ozaki.fingerprint(product(a, b))}")

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    difference = native_ways(False)["inner dimension permuted"](a, b) - a @ b
    ulps = difference / np.spacing(abs(a @ b))
    picture = axes[0].imshow(ulps[:60, :60], cmap="RdBu", vmin=-8, vmax=8)
    figure.colorbar(picture, ax=axes[0], shrink=0.8, label="units in the last place")
    axes[0].set(title="np.matmul: a permutation's difference", xticks=[], yticks=[])
    for axis, (family, ways) in zip(axes[1:], families.items(), strict=True):
        for name, distance in list(distances(ways).items())[1:]:
            axis.semilogy(np.maximum(distance, 1e-18), label=name, lw=1.5)
        axis.set(title=f"coupled maps with {family}", xlabel="step", ylim=(3e-19, 10))
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="center right")
    axes[1].set_ylabel("largest difference from the first way")
    axes[2].text(2, 1.6e-18, "0, drawn at 1e-18")
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "02_same_bits_everywhere.png"
    figure.savefig(target, dpi=150)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
