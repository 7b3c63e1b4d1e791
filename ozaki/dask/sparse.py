"""Products of Dask arrays whose chunks are sparse matrices: each block of the result in one task.

A task has the blocks of the matrix along the inner dimension, and adds up their products exactly
(`ozaki.sparse.products`), so that nothing of a sparse matrix is copied or brought into other chunks.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, check_same_device, device_of
from ozaki.arguments import check_accuracy, result_dtype
from ozaki.dask.arguments import as_chunk, check_chunk_dtype, check_sizes, known_chunks
from ozaki.dask.tasks import task
from ozaki.public import is_sparse
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.products import as_columns, rounded_products


def in_sparse_chunks(x: Any) -> bool:
    """Return whether the chunks of a Dask array are sparse matrices, as the array says."""
    return isinstance(x, da.Array) and is_sparse(x._meta)


def sparse_product(a: Any, b: Any, accuracy: str | int | None) -> da.Array:
    """Return the lazy product of a Dask array of sparse chunks with an array, or the other way round.

    Every element is correctly rounded, as that of `ozaki.matmul` of the whole sparse matrix.
    """
    if accuracy is not None:
        check_accuracy(accuracy)
    left = in_sparse_chunks(a)
    matrix, x = (a, b) if left else (b, a)
    if in_sparse_chunks(x) or is_sparse(x):
        raise TypeError("a and b are both sparse: a Dask array of sparse chunks multiplies arrays")
    check_sizes(matrix, "ab"[not left])
    x = known_chunks(x, "ab"[left])
    if matrix.ndim != 2 or x.ndim not in (1, 2):
        raise ValueError(f"a sparse matrix multiplies vectors and matrices, got {a.shape} and {b.shape}")
    inner, of_x = (1, 0) if left else (0, x.ndim - 1)
    if matrix.shape[inner] != x.shape[of_x]:
        raise ValueError(f"inner dimensions differ: a is {a.shape}, b is {b.shape}")
    x, dtype = x.rechunk({of_x: matrix.chunks[inner]}), result_dtype(matrix._meta, x._meta)
    of_matrix, of_vectors, of_result = ("ih", "hj", "ij") if left else ("hi", "jh", "ji")
    if x.ndim == 1:
        of_vectors, of_result = "h", "i"
    declared = matrix.dtype, x.dtype
    return da.blockwise(
        task("ozaki.dask.matmul, sparse products", _product, left=left, dtype=dtype, declared=declared),
        of_result,
        *(matrix, of_matrix, x, of_vectors),
        concatenate=False,
        align_arrays=False,
        dtype=dtype,
        meta=meta_from_array(x._meta, ndim=x.ndim, dtype=dtype),
        token="ozaki-sparse-matmul",
    )


def _product(
    blocks: list[Any], xs: list[Array], *, left: bool, dtype: np.dtype, declared: tuple[np.dtype, np.dtype]
) -> Array:
    """Return a block of the product: the exact sum of those of the blocks along the inner dimension."""
    names, terms = "ab" if left else "ba", []
    for block, x in zip(blocks, xs, strict=True):
        matrix, x = Matrix.of(block, names[0]), as_chunk(x, names[1], declared[1])
        check_chunk_dtype(matrix.dtype, names[0], declared[0])
        check_same_device(**{names[0]: matrix.values, names[1]: x})
        columns = as_columns(x) if left or x.ndim == 1 else x.T
        terms.append((matrix if left else matrix.T, columns))
    with device_of(terms[0][1]):
        result = rounded_products(terms, [], dtype)
    return result[:, 0] if x.ndim == 1 else result if left else result.T
