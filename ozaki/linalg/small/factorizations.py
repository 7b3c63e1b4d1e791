"""LU, triangular systems, Cholesky and QR of one small matrix, as texts.

`numbers`, `floats` and `integers` are scratch memory, of which `calls` knows how much there must be.
"""

from __future__ import annotations

import math

from ozaki.linalg.arithmetic import times_powers
from ozaki.linalg.small.language import across, exponent, number, parts_of, text
from ozaki.linalg.small.leaves import cholesky_leaf, lower_leaf, lu_panel, qr_panel
from ozaki.linalg.small.products import multiply


@text
def transpose(a, columns):
    """Write columns of A as rows, as many as there is room for."""
    for c in range(len(columns)):
        for i in across(len(a)):
            columns[c, i] = a[i, c]


@text
def lu(a, factors, pivots, rows, numbers, floats, integers):
    """PA = LU, row i of PA being rows[i] of A."""
    m, n = a.shape[0], a.shape[1]
    columns = numbers[: n * m].reshape(n, m)
    transpose(a, columns)
    lu_panel(columns, pivots)
    transpose(columns, factors)
    for i in across(m):
        rows[i] = i
    for c in range(len(pivots)):
        rows[c], rows[pivots[c]] = rows[pivots[c]], rows[c]


@text
def reverse(x):
    """Write the rows of X in the opposite order."""
    n = len(x)
    for i in range(n // 2):
        for j in across(x.shape[1]):
            x[i, j], x[n - 1 - i, j] = x[n - 1 - i, j], x[i, j]


@text
def solve(a, x, lower, unit, triangle):
    """Replace X by the solution of a triangular system; an upper one is solved from its last row up."""
    n = len(a)
    for i in range(n):
        for j in across(n):
            triangle[i, j] = a[i, j] if lower else a[n - 1 - i, n - 1 - j]
    if not lower:
        reverse(x)
    lower_leaf(triangle, x, unit)
    if not lower:
        reverse(x)


@text
def triangular(a, b, x, options, numbers, floats, integers):
    """AX = B; `options` are whether A is lower triangular, and whether its diagonal is 1."""
    n = len(a)
    for i in range(n):
        for j in across(x.shape[1]):
            x[i, j] = b[i, j]
    solve(a, x, options[0] != 0, options[1] != 0, numbers[: n * n].reshape(n, n))


@text
def system(a, b, x, singular, numbers, floats, integers):
    """AX = B by PA = LU; whether a pivot is 0."""
    n = len(a)
    factors, rest = numbers[: n * n].reshape(n, n), numbers[n * n :]
    rows = integers[n : 2 * n]
    lu(a, factors, integers[:n], rows, rest, floats, integers)
    singular[0] = 0
    for i in range(n):
        singular[0] += 1 if factors[i, i] == 0 else 0
        for j in across(x.shape[1]):
            x[i, j] = b[rows[i], j]
    triangle = rest[: n * n].reshape(n, n)
    solve(factors, x, True, True, triangle)
    solve(factors, x, False, False, triangle)


@text
def cholesky(a, upper, failed, numbers, floats, integers):
    """A = UᴴU, of the upper triangle of A; zeros below."""
    n = len(a)
    for i in range(n):
        for j in across(n):
            upper[i, j] = a[i, j]
    failed[0] = 0 if cholesky_leaf(upper, numbers) else 1
    for i in range(n):
        for j in across(i):
            upper[i, j] = 0


@text
def apply(y, t, adjoint, c, numbers, floats, integers):
    """Replace C by QC, or QᴴC, with Q = I - V·T·Vᴴ and V = yᵀ."""
    w, m, n = y.shape[0], y.shape[1], c.shape[1]
    first, second = numbers[: w * n].reshape(w, n), numbers[w * n : 2 * w * n].reshape(w, n)
    product = numbers[2 * w * n : (2 * w + m) * n].reshape(m, n)
    multiply(y, False, True, c, False, first, floats, integers)
    multiply(t, adjoint, adjoint, first, False, second, floats, integers)
    multiply(y, True, False, second, False, product, floats, integers)
    for i in range(m):
        for j in across(n):
            c[i, j] = c[i, j] - product[i, j]


@text
def largest_part(a, i, c, largest):
    """The larger of a magnitude and that of a number's larger part; NaN if one is."""
    x, y = abs(a[i, c].real), abs(a[i, c].imag)
    larger = x if x > y or parts_of(a) == 1 else y
    return larger if larger > largest or larger != larger else largest


@text
def column_exponent(a, c):
    """The exponent of the largest part in a column; 0 where there is an Inf or a NaN."""
    largest = 0.0
    for i in range(len(a)):
        largest = largest_part(a, i, c, largest)
    return exponent(largest) if largest < math.inf else 0


@text
def identity(x):
    """Write the first columns of the identity."""
    for i in range(len(x)):
        for j in across(x.shape[1]):
            x[i, j] = 1 if i == j else 0


@text
def turns(y, t, c):
    """Whether a reflection only turns a sign, of a real number with zeros below."""
    count = 0
    for i in range(c + 1, y.shape[1]):
        count += 0 if y[c, i] == 0 else 1
    return count == 0 and t[c, c] == 2


@text
def reflections(columns, y, t, terms, squares):
    """The reflections of a panel, and R in its place."""
    for c in range(len(y)):
        for i in across(y.shape[1]):
            y[c, i] = 0
        for i in across(len(y)):
            t[c, i] = 0
    qr_panel(columns, y, t, terms, squares)


@text
def qr(a, q, r, numbers, floats, integers):
    """A = QR; r has min(m, n) rows, or m. Of its columns q has as many, or none."""
    m, n, rows = a.shape[0], a.shape[1], len(r)
    k = min(m, n)
    columns, y = numbers[: k * m].reshape(k, m), numbers[k * m : 2 * k * m].reshape(k, m)
    t = numbers[2 * k * m : (2 * m + k) * k].reshape(k, k)
    rest = numbers[(2 * m + k) * k : (2 * m + k) * k + (n - k) * m].reshape(m, n - k)
    work, exponents = numbers[(2 * m + k) * k + (n - k) * m :], integers[:n]
    for c in across(n):
        exponents[c] = column_exponent(a, c)
        for i in range(m):
            x = times_powers(a[i, c], -exponents[c])
            if c < k:
                columns[c, i] = x
            else:
                rest[i, c - k] = x
    reflections(columns, y, t, work, floats)
    if n > k:
        apply(y, t, True, rest, work, floats, integers[n:])
    for i in range(rows):
        turned = i < k and turns(y, t, min(i, k - 1))
        for c in across(n):
            x = columns[c, i] if c < k else rest[i, c - k]
            x = times_powers(x if c >= i else number(r, 0.0, 0.0), exponents[c])
            r[i, c] = 0.0 - x if turned else x
    if q.shape[1] > 0:
        identity(q)
        apply(y, t, False, q, work, floats, integers[n:])
        for c in range(k):
            if turns(y, t, c):
                for i in across(m):
                    q[i, c] = 0.0 - q[i, c]


@text
def scale(a, columns, transposed, exponents):
    """Write columns that are scaled to about 1, as columns or as rows, and their exponents."""
    for j in range(a.shape[1]):
        exponents[j] = column_exponent(a, j)
        for i in across(len(a)):
            x = times_powers(a[i, j], -exponents[j])
            if transposed:
                columns[j, i] = x
            else:
                columns[i, j] = x


@text
def projected(a, b, r, c, exponents, numbers, floats, integers):
    """R of A = QR, and C = QᴴB, for scaled columns of both."""
    m, n = a.shape[0], a.shape[1]
    columns, y = numbers[: n * m].reshape(n, m), numbers[n * m : 2 * n * m].reshape(n, m)
    t, work = numbers[2 * n * m : (2 * m + n) * n].reshape(n, n), numbers[(2 * m + n) * n :]
    scale(a, columns, True, exponents)
    scale(b, c, False, exponents[n:])
    reflections(columns, y, t, work, floats)
    apply(y, t, True, c, work, floats, integers)
    for i in range(n):
        for j in across(n):
            r[i, j] = columns[j, i] if j >= i else number(r, 0.0, 0.0)
