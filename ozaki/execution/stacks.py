"""Products of many small matrices at once: one pipeline for all that need equal widths, as if they were one.

The rows of all left matrices lie one below the other, and the columns of all right ones side by side. A row's
integers depend on that row alone, so they are those of the single products.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.arrays import Array, device_of, is_cupy, namespace
from multiword.runtime.memory import padded
from ozaki.execution.groups import FEW, grouped_products
from ozaki.factor import Factor
from ozaki.gemm import computed
from ozaki.pipeline import Request

SMALL = 1 << 24
"""Multiplications in a product; larger ones keep a machine busy one by one."""

COLUMNS = 4
"""Columns of a product are padded to a multiple of this, which cuBLAS asks of int8 operands."""

AT_ONCE = 1 << 15
"""Products of a stack that a GPU computes at once: a grid has no more than twice as many blocks across."""


def stacked_products(left: Array, right: Array, request: Request) -> Array | None:
    """Return the (..., m, n) products of (..., m, k) and (..., k, n) stacks of one shape and dtype.

    None if they are computed one by one: they are large or few, or in slices.
    """
    (*batch, m, k), n = left.shape, right.shape[-1]
    on_device = is_cupy(left)
    if math.prod(batch) < (FEW if on_device else 2) or not 0 < m * n * k <= SMALL:
        return None
    with device_of(left), np.errstate(all="ignore"):
        rows, columns = left.reshape(-1, m, k), right.swapaxes(-1, -2).reshape(-1, n, k)
        out = (_on_device if on_device else _on_host)(rows, columns, request)
    return None if out is None else out.reshape(*batch, m, n)


def _on_host(rows: np.ndarray, columns: np.ndarray, request: Request) -> np.ndarray | None:
    """The products on a CPU, in groups."""
    found = grouped_products(rows, columns, request)
    return None if found is None else found[0]


def _on_device(left: Array, right: Array, request: Request) -> Array | None:
    """The products on a GPU: in groups, and what is left of those one by one."""
    (s, n, k), xp = right.shape, namespace(right)
    out = xp.empty((*left.shape[:2], n), left.dtype)
    for i in range(0, s, AT_ONCE):
        some = slice(i, min(i + AT_ONCE, s))
        rows = xp.ascontiguousarray(left[some])
        columns = xp.zeros((len(rows), padded(n, COLUMNS), k), left.dtype)
        columns[:, :n] = right[some]
        found = grouped_products(rows, columns, request)
        if found is None:
            return None
        out[some] = found[0][:, :, :n]
        for j in np.flatnonzero(found[1]).tolist():
            out[i + j] = computed(Factor(rows[j], 0), Factor(columns[j].T, 1), request)[:, :n]
    return out
