"""`two_sided` and the rotations of `rotations` as CUDA kernels: the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multiword.engines.machine import block_memory, multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel, pointers

_FILE = Path(__file__).with_name("two_sided.cu")
_THREADS, _TILE = 288, 1024
_WARPS = _THREADS // 32
_PARTS: tuple[dict[str, int | str], ...] = ({"PARTS": 1}, {"PARTS": 2})

_TRIDIAGONALIZE = Kernel(
    "tridiagonalize", _FILE, _PARTS, cooperative=True, equals="ozaki.linalg.two_sided.tridiagonalize"
)
_BIDIAGONALIZE = Kernel(
    "bidiagonalize", _FILE, _PARTS, cooperative=True, equals="ozaki.linalg.two_sided.bidiagonalize"
)
_ROTATE = Kernel("rotate", _FILE, _PARTS[:1], equals="ozaki.linalg.rotations.rotate")


def tridiagonalize(a: Array, d: Array, e: Array, vectors: Array, taus: Array) -> None:
    """As `two_sided.tridiagonalize`, into arrays of zeros."""
    totals = namespace(a).empty((2, len(a)), a.dtype)
    _reduce(_TRIDIAGONALIZE, a, (d, e, vectors, taus, totals), 4)


def bidiagonalize(a: Array, d: Array, e: Array, *reflectors: Array) -> None:
    """As `two_sided.bidiagonalize`, into arrays of zeros."""
    totals = namespace(a).empty(len(a), a.dtype)
    _reduce(_BIDIAGONALIZE, a, (d, e, *reflectors, totals), 3 + _WARPS)


def _reduce(kernel: Kernel, a: Array, arguments: tuple[Array, ...], lines: int) -> None:
    """Launch on blocks with so many lines of n numbers each, in their shared memory if they fit there."""
    xp, n = namespace(a), len(a)
    if not n:
        return
    width = next((w for w in (8, 16) if n <= w * multiprocessors()), 32)
    blocks = min(multiprocessors(), -(-n // width) + 1)  # columns are counted from a multiple of the width
    tiles, own = 2 * _TILE * a.itemsize, lines * n * a.itemsize
    resident = tiles + own <= block_memory()
    scratch = None if resident else xp.empty(blocks * lines * n, a.dtype)
    met = xp.zeros(1, np.uint32)
    launch = kernel.instance(shared=tiles + resident * own, PARTS=2 if a.dtype.kind == "c" else 1)
    launch((blocks,), (_THREADS,), (a, np.int32(n), np.int32(width), *arguments, *pointers(scratch), met))


def rotate(rows: Array, spans: np.ndarray, angles: np.ndarray) -> None:
    """As `rotations.rotate`, of (n, columns) float64 rows."""
    xp, (n, columns) = namespace(rows), rows.shape
    if not columns:  # of values alone
        return
    sizes = np.int32(len(spans)), np.int32(n)
    arguments = rows, np.int64(columns), xp.asarray(spans), xp.asarray(angles), *sizes
    _ROTATE((-(-columns // 32),), (32,), arguments, PARTS=1)
