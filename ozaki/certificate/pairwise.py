"""The pairwise bound: |A||B| of each pair of a row and a column, from below."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.compiled import compiled
from multiword.runtime.graphs import kept_zeros
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.readback import Readback
from ozaki.certificate.counting import RowBounds
from ozaki.certificate.magnitudes import COMPILED_FORM
from ozaki.tuning import PAIRS_AT_ONCE

SLACK = 1 - 2.0**-50
"""More than the rounding of a truncation."""

PairwiseBound = tuple[float, float]
"""The largest T / |A||B| of all pairs, and the largest of that over the pair's tolerance."""

Multiply = Callable[[tuple[Array, Array], Callable[[Array, slice, slice], None]], None]
"""multiply(scales, use) multiplies magnitudes and calls use(products, rows, columns) for every panel;
the products are those of `Magnitudes`."""


def pairwise_bound(
    rows: tuple[RowBounds, RowBounds], length: int, multiply: Multiply
) -> Callable[[], PairwiseBound]:
    """Compare all pairs of scaled rows and columns, and return a function that waits for the bound."""
    largest = np.zeros(2)
    sent = SentBound() if is_cupy(rows[0].total) else None

    def use(y: Array, panel_rows: slice, columns: slice) -> None:
        panel = rows[0][panel_rows], rows[1][columns]
        if sent is None:
            _raise_host(y, panel, length, largest)
        else:
            last = panel_rows.stop >= len(rows[0].total) and columns.stop >= len(rows[1].total)
            _raise_device(y, panel, length, sent, last)

    multiply((rows[0].truncation_scale, rows[1].truncation_scale), use)
    return sent.on_its_way() if sent is not None else lambda: (float(largest[0]), float(largest[1]))


@dataclass(frozen=True)
class PartialMagnitudes:
    """Products of magnitudes of a part of the inner dimension, of some rows and columns.

    Attributes
    ----------
    products : (parts, 1, m, n), as of `Magnitudes`; of no rows if they are not asked for.
    bounds : of the rows and columns.
    length : real numbers in a row of A.
    """

    products: Array
    bounds: tuple[RowBounds, RowBounds]
    length: int

    def __sizeof__(self) -> int:
        return int(self.products.nbytes)

    def add(self, other: PartialMagnitudes) -> PartialMagnitudes:
        """Return the products over both parts of the inner dimension."""
        return PartialMagnitudes(self.products + other.products, self.bounds, self.length)

    def bound(self) -> PairwiseBound:
        """Return the bound of these rows and columns, once all parts are there; 0 of none."""
        y = self.products
        if not y.size:
            return 0.0, 0.0
        everything = slice(0, y.shape[2]), slice(0, y.shape[3])
        return pairwise_bound(self.bounds, self.length, lambda _, use: use(y, *everything))()


_NO_ROWS = RowBounds(*(np.empty(0),) * 3)

NO_MAGNITUDES = PartialMagnitudes(np.empty((1, 1, 0, 0)), (_NO_ROWS, _NO_ROWS), 0)
"""Those that nobody asks for."""


class SentBound:
    """A pairwise bound that a GPU writes to the host.

    Attributes
    ----------
    largest : the bits of the largest error so far, and how many blocks are done; zeros before and after.
    readback : of that error, and its ratio to the tolerance.
    """

    def __init__(self) -> None:
        self.largest, self.readback = kept_zeros((2,), np.float64), Readback(2)

    def on_its_way(self) -> Callable[[], PairwiseBound]:
        """Mark the end of the launches that write it, and return a function that waits for it."""
        self.readback.send()

        def wait() -> PairwiseBound:
            error, ratio = self.readback.wait().tolist()
            return error, ratio

        return wait


