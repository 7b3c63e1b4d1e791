"""The functions of arrays: arguments, `out` and `where`, layouts and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from multiword.rounding import round_to, widened
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_out,
    check_same_device,
    device_of,
    in_order,
    is_cupy,
    namespace,
    on_device_of_arrays,
    on_host,
    overlap,
    put_one_nan,
    quietly,
    to_float64,
)
from multiword.runtime.floats import is_default
from multiword.runtime.memory import empty_result
from multiword.runtime.readback import anywhere
from multiword.tuning import ALONE_ELEMENTS
from ozaki.elementary.evaluate import by_integers, evaluate, evaluate_alone
from ozaki.elementary.real_numbers import OF_REAL
from ozaki.elementary.record import FUNCTIONS, PARTS
from ozaki.rounding.conversion import joined

FORMATS = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
"""The dtypes of results, and their formats."""


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


@cache
def float_of(dtype: np.dtype) -> str:
    """Return the format that arguments of a dtype count as; a dtype takes microseconds to tell its name."""
    return dtype.name if dtype.name in FORMATS else "float64"


def apply(name: str, *x: Any, out: Array | None = None, where: Any = True) -> Any:
    """Return a function's values of arrays that broadcast; arguments as those of NumPy's ufuncs.

    What one thread computes of numbers that lie in memory as a compiled loop takes them goes there at once:
    what is checked, converted and shared out for others takes as long as ten thousand numbers.
    """
    if where is not True or not is_default():
        return _applied(name, x, out, where)
    first = x[0]
    if name not in OF_REAL:
        if _lie_well(x, out):
            return evaluate_alone(name, x, out)
    elif out is None and type(first) is np.ndarray and (first.dtype is _FLOAT64 or first.dtype is _FLOAT32):
        return OF_REAL[name](first)[()]
    if out is not None:
        return _applied(name, x, out, where)
    if is_cupy(first):
        values = _of_vectors(name, x)
        return _applied(name, x, out, where) if values is None else values
    if arrays := _alike(x):
        return OF_REAL[name](arrays[0])[()] if name in OF_REAL else evaluate_alone(name, arrays)
    return _applied(name, x, out, where)


def _lie_well(x: Sequence[Any], out: Any) -> bool:
    """Return whether a compiled loop takes arrays of NumPy's as they are, alone, and may write to `out`."""
    first, last = x[0], x[-1]  # the same of one argument
    if type(first) is not np.ndarray or not ((kind := first.dtype) is _FLOAT64 or kind is _FLOAT32):
        return False
    if not (in_order(first) and 0 < first.size <= ALONE_ELEMENTS):
        return False
    if not (last is first or _is_like(last, kind, first.shape)):
        return False
    if out is None:
        return True
    if not (_is_like(out, kind, first.shape) and out.flags.writeable):
        return False
    return (out is first and last is first) or not any(np.may_share_memory(a, out) for a in x)


def _is_like(x: Any, kind: np.dtype, shape: tuple[int, ...]) -> bool:
    """Return whether an argument is a contiguous array of a dtype and a shape."""
    return type(x) is np.ndarray and x.dtype is kind and x.shape == shape and in_order(x)


def _alike(x: Sequence[Any]) -> list[np.ndarray]:
    """Return contiguous arrays of one shape, for one thread, of such or of single numbers beside them.

    [] of others, and of arrays of several dtypes.
    """
    arrays = [np.asarray(a) if type(a) is float else a for a in x]
    largest = first = arrays[0]
    for a in arrays:
        if type(a) is not np.ndarray or not ((kind := a.dtype) is _FLOAT64 or kind is _FLOAT32):
            return []
        if kind is not first.dtype or not 0 < a.size <= ALONE_ELEMENTS:
            return []
        if not (a.flags.c_contiguous or a.ndim == 1):
            return []
        largest = a if (a.ndim, a.size) > (largest.ndim, largest.size) else largest
    shape = largest.shape
    for i, a in enumerate(arrays):
        if a.shape != shape:
            if a.size != 1:
                return []
            arrays[i] = np.empty(shape, a.dtype)
            arrays[i][...] = a
        elif not in_order(a):
            arrays[i] = a.copy()
    return arrays


