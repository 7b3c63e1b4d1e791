"""Products on a CPU whose steps are all taken at once by compiled code: row by row, in digits or in bytes.

They have the bits of all others. What such code leaves undecided goes through the steps one after the other.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.engines.host import Host
from multiword.runtime.parallel import over_rows
from multiword.tuning import COMPILED_ELEMENTS
from ozaki.execution.few_columns import product_of_few_columns
from ozaki.execution.in_bytes import kind_in_bytes, product_in_bytes, products_in_bytes
from ozaki.execution.in_digits import Digits, seconds_in_digits
from ozaki.execution.short_rows import product_of_short_rows
from ozaki.product.factor import Factor
from ozaki.product.request import Request
from ozaki.tuning import LEAST_ROW_BY_ROW, LONGEST_SHORT_ROW, OVERHEAD_ELEMENTS


def product_at_once(a: Factor, b: Factor, request: Request) -> np.ndarray | None:
    """Return the product of two factors; None if no compiled code takes it, or leaves it undecided."""
    if not _by_default(request):
        return None
    prepared = a.prepared or b.prepared
    if not prepared and max(a.matrix.size, b.matrix.size) >= LEAST_ROW_BY_ROW:
        row_by_row = product_of_short_rows if a.k <= LONGEST_SHORT_ROW else product_of_few_columns
        if (out := row_by_row(a, b, request)) is not None:
            return out
    sizes, dtype = (1, *a.matrix.shape, b.matrix.shape[1]), a.matrix.dtype
    kind = None if prepared else kind_in_bytes(sizes, dtype, request)
    in_digits = seconds_in_digits(sizes, dtype, request)
    in_bytes = kind is not None and kind.seconds <= in_digits
    if kind is not None and in_bytes and (out := product_in_bytes(a, b, kind, request)) is not None:
        return out
    if in_digits == math.inf:
        return None
    digits = Digits(a.matrix[None], b.matrix.T[None], request)
    if digits.undecided[0] and request.certified and not in_bytes:
        digits.widen(a, b)
    out = digits.products()[0]
    return None if digits.undecided[0] else out


def products_at_once(
    rows: np.ndarray, columns: np.ndarray, request: Request
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the (s, m, n) products of (s, m, k) rows and (s, n, k) columns, and which are undecided.

    None if no compiled code takes them.
    """
    if not _by_default(request):
        return None
    (s, m, k), n, dtype = rows.shape, columns.shape[1], rows.dtype
    kind = kind_in_bytes((s, m, k, n), dtype, request)
    in_digits = seconds_in_digits((s, m, k, n), dtype, request)
    if kind is None or in_digits < kind.seconds:
        return None if in_digits == math.inf else _products_in_digits(rows, columns, request)
    made = products_in_bytes(rows, columns.swapaxes(1, 2), kind, request)
    if made is None or in_digits == math.inf or not made[1].any():
        return made
    out, undecided = made  # some of them lose nothing, for which bytes are too short
    which = np.flatnonzero(undecided)
    out[which], undecided[which] = _products_in_digits(rows[which], columns[which], request)
    return out, undecided


def _products_in_digits(
    rows: np.ndarray, columns: np.ndarray, request: Request
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `products_at_once` does, of digits."""
    (s, m, k), n, dtype = rows.shape, columns.shape[1], rows.dtype
    out, undecided = np.empty((s, m, n), dtype), np.empty(s, np.bool_)

    def work(block: slice) -> None:
        digits = Digits(rows[block], columns[block], request)
        out[block], undecided[block] = digits.products(), digits.undecided

    parts = 1 + (dtype.kind == "c")
    elements = parts**2 * max(m * n, m * k, n * k) + OVERHEAD_ELEMENTS
    over_rows(work, s, elements, COMPILED_ELEMENTS)
    return out, undecided


def _by_default(request: Request) -> bool:
    """Return whether scheme, word and engine are those by default, on a CPU."""
    engine = request.engine
    on_host = isinstance(engine, Host) and engine.name == Host.name
    return on_host and request.scheme == "auto" and request.word is None
