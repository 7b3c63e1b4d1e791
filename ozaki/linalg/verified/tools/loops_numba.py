"""Steps of proofs about real numbers, compiled: each as the NumPy form of its name, with the same bits.

Of small matrices NumPy's calls take most of the time: a step is one call here. What has products of matrices
stays with BLAS. Maxima are NaN where NumPy's are: a NaN replaces any number, and no number a NaN.
"""

import numpy as np
from numba import boolean, float64, int32, int64, types, void

from multiword import rounding
from multiword.runtime.jit import inlined, jit
from ozaki.linalg.verified.tools.refinement import FLOOR
from ozaki.linalg.verified.tools.scaling import FAR_BELOW, NEAR, SPREAD, TAME
from ozaki.linalg.verified.tools.upward import ETA, U
from ozaki.linalg.verified.tools.words import RELATIVE
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of

NUMBERS, MATRIX = (types.Array(float64, n, "A", readonly=True, aligned=False) for n in (1, 2))
INTEGERS = types.Array(int32, 2, "A", readonly=True, aligned=False)
OUT, WORDS = float64[:, :], float64[:, ::1]

two_sum = inlined(rounding.two_sum)


@inlined
def larger(x, y):
    """The larger one; NaN if one is."""
    return y if (y > x) | (y != y) else x


@inlined
def plus(x, terms):
    """As `upward.plus`, for the sum of so many terms."""
    return x * (1 + 2 * terms * U)


@inlined
def octave(x):
    """As `scaling._octaves`: the exponent of a finite number, and `FAR_BELOW` of 0."""
    if x == 0:
        return FAR_BELOW
    exponent = (bits_of(x) & MAGNITUDE) >> 52
    return exponent - 1022 if exponent else ((bits_of(x * 2.0**54) & MAGNITUDE) >> 52) - 1076


@jit(boolean(MATRIX, float64[::1]))
def is_tame(a, columns):
    """As `scaling._is_tame`, of finite numbers; columns is scratch memory, a number for each."""
    least, most = np.inf, 0.0
    columns[:] = 0.0
    for i in range(a.shape[0]):
        row = 0.0
        for j in range(a.shape[1]):
            size = abs(a[i, j])
            row = max(row, size)
            columns[j] = max(columns[j], size)
        least = min(least, row)
        most = max(most, row)
    for j in range(a.shape[1]):
        least = min(least, columns[j])
    return (least * TAME > most) & (most > 1 / TAME) & (most < TAME)


@jit(int64(MATRIX, INTEGERS, int32[:, ::1]))
def right_octaves(b, r, t):
    """Write exponents t of columns, as `scaling.rows_scaled` does of finite real numbers, a row at least.

    Return -1 where numbers of a column are too far apart for one part, else how many exponents are not 0.
    """
    (m, n), scaled = b.shape, 0
    for j in range(n):
        top = octave(b[0, j]) - r[0, 0]
        for i in range(1, m):
            top = max(top, octave(b[i, j]) - r[i, 0])
        top = top if (top > FAR_BELOW // 2) & (abs(top) > NEAR) else 0
        for i in range(m):
            if (b[i, j] != 0) & (octave(b[i, j]) - r[i, 0] <= top - SPREAD):
                return -1
        t[0, j] = top
        scaled += top != 0
    for i in range(m):
        scaled += r[i, 0] != 0
    return scaled


@jit(void(MATRIX, float64, float64, OUT))
def widened(x, factor, least, out):
    """|x|·factor + least, as `upward.plus` of two terms."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = plus(abs(x[i, j]) * factor + least, 2)


@jit(void(MATRIX, MATRIX, int64, OUT))
def reached(d, product, k, out):
    """As `preconditioner.Single` bounds |Rr*|, from d and a product with |R|, of k columns."""
    more, least, rest = 1 + 2 * (k + 4) * U, 2 * (k + 1) * ETA, 8 * d.shape[0] * ETA
    for i in range(d.shape[0]):
        for j in range(d.shape[1]):
            out[i, j] = plus(abs(d[i, j]) + (product[i, j] * more + least) + rest, 3)


@jit(void(MATRIX, NUMBERS, MATRIX, float64[::1], OUT))
def enclose(bound, weights, share, worst, out):
    """As `regularity.Regularity.enclose`; worst is scratch memory, a number for each column."""
    worst[:] = 0.0
    for i in range(bound.shape[0]):
        for j in range(bound.shape[1]):
            worst[j] = larger(worst[j], bound[i, j] / weights[i])
    for j in range(bound.shape[1]):
        worst[j] = worst[j] * (1 + 2 * U) + ETA
    for i in range(bound.shape[0]):
        for j in range(bound.shape[1]):
            out[i, j] = plus(bound[i, j] + share[i, 0] * worst[j] + ETA, 3)


@jit(void(MATRIX, MATRIX, float64[::1], float64[::1]))
def relative_errors(error, x, floor, largest):
    """As `refinement.relative_errors`; floor is scratch memory, a number for each column."""
    floor[:] = 0.0
    largest[:] = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            floor[j] = larger(floor[j], abs(x[i, j]))
    for j in range(x.shape[1]):
        floor[j] = larger(ETA, FLOOR * floor[j])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            largest[j] = larger(largest[j], error[i, j] / larger(abs(x[i, j]), floor[j]))


@jit(boolean(MATRIX))
def has_zero_column(x):
    """Whether a column is 0."""
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            if x[i, j] != 0:
                break
        else:
            return True
    return False


@jit(boolean(MATRIX, MATRIX))
def may_vanish(error, x):
    """As `refinement._may_vanish`."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if (error[i, j] > 0) & (abs(x[i, j]) <= error[i, j]):
                return True
    return False


@inlined
def vector_sum(words, j):
    """As `words._vector_sum`, in place."""
    total = words[-1, j]
    for i in range(words.shape[0] - 2, -1, -1):
        total, words[i + 1, j] = two_sum(words[i, j], total)
    words[0, j] = total


@jit(void(WORDS))
def renormalize(words):
    """As `words.renormalized`, in place."""
    for _ in range(2):
        for j in range(words.shape[1]):
            vector_sum(words, j)


@jit(void(WORDS, NUMBERS, float64[::1], float64[::1], boolean[::1]))
def rounded(words, error, value, bound, sure):
    """As `words.rounded`, of two words or more, which are written over."""
    count = words.shape[0]
    for j in range(words.shape[1]):
        vector_sum(words, j)
        vector_sum(words, j)
        x, first, rest, known = words[0, j], words[1, j], error[j], error[j] == 0
        for i in range(2, count):
            rest += abs(words[i, j])
            known &= words[i, j] == 0
        rest = plus(rest, count - 1) if count > 2 else rest
        size, of_x = abs(x), plus(rest + abs(first), 2)
        margin = rest * (1 + RELATIVE) + abs(first) * RELATIVE
        nearest = (x + (first + margin) == x) & (x + (first - margin) == x)
        zero = (size <= of_x) & (of_x > 0)
        value[j] = 0.0 if zero else x
        bound[j] = plus(of_x + size, 2) if zero else of_x
        sure[j] = known | (nearest & (not zero))
