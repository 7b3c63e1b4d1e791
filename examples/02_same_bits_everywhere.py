"""One product, many ways: np.matmul's bits change, these do not.

    python examples/02_same_bits_everywhere.py [--output DIR] [--gpu]

Rounding errors depend on the order of the additions, and the order depends on the machine, the
library, the number of threads, the blocking. Here a product is computed with its inner dimension
permuted, cut and transposed, and by every scheme and engine of the library. Then the same variants
compute a chaotic system, globally coupled maps x ← (1 - ε) f(x) + ε W f(x), f(x) = 1 - a x² (Kaneko,
1990), in which a difference in the last bit grows to the size of x within a hundred steps. With
`ozaki.accurate_dgemm` the runs of all variants stay equal, bit for bit: reproducibility as in
Mukunoki, Ozaki, Ogita and Imamura, "DGEMM using tensor cores, and its accurate and reproducible
versions" (2020). A few seconds on a CPU; --gpu adds an NVIDIA GPU, and times it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import ozaki

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


def print_speed(n: int = 8192) -> None:
    """What each way to the same bits costs on this GPU."""
    import cupy
    from cupyx.profiler import benchmark

    a, b = cupy.random.standard_normal((2, n, n))
    print(f"speed on the GPU, n = {n}")
    gemm = ozaki.accurate_dgemm
    for name, multiply, options in (
        ("cupy.matmul", cupy.matmul, {}),
        ("int8 residues", gemm, {}),
        ("fp16 slices", gemm, {"scheme": "slices", "word": "fp16"}),
    ):
        times = benchmark(multiply, (a, b), options, n_repeat=3, n_warmup=1).gpu_times
        print(f"  {name:<14} {2 * n**3 / np.median(times) / 1e12:6.1f} Tflop/s")


def draw_runs(axis: plt.Axes, runs: dict[str, np.ndarray], title: str) -> None:
    """One node of one run, every way; where ways agree, their lines are one."""
    for states in runs.values():
        axis.plot(states[STEPS // 4 :, 0, 0], lw=1.2)
    axis.set(title=title, ylabel="one node", xlim=(0, STEPS * 3 // 4 - 1))
    axis.set_xticks(range(0, STEPS * 3 // 4, 20), range(STEPS // 4, STEPS, 20))


def draw_distances(axis: plt.Axes, family: str, runs: dict[str, np.ndarray], style: str) -> None:
    """How far the ways are from the first one, after each step: the farthest of them."""
    first, *others = runs.values()
    distance = np.max([abs(states - first).max(axis=(1, 2)) for states in others], axis=0)
    axis.semilogy(np.maximum(distance, 1e-18), style, label=f"{family.split('.')[0]}, {len(runs)} ways")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also multiply on an NVIDIA GPU, and time it")
    options = parser.parse_args()

    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((200, 300)), rng.standard_normal((300, 200))
    families = {"np.matmul": native_ways(options.gpu), "ozaki.accurate_dgemm": accurate_ways(options.gpu)}
    for family, ways in families.items():
        print(f"{family}: fingerprints of one product")
        for name, product in ways.items():
            print(f"  {name:<26} {ozaki.fingerprint(product(a, b))}")
    if options.gpu:
        print_speed()

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    names = ["np.matmul", "ozaki.accurate_dgemm", "all"]
    figure, axes = plt.subplot_mosaic([[name] for name in names], figsize=(7, 9.5), height_ratios=[1, 1, 2])
    titles = ("np.matmul: every way its own future", "ozaki: one future, bit for bit")
    for (family, ways), title, style in zip(families.items(), titles, ("C1-", "C0--"), strict=True):
        print(f"runs of {family}", end=" \r", file=sys.stderr, flush=True)
        runs = {name: iterate(product) for name, product in ways.items()}
        draw_runs(axes[family], runs, title)
        draw_distances(axes["all"], family, runs, style)
    axes["ozaki.accurate_dgemm"].set_xlabel("step")
    axes["all"].set(title="A last bit grows to everything", xlabel="step", ylim=(2e-19, 30))
    axes["all"].set_ylabel("difference from the first way")
    axes["all"].set_yticks(
        [1e-18, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1], ["0", *(f"$10^{{{e}}}$" for e in range(-15, 1, 3))]
    )
    axes["all"].legend(loc="center right")
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "02_same_bits_everywhere.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
