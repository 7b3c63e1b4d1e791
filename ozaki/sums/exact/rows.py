"""Sums of rows and columns as enclosures, in one compiled pass: of a few numbers, and as they lie in memory.

`enclosure_numba` has the loops. They leave NaN where their bounds do not decide, and for Inf and NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod

import numpy as np

from multiword.runtime.arrays import to_float64
from multiword.runtime.compiled import compiled
from ozaki.rounding.conversion import narrow
from ozaki.sums.exact.extraction import LOOPS, READABLE, contiguous
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.tiles import rounded_tiles
from ozaki.tuning import COPIED_TERMS, LONG_ROW, NARROWEST_COLUMNS, REPEATED_SHARE

WIDTH = 1024  # columns at a time
LANES = 64  # into which a row is added up, before these are added to one another
_FLOAT64 = np.dtype(np.float64)


def rounded_copies(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return sums of few terms, which are copied side by side; None for others, and if one is undecided."""
    factors, target = summands[0].factors, rounding.target
    if not 0 < len(summands) * factors[0].size <= COPIED_TERMS or not _fit(summands, rounding):
        return None
    rows = [_rows(terms.factors, reduced, terms.sign) for terms in summands]
    xs = rows[0] if len(rows) == 1 else [np.concatenate(parts, axis=1) for parts in zip(*rows, strict=True)]
    result, undecided = _enclosed(xs, 0, rounding)
    if undecided:
        return None
    return narrow(result, target.dtype).reshape(factors[0].shape[reduced:])


def _fit(summands: Sequence[Summands], rounding: Rounding) -> bool:
    """Whether there are loops, for this rounding, and the terms are float64 numbers or products of such.

    Of integers the loops take neither products, whose zeros have no sign, nor those of 64 bits. What a
    product of two float64 numbers leaves is not looked at where the result is a float32.
    """
    product = len(summands[0].factors) == 2
    if compiled(LOOPS) is None or rounding.target.precision not in (24, 53):
        return False
    for x in summands[0].factors:
        if x.dtype is not _FLOAT64 and x.dtype.kind in "iub" and (product or x.dtype.itemsize == 8):
            return False
    return not product or rounding.target.precision != 24 or all(terms.narrow() for terms in summands)


def _rows(factors: tuple[np.ndarray, ...], reduced: int, sign: int) -> list[np.ndarray]:
    """The factors of sign·x·y as (outputs, terms) float64 arrays, contiguous."""
    xs = [_outputs_first(x, reduced) for x in factors[: 1 if factors[-1] is factors[0] else 2]]
    return [xs[0] if sign > 0 else -xs[0], xs[-1]][: len(factors)]


def _outputs_first(x: np.ndarray, reduced: int) -> np.ndarray:
    x = x if x.dtype is _FLOAT64 else to_float64(x)
    rows = x.reshape(1, -1) if reduced == x.ndim else x.reshape(prod(x.shape[:reduced]), -1).T
    return contiguous(rows)


def rounded_in_memory(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return sums of rows or columns as they lie in memory; None for others, and if many are undecided.

    The axes that are kept are in the order of memory. A few undecided sums are added up again.
    """
    terms, target = summands[0], rounding.target
    product = len(terms.factors) == 2
    if len(summands) > 1 or terms.sign < 0 or not all(x.dtype == target.dtype for x in terms.factors):
        return None
    xs = _stacks(terms.factors, reduced) if target.dtype in READABLE and _fit(summands, rounding) else []
    blocks, n, m = xs[0].shape if xs else (0, 0, 0)
    if not n or (m < NARROWEST_COLUMNS if m != 1 else n < LONG_ROW[product]):
        return None
    result, undecided = _enclosed([x.reshape(blocks, n * m) for x in xs], m if m > 1 else 0, rounding)
    if undecided > result.size // REPEATED_SHARE:
        return None
    result = result.reshape(terms.shape[reduced:])
    if undecided:
        again = np.isnan(result)
        columns = terms.apply(lambda x: x[(slice(None),) * reduced + (again,)])
        result[again] = rounded_tiles([columns], reduced, rounding)
    return result


def _stacks(factors: tuple[np.ndarray, ...], reduced: int) -> list[np.ndarray]:
    """The factors as (l, n, m), the reduced axes in the middle, if they lie in memory like that."""
    shape, steps = factors[0].shape, [abs(s) for s in factors[0].strides]
    nearest = min(steps[:reduced], default=0)
    before = reduced + sum([step > nearest for step in steps[reduced:]])
    axes = range(reduced, before), range(reduced), range(before, len(shape))
    moved = [x.transpose(*chain(*axes)) for x in factors]
    contiguous = all(x.flags.c_contiguous and x.flags.aligned for x in moved)
    return [x.reshape([prod(shape[a] for a in part) for part in axes]) for x in moved] if contiguous else []


def _enclosed(xs: list[np.ndarray], columns: int, rounding: Rounding) -> tuple[np.ndarray, int]:
    """The rounded sums of (l, n·columns) numbers or products, and how many are undecided, which are NaN.

    columns : 0 for the sums of all numbers of a row.
    """
    loops, product = compiled(LOOPS), len(xs) == 2
    result = np.empty((len(xs[0]), max(1, columns)), xs[0].dtype)
    add = loops.loop(loops.rounded_sums, xs[0].dtype, product)
    last = float(rounding.divisor), rounding.root, rounding.target.precision == 24
    sums = np.empty((3, WIDTH))
    return result, add(*(*xs, None)[:2], columns or LANES, *last, sums, result)
