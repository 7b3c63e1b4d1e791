"""Products of many short rows on a CPU, or of few with many columns: all steps by compiled code, row by row.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, with
numbers of extreme size, or that are not decided in two floats, are left to the steps of all others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import compiled_block, over_rows, scratch
from multiword.tuning import ALONE_ELEMENTS
from ozaki.certificate.counted import counting_limits
from ozaki.certificate.counting import Bounds, compute_bounds, octave_sums
from ozaki.certificate.decision import Ask
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import tolerance
from ozaki.definition.decision import OCTAVES
from ozaki.execution.eager import LevelData
from ozaki.execution.in_floats import as_doubles, bits_in_floats, scaled_columns, written_to
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.request import TARGETS, Request
from ozaki.tuning import FEWEST_ROWS, LARGEST_BY_SHORT_ROWS

FORM = "ozaki.execution.short_rows_numba"


def product_of_short_rows(a: Factor, b: Factor, request: Request) -> np.ndarray | None:
    """Return the product of two factors, k up to `LONGEST_SHORT_ROW`; None if it is left to others."""
    form: Any = compiled(FORM) if _suits(a, b, request) else None
    if form is None:
        return None
    dtype, turned = a.matrix.dtype, a.rows < b.rows
    rows, columns = (b.matrix.T, a.matrix) if turned else (a.matrix, b.matrix.T)
    limits = counting_limits(request.norm_format(TARGETS[dtype]).name, a.k, request.certified)
    sides = _Side(form, rows, limits), _Side(form, columns, limits)
    if not (sides[0].measured and sides[1].measured):
        return None
    data = _Data(form, a, b, request, sides, limits)
    asked = bits_in_floats(a, b, request, data.counted_bits, data)
    if asked is None:
        return None
    bits, whole = asked
    scale, column_scale = (side.scale + np.int32(bits) for side in sides)
    scaled = scaled_columns(columns, column_scale, whole, a.k)
    if scaled is None:
        return None
    out, undecided = np.empty((a.rows, b.rows), dtype), list[int]()
    target = out.T if turned else out

    def work(block: slice) -> None:
        given = as_doubles(rows[block]), scale[block], whole, scaled, column_scale, dtype == np.float32
        lines = _lines(form, a.k)
        undecided.append(written_to(target[block], lambda y: form.multiply(*given, y, lines)))

    elements = a.k * (1 + len(columns))
    over_rows(work, len(rows), elements, compiled_block(len(rows) * elements), ALONE_ELEMENTS)
    return None if any(undecided) else out


def _suits(a: Factor, b: Factor, request: Request) -> bool:
    if max(a.rows, b.rows) < FEWEST_ROWS or a.k * min(a.rows, b.rows) > LARGEST_BY_SHORT_ROWS:
        return False
    return a.matrix.dtype.kind == "f" and (request.of_norms or request.accuracy == "exact")


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
            found.append((form.measure(as_doubles(x[block]), *given), first_octaves, largest))

        over_rows(work, rows, k, compiled_block(rows * k), ALONE_ELEMENTS)
        done, first_octaves, largest = zip(*found, strict=True)
        self.measured = all(done)
        self.first_octaves, self.largest = np.max(first_octaves, axis=0), np.max(largest, axis=0)


class _Data(LevelData):
    """Rows side by side, and few columns, as they were measured."""

    def __init__(
        self,
        form: Any,
        a: Factor,
        b: Factor,
        request: Request,
        sides: tuple[_Side, _Side],
        limits: np.ndarray,
    ) -> None:
        super().__init__(a, b, request)
        self._form, self._sides, self._limits = form, sides, limits
        self._many, self._few = (b, a) if a.rows < b.rows else (a, b)
        self._reached = np.empty((2, OCTAVES))

    def counted_bits(self) -> int:
        """Return the bits that the counting bound asks for, or -1."""
        first_octaves, largest = zip(*((x.first_octaves, x.largest) for x in self._sides), strict=True)
        return self._form.counted_bits(
            np.array(first_octaves), np.array(largest), self._limits, self._reached
        )

    def answer(self, question: Ask) -> Any:
        """Answer a question of the decision, after `counted_bits`."""
        rows, columns = self._sides
        if question is Ask.COUNTS:
            (sums,) = octave_sums(self._reached[:1], self._reached[1:], self._few.k)
            totals = float(rows.largest[0]), float(columns.largest[0])
            self.bounds = Bounds(False, totals, (0.0, 0.0), sums.tolist(), self._few.k)
            return self.bounds
        if question is Ask.PAIRS:
            error = self._largest_error()
            return error, error / tolerance(np.float64(self._few.k))
        limit = steps.row_limit(self._few, self._request)
        for x, side in ((self._many, rows), (self._few, columns)):
            x.cached_norm_scales(limit, 0, side.scale)
        return super().answer(question)

    def _largest_error(self) -> float:
        """Return the largest T / |A||B| of all pairs."""
        form, few, scale, (numbers,) = self._form, self._few, self._sides[1].scale, self._many.parts
        bounds, _ = compute_bounds((few.statistics,) * 2, (scale, scale), self._request.limits).rows
        magnitudes = Magnitudes(1, "fp64").split(few.parts, bounds.truncation_scale, 0, 1)[0, 0]
        of_columns = magnitudes, bounds.total, bounds.scale_offset, math.isqrt(few.k)
        found = list[float]()

        def work(block: slice) -> None:
            scratch_memory = (np.empty((few.k, form.ROWS), kind) for kind in (np.int16, np.float64))
            given = self._limits, *of_columns, _lines(form, few.k), *scratch_memory
            found.append(form.largest_error(as_doubles(numbers[block]), *given))

        elements = few.k * (1 + few.rows)
        over_rows(work, len(numbers), elements, compiled_block(numbers.size), ALONE_ELEMENTS)
        return max(found)


def _lines(form: Any, k: int) -> np.ndarray:
    return scratch((k + form.SPARE, form.ROWS))
