"""`python -m benchmarks.machine`: the rates of this GPU, added to those that come with the library."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from functools import partial
from typing import Any

from benchmarks.timing import compact, events
from multiword.engines import WORDS, machine
from multiword.engines.cublas import Cublas
from multiword.engines.machine import Rates

SIZES = (256, 512, 1024, 2048, 3072, 4096)


def measure_rates(product: str) -> Rates:
    """Time products of every size, alone and in a batch."""
    import cupy

    engines = Cublas(batch=False), Cublas(batch=True)
    kind = WORDS[product]
    found: list[list[float]] = [[], []]
    for n in SIZES:
        count = 8 if n <= 2048 else 4
        # Random words of full width: constant ones draw less power, and so run faster.
        words = cupy.random.default_rng(0).integers(-127, 127, (2, count, n, n)).astype(kind.dtype)
        out = cupy.empty((count, n, n), kind.result)
        for engine, speeds in zip(engines, found, strict=True):
            work = partial(engine.multiply, product, *words, out=out)
            speeds.append(2 * n**3 * count / fastest(work))
    return Rates(SIZES, tuple(found[0]), tuple(found[1]))


def measure_bandwidth() -> float:
    """Time a copy that is larger than any cache."""
    import cupy

    x = cupy.zeros(1 << 28)
    y = cupy.empty_like(x)
    return 2 * x.nbytes / fastest(lambda: cupy.copyto(y, x))


def fastest(work: Any, repeats: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    work()
    return min(events(work) for _ in range(repeats))


def main() -> None:
    """Measure, print and save."""
    found = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.machine",
        "compute_capability": ".".join(map(str, machine.compute_capability())),
        "bandwidth": measure_bandwidth(),
        "rates": {p: asdict(measure_rates(p)) for p in WORDS},
    }
    name = machine.device_name("cublas")
    known = machine.known_machines()
    known = {**known, name: {**known.get(name, {}), **found}}  # `longest_reduced` is of benchmarks.fused
    machine.KNOWN.write_text(compact(known))
    print(name, compact(found), sep="\n")


if __name__ == "__main__":
    main()
