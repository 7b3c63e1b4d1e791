"""Choosing an engine by name or by the arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from multiword.engines.contract import Engine, declared
from multiword.public import public_in
from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.forking import loading, to_the_end

ENGINES = {
    "host": "multiword.engines.host:Host",
    "int8_cpu": "multiword.engines.int8_cpu.engine:Int8Cpu",
    "cublas": "multiword.engines.cublas:Cublas",
    "tensorcore": "multiword.engines.tensorcore:TensorCore",
}
"""The engines by name, as "module:class". A class is imported with the first use of its engine: neither the
GPU's libraries nor the model is needed by the others."""


@public_in("multiword", "Engines")
def get_engine(engine: str | Engine = "auto", like: Array | None = None) -> Engine:
    """Return the engine of that name, fit for arrays such as `like`.

    Parameters
    ----------
    engine : one of `ENGINES`, "int8_cpu:" and a kernel's name, or "auto": "cublas" for CuPy arrays, and
        "host" for NumPy's, both with products of residues by a kernel of our own where that is faster. An
        `Engine` passes through.
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
    if isinstance(engine, str):
        if engine == "auto":
            return _automatic(is_cupy(like))
        chosen = _named(engine)
    elif hasattr(engine, "multiply"):
        chosen = engine
    else:
        raise TypeError(f"engine must be one of {_NAMES} or an Engine, got {engine!r}")
    if like is not None and declared(chosen, "on_gpu") != is_cupy(like):
        kinds = ("NumPy", "CuPy") if is_cupy(like) else ("CuPy", "NumPy")
        raise ValueError(f"engine {chosen.name!r} needs {kinds[0]} arrays, got {kinds[1]} arrays")
    return chosen


@cache
def _automatic(on_gpu: bool) -> Engine:
    if on_gpu:
        return _class_of("cublas")(fused=True)
    return _class_of("int8_cpu")(automatic=True)


_NAMES = ", ".join(("auto", *ENGINES))


@cache
def _named(name: str) -> Engine:
    engine, *options = name.split(":")
    if engine not in ENGINES:
        hint = "; cublas is that of the GPU" if engine.lower() in ("gpu", "cuda", "cupy") else ""
        raise ValueError(f"unknown engine {name!r}; known are {_NAMES}{hint}")
    return _class_of(engine)(*options)


def _class_of(engine: str) -> Callable[..., Engine]:
    module, class_name = ENGINES[engine].split(":")

    def load() -> Callable[..., Engine]:
        with loading:  # a fork would leave the child with a lock of the import
            made: Callable[..., Engine] = getattr(import_module(module), class_name)
        return made

    return to_the_end(load)  # a handler here would wait for this thread's lock, in another one
