"""SciPy's functions of matrices that `ozaki.linalg` has, in SciPy's signatures.

A call with an option that this library has not is SciPy's, as is one of a matrix that is no array of numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.suites.replaced import Replaced
from ozaki import linalg

_OF_NO_MATTER = {"overwrite_a", "overwrite_b", "check_finite", "lapack_driver", "lwork", "driver"}
"""Options that change no result that this library returns."""


def _solve(a: Any, b: Any) -> Any:
    return linalg.solve(a, b)


def _lstsq(a: Any, b: Any, cond: Any = None) -> Any:
    return linalg.lstsq(a, b, cond)


def _cholesky(a: Any, lower: bool = False) -> Any:
    return linalg.cholesky(a, upper=not lower)


def _qr(a: Any, mode: str = "full") -> Any:
    if mode == "r":
        return (linalg.qr(a, "complete")[1],)
    return linalg.qr(a, {"full": "complete", "economic": "reduced"}[mode])


def _eigh(a: Any, lower: bool = True, eigvals_only: bool = False) -> Any:
    triangle = "L" if lower else "U"
    return linalg.eigvalsh(a, triangle) if eigvals_only else tuple(linalg.eigh(a, triangle))


def _eigvalsh(a: Any, lower: bool = True) -> Any:
    return linalg.eigvalsh(a, "L" if lower else "U")


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    result = linalg.svd(a, full_matrices, compute_uv)
    return tuple(result) if compute_uv else result


_OURS: dict[str, Callable[..., Any]] = {
    "solve": _solve,
    "inv": linalg.inv,
    "det": linalg.det,
    "lstsq": _lstsq,
    "cholesky": _cholesky,
    "lu_factor": linalg.lu_factor,
    "lu_solve": linalg.lu_solve,
    "solve_triangular": linalg.solve_triangular,
    "qr": _qr,
    "eigh": _eigh,
    "eigvalsh": _eigvalsh,
    "svd": _svd,
    "svdvals": linalg.svdvals,
}


def of_scipy() -> dict[ModuleType, dict[str, Any]]:
    """Return the replaced functions of `scipy.linalg`."""
    replaced = {}
    for name, ours in _OURS.items():
        original = getattr(scipy.linalg, name)
        replaced[name] = Replaced(original, _in_signature(original, ours))
    return {scipy.linalg: replaced}


def _in_signature(original: Any, ours: Callable[..., Any]) -> Callable[..., Any]:
    """Return our function as it is called with SciPy's arguments, SciPy's where an option is not ours."""
    parameters, own = inspect.signature(original).parameters, inspect.signature(ours).parameters
    names = list(own)

    def compute(*args: Any, **options: Any) -> Any:
        try:
            given = inspect.signature(original).bind(*args, **options).arguments
        except TypeError:
            return original(*args, **options)  # which says what is wrong
        others = {
            n
            for n, x in given.items()
            if n not in own and n not in _OF_NO_MATTER and x is not parameters[n].default
        }
        if others - ({"assume_a"} if given.get("assume_a") in ("gen", "general") else set()):
            return original(*args, **options)
        if given.get("mode") == "raw" or given.get("pivoting"):
            return original(*args, **options)
        if given.get("check_finite", True) and "check_finite" not in own:
            for n in {"a", "b"} & given.keys():
                np.asarray_chkfinite(given[n])
        taken = {n: x for n, x in given.items() if n in own}
        first = names[0]
        return ours(taken.pop(first), **taken)

    return compute
