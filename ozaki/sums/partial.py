"""Partial sums: of a chunk, as extraction leaves them, integers at two levels, before they become digits.

The terms of a field along an axis are mostly of about one size. Then the sums of a chunk are two int64 an
output in units that all outputs have in common, and those of several chunks add up as integers: 17 bytes an
output, and no digits until they are rounded. What needs more units goes to an `ExactSum`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from operator import itemgetter

import numpy as np

from multiword.rounding import two_sum
from multiword.runtime.arrays import Array, device_of, is_cupy, namespace
from multiword.runtime.compiled import compiled
from ozaki.rounding.conversion import joined
from ozaki.sums.arguments import real_dtype
from ozaki.sums.exact.extraction import LOOPS, block_sums
from ozaki.sums.exact.fixed_point import DIGIT_BITS, FixedPoint, flagged, merged
from ozaki.sums.exact.levels import BLOCK_ROWS
from ozaki.sums.exact.summands import Summands, Terms
from ozaki.sums.exactsum import ExactSum
from ozaki.tuning import EXTRACTED_TERMS, PARTIAL_SUMS, SHORT_FORM_OUTPUTS


@dataclass(frozen=True)
class PartialSums:
    """The sums of one chunk, or of several.

    Attributes
    ----------
    dtype, shape : as of an `ExactSum`.
    parts : of real parts, and of imaginary ones if there are any: partial sums that add up.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    parts: tuple[tuple[FixedPoint, ...], ...]

    @classmethod
    def of(cls, dtype: np.dtype, shape: tuple[int, ...], summands: Terms) -> PartialSums | None:
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

    def merge(self, others: Iterable[PartialSums]) -> PartialSums | None:
        """The sums of these and others; None where they take too many units."""
        chunks = zip(self.parts, *(other.parts for other in others), strict=True)
        combined = [_combined(chain(*parts)) for parts in chunks]
        parts = tuple(part for part in combined if part is not None)
        return PartialSums(self.dtype, self.shape, parts) if len(parts) == len(combined) else None

    def fixed_points(self) -> list[FixedPoint]:
        """As those of an `ExactSum`."""
        if any(len(part) > 1 for part in self.parts):
            return self.exact().fixed_points()
        return [sums for (sums,) in self.parts]

    def exact(self) -> ExactSum:
        """The accumulator of these sums."""
        return ExactSum(self.dtype, self.shape).merge_values(self.parts).compact()

    def __sizeof__(self) -> int:
        every = [x for part in self.parts for sums in part for x in (sums.digits, sums.flags)]
        return object.__sizeof__(self) + sum(x.nbytes for x in every)


Sums = ExactSum | PartialSums
"""What adds up exactly."""

_UNIT = 1020
"""Digits of 2**1020 and more may be too large for float64: from there on 15 units to a number."""


def summed(summands: Terms, dtype: np.dtype, shape: tuple[int, ...]) -> Sums:
    """Return the sums of summands of shape (..., *shape), in short form if possible; of one part real."""
    dtype = dtype if len(summands) == 2 else real_dtype(dtype)
    if (short := PartialSums.of(dtype, shape, summands)) is not None:
        return short
    with device_of(summands[0][0].factors[0]):
        return ExactSum(dtype, shape).merge_terms(summands).compact()


def added_up(sums: Sequence[Sums]) -> Sums:
    """Return the sum of accumulators, in short form if these are and it will do."""
    short = [x for x in sums if isinstance(x, PartialSums)]
    if len(short) == len(sums) and (together := short[0].merge(short[1:])) is not None:
        return together
    total = ExactSum(sums[0].dtype, sums[0].shape)
    for x in sums:
        total.merge(x.exact() if isinstance(x, PartialSums) else x)
    return total.compact()


def as_numbers(sums: Sums, count: int) -> Array:
    """Return a few numbers, along a new first axis, that add up to exact sums: in float64, or complex128.

    Sums that are out of range even with `count` numbers more may be cut short.
    """
    total = sums.exact() if isinstance(sums, PartialSums) else sums
    exact, parts = total.fixed_point(), 2 if total.dtype.kind == "c" else 1
    xp, exponents = namespace(exact.flags), exact.exponent + DIGIT_BITS * np.arange(len(exact.digits))
    within = int((exponents < _UNIT).sum())
    scales = xp.asarray(exponents[:within, None].astype(np.int32))
    numbers = xp.ldexp(exact.digits[:within].astype(np.float64), scales)
    for i in range(1, within):  # so that none is larger than it needs to be: digits may have both signs
        numbers[i], numbers[i - 1] = two_sum(numbers[i], numbers[i - 1])
    if within < len(exponents):
        zeros = xp.zeros((int(exponents[within] - _UNIT) // DIGIT_BITS, exact.digits.shape[1]), np.int64)
        numbers = xp.concatenate([numbers, _large(xp.concatenate([zeros, exact.digits[within:]]), count)])
    first = flagged(xp.zeros(exact.flags.size), exact.flags)
    numbers = xp.concatenate([first[None], xp.where(numbers == 0, -0.0, numbers)])  # which changes no sum
    numbers = xp.moveaxis(numbers.reshape(len(numbers), parts, *total.shape), 1, 0)
    return joined(list(numbers), np.result_type(total.dtype, np.float64))


def _large(digits: Array, count: int) -> Array:
    """Numbers that add up to digits in units of 2**1020, or to more than `count` numbers make up for."""
    xp, units = namespace(digits), digits[-1] * 0
    for digit in digits[::-1]:
        units = (xp.clip(units, -(1 << 29), 1 << 29) << DIGIT_BITS) + digit
    most = 32 * (count + 2)  # of which 16 are more than the largest number
    units = xp.clip(units, -most, most)
    largest = int(abs(units).max()) if units.size else 0
    steps = 15 * xp.arange(-(-largest // 15)).reshape(-1, *[1] * units.ndim)
    return (xp.clip(abs(units) - steps, 0, 15) * xp.sign(units)).astype(np.float64) * 2.0**_UNIT


def _blocks(terms: Summands) -> list[Summands]:
    """Blocks of rows of (n, m) terms, whose products take memory; as long as may be where columns lie so."""
    n, m = terms.shape
    steps = terms.factors[0].strides
    rows = min(BLOCK_ROWS, max(1, EXTRACTED_TERMS // m) if abs(steps[0]) > abs(steps[1]) else n)
    return [terms.apply(itemgetter(slice(i, i + rows))) for i in range(0, n, rows)]


def _combined(sums: Iterable[FixedPoint]) -> tuple[FixedPoint, ...] | None:
    """Partial sums, those with near units added up; None for more than a state shall have."""
    combined = tuple(merged(sorted(sums, key=lambda x: x.exponent)))
    return combined if len(combined) <= PARTIAL_SUMS else None
