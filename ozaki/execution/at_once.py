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
from ozaki.execution.in_bytes import Kind, kind_in_bytes, product_in_bytes, products_in_bytes
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
    kind, in_digits = _ways(sizes, dtype, request, prepared)
    if kind is not None and (out := product_in_bytes(a, b, kind, request)) is not None:
        return out
    if not in_digits:
        return None
    digits = Digits(a.matrix[None], b.matrix.T[None], request)
    if digits.undecided[0] and request.certified and kind is None:
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
    kind, in_digits = _ways((s, m, k, n), dtype, request)
    if kind is None:
        return _products_in_digits(rows, columns, request) if in_digits else None
    made = products_in_bytes(rows, columns.swapaxes(1, 2), kind, request)
    if made is None or not in_digits or not made[1].any():
        return made
    out, undecided = made  # some of them lose nothing, for which bytes are too short
    which = np.flatnonzero(undecided)
    out[which], undecided[which] = _products_in_digits(rows[which], columns[which], request)
    return out, undecided


def _ways(
    sizes: tuple[int, int, int, int], dtype: np.dtype, request: Request, prepared: bool = False
) -> tuple[Kind | None, bool]:
    """Return the kind of a stack of products in bytes, or None, and whether they may go in digits.

    Prepared factors do not go in bytes, nor do products that take less time in digits.
    """
    kind = None if prepared else kind_in_bytes(sizes, dtype, request)
    seconds = seconds_in_digits(sizes, dtype, request)
    return None if kind is None or seconds < kind.seconds else kind, seconds < math.inf


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
