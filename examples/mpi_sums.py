"""A global sum, dot product and field of sums over MPI, with the same bits for any number of ranks.

    mpiexec -n 4 python examples/mpi_sums.py

Every rank adds its share of the numbers to an `ozaki.ExactSum`. The merge of all of them is two calls
of MPI: a maximum, by which the ranks agree on a window of digits, and a sum of int64 arrays. Integers do
not care for the order in which MPI adds them, and the result is rounded once, at the end. (Kulisch,
"Computer Arithmetic and Validity", chapter 8.) Wants mpi4py; NCCL and gloo reduce int64 arrays likewise.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

import ozaki
from ozaki import ExactSum


def all_merged(share: ExactSum, comm: MPI.Comm) -> ExactSum:
    """The merge of every rank's accumulator, on all ranks."""
    window = share.window
    comm.Allreduce(MPI.IN_PLACE, window, MPI.MAX)
    digits = np.ascontiguousarray(share.to_digits(window))
    comm.Allreduce(MPI.IN_PLACE, digits, MPI.SUM)
    return ExactSum.from_digits(digits, window, share.dtype)


def main() -> None:
    comm = MPI.COMM_WORLD
    rng = np.random.default_rng(7)
    x = np.ldexp(rng.standard_normal(120_000), rng.integers(-60, 60, 120_000))
    y = x[::-1] * rng.standard_normal(x.size)
    field = x.reshape(-1, 30, 40)

    mine = slice(comm.rank, None, comm.size)  # this rank's share: any cut will do
    total = all_merged(ExactSum().add(x[mine]), comm).round()
    product = all_merged(ExactSum().add_products(x[mine], y[mine]), comm).round()
    fields = all_merged(ExactSum(shape=(30, 40)).add(field[mine]), comm).round()
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
