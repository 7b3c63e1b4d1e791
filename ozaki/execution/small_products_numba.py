"""Small products, compiled: all steps of each, from the statistics of its rows to its rounded sums.

The decision is that of `ozaki.certificate.decision`, the sums are those of `across_numba`.
"""

import math
from functools import lru_cache

import numpy as np
from numba import boolean, float64, int8, int32, int64, types, uint64, void

from multiword.runtime.addresses import (
    doubles_at,
    matrix_at,
    matrix_of_ints_at,
    matrix_of_longs_at,
    words_at,
)
from multiword.runtime.jit import jit
from ozaki.certificate.counting_numba import MARGIN, SUMS, count, counted_bits
from ozaki.certificate.pairwise_numba import largest_error, row_bounds, truncate
from ozaki.definition.decision import EVERYTHING, OCTAVES, WIDENED_IN_ALL
from ozaki.definition.statistics import FINE, LEVELS
from ozaki.execution.across_numba import LINE, LINES, cut, multiply_rows, needed
from ozaki.execution.contract import FURTHEST
from ozaki.execution.in_floats_numba import power, scaled
from ozaki.execution.small_products import TO_DECIDE, UNCERTAIN, UNDECIDED, UNTRIED, WRITTEN
from ozaki.scaling.equilibration import NOTHING
from ozaki.scaling.statistics import NONFINITE, ZERO
from ozaki.scaling.statistics_numba import WORDS, statistics_of_row

LONGS, INTS = int64[:, ::1], int32[:, ::1]
ANYWHERE, MATRICES = (types.Array(float64, n, "A", readonly=True, aligned=False) for n in (2, 3))
UNSIGNED = uint64[::1]
SCRATCH = LINES, LINE, INTS, LINES, UNSIGNED

OF_STATISTICS = 2 * OCTAVES + WORDS
"""Numbers of scratch memory that the statistics of rows take."""


