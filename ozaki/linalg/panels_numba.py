"""The leaves of `panels`, compiled: the same operations on every element in the same order.

numba contracts nothing unless it is told that it may. Rows are updated by four others at once.
"""

import math
from functools import cache

import numpy as np
from numba import boolean, complex128, float64, int64, types, void
from numba.extending import overload

from multiword.runtime.jit import inlined, jit
from ozaki.linalg import arithmetic


@inlined
def larger_exponent(x):
    """The exponent of the larger part; 0 of Inf and NaN."""
    a, b = abs(x.real), abs(x.imag)
    larger = a if a > b else b
    return math.frexp(larger)[1] if larger < math.inf else 0


@overload(arithmetic.quotient)
def _quotient(x, divisor):
    def complex_quotient(x, divisor):
        exponent, of_x = larger_exponent(divisor), larger_exponent(x)
        c, d = math.ldexp(divisor.real, -exponent), math.ldexp(divisor.imag, -exponent)
        p, q = math.ldexp(x.real, -of_x), math.ldexp(x.imag, -of_x)
        norm, exponent = c * c + d * d, of_x - exponent
        return complex(
            math.ldexp((p * c + q * d) / norm, exponent), math.ldexp((q * c - p * d) / norm, exponent)
        )

    return complex_quotient if isinstance(x, types.Complex) else lambda x, divisor: x / divisor


@overload(arithmetic.real_quotient)
def _real_quotient(x, divisor):
    if isinstance(x, types.Complex):
        return lambda x, divisor: complex(x.real / divisor, x.imag / divisor)
    return lambda x, divisor: x / divisor


@overload(arithmetic.times_powers)
def _times_powers(x, exponents):
    if isinstance(x, types.Complex):
        return lambda x, exponents: complex(math.ldexp(x.real, exponents), math.ldexp(x.imag, exponents))
    return lambda x, exponents: math.ldexp(x, exponents)


quotient, real_quotient, times_powers = arithmetic.quotient, arithmetic.real_quotient, arithmetic.times_powers


@inlined
def halves(x, n):
    """The sum of the first n numbers by halves, in place."""
    while n > 1:
        half = n // 2
        low, high = x[:half], x[n - half : n]
        for i in range(half):
            low[i] += high[i]
        n -= half
    return x[0]


NUMBERS = {"d": float64, "D": complex128}
"""What a leaf is compiled for: real numbers, or complex ones."""


def for_numbers(signature):
    """A decorator of functions, which then take "d" or "D", and return themselves, compiled for that."""
    return lambda function: cache(lambda kind: jit(signature(NUMBERS[kind]))(function))


@inlined
def eliminate(target, factors, rows, count, first):
    """target[first:] -= factors[k]·rows[k, first:] for k = 0, 1, …, count - 1, in this order."""
    t, four = target[first:], count // 4 * 4
    for k in range(0, four, 4):
        a, b, c, d = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        p, q, r, s = rows[k, first:], rows[k + 1, first:], rows[k + 2, first:], rows[k + 3, first:]
        for i in range(len(t)):
            t[i] = (((t[i] - a * p[i]) - b * q[i]) - c * r[i]) - d * s[i]
    for k in range(four, count):
        a, p = factors[k], rows[k, first:]
        for i in range(len(t)):
            t[i] -= a * p[i]


@for_numbers(lambda x: void(x[:, ::1], int64[::1]))
def lu_panel(columns, pivots):
    """Factorize a transposed panel, one column after the other, each by all before it."""
    w, m = columns.shape
    for c in range(w):
        column, steps = columns[c], min(c, m)
        for k in range(0, steps, 4):
            stop = min(k + 4, steps)
            for h in range(k, stop):
                for i in range(h + 1, stop):
                    column[i] -= column[h] * columns[h, i]
            eliminate(column, column[k:stop], columns[k:], stop - k, stop)
        if c >= m:
            continue
        p, largest = c, -1.0
        for i in range(c, m):
            size = abs(column[i].real) + abs(column[i].imag)
            size = math.inf if size != size else size
            if size > largest:
                p, largest = i, size
        pivots[c] = p
        if p != c:
            for h in range(w):
                columns[h, c], columns[h, p] = columns[h, p], columns[h, c]
        pivot = column[c]
        if pivot != 0:
            for i in range(c + 1, m):
                column[i] = quotient(column[i], pivot)


@for_numbers(lambda x: void(x[:, ::1], x[:, ::1], boolean))
def lower_leaf(lower, b, unit):
    """Replace B by the solution of LX = B."""
    for i in range(len(lower)):
        eliminate(b[i], lower[i], b, i, 0)
        if not unit:
            row, pivot = b[i], lower[i, i]
            for j in range(len(row)):
                row[j] = quotient(row[j], pivot)


@for_numbers(lambda x: boolean(x[:, ::1], x[::1]))
def cholesky_leaf(upper, factors):
    """Replace the upper triangle of A by U with UᴴU = A, row by row; `factors` is scratch memory."""
    for i in range(len(upper)):
        row = upper[i]
        for k in range(i):
            factors[k] = np.conj(upper[k, i])
        eliminate(row, factors, upper, i, i)
        pivot = row[i].real
        if not pivot > 0:
            return False
        root = math.sqrt(pivot)
        for j in range(i + 1, len(row)):
            row[j] = real_quotient(row[j], root)
        row[i] = root
    return True


@inlined
def reflect(x, squares):
    """Replace x by v; return β and τ. As `arithmetic.reflector`."""
    largest = 0.0
    for i in range(len(x)):
        a, b = abs(x[i].real), abs(x[i].imag)
        larger = a if a > b else b
        largest = larger if larger > largest else largest
    exponent = math.frexp(largest)[1] if largest < math.inf else 0
    for i in range(len(x)):
        x[i] = times_powers(x[i], -exponent)
        squares[i] = x[i].real * x[i].real + x[i].imag * x[i].imag
    norm = math.sqrt(halves(squares, len(x)))
    if norm == 0:
        x[:] = 0
        return norm, x[0]
    alpha = x[0]
    beta = -norm if alpha.real >= 0 else norm
    shifted = alpha - beta
    for i in range(1, len(x)):
        x[i] = quotient(x[i], shifted)
    x[0] = 1
    return math.ldexp(beta, exponent), real_quotient(beta - alpha, beta)


@for_numbers(lambda x: void(*[x[:, ::1]] * 3, x[::1], float64[::1]))
def qr_panel(columns, y, t, terms, squares):
    """Householder's reflections of a transposed panel; `terms` and `squares` are scratch memory."""
    w, m = columns.shape
    for j in range(w):
        column, v, n = columns[j, j:], y[j, j:], m - j
        for i in range(n):
            v[i], column[i] = column[i], 0
        column[0], tau = reflect(v, squares)
        t[j, j] = tau
        if v[0] == 0:
            continue
        for c in range(j + 1, w):
            other = columns[c, j:]
            for i in range(n):
                terms[i] = other[i] * np.conj(v[i])
            weight = halves(terms, n) * np.conj(tau)
            for i in range(n):
                other[i] -= weight * v[i]
        for k in range(j):
            other = y[k, j:]
            for i in range(n):
                terms[i] = np.conj(other[i]) * v[i]
            t[k, j] = halves(terms, n)
        for k in range(j):
            for i in range(k, j):
                terms[i - k] = t[k, i] * t[i, j]
            t[k, j] = -(halves(terms, j - k) * tau)
