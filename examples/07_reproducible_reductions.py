"""Statistics and conjugate gradients whose bits do not depend on how the work is cut.

    python examples/07_reproducible_reductions.py [--output DIR] [--gpu]

First the mean and the variance of an array that arrives in chunks. The mean of the squares minus the
square of the mean loses most digits to cancellation. NumPy's mean and variance of each chunk, merged by
the formulas of Chan, Golub and LeVeque ("Algorithms for computing the sample variance", 1983), keep
nearly all of them, but the last digits depend on the size of the chunks. With `ozaki.ExactSum` every
size gives the same digits, those of the exact value. Then conjugate gradients on a diffusion problem
whose dot products are summed block by block, as on a cluster: rounding errors that differ from blocking
to blocking grow until the iterates agree in two digits; with exact sums all blockings give the same
iterates, bit for bit. The sums are Kulisch's ("Computer Arithmetic and Validity", chapter 8); the
experiment follows Mukunoki, Ozaki, Ogita and Iakymchuk, "Conjugate gradient solvers with high accuracy
and bit-wise reproducibility between CPU and GPU using Ozaki scheme" (2021). Some ten
seconds on a CPU; --gpu computes the dot products on an NVIDIA GPU as well, and shows how fast exact sums
are there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import ozaki
from ozaki import ExactSum

BLOCKS = (100, 512, 1000, 4096)
Dot = Callable[[np.ndarray, np.ndarray], float]


def blocks(n: int, size: int) -> list[slice]:
    return [slice(i, i + size) for i in range(0, n, size)]


def merged_statistics(x: np.ndarray, chunk: int) -> tuple[float, float]:
    """NumPy's mean and variance of each chunk, merged: Chan, Golub and LeVeque's update."""
    count, mean, squares = 0, 0.0, 0.0
    for part in blocks(x.size, chunk):
        n, total = x[part].size, count + x[part].size
        difference = np.mean(x[part]) - mean
        mean += difference * n / total
        squares += np.var(x[part]) * n + difference**2 * count * n / total
        count = total
    return float(mean), float(squares / count)


def mean_of_squares_minus_square(x: np.ndarray, chunk: int) -> float:
    """The variance from two sums in float64, which nearly cancel."""
    total = squares = 0.0
    for part in blocks(x.size, chunk):
        total += x[part].sum()
        squares += np.square(x[part]).sum()
    return float(squares / x.size - (total / x.size) ** 2)


def exact_statistics(x: np.ndarray, chunk: int) -> tuple[float, float]:
    """The same two sums, exact until the last step: the cancellation costs nothing."""
    total, squares = ExactSum(), ExactSum()
    for part in blocks(x.size, chunk):
        # On a cluster, each node would send its accumulator: at most 540 bytes, merged in any order.
        total.merge(ExactSum().add(x[part]))
        squares.merge(ExactSum().add_products(x[part], x[part]))
    mean = Fraction(total.fractions()[0]) / x.size
    return float(mean), float(Fraction(squares.fractions()[0]) / x.size - mean**2)


def native_dot(size: int) -> Dot:
    def dot(x: np.ndarray, y: np.ndarray) -> float:
        return float(sum(np.dot(x[b], y[b]) for b in blocks(x.size, size)))

    return dot


def exact_dot(size: int) -> Dot:
    def dot(x: np.ndarray, y: np.ndarray) -> float:
        total = ExactSum()
        for b in blocks(x.size, size):
            total.add_products(x[b], y[b])
        return float(total.round())

    return dot


def gpu_dot(x: np.ndarray, y: np.ndarray) -> float:
    import cupy

    return float(ozaki.dot(cupy.asarray(x), cupy.asarray(y)))


def diffusion(conductivity: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The five-point operator −∇·(k∇u) on a square grid, zero around it; u is a vector."""
    n = len(conductivity)
    across = (conductivity[:, 1:] + conductivity[:, :-1]) / 2
    down = (conductivity[1:] + conductivity[:-1]) / 2

    def apply(u: np.ndarray) -> np.ndarray:
        grid = u.reshape(n, n)
        result = conductivity * grid * 0.5
        flow = across * (grid[:, 1:] - grid[:, :-1])
        result[:, :-1] -= flow
        result[:, 1:] += flow
        flow = down * (grid[1:] - grid[:-1])
        result[:-1] -= flow
        result[1:] += flow
        return result.reshape(-1)

    return apply


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray], b: np.ndarray, dot: Dot, steps: int
) -> np.ndarray:
    """Hestenes and Stiefel's iteration; returns the iterates."""
    x, r = np.zeros_like(b), b.copy()
    p, rho = r.copy(), dot(r, r)
    iterates = []
    for _ in range(steps):
        q = apply(p)
        alpha = rho / dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        rho, before = dot(r, r), rho
        p = r + rho / before * p
        iterates.append(x)
    return np.array(iterates)


