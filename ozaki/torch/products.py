"""What PyTorch's operators of matrix products are in the mode.

Each function returns None for arguments that PyTorch is to refuse, or to treat, itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiword.rounding import round_to
from multiword.runtime.arrays import Array, is_cupy, put_one_nan
from multiword.runtime.tensors import array_of, stream_of, tensor_of
from ozaki.combine import combine
from ozaki.execution.executors import multiply
from ozaki.execution.repeated import product_again
from ozaki.execution.stacks import multiply_stacks
from ozaki.integers import integer_matmul
from ozaki.product.factor import Factor
from ozaki.product.request import Request
from ozaki.sums.exactsum import ExactSum
from ozaki.torch.settings import HALVES, Settings

_DEFAULTS = ("auto", None, "auto", None)
"""The scheme, word, engine and workspace of products of integers."""

_DIMENSIONS = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}


def _product(of: str, conjugate: bool, settings: Settings, a: Tensor, b: Tensor, *, out: Any = None) -> Any:
    """Return the product of two matrices, vectors or stacks; conjugate: of the conjugate of a."""
    if not _fit(of, a, b) or not _takes(out, a):
        return None
    with stream_of(a):
        result = tensor_of(multiplied(settings, a.conj() if conjugate else a, b))
    if settings.part is not None and out is None and a.dim() == b.dim() > 1:
        settings.note(result, partial(_add_products, a, b), (a, b), summed=a.dim() == 2)
    return result if out is None else delivered(result, out)


def _add_products(a: Tensor, b: Tensor, total: ExactSum) -> None:
    """Add the products of two matrices, or of stacks of them."""
    if a.dim() == 2:
        total.add_matmul(array_of(a), array_of(b))
        return
    size = total.shape[1] * total.shape[2]
    for i, (left, right) in enumerate(zip(a, b, strict=True)):
        total.add_matmul_at(array_of(left), array_of(right), i * size)


def _sum_of_products(
    of: str,
    in_place: bool,
    settings: Settings,
    c: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    beta: complex = 1,
    alpha: complex = 1,
    out: Any = None,
) -> Any:
    """Return alpha·AB + beta·C, each operation rounded once; C is not read if beta is 0."""
    if not _fit(of, a, b) or not _takes(out, a):
        return None
    shape = (*a.shape[:-1], *b.shape[1:]) if of != "bmm" else (*a.shape[:-1], b.shape[-1])
    if not addable(c, a, shape, in_place) or not scales(a, alpha, beta):
        return None
    with stream_of(a):
        if a.dtype in HALVES:  # whose operations PyTorch rounds once on every device
            half = tensor_of(multiplied(settings, a, b))
            half = half if alpha == 1 else half * alpha
            half = half if beta == 0 else half + (c if beta == 1 else c * beta)
            return delivered(half, c if in_place else out)
        result, addend = multiplied(settings, a, b), array_of(c) if beta != 0 else None
        kind = result.dtype.type
        if result.dtype.kind == "i":
            result = result * kind(alpha) + (0 if addend is None else addend * kind(beta))
        else:
            combine(result, kind(alpha), addend, kind(beta))
        return delivered(tensor_of(result), c if in_place else out)


def _addbmm(in_place: bool, settings: Settings, c: Tensor, a: Tensor, b: Tensor, **options: Any) -> Any:
    """Return the sum of all products of two stacks, and C: one product with a longer inner dimension."""
    if not _fit("bmm", a, b):
        return None
    rows, columns = a.transpose(0, 1).flatten(1), b.flatten(0, 1)
    return _sum_of_products("mm", in_place, settings, c, rows, columns, **options)


def _activated(
    settings: Settings, c: Tensor, a: Tensor, b: Tensor, *, use_gelu: bool = False, **options: Any
) -> Any:
    """Return ReLU, or GELU, of a product and an addend."""
    result = _sum_of_products("mm", False, settings, c, a, b, **options)
    if result is None:
        return None
    return result.copy_(torch.nn.functional.gelu(result, approximate="tanh")) if use_gelu else result.relu_()


def multiplied(settings: Settings, a: Tensor, b: Tensor) -> Array:
    """Return the product of two tensors that fit, with the bits of `ozaki.matmul`, or a half's."""
    if a.dtype is torch.int64:
        return np.asarray(integer_matmul(array_of(a), array_of(b), np.int64, "wrap", _DEFAULTS))
    dtype, target = a.dtype, HALVES.get(a.dtype)
    if target is not None and not _is_read_as_it_is(a, b):  # float32 holds it, and the numbers of the result
        a, b = a.float(), b.float()
    left, right = array_of(a), array_of(b)
    if right.ndim > 1:
        result = multiplied_arrays(left, right, settings.request(left, target))
    else:
        rows = left if left.ndim > 1 else left[None]
        result = multiplied_arrays(rows, right[:, None], settings.request(left, target))
        result = result.reshape(left.shape[:-1])
    return result if target is None or result.itemsize == 2 else _as_half(result, dtype)


