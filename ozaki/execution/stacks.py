"""Stacks of matrices, as they are given to the executors."""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, quietly
from multiword.runtime.compiled import compiling
from multiword.runtime.memory import padded
from ozaki.execution.executors import multiply, product
from ozaki.execution.in_floats import takes_no_widening
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.tuning import COPY_SHARE, FEWEST_ROWS, LARGEST_IN_A_STACK_ON_DEVICE

COLUMNS = 4
"""Columns of a product are padded to a multiple of this, which cuBLAS asks of int8 operands."""

AT_ONCE = 1 << 15
"""Products of a stack that a GPU computes at once: a grid has at most twice as many blocks across."""


def multiply_stacks(left: Array, right: Array, request: Request) -> Array:
    """Return the (..., m, n) products of (..., m, k) and (..., k, n) stacks of one shape and dtype."""
    if left.ndim == 2:
        return multiply(Factor(left, 0), Factor(right, 1), 1.0, None, None, request, None)
    (*batch, m, k), n, s = left.shape, right.shape[-1], math.prod(left.shape[:-2])
    with quietly(left):
        if not s * m * n * k:
            return namespace(left).zeros((*batch, m, n), left.dtype)
        a, b = left.reshape(s, m, k), right.reshape(s, k, n)
        if s > 1 and not is_cupy(left) and (one := _as_one(a, b, request)) is not None:
            return one.reshape(*batch, m, n)
        if s > 1 and is_cupy(left) and m * n * k <= LARGEST_IN_A_STACK_ON_DEVICE:
            out = _on_device(a, b, request)
        else:
            out = _together(a, b, request)
        return out.reshape(*batch, m, n)


def _together(a: Array, b: Array, request: Request) -> Array:
    """Return the (s, m, n) products of (s, m, k) and (s, k, n) matrices."""
    s = len(a)
    if s == 1:
        return product(Pair.of(Factor(a[0], 0), Factor(b[0], 1), request))[None]
    return product(Pair(Factor(a, 0, stack=s), Factor(b, 1, stack=s), request))


def _as_one(a: np.ndarray, b: np.ndarray, request: Request) -> np.ndarray | None:
    """Return the products as rows of one product, where they share a matrix and have the same bits so.

    The scale of a row is its own, but for the bits by which integers grow, of which each product has its own:
    if the counting bound proves that all rows together need none, it does so for each product.
    """
    if b.strides[0] == 0:
        many, one = a, b[0]
    elif a.strides[0] == 0:
        many, one = b.swapaxes(1, 2), a[0].T
    else:
        return None
    if COPY_SHARE * many.nbytes > request.workspace and not many.flags.c_contiguous:
        return None
    s, rows, k = many.shape
    if s * rows < FEWEST_ROWS:  # to measure them takes longer than it saves
        return None
    pair = Pair(Factor(many.reshape(s * rows, k), 0), Factor(one, 1), request)
    if request.certified and not (compiling() and takes_no_widening(pair)):
        return None
    out = product(pair).reshape(s, rows, -1)
    return out if many is a else np.ascontiguousarray(out.swapaxes(1, 2))


def _on_device(a: Array, b: Array, request: Request) -> Array:
    """Return the products on a GPU, `AT_ONCE` at a time, padded to the right."""
    (s, k, n), xp = b.shape, namespace(b)
    width, results = padded(n, COLUMNS), list[Array]()
    for i in range(0, s, AT_ONCE):
        some = slice(i, min(i + AT_ONCE, s))
        part = b[some]
        if width > n:
            columns = xp.zeros((len(part), width, k), b.dtype)
            columns[:, :n] = part.swapaxes(-1, -2)
            part = columns.swapaxes(-1, -2)
        out = _together(a[some], part, request)
        results.append(out if width == n else xp.ascontiguousarray(out[:, :, :n]))
    return results[0] if len(results) == 1 else xp.concatenate(results)
