"""The primitives of JAX under the functions: what they compute, their shapes, batches and derivatives.

A product is linear in either factor, and a sum is linear, so that JAX makes all derivatives of the transposed
products and sums below; these are primitives again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import ozaki.sums.api as sums
from ozaki import api
from ozaki.elementary.derivatives import derivative
from ozaki.rowwise import api as rowwise
from ozaki.sums import statistics
from ozaki.sums.arguments import reduced_shape


def _primitive(
    name: str, compute: Callable[..., Any], shape: Callable[..., tuple[int, ...]], batched: Callable[..., Any]
) -> Primitive:
    """Return a primitive: compute makes an array of NumPy arrays, shape its shape of theirs.

    batched makes, of options, those for arrays with a batch in front.
    """
    primitive = Primitive(f"ozaki_{name}")

    def on_host(*arrays: Any, **options: Any) -> np.ndarray:
        return np.asarray(compute(*map(np.asarray, arrays), **options))

    def call(*arrays: Any, **options: Any) -> jax.Array:
        result = jax.ShapeDtypeStruct(shape(*(x.shape for x in arrays), **options), arrays[0].dtype)
        return jax.pure_callback(partial(on_host, **options), result, *arrays, vmap_method="sequential")

    def abstract(*avals: Any, **options: Any) -> Any:
        return avals[0].update(shape=shape(*(x.shape for x in avals), **options))

    def mapped(
        arrays: Sequence[Any], positions: Sequence[int | None], /, **options: Any
    ) -> tuple[jax.Array, int]:
        pairs = list(zip(arrays, positions, strict=True))
        ndim = max(x.ndim - (axis is not None) for x, axis in pairs)
        moved = (x if axis is None else _batch_first(x, axis, ndim) for x, axis in pairs)
        return primitive.bind(*moved, **batched(**options)), 0

    primitive.def_impl(call)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(call, multiple_results=False))
    batching.primitive_batchers[primitive] = mapped
    return primitive


def _batch_first(x: jax.Array, axis: int, ndim: int) -> jax.Array:
    """Return an array with its batch in front of ndim other axes; arrays without one broadcast."""
    moved = jnp.moveaxis(x, axis, 0)
    return moved.reshape(moved.shape[0], *[1] * (ndim - moved.ndim + 1), *moved.shape[1:])


def _reduction(name: str, reduce: Callable[..., Any], weight: Callable[[int], float]) -> Primitive:
    """Return a linear reduction, which divides a sum of n numbers by weight(n)."""

    def repeated(ct: Any, x: Any, axes: tuple[int, ...]) -> list[jax.Array]:
        wide = jnp.expand_dims(ct, axes) / weight(prod(x.aval.shape[a] for a in axes))
        return [jnp.broadcast_to(wide, x.aval.shape)]

    primitive = _primitive(
        name,
        lambda x, axes: reduce(x, axes),
        lambda shape, axes: reduced_shape(shape, axes, False),
        lambda axes: {"axes": tuple(a + 1 for a in axes)},
    )
    ad.deflinear2(primitive, repeated)
    return primitive


def _product_shape(a: tuple[int, ...], b: tuple[int, ...], accuracy: Any) -> tuple[int, ...]:
    return (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


def _summed_to(x: Any, gradient: jax.Array) -> jax.Array:
    """Return a gradient summed over the axes in which x broadcasts."""
    shape = x.aval.shape
    more = gradient.ndim - len(shape)
    axes = tuple(a for a, n in enumerate(gradient.shape) if n != 1 and (a < more or shape[a - more] == 1))
    return (SUM.bind(gradient, axes=axes) if axes else gradient).reshape(shape)


def _transposed(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, -1, -2)


MATMUL = _primitive("matmul", api.matmul, _product_shape, lambda accuracy: {"accuracy": accuracy})
"""The product of matrices, or of stacks that broadcast."""

ad.defbilinear(
    MATMUL,
    lambda ct, a, b, accuracy: _summed_to(a, MATMUL.bind(ct, _transposed(b), accuracy=accuracy)),
    lambda ct, a, b, accuracy: _summed_to(b, MATMUL.bind(_transposed(a), ct, accuracy=accuracy)),
)

SUM = _reduction("sum", sums.sum, lambda count: 1)
MEAN = _reduction("mean", sums.mean, lambda count: count)
"""The sum and the mean over axes, correctly rounded."""


def _averaged(x: np.ndarray, weights: np.ndarray, axes: tuple[int, ...]) -> Any:
    x, weights = np.broadcast_arrays(x, weights)  # one of them may lack a batch
    return statistics.average(x, axes, weights)


AVERAGE = _primitive(
    "average",
    _averaged,
    lambda *shapes, axes: reduced_shape(np.broadcast_shapes(*shapes), axes, False),
    lambda axes: {"axes": tuple(a + 1 for a in axes)},
)
"""The mean over axes by weights that broadcast, correctly rounded."""


SPREAD = _primitive(
    "spread",
    lambda x, like: np.broadcast_to(x, np.broadcast_shapes(x.shape, like.shape)),
    np.broadcast_shapes,
    dict,
)
"""An array, repeated to the shape of another: its derivative is a sum of this library."""

ad.defjvp(SPREAD, lambda dx, x, like: SPREAD.bind(dx, like), None)
ad.primitive_transposes[SPREAD] = lambda ct, x, like: (_summed_to(x, ct), None)


def _of_average(arrays: Sequence[Any], tangents: Sequence[Any], axes: tuple[int, ...]) -> tuple[Any, Any]:
    """dA = Σ (w·dx + (x - A)·dw) / Σ w."""
    (x, weights), (dx, dw) = arrays, map(ad.instantiate_zeros, tangents)
    result, spread = AVERAGE.bind(x, weights, axes=axes), SPREAD.bind(weights, x)
    of_w = (x - SPREAD.bind(jnp.expand_dims(result, axes), x)) * SPREAD.bind(dw, x)
    return result, SUM.bind(spread * dx + of_w, axes=axes) / SUM.bind(spread, axes=axes)


ad.primitive_jvps[AVERAGE] = _of_average


ELEMENTARY = _primitive(
    "elementary",
    lambda *x, name, orders: derivative(name, orders, *x),
    lambda *shapes, name, orders: np.broadcast_shapes(*shapes),
    lambda **options: options,
)
"""A function's partial derivative of so many orders in each argument, itself for none."""


