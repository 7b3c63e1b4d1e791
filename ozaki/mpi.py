"""Sums over the ranks of MPI: correctly rounded, with the same bits for any number of ranks.

Each rank's share becomes an `ExactSum`. The ranks agree on a window of digits, MPI adds the digits, which are
integers, in whatever order it likes, and each sum is rounded once (Kulisch, Computer Arithmetic and Validity,
chapter 8). Wants mpi4py (extra `mpi`), which is imported only where no communicator is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multiword.public import public_in, public_names
from multiword.runtime.arrays import Array, namespace, on_host
from multiword.runtime.install import missing
from ozaki.sums.arguments import numbers, summed_dtype
from ozaki.sums.exactsum import ExactSum

Exchange = Callable[[Any, np.ndarray, int], np.ndarray]
"""Sends 64-bit integers, whose rows lie along an axis, and returns their sums, of all rows or of some."""


@public_in("ozaki.mpi", "Sums over ranks")
def allreduce(x: Any, comm: Any = None) -> Any:
    """Return the sum of every rank's x, element by element, correctly rounded, on all ranks.

    That is `ozaki.sum(numpy.stack(arrays), axis=0)` of the arrays of all ranks, in two calls of MPI: some
    bytes, and 8 bytes for each digit of 32 bits that the sums use, mostly three to five an element.

    Parameters
    ----------
    x : array of the same shape and dtype on every rank: float16, bfloat16, float32, float64, complex64 or
        complex128; integers and booleans are added as `numpy.sum` adds them. CuPy arrays travel through the
        host. Or an `ExactSum`, of any number of terms: a dot product over ranks is
        `allreduce(ExactSum().add_products(x, y), comm).round()`.
    comm : communicator of mpi4py, by default `MPI.COMM_WORLD`.

    Returns
    -------
    Array of x's shape and dtype, of integers int64 or uint64; of an `ExactSum` a new one, that of all ranks.

    Raises
    ------
    ValueError : ranks have another shape or dtype; on all of them. TypeError : x is not numeric.
    ImportError : no communicator is given, and mpi4py is not installed.

    References
    ----------
    Kulisch, Computer Arithmetic and Validity, chapter 8.

    >>> from mpi4py import MPI  # doctest: +SKIP
    >>> allreduce([1e100, -1e100, 1.0, 0.5][MPI.COMM_WORLD.rank])  # doctest: +SKIP
    np.float64(1.5)
    """
    return _summed(x, comm, _on_all)


@public_in("ozaki.mpi", "Sums over ranks")
def reduce_scatter(x: Any, comm: Any = None) -> Any:
    """Return this rank's rows of the sum of every rank's x, correctly rounded.

    As `allreduce`, with less to send; rows are shared out as `numpy.array_split` does: the first ranks may
    have one more.

    Raises
    ------
    ValueError : x has no axis; ranks have another shape or dtype. TypeError, ImportError : as `allreduce`.

    >>> reduce_scatter(np.arange(6.0))  # of 4 ranks the second one  # doctest: +SKIP
    array([ 8., 12.])
    """
    return _summed(x, comm, _on_owners)


def _summed(x: Any, comm: Any, exchange: Exchange) -> Any:
    """Return what `exchange` makes of numbers that MPI can add."""
    comm = _world() if comm is None else comm
    x = x if isinstance(x, ExactSum) else numbers(x, "x")
    if exchange is _on_owners and not x.shape:
        raise ValueError("x must have rows to share out, got shape ()")
    if isinstance(x, ExactSum):
        window = _agreed(comm, x, x.window)
        digits = exchange(comm, x.to_digits(window), 1 + (x.dtype.kind == "c"))
        return ExactSum.from_digits(digits, window, x.dtype)
    if x.dtype.kind not in "iub":
        return _summed(ExactSum(x.dtype, x.shape).add(x), comm, exchange).round()
    _agreed(comm, x, np.zeros(2, np.int64))
    target = summed_dtype(x)
    total = exchange(comm, x.astype(target).view(np.uint64), 0)  # which wraps around, as NumPy's sums do
    return total.view(target)[()]


def _agreed(comm: Any, x: Any, window: np.ndarray) -> np.ndarray:
    """Return the window that holds the digits of all ranks. ValueError if their shapes or dtypes differ."""
    widest, like = comm.allreduce((window, (tuple(x.shape), x.dtype.name)), op=_wider)
    if like is None:
        raise ValueError(f"x must have one shape and dtype on all ranks; here it is {x.dtype} {x.shape}")
    return widest


def _wider(one: tuple[np.ndarray, Any], other: tuple[np.ndarray, Any]) -> tuple[np.ndarray, Any]:
    return np.maximum(one[0], other[0]), one[1] if one[1] == other[1] else None


def _on_all(comm: Any, x: Array, axis: int) -> Array:
    sent = np.ascontiguousarray(on_host(x))
    received = np.empty_like(sent)
    comm.Allreduce(sent, received)
    return namespace(x).asarray(received)


def _on_owners(comm: Any, x: Array, axis: int) -> Array:
    """Return the rows of this rank, which are those of x along an axis."""
    sent = np.ascontiguousarray(np.moveaxis(on_host(x), axis, 0))
    shares = np.array_split(sent, comm.size)
    received = np.empty_like(shares[comm.rank])
    comm.Reduce_scatter(sent, received, [share.size for share in shares])
    return namespace(x).asarray(np.moveaxis(received, 0, axis))


def _world() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise missing(
            "without a communicator ozaki.mpi needs mpi4py, which is not installed", "mpi"
        ) from error
    return MPI.COMM_WORLD


__all__ = public_names(__name__)
