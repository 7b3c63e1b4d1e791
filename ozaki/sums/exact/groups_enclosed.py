"""Sums, means, variances and covariances by group of few numbers, rounded in one compiled pass.

`groups_enclosed_numba` has the loops. What their bounds do not decide, exact sums by group do.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from multiword.runtime.arrays import to_float64
from multiword.runtime.compiled import compiled
from ozaki.sums.exact.extraction import LOOPS, contiguous
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.rows import LANES
from ozaki.tuning import ENCLOSED_GROUPS


def totals(x: np.ndarray, *others: Any, mean: bool = False) -> np.ndarray | None:
    """Return Σ x or Σ x·y by group, or the means, as float64; None for others, and if one is undecided.

    others : perhaps y, then labels, how many groups there are, and the rounding.
    """
    *second, labels, groups, rounding = others
    factors, single = [x, *second], rounding.target.precision == 24
    if second and (_integers(factors) or (single and any(y.dtype.itemsize > 4 for y in factors))):
        return (
            None  # no −0 is a product of integers; float32 results leave out what products of float64 leave
        )
    options = mean, single, np.empty((3, LANES))
    factors = factors if second else [x, None]
    return _by_group("enclosed_group_sums", factors, labels, groups, rounding, *options, pairs=bool(second))


def variances(
    x: np.ndarray, labels: np.ndarray, groups: int, rounding: Rounding, ddof: Fraction
) -> np.ndarray | None:
    """Return variances by group, or their roots; None as `totals`."""
    if x.dtype.kind == "c" or not _is_small(ddof):
        return None
    options = int(ddof), rounding.root, rounding.target.precision == 24
    return _by_group("enclosed_group_variances", [x], labels, groups, rounding, *options)


def covariances(
    x: np.ndarray, y: np.ndarray, labels: np.ndarray, groups: int, rounding: Rounding, ddof: Fraction
) -> np.ndarray | None:
    """Return covariances of real numbers by group; None as `totals`."""
    if not _is_small(ddof):
        return None
    options = int(ddof), rounding.target.precision == 24
    return _by_group("enclosed_group_covariances", [x, y], labels, groups, rounding, *options)


def averages(
    x: np.ndarray, w: np.ndarray, labels: np.ndarray, groups: int, rounding: Rounding
) -> np.ndarray | None:
    """Return weighted means by group; None as `totals`."""
    if _integers([x, w]):
        return None
    single = rounding.target.precision == 24
    return _by_group("enclosed_group_averages", [x, w], labels, groups, rounding, single)


def _is_small(ddof: Fraction) -> bool:
    return ddof.denominator == 1 and abs(ddof) <= ENCLOSED_GROUPS


def _integers(arrays: list[np.ndarray]) -> bool:
    return any(x.dtype.kind in "iub" for x in arrays)


def _by_group(
    name: str,
    arrays: list[Any],
    labels: np.ndarray,
    groups: int,
    rounding: Rounding,
    *options: Any,
    pairs: bool = False,
) -> np.ndarray | None:
    """Return what a loop writes of arrays, of which the last may be None."""
    loops, n = compiled(LOOPS), labels.size
    if loops is None or not 0 < n <= ENCLOSED_GROUPS or rounding.target.precision not in (24, 53):
        return None
    if any(x.dtype.kind in "iu" and x.dtype.itemsize == 8 for x in arrays if x is not None):
        return None  # float64 may not hold them
    numbers = [x if x is None else contiguous(to_float64(x)) for x in arrays]
    loop = loops.loop(getattr(loops, name), np.dtype(np.float64), pairs)
    result, ends, rows = np.empty(groups), np.empty(groups, np.int64), np.empty((len(arrays), n))
    return None if loop(*numbers, labels, *options, ends, rows, result) else result
