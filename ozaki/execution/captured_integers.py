"""Products of integers on a GPU that come again: captured as CUDA graphs, and replayed from then on.

How many moduli a product takes depends on the largest magnitudes. A graph computes those, too; the host
learns them after the product, which is replayed with more moduli if they call for it.
"""

from __future__ import annotations

from operator import sub

import numpy as np

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.graphs import side_by_side
from multiword.runtime.memory import empty_result
from multiword.runtime.readback import Readback
from ozaki.execution.variants import Captured, Room
from ozaki.product.pair import Pair
from ozaki.product.panels import in_panels
from ozaki.product.request import Request
from ozaki.residues.integers import (
    NO_MISFIT,
    IntegerResidues,
    Place,
    Target,
    integer_specification,
    magnitudes_on_device,
    note_magnitude,
    read_back,
)
from ozaki.schemes import ProductSpecification

SPARE_BITS = 16
"""Bits by which products may be narrower than a graph's moduli, without another with fewer of them."""


class CapturedIntegers(Captured[ProductSpecification, Readback]):
    """One kind of product of integers."""

    def __init__(self, room: Room, pair: Pair, target: Target) -> None:
        self._target = target
        largest = magnitudes_on_device((pair.a.matrix, pair.b.matrix))
        first = self._roomy(integer_specification(pair.shape, largest), pair.request)
        super().__init__(room, pair, first)

    def product(self, pair: Pair) -> tuple[Array, int] | None:
        """Return the product, and the index of the first element that does not fit; None without a graph."""
        if self.memory.busy:  # this call interrupts another, whose graphs' memory it must not touch
            return None
        out, self.memory.busy = self._result(pair), True
        try:
            for _ in range(2):
                call = self._replay(self._expected, pair, out)
                if call is None:
                    return None
                *largest, misfit = call.answers.wait().tolist()
                needed, has = integer_specification(pair.shape, largest), call.variant
                fits = needed.bits <= has.bits and max(map(sub, needed.widths, has.widths)) <= 0
                if not fits or needed.bits < has.bits - SPARE_BITS:
                    self._expected = self._roomy(needed, self._request)
                if fits:
                    return out, NO_MISFIT - misfit
        finally:
            self.memory.busy = False
        return None  # another thread changes the operands

    def _result(self, pair: Pair) -> Array:
        return empty_result(pair.a.matrix, (pair.a.rows, pair.b.rows), np.int64)

    def _roomy(self, specification: ProductSpecification, request: Request) -> ProductSpecification:
        return IntegerResidues(specification, "int8", request.engine).roomy_specification

    def _fits(self, variant: ProductSpecification, pair: Pair) -> bool:
        return not self._too_large(IntegerResidues(variant, "int8", pair.request.engine), 1)

    def _launch(self, variant: ProductSpecification, pair: Pair, out: Array) -> Readback:
        xp, a, b = namespace(out), pair.a, pair.b
        scheme = IntegerResidues(variant, "int8", pair.request.engine)
        noted, unscaled = xp.zeros(3, np.uint64), xp.zeros(max(out.shape), np.int32)

        def reconstruct(products: Array, rows: slice, columns: slice) -> None:
            scheme.integers(products, self._target, out[rows, columns], Place(0, b.rows), noted[2:])

        def multiply() -> None:
            scales = unscaled[: a.rows], unscaled[: b.rows]
            in_panels(scheme, pair, scales, reconstruct)

        def note() -> None:
            note_magnitude(a.matrix, noted[:1])
            note_magnitude(b.matrix, noted[1:2])

        side_by_side(multiply, note)
        return read_back(noted)