def _of_vectors(name: str, x: Sequence[Any]) -> Array | None:
    """Return values of CuPy's arrays as they lie, of one shape and on the current GPU; None of others."""
    first, here = x[0], device_of(None)  # no context has to be entered
    if name in OF_REAL:
        return None
    kind, shape = first.dtype, first.shape
    for a in x:
        if type(a) is not type(first) or a.dtype is not kind or a.shape != shape:
            return None
        if not (kind is _FLOAT64 or kind is _FLOAT32) or not a.flags.c_contiguous or device_of(a) is not here:
            return None
    out = empty_result(first, shape, kind)
    evaluate(name, [a.reshape(-1) for a in x], out.reshape(-1))
    return out


@on_device_of_arrays
def _applied(name: str, x: Sequence[Any], out: Array | None, where: Any) -> Any:
    if name in PARTS:
        z = as_array(x[0], "x")
        if z.dtype.kind == "c":
            return _by_parts(name, z, out, where)
        if name in OF_REAL:
            return _of_real(name, z, out, where)
    names = FUNCTIONS[name].names
    arrays, dtype = operands(name, x)
    mask = _mask(where)
    check_same_device(**dict(zip(names, arrays, strict=False)), where=mask)
    shape = _shape(*(a.shape for a in arrays), *([] if mask is None else [mask.shape]))
    if out is not None:
        check_out(out, arrays[0], shape, dtype)
    with quietly(arrays[0]):
        if mask is None:
            result = _values(name, arrays, shape, dtype, out)
        else:
            result = _masked(name, arrays, shape, dtype, out, mask)
    return result if out is not None or is_cupy(result) else result[()]


def _of_real(name: str, x: Array, out: Array | None, where: Any) -> Any:
    """Return a function's values of real numbers, which are exact, or angles."""
    x = x if x.dtype.name in FORMATS else widened(x, "x")
    with quietly(x):
        values = OF_REAL[name](x)
    if out is None and where is True:
        return values if values.shape or is_cupy(x) else values[()]
    mask = _mask(where)
    check_same_device(x=x, where=mask)
    shape = _shape(x.shape, *([] if mask is None else [mask.shape]))
    if out is not None:
        check_out(out, x, shape, x.dtype)
    result = namespace(x).zeros(shape, x.dtype) if out is None else out
    chosen = ... if mask is None else namespace(x).broadcast_to(mask, shape)
    result[chosen] = namespace(x).broadcast_to(values, shape)[chosen]
    return result if out is not None or is_cupy(result) else result[()]


def _mask(where: Any) -> Array | None:
    """Return a mask, None where it is True. TypeError for what has no booleans."""
    mask = None if where is True else as_array(where, "where")
    if mask is not None and mask.dtype != bool:
        raise TypeError(f"where must be boolean, got {mask.dtype}")
    return mask


def _by_parts(name: str, x: Array, out: Array | None, where: Any) -> Any:
    """Return a function's values of complex numbers."""
    plane = x.real, x.imag
    parts = [(part, plane[::-1] if FUNCTIONS[part].names == "yx" else plane) for part in PARTS[name]]
    if len(parts) == 1:
        part, plane = parts[0]
        return apply(part, *plane, out=out, where=where)
    values = [_applied(*part, None, where) for part in parts]
    if out is not None:
        check_out(out, x, np.shape(values[0]), x.dtype)
    result = joined([namespace(x).asarray(v) for v in values], x.dtype)
    if out is None:
        return result if is_cupy(result) else result[()]
    if where is True:
        out[...] = result
    else:
        mask = namespace(x).broadcast_to(as_array(where, "where"), out.shape)
        out[mask] = result[mask]
    return out


def operands(name: str, x: Sequence[Any]) -> tuple[list[Array], np.dtype]:
    """Return the arguments in the dtype to compute in, and that of the result.

    A Python number takes the dtype of an array beside it; integers and booleans become float64.
    """
    names = FUNCTIONS[name].names
    arrays = [as_array(a, label) for a, label in zip(x, names, strict=False)]
    device = next(filter(is_cupy, arrays), None)
    if device is not None:  # where a number beside it has to be, too
        xp = namespace(device)
        arrays = [xp.asarray(a) if type(v) in (int, float) else a for a, v in zip(arrays, x, strict=True)]
    for a, label in zip(arrays, names, strict=False):
        if a.dtype.kind == "c":
            raise TypeError(f"{label} must be real, got {a.dtype}: ozaki.{name} takes real numbers")
    counted = [a for a, given in zip(arrays, x, strict=True) if not isinstance(given, int | float)] or arrays
    kinds = {float_of(a.dtype) for a in counted}
    if "float64" in kinds:
        dtype: np.dtype = np.dtype(np.float64)
    else:  # no half holds the numbers of the other
        dtype = np.dtype(np.float32) if "float32" in kinds or len(kinds) > 1 else counted[0].dtype
    work = np.dtype(np.float32 if dtype == np.float32 else np.float64)
    converted = []
    for a, label in zip(arrays, names, strict=False):
        if a.dtype != work:
            a = widened(a, label) if work == np.float64 else round_to(to_float64(a), "fp32")
        converted.append(a)
    return converted, dtype


