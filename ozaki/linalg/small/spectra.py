"""Eigenpairs of a small Hermitian matrix, and singular triplets of a tall one, as texts."""

from __future__ import annotations

import math

import numpy as np

from ozaki.linalg.arithmetic import real_quotient, times_powers
from ozaki.linalg.rotations import (
    bidiagonal_sweep,
    block,
    dropped,
    tridiagonal_sweep,
)
from ozaki.linalg.small.factorizations import (
    apply,
    identity,
    largest_part,
    reflections,
    solve,
)
from ozaki.linalg.small.language import across, exponent, number, text
from ozaki.linalg.small.products import multiply
from ozaki.linalg.small.two_sided import bidiagonalize, tridiagonalize


@text
def matrix_exponent(a):
    """The exponent of the largest part."""
    largest = 0.0
    for i in range(len(a)):
        for j in range(a.shape[1]):
            largest = largest_part(a, i, j, largest)
    return exponent(largest) if largest < math.inf else 0


@text
def rotate(rows, first, last, angles):
    """Replace rows k and k + 1, x and y, by c·x + s·y and c·y - s·x, for k = first, …, last - 1."""
    for k in range(first, last):
        c, s, x, y = angles[0, k], angles[1, k], rows[k], rows[k + 1]
        for j in across(len(x)):
            p, q = x[j], y[j]
            x[j] = c * p + s * q
            y[j] = c * q - s * p


@text
def diagonalize(d, e, left, right, bidiagonal, angles):
    """Make T, or B, diagonal; the rows on the left, or on both sides, become products with rotations."""
    last, stalls = len(d) - 1, 0
    while last > 0:
        first = block(d, e, last, dropped(stalls))
        if first == last:
            last -= 1
            stalls = 0
        else:
            if bidiagonal:
                stalls += 1 if bidiagonal_sweep(d, e, first, last, angles) else 0
                rotate(right, first, last, angles[1])
            else:
                stalls += 1 if tridiagonal_sweep(d, e, first, last, angles) else 0
            rotate(left, first, last, angles[0])


@text
def sort(keys, order):
    """Write the order of numbers, ascending; equal ones stay in order."""
    for i in across(len(keys)):
        rank = 0
        for j in range(len(keys)):
            rank += 1 if keys[j] < keys[i] or (keys[j] == keys[i] and j < i) else 0
        order[rank] = i


@text
def reflected(vectors, taus, c, numbers, floats, integers):
    """Replace C by H₀·H₁·…·C, the product being I - V·S⁻¹·Vᴴ as in `ozaki.linalg.reflectors`."""
    n, columns = len(vectors), c.shape[1]
    s, triangle = numbers[: n * n].reshape(n, n), numbers[n * n : 2 * n * n].reshape(n, n)
    x = numbers[2 * n * n : (2 * n + columns) * n].reshape(n, columns)
    product = numbers[(2 * n + columns) * n : 2 * (n + columns) * n].reshape(n, columns)
    multiply(vectors, False, True, vectors, True, s, floats, integers)
    for i in range(n):
        tau = number(s, 1.0, 0.0) if taus[i] == 0 else taus[i]
        inverse = real_quotient(np.conj(tau), tau.real * tau.real + tau.imag * tau.imag)
        for j in across(n):
            zero = number(s, 0.0, 0.0)
            s[i, j] = zero + (inverse if i == j else s[i, j] if j > i else zero)
    multiply(vectors, False, True, c, False, x, floats, integers)
    solve(s, x, False, False, triangle)
    multiply(vectors, True, False, x, False, product, floats, integers)
    for i in range(n):
        for j in across(columns):
            c[i, j] = c[i, j] - product[i, j]


@text
def hermitian(a, whole):
    """Write A·2**-e of a triangle, whose largest number is between 1/2 and 1, and return e."""
    n = len(a)
    for i in range(n):
        for j in across(n):
            z = number(whole, a[i, j].real, 0.0) if i == j else a[i, j]
            whole[i, j] = z if j <= i else number(whole, 0.0, 0.0)
    e = matrix_exponent(whole)
    for i in range(n):
        for j in across(i + 1):
            z = times_powers(whole[i, j], -e)
            if i == j:
                whole[i, j] = number(whole, z.real, 0.0)
            else:
                whole[i, j] = number(whole, z.real + 0.0, z.imag)
                whole[j, i] = number(whole, 0.0 + z.real, 0.0 - z.imag)
    return e


