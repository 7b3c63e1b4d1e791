"""Products, sums and means of JAX arrays, computed by this library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from multiword.runtime.arrays import as_array
from ozaki.differentiable import product, weights_along
from ozaki.jax.primitives import AVERAGE, MATMUL, MEAN, SUM
from ozaki.product.request import NORMWISE
from ozaki.sums.arguments import axes_of

DTYPES = ("float32", "float64", "complex64", "complex128")


def matmul(a: Any, b: Any, *, accuracy: str | int | None = None) -> jax.Array:
    """Multiply stacks of matrices, and vectors; differentiable.

    As `ozaki.matmul`; differs in the default accuracy, "normwise".

    Parameters
    ----------
    a, b : (..., m, k) and (..., k, n) arrays whose leading axes broadcast, or vectors. Both of one dtype:
        float32, complex64, or with `jax_enable_x64` float64 or complex128.
    accuracy : as in `ozaki.matmul`; that of the derivatives, too.

    Returns
    -------
    (..., m, n) array of their dtype.

    Raises
    ------
    TypeError : other dtypes, or two. ValueError : shapes that do not fit; an unknown accuracy.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, ozaki.jax
    >>> a, b = jnp.array([[1e8, 1.0, -1e8]], jnp.float32), jnp.ones((3, 1), jnp.float32)
    >>> jax.jit(ozaki.jax.matmul)(a, b)
    Array([[1.]], dtype=float32)
    >>> jax.grad(lambda a: ozaki.jax.matmul(a, b)[0, 0])(a)
    Array([[1., 1., 1.]], dtype=float32)
    """
    x, y = checked("a", a), checked("b", b)
    if x.dtype != y.dtype:
        raise TypeError(f"a and b must have one dtype, got {x.dtype} and {y.dtype}")
    accuracy = NORMWISE if accuracy is None else accuracy
    return product(x, y, accuracy, partial(MATMUL.bind, accuracy=accuracy))


def sum(x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> jax.Array:
    """Return the sum over axes, correctly rounded; differentiable.

    As `ozaki.sum`; differs in having no dtype and no out.

    Parameters
    ----------
    x : array of float32, complex64, or with `jax_enable_x64` float64 or complex128.
    axis : one or several axes; None for all.
    keepdims : whether they are kept with length 1.

    Raises
    ------
    TypeError : another dtype. ValueError : an axis that x does not have, or one twice.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.sum(jnp.array([1e8, 1.0, -1e8], jnp.float32))
    Array(1., dtype=float32)
    """
    return _reduced(SUM, x, axis, keepdims)


def mean(x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> jax.Array:
    """Return the mean over axes, correctly rounded; differentiable.

    As `ozaki.jax.sum`; differs in dividing, and is NaN for nothing.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.mean(jnp.array([1e8, 1.0, -1e8, 1.0], jnp.float32))
    Array(0.5, dtype=float32)
    """
    return _reduced(MEAN, x, axis, keepdims)


def average(
    x: Any, axis: int | Sequence[int] | None = None, weights: Any = None, keepdims: bool = False
) -> jax.Array:
    """Return the weighted mean over axes, correctly rounded; differentiable in x and the weights.

    As `ozaki.average`; differs in the dtypes, those of `ozaki.jax.sum`.

    Parameters
    ----------
    weights : array of the dtype of x, or of its real part, that broadcasts to it; or, over a single axis, a
        vector of its length. None weighs all alike.

    Raises
    ------
    TypeError, ValueError : as `ozaki.jax.sum`; for weights of another dtype or shape.
    ZeroDivisionError, in a callback : weights that sum to exactly zero.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.average(jnp.array([1e30, 3.0, -1e30]), weights=jnp.array([1.0, 2.0, 1.0]))
    Array(1.5, dtype=float32)
    """
    if weights is None:
        return mean(x, axis, keepdims)
    array, by = checked("x", x), checked("weights", weights)
    if by.dtype != array.real.dtype:
        raise TypeError(f"weights must be of {array.real.dtype}, got {by.dtype}")
    axes = _axes(axis, array.ndim)
    by = weights_along(array, by, axes)
    by = jnp.expand_dims(by, tuple(range(array.ndim - by.ndim)))
    result = AVERAGE.bind(array, by, axes=axes)
    return jnp.expand_dims(result, axes) if keepdims else result


def checked(name: str, x: Any, dtypes: Sequence[str] = DTYPES) -> jax.Array:
    """Return an argument as an array of one of these dtypes. TypeError for another."""
    of_jax = isinstance(x, jax.Array) or hasattr(x, "__jax_array__")
    array = jnp.asarray(x if of_jax else as_array(x, name))
    if array.dtype.name not in dtypes:
        raise TypeError(f"{name} must be an array of {', '.join(dtypes)}; got {array.dtype}")
    return array


def _reduced(reduction: Primitive, x: Any, axis: int | Sequence[int] | None, keepdims: bool) -> jax.Array:
    array = checked("x", x)
    axes = _axes(axis, array.ndim)
    result = reduction.bind(array, axes=axes)
    return jnp.expand_dims(result, axes) if keepdims else result


def _axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    return tuple(sorted(axes_of(tuple(axis) if isinstance(axis, Sequence) else axis, ndim)))
