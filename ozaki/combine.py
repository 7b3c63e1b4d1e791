"""alpha·R + beta·C of a product R: the last step of `accurate_*gemm` and of PyTorch's addmm."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, put_one_nan
from multiword.runtime.kernels import Kernel, Struct, members

THREADS = 256


def combine(result: Array, alpha: Any, addend: Array | None, beta: Any) -> None:
    """Make alpha·R + beta·C of a product R or a stack of them, in its memory, or leave 1·R as it is.

    Every real product and sum is rounded once, and NaNs are the canonical one. alpha, beta and C are of R's
    dtype; C broadcasts.
    """
    if alpha != 1 or addend is not None:
        (_on_device if is_cupy(result) else _on_host)(result, alpha, addend, beta)


@np.errstate(all="ignore")
def _on_host(result: np.ndarray, alpha: Any, addend: np.ndarray | None, beta: Any) -> None:
    if alpha != 1:
        result[...] = _scaled(result, alpha)
    if addend is not None:
        np.add(result, addend if beta == 1 else _scaled(addend, beta), out=result)
    put_one_nan(result)


def _scaled(x: np.ndarray, factor: Any) -> np.ndarray:
    """Return x·factor; complex products are four real ones, of which no two are fused."""
    if x.dtype.kind != "c":
        return x * factor
    out = np.empty_like(x)
    np.subtract(x.real * factor.real, x.imag * factor.imag, out=out.real)
    np.add(x.imag * factor.real, x.real * factor.imag, out=out.imag)
    return out


class Combination(Struct):
    """alpha·R + beta·C of a stack of matrices, in place; strides in real numbers; no addend is None."""

    _fields_ = (
        *members(ctypes.c_void_p, "result", "addend"),
        *members(ctypes.c_longlong, "rows", "columns", "size"),
        *members(ctypes.c_longlong * 3, "of_result", "of_addend"),
        *members(ctypes.c_double * 2, "alpha", "beta"),
    )


_COMBINE = Kernel(
    "combine",
    Path(__file__).with_suffix(".cu"),
    tuple({"REAL": t, "PARTS": parts} for t in ("float", "double") for parts in (1, 2)),
    (Combination,),
    equals="ozaki.combine._on_host",
)


def _on_device(result: Array, alpha: Any, addend: Array | None, beta: Any) -> None:
    _, rows, columns = (1,) * (3 - result.ndim) + result.shape
    combination = Combination(
        result=result,
        addend=addend,
        rows=rows,
        columns=columns,
        size=result.size,
        of_result=_strides(result),
        of_addend=(0, 0, 0) if addend is None else _strides(addend),
        alpha=(alpha.real, alpha.imag),
        beta=(beta.real, beta.imag),
    )
    parts, single = 1 + (result.dtype.kind == "c"), result.dtype.char in "fF"
    blocks = -(-result.size // THREADS)
    _COMBINE((blocks,), (THREADS,), (combination,), REAL="float" if single else "double", PARTS=parts)


def _strides(x: Array) -> tuple[int, ...]:
    """Return the strides of a stack of matrices, in real numbers, 0 along axes that broadcast."""
    size = x.itemsize // (1 + (x.dtype.kind == "c"))
    steps = [s // size if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)]
    return (*(0,) * (3 - x.ndim), *steps)
