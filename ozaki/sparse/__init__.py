"""Products, residuals and sums of sparse matrices: every element the exact value, rounded once.

`ozaki.matmul`, `residual`, `sum` and `norm` come here with SciPy's and CuPy's sparse arrays and matrices.

    matrices     all formats as entries, of the matrix or its transpose, without a copy
    rows         what loops over rows take
    products     Σ A·X + Σ B: row by row, entry by entry (`loops_numba`; on a GPU `products_cuda`), exactly
    pairs        products of two sparse matrices
    api          the public functions
    linalg       Krylov methods with SciPy's signatures
"""

from ozaki.sparse.api import matmul, norm, residual, sum

__all__ = ["matmul", "norm", "residual", "sum"]
