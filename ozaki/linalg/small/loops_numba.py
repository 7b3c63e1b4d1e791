"""The texts of `small`, compiled: each in a loop over a stack, by one thread."""

from numba import float64, int64, void

import ozaki.linalg.small.texts_numba  # noqa: F401  by which they call one another
from ozaki.linalg.panels_numba import for_all_numbers, for_numbers
from ozaki.linalg.small import factorizations, spectra

_LINES, _INTEGERS, _OPTIONS = float64[:, ::1], int64[:, ::1], int64[::1]


def _loop(*kinds):
    """A decorator of loops for such arguments, "x" being stacks of matrices, and scratch memory."""

    def signature(x):
        arguments = (x[:, :, ::1] if kind == "x" else kind for kind in kinds)
        return void(*arguments, x[::1], float64[::1], int64[::1])

    return for_numbers(signature)


@_loop("x", "x", _INTEGERS, _INTEGERS)
def lu(a, factors, pivots, rows, numbers, floats, integers):
    for i in range(len(a)):
        factorizations.lu(a[i], factors[i], pivots[i], rows[i], numbers, floats, integers)


@_loop("x", "x", "x", _OPTIONS)
def triangular(a, b, x, options, numbers, floats, integers):
    for i in range(len(a)):
        factorizations.triangular(a[i], b[i], x[i], options, numbers, floats, integers)


@_loop("x", "x", "x", _INTEGERS)
def system(a, b, x, singular, numbers, floats, integers):
    for i in range(len(a)):
        factorizations.system(a[i], b[i], x[i], singular[i], numbers, floats, integers)


@_loop("x", "x", _INTEGERS)
def cholesky(a, upper, failed, numbers, floats, integers):
    for i in range(len(a)):
        factorizations.cholesky(a[i], upper[i], failed[i], numbers, floats, integers)


@_loop("x", "x", "x")
def qr(a, q, r, numbers, floats, integers):
    for i in range(len(a)):
        factorizations.qr(a[i], q[i], r[i], numbers, floats, integers)


@_loop("x", "x", "x", "x", _INTEGERS)
def projected(a, b, r, c, exponents, numbers, floats, integers):
    for i in range(len(a)):
        factorizations.projected(a[i], b[i], r[i], c[i], exponents[i], numbers, floats, integers)


@_loop("x", _LINES, "x")
def eigh(a, values, vectors, numbers, floats, integers):
    for i in range(len(a)):
        spectra.eigh(a[i], values[i], vectors[i], numbers, floats, integers)


@_loop("x", "x", _LINES, "x")
def svd(a, u, values, vh, numbers, floats, integers):
    for i in range(len(a)):
        spectra.svd(a[i], u[i], values[i], vh[i], numbers, floats, integers)


ON_DEMAND = for_all_numbers(svd, eigh, qr, lu, system, projected, triangular, cholesky)
