"""What the differentiable functions of `ozaki.torch` and `ozaki.jax` have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ozaki.arguments import check_accuracy, matrices_of
from ozaki.product.request import CERTIFIED
from ozaki.sums.arguments import broadcast_shape


def product(a: Any, b: Any, accuracy: str | int, multiply: Callable[[Any, Any], Any]) -> Any:
    """Return a product of PyTorch's tensors, or JAX's arrays, by a function of stacks of matrices.

    A stack times one matrix is one product of all its rows where an element depends on its row and column
    alone, and not where "fp64" and "fp32" certify each matrix of the stack on its own.
    """
    left, right, _ = matrices_of(a, b)
    check_accuracy(accuracy)
    rows = left.shape[:-1]
    folded = left.ndim > 2 == right.ndim and accuracy not in CERTIFIED
    result = multiply(left.reshape(prod(rows), left.shape[-1]) if folded else left, right)
    result = result.reshape(*rows, right.shape[-1]) if folded else result
    result = result[..., 0, :] if a.ndim == 1 else result
    return result[..., 0] if b.ndim == 1 else result


def weights_along(x: Any, weights: Any, axes: Sequence[int]) -> Any:
    """Return weights in a shape that broadcasts to that of x. ValueError for others.

    A vector of the length of a single axis lies along it.
    """
    if weights.ndim == 1 < x.ndim and len(axes) == 1 and len(weights) == x.shape[axes[0]]:
        weights = weights.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])
    if broadcast_shape(x=tuple(x.shape), weights=tuple(weights.shape)) != tuple(x.shape):
        raise ValueError(
            f"weights must broadcast to x, got shapes {tuple(weights.shape)} and {tuple(x.shape)}"
        )
    return weights
