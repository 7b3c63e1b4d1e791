"""Choosing an engine by name or by the arrays."""

from __future__ import annotations

from functools import cache
from typing import cast

from multiword.engines.contract import Engine
from multiword.runtime.arrays import Array, is_cupy

NAMES = ("auto", "host", "cublas", "tensorcore")


def get_engine(engine: str | Engine = "auto", like: Array | None = None) -> Engine:
    """Return the engine of that name, fit for arrays such as `like`.

    Parameters
    ----------
    engine : "host", "cublas", "tensorcore", or "auto": "cublas" for CuPy arrays, with products of residues
        by a kernel of our own where that is faster, and "host" for NumPy's. An `Engine` passes through.
    like : an array that the engine must reach, or None.

    Returns
    -------
    An `Engine`; the same object for the same name.

    Raises
    ------
    TypeError : neither a name nor an `Engine`.
    ValueError : unknown name, or an engine that cannot reach the arrays (arrays are never
        moved unasked).
    ImportError, RuntimeError : the GPU's libraries are not installed; the message names the
        extra that brings them.

    >>> get_engine("auto").name
    'host'
    """
    if not isinstance(engine, str):
        if not hasattr(engine, "multiply"):
            raise TypeError(f"engine must be one of {', '.join(NAMES)} or an Engine, got {engine!r}")
        chosen = engine
    elif engine == "auto":
        chosen = _named("auto" if is_cupy(like) else "host")
    elif engine in NAMES:
        chosen = _named(engine)
    else:
        raise ValueError(f"unknown engine {engine!r}; known are {', '.join(NAMES)}")
    if like is not None and (chosen.name == "cublas") != is_cupy(like):
        kinds = ("CuPy", "NumPy") if chosen.name == "cublas" else ("NumPy", "CuPy")
        raise ValueError(f"engine {chosen.name!r} needs {kinds[0]} arrays, got {kinds[1]} arrays")
    return chosen


@cache
def _named(name: str) -> Engine:
    # Imported late: neither the GPU's libraries nor the model is needed by the other engines.
    if name == "host":
        from multiword.engines.host import Host

        return Host()
    if name in ("auto", "cublas"):
        from multiword.engines.cublas import Cublas

        return Cublas(fused=name == "auto")
    from multiword.engines.tensorcore import TensorCore

    return cast(Engine, TensorCore("H200"))
