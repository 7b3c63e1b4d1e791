"""Sums as enclosures, in one compiled pass: of few terms, and of rows and columns, as they lie or copied.

`enclosure_numba` has the loops. They leave NaN where their bounds do not decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from math import prod
from operator import itemgetter

import numpy as np

from multiword.runtime.arrays import real_parts, to_float64
from multiword.runtime.compiled import cached_form, compiled
from multiword.runtime.parallel import over_rows
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.exact.extraction import LOOPS, READABLE, contiguous
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.summands import Summands, tiles
from ozaki.sums.exact.tiles import rounded_tiles
from ozaki.tuning import (
    AVERAGED_TERMS,
    COPIED_TERMS,
    FEW_TERMS,
    LONG_ROW,
    NARROWEST_COLUMNS,
    REPEATED_SHARE,
    SHORT_WEIGHTED,
    VARIANCE_TERMS,
    VECTOR_BLOCK,
    WEIGHTED_TERMS,
)

WIDTH = 1024  # columns at a time
SIDE = 64  # outputs of weighted sums at a time
LANES = 64  # into which a row is added up, before these are added to one another
_FLOAT64 = np.dtype(np.float64)
_NONE = np.empty(0, np.int64)


def whole(terms: Summands, rounding: Rounding) -> np.ndarray | None:
    """Return the sum of all terms of contiguous float64 numbers, as (1, 1); None if it is undecided."""
    if compiled(LOOPS) is None:
        return None
    result, undecided = _enclosed([x.reshape(1, -1) for x in terms.factors], 0, rounding)
    return None if undecided else result


def few(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return sums of few terms, copied side by side however they lie; None for others.

    None, too, for a single sum that is undecided: `vectors` adds it up again sooner than `tiles`.
    """
    x = summands[0].factors[0]
    terms, kept = len(summands) * x.size, x.shape[reduced:]
    if not 0 < terms <= COPIED_TERMS or (terms > FEW_TERMS and prod(kept) > NARROWEST_COLUMNS):
        return None
    if not _fit(summands, rounding):
        return None
    values, undecided = _enclosed_copies(summands, reduced, rounding)
    result = narrow(values, rounding.target.dtype).reshape(kept)
    if undecided and not kept:
        return None
    return _decided(result, summands, reduced, rounding) if undecided else result


def rounded(summands: Sequence[Summands], reduced: int, rounding: Rounding) -> np.ndarray | None:
    """Return sums of rows or columns, as they lie in memory or copied part by part; None for others.

    None, too, if many are undecided; a few are added up again. The axes that are kept are in the order of
    memory.
    """
    x = summands[0].factors[0]
    if reduced == x.ndim or not x.size or not _fit(summands, rounding):
        return None
    sums = _as_they_lie(summands, reduced, rounding) or _copied(summands, reduced, rounding)
    if sums is None:
        return None
    result, undecided = sums
    if undecided > result.size // REPEATED_SHARE:
        return None
    return _decided(result, summands, reduced, rounding) if undecided else result


