"""Jacobi's preconditioner in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, namespace
from multiword.runtime.options import integer
from ozaki.linalg import inv
from ozaki.sparse.matrices import Matrix, expanded
from ozaki.sparse.pairs import real_entries
from ozaki.sparse.products import product_with_vector


class block_jacobi:
    """The inverse of the blocks on a sparse matrix's diagonal, to be passed as M.

    Blocks are inverted by `ozaki.linalg.inv`, and products are correctly rounded: both have the same bits on
    every machine.

    Parameters
    ----------
    A : (n, n) sparse matrix of SciPy or CuPy of real numbers.
    size : rows of a block; the last block may have fewer.

    Raises
    ------
    ValueError : A is not square, or size is no positive integer. numpy.linalg.LinAlgError : a block is
        singular. TypeError : A is complex.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> a = csr_array([[4.0, 2.0, 1.0], [2.0, 3.0, 0.0], [1.0, 0.0, 2.0]])
    >>> block_jacobi(a, 2).matvec(np.array([6.0, 5.0, 2.0]))
    array([1., 1., 1.])
    """

    def __init__(self, A: Any, size: int) -> None:
        matrix, size = Matrix.of(A, "A"), integer("size", size)
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"A must be square, got shape {matrix.shape}")
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.shape, self.dtype = matrix.shape, np.dtype(np.float64)
        self._inverse = _of_blocks(inv(_blocks(matrix, size)), matrix.shape[0])

    def matvec(self, x: Any) -> Any:
        """Return the product of the inverse with a vector."""
        return product_with_vector(self._inverse, x.reshape(-1))


def _blocks(matrix: Matrix, size: int) -> Array:
    """Return the blocks on the diagonal as a stack; the last one is filled up with the identity."""
    n, (pointers, columns, values) = matrix.shape[0], real_entries(matrix)
    xp, count = namespace(values), -(-n // size)
    rows = expanded(pointers, 0, len(columns))
    blocks, beyond = xp.zeros((count, size, size)), xp.arange(n, count * size) % size
    on = rows // size == columns // size
    blocks[rows[on] // size, rows[on] % size, columns[on] % size] = values[on]
    blocks[count - 1 :, beyond, beyond] = 1
    return blocks


def _of_blocks(blocks: Array, n: int) -> Matrix:
    """Return the first n rows and columns of the matrix with these blocks on its diagonal."""
    xp, (count, size, _) = namespace(blocks), blocks.shape
    rows = xp.arange(count * size)
    columns = (rows // size * size)[:, None] + xp.arange(size)
    inside = (rows[:, None] < n) & (columns < n)
    pointers = xp.concatenate([xp.zeros(1, np.int64), xp.cumsum(inside.sum(axis=1)[:n])])
    return Matrix((n, n), blocks.reshape(-1, size)[inside], "csr", (pointers, columns[inside]))
