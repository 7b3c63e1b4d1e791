"""Functions of rows of JAX arrays, differentiable: softmax and norms of layers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from multiword.runtime.options import axes, integer
from ozaki.jax.elementary import DTYPES
from ozaki.jax.functions import checked
from ozaki.jax.primitives import LAYER_NORM, LOG_SOFTMAX, LOGSUMEXP, RMS_NORM, SOFTMAX


def softmax(x: Any, axis: int = -1) -> jax.Array:
    """Return e**x / Σ e**x along an axis; differentiable.

    As `ozaki.softmax`; differs in the default axis, the last.

    Parameters
    ----------
    x : array of float16, bfloat16, float32, or with `jax_enable_x64` float64.
    axis : the axis that is summed over.

    Raises
    ------
    TypeError : another dtype. ValueError : an axis that x does not have.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.softmax(jnp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return _along(SOFTMAX, x, axis)


def log_softmax(x: Any, axis: int = -1) -> jax.Array:
    """Return x − log Σ e**x along an axis; differentiable.

    As `ozaki.log_softmax`; differs as `ozaki.jax.softmax` does.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.log_softmax(jnp.array([0.0, 1000.0])).tolist()
    [-1000.0, 0.0]
    """
    return _along(LOG_SOFTMAX, x, axis)


def logsumexp(x: Any, axis: int = -1, keepdims: bool = False) -> jax.Array:
    """Return log Σ e**x along an axis; differentiable.

    As `ozaki.logsumexp`; differs as `ozaki.jax.softmax` does.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> float(ozaki.jax.logsumexp(jnp.array([0.0, -1000.0])))
    0.0
    """
    result = _along(LOGSUMEXP, x, axis)
    return result if keepdims else jnp.squeeze(result, axis)


def layer_norm(x: Any, axis: int = -1, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> jax.Array:
    """Return (x − mean) / √(var + eps)·weight + bias along an axis; differentiable.

    As `ozaki.layer_norm`; differs as `ozaki.jax.softmax` does; weight and bias are vectors of x's dtype.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.layer_norm(jnp.array([1.0, 3.0]), eps=0.0).tolist()
    [-1.0, 1.0]
    """
    return _along(LAYER_NORM, x, axis, weight, bias, eps=float(eps))


def rms_norm(x: Any, axis: int = -1, weight: Any = None, eps: float = 1e-5) -> jax.Array:
    """Return x / √(mean x² + eps)·weight along an axis; differentiable.

    As `ozaki.rms_norm`; differs as `ozaki.jax.layer_norm` does.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> ozaki.jax.rms_norm(jnp.array([3.0, -3.0]), eps=0.0).tolist()
    [1.0, -1.0]
    """
    return _along(RMS_NORM, x, axis, weight, eps=float(eps))


def _along(
    primitive: Primitive, x: Any, axis: int, weight: Any = None, bias: Any = None, **options: Any
) -> jax.Array:
    array = checked("x", x, DTYPES)
    (place,) = axes("axis", integer("axis", axis), array.ndim)
    result = primitive.bind(jnp.moveaxis(array, place, -1), **options)
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None:
            values = checked(name, given, DTYPES)
            if values.dtype != array.dtype or values.shape != array.shape[place : place + 1]:
                raise TypeError(
                    f"{name} must be {array.dtype} of the axis's length, got {values.dtype} of {values.shape}"
                )
            result = result * values if name == "weight" else result + values
    return jnp.moveaxis(result, -1, place)
