"""PyTorch's tensors and JAX's arrays as arguments of functions of arrays, which return their kind.

They are taken as NumPy or CuPy arrays in the same memory, and the result is handed back in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from multiword.runtime.arrays import import_cupy, is_cupy
from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of


def kinds_of(arguments: Sequence[Any]) -> set[str | None]:
    """Return the libraries of arrays, also of those in tuples, by name; None for numbers and all else."""
    return {
        _kind(x) for argument in arguments for x in (argument if isinstance(argument, tuple) else (argument,))
    }


def with_tensors(
    function: Callable[..., Any],
    name: str,
    instead: Mapping[str, str],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    out: Any = None,
) -> Any:
    """Return the result of a function of arrays for PyTorch's tensors or JAX's arrays, as one of these.

    Parameters
    ----------
    name : of the function in `ozaki`.
    instead : the functions of `ozaki.torch` and `ozaki.jax` that have derivatives, by "torch" and "jax".
    arguments, options : tuples of tensors, as sums of words are, are taken as well.
    out : the one of these that the function fills, if there is one.

    Raises
    ------
    TypeError : kinds of arrays are mixed; a tensor requires a gradient, is not strided, or is on another kind
        of device; JAX traces a value; out is no tensor beside tensors, or given beside JAX's arrays.
    """
    every = (*arguments, *options.values())
    kinds = kinds_of(every) - {None}
    if len(kinds) > 1:
        raise TypeError(f"arrays must be of one kind, but they are {' and '.join(sorted(map(str, kinds)))}")
    pytorch = "PyTorch" in kinds
    _check_out(out, pytorch)
    flat = (x for argument in every for x in (argument if isinstance(argument, tuple) else (argument,)))
    first = next(x for x in flat if _kind(x))
    own, back = (_of_pytorch, tensor_of) if pytorch else (_of_jax, _to_jax)
    with stream_of(first) if pytorch else nullcontext():
        own = partial(own, name=name, instead=instead)
        arrays = [tuple(map(own, x)) if isinstance(x, tuple) else own(x) for x in every]
        named = dict(zip(options, arrays[len(arguments) :], strict=True))
        result = function(*arrays[: len(arguments)], **named)
        return _returned(result, back) if out is None else _written(out, result)


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


_CLASSES = {
    "PyTorch": _class("torch", "Tensor"),
    "JAX": _class("jax", "Array"),
    "Dask": _class("dask.array", "Array"),
}


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


def _of_pytorch(x: Any, name: str, instead: Mapping[str, str]) -> Any:
    torch = sys.modules["torch"]
    if not isinstance(x, torch.Tensor):
        return numpy_dtype(x) if isinstance(x, torch.dtype) else x
    if got := unsupported(x) or (None if x.is_cpu or x.is_cuda else f"a tensor on {x.device}"):
        raise TypeError(f"ozaki.{name} takes strided tensors on the CPU or an NVIDIA GPU, got {got}")
    if x.requires_grad and torch.is_grad_enabled():
        raise TypeError(_refused(name, "has no gradient", instead, "torch", "detach the tensor: x.detach()"))
    return array_of(x)


def _of_jax(x: Any, name: str, instead: Mapping[str, str]) -> Any:
    jax = sys.modules["jax"]
    if isinstance(x, jax.core.Tracer):
        raise TypeError(
            _refused(name, "cannot be traced", instead, "jax", "call it outside jit, vmap and grad")
        )
    if not isinstance(x, jax.Array):
        return x
    (device,) = x.devices() if len(x.devices()) == 1 else (None,)
    if device is None or device.platform not in ("cpu", "gpu"):
        raise TypeError(f"ozaki.{name} takes arrays on one device, a CPU or an NVIDIA GPU; got {x.sharding}")
    return np.asarray(x) if device.platform == "cpu" else import_cupy().from_dlpack(x)


def _refused(name: str, why: str, instead: Mapping[str, str], module: str, remedy: str) -> str:
    other = instead.get(module)
    return f"ozaki.{name} {why}: {f'use ozaki.{module}.{other}, or ' if other else ''}{remedy}"


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
