"""Linear systems to the last bit: iterative refinement with exact residuals.

    python examples/08_iterative_refinement.py [--output DIR] [--gpu]

Solving AX = B loses as many digits as the condition number κ has. Refinement recovers them, X ← X +
A⁻¹(B - AX), but only if the residual is accurate: it is a difference of nearly equal numbers, and
computed in double precision it is mostly rounding error (Wilkinson, 1963; Higham, "Accuracy and
Stability of Numerical Algorithms", chapter 12). The residual is a single product, [-A I]·[X; B]:
`ozaki.accurate_dgemm` with accuracy="exact" rounds each of its elements once, also under cancellation.
Then X is right to the last bit as long as κ < 1/u; and kept as the sum of two matrices, the residual
being [-A -A I]·[X; X'; B], to twice as many digits. The matrix products are those of Mukunoki,
Ozaki, Ogita and Imamura (2020). A few seconds on a CPU; --gpu multiplies on an NVIDIA GPU, and
times such residuals for a system of 8192 equations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import ozaki

STEPS, RIGHT_SIDES = 10, 8
Multiply = Callable[[np.ndarray, np.ndarray], np.ndarray]


class System:
    """A = LU with random triangles of integers up to 3, ones on the diagonal, and its exact solution.

    A is ill-conditioned, its entries are small integers, and so are those of its inverse, though
    not small: with integer right sides the solution is known exactly.
    """

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(n)
        self._lower = np.tril(rng.integers(-3, 4, (n, n)), -1) + np.eye(n, dtype=int)
        self._upper = np.triu(rng.integers(-3, 4, (n, n)), 1) + np.eye(n, dtype=int)
        self.a = (self._lower @ self._upper).astype(np.float64)
        self.b = np.ldexp(rng.integers(-(2**52), 2**52, (n, RIGHT_SIDES)), rng.integers(0, 60, (n, 1)))
        self.exact = self._solve(self.b)
        inverse = abs(self._solve(np.eye(n)))
        self.condition = float(inverse.sum(axis=1).max()) * float(abs(self.a).sum(axis=1).max())

    def _solve(self, b: np.ndarray) -> np.ndarray:
        """A⁻¹B in Python's integers, by substitution."""
        x = np.vectorize(int, otypes=[object])(b)
        lower, upper = self._lower.astype(object), self._upper.astype(object)
        for i in range(len(x)):
            x[i] -= lower[i, :i] @ x[:i]
        for i in reversed(range(len(x))):
            x[i] -= upper[i, i + 1 :] @ x[i + 1 :]
        return x

    def error(self, *words: np.ndarray) -> float:
        """max |X - A⁻¹B| / |A⁻¹B| over the columns, in the maximum norm, exactly; X is the sum of `words`."""
        total = sum(np.vectorize(Fraction, otypes=[object])(x) for x in words)
        size = abs(self.exact).max(axis=0)
        return float((abs(total - self.exact).max(axis=0) / size).max())


def refine(system: System, multiply: Multiply) -> list[float]:
    """Errors after each step, with one product for the residual."""
    left = np.hstack([-system.a, np.eye(len(system.a))])
    x = np.linalg.solve(system.a, system.b)
    errors = [system.error(x)]
    for _ in range(STEPS):
        x = x + np.linalg.solve(system.a, multiply(left, np.vstack([x, system.b])))
        errors.append(system.error(x))
    return errors


def refine_two_words(system: System, multiply: Multiply) -> list[float]:
    """The same with X + X' for the solution: each correction goes where it fits."""
    left = np.hstack([-system.a, -system.a, np.eye(len(system.a))])
    x = np.linalg.solve(system.a, system.b)
    rest = np.zeros_like(x)
    errors = [system.error(x)]
    for _ in range(STEPS):
        rest = rest + np.linalg.solve(system.a, multiply(left, np.vstack([x, rest, system.b])))
        total = x + rest
        high = total - x  # Knuth's TwoSum: x + rest = total + what is kept as the new rest
        x, rest = total, (x - (total - high)) + (rest - high)
        errors.append(system.error(x, rest))
    return errors


def multiplications(gpu: bool) -> dict[str, Multiply]:
    def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if not gpu:
            return ozaki.accurate_dgemm(a, b, accuracy="exact")
        import cupy

        return ozaki.accurate_dgemm(cupy.asarray(a), cupy.asarray(b), accuracy="exact").get()

    return {"np.matmul": np.matmul, "exact": exact}


def print_speed(n: int = 8192) -> None:
    """Residuals of many right sides at once on this GPU, [-A I]·[X; B], native and exact."""
    import cupy
    from cupyx.profiler import benchmark

    a, x, b = cupy.random.standard_normal((3, n, n))
    left, right = cupy.hstack([-a, cupy.eye(n)]), cupy.vstack([x, b])
    print(f"time of a residual on the GPU, n = {n}, {n} right sides")
    for name, multiply, options in (
        ("cupy.matmul", cupy.matmul, {}),
        ('accuracy="fp64"', ozaki.accurate_dgemm, {"accuracy": "fp64"}),
        ('accuracy="exact"', ozaki.accurate_dgemm, {"accuracy": "exact"}),
    ):
        times = benchmark(multiply, (left, right), options, n_repeat=3, n_warmup=1).gpu_times
        print(f"  {name:<18} {1e3 * np.median(times):7.1f} ms")


def histories(system: System, multiply: dict[str, Multiply]) -> dict[str, list[float]]:
    return {
        "residuals by np.matmul": refine(system, multiply["np.matmul"]),
        "exact residuals": refine(system, multiply["exact"]),
        "exact, X in two words": refine_two_words(system, multiply["exact"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="multiply on an NVIDIA GPU, and time it")
    options = parser.parse_args()
    multiply = multiplications(options.gpu)

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 9), sharey=True)
    styles = ("C1o-", "C0s-", "C2^-")
    system = System(18)
    print(f"n = {len(system.a)}, condition number {system.condition:.1e}: relative errors of the solution")
    for (name, errors), style in zip(histories(system, multiply).items(), styles, strict=True):
        print(f"  {name:<24}" + " ".join(f"{e:.0e}" for e in errors))
        above.semilogy(errors, style)
        above.text(STEPS, 8 * errors[-1], name, ha="right", color=style[:2])
    above.set(xlabel="refinement step", ylabel="relative error of X")
    above.set_title(f"Exact residuals (κ = {system.condition:.0e})")

    systems = sorted((System(n) for n in range(4, 40, 2)), key=lambda s: s.condition)
    last = [{name: errors[-1] for name, errors in histories(s, multiply).items()} for s in systems]
    conditions = [s.condition for s in systems]
    for name, style in zip(last[0], styles, strict=True):
        below.loglog(conditions, [max(errors[name], 1e-34) for errors in last], style)
    below.axvline(2.0**53, color="grey", ls=":")
    below.text(2.0**53, 1e-24, "κ = 1/u ", color="grey", ha="right")
    below.set(xlabel="condition number κ", ylabel="relative error of X", title=f"After {STEPS} steps")
    ticks = range(-32, 1, 8)
    below.set_yticks([1e-34, *(10.0**e for e in ticks)], ["0", *(f"$10^{{{e}}}$" for e in ticks)])
    if options.gpu:
        print_speed()
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "08_iterative_refinement.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
