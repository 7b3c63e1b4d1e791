"""What PyTorch's products of sparse and strided tensors are in the mode: correctly rounded (`ozaki.sparse`).

PyTorch makes the derivatives of `torch.sparse.mm` and `@` of these operators and of those of strided tensors:
the sparse operand's on its own pattern. Each function returns None for arguments that are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.tensors import array_of, stream_of, tensor_of
from ozaki.combine import combine
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.products import rounded_products
from ozaki.sums import api as sums
from ozaki.torch.products import addable, scales
from ozaki.torch.settings import Settings

PIECE = 1 << 20
"""Numbers of each factor that are gathered together for products on a pattern."""


def _addmm(
    settings: Settings, c: Tensor, a: Tensor, b: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Any:
    """Return alpha·AB + beta·C, each operation rounded once; C is not read if beta is 0."""
    strided, shape = b if b.layout is torch.strided else a, (*a.shape[:1], *b.shape[1:])
    if not addable(c, strided, shape, False) or not scales(strided, alpha, beta):
        return None
    with stream_of(strided):
        product = _product(a, b)
        if product is None:
            return None
        kind, addend = product.dtype.type, array_of(c) if beta != 0 else None
        combine(product, kind(alpha), addend, kind(beta))
        return tensor_of(product)


def _mv(settings: Settings, a: Tensor, x: Tensor) -> Any:
    """Return the product of a sparse matrix and a vector."""
    if x.dim() != 1 or x.layout is not torch.strided:
        return None
    with stream_of(x):
        product = _product(a, x.unsqueeze(1))
        return None if product is None else tensor_of(product[:, 0])


def _sampled(
    settings: Settings, c: Tensor, a: Tensor, b: Tensor, *, beta: complex = 1, alpha: complex = 1
) -> Any:
    """Return alpha·AB + beta·C of strided A and B, where C, in CSR, has elements."""
    if c.layout is not torch.sparse_csr or c.dim() != 2 or c.dense_dim() or not scales(a, alpha, beta):
        return None
    if not _alike(c, a, b) or (*a.shape[1:], *c.shape) != (*b.shape[:1], *a.shape[:1], *b.shape[1:]):
        return None
    rows, columns = c.to_sparse_coo()._indices()
    with stream_of(a):
        values = torch.empty_like(c.values())
        step = max(1, PIECE // max(1, a.shape[1]))
        for start in range(0, len(values), step):
            some = slice(start, start + step)
            factors = array_of(a[rows[some]]), array_of(b.mT[columns[some]])
            product, addend = sums.dot(*factors, axis=-1), array_of(c.values()[some]) if beta != 0 else None
            combine(product[:, None], product.dtype.type(alpha), _column(addend), product.dtype.type(beta))
            values[some] = tensor_of(product)
    indices = c.crow_indices(), c.col_indices()
    return torch.sparse_csr_tensor(*indices, values, c.shape, check_invariants=False)


def _column(x: Array | None) -> Array | None:
    return None if x is None else x[:, None]


def _product(a: Tensor, b: Tensor) -> Array | None:
    """Return the product of a sparse and a strided matrix, or the other way round; None for all else."""
    if (a.dim(), b.dim()) != (2, 2) or a.shape[1] != b.shape[0] or not _alike(a, b):
        return None
    left = b.layout is torch.strided
    sparse, strided = (a, b) if left else (b, a)
    matrix = _matrix(sparse) if strided.layout is torch.strided else None
    if matrix is None:
        return None
    x = array_of(strided)
    if left:
        return rounded_products([(matrix, x)], [], x.dtype)
    return namespace(x).ascontiguousarray(rounded_products([(matrix.T, x.T)], [], x.dtype).T)


def _matrix(x: Tensor) -> Matrix | None:
    """Return a sparse tensor as a matrix in the same memory; None for other layouts and dimensions."""
    if x.dense_dim() or x.is_conj() or x.is_neg():
        return None
    shape: Any = tuple(x.shape)
    if x.layout is torch.sparse_coo:
        rows, columns = x._indices()
        return Matrix(shape, array_of(x._values()), "coo", (array_of(rows), array_of(columns)))
    if x.layout is torch.sparse_csc:  # the CSR of the transpose
        indices = array_of(x.ccol_indices()), array_of(x.row_indices())
        return Matrix(shape[::-1], array_of(x.values()), "csr", indices).T
    if x.layout not in (torch.sparse_csr, torch.sparse_bsr):
        return None
    indices = array_of(x.crow_indices()), array_of(x.col_indices())
    return Matrix(shape, array_of(x.values()), "csr" if x.layout is torch.sparse_csr else "bsr", indices)


def _alike(first: Tensor, *others: Tensor) -> bool:
    floating = first.is_floating_point() or first.is_complex()
    return floating and all(x.dtype is first.dtype and x.device == first.device for x in others)


KERNELS: dict[str, Callable[..., Any]] = {"addmm": _addmm, "mv": _mv, "sparse_sampled_addmm": _sampled}
"""What computes each operator, by its name."""
