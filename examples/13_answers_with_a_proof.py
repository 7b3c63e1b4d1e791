"""Linear systems with a proof: what np.linalg.solve says, what is true, and what a proof costs.

    python examples/13_answers_with_a_proof.py [--output DIR] [--gpu]

np.linalg.solve returns sixteen digits for every matrix that is not exactly singular, and a residual that is
as small for a solution without a right digit as for a good one. `ozaki.linalg.verified.solve` proves a bound
for each component: an approximate inverse R with ‖I - RA‖ < 1 shows that the matrix is regular, and how far
any vector is from the solution (Oishi and Rump, "Fast verification of solutions of matrix equations", 2002).
Where one word of R is not enough, R has two or more (Rump, "Inversion of extremely ill-conditioned matrices
in floating-point", 2009). The residuals are exact, so that refinement goes on until the rounding of each
component is decided. Half a minute on a CPU; --gpu also times a system of 8192 equations on an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from ozaki.linalg import verified

SIZES, TURNS = (50, 100, 200, 400), 7
TICKS = (10, 30, 100, 300, 1000)
CONDITIONS = {3: "κ = 10³", 14: "κ = 10¹⁴", 30: "κ > 10¹⁷"}


class System:
    """A = LU with random triangles of integers up to 3, ones on the diagonal, and its exact solution."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(n)
        self._lower = np.tril(rng.integers(-3, 4, (n, n)), -1) + np.eye(n, dtype=int)
        self._upper = np.triu(rng.integers(-3, 4, (n, n)), 1) + np.eye(n, dtype=int)
        self.a = (self._lower @ self._upper).astype(np.float64)
        self.b = rng.integers(-(2**40), 2**40, n).astype(np.float64)
        self.exact = self._solve(self.b[:, None])[:, 0]
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

    def error(self, x: np.ndarray) -> float:
        """The largest relative error of a component, exactly; 1 at least means no right digit."""
        errors = [abs(Fraction(v) - w) / abs(w) for v, w in zip(x.tolist(), self.exact, strict=True) if w]
        return float(max(errors))

    def residual(self, x: np.ndarray) -> float:
        """‖b - Ax‖ / (‖A‖·‖x‖), as anyone would compute it."""
        size = np.linalg.norm(self.a, np.inf) * np.linalg.norm(x, np.inf)
        return float(np.linalg.norm(self.b - self.a @ x, np.inf) / size)


def conditioned(n: int, digits: int) -> np.ndarray:
    """A matrix with singular values from 1 to 10**-digits, before its elements are rounded."""
    rng = np.random.default_rng(n)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (left * 10.0 ** -np.linspace(0, digits, n)) @ right


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cost(a: np.ndarray) -> float:
    """The time of a proved solution over that of np.linalg.solve, the least of a few turns each."""
    b = np.ones(len(a))
    ours, native = (lambda: verified.solve(a, b)), (lambda: np.linalg.solve(a, b))
    turns = [(seconds(ours), seconds(native)) for _ in range(TURNS)]
    return min(t[0] for t in turns) / min(t[1] for t in turns)


def print_speed(n: int = 8192) -> None:
    """A proof beside cuSOLVER's solution on this GPU."""
    import cupy

    a, b = cupy.random.standard_normal((n, n)), cupy.ones(n)
    print(f"time of a solution on the GPU, n = {n}")
    for name, solve in (("cupy.linalg.solve", cupy.linalg.solve), ("verified.solve", verified.solve)):

        def work(solve: Callable = solve) -> None:
            solve(a, b)
            cupy.cuda.get_current_stream().synchronize()

        work()
        print(f"  {name:<18} {1e3 * min(seconds(work) for _ in range(3)):7.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also time a proof on an NVIDIA GPU")
    options = parser.parse_args()

    print("condition   residual of np.linalg.solve   its error   bound proved   correctly rounded")
    systems = sorted((System(n) for n in range(4, 42, 2)), key=lambda s: s.condition)
    rows = []
    for system in systems:
        x, proof = np.linalg.solve(system.a, system.b), verified.solve(system.a, system.b)
        bound = float((proof.bound / np.abs(proof.value)).max())
        rows.append((system.condition, system.residual(x), system.error(x), bound))
        assert system.error(proof.value) <= 2.0**-53
        text = "{:8.0e}{:30.0e}{:12.0e}{:15.0e}".format(*rows[-1])
        print(f"{text}{int(proof.rounded.sum()):>12} of {len(x)}")

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 9))
    conditions, residuals, errors, bounds = (np.array(x) for x in zip(*rows, strict=True))
    above.loglog(
        conditions, np.maximum(residuals, 1e-18), "v-", color="grey", label="np.linalg.solve: its residual"
    )
    above.loglog(conditions, errors, "C1o-", label="np.linalg.solve: its true error")
    above.loglog(conditions, bounds, "C0s-", label="verified.solve: the bound that it proves")
    above.set(xlabel="condition number κ", ylabel="relative error of the worst component")
    above.set_title("What is said, and what is true")
    above.legend()
    for (digits, name), style in zip(CONDITIONS.items(), ("C0s-", "C2^-", "C3o-"), strict=True):
        below.semilogx(SIZES, [cost(conditioned(n, digits)) for n in SIZES], style, label=name)
    below.set_yscale("log")
    below.set_xticks(SIZES, [str(n) for n in SIZES])
    below.set_yticks(TICKS, [str(n) for n in TICKS])
    below.minorticks_off()
    below.set(xlabel="equations", ylabel="times as long as np.linalg.solve", title="What the proof costs")
    below.legend()
    if options.gpu:
        print_speed()
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "13_answers_with_a_proof.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
