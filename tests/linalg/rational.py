"""Exact references for linear algebra, by python-flint's rationals, and what is checked of proofs."""

from fractions import Fraction

import flint
import numpy as np

from tests.exact import nearest


def rational_matrix(x):
    """A real float64 matrix as flint's rationals."""
    ratios = [[value.as_integer_ratio() for value in row] for row in x.tolist()]
    return flint.fmpq_mat([[flint.fmpq(p, q) for p, q in row] for row in ratios])


def embedded(x):
    """The real matrix [[Re, -Im], [Im, Re]], which multiplies as the complex one does."""
    return np.block([[x.real, -x.imag], [x.imag, x.real]]) if x.dtype.kind == "c" else x


def fractions(x):
    """The elements of flint's matrix, as nested lists of Fraction."""
    return [[Fraction(int(v.p), int(v.q)) for v in row] for row in x.tolist()]


def exact_solution(a, b):
    """The (n, m) solution of AX = B in Fractions: real parts, and imaginary ones or None."""
    n, right = len(a), np.vstack([b.real, b.imag]) if a.dtype.kind == "c" else b
    x = fractions(rational_matrix(embedded(a)).solve(rational_matrix(right)))
    return x[:n], x[n:] or None


def check_proof(solution, real, imaginary=None):
    """Every bound holds, every component said to be rounded is; the share of components that are."""
    value, bound, rounded = (np.atleast_2d(x) for x in (solution.value, solution.bound, solution.rounded))
    parts = [(value.real, real)] + ([(value.imag, imaginary)] if imaginary else [])
    for index in np.ndindex(value.shape):
        square = Fraction(0)
        if not np.isfinite(bound[index]):
            assert not rounded[index]
            continue
        for part, exact in parts:
            x, true = float(part[index]), exact[index[0]][index[1]]
            square += (Fraction(x) - true) ** 2
            if rounded[index]:
                assert x == nearest(true), (x, float(true))
        assert square <= Fraction(float(bound[index])) ** 2, (index, value[index], bound[index])
    return rounded.mean() if rounded.size else 1.0


def eigenvalues_below(a, x):
    """How many eigenvalues of a real symmetric matrix are below x: negative pivots of A - xI."""
    a = [[Fraction(v) - (i == j) * x for j, v in enumerate(row)] for i, row in enumerate(a.tolist())]
    count = 0
    for k in range(len(a)):
        count += a[k][k] < 0
        for i in range(k + 1, len(a)):
            share = a[i][k] / a[k][k]
            a[i] = [p - share * q for p, q in zip(a[i], a[k], strict=True)]
    return count


def check_spectrum(enclosures, a):
    """Every eigenvalue of a real symmetric matrix is within its bound, in ascending order."""
    for i, (value, bound) in enumerate(zip(enclosures.value, enclosures.bound, strict=True)):
        middle, reach = Fraction(float(value)), Fraction(float(bound)) + Fraction(1, 2**200)
        assert eigenvalues_below(a, middle - reach) <= i < eigenvalues_below(a, middle + reach), (a, i)
