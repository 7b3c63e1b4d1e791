"""Linear algebra with the same bits on every machine; with proofs in `ozaki.linalg.verified`."""

from ozaki.linalg.functions import (
    cholesky,
    det,
    inv,
    lstsq,
    lu_factor,
    lu_solve,
    qr,
    slogdet,
    solve,
    solve_triangular,
)
from ozaki.linalg.spectral import eigh, eigvalsh, svd, svdvals

__all__ = [
    "cholesky",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
]
