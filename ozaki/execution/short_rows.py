"""Executor "short_rows": products of many short rows on a CPU, or of few with many columns, row by row.

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
from ozaki.definition.decision import EVERYTHING, OCTAVES
from ozaki.execution.contract import DONE, EXTREME, UNLEVEL, UNROUNDED, Declined, Executor, Outcome
from ozaki.execution.in_floats import (
    as_doubles,
    bits_in_floats,
    declines_floats,
    no_floats,
    scaled_columns,
    takes_bits,
    written_to,
)
from ozaki.product import steps
from ozaki.product.pair import Pair, Signature
from ozaki.product.request import TARGETS
from ozaki.product.scale import LevelData
from ozaki.tuning import FEWEST_ROWS, LARGEST_BY_SHORT_ROWS, LEAST_ROW_BY_ROW, LONGEST_SHORT_ROW

FORM = "ozaki.execution.short_rows_numba"


class ShortRows(Executor):
    """Rows side by side in vectors, added up in two floats."""

    name = "short_rows"
    about = "many rows of up to 16 numbers, side by side in two floats (CPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if (why := no_floats(signature)) is not None:
            return why
        return None if signature.shape[1] <= LONGEST_SHORT_ROW else "rows are too long"

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        request, (_, k, _), target = signature.request, signature.shape, TARGETS[signature.dtype]
        self.limits = counting_limits(request.norm_format(target).name, k, request.certified)

    @property
    def cost(self) -> float:
        m, k, n = self.signature.shape
        many = max(m, n) >= FEWEST_ROWS and max(m, n) * k >= LEAST_ROW_BY_ROW
        return 0.0 if many and k * min(m, n) <= LARGEST_BY_SHORT_ROWS else math.inf

    def declines(self, pair: Pair) -> str | None:
        return declines_floats(pair)

    def run(self, pair: Pair, out: np.ndarray) -> Outcome:
        a, b, form = pair.a, pair.b, compiled(FORM)
        dtype, turned = a.matrix.dtype, a.rows < b.rows
        rows, columns = (b.matrix.T, a.matrix) if turned else (a.matrix, b.matrix.T)
        sides = _Side(form, rows, self.limits), _Side(form, columns, self.limits)
        if not (sides[0].measured and sides[1].measured):
            return Declined(pair, EXTREME)
        data = _Data(form, pair, sides, self.limits)
        bits = bits_in_floats(pair, data.counted_bits, data)
        if not takes_bits(bits):
            return Declined(pair._replace(bits=bits), UNLEVEL)
        whole = bits != EVERYTHING
        scale, column_scale = (side.scale + np.int32(bits if whole else 0) for side in sides)
        scaled = scaled_columns(columns, column_scale, whole, a.k)
        if scaled is None:
            return Declined(pair, EXTREME)
        target, undecided = out.T if turned else out, list[int]()

        def work(block: slice) -> None:
            given = as_doubles(rows[block]), scale[block], whole, scaled, column_scale, dtype == np.float32
            lines = _lines(form, a.k)
            undecided.append(written_to(target[block], lambda y: form.multiply(*given, y, lines)))

        elements = a.k * (1 + len(columns))
        over_rows(work, len(rows), elements, compiled_block(len(rows) * elements), ALONE_ELEMENTS)
        return Declined(pair._replace(bits=bits), UNROUNDED) if any(undecided) else DONE


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

    def __init__(self, form: Any, pair: Pair, sides: tuple[_Side, _Side], limits: np.ndarray) -> None:
        super().__init__(pair)
        self._form, self._sides, self._limits = form, sides, limits
        a, b = pair.a, pair.b
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
        limit = steps.row_limit(self.pair)
        for x, side in ((self._many, rows), (self._few, columns)):
            x.cached_norm_scales(limit, 0, side.scale)
        return super().answer(question)

    def _largest_error(self) -> float:
        """Return the largest T / |A||B| of all pairs."""
        form, few, scale, (numbers,) = self._form, self._few, self._sides[1].scale, self._many.parts
        bounds, _ = compute_bounds((few.statistics,) * 2, (scale, scale), self.pair.request.limits).rows
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
