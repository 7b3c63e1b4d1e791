"""What NumPy says of results: warnings of too few numbers, and errors of floating-point arithmetic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np


def signalled(result: Any, *operands: Any, by: Any = np.add) -> Any:
    """Return a result; overflow and invalid operations are handled as `numpy.errstate` says.

    by : `numpy.add`, whose reduction NumPy would have called, or a product, as `numpy.matmul`.
    """
    if np.asarray(result).dtype.kind not in "fc" or np.isfinite(result).all():
        return result
    arrays = [np.asarray(x) for x in operands if np.asarray(x).dtype.kind in "fc"]
    if np.isinf(result).any() and all(np.isfinite(x).all() for x in arrays):
        _compute(by, np.finfo(np.float64).max, np.finfo(np.float64).max)
    elif (
        np.isnan(result).any() and not any(np.isnan(x).any() for x in arrays) and all(x.size for x in arrays)
    ):
        _compute(by, np.inf, -np.inf)
    return result


def _compute(by: Any, x: float, y: float) -> None:
    """Have NumPy add two numbers, which overflow or are invalid."""
    if by is np.add:
        np.add.reduce(np.array([x, y]))
    else:
        by(np.array([[x, y]]), np.ones(2))


def warn_of_few(name: str, x: Any, axis: Any, options: dict[str, Any]) -> None:
    """Warn of means of nothing, and of variances without degrees of freedom, in NumPy's words."""
    name, skips = name.removeprefix("nan"), name.startswith("nan")
    if name not in ("mean", "var", "std"):
        return
    counted: Any = True if options.get("where") is None else options["where"]
    if skips:
        counted = counted & ~np.isnan(x)
    ddof = options.get("correction") or options.get("ddof", 0)
    counts = np.sum(np.broadcast_to(counted, np.shape(x)), axis=axis) if np.ndim(x) else np.asarray(counted)
    if np.size(counts) and np.min(counts) - ddof <= 0:
        message = (
            "Mean of empty slice" if name == "mean" else "Degrees of freedom <= 0 for slice" + "." * skips
        )
        warnings.warn(message, RuntimeWarning, stacklevel=5)


def check_casts(ufunc: Any, method: str, inputs: Any, into: Any, options: dict[str, Any]) -> None:
    """Raise what NumPy does for casts of inputs and into an array that `casting` does not allow."""
    if method != "__call__" or (into is None and "casting" not in options):
        return
    arrays = [type(x) if type(x) in (int, float, complex) else np.asarray(x).dtype for x in inputs]
    dtypes = *arrays, None if into is None else into.dtype
    if any(isinstance(x, np.dtype) and x.num >= _OF_OTHERS for x in dtypes):
        return
    casting, dtype = options.get("casting", "same_kind"), options.get("dtype")
    wanted = {} if dtype is None else {"signature": (*[None] * len(arrays), np.dtype(dtype))}
    ufunc.resolve_dtypes(dtypes, casting=casting, **wanted)


_OF_OTHERS = 256
"""Numbers of dtypes that are not NumPy's own, as bfloat16 is, of which its ufuncs know nothing."""


def check_inexact(function: Any, operands: Any, out: Any) -> None:
    """Raise TypeError where NumPy does: for means and variances without NaN written into integers."""
    if out is None or function not in (np.nanmean, np.nanvar, np.nanstd):
        return
    if np.asarray(operands[0]).dtype.kind in "fc" and out.dtype.kind not in "fcV":
        raise TypeError("If a is inexact, then out must be inexact")
