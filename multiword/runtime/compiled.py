"""Compiled forms of steps on a CPU: modules `*_numba.py` beside the NumPy forms, with the same bits.

Importing one compiles it, which takes longer than most products: that is done once it pays. numba is the
extra `fast`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from math import inf
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

patience = 0.05
"""Seconds that a step may lose in NumPy's form before it is compiled; with 0 that is done at once.

So what is computed a few times does not wait. As each module has to have been missed since the last one was
compiled, no call waits for all of them.
"""

COMPILATION = 2.0
"""More seconds than the compilation of a module takes: what saves a call so many is compiled at once."""

_modules: dict[str, ModuleType | None] = {}
_missed: dict[str, float] = {}


def compiled(module: str, saves: float = inf) -> Any:
    """The module of that name, compiled once it pays; None before, and where numba is not there or fails.

    saves : about how many seconds compiled code saves the caller, who else takes NumPy's form.
    """
    if not enabled:
        return None
    if module in _modules:
        return _modules[module]
    before = _missed.get(module, 0.0)
    _missed[module] = before + saves
    return _compile(module) if before >= patience or saves >= COMPILATION else None


def _compile(module: str) -> ModuleType | None:
    with loading:  # a fork would leave the child with a lock of the import or the compiler
        if module not in _modules:
            _modules[module] = _import(module)
            _missed.clear()
    return _modules[module]


def _import(module: str) -> ModuleType | None:
    try:
        import numba

        return None if numba.config.DISABLE_JIT else import_module(module)  # type: ignore[attr-defined]
    except ImportError:
        return None
    except Exception as error:  # of a numba that does not fit its NumPy or LLVM, say
        warnings.warn(f"{module} does not compile: {error}", RuntimeWarning, stacklevel=2)
        return None
