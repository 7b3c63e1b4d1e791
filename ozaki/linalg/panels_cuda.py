"""The leaves of `panels` as CUDA kernels: the same operations on every element in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel

_FILE = Path(__file__).with_name("panels.cu")
_INSTANCES: tuple[dict[str, int | str], ...] = ({"PARTS": 1}, {"PARTS": 2})
_THREADS, _LANES = 256, 32

_LU_PANEL = Kernel("lu_panel", _FILE, _INSTANCES, cooperative=True)
_LOWER_LEAF = Kernel("lower_leaf", _FILE, _INSTANCES)
_CHOLESKY_LEAF = Kernel("cholesky_leaf", _FILE, _INSTANCES)
_QR_PANEL = Kernel("qr_panel", _FILE, _INSTANCES, cooperative=True)
_QR_TRIANGLE = Kernel("qr_triangle", _FILE, _INSTANCES)


def lu_panel(columns: Array, pivots: np.ndarray) -> None:
    """As `panels.lu_panel`; so are the others."""
    xp, (w, m) = namespace(columns), columns.shape
    if not pivots.size:
        return
    blocks = min(multiprocessors(), -(-m // _LANES))
    rows = xp.empty(len(pivots), np.int64)
    candidates = xp.empty((2, blocks, 2))  # a float64 and an int64 each
    offers, met = xp.empty((2, blocks + 1, w), columns.dtype), xp.zeros(1, np.uint32)
    arguments = columns, np.int32(w), np.int64(m), rows, candidates, offers, met
    _LU_PANEL((blocks,), (_THREADS,), arguments, shared=w * columns.itemsize, PARTS=_parts(columns))
    pivots[:] = rows.get()


def lower_leaf(lower: Array, b: Array, unit: bool) -> None:
    """As `panels.lower_leaf`."""
    w, n = b.shape
    strides = (np.int64(stride // b.itemsize) for stride in lower.strides)
    arguments = lower, *strides, b, np.int32(w), np.int64(n), np.int32(unit)
    _LOWER_LEAF((-(-n // _LANES),), (_THREADS,), arguments, PARTS=_parts(b))


def cholesky_leaf(upper: Array, _: Array) -> bool:
    """As `panels.cholesky_leaf`; it needs no scratch memory."""
    definite = namespace(upper).ones(1, np.int32)
    arguments = upper, np.int32(len(upper)), definite
    _CHOLESKY_LEAF((1,), (4 * _THREADS,), arguments, PARTS=_parts(upper))
    return bool(definite[0])


def qr_panel(columns: Array, y: Array, t: Array, *_: Any) -> None:
    """As `panels.qr_panel`, into Y and T of zeros; it has scratch memory of its own."""
    xp, (w, m) = namespace(columns), columns.shape
    if not w:
        return
    overlaps, met = xp.zeros((w, w), columns.dtype), xp.zeros(1, np.uint32)
    blocks = min(w, multiprocessors())
    terms = xp.empty(max(blocks * m, w * w), columns.dtype)
    arguments = columns, y, t, np.int32(w), np.int64(m), overlaps, terms, met
    _QR_PANEL((blocks,), (4 * _THREADS,), arguments, PARTS=_parts(columns))
    _QR_TRIANGLE((1,), (w,), (t, overlaps, np.int32(w), terms), PARTS=_parts(columns))


def _parts(x: Array) -> int:
    """Return the real parts of a number."""
    return 2 if x.dtype.kind == "c" else 1
