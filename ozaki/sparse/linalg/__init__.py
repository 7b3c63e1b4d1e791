"""Krylov methods with SciPy's signatures, whose iterates have the same bits on every machine.

A step is made of products with the matrix and of dot products, each the exact value rounded once, and of
sums x + a·y, each two IEEE operations that nothing contracts: neither threads nor the device can be seen.

    cg, bicgstab, gmres    the methods, a file each
    jacobi                 a preconditioner
    vectors                the operations that all of them are made of; `system`: what they are given
"""

from ozaki.sparse.linalg.bicgstab import bicgstab
from ozaki.sparse.linalg.cg import cg
from ozaki.sparse.linalg.gmres import gmres
from ozaki.sparse.linalg.jacobi import jacobi

__all__ = ["bicgstab", "cg", "gmres", "jacobi"]
