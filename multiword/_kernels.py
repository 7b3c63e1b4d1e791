"""CUDA kernels as data: source, name and the instances worth compiling ahead.

Each kernel is declared beside the NumPy formula that it must equal. Declaring one registers
it, so that the test suite can compile them all for every architecture without a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from multiword._arrays import import_cupy

OPTIONS = ("--std=c++17", "--fmad=false")
"""No contraction: a product and a sum stay two roundings, as they are in NumPy."""

KERNELS: dict[str, Kernel] = {}
"""Every kernel that has been declared, by name."""


@dataclass(frozen=True)
class Kernel:
    """A CUDA kernel `extern "C" __global__ void name(...)` with compile-time constants.

    `instances` lists sets of constants (preprocessor macros) that cover every branch of the
    source: the ahead-of-time compile test runs through them.
    """

    name: str
    source: str
    instances: tuple[dict[str, int | str], ...] = field(default=({},))

    def __post_init__(self) -> None:
        if self.name in KERNELS:
            raise ValueError(f"kernel {self.name!r} is declared twice")
        KERNELS[self.name] = self

    def compiled(self, **constants: int | str) -> Any:
        """Return the CuPy function for these constants on the current device."""
        device = import_cupy().cuda.runtime.getDevice()
        return _compile(self.name, tuple(sorted(constants.items())), device)

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Any, ...],
        *,
        shared: int = 0,
        **constants: int | str,
    ) -> None:
        """Launch on CuPy's current stream."""
        if all(grid):
            self.compiled(**constants)(grid, block, arguments, shared_mem=shared)
            if note := getattr(_local, "note", None):
                note(arguments)


_local = threading.local()


@contextmanager
def noting(note: Callable[[tuple[Any, ...]], None]) -> Iterator[None]:
    """Within the context, call note(arguments) after each launch that this thread makes."""
    _local.note = note
    try:
        yield
    finally:
        _local.note = None


def definitions(constants: dict[str, int | str]) -> tuple[str, ...]:
    """Compiler options that define the constants."""
    return tuple(f"-D{key}={value}" for key, value in sorted(constants.items()))


@cache
def _compile(name: str, constants: tuple[tuple[str, int | str], ...], device: int) -> Any:
    del device  # part of the key: a function belongs to the device it was loaded on
    options = OPTIONS + definitions(dict(constants))
    return import_cupy().RawKernel(KERNELS[name].source, name, options=options)
