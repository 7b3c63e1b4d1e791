"""Elementary functions of JAX arrays, differentiable; the public ones follow from the records of `ozaki`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ozaki.differentiable import elementary_forms, parts
from ozaki.elementary import PARTS
from ozaki.jax.functions import checked
from ozaki.jax.primitives import ELEMENTARY as PRIMITIVE

DTYPES = ("float16", "bfloat16", "float32", "float64")


COMPLEX = ("complex64", "complex128")


def _computed(name: str, *x: Any) -> jax.Array:
    if name in PARTS and is_complex(x[0]):
        return jax.lax.complex(*_parts(name, x[0]))
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


def is_complex(x: Any) -> bool:
    return str(getattr(x, "dtype", "")) in COMPLEX


def _parts(name: str, x: Any) -> list[jax.Array]:
    """Return the parts of a function's values of complex numbers, or of real ones that it takes for such."""
    array = checked("x", x, (*DTYPES, *COMPLEX))
    plane = (array.real, array.imag) if is_complex(array) else (array, jnp.zeros_like(array))
    return parts(name, *plane, _computed)


def abs(x: Any) -> jax.Array:
    """Return |x|, correctly rounded, differentiable.

    As `ozaki.abs`; differs in taking JAX's arrays, and in having derivatives of every order, 0 at 0, which
    are made of functions of this library in float64.

    Parameters
    ----------
    x : array of float16, bfloat16, float32, complex64, or with `jax_enable_x64` float64 or complex128.

    Raises
    ------
    TypeError : another dtype.

    >>> import jax, jax.numpy as jnp, ozaki.jax
    >>> x = jnp.array([3 + 4j], jnp.complex64)
    >>> jax.grad(lambda x: ozaki.jax.abs(x).sum())(x).tolist() == [jnp.complex64(0.6 - 0.8j)]
    True
    """
    return _but_for_zero("abs", x)


def angle(x: Any) -> jax.Array:
    """Return the angle of x in the complex plane, from -π to π, correctly rounded, differentiable.

    As `ozaki.jax.abs`; differs in the function, `ozaki.jax.atan2(x.imag, x.real)`.

    >>> import jax.numpy as jnp, ozaki.jax
    >>> float(ozaki.jax.angle(jnp.array(-1.0, jnp.float32)))
    3.1415927410125732
    """
    return _but_for_zero("angle", x)


def _but_for_zero(name: str, x: Any) -> jax.Array:
    """Return values of a function that has no derivative at zero: 0 is taken for it."""
    (value,), zero = _parts(name, jax.lax.stop_gradient(x)), x == 0
    (of_others,) = _parts(name, jnp.where(zero, jnp.ones_like(x), x))
    return jnp.where(zero, value, of_others)


_EXAMPLE = """
    >>> import jax, jax.numpy as jnp, ozaki.jax
    >>> x = jnp.array([0.5, 0.75], jnp.float32)
    >>> jax.grad(lambda x: ozaki.jax.{0}({1}).sum())(x).dtype
    dtype('float32')
"""

ELEMENTARY = {
    **elementary_forms("ozaki.jax", "arrays", _EXAMPLE, _computed),
    "abs": abs,
    "angle": angle,
}
"""The elementary functions, by name."""
