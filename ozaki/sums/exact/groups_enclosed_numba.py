"""Enclosures of groups, compiled with numba: each number is added to that of its group, wherever this lies.

A table has rows of four numbers: a group's lanes, so that a number seldom waits for the one before it. The
rows of a sum are (high, low, error, count), as in `enclosure_numba`; of weighted means, two of these.

Deviations take a second pass, whose rows are (high, low, size, m). With x − m = d + r and y − m' = e + s,
where m and m' are the means rounded, (d + r)·(e + s) is d·e rounded, which `two_sum` adds to high, and some
4·u·|d·e|, u = 2**-53, which low takes with what is left of high. Left out are r·s and the rounding of these
parts, 6·u²·|d·e|. Each addition to low rounds what is at most u·size for each term so far; size = Σ|d·e|. For
n numbers, and lanes brought together, all of it is less than `_LOST`·(n + lanes + 4)²·size, a bound that no
number takes an operation for. Then t·v/n is subtracted, as in `rounded_covariance`.
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.jit import inlined
from ozaki.sums.exact.enclosure_numba import (
    RELATIVE,
    add,
    add_product,
    divided_by,
    root_of,
    rounded,
    two_sum,
)
from ozaki.sums.exact.extraction_numba import fma
from ozaki.sums.exact.groups_numba import lane_of, prefetch
from ozaki.sums.exact.weighted_numba import quotient_of
from ozaki.tuning import GROUPS_AHEAD

EQUALS = {
    "added_to_groups": "sums.rounded_sum",
    "totals_of_groups": "sums.rounded_sum",
    "added_with_weights": "sums.rounded_weighted_mean",
    "averages_of_groups": "sums.rounded_weighted_mean",
    "means_of_groups": "sums.rounded_variance",
    "squares_in_groups": "sums.rounded_variance",
    "variances_of_groups": "sums.rounded_variance",
    "products_in_groups": "sums.rounded_covariance",
    "covariances_of_groups": "sums.rounded_covariance",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

_LOST = 2.0**-105
_UNDERFLOW = 2.0**-1000  # more than a term loses below the range; not subnormal, which takes longer


def added_to_groups(x, y, labels, bits, groups, skip_nan, sums):
    """Add numbers, or products x·y, to a table; return whether all labels are those of groups.

    y : as x, or None.
    bits : each group has 2**bits lanes.
    skip_nan : whether NaN of x is left out.
    """
    for i in range(len(sums)):
        sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3] = -0.0, 0.0, 0.0, 0.0
    for i in range(len(x)):
        if np.uint64(labels[i]) >= np.uint64(groups):
            return False
        prefetch(sums, lane_of(labels, min(i + GROUPS_AHEAD, len(x) - 1), bits))
        if skip_nan and x[i] != x[i]:
            continue
        row = sums[lane_of(labels, i, bits)]
        if y is None:
            row[0], row[1], row[2] = add(x[i], row[0], row[1], row[2], False)
        else:
            row[0], row[1], row[2] = add_product(x[i], y[i], row[0], row[1], row[2], False)
        row[3] += 1.0
    return True


def added_with_weights(x, w, labels, bits, groups, sums):
    """Add products w·x, and weights, to a table of two sums; as `added_to_groups`."""
    for i in range(len(sums)):
        for j in range(0, 8, 4):
            sums[i, j], sums[i, j + 1], sums[i, j + 2], sums[i, j + 3] = -0.0, 0.0, 0.0, 0.0
    for i in range(len(x)):
        if np.uint64(labels[i]) >= np.uint64(groups):
            return False
        prefetch(sums, lane_of(labels, min(i + GROUPS_AHEAD, len(x) - 1), bits))
        row = sums[lane_of(labels, i, bits)]
        row[0], row[1], row[2] = add_product(x[i], w[i], row[0], row[1], row[2], False)
        row[4], row[5], row[6] = add(w[i], row[4], row[5], row[6], False)
        row[3] += 1.0
    return True


@inlined
def _total(sums, group, bits, first=0):
    """The enclosure and the count of a group, of all its lanes, from a first column on."""
    high, low, error, count = -0.0, 0.0, 0.0, 0.0
    for table in range(len(sums)):
        for i in range(group << bits, (group + 1) << bits):
            row = sums[table, i, first : first + 4]
            high, rest = two_sum(high, row[0])
            low, lost = two_sum(low, row[1])  # to high they would turn −0 into 0
            low, more = two_sum(low, rest)
            error += row[2] + (abs(lost) + abs(more))
            count += row[3]
    return high, low, error, count


@inlined
def _decided(value, group, result, hard, undecided):
    """Write a result; return how many are undecided, whose groups are in `hard`."""
    result[group] = value
    if value == value:
        return undecided
    hard[undecided] = group
    return undecided + 1


def totals_of_groups(sums, mean, bits, single, hard, result):
    """Write the sums of tables, or their means; return how many are undecided, whose groups are in `hard`."""
    undecided = 0
    for g in range(len(result)):
        high, low, error, n = _total(sums, g, bits)
        if n == 0:
            result[g] = np.nan if mean else 0.0
            continue
        if mean:
            high, low, error = divided_by(high, low, error, n)
        undecided = _decided(rounded(high, low, error, single), g, result, hard, undecided)
    return undecided


def averages_of_groups(sums, bits, single, hard, result):
    """Write Σwx/Σw of tables, as `totals_of_groups`; NaN of nothing."""
    undecided = 0
    for g in range(len(result)):
        high, low, error, n = _total(sums, g, bits)
        weight, weight_low, unsure, _ = _total(sums, g, bits, 4)
        if n == 0:
            result[g] = np.nan
            continue
        if low != 0:  # else a sum of −0 would be 0
            high, low = two_sum(high, low)
        weight, weight_low = two_sum(weight, weight_low)
        high, low, error = quotient_of(high, low, error, weight, weight_low, unsure)
        undecided = _decided(rounded(high, low, error, single), g, result, hard, undecided)
    return undecided


def means_of_groups(sums, bits, means):
    """Write t = Σx − n·m, a bound of what that is wrong by, and n of each group, m being its mean, rounded.

    The tables' rows become (0, 0, 0, m), for the second pass.
    """
    for g in range(len(means)):
        high, low, unknown, n = _total(sums, g, bits)
        mean = high / n
        mean += (fma(-mean, n, high) + low) / n  # then it is that of equal numbers
        total, below = two_sum(high, -n * mean)
        more = low - fma(n, mean, -n * mean)
        unknown += (abs(total) + abs(below) + abs(low) + abs(more)) * RELATIVE
        means[g, 0], means[g, 1], means[g, 2] = total + (below + more), unknown, n
        for table in range(len(sums)):
            for i in range(g << bits, (g + 1) << bits):
                row = sums[table, i]
                row[0], row[1], row[2], row[3] = 0.0, 0.0, 0.0, mean


def squares_in_groups(x, labels, bits, skip_nan, sums):
    """Add (x − m)² to a table of rows (0, 0, 0, m), and Σ|x − m| to row[2]."""
    for i in range(len(x)):
        prefetch(sums, lane_of(labels, min(i + GROUPS_AHEAD, len(x) - 1), bits))
        if skip_nan and x[i] != x[i]:
            continue
        row = sums[lane_of(labels, i, bits)]
        d, r = two_sum(x[i], -row[3])
        square = d * d
        row[0], rest = two_sum(row[0], square)
        row[1] += rest + fma(2 * d, r, fma(d, d, -square))
        row[2] += abs(d)


def products_in_groups(x, y, labels, bits, sums, sizes):
    """Add (x − m)·(y − m') to rows (0, 0, 0, m); Σ|x − m| and Σ|y − m'| to (0, 0, 0, m')."""
    for i in range(len(x)):
        lane, ahead = lane_of(labels, i, bits), lane_of(labels, min(i + GROUPS_AHEAD, len(x) - 1), bits)
        prefetch(sums, ahead)
        prefetch(sizes, ahead)
        row, size = sums[lane], sizes[lane]
        (d, r), (e, s) = two_sum(x[i], -row[3]), two_sum(y[i], -size[3])
        product = d * e
        row[0], rest = two_sum(row[0], product)
        row[1] += rest + fma(d, s, fma(r, e, fma(d, e, -product)))
        row[2] += abs(product)
        size[0] += abs(d)
        size[1] += abs(e)


@inlined
def _deviations(sums, group, bits):
    """What the second pass has added for a group, without a bound, and its third column."""
    high, low, third = 0.0, 0.0, 0.0
    for table in range(len(sums)):
        for i in range(group << bits, (group + 1) << bits):
            row = sums[table, i]
            high, rest = two_sum(high, row[0])
            low += rest + row[1]
            third += row[2]
    return high, low, third


@inlined
def _sizes(sizes, group, bits):
    """Σ|x − m| and Σ|y − m'| of a group, rounded; 0 where all are."""
    of_x, of_y = 0.0, 0.0
    for table in range(len(sizes)):
        for i in range(group << bits, (group + 1) << bits):
            of_x += sizes[table, i, 0]
            of_y += sizes[table, i, 1]
    return of_x, of_y


@inlined
def _divided(high, low, size, lanes, mixed, open_mixed, n, ddof):
    """(high + low − mixed)/(n − ddof), where `mixed` is t·v/n, with a bound."""
    terms = n + lanes + 4
    error = terms * terms * (size * _LOST) + n * _UNDERFLOW
    error += open_mixed + abs(mixed) * RELATIVE
    high, rest = two_sum(high, -mixed)
    low, lost = two_sum(low, rest)
    high, low = two_sum(high, low)
    return divided_by(high, low, (error + abs(lost)) / (n - ddof), n - ddof)


def variances_of_groups(sums, means, ddof, root, bits, single, hard, result):
    """Write the variances of groups, or their roots; as `totals_of_groups`."""
    undecided, lanes = 0, len(sums) << bits
    for g in range(len(result)):
        t, unknown, n = means[g, 0], means[g, 1], means[g, 2]
        high, low, size = _deviations(sums, g, bits)
        if n == 0 or size == 0:  # all are equal
            result[g] = 0.0 if n > ddof and n > 0 else np.nan
            continue
        mixed, open_mixed = t * t / n, (2 * abs(t) + unknown) * unknown / n
        high, low, error = _divided(high, low, high, lanes, mixed, open_mixed, n, ddof)
        if root:
            high, low, error = root_of(high, low, error)
        value = rounded(high, low, error, single) if n > ddof else np.nan
        undecided = _decided(value, g, result, hard, undecided)
    return undecided


def covariances_of_groups(sums, sizes, means, others, ddof, bits, single, hard, result):
    """Write the covariances of groups; as `totals_of_groups`."""
    undecided, lanes = 0, len(sums) << bits
    for g in range(len(result)):
        t, open_t, n, v, open_v = means[g, 0], means[g, 1], means[g, 2], others[g, 0], others[g, 1]
        high, low, size = _deviations(sums, g, bits)
        of_x, of_y = _sizes(sizes, g, bits)
        if n == 0 or ((of_x == 0 or of_y == 0) and of_x + of_y < np.inf):  # all of one array are equal
            result[g] = 0.0 if n > ddof and n > 0 else np.nan
            continue
        open_mixed = (abs(t) * open_v + (abs(v) + open_v) * open_t) / n
        high, low, error = _divided(high, low, size, lanes, t * v / n, open_mixed, n, ddof)
        value = rounded(high, low, error, single) if n > ddof else np.nan
        undecided = _decided(value, g, result, hard, undecided)
    return undecided
