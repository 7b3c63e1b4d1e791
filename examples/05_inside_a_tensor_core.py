"""What a tensor core does to a sum, seen from outside.

    python examples/05_inside_a_tensor_core.py [--output DIR] [--gpu]

Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021), test the
hardware with products of a few chosen entries. Here the same tests run on bit-accurate models of
three generations, and with --gpu on the GPU: how small a term beside a one is still added, how many
products are added at once, and why a larger term can make the sum smaller. Prints the full report
(`python -m multiword.probe` has more formats) and draws three of its results; a few seconds on a CPU.
With --gpu it also prints the speed of each kind of product.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from rich.console import Console

from multiword import Engine, TensorCore, get_engine
from multiword.probe import Findings, print_report, subtree_sizes, survey

SIZE = 256  # of the products that carry the questions: a library's kernel depends on it
MODELS = {chip: TensorCore(chip) for chip in ("V100", "A100", "H200")}


def inner_products(engine: Engine, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The inner products of rows: the diagonal of one SIZE × SIZE × SIZE product of fp16 words."""
    a, bt = np.zeros((2, SIZE, SIZE), np.float16)
    a[: left.shape[0], : left.shape[1]], bt[: right.shape[0], : right.shape[1]] = left, right
    if engine.name == "cublas":
        import cupy

        a, bt = cupy.asarray(a), cupy.asarray(bt)
    c = engine.multiply("fp16", a, bt)
    return np.diagonal(c if isinstance(c, np.ndarray) else c.get())[: len(left)]


def survives(engine: Engine, exponents: np.ndarray) -> np.ndarray:
    """Whether 2⁻ᑫ is still there after 1 - 1 + 2⁻ᑫ: only if it lies within the bits kept beside 1."""
    ones = np.ones_like(exponents, float)
    left = np.stack([ones, -ones, 2.0 ** -(exponents // 2)], axis=1)
    right = np.stack([ones, ones, 2.0 ** -(exponents - exponents // 2)], axis=1)
    return inner_products(engine, left, right) != 0


def added_by(engine: Engine, k: int) -> np.ndarray:
    """How many terms have been added when the first term meets the j-th, for each j."""
    return subtree_sizes(engine, "fp16", SIZE, SIZE, k, [(0, j) for j in range(1, k)])


def not_monotone(engine: Engine, width: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """c + 2⁻²², for c rising to 1 and beyond, where 2⁻²² comes as `width` terms of 2⁻⁽ᵇⁱᵗˢ⁺¹⁾.

    Below 1 the largest exponent is -1 and each of the terms is the last bit kept. At 1 it is cut away,
    each of them: the larger c gives the smaller sum. (A first step makes c, a second one adds.)
    """
    c = 1 + np.concatenate([np.arange(-8, 0) * 2.0**-24, np.arange(4) * 2.0**-23])
    left, right = np.zeros((2, len(c), 2 * width))
    left[:, :2], right[:, :2] = 0.5, 1.0
    left[:, 2], right[:, 2] = (c - 1) * 2.0**12, 2.0**-12
    left[:, width:], right[:, width:] = 2.0 ** -((bits + 1) // 2), 2.0 ** -(bits + 1 - (bits + 1) // 2)
    return c, inner_products(engine, left, right).astype(np.float64)


def print_speed(n: int = 8192) -> None:
    """The GPU's speed for each kind of word."""
    import cupy
    from cupyx.profiler import benchmark

    engine = get_engine("cublas")
    print(f"speed on the GPU, n = {n}")
    for word, dtype in (("fp64", "f8"), ("fp32", "f4"), ("tf32", "f4"), ("fp16", "f2"), ("int8", "i1")):
        a, bt = (8 * cupy.random.standard_normal((2, n, n), dtype="f4")).astype(dtype)
        times = benchmark(engine.multiply, (word, a, bt), n_repeat=5, n_warmup=2).gpu_times
        print(f"  {word} {2 * n**3 / np.median(times) / 1e12:7.1f} Tflop/s")


def draw_survivors(axis: plt.Axes, engines: dict[str, Engine]) -> None:
    exponents = np.arange(20, 30)
    for row, engine in enumerate(engines.values()):
        kept = survives(engine, exponents)
        axis.scatter(exponents, np.full(len(exponents), row), 90, f"C{row}", edgecolors=f"C{row}", alpha=0.15)
        axis.scatter(exponents[kept], np.full(kept.sum(), row), 90, f"C{row}")
    axis.set(title="Beside 1 a term $2^{-q}$ is kept or lost", xlabel="q  (full: kept, pale: lost)")
    axis.set_yticks(range(len(engines)), engines)
    axis.margins(y=0.3)


def draw_steps(axis: plt.Axes, engines: dict[str, Engine], k: int = 64) -> None:
    for name, engine in engines.items():
        style = {"lw": 0, "marker": "."} if name == "GPU" else {}
        axis.step(range(2, k + 1), added_by(engine, k), where="mid", label=name, **style)
    axis.set(
        title="Terms are added 4, 8 or 16 at once", xlabel="the j-th term comes in", ylabel="terms in the sum"
    )
    axis.legend()


def draw_decrease(axis: plt.Axes, name: str, engine: Engine, found: Findings) -> None:
    c, sums = not_monotone(engine, found.width, found.fraction_bits)
    axis.plot((c - 1) * 2.0**24, (c - 1) * 2.0**24 + 4, "--", color="grey", label="exact")
    axis.plot((c - 1) * 2.0**24, (sums - 1) * 2.0**24, "C1o-", label=name)
    axis.set(title="A larger c gives a smaller sum", xlabel="c, in $2^{-24}$ from 1")
    axis.set_ylabel("$c + 2^{-22}$, in $2^{-24}$ from 1")
    axis.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also ask an NVIDIA GPU, and time it")
    options = parser.parse_args()

    engines: dict[str, Engine] = dict(MODELS)
    if options.gpu:
        engines["GPU"] = get_engine("cublas")
    found, notes = survey(engines.values(), ["fp16"])
    print_report(found, notes, Console(width=80))
    if options.gpu:
        print_speed()

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplots(3, 1, figsize=(7, 11.5))
    draw_survivors(axes[0], engines)
    draw_steps(axes[1], engines)
    draw_decrease(axes[2], *list(engines.items())[-1], found[-1])
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "05_inside_a_tensor_core.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