LEAST_READ = 512
"""Rows, columns and inner dimension of products that a GPU reads in half precision."""


def _is_read_as_it_is(a: Tensor, b: Tensor) -> bool:
    """Return whether kernels read these factors in half precision: not those of limbs, for what is thin."""
    return a.is_cuda and a.dim() == b.dim() == 2 and min(*a.shape, b.shape[1]) >= LEAST_READ


def _as_half(x: Array, dtype: torch.dtype) -> Array:
    """Return float32 numbers of a half's format, or beyond its range, in its dtype.

    A GPU keeps subnormal numbers in PyTorch's conversion, and a CPU in NumPy's.
    """
    if not is_cupy(x):
        return round_to(x, HALVES[dtype])
    half = array_of(tensor_of(x).to(dtype))
    put_one_nan(half)
    return half


def multiplied_arrays(left: Array, right: Array, request: Request) -> Array:
    """Return the product of two matrices, or those of two stacks."""
    if left.ndim == 3:
        return multiply_stacks(left, right, request)
    if is_cupy(left):
        return product_again(_multiplied, left, right, {"request": request})
    return _multiplied(left, right, request)


def _multiplied(left: Array, right: Array, request: Request) -> Array:
    return multiply(Factor(left, 0), Factor(right, 1), 1.0, None, None, request, None)


def _fit(of: str, a: Tensor, b: Tensor) -> bool:
    """Return whether these are the two factors of a product, alike and of shapes that fit."""
    rows, columns = a.shape, b.shape
    if (len(rows), len(columns)) != _DIMENSIONS[of] or rows[-1] != columns[1 if of == "bmm" else 0]:
        return False
    return _alike(a, b) and (of != "bmm" or rows[0] == columns[0])


def _alike(a: Tensor, b: Tensor) -> bool:
    together = (a.is_cpu and b.is_cpu) or a.device == b.device  # devices are objects made for the question
    return a.dtype is b.dtype and together and a.layout is b.layout is torch.strided


def addable(c: Tensor, like: Tensor, shape: tuple[int, ...], in_place: bool) -> bool:
    """Return whether a tensor can be added to a product of a shape."""
    own = c.shape
    if own == shape or in_place:
        return own == shape and _alike(c, like)
    pairs = zip(reversed(own), reversed(shape), strict=False)
    return len(own) <= len(shape) and all(n in (1, m) for n, m in pairs) and _alike(c, like)


def scales(like: Tensor, *factors: complex) -> bool:
    """Return whether the factors are numbers of the dtype, rounded if need be."""
    if {*map(type, factors)} == {int} and {*factors} <= {0, 1}:  # nearly always
        return True
    if like.dtype is torch.int64:
        return all(isinstance(x, int) and -(2**63) <= x < 2**63 for x in factors)
    largest = torch.finfo(like.dtype).max
    parts = [part for x in factors for part in ((x.real, x.imag) if isinstance(x, complex) else (x,))]
    real = like.is_complex() or len(parts) == len(factors)
    return real and not any(largest < abs(part) < math.inf for part in parts)


def _takes(out: Any, like: Tensor) -> bool:
    return out is None or _alike(out, like)


def delivered(result: Tensor, out: Tensor | None) -> Tensor:
    """Return the result, or `out` filled with it, resized as PyTorch does."""
    return result if out is None else torch.ops.aten.clone.out(result, out=out)


_PRODUCTS = {"mm": "mm", "bmm": "bmm", "mv": "mv", "dot": "dot", "vdot": "dot"}
_SUMS_OF_PRODUCTS = {"addmm": "mm", "baddbmm": "bmm", "addmv": "mv"}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: partial(_product, of, name == "vdot") for name, of in _PRODUCTS.items()},
    **{name: partial(_sum_of_products, of, False) for name, of in _SUMS_OF_PRODUCTS.items()},
    "addbmm": partial(_addbmm, False),
    "_addmm_activation": _activated,
}

KERNELS: dict[str, Callable[..., Any]] = {
    **_FUNCTIONS,
    **{f"{name}.out": function for name, function in _FUNCTIONS.items()},
    **{f"{name}_": partial(_sum_of_products, of, True) for name, of in _SUMS_OF_PRODUCTS.items()},
    "addbmm_": partial(_addbmm, True),
}
"""What computes each operator, by the name of its overload."""
