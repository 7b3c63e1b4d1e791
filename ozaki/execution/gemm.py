"""alpha·R + beta·C in `out`, for the product R: the body of all four `accurate_*gemm`."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_out,
    check_same_device,
    is_cupy,
    namespace,
    quietly,
)
from multiword.runtime.memory import check_room, delivered, in_less_memory, result_in
from multiword.runtime.options import exactly, scalar
from ozaki.arguments import is_own_transpose
from ozaki.combine import combine
from ozaki.execution.at_once import product_at_once
from ozaki.execution.cache import captured_product, forget
from ozaki.execution.eager import product
from ozaki.product.factor import Factor
from ozaki.product.order import exclusive_use
from ozaki.product.request import Request


def gemm(
    a: Factor, b: Factor, alpha: complex, beta: complex | None, c: Any, request: Request, out: Array | None
) -> Array:
    """Return alpha·R + beta·C, every step rounded once; in `out`, where a GPU may compute it at once."""
    dtype, shape = a.matrix.dtype, (a.rows, b.rows)
    addend = None
    if not (type(alpha) is float and alpha == 1.0 and beta is c is None):  # seldom
        if beta is None and c is not None:
            raise ValueError("c is given, but not its factor: add beta=1.0, or another number")
        alpha, given = scalar("alpha", alpha, dtype), 0.0 if beta is None else beta
        beta = scalar("beta", given, dtype)
        read = given != 0  # where it is rounded to 0, too
        addend = _addend(c, a.matrix, shape) if read else None
    if out is not None:
        check_out(out, a.matrix, shape, dtype)
    operands = (a.matrix, b.matrix) if addend is None else (a.matrix, b.matrix, addend)
    with quietly(a.matrix), exclusive_use(a.order, b.order), result_in(out, *operands):
        result = computed(a, b, request)
        combine(result, alpha, addend, beta)
        return delivered(result, out)


def computed(a: Factor, b: Factor, request: Request) -> Array:
    """Return the product in a new array: replayed where captured, in smaller panels if memory is short."""
    keeps_words = a.on_gpu and (a.prepared or b.prepared)
    if not keeps_words and _meets_its_transpose(a.matrix, b.matrix):
        request = request._replace(symmetric=True)
    if a.empty or b.empty:
        return namespace(a.matrix).zeros((a.rows, b.rows), a.matrix.dtype)
    check_room(a.matrix, (a.rows, b.rows // b.stack), a.matrix.dtype)
    if (out := product_at_once(a, b, request)) is not None:
        return out

    def work(workspace: int) -> Array:
        within = request if workspace == request.workspace else request._replace(workspace=workspace)
        return launched(a, b, within)

    def release() -> None:
        forget()
        a.forget_split()
        b.forget_split()

    return in_less_memory(work, request.workspace, release)


def launched(a: Factor, b: Factor, request: Request) -> Array:
    """Return the product, or that of the equilibrated factors, replayed or kernel by kernel."""
    captured = captured_product(a, b, request)
    out = captured and captured.product(a, b, lambda x, y: launched(x, y, request))
    return product(a, b, request) if out is None else out


def _meets_its_transpose(x: Array, y: Array) -> bool:
    """Whether half a product pays: y is x.T in the same memory, or equal to the conjugate transpose of x."""
    if x.ndim != 2 or x.shape != y.shape[::-1] or not x.size:
        return False
    if x.dtype.kind != "c":
        return is_own_transpose(x, y)
    if is_cupy(x):  # which waits for no comparison
        return False
    # A conjugate is always a copy: one row tells most others apart.
    return np.array_equal(x[0], y[:, 0].conj()) and np.array_equal(x, y.conj().T)


def _addend(c: Any, like: Array, shape: tuple[int, int]) -> Array:
    if c is None:
        raise ValueError("c must be given when beta is not 0")
    c = as_array(c, "c")
    check_same_device(a=like, c=c)
    if c.shape != shape:
        raise ValueError(f"c must be of shape {shape}, got {c.shape}")
    return exactly("c", c, like.dtype)