@lru_cache(256)
def needed_by_stack(m, k, n):
    """Return how many numbers of scratch memory products of (m, k) rows and (n, k) columns take."""
    return OF_STATISTICS + needed(k, n, m) + (m + n) * (2 * k + 4 + (6 + len(LEVELS)) // 2)


@jit(types.Tuple((LINES, LINES, LONGS, INTS, LINE))(LINE, int64, int64), inner=True)
def cut_scratch(memory, rows, k):
    """Return scratch memory: two of rows, for wide and narrow integers of all rows, and for the rest."""
    of_row, of_wide, of_narrow = rows * k, 4 * rows, (6 + len(LEVELS)) // 2 * rows
    at = memory.ctypes.data
    return (
        matrix_at(at, rows, k),
        matrix_at(at + 8 * of_row, rows, k),
        matrix_of_longs_at(at + 16 * of_row, 4, rows),
        matrix_of_ints_at(at + 16 * of_row + 8 * of_wide, 5 + len(LEVELS), rows),
        memory[2 * of_row + of_wide + of_narrow :],
    )


@jit(void(ANYWHERE, LINES), inner=True)
def copy(x, rows):
    """Copy rows."""
    for i in range(rows.shape[0]):
        for h in range(rows.shape[1]):
            rows[i, h] = x[i, h]


@jit(boolean(LINES, int32[::1], int64), inner=True)
def proves_nothing(x, exponent, m):
    """Return what `ozaki.certificate.pairwise.proves_nothing` does, of m rows and then columns."""
    for i in range(m):
        for j in range(m, x.shape[0]):
            apart = exponent[i] != ZERO and exponent[j] != ZERO
            for h in range(x.shape[1]):
                apart = apart and (x[i, h] == 0 or x[j, h] == 0)
            if apart:
                return True
    return False


@jit(boolean(LINES, int32[::1], int64, int64), inner=True)
def is_level(x, scale, m, most):
    """Return whether m rows and then columns, in norm scales, have an inner index with large numbers in both.

    Then the product is not graded (`ozaki.scaling.equilibration`, whose `most_graded` is `most`).
    """
    for h in range(x.shape[1]):
        p = q = np.int64(NOTHING)
        for i in range(x.shape[0]):
            if x[i, h] != 0:
                e = np.int64(math.frexp(x[i, h])[1]) + scale[i]
                p, q = (max(p, e), q) if i < m else (p, max(q, e))
        if p > NOTHING and q > NOTHING and p + q > most:
            return True
    return False


TRUNCATE, LARGEST_ERROR = truncate["float64"], largest_error["float64"]


@jit(float64(LINES, *SUMS, int32[::1], int64, *SCRATCH), inner=True)
def pairwise_error(
    x, exponent, total, square, counts, scale, top, magnitudes, totals, narrow, products, words
):
    """Return the largest T / |A||B| of all pairs of rows and columns; the last five are scratch memory."""
    k, (m, n), truncation, offsets = x.shape[1], products.shape, narrow[0], narrow[1]
    root = np.int64(math.sqrt(k))
    root -= root * root > k
    largest = words[:3].view(np.float64).reshape((1, 3))
    reached = words[3 : 3 + 2 * OCTAVES].view(np.int64).reshape((2, OCTAVES))
    given = exponent, total, square, counts, scale, k, root, top
    row_bounds(*given, totals, truncation, offsets, largest, reached)
    TRUNCATE(x, truncation, 0, magnitudes)
    for i in range(m):
        for j in range(n):
            y = 0.0
            for h in range(k):
                y += magnitudes[i, h] * magnitudes[m + j, h]
            products[i, j] = y
    return LARGEST_ERROR(products, totals[:m], totals[m:], k / 4, offsets[:m], offsets[m:])


@jit(int64(float64, LINE), inner=True)
def widening(excess, widenings):
    """Return the fewest bits that make an error smaller by a factor, of those by which integers may grow."""
    if excess <= 1 or excess == np.inf:
        return np.int64(0 if excess <= 1 else EVERYTHING)
    least = np.int64(math.frexp(excess)[1])
    for bits in widenings:
        if bits >= least:
            return np.int64(bits)
    return least


@jit(
    int64(LINES, *SUMS, int32[::1], LINE, float64[::1], float64, float64, *SCRATCH),
    inner=True,
)
def bits_of_pairs(
    x, exponent, total, square, counts, scale, limits, of_pairs, upper, lower,
    magnitudes, totals, narrow, products, words,
):  # fmt: skip
    """Return the bits that `ozaki.certificate.decision` asks for where counting decides nothing, or -1.

    of_pairs : the largest sum of exponents of what is graded, and the error that pairs may have.
    -1 where the inner dimension may be graded, where the counting bound is too near to a power of two, and
    where integers would be too wide.
    """
    m = products.shape[0]
    if proves_nothing(x, exponent, m):
        return EVERYTHING
    under = upper * (1 - MARGIN)
    if not under > math.ldexp(lower, int(limits[4])) or not is_level(x, scale, m, int(of_pairs[0])):
        return -1
    scratch = magnitudes, totals, narrow, products, words
    error = pairwise_error(x, exponent, total, square, counts, scale, int(limits[1]) // 2, *scratch)
    bits, counted = widening(error / of_pairs[1], limits[3:]), widening(under / lower, limits[3:])
    if counted < bits:
        bits = counted if counted == widening(upper * (1 + MARGIN) / lower, limits[3:]) else -1
    return bits if bits <= WIDENED_IN_ALL or bits == EVERYTHING else -1


@jit(boolean(int32[::1], int64, int32[::1], int32[::1]), inner=True)
def take_width(exponent, bits, scale, widths):
    """Fill in the scales of rows with integers of that many bits; return whether all numbers are finite."""
    finite = True
    for i in range(exponent.shape[0]):
        scale[i], widths[i] = 0 if exponent[i] == ZERO else bits - exponent[i], bits
        finite = finite and exponent[i] != NONFINITE
    return finite


@jit("UniTuple(int64, 2)(int32[::1], int32[::1])", inner=True)
def extremes(exponent, width):
    """Return how many bits the integers of some rows have at most, and how many rows are of extreme size."""
    widest, extreme = np.int64(1), 0
    for i in range(exponent.shape[0]):
        widest = max(widest, np.int64(width[i]))
        extreme += (exponent[i] != ZERO) & (abs(exponent[i]) > FURTHEST)
    return widest, extreme


@jit(int64(LINES, int32[::1], int32[::1], int32[::1], boolean, boolean, LINES, LINE), inner=True)
def multiply_measured(x, exponent, scale, width, whole, single, out, memory):
    """Write the product of rows and then columns of known scales; return `WRITTEN`, or `UNCERTAIN`."""
    m, (rows, k) = out.shape[0], x.shape
    lines, sums, left = cut(memory, k, rows - m, m)
    widest_a, extreme_a = extremes(exponent[:m], width[:m])
    widest_b, extreme_b = extremes(exponent[m:], width[m:])
    if extreme_a or extreme_b:
        return UNCERTAIN
    uncertain = 0
    for i in range(m):
        up, row = power(np.int64(scale[i])), left[i]
        for h in range(k):
            row[h], is_small = scaled(x[i, h], up, whole)
            uncertain += is_small
        for h in range(k, row.shape[0]):
            row[h] = 0.0
    # No number exceeds its row's width: Σ|a'b'| <= k·2**(sum of both).
    start = power(widest_a + widest_b + 2 + math.frexp(np.float64(k))[1])
    uncertain += multiply_rows(x[m:], scale[m:], whole, left, scale[:m], start, single, out.T, lines, sums)
    return UNCERTAIN if uncertain else WRITTEN


@jit(types.UniTuple(float64, 2)(ANYWHERE, ANYWHERE, LINE, int64, int64, LINES, LONGS, INTS, LINE), inner=True)
def measure(left, right, limits, counted, width, x, wide, narrow, memory):
    """Copy a product's rows and columns, and fill in their statistics, and scales of no bits to grow by.

    counted : by how many levels numbers are counted, too; by all takes half of the time of the statistics.
    Returns both sides of the counting bound; where rows have integers of `width` bits, 0 and 1.
    """
    (m, k), n = left.shape, right.shape[0]
    copy(left, x[:m])
    copy(right, x[m:])
    sums = narrow[0], wide[0], wide[1], narrow[5 : 5 + counted]
    words = words_at(memory[2 * OCTAVES :].ctypes.data, WORDS)
    for i in range(m + n):
        statistics_of_row(doubles_at(x[i].ctypes.data, k), i, *sums, words)
    if width:
        return (0.0 if take_width(narrow[0], width, narrow[1], narrow[2]) else np.inf), 1.0
    reached = matrix_at(memory.ctypes.data, 2, OCTAVES)
    return count(*sums, k, 0, m, m, n, limits, narrow[1], narrow[2], reached)


@jit(int64(int64, LINES, INTS, boolean, LINES, LINE), inner=True)
def finish(bits, x, narrow, single, out, memory):
    """Write a product whose integers grow by so many bits, or none if it has no such number; its outcome."""
    if bits < 0:
        return UNDECIDED
    if bits < EVERYTHING:
        for i in range(x.shape[0]):
            narrow[1, i] += bits
            narrow[2, i] += bits
    scales = narrow[0], narrow[1], narrow[2]
    return multiply_measured(x, *scales, bits != EVERYTHING, single, out, memory[OF_STATISTICS:])


OF_STACKS = int64(MATRICES, MATRICES, LINE, LINE, int64, int64, boolean, LINES, int8[::1], LINE)


@jit(OF_STACKS)
def multiply_stack(left, right, limits, of_pairs, bits, width, single, out, outcomes, memory):
    """Write the products of (s, m, k) rows and (s, n, k) columns; return the largest of their outcomes.

    width : how many bits integers have; 0 for norm scales, of `counting_limits`.
    bits : by which they grow; `EVERYTHING` if numbers are not rounded to integers; `TO_DECIDE` for those that
    the counting bound decides.
    outcomes : of each product, as `small_products` has them. Those that are written stay, and first octaves
        do not decide those that are undecided.
    memory : scratch memory of `needed_by_stack(m, k, n)` numbers.
    """
    m, worst = left.shape[1], np.int64(WRITTEN)
    x, _, wide, narrow, rest = cut_scratch(memory, m + right.shape[1], left.shape[2])
    scratch = x, wide, narrow, rest
    for s in range(left.shape[0]):
        if outcomes[s] == WRITTEN:
            continue
        few, grown = np.int64(FINE if outcomes[s] == UNTRIED else len(LEVELS)), bits
        upper, lower = measure(left[s], right[s], limits, few if bits == TO_DECIDE else 0, width, *scratch)
        if bits == TO_DECIDE:
            grown = counted_bits(upper, lower, limits)
            if grown != 0 and few == FINE and upper < np.inf:
                upper, lower = measure(left[s], right[s], limits, len(LEVELS), width, *scratch)
                grown = counted_bits(upper, lower, limits)
        elif upper == np.inf:
            grown = np.int64(-1)
        outcomes[s] = finish(grown, x, narrow, single, out[s * m : (s + 1) * m], rest)
        worst = max(worst, np.int64(outcomes[s]))
    return worst


@jit(OF_STACKS)
def multiply_by_pairs(left, right, limits, of_pairs, bits, width, single, out, outcomes, memory):
    """Write those products that `multiply_stack` leaves undecided; return the largest outcome of all.

    Few programs have any, and compiling this takes as long as the rest.
    """
    m, worst = left.shape[1], np.int64(WRITTEN)
    x, magnitudes, wide, narrow, rest = cut_scratch(memory, m + right.shape[1], left.shape[2])
    totals = wide[3].view(np.float64)
    words = rest[2 * OCTAVES : OF_STATISTICS].view(np.uint64)
    sums, scratch = (narrow[0], wide[0], wide[1], narrow[5:]), (magnitudes, totals, narrow[3:5])
    for s in range(left.shape[0]):
        if outcomes[s] == UNDECIDED:
            to = out[s * m : (s + 1) * m]
            upper, lower = measure(left[s], right[s], limits, len(LEVELS), width, x, wide, narrow, rest)
            grown = np.int64(-1)
            if upper < np.inf:
                given = *sums, narrow[1], limits, of_pairs, upper, lower
                grown = bits_of_pairs(x, *given, *scratch, to, words)
            outcomes[s] = finish(grown, x, narrow, single, to, rest)
        worst = max(worst, np.int64(outcomes[s]))
    return worst
