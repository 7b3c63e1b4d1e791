"""Elementary functions of JAX arrays, differentiable; the public ones follow from the records of `ozaki`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ozaki.differentiable import elementary_forms
from ozaki.jax.functions import checked
from ozaki.jax.primitives import ELEMENTARY as PRIMITIVE

DTYPES = ("float16", "bfloat16", "float32", "float64")


def _computed(name: str, *x: Any) -> jax.Array:
    counted = [v for v in x if not isinstance(v, int | float)] or x  # a number takes the dtype of the other
    arrays = [checked("x", v, DTYPES) for v in counted]
    dtype = arrays[0].dtype
    if any(a.dtype != dtype for a in arrays):
        raise TypeError(f"x and y must have one dtype, got {' and '.join(str(a.dtype) for a in arrays)}")
    arrays = [jnp.asarray(v, dtype) for v in x]
    jnp.broadcast_shapes(*(a.shape for a in arrays))
    ndim = max(a.ndim for a in arrays)
    arrays = [jnp.expand_dims(a, tuple(range(ndim - a.ndim))) for a in arrays]
    return PRIMITIVE.bind(*arrays, name=name, orders=(0,) * len(arrays))


_EXAMPLE = """
    >>> import jax, jax.numpy as jnp, ozaki.jax
    >>> x = jnp.array([0.5, 0.75], jnp.float32)
    >>> jax.grad(lambda x: ozaki.jax.{0}({1}).sum())(x).dtype
    dtype('float32')
"""

ELEMENTARY = elementary_forms("ozaki.jax", "arrays", _EXAMPLE, _computed)
"""The elementary functions, by name."""
