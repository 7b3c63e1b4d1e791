"""The leaves of `panels` as CUDA kernels: the same operations on every element in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import block_memory, multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import Kernel
from ozaki.linalg.arithmetic import LEAF

_FILE = Path(__file__).with_name("panels.cu")
_THREADS, _WIDE_THREADS, _LANES, _STEP = 256, 1024, 32, 8
_INSTANCES: tuple[dict[str, int | str], ...] = tuple(
    {"PARTS": parts, "LEAF": LEAF, "STEP": _STEP} for parts in (1, 2)
)
_STATIC = 1024
"""Bytes of shared memory, at most, that a kernel has beside what it is given."""

_LU_PANEL = Kernel("lu_panel", _FILE, _INSTANCES, cooperative=True, equals="ozaki.linalg.panels.lu_panel")
_LOWER_LEAF = Kernel("lower_leaf", _FILE, _INSTANCES, equals="ozaki.linalg.panels.lower_leaf")
_CHOLESKY_LEAF = Kernel("cholesky_leaf", _FILE, _INSTANCES, equals="ozaki.linalg.panels.cholesky_leaf")
_QR_PANEL = Kernel("qr_panel", _FILE, _INSTANCES, cooperative=True, equals="ozaki.linalg.panels.qr_panel")
_QR_TRIANGLE = Kernel("qr_triangle", _FILE, _INSTANCES, equals="ozaki.linalg.panels.qr_panel")


def lu_panel(columns: Array, pivots: np.ndarray) -> None:
    """As `panels.lu_panel`; so are the others."""
    xp, (w, m) = namespace(columns), columns.shape
    if not pivots.size:
        return
    tiles = -(-m // _LANES)
    blocks = min(multiprocessors(), tiles)
    rows = xp.empty(len(pivots), np.int64)
    candidates = xp.empty((2, blocks, 2))  # a float64 and an int64 each
    offers, met = xp.empty((2, blocks + 1, w), columns.dtype), xp.zeros(1, np.uint32)
    fixed, room = (w + _WIDE_THREADS) * columns.itemsize, block_memory() - _STATIC
    own = w * (-(-tiles // blocks) * _LANES + 1) * columns.itemsize
    resident = fixed + own <= room
    arguments = columns, np.int32(w), np.int64(m), rows, candidates, offers, met, np.int32(resident)
    launch = _LU_PANEL.instance(shared=fixed + resident * own, **_constants(columns))
    launch((blocks,), (_WIDE_THREADS,), arguments)
    pivots[:] = rows.get()


def lower_leaf(lower: Array, b: Array, unit: bool) -> None:
    """As `panels.lower_leaf`."""
    w, n = b.shape
    strides = (np.int64(stride // b.itemsize) for stride in lower.strides)
    arguments = lower, *strides, b, np.int32(w), np.int64(n), np.int32(unit)
    launch = _LOWER_LEAF.instance(shared=(_LANES + _STEP) * LEAF * b.itemsize, **_constants(b))
    launch((-(-n // _LANES),), (_THREADS,), arguments)


def cholesky_leaf(upper: Array, _: Array) -> bool:
    """As `panels.cholesky_leaf`; it needs no scratch memory."""
    definite = namespace(upper).ones(1, np.int32)
    arguments = upper, np.int32(len(upper)), definite
    _CHOLESKY_LEAF((1,), (_WIDE_THREADS,), arguments, **_constants(upper))
    return bool(definite[0])


def qr_panel(columns: Array, y: Array, t: Array, *_: Any) -> None:
    """As `panels.qr_panel`, into Y and T of zeros; it has scratch memory of its own."""
    xp, (w, m) = namespace(columns), columns.shape
    if not w:
        return
    overlaps, met = xp.zeros((w, w), columns.dtype), xp.zeros(1, np.uint32)
    blocks = min(w, multiprocessors())
    terms = xp.empty(blocks * m, columns.dtype)
    arguments = columns, y, t, np.int32(w), np.int64(m), overlaps, terms, met
    _QR_PANEL((blocks,), (_WIDE_THREADS,), arguments, **_constants(columns))
    _QR_TRIANGLE((-(-w // (_THREADS // 32)),), (_THREADS,), (t, overlaps, np.int32(w)), **_constants(columns))


def _constants(x: Array) -> dict[str, int]:
    """Return what the kernels are compiled for: parts of a number, columns of a leaf, rows of a step."""
    return {"PARTS": 2 if x.dtype.kind == "c" else 1, "LEAF": LEAF, "STEP": _STEP}
