"""Exact sums of a chunk as extraction leaves them: integers at two levels, before they become digits.

The terms of a field along an axis are mostly of about one size. Then the sums of a chunk are two int64 an
output in units that all outputs have in common, and those of several chunks add up as integers: 17 bytes an
output, and no digits until they are rounded. What needs more units goes to an `ExactSum`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from math import prod
from operator import itemgetter

import numpy as np

from multiword.runtime.arrays import is_cupy
from multiword.runtime.compiled import compiled
from ozaki.sums.exact.extraction import BLOCK_ROWS, LOOPS, PartialSums, block_sums, merged
from ozaki.sums.exact.fixed_point import FixedPoint
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exactsum import ExactSum
from ozaki.tuning import EXTRACTED_TERMS, PARTIAL_SUMS, SHORT_FORM_OUTPUTS


@dataclass(frozen=True)
class ExtractedSums:
    """The sums of one chunk, or of several.

    Attributes
    ----------
    dtype, shape : as of an `ExactSum`.
    parts : of real parts, and of imaginary ones if there are any: partial sums that add up.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    parts: tuple[tuple[PartialSums, ...], ...]

    @classmethod
    def of(
        cls, dtype: np.dtype, shape: tuple[int, ...], summands: list[list[Summands]]
    ) -> ExtractedSums | None:
        """The sums of terms of shape (..., *shape); None where they take too many units."""
        outputs = prod(shape)
        if compiled(LOOPS) is None or outputs < SHORT_FORM_OUTPUTS or is_cupy(summands[0][0].factors[0]):
            return None
        parts = []
        for terms in summands:
            matrices = [term.apply(lambda x: x.reshape(-1, outputs)) for term in terms]
            sums = [block_sums(block) for matrix in matrices for block in _blocks(matrix)]
            part = _combined(chain(*sums)) if sums and all(sums) else None
            if part is None:
                return None
            parts.append(part)
        return cls(dtype, shape, tuple(parts))

    def merge(self, others: Iterable[ExtractedSums]) -> ExtractedSums | None:
        """The sums of these and others; None where they take too many units."""
        chunks = zip(self.parts, *(other.parts for other in others), strict=True)
        combined = [_combined(chain(*parts)) for parts in chunks]
        parts = tuple(part for part in combined if part is not None)
        return ExtractedSums(self.dtype, self.shape, parts) if len(parts) == len(combined) else None

    def _fixed_points(self) -> list[FixedPoint]:
        """As those of an `ExactSum`."""
        if any(len(part) > 1 for part in self.parts):
            return self.exact()._fixed_points()
        return [sums.fixed_point() for (sums,) in self.parts]

    def exact(self) -> ExactSum:
        """The accumulator of these sums."""
        total, size = ExactSum(self.dtype, self.shape), prod(self.shape)
        for i, part in enumerate(self.parts):
            for sums in part:
                total._sums.add(sums, slice(i * size, (i + 1) * size))
        return total.compact()

    def __sizeof__(self) -> int:
        every = [x for part in self.parts for sums in part for x in (sums.high, sums.low, sums.flags)]
        return object.__sizeof__(self) + sum(x.nbytes for x in every)


def _blocks(terms: Summands) -> list[Summands]:
    """Blocks of rows of (n, m) terms, whose products take memory; as long as may be where columns lie so."""
    n, m = terms.shape
    steps = terms.factors[0].strides
    rows = min(BLOCK_ROWS, max(1, EXTRACTED_TERMS // m) if abs(steps[0]) > abs(steps[1]) else n)
    return [terms.apply(itemgetter(slice(i, i + rows))) for i in range(0, n, rows)]


def _combined(sums: Iterable[PartialSums]) -> tuple[PartialSums, ...] | None:
    """Partial sums, those with near units added up; None for more than a state shall have."""
    combined = tuple(merged(sorted(sums, key=lambda x: x.exponent)))
    return combined if len(combined) <= PARTIAL_SUMS else None
