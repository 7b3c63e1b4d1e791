"""Tensors in, tensors out: the public functions of arrays on PyTorch's tensors and JAX's arrays.

They are taken as NumPy or CuPy arrays in the same memory, and the result is handed back in the same way.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from math import prod
from typing import Any, TypeVar, cast

import ml_dtypes
import numpy as np

from multiword.runtime.arrays import import_cupy, is_cupy
from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of
from ozaki.arguments import check_accuracy, matrices_of
from ozaki.product.request import CERTIFIED
from ozaki.sums.arguments import broadcast_shape

F = TypeVar("F", bound=Callable[..., Any])

_GEMMS = dict.fromkeys(("accurate_sgemm", "accurate_dgemm", "accurate_cgemm", "accurate_zgemm"), "matmul")
_SAME = {name: name for name in ("matmul", "sum", "mean", "average")}
DIFFERENTIABLE = {
    "torch": {**_GEMMS, **_SAME, "dot": "dot", "vdot": "vdot"},
    "jax": {**_GEMMS, **_SAME},
}
"""The functions of `ozaki.torch` and `ozaki.jax` that have derivatives, by those that have not."""


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


def takes_tensors(function: F) -> F:
    """Make a function of arrays one of PyTorch's tensors and of JAX's arrays, too, which returns their kind.

    Tuples of them, as sums of words are, are taken as well. Raises TypeError where kinds are mixed, for
    tensors that require a gradient, for values that JAX traces, and for what is not strided or on another
    kind of device.
    """

    names = list(inspect.signature(function).parameters)
    place_of_out = names.index("out") if "out" in names else None

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if "torch" not in sys.modules and "jax" not in sys.modules:
            return function(*arguments, **options)
        every = (*arguments, *options.values())
        flat = [x for argument in every for x in (argument if isinstance(argument, tuple) else (argument,))]
        kinds = set(map(_kind, flat))
        if "PyTorch" not in kinds and "JAX" not in kinds:
            return function(*arguments, **options)
        kinds.discard(None)
        if len(kinds) > 1:
            raise TypeError(
                f"arrays must be of one kind, but they are {' and '.join(sorted(map(str, kinds)))}"
            )
        pytorch = "PyTorch" in kinds
        if place_of_out is not None:
            given = arguments[place_of_out] if place_of_out < len(arguments) else options.get("out")
            _check_out(given, pytorch)
        first = next(x for x in flat if _kind(x))
        own, back = (_of_pytorch, tensor_of) if pytorch else (_of_jax, _to_jax)
        with stream_of(first) if pytorch else nullcontext():
            own = partial(own, name=function.__name__)
            arrays = [tuple(map(own, x)) if isinstance(x, tuple) else own(x) for x in every]
            named = dict(zip(options, arrays[len(arguments) :], strict=True))
            result = function(*arrays[: len(arguments)], **named)
            out = next((x for x, array in zip(every, arrays, strict=True) if array is result), None)
            return _returned(result, back) if out is None else _written(out, result)

    return cast(F, call)


def _check_out(out: Any, pytorch: bool) -> None:
    """Raise TypeError for an `out` that is not of the operands' kind, before anything is computed."""
    if out is None or (pytorch and _kind(out) == "PyTorch"):
        return
    if not pytorch and _kind(out) == "JAX":
        raise TypeError("JAX's arrays cannot be written to: leave out=None, and take what is returned")
    operands = "PyTorch tensors" if pytorch else "JAX arrays"
    raise TypeError(f"out must be None or of the operands' kind, {operands}, got {type(out).__name__}")


def _kind(x: Any) -> str | None:
    """Return the library of an array; None for numbers, sequences and all else."""
    if x is None or isinstance(x, _PLAIN):
        return None
    if is_cupy(x):
        return "CuPy"
    if isinstance(x, np.ndarray):
        return "NumPy" if x.ndim else None
    return next((kind for kind, loaded in _CLASSES.items() if isinstance(x, loaded())), None)


def _class(module: str, name: str) -> Callable[[], Any]:
    """Return a function that finds a class of a module if that is imported, perhaps in part; else ()."""
    return lambda: getattr(sys.modules.get(module), name, ())


_CLASSES = {"PyTorch": _class("torch", "Tensor"), "JAX": _class("jax", "Array")}


_PLAIN = (str, int, float, complex)
"""The types of most options: asking PyTorch about them takes longer."""


def unsupported(x: Any) -> str | None:
    """Return a description of a tensor that is no strided array; None if it is one."""
    if x.is_nested:
        return "a nested tensor"
    if isinstance(x, sys.modules["torch"].masked.MaskedTensor):
        return "a masked tensor"
    strided = x.layout is sys.modules["torch"].strided and not x.is_quantized
    if strided and str(x.dtype).startswith(("torch.complex32", "torch.float8", "torch.float4")):
        return f"{x.dtype}; convert it first: x.to(torch.{'complex64' if x.is_complex() else 'float32'})"
    return None if strided else f"{x.layout} of {x.dtype}"


def _of_pytorch(x: Any, name: str) -> Any:
    torch = sys.modules["torch"]
    if not isinstance(x, torch.Tensor):
        return numpy_dtype(x) if isinstance(x, torch.dtype) else x
    if got := unsupported(x) or (None if x.is_cpu or x.is_cuda else f"a tensor on {x.device}"):
        raise TypeError(f"ozaki.{name} takes strided tensors on the CPU or an NVIDIA GPU, got {got}")
    if x.requires_grad and torch.is_grad_enabled():
        raise TypeError(_refused(name, "has no gradient", "torch", "detach the tensor: x.detach()"))
    return array_of(x)


def _of_jax(x: Any, name: str) -> Any:
    jax = sys.modules["jax"]
    if isinstance(x, jax.core.Tracer):
        raise TypeError(_refused(name, "cannot be traced", "jax", "call it outside jit, vmap and grad"))
    if not isinstance(x, jax.Array):
        return x
    (device,) = x.devices() if len(x.devices()) == 1 else (None,)
    if device is None or device.platform not in ("cpu", "gpu"):
        raise TypeError(f"ozaki.{name} takes arrays on one device, a CPU or an NVIDIA GPU; got {x.sharding}")
    return np.asarray(x) if device.platform == "cpu" else import_cupy().from_dlpack(x)


def _refused(name: str, why: str, module: str, remedy: str) -> str:
    instead = DIFFERENTIABLE[module].get(name)
    return f"ozaki.{name} {why}: {f'use ozaki.{module}.{instead}, or ' if instead else ''}{remedy}"


def _to_jax(array: Any) -> Any:
    import jax.numpy as jnp

    plain = isinstance(array, np.generic) or array.dtype == ml_dtypes.bfloat16
    return jnp.asarray(array) if plain else jnp.from_dlpack(array)


def _written(out: Any, array: Any) -> Any:
    """Return PyTorch's tensor after its array has been written to, of which autograd is told."""
    torch = sys.modules["torch"]
    if out.is_conj() or out.is_neg():  # the array is of a copy
        out.copy_(tensor_of(array))
    elif not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return out


def _returned(result: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(result, tuple | list):
        return type(result)(_returned(x, convert) for x in result)
    return convert(result) if is_cupy(result) or isinstance(result, np.ndarray | np.generic) else result
