"""A global sum, dot product and field of sums over MPI, with the same bits for any number of ranks.

    mpiexec -n 4 python examples/mpi_sums.py

Every rank has a share of the numbers. `ozaki.mpi` adds their exact digits, which are integers and do not
care for the order in which MPI adds them, and rounds once (Kulisch, "Computer Arithmetic and Validity",
chapter 8). Wants mpi4py.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

import ozaki
from ozaki import ExactSum
from ozaki.mpi import allreduce, reduce_scatter


def main() -> None:
    comm = MPI.COMM_WORLD
    rng = np.random.default_rng(7)
    x = np.ldexp(rng.standard_normal(120_000), rng.integers(-60, 60, 120_000))
    y = x[::-1] * rng.standard_normal(x.size)
    field = x.reshape(-1, 30, 40)

    mine = slice(comm.rank, None, comm.size)  # this rank's share: any cut will do
    total = allreduce(ExactSum().add(x[mine])).round()
    product = allreduce(ExactSum().add_products(x[mine], y[mine])).round()
    rows = reduce_scatter(ExactSum(shape=(30, 40)).add(field[mine])).round()  # of the field, this rank's own
    fields = np.concatenate(comm.allgather(rows))
    native = comm.allreduce(np.sum(x[mine]))  # depends on the number of ranks

    if comm.rank == 0:
        print(f"{comm.size} rank(s)")
        print(f"  MPI sum of np.sum   {native!r}")
        print(f"  exact sum           {total!r}")
        print(f"  exact dot product   {product!r}")
        print(f"  fingerprint         {ozaki.fingerprint(np.array([total, product, *fields.ravel()]))}")
        assert total == ozaki.sum(x)
        assert product == ozaki.dot(x, y)
        assert np.array_equal(fields, ozaki.sum(field, axis=0))


if __name__ == "__main__":
    main()
