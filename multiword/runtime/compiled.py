"""Compiled forms of steps on a CPU: modules `*_numba.py` beside the NumPy forms, with the same bits.

Importing one compiles it, so that is done when a step first needs it. numba is the extra `fast`.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from multiword.runtime.forking import loading

CALLED: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""How functions are compiled that Python calls."""

INNER: dict[str, Any] = {**CALLED, "no_cpython_wrapper": True}
"""How those are that compiled ones call: what a call from Python needs would take time to compile."""


@cache
def compiled(module: str) -> Any:
    """The module of that name, imported and compiled now; None where numba is missing or does not work."""
    with loading:  # a fork would leave the child with a lock of the import or the compiler
        try:
            return _imported(module)
        except ImportError:
            return None
        except Exception as error:  # an older or newer numba, NumPy or LLVM: NumPy has the same bits
            warnings.warn(
                f"{module} does not compile, NumPy takes its place: {error}", RuntimeWarning, stacklevel=3
            )
            return None


def _imported(module: str) -> ModuleType | None:
    import numba

    return None if numba.config.DISABLE_JIT else import_module(module)
