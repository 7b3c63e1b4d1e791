"""Arithmetic rounded upwards: each function returns an upper bound of its formula, its own rounding included.

Numbers are nonnegative, of float64; u = 2**-53, and η = 2**-1074 is the smallest of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, backwards, namespace
from multiword.runtime.compiled import compiled
from ozaki.linalg.products import classical

U = 2.0**-53
ETA = 2.0**-1074

FORM = "ozaki.linalg.verified.tools.loops_numba"

_FLOAT64 = np.dtype(np.float64)

_SLIGHTLY_MORE, _ETA = np.array(1 + 2 * U), np.array(ETA)
"""As arrays, so that NumPy makes none of them each time."""


def up(x: Any) -> Any:
    """Return at least the next number above x: no less than what x was rounded to nearest from.

    x·(1 + 2u), rounded, is that for normal numbers, and x + η for the others. Beside the function that
    computes neighbours this takes a tenth of the time. One number, of any sign, has a quick such function.
    """
    if isinstance(x, float):  # NumPy's numbers, too
        return np.float64(math.nextafter(x, math.inf))
    if type(x) is np.ndarray:
        return x * _SLIGHTLY_MORE + _ETA
    return x * (1 + 2 * U) + ETA


def compiled_for(*arrays: Array) -> Any:
    """Return the module of compiled steps, if all arrays are NumPy's, of real numbers; else None."""
    for x in arrays:
        if type(x) is not np.ndarray or x.dtype != _FLOAT64:
            return None
    return compiled(FORM)


def plus(*terms: Any) -> Any:
    """Return at least the sum of the terms, and of terms that are larger by a factor 1 + u each.

    Numbers that were rounded may be short of that factor. Each addition loses as much at most, and nothing
    where its result is subnormal.
    """
    return reduce(operator.add, terms) * (1 + 2 * len(terms) * U) if len(terms) > 1 else terms[0]


def root(x: Any) -> float:
    """Return at least √x of one number: a power may be wrong by 4 u."""
    return float(up(x**0.5 * (1 + 4 * U)))


def total(x: Array) -> float:
    """Return at least the sum of all elements, which are added up in any order."""
    return float(up(x.sum() * (1 + 2 * x.size * U)))


@lru_cache(1024)
def gamma(k: int) -> float:
    """Return at least γ_k = ku / (1 - ku), infinite where that has no meaning (Higham 2002, lemma 3.1)."""
    return float(up(k * U / (1 - k * U))) if k * U < 0.5 else np.inf


def magnitude(x: Array) -> Array:
    """Return at least |x|: exactly |x| if x is real. hypot is wrong by less than 3 u."""
    return up(abs(x) * (1 + 8 * U)) if x.dtype.kind == "c" else abs(x)


def apply(matrix: Array, v: Array | None = None) -> Array:
    """Return at least the product of a nonnegative matrix and a vector, by default of ones, or a matrix.

    Summed in any order, k products s satisfy s >= (1 - u)**k (exact) - kη (Higham 2002, section 3.1). Two
    more roundings lose (1 - u)**2, and η.
    """
    k = matrix.shape[1]
    v = namespace(matrix).ones(k) if v is None else v
    return classical(matrix, v) * (1 + 2 * (k + 4) * U) + 2 * (k + 1) * ETA


def from_one(product: Array) -> Callable[..., Array]:
    """Return a function of v, by default ones: at least |I - C|·v, where the subtraction is rounded."""
    size = magnitude(namespace(product).eye(len(product)) - product)
    return lambda v=None: apply(size, v) * (1 + 4 * U)


def largest(x: Array) -> float:
    """Return the largest element, NaN if there is one, and 0 of an empty array."""
    return float(x.max()) if x.size else 0.0


def norms(x: Array, axis: int) -> Array:
    """Return at least the 2-norms of a real array's vectors along an axis."""
    xp = namespace(x)
    widest = backwards(x, axis).max(axis=axis, keepdims=True)
    unit = xp.ldexp(xp.ones_like(widest), xp.frexp(widest)[1])
    scaled = x / unit
    squares = up((scaled * scaled).sum(axis=axis) * (1 + 2 * (x.shape[axis] + 4) * U)) + ETA
    return up(up(xp.sqrt(squares)) * xp.squeeze(unit, axis))


def spectral_norm(size: Array) -> float:
    """Return √(‖M‖₁‖M‖∞), which is at least ‖M‖₂, of a nonnegative matrix."""
    return root(up(largest(apply(size)) * largest(apply(size.T))))
