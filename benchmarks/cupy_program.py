"""`python -m benchmarks.cupy_program [--json FILE]`: a Hartree–Fock program on CuPy, with our products.

The program, tests/programs/hartree_fock.py, knows nothing of the library. It runs as it is, within
`ozaki.cupy.emulated()`, there with products of a million multiplications and more alone, and with correctly
rounded ones, in turns. Seconds are the least of some turns of the whole program, of which eigenvalues and
elementwise functions, all CuPy's, are a part; those of products are what the mode has noted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.dgemm import versions
from benchmarks.timing import publish

ATOMS, SPACING = (6, 16, 32), 1.8
TURNS = 3

Way = Callable[[], AbstractContextManager[Any]]


def ways() -> Mapping[str, Way]:
    """The products of CuPy, and of this library in its place."""
    from ozaki.cupy import emulated

    return {
        "CuPy": nullcontext,
        "normwise": emulated,
        "normwise, from 10⁶ multiplications": partial(emulated, minimum=10**6),
        "fp64": partial(emulated, "fp64"),
        "exact": partial(emulated, "exact"),
    }


def run(atoms: int, way: Way) -> dict[str, Any]:
    """The energy, what it took, and what was replaced."""
    from tests.programs.hartree_fock import energy

    start = time.perf_counter()
    with way() as calls:
        value = energy(atoms, SPACING)
    elapsed = time.perf_counter() - start
    record: dict[str, Any] = {"energy": value, "seconds": elapsed}
    if calls is not None:
        record |= {"products": sum(c.products for c in calls), "of products": sum(c.seconds for c in calls)}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    import cupy

    rows = []
    for atoms in ATOMS:
        turns = [{name: run(atoms, way) for name, way in ways().items()} for _ in range(TURNS + 1)][1:]
        for name in ways():
            energies = {turn[name]["energy"] for turn in turns}
            least = min((turn[name] for turn in turns), key=lambda record: record["seconds"])
            rows.append({"atoms": atoms, "way": name, **least, "energies": len(energies)})
            print(rows[-1], flush=True)
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.cupy_program",
        "environment": versions(cupy),
        "unit": "seconds, the least of three turns; energies: how many different ones came out of these",
        "results": rows,
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
