"""`python -m benchmarks.sparse [--json FILE]`: sparse products and solvers beside SciPy's, on ten matrices.

A row is a matrix that is made here, in the manner of those that others collect, with the method that suits
it. SciPy's product with a vector and ours take turns in one process: seconds are the least of the turns, of
the thread itself, which waits for nothing. Both methods count their iterations for one tolerance. Ours must
return the same bits for one thread and two, and for CSR, CSC and COO; where a matrix is positive definite,
`verified.solve` is timed beside SuperLU's factorization of it. All is compiled before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.sparse as ss
import scipy.sparse.linalg as native

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import publish
from multiword.runtime.parallel import at_most
from ozaki.linalg import verified
from ozaki.sparse import linalg as ours

TURNS, TOLERANCE = 25, 1e-8


def line(n: int, below: float = -1.0, above: float = -1.0) -> Any:
    return ss.diags_array([below, 2.0, above], offsets=[-1, 0, 1], shape=(n, n))


def grid(*lines: Any) -> Any:
    """The sum of the operators along the axes of a grid."""
    total = lines[0]
    for other in lines[1:]:
        total = ss.kron(total, ss.eye_array(other.shape[0])) + ss.kron(ss.eye_array(total.shape[0]), other)
    return total.tocsr()


def elasticity(n: int) -> Any:
    """Plane stress on n × n bilinear elements, held at one side; Poisson's ratio 0.3."""
    k = np.array([0.45, 0.1625, -0.275, -0.0125, -0.225, -0.1625, 0.05, 0.0125]) / 0.91
    turn = (
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 7, 6, 5, 4, 3, 2],
        [2, 7, 0, 5, 6, 3, 4, 1],
        [3, 6, 5, 0, 7, 2, 1, 4],
    )
    turn += (
        [4, 5, 6, 7, 0, 1, 2, 3],
        [5, 4, 3, 2, 1, 0, 7, 6],
        [6, 3, 4, 1, 2, 7, 0, 5],
        [7, 2, 1, 4, 3, 6, 5, 0],
    )
    node = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    corners = np.stack([node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:]], axis=-1).reshape(-1, 4)
    freedoms = np.stack([2 * corners, 2 * corners + 1], axis=-1).reshape(-1, 8)
    rows, columns = np.repeat(freedoms, 8, axis=1), np.tile(freedoms, 8)
    values = np.tile(k[np.array(turn)].ravel(), len(freedoms))
    whole = ss.coo_array((values, (rows.ravel(), columns.ravel())), shape=[2 * node.size] * 2).tocsr()
    free = np.setdiff1d(np.arange(2 * node.size), np.concatenate([2 * node[0], 2 * node[0] + 1]))
    part = whole[free][:, free]
    return ((part + part.T) / 2).tocsr()


def heavy_graph(n: int, rng: np.random.Generator) -> Any:
    """The Laplacian, plus 1/100, of a random graph in which one node is everyone's neighbour."""
    i, j = rng.integers(0, n, (2, 3 * n))
    edges = ss.coo_array((np.ones(len(i)), (i, j)), shape=(n, n)) + ss.coo_array(
        (np.ones(n), (np.zeros(n, int), np.arange(n))), shape=(n, n)
    )
    edges = ((edges + edges.T) > 0).astype(float).tolil()
    edges.setdiag(0)
    edges = edges.tocsr()
    return (ss.diags_array(edges.sum(axis=1) + 0.01) - edges).tocsr()


def wide(m: int, n: int, rng: np.random.Generator) -> Any:
    """Random rows of 20 numbers whose sizes are 2⁻³⁰ to 2³⁰ times others'."""
    a = ss.random_array((m, n), density=20 / n, rng=rng, data_sampler=rng.standard_normal).tocsr()
    a.data = a.data * np.exp2(rng.integers(-30, 31, a.nnz))
    return a


