"""Conjugate gradients over MPI, with the same bits for any number of ranks, and as on one machine.

    mpiexec -n 4 python examples/mpi_cg.py

Every rank has some rows of a matrix, and of all vectors. Rows of products are correctly rounded wherever they
lie, and so are dot products over ranks: `ozaki.mpi.allreduce` adds their exact digits and rounds once. What
is left works number by number. So the iterates are those of `ozaki.sparse.linalg.cg` on the whole system, as
Mukunoki, Ozaki, Ogita and Iakymchuk have them on CPU and GPU ("Conjugate gradient solvers with high accuracy
and bit-wise reproducibility between CPU and GPU", 2021). Wants mpi4py and SciPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from scipy import sparse

import ozaki
from ozaki import ExactSum
from ozaki.mpi import allreduce
from ozaki.sparse.linalg import cg

SIDE, STEPS = 24, 250


def grid(n: int) -> Any:
    """The Laplacian of an n × n grid, graded by powers of two."""
    line = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    scale = sparse.diags_array(2.0 ** np.random.default_rng(15).integers(-1, 2, n * n))
    return (
        scale @ (sparse.kron(line, sparse.eye_array(n)) + sparse.kron(sparse.eye_array(n), line)) @ scale
    ).tocsr()


def dot(x: np.ndarray, y: np.ndarray) -> float:
    """The dot product of vectors of which each rank has a part."""
    return allreduce(ExactSum().add_products(x, y)).round().item()


def distributed_cg(rows: Any, b: np.ndarray, steps: int) -> np.ndarray:
    """This rank's part of the iterate after some steps (Hestenes and Stiefel 1952)."""
    x, r, p = 0 * b, b, b
    rho = dot(r, r)
    for _ in range(steps):
        q = ozaki.matmul(rows, np.concatenate(MPI.COMM_WORLD.allgather(p)))
        alpha = rho / dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        before, rho = rho, dot(r, r)
        p = r + rho / before * p
    return x


def main() -> None:
    comm = MPI.COMM_WORLD
    a, b = grid(SIDE), np.ones(SIDE**2)
    first, last = (SIDE**2 * rank // comm.size for rank in (comm.rank, comm.rank + 1))
    x = np.concatenate(comm.allgather(distributed_cg(a[first:last], b[first:last], STEPS)))
    if comm.rank == 0:
        print(f"{comm.size} rank(s)")
        print(f"  residual      {np.linalg.norm(ozaki.residual(a, x, b)):.1e}")
        print(f"  fingerprint   {ozaki.fingerprint(x)}")
        assert np.array_equal(x, cg(a, b, rtol=0, maxiter=STEPS)[0])


if __name__ == "__main__":
    main()
