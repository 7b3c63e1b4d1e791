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

__all__ = [
    "cholesky",
    "det",
    "inv",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
]
