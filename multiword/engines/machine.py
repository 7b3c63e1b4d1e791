"""The measured speed of a machine's products and memory.

Two rates for every kind of product, by size: of products one after another, and of several in
one batch. Small products fill a GPU only together; large ones are faster alone. The rates are data
(`machines.json`, to which `python -m benchmarks.machine` adds a device); nothing is measured here, and other
devices have no rates.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime import kernels
from multiword.runtime.arrays import import_cupy

KNOWN = Path(__file__).with_name("machines.json")


@dataclass(frozen=True)
class Rates:
    """Operations a second of n by n by n products, for some n.

    Attributes
    ----------
    sizes : n, increasing.
    alone, together : of products one after another, and in a batch. An addition is an operation.
    """

    sizes: tuple[int, ...]
    alone: tuple[float, ...]
    together: tuple[float, ...]

    def at(self, volume: int) -> tuple[float, float]:
        """Return the rates, alone and together, for products of m·n·k = `volume`."""
        x, sizes = math.log(max(volume, 1)) / 3, np.log(self.sizes)
        alone, together = (float(np.exp(np.interp(x, sizes, np.log(y)))) for y in (self.alone, self.together))
        # Below the smallest size a product takes as long as that one.
        floor = min(1.0, volume / self.sizes[0] ** 3)
        return alone * floor, together * floor

    def batch(self, volume: int) -> bool:
        """Return whether products of this volume are faster in a batch than one after another."""
        alone, together = self.at(volume)
        return together > alone

    def seconds(self, volume: int, count: int) -> float:
        """Return the time of so many products of that volume each."""
        return 2 * volume * count / max(self.at(volume))


def rates(engine: str, product: str) -> Rates | None:
    """Return the rates of a product on the engine's device (CuPy's current one); None if not measured."""
    return _rates(device_name(engine), product)


def bandwidth(engine: str) -> float | None:
    """Return the bytes a second, read and written, of a large copy in the engine's memory, or None."""
    machine = known_machines().get(device_name(engine))
    return float(machine["bandwidth"]) if machine else None


def longest_reduced(engine: str) -> int:
    """Return the longest inner dimension for which products of residues, reduced where they are computed,
    were measured to be faster than int32 products that are read again; 0 if not measured.

    For a GPU that was not measured, that is known of one of its compute capability.
    """
    machines, name = known_machines(), device_name(engine)
    if engine == "cublas" and name not in machines:
        capability = ".".join(map(str, compute_capability()))
        name = next(
            (x for x, known in machines.items() if known.get("compute_capability") == capability), name
        )
    return int(machines.get(name, {}).get("longest_reduced", 0))


def device_name(engine: str) -> str:
    """Return the name of the device that an engine runs on."""
    return _gpu_name(_device()) if engine == "cublas" else "CPU"


def multiprocessors() -> int:
    """Return the number of multiprocessors of CuPy's current device."""
    return _multiprocessors(_device())


def block_memory() -> int:
    """Return the bytes of shared memory that a block may have on CuPy's current device."""
    return kernels.block_memory(_device())


def compute_capability() -> tuple[int, int]:
    """Return (major, minor) of CuPy's current device."""
    return _compute_capability(_device())


def _device() -> int:
    return int(import_cupy().cuda.runtime.getDevice())


@cache
def _gpu_name(device: int) -> str:
    return str(import_cupy().cuda.runtime.getDeviceProperties(device)["name"].decode())


@cache
def _multiprocessors(device: int) -> int:
    return int(import_cupy().cuda.Device(device).attributes["MultiProcessorCount"])


@cache
def _compute_capability(device: int) -> tuple[int, int]:
    number = import_cupy().cuda.Device(device).compute_capability
    return int(number[:-1]), int(number[-1])


@cache
def known_machines() -> dict[str, Any]:
    """Return the measurements, by name of the device."""
    machines: dict[str, Any] = json.loads(KNOWN.read_text())
    return machines


@cache
def _rates(device: str, product: str) -> Rates | None:
    measured = known_machines().get(device, {}).get("rates", {}).get(product)
    return measured and Rates(*(tuple(measured[name]) for name in ("sizes", "alone", "together")))
