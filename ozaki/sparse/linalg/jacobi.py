"""Jacobi's preconditioner."""

from __future__ import annotations

from typing import Any

from multiword.runtime.arrays import namespace
from multiword.runtime.readback import everywhere
from ozaki.sparse.matrices import Matrix
from ozaki.sums.groups import group_sum


class jacobi:
    """The inverse of a sparse matrix's diagonal, to be passed as M.

    Parameters
    ----------
    A : (n, n) sparse matrix of SciPy or CuPy of real numbers.

    Raises
    ------
    ValueError : A is not square, or has a zero on its diagonal; TypeError : A is complex.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> jacobi(csr_array([[4.0, 1.0], [1.0, 2.0]])).matvec(np.ones(2))
    array([0.25, 0.5 ])
    """

    def __init__(self, A: Any) -> None:
        matrix = Matrix.of(A, "A")
        if matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"A must be square, got shape {matrix.shape}")
        if matrix.dtype.kind == "c":
            raise TypeError("A must be real, got a complex matrix")
        rows, columns, values = matrix.together()
        on = namespace(values).flatnonzero(rows == columns)
        self.shape, self.diagonal = matrix.shape, group_sum(values[on], rows[on], matrix.shape[0], float)
        self.dtype = self.diagonal.dtype
        if not everywhere(self.diagonal != 0):
            raise ValueError("A has a zero on its diagonal")

    def matvec(self, x: Any) -> Any:
        """Return x divided by the diagonal, number by number; complex numbers by their parts."""
        if x.dtype.kind != "c":
            return x / self.diagonal
        out = x.copy()
        out.real, out.imag = x.real / self.diagonal, x.imag / self.diagonal
        return out
