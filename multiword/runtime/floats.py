"""The floating-point mode of the calling thread, which is IEEE 754's default while this library computes.

Libraries linked with -ffast-math, or `torch.set_flush_denormal(True)`, have a thread take subnormal numbers
for zeros; some change how it rounds. Threads that are started meanwhile have the mode of the one that starts
them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_SMALLEST_NORMAL, _BELOW_HALF, _ABOVE_HALF = 2.0**-1022, 2.0**-60, 3 * 2.0**-54

_ENVIRONMENT_BYTES = 256
"""More than a `fenv_t` has anywhere."""


def is_default() -> bool:
    """Return whether this thread keeps subnormal numbers and rounds to nearest, which takes 0.1 µs."""
    return _SMALLEST_NORMAL * 0.5 != 0.0 and 1.0 + _BELOW_HALF == 1.0 != 1.0 + _ABOVE_HALF


@contextmanager
def default_mode() -> Iterator[None]:
    """Within the context this thread has the default mode, and then its own again.

    Raises RuntimeError where it cannot be set.
    """
    library, default = _fenv()
    own = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    if library is not None:
        library.fegetenv(own)
        library.fesetenv(default)
    try:
        if not is_default():
            raise RuntimeError(
                "this thread flushes subnormal numbers to zero, or does not round to nearest, so results "
                "would be wrong: set its mode back, as with torch.set_flush_denormal(False)"
            )
        yield
    finally:
        if library is not None:
            library.fesetenv(own)


@cache
def _fenv() -> tuple[Any, Any]:
    """Return the C library, and its FE_DFL_ENV; None where there is none."""
    try:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":
            default: Any = ctypes.byref(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
        else:  # glibc and musl
            default = ctypes.c_void_p(-1)
        return (library, default) if library.fesetenv and library.fegetenv else (None, None)
    except (OSError, TypeError, ValueError, AttributeError):
        return None, None
