"""`ozaki.linalg.two_sided` as texts: the same operations on every element in the same order."""

from __future__ import annotations

import numpy as np

from ozaki.linalg.small.language import across, place, text
from ozaki.linalg.small.leaves import halves, reflect


@text
def update_and_add(row, v_row, w_row, v, w, sums, factor):
    """row -= v_row·conj(w) + w_row·conj(v), then sums += factor·row."""
    for i in across(len(row)):
        row[i] -= v_row * np.conj(w[i]) + w_row * np.conj(v[i])
        sums[i] += factor * row[i]


@text
def tridiagonalize(a, d, e, vectors, taus, w, sums, terms, squares):
    """Every step updates the rows by the step before it while it adds them up: once through memory."""
    n = len(a)
    before = vectors[n - 1]  # zeros
    for i in across(n):
        w[i] = 0
    for j in range(n):
        row = a[j, j:]
        for i in across(n - j):
            row[i] -= before[j] * np.conj(w[j + i]) + w[j] * np.conj(before[j + i])
        d[j] = row[0].real
        if j + 1 == n:
            break
        v = vectors[j, j + 1 :]
        for i in across(n - j - 1):
            v[i] = np.conj(row[i + 1])
        e[j], tau = reflect(v, squares)
        taus[j] = tau
        total = sums[j + 1 :]
        for i in across(len(total)):
            total[i] = 0
        for c in range(j + 1, n):
            factor = np.conj(v[c - j - 1])
            update_and_add(a[c, j + 1 :], before[c], w[c], before[j + 1 :], w[j + 1 :], total, factor)
        for i in across(len(v)):
            w[j + 1 + i] = tau * np.conj(total[i])
            terms[i] = np.conj(w[j + 1 + i]) * v[i]
        half = tau * halves(terms, len(v)) * -0.5
        for i in across(len(v)):
            w[j + 1 + i] += half * v[i]
        before = vectors[j]


@text
def add(target, row, factor):
    """target += factor·row."""
    for i in across(len(target)):
        target[i] += factor * row[i]


@text
def subtract(target, row, factor):
    """target -= factor·row."""
    for i in across(len(target)):
        target[i] -= factor * row[i]


@text
def bidiagonalize(a, d, e, left, left_taus, right, right_taus, rows, sums, squares):
    """A column and a row at every step, by which one thread each reflects the other rows."""
    n = len(a)
    for k in range(n):
        v = left[k, k:]
        for i in across(n - k):
            v[i] = a[k + i, k]
        d[k], tau = reflect(v, squares)
        left_taus[k] = tau
        if k + 1 == n:
            break
        total = sums[k + 1 :]
        for i in across(len(total)):
            total[i] = 0
        for i in range(k, n):
            add(total, a[i, k + 1 :], np.conj(v[i - k]))
        subtract(a[k, k + 1 :], total, np.conj(tau) * v[0])
        u = right[k, k + 1 :]
        for i in across(len(u)):
            u[i] = np.conj(a[k, k + 1 + i])
        e[k], other = reflect(u, squares)
        right_taus[k] = other
        for i in across(k + 1, n):
            row, terms = a[i, k + 1 :], rows[place(i)]
            subtract(row, total, np.conj(tau) * v[i - k])
            for c in range(len(u)):
                terms[c] = row[c] * u[c]
            factor = other * halves(terms, len(u))
            for c in range(len(u)):
                row[c] -= factor * np.conj(u[c])
