"""How many moduli does a product need? As many as its data asks for.

    python examples/06_how_many_moduli.py [--output DIR] [--gpu]

Ozaki, Uchino and Imamura, "Ozaki scheme II" (2025), multiply integers of w bits by Chinese
remainders: the more moduli, the more bits fit, one low-precision product for each modulus. Left:
the componentwise error against the number of int8 moduli on their test matrices
(rand - 1/2)·exp(φ·randn), whose range of magnitudes grows with φ. Each modulus gains about four
bits, until the result is correctly rounded; a fixed number that does for φ = 0 is silently too
small for φ = 4. The crosses are what `accuracy="fp64"` chose from the data, the dotted lines
np.matmul's own errors. Right: that choice, and the one of "exact", as φ grows. Ten seconds on a
CPU; --gpu multiplies on an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

import ozaki

mpl.use("Agg")
from matplotlib import pyplot as plt

SIZE = 192
SPREADS = (0.0, 1.0, 2.0, 4.0)
WIDTHS = range(20, 92, 4)


def test_matrices(phi: float) -> tuple[np.ndarray, np.ndarray]:
    """(rand - 1/2)·exp(φ·randn), the field's usual test matrices."""
    rng = np.random.default_rng(6)
    shape = (2, SIZE, SIZE)
    a, b = (rng.random(shape) - 0.5) * np.exp(phi * rng.standard_normal(shape))
    return a, b


class Problem:
    """A product whose exact result is known, on the CPU or the GPU."""

    def __init__(self, phi: float, gpu: bool) -> None:
        self.a, self.b = test_matrices(phi)
        self.exact = ozaki.accurate_dgemm(self.a, self.b, accuracy="exact")
        self.size = abs(self.a) @ abs(self.b)
        self._inputs = self.a, self.b
        if gpu:
            import cupy

            self._inputs = cupy.asarray(self.a), cupy.asarray(self.b)

    def error(self, accuracy: str | int) -> float:
        """max |C - AB| / |A||B|."""
        c = ozaki.accurate_dgemm(*self._inputs, accuracy=accuracy, word="int8")
        return self.componentwise(c if isinstance(c, np.ndarray) else c.get())

    def componentwise(self, c: np.ndarray) -> float:
        return float((abs(c - self.exact) / self.size).max())

    def moduli(self, accuracy: str | int) -> int:
        return ozaki.plan(*self._inputs, accuracy=accuracy, word="int8").pieces


def draw_errors(axis: plt.Axes, gpu: bool) -> None:
    for colour, phi in enumerate(SPREADS):
        problem = Problem(phi, gpu)
        moduli = [problem.moduli(width) for width in WIDTHS]
        errors = [problem.error(width) for width in WIDTHS]
        native, chosen = problem.componentwise(problem.a @ problem.b), problem.moduli("fp64")
        axis.semilogy(moduli, np.maximum(errors, 1e-19), f"C{colour}o-", markersize=4, label=f"φ = {phi:g}")
        axis.plot(chosen, max(problem.error("fp64"), 1e-19), f"C{colour}X", markersize=12, mec="black")
        axis.axhline(native, color=f"C{colour}", ls=":", lw=1)
        print(
            f"φ = {phi:g}: np.matmul {native:.1e}; "
            f"fp64 chooses {chosen} moduli, error {problem.error('fp64'):.1e}; "
            f"exact takes {problem.moduli('exact')}"
        )
    axis.set(xlabel="int8 moduli", ylabel="max |C - AB| / |A||B|", title=f"n = {SIZE}; dotted: np.matmul")
    axis.text(6, 1.5e-19, "correctly rounded: no error left", fontsize=9)
    axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    axis.legend()


def draw_choices(axis: plt.Axes, gpu: bool) -> None:
    spreads = np.linspace(0, 6, 13)
    problems = [Problem(phi, gpu) for phi in spreads]
    for accuracy, style in (("fp64", "C0s-"), ("exact", "C2^-")):
        axis.plot(spreads, [p.moduli(accuracy) for p in problems], style, markersize=5, label=accuracy)
    axis.set(xlabel="φ", ylabel="int8 moduli", title="moduli chosen from the data", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="multiply on an NVIDIA GPU")
    options = parser.parse_args()
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
    draw_errors(axes[0], options.gpu)
    draw_choices(axes[1], options.gpu)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "06_how_many_moduli.png"
    figure.savefig(target, dpi=150)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
