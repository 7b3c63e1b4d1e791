"""Compiled forms of steps on a CPU: modules `*_numba.py` beside the NumPy forms, with the same bits.

Importing one compiles it, so that is done when a step first needs it. numba is the extra `fast`.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from multiword.runtime.forking import loading

CALLED: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
"""How functions are compiled that Python calls."""

INNER: dict[str, Any] = {**CALLED, "no_cpython_wrapper": True}
"""How those are that compiled ones call: what a call from Python needs would take time to compile."""

BIAS = 1022
POWERS = 2.0 ** np.arange(-BIAS, 1024)
"""POWERS[e + BIAS] is 2**e, a normal number. Compiled code would call the C library for `ldexp`."""


enabled = True
"""Whether compiled forms are used. NumPy's have the same bits, so this is for tests and benchmarks."""


def compiled(module: str) -> Any:
    """The module of that name, compiled when first asked for; None where numba is not there or fails."""
    return _loaded(module) if enabled else None


@cache
def _loaded(module: str) -> ModuleType | None:
    with loading:  # a fork would leave the child with a lock of the import or the compiler
        try:
            import numba

            return None if numba.config.DISABLE_JIT else import_module(module)  # type: ignore[attr-defined]
        except ImportError:
            return None
        except Exception as error:  # of a numba that does not fit its NumPy or LLVM, say
            warnings.warn(f"{module} does not compile: {error}", RuntimeWarning, stacklevel=2)
            return None
