"""Statistics and conjugate gradients whose bits do not depend on how the work is cut.

    python examples/07_reproducible_reductions.py [--output DIR]

First the mean and the variance of an array that arrives in chunks: with NumPy every chunk size gives
other digits, with `ExactSum` all give the correctly rounded ones. Then conjugate gradients on a
diffusion problem whose dot products are summed block by block, as on a cluster: rounding errors that
differ from blocking to blocking grow until the iterates have nothing in common; with exact sums
every blocking goes the same way, bit for bit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ozaki._exactsum import ExactSum

mpl.use("Agg")
from matplotlib import pyplot as plt

BLOCKS = (100, 512, 1000, 4096)
Dot = Callable[[np.ndarray, np.ndarray], float]


def blocks(n: int, size: int) -> list[slice]:
    return [slice(i, i + size) for i in range(0, n, size)]


def native_statistics(x: np.ndarray, chunk: int) -> tuple[float, float]:
    """Mean and variance from sums over chunks, as one writes them."""
    total = squares = 0.0
    for part in blocks(x.size, chunk):
        total += x[part].sum()
        squares += np.square(x[part]).sum()
    mean = total / x.size
    return float(mean), float(squares / x.size - mean * mean)


def exact_statistics(x: np.ndarray, chunk: int) -> tuple[float, float]:
    """The same, exact until the last step: the variance's cancellation costs nothing."""
    total, squares = ExactSum(), ExactSum()
    for part in blocks(x.size, chunk):
        # On a cluster, each node would send its accumulator: 540 bytes, merged in any order.
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
) -> tuple[np.ndarray, list[float]]:
    """Hestenes and Stiefel's iteration; returns the iterates and |residual|²."""
    x, r = np.zeros_like(b), b.copy()
    p, rho = r.copy(), dot(r, r)
    iterates, history = [], [rho]
    for _ in range(steps):
        q = apply(p)
        alpha = rho / dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        rho, before = dot(r, r), rho
        p = r + rho / before * p
        iterates.append(x)
        history.append(rho)
    return np.array(iterates), history


def spread(runs: list[np.ndarray]) -> np.ndarray:
    """The largest relative difference of any run's iterates from the first one's."""
    reference = runs[0]
    differences = [np.linalg.norm(run - reference, axis=1) for run in runs[1:]]
    return np.max(differences, axis=0) / np.linalg.norm(reference, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    figure_path = options.output / "07_reproducible_reductions.png"
    rng = np.random.default_rng(7)

    x = 1e6 + rng.standard_normal(400_000)
    print("chunk       NumPy: mean, variance                        exact: mean, variance")
    for chunk in BLOCKS:
        native, exact = native_statistics(x, chunk), exact_statistics(x, chunk)
        print(f"{chunk:6d} {native[0]:24.17g} {native[1]:20.15g} {exact[0]:24.17g} {exact[1]:20.15g}")
    assert len({exact_statistics(x, chunk) for chunk in BLOCKS}) == 1

    n, steps = 64, 500
    conductivity = np.exp(2.5 * rng.standard_normal((n, n)))
    apply, b = diffusion(conductivity), rng.standard_normal(n * n)
    native_runs = [conjugate_gradients(apply, b, native_dot(size), steps) for size in BLOCKS]
    exact_runs = [conjugate_gradients(apply, b, exact_dot(size), steps) for size in BLOCKS]
    native_spread = spread([iterates for iterates, _ in native_runs])
    exact_spread = spread([iterates for iterates, _ in exact_runs])
    print(f"\nconjugate gradients, {len(BLOCKS)} blockings: iterates differ by up to")
    print(f"  {native_spread.max():.1e} with NumPy's dot products, {exact_spread.max():.1e} with exact ones")
    assert not exact_spread.any()

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for size, (_, history) in zip(BLOCKS, native_runs, strict=True):
        left.semilogy(np.sqrt(history), lw=1, label=f"NumPy, blocks of {size}")
    left.semilogy(np.sqrt(exact_runs[0][1]), "k--", lw=1, label="exact, all blockings")
    left.set(xlabel="step", ylabel="2-norm of the residual", title="Conjugate gradients")
    left.legend(fontsize=8)
    right.semilogy(np.maximum(native_spread, 1e-17), label="NumPy's dot products")
    right.semilogy(np.maximum(exact_spread, 1e-17), "k--", label="exact dot products: 0, shown at 1e-17")
    right.set(xlabel="step", ylabel="relative difference", title="Iterates of different blockings")
    right.legend(fontsize=8)
    figure.savefig(figure_path, dpi=150)
    print(f"figure: {figure_path}")


if __name__ == "__main__":
    main()
