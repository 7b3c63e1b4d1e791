"""`python -m benchmarks.sparse_gpu [--json FILE]`: sparse products and solvers on a GPU beside CuPy's.

First the ten matrices of `benchmarks.sparse`: the solution of each must have the same bits on the GPU and on
the CPU, there with one thread and with all. Then products of large matrices with a vector and with 32, and an
iteration of CG, ours and CuPy's (cuSPARSE) in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as ss

import ozaki
from benchmarks.dgemm import versions
from benchmarks.sparse import TOLERANCE, cases, grid, line, solved
from benchmarks.timing import publish, settled
from multiword.runtime.parallel import at_most
from ozaki.sparse import linalg as ours

ROUNDS, ITERATIONS = 3, 200


def large() -> Iterator[tuple[str, Any]]:
    """Matrices of some ten million entries."""
    rng = np.random.default_rng(5)
    yield "Laplacian, 1414 × 1414", grid(line(1414), line(1414))
    yield "Laplacian, 113 × 113 × 113", grid(line(113), line(113), line(113))
    n, width = 200_000, 60
    columns = rng.integers(0, n, (n, width))
    start = np.arange(0, n * width + 1, width)
    yield "60 random entries a row", ss.csr_array((rng.standard_normal(n * width), columns.ravel(), start))
    n, width = 100_000, 100
    columns = np.minimum(np.arange(n)[:, None] + np.arange(width), n - 1)
    start = np.arange(0, n * width + 1, width)
    yield "band of 100", ss.csr_array((rng.standard_normal(n * width), columns.ravel(), start))


def same_bits(name: str, a: Any, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Whether a solution has the same bits wherever it is computed."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    b = np.random.default_rng(2).standard_normal(a.shape[0])
    with at_most(1):
        one, count = solved(ours, method, a, b, options)
    every, _ = solved(ours, method, a, b, options)
    found, on_gpu = solved(ours, method, csr_matrix(ss.csr_matrix(a)), cupy.asarray(b), options)
    bits = [x.tobytes() for x in (one, every, cupy.asnumpy(found))]
    row = {"row": name, "n": a.shape[1], "entries": a.nnz, "method": method, "iterations": count}
    return row | {"iterations on the GPU": on_gpu, "same bits": len(set(bits)) == 1}


def products(name: str, a: Any) -> dict[str, Any]:
    """Seconds of products with one vector and with 32, ours and CuPy's."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    rng, matrix = np.random.default_rng(3), csr_matrix(ss.csr_matrix(a))
    row: dict[str, Any] = {"row": name, "n": a.shape[1], "entries": a.nnz}
    for columns in (1, 32):
        x = cupy.asarray(rng.standard_normal((a.shape[1], columns)).squeeze())
        works = {"ours": lambda x=x: ozaki.matmul(matrix, x), "native": lambda x=x: matrix @ x}
        row |= {f"{who}, {columns}": queued for who, (queued, _) in settled(works, ROUNDS).items()}
    return row


def iterations(n: int) -> dict[str, Any]:
    """Seconds of an iteration of CG for the Laplacian of an n × n grid, ours and CuPy's."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import cg

    matrix = csr_matrix(ss.csr_matrix(grid(line(n), line(n))))
    b = cupy.asarray(np.random.default_rng(4).standard_normal(n * n))
    works = {
        "ours": lambda count: ours.cg(matrix, b, rtol=TOLERANCE**2, maxiter=count),
        "native": lambda count: cg(matrix, b, rtol=TOLERANCE**2, maxiter=count),
    }
    row: dict[str, Any] = {"row": f"CG, Laplacian, {n} × {n}", "n": n * n, "entries": matrix.nnz}
    for who, work in works.items():
        seconds = {}
        for count in (10, 10, 10 + ITERATIONS, 10 + ITERATIONS, 10 + ITERATIONS):
            cupy.cuda.Device().synchronize()
            start = time.perf_counter()
            work(count)
            cupy.cuda.Device().synchronize()
            seconds[count] = min(time.perf_counter() - start, seconds.get(count, np.inf))
        row[who] = (seconds[10 + ITERATIONS] - seconds[10]) / ITERATIONS
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    import cupy

    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.sparse_gpu",
        "environment": versions(cupy),
        "unit": "seconds of a call among many that are queued, by events; of an iteration, by the clock",
        "results": [
            *(same_bits(*case) for case in cases()),
            *(products(*case) for case in large()),
            *(iterations(n) for n in (100, 300, 1000)),
        ],
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
