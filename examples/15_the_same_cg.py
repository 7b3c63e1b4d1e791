"""The same conjugate gradients on a laptop and on a GPU: one number of iterations, whatever the order.

    python examples/15_the_same_cg.py [--output DIR] [--gpu]

A network of resistors is solved by conjugate gradients (Hestenes and Stiefel 1952), its nodes numbered in
several ways, which changes nothing but the order of additions. SciPy's method takes a number of iterations of
its own in each; `ozaki.sparse.linalg.cg`, whose products and dot products are correctly rounded, takes the
same steps to the last bit (as Mukunoki, Ozaki, Ogita and Iakymchuk, "Conjugate gradient solvers with high
accuracy and bit-wise reproducibility between CPU and GPU", 2021). --gpu does it with CuPy's arrays, too.
The picture shows how far the iterates of two numberings are apart, step by step. Ten seconds on a CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from scipy import sparse
from scipy.sparse.linalg import cg as scipy_cg

import ozaki
from ozaki.sparse.linalg import cg as ozaki_cg

SIDE, OCTAVES, NUMBERINGS = 24, 8, 5


def network(n: int, octaves: int) -> Any:
    """The conductance matrix of an n × n grid of resistors, grounded at its border."""
    line = sparse.diags_array([1.0, -1.0], offsets=[0, -1], shape=(n + 1, n))
    wires = sparse.vstack([sparse.kron(line, sparse.eye_array(n)), sparse.kron(sparse.eye_array(n), line)])
    exponents = np.random.default_rng(15).integers(-octaves, octaves + 1, wires.shape[0])
    return (wires.T @ sparse.diags_array(2.0**exponents) @ wires).tocsr()


def iterates(cg: Callable[..., Any], a: Any, b: Any, order: Any) -> list[np.ndarray]:
    """What CG goes through where the unknowns are numbered in another order, in the first order again."""
    found: list[np.ndarray] = []

    def keep(x: Any) -> None:
        back = np.empty(len(b))
        back[order] = x.get() if hasattr(x, "get") else x
        found.append(back)

    cg(a[order][:, order], b[order], rtol=1e-12, maxiter=10**5, callback=keep)
    return found


def on_gpu(a: Any, b: np.ndarray, order: np.ndarray) -> list[np.ndarray]:
    """The same of CuPy's arrays."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    def cg(matrix: Any, right: np.ndarray, **options: Any) -> Any:
        return ozaki_cg(csr_matrix(matrix), cupy.asarray(right), **options)

    return iterates(cg, a, b, order)


def draw(apart: dict[str, list[float]], target: Path) -> None:
    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axis = plt.subplots(figsize=(7, 4.5))
    for style, (label, distances) in zip(("C1-", "C0-"), apart.items(), strict=True):
        axis.semilogy(np.maximum(distances, 1e-17), style, label=label)
    axis.set(title="One system, two numberings of its unknowns", xlabel="iteration", ylim=(4e-18, 1))
    axis.set_ylabel("distance of the iterates")
    axis.set_yticks([1e-17, 1e-12, 1e-8, 1e-4, 1], ["0", "10⁻¹²", "10⁻⁸", "10⁻⁴", "1"])
    axis.legend(loc="center right")
    figure.savefig(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also solve on an NVIDIA GPU")
    options = parser.parse_args()
    a, b = network(SIDE, OCTAVES), np.ones(SIDE**2)
    orders = [np.random.default_rng(seed).permutation(len(b)) for seed in range(NUMBERINGS)]
    orders[0] = np.arange(len(b))
    solvers = {"SciPy's cg": lambda order: iterates(scipy_cg, a, b, order)}
    solvers["ozaki's cg"] = lambda order: iterates(ozaki_cg, a, b, order)
    if options.gpu:
        solvers["ozaki's, on a GPU"] = lambda order: on_gpu(a, b, order)
    apart = {}
    print(
        f"{'iterations':<20}"
        + "".join(f"{'numbering ' + str(i + 1):<14}" for i in range(NUMBERINGS)).rstrip()
    )
    for name, solve in solvers.items():
        runs = [solve(order) for order in orders]
        print(f"{name:<20}" + "".join(f"{len(run):<14}" for run in runs).rstrip())
        if name.startswith("ozaki"):
            marks = {ozaki.fingerprint(run[-1]) for run in runs}
            print(f"{'  fingerprint':<20}{marks.pop()}")
            assert not marks
        size = np.linalg.norm(runs[0][-1])
        steps = zip(runs[0], runs[1], strict=False)
        apart[name] = [float(np.linalg.norm(x - y) / size) for x, y in steps]
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "15_the_same_cg.png"
    draw(dict(list(apart.items())[:2]), target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
