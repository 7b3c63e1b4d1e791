"""Residuals in four words, compiled: sums of products that nearly cancel, a sum in each lane of a vector.

A sum is the exact sum of four words, each added up by `two_sum`, and what the last one loses bounds what
is missing, as in `ozaki.sums.exact.enclosure_numba`: K-fold arithmetic of Ogita, Rump and Oishi (Accurate sum
and dot product, algorithm 4.8) with a bound that is measured.
"""

import numpy as np
from numba import float64, int64, types, void

from multiword.runtime.jit import inlined, jit
from ozaki.sums.exact.enclosure_numba import RELATIVE, two_sum
from ozaki.sums.exact.extraction_numba import TINY, fma

ROWS, TERMS = 64, 64
"""Sums side by side, at most, and the numbers of their rows that are turned at a time."""

STATE = 5
"""Numbers of a sum: four words, and what was lost."""

LINES = float64[:, ::1]
ANYWHERE, ALL_ANYWHERE = (types.Array(float64, n, "A", readonly=True, aligned=False) for n in (2, 3))


@inlined
def add_product(x, y, s, t, u, v, lost):
    """Add x·y to a sum; what is lost becomes NaN where the product's error may be no float64."""
    p = x * y
    tiny = (abs(p) < TINY) & (x != 0) & (y != 0)
    s, rest = two_sum(s, p)
    t, rest = two_sum(t, rest)
    u, first = two_sum(u, rest)
    t, rest = two_sum(t, fma(x, y, -p))
    u, second = two_sum(u, rest)
    v, first = two_sum(v, first)
    v, second = two_sum(v, second)
    return s, t, u, v, lost + (np.nan if tiny else abs(first) + abs(second))


@jit(void(types.Array(float64, 1, "A", readonly=True, aligned=False), LINES), inner=True)
def add_numbers(x, sums):
    """Add a number to each sum."""
    for r in range(x.shape[0]):
        sums[0, r], rest = two_sum(sums[0, r], x[r])
        for w in range(1, 4):
            sums[w, r], rest = two_sum(sums[w, r], rest)
        sums[4, r] += abs(rest)


@jit(void(LINES, types.Array(float64, 1, "A", readonly=True, aligned=False), LINES), inner=True)
def add_lines(lines, column, sums):
    """Add lines times the numbers of a column to the sums of all rows."""
    s, t, u, v, lost = sums[0], sums[1], sums[2], sums[3], sums[4]
    for h in range(column.shape[0]):
        x, y = lines[h], column[h]
        if y == 0:  # as in triangles: but for the sign of a zero nothing is added
            for r in range(s.shape[0]):
                s[r] += x[r] * y
            continue
        for r in range(s.shape[0]):
            s[r], t[r], u[r], v[r], lost[r] = add_product(x[r], y, s[r], t[r], u[r], v[r], lost[r])


@jit(int64(LINES, float64[:, :]), inner=True)
def round_sums(sums, words):
    """Write (words, rows) words of sums, each what remains rounded to nearest; return how many are undecided.

    These are NaN. A sum's first word is -0 where all terms are, and so are the sums that it began with.
    """
    undecided = 0
    for w in range(words.shape[0]):
        s, t, u, v, lost = sums[0], sums[1], sums[2], sums[3], sums[4]
        for r in range(words.shape[1]):
            a, b, c, d, first = s[r], t[r], u[r], v[r], s[r]
            for _ in range(3):  # the first two words may cancel, and then the third is the first
                c, d = two_sum(c, d)
                b, c = two_sum(b, c)
                a, b = two_sum(a, b)
            error = 0.0 if lost[r] == 0 else 2 * lost[r] + TINY
            margin = abs(c) + abs(d) + error
            margin = 0.0 if margin == 0 else margin + (margin + abs(b)) * RELATIVE
            certain = (a + (b - margin) == a) & (a + (b + margin) == a)
            undecided += not certain
            word = first if (w == 0) & (a == 0) & (first == 0) else a + 0.0
            words[w, r] = word if certain else np.nan
            s[r], t[r], u[r], v[r] = b, c, d, 0.0
    return undecided


@jit(int64(ANYWHERE, ANYWHERE, ALL_ANYWHERE, float64[:, :, :], LINES, float64[:, :, ::1]))
def words_of_sums(a, x, addends, words, lines, sums):
    """Write (words, m, n) words of A·X + Σ C, for (c, m, n) addends, or NaN; return how many are undecided.

    lines, sums : scratch memory, (TERMS, rows) and (n, STATE, rows), for up to so many rows at a time.
    """
    (m, k), n, width, undecided = a.shape, x.shape[1], lines.shape[1], 0
    for first in range(0, m, width):
        count = min(width, m - first)
        rows = a[first : first + count]
        sums[:, 0] = -0.0
        sums[:, 1:] = 0.0
        for j in range(n):
            for c in range(addends.shape[0]):
                add_numbers(addends[c, first : first + count, j], sums[j])
        for start in range(0, k, lines.shape[0]):
            terms = min(lines.shape[0], k - start)
            for r in range(count):
                for h in range(terms):
                    lines[h, r] = rows[r, start + h]
            for j in range(n):
                add_lines(lines, x[start : start + terms, j], sums[j])
        for j in range(n):
            undecided += round_sums(sums[j], words[:, first : first + count, j])
    return undecided