def cases() -> Iterator[tuple[str, Any, str, dict[str, Any]]]:
    """Yield names, matrices, methods and their options."""
    rng = np.random.default_rng(1)
    yield "Laplacian, 100 × 100", grid(line(100), line(100)), "cg", {}
    yield "Laplacian, 20 × 20 × 20", grid(line(20), line(20), line(20)), "cg", {}
    yield "Laplacian, 100 to 1", grid(line(80), 100 * line(80)), "minres", {}
    yield "Helmholtz, indefinite", (grid(line(40), line(40)) - 0.1 * ss.eye_array(1600)).tocsr(), "minres", {}
    yield "convection", grid(line(80, -1.3, -0.7), line(80, -1.3, -0.7)), "gmres", {"restart": 30}
    yield "convection, strong", grid(line(80, -1.9, -0.1), line(80, -1.1, -0.9)), "bicgstab", {}
    yield "elasticity, 32 × 32", elasticity(32), "cg", {}
    yield "graph with a heavy row", heavy_graph(5000, rng), "cg", {}
    scale = ss.diags_array(np.exp2(np.linspace(-20, 20, 2500)))
    yield "graded, 2⁻²⁰ to 2²⁰", (scale @ grid(line(50), line(50)) @ scale).tocsr(), "cg", {}
    yield "random, wide", wide(3000, 2000, rng), "lsqr", {}


def least(turns: int, *works: Callable[[], Any]) -> list[float]:
    """The least seconds of this thread for each of the works, in so many turns after the first."""
    found = [float("inf")] * len(works)
    for turn in range(turns + 1):
        for i, work in enumerate(works):
            start = time.thread_time()
            work()
            found[i] = min(found[i], time.thread_time() - start) if turn else found[i]
    return found


def solved(module: Any, name: str, a: Any, b: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, int]:
    """The solution, and how many iterations it took."""
    if name == "lsqr":
        x, _, count, *_ = module.lsqr(a, b, atol=TOLERANCE, btol=TOLERANCE, iter_lim=200)
        return x, count
    steps: list[Any] = []
    if module is native and name == "gmres":
        options = {**options, "callback_type": "pr_norm"}
    limit = 60 if name == "gmres" else 1000
    told = {"progress": lambda *step: steps.append(step[0])} if name == "gmres" and module is ours else {}
    call = {"callback": lambda _: None if told else steps.append(len(steps) + 1)}
    x, _ = getattr(module, name)(a, b, rtol=TOLERANCE, maxiter=limit, **options, **call, **told)
    return x, max(steps, default=0)


def measured(name: str, a: Any, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """What is known of one matrix."""
    rng = np.random.default_rng(2)
    x, b = rng.standard_normal(a.shape[1]), rng.standard_normal(a.shape[0])
    with at_most(1):
        of_scipy, of_ours = least(TURNS, lambda: a @ x, lambda: ozaki.matmul(a, x))
        solution, count = solved(ours, method, a, b, options)
        same = [solved(ours, method, form, b, options)[0] for form in (a.tocsc(), a.tocoo())]
    same.append(solved(ours, method, a, b, options)[0])
    row = {"row": name, "n": a.shape[1], "entries": a.nnz, "native": of_scipy, "ours": of_ours}
    row |= {"ratio": of_ours / of_scipy, "method": method, "iterations": count}
    row["of scipy"] = solved(native, method, a, b, options)[1]
    row["same bits"] = all(other.tobytes() == solution.tobytes() for other in same)
    if method == "cg":
        with at_most(1):
            factor, proof = least(2, lambda: native.splu(a.tocsc()), lambda: verified.solve(a, b))
        row |= {"factor": factor, "proof": proof, "rounded": float(verified.solve(a, b).rounded.mean())}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.sparse",
        "environment": {**versions(np), "scipy": scipy.__version__, "threads": 1},
        "unit": f"least seconds of the thread, of {TURNS} turns",
        "results": [measured(*case) for case in cases()],
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
