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
"""Sums that a row is added up into, at most, before these are added to one another."""

STATE = 5
"""Numbers of a sum: four words, and what was lost."""

MATRIX = types.Array(float64, 2, "C", readonly=True)


@jit(void(MATRIX, MATRIX, float64[:, :, ::1]))
def add_products(a, columns, sums):
    """Add products of rows of A and columns to sums of shape (columns·rows, STATE, lanes).

    They are NaN where a product's error may be no float64.
    """
    for k in range(len(sums)):
        s, t, u, v, lost = sums[k, 0], sums[k, 1], sums[k, 2], sums[k, 3], sums[k, 4]
        i, x, lanes = k % len(a), columns[k // len(a)], len(s)
        for start in range(0, len(x), lanes):
            row, column = a[i, start : start + lanes], x[start : start + lanes]
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
        count = len(s)
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


@jit(void(float64[:, :, ::1], float64[:, ::1], boolean[::1]))
def rounded_words(sums, words, undecided):
    """Write words (words, sums) of the sums, each what remains rounded to nearest, and which are undecided.

    A sum's first word is -0 where all terms are, and so are the sums that it began with.
    """
    fold(sums)
    for i in range(len(sums)):
        undecided[i] = False
        s, t, u, v = sums[i, 0, 0], sums[i, 1, 0], sums[i, 2, 0], sums[i, 3, 0]
        error, first = sums[i, 4, 0], s
        error = 0.0 if error == 0 else 2 * error + TINY
        for w in range(len(words)):
            for _ in range(3):  # the first two words may cancel, and then the third is the first
                u, v = two_sum(u, v)
                t, u = two_sum(t, u)
                s, t = two_sum(s, t)
            margin = abs(u) + abs(v) + error
            margin = 0.0 if margin == 0 else margin + (margin + abs(t)) * RELATIVE
            if not (s + (t - margin) == s and s + (t + margin) == s):
                undecided[i] = True
                break
            words[w, i] = first if w == 0 and s == 0 and first == 0 else s + 0.0
            s, t, u, v = t, u, v, 0.0
