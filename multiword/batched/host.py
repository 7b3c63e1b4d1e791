"""The definition of the batched product, in NumPy. Every kernel must agree with it within its bound."""

from __future__ import annotations

import numpy as np

from multiword.batched.problem import Problem, Stack
from multiword.runtime.arrays import Array, namespace, quietly


def multiply(problem: Problem) -> np.ndarray:
    """Return alpha·op(A)·op(B) + beta·C in the word format, a new array of `stored_shape`."""
    with quietly(problem.a.first):
        if problem.alpha == 0 or problem.mnk[2] == 0:
            # As in the BLAS: nothing of A and B, not even a NaN, reaches the result.
            product = np.zeros(problem.stored_shape, np.float32)
        else:
            product = accumulated(real_rows(problem.a), real_columns(problem.b), problem.accumulate)
            product = product.reshape(problem.stored_shape)
        result = scaled(problem, product)
        return result.astype(problem.word)


def real_rows(a: Stack) -> Array:
    """Return A as real float32 matrices: (..., m, k), or (..., m, 2k) with the pairs side by side."""
    x = _float32(a)
    return x.reshape(*x.shape[:-2], 2 * x.shape[-2]) if a.complex else x


def _float32(stack: Stack) -> np.ndarray:
    x = stack.stacked(np).astype(np.float32)
    if stack.conjugate:
        x[..., 1] *= -1
    return x


def real_columns(b: Stack) -> Array:
    """Return B as real float32 matrices: (..., k, n), or (..., 2k, 2n) with every entry a 2×2 block.

    An entry re + i·im becomes [[re, im], [−im, re]], which multiplies an interleaved row
    from the right (algorithms 5): C needs no rearrangement.
    """
    x = _float32(b)
    if not b.complex:
        return x
    *batch, k, n, _ = x.shape
    blocks = np.empty((*batch, k, 2, n, 2), np.float32)
    blocks[..., 0, :, :] = x
    blocks[..., 1, :, 0], blocks[..., 1, :, 1] = -x[..., 1], x[..., 0]
    return blocks.reshape(*batch, 2 * k, 2 * n)


def accumulated(a: np.ndarray, b: np.ndarray, accumulate: str) -> np.ndarray:
    """Return A·B in float32, or with every partial sum rounded to fp16.

    The fp16 accumulator takes the terms in order, one fused multiply-add each. float64 is
    wide enough to make that exact: a term has 22 significant bits and a sum 11, and where
    they lie too far apart for 53 bits the smaller one cannot reach a rounding boundary.
    """
    if accumulate == "fp32":
        return np.matmul(a, b)
    total = np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1]), np.float16)
    a, b = a.astype(np.float64), b.astype(np.float64)
    for h in range(a.shape[-1]):
        total = (total + a[..., :, h : h + 1] * b[..., h : h + 1, :]).astype(np.float16)
    return total.astype(np.float32)


def scaled(problem: Problem, product: Array) -> Array:
    """Return alpha·product + beta·C in float32; alpha and beta are of the accumulation format."""
    result = _times(problem.alpha, product, problem)
    if problem.c is not None:
        result = result + _times(problem.beta, problem.c.astype(np.float32), problem)
    return result


def _times(scalar: float | complex, x: Array, problem: Problem) -> Array:
    """Return scalar·x, part by part if the scalar is real: an infinity stays in its own part."""
    kind = np.float16 if problem.accumulate == "fp16" else np.float32
    re, im = (np.float32(kind(part)) for part in (np.real(scalar), np.imag(scalar)))
    if isinstance(scalar, float):
        return re * x
    return namespace(x).stack([re * x[..., 0] - im * x[..., 1], re * x[..., 1] + im * x[..., 0]], axis=-1)
