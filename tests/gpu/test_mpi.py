"""Sums over ranks of CuPy's arrays, which travel through the host, have NumPy's bits."""

import numpy as np
import pytest

from ozaki import ExactSum
from ozaki.mpi import allreduce, reduce_scatter
from tests.test_mpi import on_ranks, same, terms

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_sums_have_the_hosts_bits(cupy, dtype):
    x = terms(dtype, 3, (4, 9))
    for function in (allreduce, reduce_scatter):
        expected = on_ranks(3, lambda comm, f=function: f(x[comm.rank], comm))
        found = on_ranks(3, lambda comm, f=function: f(cupy.asarray(x[comm.rank]), comm))
        assert all(isinstance(y, cupy.ndarray) for y in found)
        assert all(same(y.get(), z) for y, z in zip(found, expected, strict=True))


def test_accumulators_merge(cupy):
    x = np.random.default_rng(3).standard_normal((2, 300))

    def share(comm):
        mine = slice(comm.rank, None, comm.size)
        return allreduce(ExactSum().add_products(*(cupy.asarray(y[mine]) for y in x)), comm)

    whole = ExactSum().add_products(*x).to_bytes()
    assert {total.to_bytes() for total in on_ranks(3, share)} == {whole}
