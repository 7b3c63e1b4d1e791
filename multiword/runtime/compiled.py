"""Compiled forms of steps on a CPU: modules `*_numba.py` beside the NumPy forms, with the same bits.

None is imported before it is needed, and their functions are compiled, or loaded from disk, when they are
first called (`jit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from multiword.runtime.forking import loading, to_the_end

F = TypeVar("F", bound=Callable[..., Any])

CALLED: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
"""How functions are compiled that Python calls."""

INNER: dict[str, Any] = {**CALLED, "no_cpython_wrapper": True}
"""How those are that compiled ones call: what a call from Python needs would take time to compile."""

BIAS = 1022
POWERS = 2.0 ** np.arange(-BIAS, 1024)
"""POWERS[e + BIAS] is 2**e, a normal number. Compiled code would call the C library for `ldexp`."""

_enabled = True

_modules: dict[str, ModuleType | None] = {}
"""Modules of compiled loops by name, once they are imported; None where they cannot be."""


def compiled(module: str) -> Any:
    """Return the module of that name; None where numba cannot be imported, or is told not to compile."""
    if not _enabled:
        return None
    if module not in _modules:
        to_the_end(lambda: _load(module))
    return _modules[module]


def compiling() -> bool:
    """Return whether `compiled` returns modules."""
    return _enabled and _compiles()


@contextmanager
def numpy_forms() -> Iterator[None]:
    """Within the context no thread uses compiled forms. The bits are the same: for tests and benchmarks."""
    before = _enabled
    _enable(False)
    try:
        yield
    finally:
        _enable(before)


def _enable(enabled: bool) -> None:
    global _enabled
    _enabled = enabled
    for cached in _CACHED_FORMS:
        cached.cache_clear()


def cached_form(function: F) -> F:
    """Cache what a function chooses by asking `compiled`, which takes a third of a short loop's time."""
    cached = cache(function)
    _CACHED_FORMS.append(cached)
    return cast(F, cached)


_CACHED_FORMS: list[Any] = []
"""Emptied where `numpy_forms` begins and ends."""


def _load(module: str) -> None:
    with loading:  # a fork would leave the child with a lock of the import or the compiler
        if module not in _modules:
            _modules[module] = import_module(module) if compiles() else None


@cache
def _compiles() -> bool:
    return to_the_end(_asked)  # numba's import is not cut in two


def _asked() -> bool:
    with loading:
        return compiles()


def compiles() -> bool:
    """Return whether numba can be imported, and is not told not to compile."""
    try:
        import numba
    except ImportError:
        return False
    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
