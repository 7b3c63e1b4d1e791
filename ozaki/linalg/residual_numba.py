"""Residuals of few columns in four words, compiled: sums of products that nearly cancel, row by row.

A sum is the exact sum of four words, each added up by `two_sum`, and what the last one loses bounds what
is missing, as in `ozaki.sums.exact.enclosure_numba`: K-fold arithmetic of Ogita, Rump and Oishi (Accurate sum
and dot product, algorithm 4.8) with a bound that is measured.
"""

import numpy as np
from numba import boolean, float64, types, void

from multiword.runtime.jit import inlined, jit
from ozaki.sums.exact.enclosure_numba import RELATIVE, two_sum
from ozaki.sums.exact.extraction_numba import TINY, fma

LANES = 32
"""Sums that a row is added up into, before these are added to one another."""

STATE = 5
"""Numbers of a sum: four words, and what was lost."""

MATRIX, VECTOR = (types.Array(float64, dimensions, "C", readonly=True) for dimensions in (2, 1))


@jit(void(MATRIX, VECTOR, float64[:, :, ::1]))
def add_products(a, x, sums):
    """Add a·x, row by row, to (rows, STATE, LANES) sums; NaN where a product's error may be no float64."""
    for i in range(len(a)):
        s, t, u, v, lost = sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3], sums[i, 4]
        for start in range(0, len(x), LANES):
            row, column = a[i, start : start + LANES], x[start : start + LANES]
            for j in range(len(row)):
                p = row[j] * column[j]
                tiny = (abs(p) < TINY) & (row[j] != 0) & (column[j] != 0)
                s[j], rest = two_sum(s[j], p)
                t[j], rest = two_sum(t[j], rest)
                u[j], first = two_sum(u[j], rest)
                t[j], rest = two_sum(t[j], fma(row[j], column[j], -p))
                u[j], second = two_sum(u[j], rest)
                v[j], first = two_sum(v[j], first)
                v[j], second = two_sum(v[j], second)
                lost[j] += np.nan if tiny else abs(first) + abs(second)


@inlined
def fold(sums):
    """Add the second half of the sums to the first, until there is one."""
    for i in range(len(sums)):
        s, t, u, v, lost = sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3], sums[i, 4]
        count = LANES
        while count > 1:
            count //= 2
            for j in range(count):
                k = j + count
                s[j], a = two_sum(s[j], s[k])
                t[j], b = two_sum(t[j], t[k])
                t[j], a = two_sum(t[j], a)
                u[j], c = two_sum(u[j], u[k])
                u[j], a = two_sum(u[j], a)
                u[j], b = two_sum(u[j], b)
                v[j], d = two_sum(v[j], v[k])
                v[j], a = two_sum(v[j], a)
                v[j], b = two_sum(v[j], b)
                v[j], c = two_sum(v[j], c)
                lost[j] += lost[k] + ((abs(a) + abs(b)) + (abs(c) + abs(d)))


@jit(boolean(float64[:, :, ::1], float64[:, ::1]))
def rounded_words(sums, words):
    """Write words (words, rows) of the sums, each what remains rounded to nearest; False if one is undecided.

    The sign of a first word 0 is undecided, too.
    """
    fold(sums)
    for i in range(len(sums)):
        s, t, u, v = sums[i, 0, 0], sums[i, 1, 0], sums[i, 2, 0], sums[i, 3, 0]
        error = sums[i, 4, 0]
        error = 0.0 if error == 0 else 2 * error + TINY
        for w in range(len(words)):
            for _ in range(2):
                u, v = two_sum(u, v)
                t, u = two_sum(t, u)
                s, t = two_sum(s, t)
            margin = abs(u) + abs(v) + error
            margin = 0.0 if margin == 0 else margin + (margin + abs(t)) * RELATIVE
            if not (s + (t - margin) == s and s + (t + margin) == s) or (w == 0 and s == 0):
                return False
            words[w, i] = s + 0.0
            s, t, u, v = t, u, v, 0.0
    return True
