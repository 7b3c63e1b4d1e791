"""What linear algebra accepts: square matrices, right sides, stacks of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, check_same_device, is_cupy
from multiword.runtime.options import exactly
from multiword.runtime.readback import all_finite, everywhere

LinAlgError = np.linalg.LinAlgError


def matrices(a: Any, finite: bool = True) -> Array:
    """Return a stack of matrices of float64 or complex128; Inf and NaN are refused where asked."""
    a = as_array(a, "a")
    if a.ndim < 2:
        raise LinAlgError(f"a must be a matrix or a stack of matrices, got shape {a.shape}")
    return numbers(a, "a", finite)


def square(a: Any, finite: bool = True) -> Array:
    """Return a stack of square matrices of float64 or complex128."""
    a = matrices(a, finite)
    if a.shape[-1] != a.shape[-2]:
        raise LinAlgError(f"a must be square, got shape {a.shape}")
    return a


def one_square(a: Any) -> Array:
    """Return one square matrix of float64 or complex128, finite."""
    a = square(a)
    if a.ndim != 2:
        raise LinAlgError(f"a must be one square matrix, got shape {a.shape}")
    return a


def one_hermitian(a: Any) -> Array:
    """Return one matrix that equals its conjugate transpose."""
    a = one_square(a)
    if not everywhere(a == a.conj().T):
        raise ValueError("a must be symmetric or Hermitian: it differs from its conjugate transpose")
    return a


def systems(a: Any, b: Any, finite: bool = True) -> tuple[Array, Array, bool]:
    """Return A and right sides B as stacks of matrices of one dtype, and whether b was one vector."""
    a, right, one = _of_one_dtype(square(a, finite), b, finite)
    if right.ndim < 2 or right.shape[-2] != a.shape[-1]:
        raise LinAlgError(f"b must have {a.shape[-1]} rows, as a of shape {a.shape}, got shape {np.shape(b)}")
    try:
        if a.shape[:-2] != right.shape[:-2]:
            np.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    except ValueError:
        raise LinAlgError(f"the stacks of a, {a.shape}, and b, {right.shape}, do not broadcast") from None
    return a, right, one


def rectangular_system(a: Any, b: Any, finite: bool = True) -> tuple[Array, Array, bool]:
    """Return one matrix and right sides with as many rows, likewise."""
    a, right, one = _of_one_dtype(matrices(a, finite), b, finite)
    if a.ndim != 2 or right.ndim != 2 or len(right) != len(a):
        raise LinAlgError(
            f"Incompatible dimensions: a and b must have as many rows, got {a.shape} and {np.shape(b)}"
        )
    return a, right, one


def _of_one_dtype(a: Array, b: Any, finite: bool) -> tuple[Array, Array, bool]:
    """A and b, as the column of a matrix if it is one vector, in the dtype of both."""
    right = numbers(as_array(b, "b"), "b", finite)
    check_same_device(a=a, b=right)
    one = right.ndim == 1
    right = right[:, None] if one else right
    if a.dtype is not right.dtype:
        dtype = np.result_type(a, right)
        a, right = a.astype(dtype, copy=False), right.astype(dtype, copy=False)
    return a, right, one


def numbers(x: Array, name: str, finite: bool = True) -> Array:
    """Return numbers as float64 or complex128, exactly."""
    x = exactly(name, x, np.complex128 if x.dtype.kind == "c" else np.float64)
    if finite and not all_finite(x):
        raise LinAlgError(f"{name} must be finite: it has an Inf or a NaN")
    return x


def overwritten(b: Any, x: Array) -> Array:
    """Return b with x written into it, as SciPy does; or x, where b is no array with room for just that."""
    if not (type(b) is np.ndarray or is_cupy(b)) or (b.shape, b.dtype) != (x.shape, x.dtype):
        return x
    if not getattr(b.flags, "writeable", True):  # CuPy's have no such flag
        return x
    b[...] = x
    return b