def spread(runs: list[np.ndarray]) -> np.ndarray:
    """The largest relative difference of any run's iterates from the first one's."""
    reference = runs[0]
    differences = [np.linalg.norm(run - reference, axis=1) for run in runs[1:]]
    return np.max(differences, axis=0) / np.linalg.norm(reference, axis=1)


def print_speed(n: int = 10**8) -> None:
    """Sums and dot products on this GPU: in bytes a second, for they are bound by memory."""
    import cupy
    from cupyx.profiler import benchmark

    x, y = cupy.random.standard_normal((2, n))
    print(f"\nspeed on the GPU, {n:.0e} float64 numbers")
    for name, function, arrays in (
        ("cupy.sum", cupy.sum, (x,)),
        ("ozaki.sum", ozaki.sum, (x,)),
        ("cupy.dot", cupy.dot, (x, y)),
        ("ozaki.dot", ozaki.dot, (x, y)),
    ):
        times = benchmark(function, arrays, n_repeat=10, n_warmup=2).gpu_times
        print(f"  {name:<10} {8 * n * len(arrays) / np.median(times) / 1e12:5.2f} TB/s")


def draw_variances(axis: plt.Axes, x: np.ndarray) -> None:
    """Errors of the variance for many chunk sizes."""
    chunks = [1 << p for p in range(6, 18)]
    right = exact_statistics(x, x.size)[1]
    curves = {
        "mean of squares - mean²": ("C3^-", mean_of_squares_minus_square),
        "np.var of the chunks, merged": ("C1o-", lambda x, chunk: merged_statistics(x, chunk)[1]),
        "ExactSum": ("C0s--", lambda x, chunk: exact_statistics(x, chunk)[1]),
    }
    for label, (style, variance) in curves.items():
        some = chunks[::4] + chunks[-1:] if label == "ExactSum" else chunks
        errors = [abs(variance(x, chunk) - right) / right for chunk in some]
        axis.loglog(some, np.maximum(errors, 1e-18), style, label=label)
    axis.set_xscale("log", base=2)
    zero_and_powers(axis)
    axis.set(title="The variance depends on the chunks", xlabel="elements in a chunk", ylim=(3e-19, 1))
    axis.set_ylabel("relative error of the variance")
    axis.legend(loc="center right")


def zero_and_powers(axis: plt.Axes) -> None:
    """Ticks of a logarithmic axis whose lowest place stands for zero."""
    ticks = range(-15, 1, 3)
    axis.set_yticks([1e-18, *(10.0**e for e in ticks)], ["0", *(f"$10^{{{e}}}$" for e in ticks)])


def draw_spreads(axis: plt.Axes, native: np.ndarray, exact: np.ndarray) -> None:
    axis.semilogy(np.maximum(native, 1e-18), "C1-", label="NumPy's dot products")
    axis.semilogy(np.maximum(exact, 1e-18), "C0--", label="exact dot products")
    zero_and_powers(axis)
    axis.set(title="CG depends on the blocking", xlabel="step", ylim=(3e-19, 1))
    axis.set_ylabel("relative difference of iterates")
    axis.legend(loc="center right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also use an NVIDIA GPU, and time it")
    options = parser.parse_args()
    rng = np.random.default_rng(7)

    x = 1e6 + rng.standard_normal(200_000)
    print("statistics", end=" \r", file=sys.stderr, flush=True)
    print("chunk    NumPy, merged: mean, variance          exact: mean, variance")
    for chunk in BLOCKS:
        native, exact = merged_statistics(x, chunk), exact_statistics(x, chunk)
        print(f"{chunk:5d} {native[0]:20.17g} {native[1]:18.15g} {exact[0]:20.17g} {exact[1]:18.15g}")
    assert len({exact_statistics(x, chunk) for chunk in BLOCKS}) == 1

    n, steps = 48, 400
    conductivity = np.exp(2.5 * rng.standard_normal((n, n)))
    apply, b = diffusion(conductivity), rng.standard_normal(n * n)
    print("conjugate gradients", end=" \r", file=sys.stderr, flush=True)
    native_runs = [conjugate_gradients(apply, b, native_dot(size), steps) for size in BLOCKS]
    dots = [exact_dot(size) for size in BLOCKS] + [gpu_dot] * options.gpu
    exact_runs = [conjugate_gradients(apply, b, dot, steps) for dot in dots]
    native_spread, exact_spread = spread(native_runs), spread(exact_runs)
    print(f"\nconjugate gradients: the iterates of {len(BLOCKS)} blockings differ by up to")
    print(f"  {native_spread.max():.1e} with NumPy's dot products")
    print(f"  {exact_spread.max():.1e} with exact ones{', those on the GPU included' * options.gpu}")
    assert not exact_spread.any()
    if options.gpu:
        print_speed()

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, (left, right) = plt.subplots(2, 1, figsize=(7, 9))
    draw_variances(left, x)
    draw_spreads(right, native_spread, exact_spread)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "07_reproducible_reductions.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
