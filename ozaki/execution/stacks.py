"""Products of many small matrices at once: one pipeline for all, as if they were one.

The rows of all left matrices lie one below the other, and the columns of all right ones side by side. A row's
integers depend on that row alone, so they are those of the single products, as long as no product
asks for wider ones. On a CPU those that do are grouped (`ozaki.execution.groups`); on a GPU one of them
has all computed one by one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, device_of, is_cupy, namespace
from multiword.runtime.memory import padded
from ozaki.certificate.decision import certify_by_counting
from ozaki.execution.groups import grouped_products
from ozaki.execution.panels import whole_bytes
from ozaki.execution.small import small_products
from ozaki.factor import Factor
from ozaki.pipeline import Request, ScaledProduct, bounds, execute, norm_scaled, scale

SMALL = 1 << 24
"""Multiplications in a product; larger ones keep a machine busy one by one."""

FEW = 16
"""On a GPU, stacks of fewer products are computed one by one: those are replayed, in less time."""

COLUMNS = 4
"""Columns of a product are padded to a multiple of this, which cuBLAS asks of int8 operands."""


def stacked_products(left: Array, right: Array, dtype: Any, request: Request) -> Array | None:
    """Return the (..., m, n) products of (..., m, k) and (..., k, n) stacks of one shape, in a dtype.

    None if they are computed one by one: they are large or few, or in slices, or, on a GPU, there is an Inf
    or NaN, or one of the products may need wider integers than the others.
    """
    (*batch, m, k), n = left.shape, right.shape[-1]
    on_device = is_cupy(left)
    if math.prod(batch) < (FEW if on_device else 2) or not 0 < m * n * k <= SMALL:
        return None
    with device_of(left), np.errstate(all="ignore"):
        if not on_device:
            out = _on_host(left.reshape(-1, m, k), right.swapaxes(-1, -2).reshape(-1, n, k), request)
            return None if out is None else out.reshape(*batch, m, n)
        xp, width = namespace(left), padded(n, COLUMNS)
        columns = xp.zeros((*batch, width, k), dtype)
        columns[..., :n, :] = right.swapaxes(-1, -2)
        rows = xp.ascontiguousarray(left, dtype).reshape(-1, m, k)
        out = _together(rows, columns.reshape(-1, width, k), request)
    return None if out is None else out[..., :n].reshape(*batch, m, n)


def _on_host(rows: np.ndarray, columns: np.ndarray, request: Request) -> np.ndarray | None:
    """The products on a CPU: small ones directly, and others, and what is left of those, in groups."""
    done = small_products(rows, columns, request)
    if done is None:
        return grouped_products(rows, columns, request)
    out, undone = done
    if undone.any():
        others = grouped_products(rows[undone], columns[undone], request)
        if others is None:
            return None
        out[undone] = others
    return out


def _together(rows: Array, columns: Array, request: Request) -> Array | None:
    """The (s, m, n) products of (s, m, k) rows and (s, n, k) columns, within the workspace."""
    (s, m, k), n = rows.shape, columns.shape[1]
    a = Factor(rows.reshape(s * m, k), 0, stack=s)
    b = Factor(columns.reshape(s * n, k).T, 1, stack=s)
    try:
        scaled = _scaled_alike(a, b, request)
        if scaled is None:
            return None
        if s * whole_bytes(scaled.scheme, (m, k, n)) <= request.workspace:
            out = namespace(rows).empty((s * m, n), rows.dtype)
            execute(scaled, a, b, request, out)
            return out.reshape(s, m, n)
    except MemoryError:  # one by one they may go in panels
        return None
    if s == 1:
        return None
    halves = slice(s // 2), slice(s // 2, None)
    parts = [_together(rows[half], columns[half], request) for half in halves]
    return None if any(part is None for part in parts) else namespace(rows).concatenate(parts)


def _scaled_alike(a: Factor, b: Factor, request: Request) -> ScaledProduct | None:
    """The integers, if they are those of every single product."""
    if request.certified:
        scaled = norm_scaled(a, b, request)
        found = bounds(a, b, request, scaled.scales).wait()
        if found.nonfinite or certify_by_counting(found, request.limits).bits > 0:
            return None
    else:
        scaled, _ = scale(a, b, request)
    usable = scaled.scheme.name == "residues" and a.k <= scaled.scheme.k_block and not scaled.nonfinite
    return scaled if usable else None