def _decided(
    result: np.ndarray, summands: Sequence[Summands], reduced: int, rounding: Rounding
) -> np.ndarray:
    """The results, with those that are undecided, which are NaN, added up again."""
    chosen = np.isnan(result)
    again = [terms.apply(lambda x: x[(slice(None),) * reduced + (chosen,)]) for terms in summands]
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
    """The same of any, copied some outputs at a time; None for longer copies."""
    x = summands[0].factors[0]
    n, kept = len(summands) * prod(x.shape[:reduced]), x.shape[reduced:]
    if n > VECTOR_BLOCK:
        return None
    side_by_side = kept[-1] >= NARROWEST_COLUMNS and abs(x.strides[-1]) < abs(x.strides[reduced - 1])
    outputs = max(1, (VECTOR_BLOCK if side_by_side else COPIED_TERMS) // n)
    if prod(kept) <= outputs:
        values, undecided = _enclosed_copies(summands, reduced, rounding, side_by_side)
        return narrow(values, rounding.target.dtype).reshape(kept), undecided
    sums, undecided = np.empty(kept, rounding.target.dtype), 0
    for output in tiles(kept, outputs):
        chosen = (slice(None),) * reduced + output
        part = [terms.apply(itemgetter(chosen)) for terms in summands]
        values, more = _enclosed_copies(part, reduced, rounding, side_by_side)
        sums[output] = narrow(values, sums.dtype).reshape(sums[output].shape)
        undecided += more
        if undecided > sums.size // REPEATED_SHARE:
            break
    return sums, undecided


def _enclosed_copies(
    summands: Sequence[Summands], reduced: int, rounding: Rounding, side_by_side: bool = False
) -> tuple[np.ndarray, int]:
    """`_enclosed` of the terms, copied as columns, or as rows if these are few, or long and not torn apart.

    side_by_side : whether columns are neighbours in memory, so that rows would be gathered number by number.
    """
    factors = len(summands[0].factors)
    if len(summands) == 1:
        xs = _matrices(summands[0], reduced)
    else:
        every = [(_matrices(terms, reduced) * 2)[:factors] for terms in summands]
        xs = [np.concatenate(x) for x in zip(*every, strict=True)]
    n, outputs = xs[0].shape
    if outputs < NARROWEST_COLUMNS or (n >= LONG_ROW[factors == 2] and not side_by_side):
        xs, outputs = [contiguous(x.T) for x in xs], 0
    else:
        xs = [contiguous(x).reshape(1, -1) for x in xs]
    return _enclosed(xs if len(xs) == factors else xs * 2, outputs, rounding)


def _matrices(terms: Summands, reduced: int) -> list[np.ndarray]:
    """The factors of sign·x·y as (terms, outputs) float64 arrays; of x·x one."""
    factors, sign = terms
    xs = []
    for x in factors[: 1 if factors[-1] is factors[0] else 2]:
        x = x if x.dtype is _FLOAT64 else to_float64(x)
        xs.append(x.reshape(-1, 1) if reduced == x.ndim else x.reshape(prod(x.shape[:reduced]), -1))
    return xs if sign > 0 else [-xs[0], *(xs * 2)[1 : len(factors)]]


def _stacks(factors: tuple[np.ndarray, ...], reduced: int) -> list[np.ndarray]:
    """The factors as (l, n, m), the reduced axes in the middle, if they lie in memory like that."""
    shape, steps = factors[0].shape, [abs(s) for s in factors[0].strides]
    nearest = min(steps[:reduced], default=0)
    before = reduced + sum([step > nearest for step in steps[reduced:]])
    axes = range(reduced, before), range(reduced), range(before, len(shape))
    moved = [x.transpose(*chain(*axes)) for x in factors]
    contiguous = all(x.flags.c_contiguous and x.flags.aligned for x in moved)
    return [x.reshape([prod(shape[a] for a in part) for part in axes]) for x in moved] if contiguous else []


def variances(
    x: np.ndarray, reduced: int, rounding: Rounding, ddof: Fraction, skip_nan: bool = False
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return variances over the first `reduced` axes of few numbers each, or their roots, in C order.

    The second array has the indices of those that are undecided, and perhaps of others that are NaN. None for
    others.

    skip_nan : whether those with NaN are left to what does not count it.
    """
    n, loops, single = prod(x.shape[:reduced]), compiled(LOOPS), rounding.target.precision == 24
    usable = x.dtype in READABLE and x.dtype == rounding.target.dtype and ddof.denominator == 1
    if loops is None or not usable or not (0 < n <= VARIANCE_TERMS and -VARIANCE_TERMS < ddof < n):
        return None
    work, last = loops.loop(loops.rounded_variances, x.dtype), (float(n - int(ddof)), rounding.root, single)

    def of(result: np.ndarray, columns: np.ndarray) -> bool:
        outputs = columns.shape[1]
        if outputs < NARROWEST_COLUMNS:
            undecided = work(contiguous(columns.T), LANES, *last, np.empty((8, SIDE)), result.T)
        else:
            x = contiguous(columns).reshape(1, -1)
            undecided = work(x, outputs, *last, np.empty((8, SIDE)), result)
        return bool(undecided) or skip_nan

    (result,), undecided = _over_outputs(of, [x], reduced, 1, x.dtype)
    return result, undecided


def weighted_variances(
    parts: list[np.ndarray], weights: np.ndarray, reliable: bool, ddof: Fraction, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return variances of columns of few numbers, with weights, or their roots, and which are undecided.

    As `variances`; the parts of the numbers and the weights are float64 arrays (n, m).
    """
    loops, single = compiled(LOOPS), rounding.target.precision == 24
    n, outputs = weights.shape
    usable = ddof.denominator == 1 and abs(ddof) <= VARIANCE_TERMS and _short(n, outputs, rounding)
    if loops is None or not usable:
        return None
    work = loops.loop(loops.weighted_variances, _FLOAT64)
    last = reliable, float(ddof), rounding.root, single

    def of(result: np.ndarray, *columns: np.ndarray) -> bool:
        return bool(work(*_side_by_side(*columns), *last, _scratch(), result[0]))

    (result,), undecided = _over_outputs(of, [*parts, weights], 1, 1, _FLOAT64)
    return narrow(result, rounding.target.dtype), undecided


def averages(
    x: np.ndarray, w: np.ndarray, reduced: int, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return weighted means over the first `reduced` axes of few numbers each; as `variances`."""
    loops, n, outputs = compiled(LOOPS), prod(x.shape[:reduced]), prod(x.shape[reduced:])
    if loops is None or not _short(n, outputs, rounding):
        return None
    if n > SHORT_WEIGHTED and n * outputs > AVERAGED_TERMS:
        return None
    if w.dtype.kind == "c" or any(y.dtype.kind in "iub" and y.dtype.itemsize == 8 for y in (x, w)):
        return None
    work, parts = loops.loop(loops.weighted_means, _FLOAT64), real_parts(x)
    integers = all(y.dtype.kind in "iub" for y in (x, w))
    last = 0.0 if integers else -0.0, rounding.target.precision == 24

    def of(result: np.ndarray, *columns: np.ndarray) -> bool:
        return bool(work(*_side_by_side(*columns), *last, _scratch(), result))

    result, undecided = _over_outputs(of, [*parts, w], reduced, len(parts), _FLOAT64)
    values = [narrow(part, rounding.target.dtype) for part in result]
    return joined(values, np.result_type(x, values[0])), undecided


def _short(n: int, outputs: int, rounding: Rounding) -> bool:
    """Whether the loops over outputs of n numbers round to this, and are quicker than exact sums of all."""
    most = WEIGHTED_TERMS if outputs > 1 else VARIANCE_TERMS
    return 0 < n <= most and rounding.target.precision in (24, 53)


def _over_outputs(
    work: Callable[..., bool], arrays: list[np.ndarray], reduced: int, parts: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Return results, (parts, outputs), and the indices of those that may be undecided, which are NaN.

    work(result, *columns) computes (parts, count) results of the arrays' columns, (n, count), and says
    whether some are undecided. Columns are copied some at a time, wherever the reduced axes are.
    """
    n, kept = prod(arrays[0].shape[:reduced]), arrays[0].shape[reduced:]
    result, undecided = np.empty((parts, *kept), dtype), list[bool]()
    every = list(tiles(kept, max(1, VECTOR_BLOCK // (n * len(arrays)))))

    def of(block: slice) -> None:
        for output in every[block]:
            target = result[(slice(None), *output)]
            found = np.empty((parts, target[0].size), dtype)
            columns = [y[(slice(None),) * reduced + output].reshape(n, found.shape[1]) for y in arrays]
            undecided.append(work(found, *columns))
            target[...] = found.reshape(target.shape)

    over_rows(of, len(every), VECTOR_BLOCK, VECTOR_BLOCK)
    result = result.reshape(parts, -1)
    return result, np.flatnonzero(np.isnan(result).any(axis=0)) if any(undecided) else _NONE


def _side_by_side(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return parts of numbers, (parts, n, outputs), and weights, (n, outputs), as float64 in C order."""
    *parts, weights = [contiguous(np.ascontiguousarray(y, np.float64)) for y in columns]
    return parts[0][None] if len(parts) == 1 else np.array(parts), weights


def _scratch() -> np.ndarray:
    """Return what weighted loops write meanwhile, for the outputs that they compute side by side."""
    return np.empty((13, SIDE))


def _enclosed(xs: list[np.ndarray], columns: int, rounding: Rounding) -> tuple[np.ndarray, int]:
    """The rounded sums of (l, n·columns) numbers or products, and how many are undecided, which are NaN.

    columns : 0 for the sums of all numbers of a row.
    """
    x, y = xs[0], xs[1] if len(xs) == 2 else None
    result, lanes = np.empty((len(x), columns or 1), x.dtype), columns or LANES
    target, divisor, root = rounding
    add, scratch = _rounded_sums(x.dtype, y is not None), np.empty((3, min(lanes, WIDTH)))
    return result, add(x, y, lanes, float(divisor), root, target.precision == 24, scratch, result)


@cached_form
def _rounded_sums(dtype: np.dtype, pairs: bool) -> Callable[..., int]:
    """Return the loop itself, for arrays that are contiguous and aligned, unchecked."""
    loops = compiled(LOOPS)
    add: Callable[..., int] = loops.loop(loops.rounded_sums, dtype, pairs).unchecked()
    return add