@text
def eigh(a, values, vectors, numbers, floats, integers):
    """A = QTQᴴ, T = ZDZᵀ: the eigenvectors are QZ. The lower triangle is read."""
    n, columns = len(a), vectors.shape[1]
    whole, q = numbers[: n * n].reshape(n, n), numbers[n * n : 2 * n * n].reshape(n, n)
    lines, work = numbers[2 * n * n : (2 * n + 4) * n].reshape(4, n), numbers[(2 * n + 4) * n :]
    taus = lines[3]
    angles, d, e = floats[: 4 * n].reshape(2, 2, n), floats[4 * n : 5 * n], floats[5 * n : 6 * n]
    z, rest = floats[6 * n : (6 + columns) * n].reshape(n, columns), floats[(6 + columns) * n :]
    order = integers[:n]
    scale = hermitian(a, whole)
    for i in range(n):
        d[i], e[i], taus[i] = 0.0, 0.0, 0
        for j in across(n):
            q[i, j] = 0
    tridiagonalize(whole, d, e, q, taus, lines[0], lines[1], lines[2], rest)
    identity(z)
    diagonalize(d, e, z, z, False, angles)
    sort(d, order)
    for i in across(n):
        values[i] = math.ldexp(d[order[i]], scale)
    if columns > 0:
        for i in range(n):
            for j in across(n):
                vectors[i, j] = number(vectors, z[order[j], i], 0.0)
        reflected(q, taus, vectors, work, rest, integers[n:])


@text
def triangle_of(a, rows, y, t, r, terms, squares):
    """Write the reflections and R of A·2**-e, whose largest number is between 1/2 and 1, and return e."""
    e = matrix_exponent(a)
    for c in range(len(rows)):
        for i in across(len(a)):
            rows[c, i] = times_powers(a[i, c], -e)
    reflections(rows, y, t, terms, squares)
    for i in range(len(r)):
        for j in across(len(r)):
            r[i, j] = rows[j, i] if j >= i else number(r, 0.0, 0.0)
    return e


@text
def bidiagonal(r, d, e, left, right, lines, terms, squares):
    """Write the diagonals of B and the reflections of R = LBPᴴ; `lines` are their τ, and scratch memory."""
    for i in range(len(r)):
        d[i], e[i], lines[0, i], lines[1, i] = 0.0, 0.0, 0, 0
        for j in across(len(r)):
            left[i, j] = 0
            right[i, j] = 0
    bidiagonalize(r, d, e, left, lines[0], right, lines[1], terms, lines[2], squares)


@text
def singular_vectors(y, t, reflectors, lines, p, q, d, order, u, vh, inner, numbers, floats, integers):
    """Write QLU and (PV)ᴴ."""
    n = len(d)
    for i in range(n):
        for j in across(n):
            inner[i, j] = number(inner, p[order[j], i], 0.0)
    reflected(reflectors[:n], lines[0], inner, numbers, floats, integers)
    identity(u)
    for i in range(n):
        for j in across(n):
            u[i, j] = inner[i, j]
    apply(y, t, False, u, numbers, floats, integers)
    for i in range(n):
        for j in across(n):
            x = q[order[j], i]
            inner[i, j] = number(inner, -x if d[order[j]] < 0 else x, 0.0)
    reflected(reflectors[n:], lines[1], inner, numbers, floats, integers)
    for i in range(n):
        for j in across(n):
            vh[j, i] = np.conj(inner[i, j])


@text
def svd(a, u, values, vh, numbers, floats, integers):
    """A = QR, R = LBPᴴ, B = UDVᵀ of a tall matrix: the left vectors are QLU, the right ones PV."""
    m, n, columns = a.shape[0], a.shape[1], vh.shape[1]
    tall = numbers[: 2 * n * m].reshape(2 * n, m)
    square = numbers[2 * n * m : (2 * m + 5 * n) * n].reshape(5 * n, n)
    lines = numbers[(2 * m + 5 * n) * n : (2 * m + 5 * n + 3) * n].reshape(3, n)
    t, r, reflectors, inner = square[:n], square[n : 2 * n], square[2 * n : 4 * n], square[4 * n :]
    y, work = tall[n:], numbers[(2 * m + 5 * n + 3) * n :]
    angles, d, e = floats[: 4 * n].reshape(2, 2, n), floats[4 * n : 5 * n], floats[5 * n : 6 * n]
    rotated, rest = floats[6 * n : (6 + 2 * columns) * n], floats[(6 + 2 * columns) * n :]
    p, q = rotated[: columns * n].reshape(n, columns), rotated[columns * n :].reshape(n, columns)
    order = integers[:n]
    scale = triangle_of(a, tall[:n], y, t, r, work, rest)
    bidiagonal(r, d, e, reflectors[:n], reflectors[n:], lines, inner, rest)
    identity(p)
    identity(q)
    diagonalize(d, e, p, q, True, angles)
    for i in across(n):
        e[i] = -abs(d[i])
    sort(e, order)
    for i in across(n):
        values[i] = math.ldexp(abs(d[order[i]]), scale)
    if columns > 0:
        singular_vectors(y, t, reflectors, lines, p, q, d, order, u, vh, inner, work, rest, integers[n:])
