"""Sums over ranks: the bits of `ozaki.sum`, for any number of ranks, which are threads here."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from threading import Barrier

import ml_dtypes
import numpy as np
import pytest

import ozaki
from ozaki import ExactSum
from ozaki.mpi import allreduce, reduce_scatter

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128)
DTYPES = (*FLOATS, np.bool_, np.int8, np.uint16, np.int64)


class Rank:
    """One of several threads, with what `ozaki.mpi` calls of mpi4py's communicator; the last adds first."""

    def __init__(self, rank, size, barrier, values):
        self.rank, self.size, self._barrier, self._values = rank, size, barrier, values

    def _of_all(self, value):
        self._values[self.rank] = value
        self._barrier.wait()
        values = list(self._values[::-1])
        self._barrier.wait()
        return values

    def allreduce(self, value, op):
        return reduce(op, self._of_all(value))

    def Allreduce(self, sent, received):
        assert sent.flags.c_contiguous
        assert received.flags.c_contiguous
        received[...] = reduce(np.add, self._of_all(sent))

    def Reduce_scatter(self, sent, received, counts):
        assert sent.flags.c_contiguous
        assert received.flags.c_contiguous
        start = sum(counts[: self.rank])
        total = reduce(np.add, self._of_all(sent)).reshape(-1)
        received[...] = total[start : start + counts[self.rank]].reshape(received.shape)


def on_ranks(count, work):
    """What work(comm) returns on each of so many ranks."""
    barrier, values = Barrier(count, timeout=60), [None] * count
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, [Rank(i, count, barrier, values) for i in range(count)]))


def terms(dtype, ranks, shape):
    """An array for each rank: numbers far apart that cancel; in some elements Inf, NaN, infinities, −0."""
    rng = np.random.default_rng(ranks)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 2**62 if dtype == np.int64 else 2, (ranks, *shape)).astype(dtype)
    spread = 60 if np.dtype(dtype).itemsize > 2 else 5
    x = rng.standard_normal((ranks, *shape)) * np.exp2(rng.integers(-spread, spread, (ranks, *shape)))
    x[-1] -= np.where(rng.random(shape) < 0.3, x[:-1].sum(axis=0), 0)
    for element, value in enumerate((np.inf, np.nan, -np.inf)):
        x[element % ranks, ..., element] = value
    x[0, ..., 3], x[-1, ..., 3], x[..., 4], x[..., 5] = np.inf, -np.inf, -0.0, 0.0
    return (x + 1j * x[:, ::-1] if np.dtype(dtype).kind == "c" else x).astype(dtype)


def same(x, y):
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_sums_are_those_of_the_stack(dtype, ranks):
    x = terms(dtype, ranks, (4, 9))
    expected = ozaki.sum(x, axis=0)
    for found in on_ranks(ranks, lambda comm: allreduce(x[comm.rank], comm)):
        assert same(found, expected)
    found = on_ranks(ranks, lambda comm: reduce_scatter(x[comm.rank], comm))
    assert all(map(same, found, np.array_split(expected, ranks)))


def test_one_number_a_rank():
    x = np.array([1e100, 1.0, -1e100, 2.0**-60])
    (found, *_) = on_ranks(4, lambda comm: allreduce(x[comm.rank].item(), comm))
    assert type(found) is np.float64
    assert found == ozaki.sum(x)
    assert on_ranks(2, lambda comm: allreduce(3, comm)) == [6, 6]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_accumulators_merge(dtype):
    """A dot product over any cut of two vectors, rounded once; the states of all ranks are one."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((2, 300)) * np.exp2(rng.integers(-30, 30, (2, 300)))).astype(dtype)
    whole = ExactSum(dtype).add_products(x, y)
    for ranks in (1, 2, 4):

        def share(comm):
            mine = slice(comm.rank, None, comm.size)
            return allreduce(ExactSum(dtype).add_products(x[mine], y[mine]), comm)

        assert {total.to_bytes() for total in on_ranks(ranks, share)} == {whole.to_bytes()}
    fields = ExactSum(dtype, (7, 2)).add(x[:280].reshape(-1, 7, 2))
    shares = on_ranks(3, lambda comm: reduce_scatter(fields, comm))
    assert [share.shape for share in shares] == [(3, 2), (2, 2), (2, 2)]
    tripled = ExactSum(dtype, (7, 2)).merge(fields).merge(fields).merge(fields).round()
    assert same(np.concatenate([share.round() for share in shares]), tripled)


def test_invalid_arguments(monkeypatch):
    """Every rank raises what one alone is to blame for."""

    def refused(comm, arrays):
        with pytest.raises(ValueError, match="one shape and dtype on all ranks"):
            allreduce(arrays[comm.rank], comm)
        return True

    for other in (np.ones(4), np.ones(3, np.float32), np.ones(3, int)):
        assert all(on_ranks(3, lambda comm, x=other: refused(comm, [np.ones(3), np.ones(3), x])))
    with pytest.raises(ValueError, match="rows to share out"):
        on_ranks(1, lambda comm: reduce_scatter(1.0, comm))
    with pytest.raises(TypeError, match="numeric"):
        on_ranks(1, lambda comm: allreduce(np.array("a"), comm))
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match="mpi4py"):
        allreduce(np.ones(3))