def _shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the arguments' shapes must broadcast, got {', '.join(map(str, shapes))}") from None


def _masked(
    name: str, arrays: list[Array], shape: tuple[int, ...], dtype: np.dtype, out: Array | None, mask: Array
) -> Array:
    """Return values where a mask holds; what `out` has, or zeros, elsewhere."""
    xp = namespace(arrays[0])
    mask = xp.broadcast_to(mask, shape)
    chosen = [xp.broadcast_to(a, shape)[mask] for a in arrays]
    values = _values(name, chosen, chosen[0].shape, dtype, None)
    result = xp.zeros(shape, dtype) if out is None else out
    result[mask] = values
    return result


def _values(
    name: str, arrays: list[Array], shape: tuple[int, ...], dtype: np.dtype, out: Array | None
) -> Array:
    """Return values of all elements, in `out` if there is one."""
    xp, work = namespace(arrays[0]), arrays[0].dtype
    arrays = [a if a.shape == shape else xp.broadcast_to(a, shape) for a in arrays]
    order = "F" if all(a.flags.f_contiguous and not a.flags.c_contiguous for a in arrays) else "C"
    flat = [_flat(a, order) for a in arrays]
    if out is not None and _takes(out, work, order, flat):
        evaluate(name, flat, _vector(out, order))
        return out
    result = xp.empty(shape, work, order=order)
    evaluate(name, flat, _vector(result, order))
    if dtype.itemsize == 2:
        result = _as_halves(name, arrays, result, dtype)
    if out is None:
        return result
    out[...] = result
    return out


def rounded(x: Array, dtype: np.dtype) -> Array:
    """Return numbers rounded to a float dtype, in it; a NaN is the canonical one."""
    result = round_to(x, FORMATS[dtype.name])
    put_one_nan(result)
    return result


def _as_halves(name: str, x: list[Array], wide: Array, dtype: np.dtype) -> Array:
    """Return float64 values rounded to a half; by integers where one is half way, as x/2 + x²/4 may be.

    Halves are compared and copied as words: CuPy takes bfloat16 by way of float32, and loses subnormal ones.
    """
    xp, half = namespace(wide), FORMATS[dtype.name]
    result = round_to(wide, half)
    words = result.view(np.uint16)
    below, above = (round_to(xp.nextafter(wide, end), half).view(np.uint16) for end in (-xp.inf, xp.inf))
    ties = (below != above) & (((below | above) & 0x7FFF) != 0) & xp.isfinite(wide)
    if anywhere(ties):
        values = by_integers(name, dtype, [on_host(a[ties]) for a in x])
        words[ties] = xp.asarray(values.view(np.uint16))
    if is_cupy(result):
        put_one_nan(result)
    return result


def _flat(x: Array, order: Any) -> Array:
    """Return the elements as a vector: a view where that is possible."""
    xp = namespace(x)
    x = xp.asfortranarray(x) if order == "F" else xp.ascontiguousarray(x)
    if not is_cupy(x) and not x.flags.aligned:
        x = x.copy(order)
    return _vector(x, order)


def _vector(x: Array, order: str) -> Array:
    """Return the elements of a contiguous array in the order of its memory, as a view."""
    return (x.T if order == "F" else x).reshape(-1)


def _takes(out: Array, work: np.dtype, order: str, x: list[Array]) -> bool:
    """Return whether `out` can be written to at once: it is a vector in that order, and no argument but that
    which is the first, element by element, shares its memory."""
    if out.dtype != work or not (out.flags.f_contiguous if order == "F" else out.flags.c_contiguous):
        return False
    if not out.size:
        return True
    if is_cupy(out):
        same = x[0].data.ptr == out.data.ptr
        return not any(overlap(a, out) for a in x[same:])
    if not out.flags.aligned:
        return False
    same = x[0].ctypes.data == out.ctypes.data
    return not any(np.may_share_memory(a, out) for a in x[same:])
