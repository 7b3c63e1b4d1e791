"""How many moduli does a product need? As many as its data asks for.

    python examples/06_how_many_moduli.py [--output DIR] [--gpu]

Ozaki, Uchino and Imamura, "Ozaki scheme II" (2025), multiply integers of w bits by Chinese
remainders: the more moduli, the more bits fit, one low-precision product for each modulus. Above:
the componentwise error against the number of int8 moduli on their test matrices
(rand - 1/2)·exp(φ·randn), whose range of magnitudes grows with φ. Each modulus adds about four
bits, until the result is correctly rounded; a fixed number of moduli that is enough for φ = 0 is too
small for φ = 4, without any warning. The large crosses are what `accuracy="fp64"` chose from the data, the
dotted lines np.matmul's errors. Below: that choice, and the one of "exact", as φ grows. The certificate
decides before anything is multiplied, and most often takes the smallest sufficient number or one more. Some
ten seconds on a CPU; --gpu multiplies on an NVIDIA GPU, and shows the speed there by the number of moduli.
"""

from __future__ import annotations

import argparse
import sys
from functools import cached_property
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import ozaki

SIZE = 300
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
        self.size = abs(self.a) @ abs(self.b)
        self._inputs = self.a, self.b
        if gpu:
            import cupy

            self._inputs = cupy.asarray(self.a), cupy.asarray(self.b)

    @cached_property
    def exact(self) -> np.ndarray:
        return ozaki.accurate_dgemm(self.a, self.b, accuracy="exact")

    def error(self, accuracy: str | int) -> float:
        """max |C - AB| / |A||B|."""
        c = ozaki.accurate_dgemm(*self._inputs, accuracy=accuracy, word="int8")
        return self.componentwise(c if isinstance(c, np.ndarray) else c.get())

    def componentwise(self, c: np.ndarray) -> float:
        return float((abs(c - self.exact) / self.size).max())

    def moduli(self, accuracy: str | int) -> int:
        return ozaki.plan(*self._inputs, accuracy=accuracy, word="int8").pieces


def print_speed(n: int = 8192) -> None:
    """The cost of a modulus on this GPU: products of the same normal data to more and more bits."""
    import cupy
    from cupyx.profiler import benchmark

    a, b = cupy.random.standard_normal((2, n, n))
    native = np.median(benchmark(cupy.matmul, (a, b), n_repeat=5, n_warmup=2).gpu_times)
    print(f"speed on the GPU, n = {n}: cupy.matmul {2 * n**3 / native / 1e12:.1f} Tflop/s")
    for width in (24, 32, 40, 48, 56):
        moduli = ozaki.plan(a, b, accuracy=width).pieces
        times = benchmark(ozaki.accurate_dgemm, (a, b), {"accuracy": width}, n_repeat=5, n_warmup=2).gpu_times
        print(f"  {width} bits, {moduli:2d} moduli: {2 * n**3 / np.median(times) / 1e12:6.1f} Tflop/s")


def draw_errors(axis: plt.Axes, gpu: bool) -> None:
    for colour, phi in enumerate(SPREADS):
        print(f"φ = {phi:g}", end=" \r", file=sys.stderr, flush=True)
        problem = Problem(phi, gpu)
        moduli = [problem.moduli(width) for width in WIDTHS]
        errors = [problem.error(width) for width in WIDTHS]
        native, chosen = problem.componentwise(problem.a @ problem.b), problem.moduli("fp64")
        axis.semilogy(moduli, np.maximum(errors, 1e-20), f"C{colour}o-", label=f"φ = {phi:g}")
        axis.plot(chosen, max(problem.error("fp64"), 1e-20), f"C{colour}X", markersize=13, mec="black")
        axis.axhline(native, color=f"C{colour}", ls=":", lw=1)
        print(
            f"φ = {phi:g}: np.matmul {native:.1e}; "
            f"fp64 chooses {chosen} moduli, error {problem.error('fp64'):.1e}; "
            f"exact takes {problem.moduli('exact')}"
        )
    axis.set(xlabel="int8 moduli, a product each", ylabel="largest |C - AB| / |A||B|")
    axis.set_title("Each modulus adds four bits")
    axis.set_yticks([1e-20, 1e-15, 1e-10, 1e-5, 1], ["0", *(f"$10^{{{e}}}$" for e in range(-15, 1, 5))])
    axis.set_xticks(range(6, 25, 3))
    axis.text(6, 2e-20, "correctly rounded", fontsize=11)
    axis.plot([], [], "kX", ls="", markersize=11, mfc="white", label='chosen by "fp64"')
    axis.plot([], [], "k:", lw=1, label="np.matmul's error")
    axis.legend()


def draw_choices(axis: plt.Axes, gpu: bool) -> None:
    spreads = np.linspace(0, 6, 13)
    problems = [Problem(phi, gpu) for phi in spreads]
    for accuracy, style in (("fp64", "C0s-"), ("exact", "C2^-")):
        moduli = [p.moduli(accuracy) for p in problems]
        axis.plot(spreads, moduli, style, label=f'accuracy="{accuracy}"')
    axis.set(xlabel="φ, the spread of magnitudes", ylabel="int8 moduli", ylim=(0, None))
    axis.set_title("The data decide how many")
    axis.legend(loc="lower right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="multiply on an NVIDIA GPU, and time it")
    options = parser.parse_args()
    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplots(2, 1, figsize=(7, 9.5), height_ratios=[1.3, 1])
    draw_errors(axes[0], options.gpu)
    draw_choices(axes[1], options.gpu)
    if options.gpu:
        print_speed()
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "06_how_many_moduli.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
