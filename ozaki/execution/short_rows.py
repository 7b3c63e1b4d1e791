"""Short rows on a CPU: what a decision takes of many of them, measured side by side in vectors."""

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
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.scale import LevelData

FORM = "ozaki.execution.short_rows_numba"

_FLOAT64 = np.dtype(np.float64)


class _Side:
    """The rows of A, or columns of B, and what the counting bound takes of them.

    Attributes
    ----------
    limits : that these are for. measured : whether that could be done.
    scale : the norm scales. first_octaves, largest : see `measure`.
    """

    def __init__(self, form: Any, x: np.ndarray, limits: np.ndarray) -> None:
        (rows, k), found = x.shape, list[tuple[int, np.ndarray, np.ndarray]]()
        self.scale, self.limits = np.empty(rows, np.int32), limits

        def work(block: slice) -> None:
            first_octaves, largest = np.zeros(k, np.int64), np.zeros(1)
            scratch_memory = _lines(form, k), np.empty((k, form.ROWS), np.int16)
            given = limits, self.scale[block], first_octaves, largest, *scratch_memory
            found.append((form.measure(as_doubles(x[block]), *given), first_octaves, largest))

        over_rows(work, rows, k, compiled_block(rows * k), ALONE_ELEMENTS)
        self.measured = all(done for done, *_ in found)
        _, self.first_octaves, self.largest = found[0]
        if len(found) > 1:
            _, *bounds = zip(*found, strict=True)
            self.first_octaves, self.largest = (np.max(x, axis=0) for x in bounds)


class ShortRows(LevelData):
    """Many short rows and few columns, or few rows and many short columns, as they were measured.

    Attributes
    ----------
    moderate : whether no row is of extreme size, or has an Inf or NaN.
    """

    def __init__(self, pair: Pair) -> None:
        super().__init__(pair)
        a, b, request = pair.a, pair.b, pair.request
        self._form, target = compiled(FORM), request.norm_format(a.matrix.dtype)
        self._limits = counting_limits(target.name, a.length, request.certified)
        self._turned = a.rows < b.rows
        self._many, self._few = (b, a) if self._turned else (a, b)
        self._sides = tuple(map(self._side, (self._many, self._few)))
        self.moderate = all(side.measured for side in self._sides)
        self._reached = np.empty((2, OCTAVES))

    def _side(self, x: Factor) -> _Side:
        """Return what is measured of a factor, which keeps it: who asks first need not run the product."""
        side: _Side | None = x.short_rows  # of which another thread may make another
        if side is None or side.limits is not self._limits:
            side = x.short_rows = _Side(self._form, as_real(x.matrix.T if x.side else x.matrix), self._limits)
        return side

    def scales(self, bits: int) -> steps.Scales:
        """Return the norm scales of both factors, widened by some bits."""
        many, few = (side.scale + np.int32(bits) for side in self._sides)
        return (few, many) if self._turned else (many, few)

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


def as_real(x: np.ndarray) -> np.ndarray:
    """Return complex rows as real ones of twice as many numbers, copied unless they are contiguous."""
    return np.ascontiguousarray(x).view(x.real.dtype) if x.dtype.kind == "c" else x


def _lines(form: Any, k: int) -> np.ndarray:
    return scratch((k + form.SPARE, form.ROWS))


def as_doubles(x: np.ndarray) -> np.ndarray:
    """Return a block of rows as compiled code reads it, wherever it lies."""
    return x if x.dtype is _FLOAT64 and x.flags.aligned else np.require(x, np.float64, "A")
