"""Sums, means and variances by group of few numbers, compiled with numba: sorted by group, then row by row.

The numbers of a group are a row of `enclosure_numba` or `weighted_numba`, each row of its own length.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact.enclosure_numba import rounded_covariance, rounded_sums, rounded_variances, special
from ozaki.sums.exact.rows import LANES
from ozaki.sums.exact.weighted_numba import weighted_means

EQUALS = {
    "enclosed_group_sums": "sums.rounded_sum",
    "enclosed_group_variances": "sums.rounded_variance",
    "enclosed_group_covariances": "sums.rounded_covariance",
    "enclosed_group_averages": "sums.rounded_weighted_mean",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

_SHORT = 8  # lanes into which a row is added up, if it is not long

_sums, _variances, _averages = (inlined(f) for f in (rounded_sums, rounded_variances, weighted_means))


@inlined
def _sorted(x, y, labels, ends, rows):
    """Write numbers group by group, and where groups end; return whether all labels are those of groups."""
    groups = np.uint64(len(ends))
    ends[:] = 0
    for i in range(len(labels)):
        if np.uint64(labels[i]) >= groups:
            return False
        ends[labels[i]] += 1
    total = 0
    for g in range(len(ends)):
        total, ends[g] = total + ends[g], total
    for i in range(len(labels)):
        place = ends[labels[i]]
        ends[labels[i]] = place + 1
        rows[0, place] = x[i]
        if y is not None:
            rows[1, place] = y[i]
    return True


def enclosed_group_sums(x, y, labels, mean, single, sums, ends, rows, result):
    """Write the sums of numbers or products by group, or their means; return how many are undecided.

    y : as x, or None.
    labels : of which −1 is returned if one is no group's.
    single, sums : as in `rounded_sums`.
    ends, rows : scratch, (groups,) and (arrays, n).
    """
    if not _sorted(x, y, labels, ends, rows):
        return -1
    undecided = start = 0
    for g in range(len(ends)):
        n, row = ends[g] - start, rows[0, start : ends[g]]
        other = None if y is None else rows[1, start : ends[g]].reshape((1, n))
        lanes, divisor = LANES if n > 4 * LANES else _SHORT, np.float64(n) if mean else 1.0
        start = ends[g]
        result[g] = np.nan if mean else 0.0
        if n > 0:
            out = result[g : g + 1].reshape((1, 1))
            undecided += _sums(row.reshape((1, n)), other, lanes, divisor, False, single, sums, out)
    return undecided


def enclosed_group_variances(x, labels, ddof, root, single, ends, rows, result):
    """Write variances by group, or their roots; return how many are undecided. As `enclosed_group_sums`."""
    if not _sorted(x, None, labels, ends, rows):
        return -1
    undecided = start = 0
    for g in range(len(ends)):
        n, row = ends[g] - start, rows[0, start : ends[g]]
        start = ends[g]
        if n > 1:
            divisor = np.float64(n - ddof)
            undecided += int(divisor <= 0)
            undecided += _variances(row.reshape((1, n)), divisor, root, single, result[g : g + 1])
        else:
            alone = n == 1 and ddof < 1 and row[0] - row[0] == 0
            result[g] = 0.0 if alone else np.nan
    return undecided


def enclosed_group_covariances(x, y, labels, ddof, single, ends, rows, result):
    """Write covariances by group; return how many are undecided. As `enclosed_group_variances`."""
    if not _sorted(x, y, labels, ends, rows):
        return -1
    undecided = start = 0
    for g in range(len(ends)):
        n, xs, ys = ends[g] - start, rows[0, start : ends[g]], rows[1, start : ends[g]]
        start = ends[g]
        if n > 1:
            divisor = np.float64(n - ddof)
            value = rounded_covariance(xs, ys, divisor, single)
            if divisor <= 0:
                undecided += 1
            elif value != value:  # of Inf and NaN, too
                undecided += int(special(xs, None, 0, 1) == 0 and special(ys, None, 0, 1) == 0)
            result[g] = value
        else:
            alone = n == 1 and ddof < 1 and xs[0] - xs[0] == 0 and ys[0] - ys[0] == 0
            result[g] = 0.0 if alone else np.nan
    return undecided


def enclosed_group_averages(x, w, labels, single, ends, rows, result):
    """Write weighted means by group; return how many are undecided. As `enclosed_group_sums`."""
    if not _sorted(x, w, labels, ends, rows):
        return -1
    undecided = start = 0
    for g in range(len(ends)):
        n, stop = ends[g] - start, ends[g]
        xs, ws = rows[0, start:stop].reshape((1, 1, n)), rows[1, start:stop].reshape((1, n))
        out = result[g : g + 1].reshape((1, 1))
        undecided += _averages(xs, ws, -0.0, single, out) if n > 0 else 1
        start = stop
    return undecided
