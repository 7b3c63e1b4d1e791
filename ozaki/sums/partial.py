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
from ozaki.sums.exactsum import ExactSum, check_factors
from ozaki.tuning import EXTRACTED_TERMS, PARTIAL_SUMS, SHORT_FORM_OUTPUTS


@dataclass(frozen=True)
class PartialSums:
    """The exact sums of one chunk, or of several: what workers send one another, and merge.

    Attributes
    ----------
    dtype, shape : as of an `ExactSum`.
    windows : the short form, of real parts, and of imaginary ones if there are any: values that add up.
    register : the sums that take too many units for that; else None.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    windows: tuple[tuple[FixedPoint, ...], ...]
    register: ExactSum | None = None

    @classmethod
    def of(cls, summands: Terms, dtype: np.dtype, shape: tuple[int, ...]) -> PartialSums:
        """Return the sums of summands of shape (..., *shape), in short form if possible; of one part real.

        TypeError as `ExactSum.merge_terms`, in the short form, too: it may become digits later.
        """
        dtype = dtype if len(summands) == 2 else real_dtype(dtype)
        check_factors(summands, dtype)
        if (windows := _windows(summands, prod(shape))) is not None:
            return cls(dtype, shape, windows)
        with device_of(summands[0][0].factors[0]):
            return cls(dtype, shape, (), ExactSum(dtype, shape).merge_terms(summands).compact())

    @classmethod
    def merged(cls, sums: Sequence[PartialSums]) -> PartialSums:
        """Return the sum of several, in windows if all are and their sum fits; they stay unchanged."""
        dtype, shape = sums[0].dtype, sums[0].shape
        if all(x.register is None for x in sums):
            together = [_combined(chain(*parts)) for parts in zip(*(x.windows for x in sums), strict=True)]
            windows = tuple(part for part in together if part is not None)
            if len(windows) == len(together):
                return cls(dtype, shape, windows)
        total = ExactSum(dtype, shape)
        for x in sums:
            total.merge(x.exact())
        return cls(dtype, shape, (), total.compact())

    def exact(self) -> ExactSum:
        """Return the accumulator of these sums, which others may read, too."""
        if self.register is not None:
            return self.register
        return ExactSum(self.dtype, self.shape).merge_values(self.windows).compact()

    def fixed_points(self) -> list[FixedPoint]:
        """Return the exact values of the real parts, then of the imaginary ones, if any."""
        if self.register is None and all(len(part) == 1 for part in self.windows):
            return [sums for (sums,) in self.windows]
        return self.exact().fixed_points()

    def numbers(self, count: int) -> Array:
        """Return a few numbers, along a new first axis, that add up to the sums: in float64, or complex128.

        Sums that are out of range even with `count` numbers more may be cut short.
        """
        exact, parts = self.exact().fixed_point(), 2 if self.dtype.kind == "c" else 1
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
        numbers = xp.moveaxis(numbers.reshape(len(numbers), parts, *self.shape), 1, 0)
        return joined(list(numbers), np.result_type(self.dtype, np.float64))

    def __sizeof__(self) -> int:
        if self.register is not None:
            return self.register.__sizeof__()
        every = [x for part in self.windows for sums in part for x in (sums.digits, sums.flags)]
        return object.__sizeof__(self) + sum(x.nbytes for x in every)


_UNIT = 1020
"""Digits of 2**1020 and more may be too large for float64: from there on 15 units to a number."""


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


def _windows(summands: Terms, outputs: int) -> tuple[tuple[FixedPoint, ...], ...] | None:
    """The short form of the sums of terms, for so many outputs; None where they take too many units."""
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
    return tuple(parts)


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
