"""Products of many small matrices at once: one pipeline for all that need equal widths, as if they were one.

The rows of all left matrices lie one below the other, and the columns of all right ones side by side. A row's
integers depend on that row alone, so they are those of the single products.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, quietly
from multiword.runtime.memory import empty_result, padded
from ozaki.execution.at_once import products_at_once
from ozaki.execution.cache import captured_product
from ozaki.execution.gemm import computed, gemm
from ozaki.execution.groups import grouped_products
from ozaki.product.factor import Factor, stacked_factors
from ozaki.product.request import Request
from ozaki.tuning import (
    FEWEST_HARD,
    LARGEST_IN_A_STACK,
    LARGEST_IN_A_STACK_ON_DEVICE,
    SMALLEST_GROUP,
)

COLUMNS = 4
"""Columns of a product are padded to a multiple of this, which cuBLAS asks of int8 operands."""

AT_ONCE = 1 << 15
"""Products of a stack that a GPU computes at once: a grid has at most twice as many blocks across."""


def stack_product(left: Array, right: Array, request: Request) -> Array:
    """Return the (..., m, n) products of (..., m, k) and (..., k, n) stacks of one shape and dtype."""
    out = stacked_products(left, right, request)
    if out is not None:
        return out
    (*batch, m, _), n, dtype = left.shape, right.shape[-1], left.dtype

    out = empty_result(left, (*batch, m, n), dtype)
    for index in np.ndindex(*batch):
        gemm(Factor(left[index], 0), Factor(right[index], 1), 1.0, 0.0, None, request, out[index])
    return out


def stacked_products(left: Array, right: Array, request: Request) -> Array | None:
    """Return the (..., m, n) products of (..., m, k) and (..., k, n) stacks of one shape and dtype.

    None if they are to be computed one by one: large ones, a single one, or slices.
    """
    (*batch, m, k), n = left.shape, right.shape[-1]
    on_gpu = is_cupy(left)
    largest = LARGEST_IN_A_STACK_ON_DEVICE if on_gpu else LARGEST_IN_A_STACK
    if math.prod(batch) < 2 or not 0 < m * n * k <= largest:
        return None
    with quietly(left):
        rows, columns = left.reshape(-1, m, k), right.swapaxes(-1, -2).reshape(-1, n, k)
        out = (_on_device if on_gpu else _on_host)(rows, columns, request)
    return None if out is None else out.reshape(*batch, m, n)


def _on_host(rows: np.ndarray, columns: np.ndarray, request: Request) -> np.ndarray | None:
    """Return the products on a CPU: small ones directly, all others in groups; None if these do not fit."""
    at_once = products_at_once(rows, columns, request)
    if at_once is None:
        return grouped_products(rows, columns, request)
    out, undecided = at_once
    if undecided.any():
        grouped = grouped_products(rows[undecided], columns[undecided], request)
        if grouped is None:
            return None
        out[undecided] = grouped
    return out


def _on_device(left: Array, right: Array, request: Request) -> Array | None:
    """Return the products on a GPU, `AT_ONCE` at a time, padded to the right; None if they do not fit."""
    (s, n, k), xp = right.shape, namespace(right)
    width, results = padded(n, COLUMNS), list[Array]()
    for i in range(0, s, AT_ONCE):
        some = slice(i, min(i + AT_ONCE, s))
        columns = right[some]
        if width > n:
            narrow, columns = columns, xp.zeros((len(columns), width, k), right.dtype)
            columns[:, :n] = narrow
        out = _at_once(left[some], columns, request)
        if out is None:
            return None
        results.append(out if width == n else xp.ascontiguousarray(out[:, :, :n]))
    return results[0] if len(results) == 1 else xp.concatenate(results)


def _at_once(rows: Array, columns: Array, request: Request) -> Array | None:
    """Return the (s, m, n) products of (s, m, k) rows and (s, n, k) columns, replayed where that is captured.

    None if they do not fit, or are too few to be launched together.
    """
    a, b = stacked_factors(rows, columns)
    captured = captured_product(a, b, request)
    replayed = None if captured is None else captured.products(a, b)
    if replayed is None:
        return grouped_products(rows, columns, request) if len(rows) >= SMALLEST_GROUP else None
    return completed(*replayed, rows, columns, request)


def completed(
    out: Array, needs_more: np.ndarray, rows: Array, columns: Array, request: Request
) -> Array | None:
    """Return replayed products with those that need more bits, in groups or, if they are few, one by one.

    None if they do not fit.
    """
    out, hard = out.reshape(*rows.shape[:2], columns.shape[1]), np.flatnonzero(needs_more)
    if hard.size < FEWEST_HARD:
        for i in hard.tolist():
            out[i] = computed(Factor(rows[i], 0), Factor(columns[i].T, 1), request)
        return out
    grouped = grouped_products(rows[hard], columns[hard], request)
    if grouped is None:
        return None
    out[hard] = grouped
    return out
