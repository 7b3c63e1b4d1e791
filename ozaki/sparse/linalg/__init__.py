"""Krylov methods with SciPy's signatures, whose iterates have the same bits on every machine.

A step is made of products with the matrix and of dot products, each the exact value rounded once, and of
sums x + a·y, each two IEEE operations that nothing contracts: neither threads nor the device can be seen.

    cg, minres, bicgstab, gmres, lsqr, eigsh    the methods, a file each
    jacobi, block_jacobi, incomplete            preconditioners
    vectors, system                             the operations they are made of, and what they are given
"""

from ozaki.sparse.linalg.bicgstab import bicgstab
from ozaki.sparse.linalg.block_jacobi import block_jacobi
from ozaki.sparse.linalg.cg import cg
from ozaki.sparse.linalg.eigsh import eigsh
from ozaki.sparse.linalg.gmres import gmres
from ozaki.sparse.linalg.incomplete import ic0, ilu0
from ozaki.sparse.linalg.jacobi import jacobi
from ozaki.sparse.linalg.lsqr import lsqr
from ozaki.sparse.linalg.minres import minres

__all__ = ["bicgstab", "block_jacobi", "cg", "eigsh", "gmres", "ic0", "ilu0", "jacobi", "lsqr", "minres"]
