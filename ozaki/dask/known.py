"""What tasks of a product know beside their blocks of A and B, and the factors that they multiply.

Where the inner dimension is equilibrated, every task does that to its own blocks. If one task did it for all,
the result would be a chunk on one worker, and would be sent to others that have the block already. Dask's
graph is made before the data are seen, so that would happen to data that are not equilibrated, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
from dask.layers import ArrayBlockIdDep

from multiword.formats import Format
from multiword.runtime.arrays import Array
from ozaki.arguments import exactly
from ozaki.certificate.counting import Bounds
from ozaki.certificate.decision import certify_by_counting, certify_by_pairs
from ozaki.certificate.pairwise import PairwiseBound
from ozaki.dask.request import Asked
from ozaki.dask.scales import Rows, Shifts, shifted_block
from ozaki.product.factor import Factor


@dataclass(frozen=True)
class Decision:
    """What is decided about the product.

    Attributes
    ----------
    found : the bounds of all rows and columns.
    wanted : whether the pairwise bound is needed.
    bits : by which all integers grow.
    shifts : by which the inner dimension is equilibrated first.
    """

    found: Bounds
    wanted: bool = False
    bits: int = 0
    shifts: Shifts = None

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(int(x.nbytes) for x in self.shifts or ())

    def decided(self, target: Format, pairwise: PairwiseBound | None = None) -> Decision:
        """With the pairwise bound; without it, as far as the counting bound decides."""
        certificate = certify_by_counting(self.found, target)
        if certificate.wide and pairwise is None:
            return replace(self, wanted=True)
        if certificate.wide and pairwise is not None:
            certificate = certify_by_pairs(certificate, pairwise, self.found.length, target)
        return replace(self, wanted=False, bits=certificate.bits)


@dataclass(frozen=True)
class Known:
    """What tasks know beside their blocks: Dask arrays.

    Attributes
    ----------
    rows, columns : the `Rows` of A and B.
    decision : the `Decision` about the product, if there is to be one.
    equilibrated : the `Rows` of A·D and D⁻¹·B, which are those to go by if the decision says so.
    """

    rows: da.Array
    columns: da.Array
    decision: da.Array | None = None
    equilibrated: tuple[da.Array, da.Array] | None = None

    def pairs(self, a: da.Array) -> tuple[Any, ...]:
        """The arguments of `da.blockwise` after blocks (i, h) of A and (h, j) of B; those of `factors`."""
        pairs = self.rows, "i", self.columns, "j"
        if self.equilibrated is None:
            return pairs
        of_a, of_b = self.equilibrated
        return *pairs, self.decision, "", of_a, "i", of_b, "j", ArrayBlockIdDep((a.chunks[1],)), "h"


def factors(
    x: Array,
    y: Array,
    asked: Asked,
    rows: Rows,
    columns: Rows,
    decision: Decision | None = None,
    *equilibrated: Any,
) -> tuple[Factor, Factor, Factor, Factor]:
    """The factors of a task, and whole rows of A and columns of B without their numbers."""
    if decision is not None and decision.shifts is not None:
        of_a, of_b, number = equilibrated
        a, _ = shifted_block(x, 0, asked.dtype, decision.shifts, rows, number)
        b, _ = shifted_block(y, 1, asked.dtype, decision.shifts, columns, number)
        rows, columns = of_a, of_b
    else:
        a, b = Factor(exactly("a", x, asked.dtype), 0), Factor(exactly("b", y, asked.dtype), 1)
    return a, b, rows.factor(0, asked.k, asked.dtype), columns.factor(1, asked.k, asked.dtype)