def _of_elementary(
    arrays: Sequence[Any], tangents: Sequence[Any], name: str, orders: tuple[int, ...]
) -> tuple[Any, Any]:
    result = ELEMENTARY.bind(*arrays, name=name, orders=orders)
    total: Any = None
    for i, dx in enumerate(tangents):
        if type(dx) is not ad.Zero:
            higher = tuple(n + (i == j) for j, n in enumerate(orders))
            spread = dx if dx.shape == result.shape else SPREAD.bind(dx, result)
            part = ELEMENTARY.bind(*arrays, name=name, orders=higher) * spread
            total = part if total is None else total + part
    return result, total


ad.primitive_jvps[ELEMENTARY] = _of_elementary


def _of_rows(name: str, tangent: Callable[..., jax.Array]) -> Primitive:
    """Return the primitive of a function of rows of the last axis: tangent(x, y, dx, **options) is dy."""
    kept = {"keepdims": True} if name == "logsumexp" else {}
    primitive = _primitive(
        name,
        lambda x, **options: getattr(rowwise, name)(x, -1, **kept, **options),
        lambda shape, **options: (*shape[:-1], 1) if kept else shape,
        lambda **options: options,
    )

    def derivative(arrays: Any, tangents: Any, **options: Any) -> tuple[jax.Array, jax.Array]:
        result = primitive.bind(*arrays, **options)
        return result, tangent(*arrays, result, *map(ad.instantiate_zeros, tangents), **options)

    ad.primitive_jvps[primitive] = derivative
    return primitive


def _total(x: jax.Array) -> jax.Array:
    """The sums of rows, as a column; of halves in float32."""
    wide = x.astype(jnp.float32) if x.dtype.itemsize == 2 else x
    return jnp.expand_dims(SUM.bind(wide, axes=(x.ndim - 1,)), -1).astype(x.dtype)


def _of_layer_norm(x: jax.Array, y: jax.Array, dx: jax.Array, eps: float) -> jax.Array:
    """r·(dx − mean dx − y·mean(y·dx)), r = 1/√(mean d² + eps), d = x − mean x."""
    n = x.shape[-1]
    centred = x - _total(x) / n
    scale = ELEMENTARY.bind(_total(centred * centred) / n + eps, name="rsqrt", orders=(0,))
    return (dx - _total(dx) / n - y * (_total(y * dx) / n)) * scale


def _of_rms_norm(x: jax.Array, y: jax.Array, dx: jax.Array, eps: float) -> jax.Array:
    """r·(dx − y·mean(y·dx)), r = 1/√(mean x² + eps)."""
    n = x.shape[-1]
    scale = ELEMENTARY.bind(_total(x * x) / n + eps, name="rsqrt", orders=(0,))
    return (dx - y * (_total(y * dx) / n)) * scale


SOFTMAX = _of_rows("softmax", lambda x, y, dx: y * (dx - _total(y * dx)))
LOG_SOFTMAX = _of_rows("log_softmax", lambda x, y, dx: dx - _total(SOFTMAX.bind(x) * dx))
LOGSUMEXP = _of_rows("logsumexp", lambda x, y, dx: _total(SOFTMAX.bind(x) * dx))
LAYER_NORM = _of_rows("layer_norm", _of_layer_norm)
RMS_NORM = _of_rows("rms_norm", _of_rms_norm)
