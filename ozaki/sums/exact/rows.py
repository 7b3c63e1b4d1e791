"""Sums of rows and columns as enclosures, in one compiled pass: of a few numbers, and as they lie in memory.

`enclosure_numba` has the loops. They leave NaN where their bounds do not decide, and for Inf and NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from operator import itemgetter

import numpy as np

from multiword.runtime.arrays import to_float64
from multiword.runtime.compiled import compiled
from ozaki.rounding.conversion import narrow
from ozaki.sums.exact.extraction import LOOPS, READABLE, contiguous
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.summands import Summands, tiles
from ozaki.sums.exact.tiles import rounded_tiles
from ozaki.tuning import COPIED_TERMS, LONG_ROW, NARROWEST_COLUMNS, REPEATED_SHARE, VECTOR_BLOCK

WIDTH = 1024  # columns at a time
FEW = 1 << 11  # terms
LANES = 64  # into which a row is added up, before these are added to one another
_FLOAT64 = np.dtype(np.float64)


def rounded(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return sums of rows or columns, as they lie in memory or copied; None for others.

    None, too, if many are undecided; a few are added up again. The axes that are kept are in the order of
    memory.
    """
    x = summands[0].factors[0]
    if reduced == x.ndim:  # a single sum: `vectors` has a quicker loop for many terms
        if not 0 < len(summands) * x.size <= COPIED_TERMS or not _fit(summands, rounding):
            return None
        result, undecided = _enclosed(_rows(summands, reduced), 0, rounding)
        return None if undecided else narrow(result, rounding.target.dtype).reshape(())
    if not x.size or not _fit(summands, rounding):
        return None
    few = len(summands) * x.size <= FEW  # copied sooner than it is found out how they lie
    sums = None if few else _as_they_lie(summands, reduced, rounding)
    sums = sums or _copied(summands, reduced, rounding)
    if sums is None:
        return None
    result, undecided = sums
    if undecided > result.size // REPEATED_SHARE:
        return None
    if undecided:
        chosen = np.isnan(result)
        again = [some.apply(lambda x: x[(slice(None),) * reduced + (chosen,)]) for some in summands]
        result[chosen] = rounded_tiles(again, reduced, rounding)
    return result


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


def _as_they_lie(
    summands: Sequence[Summands], reduced: int, rounding: Rounding
) -> tuple[np.ndarray, int] | None:
    """The sums of long rows, or of columns side by side, and how many are undecided, which are NaN."""
    terms, dtype, product = summands[0], rounding.target.dtype, len(summands[0].factors) == 2
    if len(summands) > 1 or terms.sign < 0 or not all(x.dtype == dtype for x in terms.factors):
        return None
    xs = _stacks(terms.factors, reduced) if dtype in READABLE else []
    blocks, n, m = xs[0].shape if xs else (0, 0, 0)
    if not blocks or (m < NARROWEST_COLUMNS if m != 1 else n < LONG_ROW[product]):
        return None
    result, undecided = _enclosed([x.reshape(blocks, n * m) for x in xs], m if m > 1 else 0, rounding)
    return result.reshape(terms.shape[reduced:]), undecided


def _copied(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> tuple[np.ndarray, int] | None:
    """The same of any, copied as columns, or as rows if these are long or few; None for longer copies."""
    terms, dtype = summands[0], rounding.target.dtype
    n, kept = len(summands) * prod(terms.shape[:reduced]), terms.shape[reduced:]
    short = n < LONG_ROW[len(terms.factors) == 2] and prod(kept) >= NARROWEST_COLUMNS
    if n * prod(kept) <= COPIED_TERMS:
        xs, columns = _columns(summands, reduced) if short else (_rows(summands, reduced), 0)
        values, undecided = _enclosed(xs, columns, rounding)
        return narrow(values, dtype).reshape(kept), undecided
    sums, undecided = np.empty(kept, dtype), 0
    if n > VECTOR_BLOCK:
        return None
    for output in tiles(kept, max(1, COPIED_TERMS // n)):
        chosen = (slice(None),) * reduced + output
        part = [some.apply(itemgetter(chosen)) for some in summands]
        xs, columns = _columns(part, reduced) if short else (_rows(part, reduced), 0)
        values, more = _enclosed(xs, columns, rounding)
        sums[output] = narrow(values, dtype).reshape(sums[output].shape)
        undecided += more
        if undecided > sums.size // REPEATED_SHARE:
            break
    return sums, undecided


def _rows(summands: Sequence[Summands], reduced: int) -> list[np.ndarray]:
    """The factors of all terms as (outputs, terms) float64 arrays, contiguous."""
    if len(summands) == 1:
        return [contiguous(x.T) for x in _matrices(summands[0], reduced)]
    rows = [_matrices(terms, reduced) for terms in summands]
    return [contiguous(np.concatenate(some).T) for some in zip(*rows, strict=True)]


def _columns(summands: Sequence[Summands], reduced: int) -> tuple[list[np.ndarray], int]:
    """The factors of all terms as (1, terms·outputs), and the outputs."""
    columns = zip(*[_matrices(terms, reduced) for terms in summands], strict=True)
    xs = [np.concatenate(x) for x in columns]
    return [x.reshape(1, -1) for x in xs], xs[0].shape[1]


def _matrices(terms: Summands, reduced: int) -> list[np.ndarray]:
    """The factors of sign·x·y as (terms, outputs) float64 arrays."""
    factors, sign = terms
    xs = []
    for x in factors[: 1 if factors[-1] is factors[0] else 2]:
        x = x if x.dtype is _FLOAT64 else to_float64(x)
        xs.append(x.reshape(-1, 1) if reduced == x.ndim else x.reshape(prod(x.shape[:reduced]), -1))
    return [xs[0] if sign > 0 else -xs[0], xs[-1]][: len(factors)]


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
