"""Linear algebra with the same bits on every machine; with proofs in `ozaki.linalg.verified`."""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

from importlib import import_module
from types import ModuleType

from multiword.public import public_names
from ozaki.linalg.functions import (
    cholesky,
    det,
    inv,
    lu_factor,
    lu_solve,
    qr,
    slogdet,
    solve,
    solve_triangular,
)
from ozaki.linalg.least_squares import lstsq
from ozaki.linalg.singular_values import cond, matrix_rank, norm, pinv
from ozaki.linalg.spectral import eigh, eigvalsh, svd, svdvals

__all__ = public_names(__name__)


def __dir__() -> list[str]:
    """The public names; `ozaki.linalg.verified` is one, imported or not."""
    return [*__all__, "verified"]


def __getattr__(name: str) -> ModuleType:
    """Import `ozaki.linalg.verified` on first use."""
    if name == "verified":
        return import_module("ozaki.linalg.verified")
    raise AttributeError(f"module 'ozaki.linalg' has no attribute {name!r}")