def proves_nothing(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return for which of a stack no bound proves anything: the integers of these products lose nothing.

    They are those of (s, m, k) rows and (s, n, k) columns of which a row and a column, neither zero, have no
    nonzero number in common: |A||B| of that pair is 0, and T is not. Its N + M <= k nonzero numbers leave
    nothing of the counting bound, equilibrated or not, nor of the pairwise one.

    >>> proves_nothing(np.eye(2)[None], np.eye(2)[None]), proves_nothing(np.ones((1, 2, 2)), np.eye(2)[None])
    (array([ True]), array([False]))
    """
    left, right = rows != 0, columns != 0
    common = left.astype(np.float32) @ right.astype(np.float32).swapaxes(-1, -2)
    apart = (common == 0) & left.any(axis=-1)[..., :, None] & right.any(axis=-1)[..., None, :]
    return apart.any(axis=(-2, -1))


def tolerance(terms: Array) -> Array:
    """Return the largest T / |A||B| that a pair may have, in u: at most half of a native routine's bound."""
    return np.minimum(4 * np.sqrt(terms), terms / 2)


def _raise_host(y: np.ndarray, rows: tuple[RowBounds, RowBounds], length: int, largest: np.ndarray) -> None:
    """Raise `largest` to the maxima over these pairs."""
    a, b = rows
    form = compiled(COMPILED_FORM)
    if form is not None:
        found = form.largest_error[y.dtype.name]
        bounds = a.total, b.total, length / 4, a.scale_offset, b.scale_offset
        error = max(found(component[: len(a.total), : len(b.total)], *bounds) for component in y[:, 0])
        largest[:] = np.maximum(largest, (error, error / tolerance(np.float64(length))))
        return
    step = max(1, PAIRS_AT_ONCE // len(b.total))
    for i in range(0, len(a.total), step):
        part = slice(i, min(i + step, len(a.total)))
        for component in y[:, 0]:
            for j, x in enumerate(compare_pairs(component[part], a[part], b, length)):
                largest[j] = max(largest[j], x.max())


def compare_pairs(y: np.ndarray, a: RowBounds, b: RowBounds, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return T / |A||B| of all pairs of a product or a stack of products, and its ratio to the tolerance.

        T = (Σ|a'| + Σ|b'|)/2 + k/4

    `y` is (m, n), bounds of rows are (m,) and (n,); of a stack, (s, m, n), (s, m) and (s, n).
    """
    of_a, of_b = a.total[..., None], b.total[..., None, :]
    real = (of_a > 0) & (of_b > 0)
    lower = np.multiply(y[..., : b.total.shape[-1]], SLACK, dtype=np.float64)
    lower = np.ldexp(lower, a.scale_offset[..., None] + b.scale_offset[..., None, :])
    relative = np.where(real, ((of_a + of_b) / 2 + length / 4) / lower, 0.0)
    return relative, relative / tolerance(np.float64(length))


class Products(Struct):
    """Products of magnitudes of a panel: (m, n), a stride in elements."""

    _fields_ = (
        ("products", ctypes.c_void_p),
        ("row_stride", ctypes.c_longlong),
    )


class PanelPairs(Struct):
    """The `RowBounds` of a panel that its pairs are compared by, the maximum so far, and its copy.

    The last launch for a bound leaves zeros behind.
    """

    _fields_ = (
        *members(ctypes.c_void_p, "total_a", "total_b", "scale_offset_a", "scale_offset_b"),
        *members(ctypes.c_int, "rows", "columns", "last"),
        ("length", ctypes.c_longlong),
        *members(ctypes.c_void_p, "largest", "bound"),
    )

    @classmethod
    def of(cls, a: RowBounds, b: RowBounds, length: int, sent: SentBound, last: bool) -> PanelPairs:
        """Return the pairs of some rows and columns, for the last launch or an earlier one."""
        return cls(
            total_a=a.total,
            total_b=b.total,
            scale_offset_a=a.scale_offset,
            scale_offset_b=b.scale_offset,
            rows=len(a.total),
            columns=len(b.total),
            last=int(last),
            length=length,
            largest=sent.largest,
            bound=int(sent.readback.address),
        )


ROWS, AT_ONCE = 16, 8
"""Rows of pairs that a thread compares at a time, and after which a warp shares its largest error."""

WIDTHS = 4, 16, 64, 256
"""Columns of a block: as many as there are, so that its threads have pairs."""

BLOCKS = 4
"""Blocks of a multiprocessor, at most: what they have in common takes the time of some rows."""


def _constants(width: int, product: str) -> dict[str, Any]:
    return {"ROWS": ROWS, "AT_ONCE": AT_ONCE, "WIDTH": width, "PRODUCT": product}


_PAIRWISE_BOUND = Kernel(
    "pairwise_bound",
    Path(__file__).with_suffix(".cu"),
    tuple(_constants(width, t) for width in WIDTHS for t in ("int", "double")),
    (Products, PanelPairs),
    equals="ozaki.definition.decision.pairwise_error",
)


def _raise_device(
    y: Array, rows: tuple[RowBounds, RowBounds], length: int, sent: SentBound, last: bool
) -> None:
    """Raise `sent.largest` to the maximum over these pairs."""
    m, n = len(rows[0].total), len(rows[1].total)
    width = next((x for x in WIDTHS if n <= x), WIDTHS[-1])
    across, groups = -(-n // width), -(-m // (ROWS * (WIDTHS[-1] // width)))
    grid = (across * min(groups, max(1, BLOCKS * multiprocessors() // across)),)
    constants = _constants(width, "int" if y.dtype == np.int32 else "double")
    for i, component in enumerate(y[:, 0]):
        pairs = PanelPairs.of(*rows, length, sent, last=last and i == len(y) - 1)
        products = Products(products=component, row_stride=y.shape[3])
        _PAIRWISE_BOUND(grid, (WIDTHS[-1],), (products, pairs), **constants)
