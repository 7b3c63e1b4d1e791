"""The leaves of `ozaki.linalg.panels` as texts: the same operations on every element in the same order.

Nothing may be contracted. Rows are updated by four others at once.
"""

from __future__ import annotations

import math

import numpy as np

from ozaki.linalg.arithmetic import quotient, real_quotient, times_powers
from ozaki.linalg.small.language import across, exponent, place, text


@text
def larger_exponent(x):
    """The exponent of the larger part; 0 of Inf and NaN."""
    a, b = abs(x.real), abs(x.imag)
    larger = a if a > b else b
    return exponent(larger) if larger < math.inf else 0


@text
def complex_quotient(x, divisor):
    """`arithmetic.quotient` of complex numbers."""
    of_x, of_divisor = larger_exponent(x), larger_exponent(divisor)
    a, b = math.ldexp(x.real, -of_x), math.ldexp(x.imag, -of_x)
    c, d = math.ldexp(divisor.real, -of_divisor), math.ldexp(divisor.imag, -of_divisor)
    norm, e = c * c + d * d, of_x - of_divisor
    return complex(math.ldexp((a * c + b * d) / norm, e), math.ldexp((b * c - a * d) / norm, e))


@text
def halves(x, n):
    """The sum of the first n numbers by halves, in place."""
    while n > 1:
        half = n // 2
        low, high = x[:half], x[n - half : n]
        for i in across(half):
            low[i] += high[i]
        n -= half
    return x[0]


@text
def eliminate(target, factors, rows, count, first):
    """target[first:] -= factors[k]·rows[k, first:] for k = 0, 1, …, count - 1, in this order."""
    t, four = target[first:], count // 4 * 4
    for k in range(0, four, 4):
        a, b, c, d = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        p, q, r, s = rows[k, first:], rows[k + 1, first:], rows[k + 2, first:], rows[k + 3, first:]
        for i in across(len(t)):
            t[i] = (((t[i] - a * p[i]) - b * q[i]) - c * r[i]) - d * s[i]
    for k in range(four, count):
        a, p = factors[k], rows[k, first:]
        for i in across(len(t)):
            t[i] -= a * p[i]


@text
def lu_panel(columns, pivots):
    """Factorize a transposed panel, one column after the other, each by all before it."""
    w, m = columns.shape[0], columns.shape[1]
    for c in range(w):
        column, steps = columns[c], min(c, m)
        for k in range(0, steps, 4):
            stop = min(k + 4, steps)
            for h in range(k, stop):
                for i in across(h + 1, stop):
                    column[i] -= column[h] * columns[h, i]
            eliminate(column, column[k:stop], columns[k:], stop - k, stop)
        if c < m:
            p, largest = c, -1.0
            for i in range(c, m):
                size = abs(column[i].real) + abs(column[i].imag)
                size = math.inf if size != size else size
                if size > largest:
                    p, largest = i, size
            pivots[c] = p
            if p != c:
                for h in across(w):
                    columns[h, c], columns[h, p] = columns[h, p], columns[h, c]
            pivot = column[c]
            if pivot != 0:
                for i in across(c + 1, m):
                    column[i] = quotient(column[i], pivot)


@text
def lower_leaf(lower, b, unit):
    """Replace B by the solution of LX = B."""
    for i in range(len(lower)):
        eliminate(b[i], lower[i], b, i, 0)
        if not unit:
            row, pivot = b[i], lower[i, i]
            for j in across(len(row)):
                row[j] = quotient(row[j], pivot)


@text
def cholesky_leaf(upper, factors):
    """Replace the upper triangle of A by U with UᴴU = A, row by row; `factors` is scratch memory."""
    for i in range(len(upper)):
        row = upper[i]
        for k in across(i):
            factors[k] = np.conj(upper[k, i])
        eliminate(row, factors, upper, i, i)
        pivot = row[i].real
        if not pivot > 0:
            return False
        root = math.sqrt(pivot)
        for j in across(i + 1, len(row)):
            row[j] = real_quotient(row[j], root)
        row[i] = root
    return True


@text
def reflect(x, squares):
    """Replace x by v; return β and τ. As `arithmetic.reflector`."""
    largest = 0.0
    for i in range(len(x)):
        a, b = abs(x[i].real), abs(x[i].imag)
        larger = a if a > b else b
        largest = larger if larger > largest else largest
    e = exponent(largest) if largest < math.inf else 0
    for i in across(len(x)):
        x[i] = times_powers(x[i], -e)
        squares[i] = x[i].real * x[i].real + x[i].imag * x[i].imag
    norm = math.sqrt(halves(squares, len(x)))
    if norm == 0:
        for i in across(len(x)):
            x[i] = 0
        return norm, x[0]
    alpha = x[0]
    beta = -norm if alpha.real >= 0 else norm
    shifted = alpha - beta
    for i in across(1, len(x)):
        x[i] = quotient(x[i], shifted)
    x[0] = 1
    return math.ldexp(beta, e), real_quotient(beta - alpha, beta)


LANES = 8
"""Columns whose reflections compiled code computes side by side (`reflections_numba`)."""


def room(m: int, w: int) -> int:
    """Numbers of scratch memory for that: the panel, T and overlaps by diagonals, terms, room to align."""
    blocks = -(-w // LANES)
    return LANES * (blocks * m + (2 * w + 1) * (blocks + 1) + m + 1)


@text
def qr_panel(columns, y, t, terms, squares):
    """Householder's reflections of a transposed panel; `terms` and `squares` are scratch memory.

    A column is reflected, and a number of T computed, by one thread each.
    """
    w, m = columns.shape[0], columns.shape[1]
    rows, of_t = terms[: w * m].reshape(w, m), terms[w * m : (w + 1) * m]
    for j in range(w):
        column, v, n = columns[j, j:], y[j, j:], m - j
        for i in across(n):
            v[i], column[i] = column[i], 0
        column[0], tau = reflect(v, squares)
        t[j, j] = tau
        if v[0] != 0:
            for c in across(w):
                products = rows[place(c)]
                if c > j:
                    other = columns[c, j:]
                    for i in range(n):
                        products[i] = other[i] * np.conj(v[i])
                    weight = halves(products, n) * np.conj(tau)
                    for i in range(n):
                        other[i] -= weight * v[i]
                elif c < j:
                    before = y[c, j:]
                    for i in range(n):
                        products[i] = np.conj(before[i]) * v[i]
                    t[c, j] = halves(products, n)
            for k in across(j):
                products = rows[place(k)]
                for i in range(k, j):
                    products[i - k] = t[k, i] * t[i, j]
                of_t[k] = -(halves(products, j - k) * tau)
            for k in across(j):
                t[k, j] = of_t[k]
