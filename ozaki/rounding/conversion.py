"""Rounded float64 numbers take the dtype of a result; `conversion.cuh` does so where CUDA stores one."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.rounding import round_to
from multiword.runtime.arrays import Array, as_array, is_cupy, namespace, put_one_nan, to_float32, to_float64


def as_float64(x: Any, name: str) -> Any:
    """Return real numbers as float64: arrays, or a float as it is. TypeError where that is not exact."""
    if isinstance(x, float) or (type(x) is np.ndarray and x.dtype == np.float64):
        return x  # the usual case: what follows takes microseconds
    array = as_array(x, name)
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real, got {array.dtype}; take the real part first")
    if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > 2**53:
        raise TypeError(f"{name} has integers beyond 2**53, which are no float64; ozaki.sum takes them")
    return to_float64(array)


def narrow(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return float64 numbers that are numbers of a real dtype, or exceed its range, in that dtype.

    >>> narrow(np.array([2.0**-149, 1e300]), np.dtype(np.float32))
    array([1.e-45,    inf], dtype=float32)
    """
    if x.dtype == dtype:
        return x
    if is_cupy(x) and dtype == np.float32:
        narrow_x = to_float32(x.reshape(-1)).reshape(x.shape)
        put_one_nan(narrow_x)
        return narrow_x
    if is_cupy(x):  # whose own conversion would flush subnormals to zero, and −0 to 0 in arrays of no axes
        flat = narrow(x.get().reshape(-1), dtype)  # type: ignore[attr-defined]
        narrow_x = namespace(x).asarray(flat).reshape(x.shape)
        put_one_nan(narrow_x)
        return narrow_x
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def to_half(x: np.ndarray, target: Format) -> np.ndarray:
    """Return exact float64 numbers rounded to half precision, if that is the target; others as they are.

    >>> to_half(np.array([1 + 2.0**-9]), FORMATS["bf16"]).tolist()
    [1.0]
    """
    return round_to(x, target) if target.precision < FORMATS["fp32"].precision else x


def joined(parts: list[Array], dtype: np.dtype) -> Array:
    """Return the array of a complex dtype with these real and, if there are any, imaginary parts."""
    if dtype.kind != "c":
        return parts[0]
    xp = namespace(parts[0])
    imaginary = parts[1] if len(parts) > 1 else xp.zeros_like(parts[0])
    return xp.stack([parts[0], imaginary], axis=-1).view(dtype)[..., 0]
