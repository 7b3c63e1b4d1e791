"""Products of many short rows on a CPU, or of few with many columns: all steps by compiled code, row by row.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, with
numbers of extreme size, or that are not decided in two floats, are left to the steps of all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import compiled_block, over_rows, scratch
from multiword.tuning import ALONE_ELEMENTS
from ozaki.certificate.counted import counting_limits
from ozaki.certificate.counting import OCTAVES
from ozaki.certificate.decision import EVERYTHING, WIDENED_IN_ALL
from ozaki.execution.eager import bits_of_level_factors
from ozaki.product.factor import Factor
from ozaki.product.request import TARGETS, Request
from ozaki.tuning import FEWEST_ROWS, LARGEST_BY_SHORT_ROWS, LONGEST_SHORT_ROW

FORM = "ozaki.execution.short_rows_numba"


def product_of_short_rows(a: Factor, b: Factor, request: Request) -> np.ndarray | None:
    """Return the product of two factors; None if it is left to others."""
    dtype, few, many, k = a.matrix.dtype, *sorted((a.rows, b.rows)), a.k
    suits = many >= FEWEST_ROWS and k <= LONGEST_SHORT_ROW and k * few <= LARGEST_BY_SHORT_ROWS
    if not suits or dtype.kind == "c" or not request.of_norms or (form := compiled(FORM)) is None:
        return None
    turned = a.rows < b.rows
    rows, columns = (_doubles(x) for x in ((b.matrix.T, a.matrix) if turned else (a.matrix, b.matrix.T)))
    limits = counting_limits(request.norm_format(TARGETS[dtype]).name, k, request.certified)
    sides = [_Side(form, x, limits) for x in (rows, columns)]
    if not all(side.measured for side in sides):
        return None
    first_octaves, largest = (np.array([getattr(x, y) for x in sides]) for y in ("first_octaves", "largest"))
    bits = form.counted_bits(first_octaves, largest, limits, np.empty((2, OCTAVES)))
    if bits < 0:  # "normwise" asks for none
        bits = bits_of_level_factors(a, b, request, EVERYTHING) if request.certified else 0
    if bits < 0 or WIDENED_IN_ALL < bits < EVERYTHING:
        return None
    whole = bits <= WIDENED_IN_ALL
    scale, column_scale = (side.scale + np.int32(bits if whole else 0) for side in sides)
    scaled = np.ldexp(columns, column_scale[:, None])
    if not whole and (np.abs(scaled[columns != 0]) < form.SMALLEST).any():
        return None
    scaled = np.ascontiguousarray(np.rint(scaled) if whole else scaled)
    out = np.empty((a.rows, b.rows))
    target, undecided = out.T if turned else out, list[int]()

    def work(block: slice) -> None:
        of_columns = scaled, column_scale, dtype == np.float32
        given = scale[block], whole, *of_columns, target[block], _lines(form, k)
        undecided.append(form.multiply(rows[block], *given))

    elements = k * (1 + few)
    over_rows(work, many, elements, compiled_block(many * elements), ALONE_ELEMENTS)
    return None if any(undecided) else out.astype(dtype, copy=False)


def _doubles(x: np.ndarray) -> np.ndarray:
    """Return a matrix as compiled code reads it, wherever it lies."""
    return np.require(x, np.float64, "A")


class _Side:
    """The rows of A, or columns of B, and what the counting bound takes of them.

    Attributes
    ----------
    measured : whether that could be done.
    scale : the norm scales. first_octaves, largest : see `measure`.
    """

    def __init__(self, form: Any, x: np.ndarray, limits: np.ndarray) -> None:
        (rows, k), found = x.shape, list[tuple[int, np.ndarray, np.ndarray]]()
        self.scale = np.empty(rows, np.int32)

        def work(block: slice) -> None:
            first_octaves, largest = np.zeros(k, np.int64), np.zeros(1)
            scratch_memory = _lines(form, k), np.empty((k, form.ROWS), np.int16)
            given = limits, self.scale[block], first_octaves, largest, *scratch_memory
            found.append((form.measure(x[block], *given), first_octaves, largest))

        over_rows(work, rows, k, compiled_block(rows * k), ALONE_ELEMENTS)
        done, first_octaves, largest = zip(*found, strict=True)
        self.measured = all(done)
        self.first_octaves, self.largest = np.max(first_octaves, axis=0), np.max(largest, axis=0)


def _lines(form: Any, k: int) -> np.ndarray:
    return scratch((k + form.SPARE, form.ROWS))
