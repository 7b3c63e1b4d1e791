"""A small model of the machine: how fast its products and its memory are, measured once.

Two rates for every kind of product, by size: of products one after another, and of several in
one batch. Small products fill a GPU only together; large ones are faster alone. Known devices
come as data (`machines.json`, written by `python -m benchmarks.machine`); on others the rates
are measured when they are first asked for, in some milliseconds.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.contract import get_product
from multiword.engines.select import get_engine
from multiword.runtime.arrays import import_cupy

KNOWN = Path(__file__).with_name("machines.json")

SIZES = {"cublas": (256, 512, 1024, 2048, 3072, 4096), "host": (64, 256, 1024)}
"""Sizes that are measured, by engine. What the model of a tensor core would take says nothing."""


@dataclass(frozen=True)
class Rates:
    """Operations a second of n by n by n products, for some n.

    Attributes
    ----------
    sizes : n, increasing.
    alone, together : of products one after another, and in a batch; an operation is a
        multiplication or an addition.
    """

    sizes: tuple[int, ...]
    alone: tuple[float, ...]
    together: tuple[float, ...]

    def at(self, volume: int) -> tuple[float, float]:
        """The rates, alone and together, for products of m·n·k = `volume`."""
        x, known = math.log(max(volume, 1)) / 3, np.log(self.sizes)
        alone, together = (float(np.exp(np.interp(x, known, np.log(y)))) for y in (self.alone, self.together))
        # Below the smallest size a product takes as long as that one.
        floor = min(1.0, volume / self.sizes[0] ** 3)
        return alone * floor, together * floor

    def batch(self, volume: int) -> bool:
        """Whether products of this volume are faster in a batch than one after another."""
        alone, together = self.at(volume)
        return together > alone

    def seconds(self, volume: int, count: int) -> float:
        """The time of so many products of that volume each."""
        return 2 * volume * count / max(self.at(volume))


def rates(engine: str, product: str) -> Rates:
    """The rates of a product on an engine of that name, and on CuPy's current device if it needs one."""
    return _rates(engine, product, _device(engine))


def bandwidth(engine: str) -> float:
    """Bytes a second, read and written, of a large copy in the engine's memory."""
    return _bandwidth(engine, _device(engine))


def device_name(engine: str) -> str:
    """The device that an engine runs on."""
    if engine != "cublas":
        return "CPU"
    return str(import_cupy().cuda.runtime.getDeviceProperties(_device(engine))["name"].decode())


def _device(engine: str) -> int:
    return int(import_cupy().cuda.runtime.getDevice()) if engine == "cublas" else -1


@cache
def known_machines() -> dict[str, Any]:
    """What has been measured, by name of the device."""
    found: dict[str, Any] = json.loads(KNOWN.read_text())
    return found


@cache
def _rates(engine: str, product: str, device: int) -> Rates:
    known = known_machines().get(device_name(engine), {}).get("rates", {}).get(product)
    if known is None:
        return measure_rates(engine, product)
    return Rates(tuple(known["sizes"]), tuple(known["alone"]), tuple(known["together"]))


@cache
def _bandwidth(engine: str, device: int) -> float:
    known = known_machines().get(device_name(engine), {}).get("bandwidth")
    return measure_bandwidth(engine) if known is None else float(known)


def measure_rates(engine: str, product: str) -> Rates:
    """Time products of every size, alone and in a batch."""
    xp, ways = _namespace(engine), [get_engine(engine)]  # a batch is no faster on a CPU
    if engine == "cublas":
        from multiword.engines.cublas import Cublas

        ways = [Cublas(batch=False), Cublas(batch=True)]
    kind, sizes = get_product(product), SIZES[engine]
    found: list[list[float]] = [[] for _ in ways]
    for n in sizes:
        count = 1 if len(ways) == 1 else 8 if n <= 2048 else 4
        # Random words of full width: constant ones draw less power, and so run faster.
        words = xp.random.default_rng(0).integers(-127, 127, (2, count, n, n)).astype(kind.word)
        out = xp.empty((count, n, n), kind.result)
        for way, speeds in zip(ways, found, strict=True):
            work = partial(way.multiply, product, *words, out=out)
            speeds.append(2 * n**3 * count / _fastest(work, xp))
    return Rates(sizes, tuple(found[0]), tuple(found[-1]))


def measure_bandwidth(engine: str) -> float:
    """Time a copy that is larger than any cache."""
    xp = _namespace(engine)
    x = xp.zeros(1 << (28 if xp is not np else 24))
    y = xp.empty_like(x)
    return 2 * x.nbytes / _fastest(lambda: xp.copyto(y, x), xp)


def _namespace(engine: str) -> Any:
    return import_cupy() if engine == "cublas" else np


def _fastest(work: Callable[[], Any], xp: Any, repeats: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    work()
    times = []
    for _ in range(repeats):
        if xp is np:
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        else:
            first, last = xp.cuda.Event(), xp.cuda.Event()
            first.record()
            work()
            last.record()
            last.synchronize()
            times.append(xp.cuda.get_elapsed_time(first, last) * 1e-3)
    return min(times)
