"""Exact sums of a chunk as extraction leaves them: integers at two levels, before they become digits.

The terms of a field along an axis are mostly of about one size. Then the sums of a chunk are two int64 an
output in units that all outputs have in common, and those of several chunks add up as integers: 17 bytes an
output, and no digits until they are rounded. What needs more units goes to an `ExactSum`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod

import numpy as np

from multiword.runtime.arrays import is_cupy
from multiword.runtime.compiled import compiled
from ozaki.sums.arguments import format_of
from ozaki.sums.exact.extraction import BLOCK_ROWS, LEVEL_BITS, LOOPS, PartialSums, block_sums, merged
from ozaki.sums.exact.fixed_point import DIGIT_BITS, MINUS_ZERO, ORDINARY, DigitRange, FixedPoint, joined
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exactsum import ExactSum
from ozaki.tuning import EXTRACTED_TERMS, PARTIAL_SUMS, SHORT_FORM_OUTPUTS

_DIGIT = np.int64((1 << DIGIT_BITS) - 1)


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
            if part is None or not _below_top(part, dtype):
                return None
            parts.append(part)
        return cls(dtype, shape, tuple(parts))

    def merge(self, others: Iterable[ExtractedSums]) -> ExtractedSums | None:
        """The sums of these and others; None where they take too many units."""
        chunks = zip(self.parts, *(other.parts for other in others), strict=True)
        combined = [_combined(chain(*parts)) for parts in chunks]
        parts = tuple(part for part in combined if part is not None)
        return ExtractedSums(self.dtype, self.shape, parts) if len(parts) == len(combined) else None

    def fixed_point(self) -> FixedPoint:
        """The exact values, all real parts first if complex."""
        if any(len(part) > 1 for part in self.parts):
            return self.exact().fixed_point()
        return joined(
            [
                FixedPoint(np.stack([sums.low, sums.high]), LEVEL_BITS, sums.exponent, sums.flags)
                for (sums,) in self.parts
            ]
        )

    def exact(self) -> ExactSum:
        """The accumulator of these sums."""
        lowest = DigitRange.of(format_of(self.dtype)).exponent
        first_digits = [_first_digit(sums, lowest) for part in self.parts for sums in part]
        first, end = min(first_digits), max(first_digits) + 5
        digits = np.zeros((end - first + 2, len(self.parts), prod(self.shape)), np.int64)
        for i, part in enumerate(self.parts):
            for sums in part:
                position = int(sums.exponent) - lowest - DIGIT_BITS * first
                _add(digits[:, i], sums.low, position)
                _add(digits[:, i], sums.high, position + LEVEL_BITS)
            flags = np.bitwise_or.reduce([sums.flags for sums in part])
            digits[-1, i] = (flags & ORDINARY != 0) + (flags & MINUS_ZERO != 0) * np.int64(1 << DIGIT_BITS)
        shape = (len(digits), *([2] if len(self.parts) == 2 else []), *self.shape)
        return ExactSum.from_digits(digits.reshape(shape), [-first, end], self.dtype)

    def __sizeof__(self) -> int:
        every = [x for part in self.parts for sums in part for x in (sums.high, sums.low, sums.flags)]
        return object.__sizeof__(self) + sum(x.nbytes for x in every)


def _blocks(terms: Summands) -> list[Summands]:
    """Blocks of rows of (n, m) terms, whose products take memory; as long as may be where columns lie so."""
    n, m = terms.shape
    steps = terms.factors[0].strides
    rows = min(BLOCK_ROWS, max(1, EXTRACTED_TERMS // m) if abs(steps[0]) > abs(steps[1]) else n)
    return [terms.apply(partial(_rows, start=i, stop=i + rows)) for i in range(0, n, rows)]


def _rows(x: np.ndarray, start: int, stop: int) -> np.ndarray:
    return x[start:stop]


def _combined(sums: Iterable[PartialSums]) -> tuple[PartialSums, ...] | None:
    """Partial sums, those with near units added up; None for more than a state shall have."""
    combined = tuple(merged(sorted(sums, key=lambda x: x.exponent)))
    return combined if len(combined) <= PARTIAL_SUMS else None


def _first_digit(sums: PartialSums, lowest: int) -> int:
    """The first digit of partial sums, in a range of digits that begins at 2**lowest."""
    return max(0, (int(sums.exponent) - lowest) // DIGIT_BITS)


def _below_top(part: tuple[PartialSums, ...], dtype: np.dtype) -> bool:
    """Whether there are digits for all that these sums may grow to."""
    digits = DigitRange.of(format_of(dtype))
    return all(_first_digit(sums, digits.exponent) + 5 <= digits.digits for sums in part)


def _add(digits: np.ndarray, integers: np.ndarray, position: int) -> None:
    """Add integers·2**position to (L, m) digits. A negative position drops bits that are zero."""
    if position < 0:
        integers, position = integers >> min(-position, 63), 0
    first, shift = divmod(position, DIGIT_BITS)
    low, high = (integers & _DIGIT) << shift, (integers >> DIGIT_BITS) << shift
    digits[first] += low & _DIGIT
    digits[first + 1] += (low >> DIGIT_BITS) + (high & _DIGIT)
    digits[first + 2] += high >> DIGIT_BITS
