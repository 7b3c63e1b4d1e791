"""The leaves of `panels`, compiled (`small.leaves`). numba contracts nothing unless told that it may."""

from functools import cache, partial

from numba import boolean, complex128, float64, int64, void

import ozaki.linalg.small.texts_numba  # noqa: F401  by which they call one another
from multiword.runtime.jit import jit
from ozaki.linalg.small import leaves

NUMBERS = {"d": float64, "D": complex128}
"""What a leaf is compiled for: real numbers, or complex ones."""


def for_numbers(signature):
    """A decorator of functions, which then take "d" or "D", and return themselves, compiled for that."""
    return lambda function: cache(lambda kind: jit(signature(NUMBERS[kind]))(function))


def for_all_numbers(*functions):
    """A call for each kind of numbers that declares such functions, which share what they call."""
    return tuple(partial(_declare_all, functions, kind) for kind in NUMBERS)


def _declare_all(functions, kind):
    for function in functions:
        function(kind)


lu_panel = for_numbers(lambda x: void(x[:, ::1], int64[::1]))(leaves.lu_panel)
lower_leaf = for_numbers(lambda x: void(x[:, ::1], x[:, ::1], boolean))(leaves.lower_leaf)
cholesky_leaf = for_numbers(lambda x: boolean(x[:, ::1], x[::1]))(leaves.cholesky_leaf)


@for_numbers(lambda x: void(*[x[:, ::1]] * 3, x[::1], float64[::1]))
def qr_panel(columns, y, t, terms, squares):
    leaves.qr_panel(columns, y, t, terms, squares)


ON_DEMAND = for_all_numbers(lu_panel, lower_leaf, cholesky_leaf, qr_panel)
