"""Rounded float64 numbers take the dtype of a result: subnormals kept, one bit pattern for NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel

_TARGETS = {"float32": 32, "float16": 11, "bfloat16": 8}

_NARROW = Kernel(
    "narrow", Path(__file__).with_name("conversion.cu"), tuple({"TARGET": t} for t in _TARGETS.values())
)


def narrow(x: Array, dtype: np.dtype) -> Array:
    """Return float64 numbers that are numbers of a real dtype, or exceed its range, in that dtype.

    x : any shape; its NaNs are the canonical one, and so are the result's. CuPy alone would flush
        float32's subnormals to zero.

    >>> narrow(np.array([2.0**-149, 1e300]), np.dtype(np.float32))
    array([1.e-45,    inf], dtype=float32)
    """
    if dtype == np.float64:
        return x
    if not is_cupy(x):
        with np.errstate(over="ignore"):
            return x.astype(dtype)
    xp = namespace(x)
    x, result = xp.ascontiguousarray(x), xp.empty(x.shape, dtype)
    grid = (min(1 << 16, -(-x.size // 256)),)
    _NARROW(grid, (256,), (x, np.int64(x.size), result), TARGET=_TARGETS[dtype.name])
    return result


def joined(parts: list[Array], dtype: np.dtype) -> Array:
    """Return the array of a complex dtype with these real and, if there are any, imaginary parts."""
    if dtype.kind != "c":
        return parts[0]
    xp = namespace(parts[0])
    imaginary = parts[1] if len(parts) > 1 else xp.zeros_like(parts[0])
    return xp.stack([parts[0], imaginary], axis=-1).view(dtype)[..., 0]
