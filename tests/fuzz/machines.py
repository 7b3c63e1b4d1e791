"""The bits of this machine, against those that others have recorded.

    python -m tests.fuzz.machines                    # compare, a line for each family: a minute
    python -m tests.fuzz.machines --only NAME        # each call of a family, to find the one that differs
    python -m tests.fuzz.machines --record "a name"  # add this machine to the file

The calls are those by which GPUs are compared (`devices`), larger products, and every elementary function of
a sample of all float32 numbers. Their seeds are fixed, and so are their arguments: these are made of integers
and not of NumPy's logarithms and exponentials, which differ from machine to machine.
"""

import argparse
import hashlib
import json
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.runtime.compiled import compiles
from ozaki.elementary.api import apply
from ozaki.elementary.record import FUNCTIONS
from ozaki.public import PUBLIC
from tests.fuzz.arrays import place, values
from tests.fuzz.device_cases import FAMILIES
from tests.fuzz.device_products import CASES_OF_A_WIDTH, SWEEPS, Call
from tests.fuzz.devices import called
from tests.fuzz.draw import Draw
from tests.fuzz.exact_products import GEMMS
from tests.fuzz.tally import seed_of

FILE = Path(__file__).parents[2] / "benchmarks" / "results" / "machines.json"
SEED, CASES = 0, 24
STEP = 99_991
"""Of float32 numbers: a prime, so that every exponent and every last bit is met."""

NATIVE = ("multiword.matmul", "batched_matmul")
"""Families whose bits are the machine's own."""

Fingerprints = tuple[str, str]
"""Of arguments, and of results: where the first differ, the second say nothing."""


class Portable(np.random.Generator):
    """A generator whose normal numbers are sums of integers; NumPy's tails are made of logarithms."""

    def standard_normal(self, size: Any = None) -> Any:  # type: ignore[override]
        """Return numbers in [-6, 6) of variance 1 and 53 bits, about normal."""
        shape = () if size is None else tuple(np.atleast_1d(size))
        total = self.integers(0, 2**49, (12, *shape)).sum(axis=0)
        return (total - 12 * 2**48) * 2.0**-49


def larger(draw: Draw) -> Call:
    """Products and stacks of some hundred rows, which other executors take than small ones."""
    dtype, stack = draw.pick("dtype", *GEMMS), draw.pick("stack", (), (), (3,))
    m, k, n = (draw.size(name, 60, 200) for name in "mkn")
    options = {"accuracy": draw.pick("accuracy", "fp64", "fp32", "normwise", "exact", 40)}
    kinds = draw.pick("kinds", "normal", "positive", "rows", "integers", "cancelling")
    specs = {
        "a": draw.spec("a", (*stack, m, k), (dtype,), kinds),
        "b": draw.spec("b", (*stack, k, n), (dtype,), kinds),
    }
    return Call(specs, lambda _, x: [ozaki.matmul(x["a"], x["b"], **options)])


CALLS: dict[str, Callable[[Draw], Call]] = {
    **{name: family for name, family in FAMILIES.items() if name not in NATIVE},
    "larger products": larger,
}
FLOAT32 = "elementary functions of float32"
SAMPLED = tuple(name for name in FUNCTIONS if name in PUBLIC)
FAMILY_NAMES = (*CALLS, FLOAT32)


def cases(name: str) -> range:
    """Return the numbers of a family's cases; a sweep's are of all its widths and inner dimensions."""
    if name not in SWEEPS:
        return range(CASES)
    total = SWEEPS[name][3] * CASES_OF_A_WIDTH
    return range(0, total, total // CASES | 1)


def one_case(name: str, case: int) -> Fingerprints | None:
    """Return the fingerprints of a case, or None for one that depends on the machine's memory."""
    seed = seed_of(SEED, name, case)
    draw = Draw(seed, case=case)
    draw.rng = Portable(np.random.PCG64(seed))
    call = CALLS[name](draw)
    if any(note.startswith("workspace=") for note in draw.notes):
        return None
    numbers = {key: values(draw.rng, spec) for key, spec in call.specs.items()}
    arguments = ozaki.fingerprint([*numbers.values(), *draw.notes])
    with np.errstate(all="ignore"):
        results, error = called(call, np, {k: place(x, call.specs[k].layout) for k, x in numbers.items()})
        return arguments, ozaki.fingerprint([*results, error and error.split(":")[0]])


def of_all_float32(name: str) -> Fingerprints:
    """Return the fingerprints of a sample of all float32 numbers, and of a function of them."""
    patterns = np.arange(0, 1 << 32, STEP, dtype=np.int64).astype(np.uint32)
    x = patterns.view(np.float32)
    others = (np.roll(x, len(x) // 3),) if FUNCTIONS[name].arguments == 2 else ()
    return ozaki.fingerprint(patterns), ozaki.fingerprint(apply(name, x, *others))


def calls(name: str) -> Iterator[tuple[str, Fingerprints]]:
    """Yield a name and the fingerprints of every call of a family."""
    if name == FLOAT32:
        yield from ((function, of_all_float32(function)) for function in SAMPLED)
        return
    found = ((f"{name} {case}", one_case(name, case)) for case in cases(name))
    yield from ((line, both) for line, both in found if both is not None)


def together(found: list[Fingerprints]) -> Fingerprints:
    """Return the fingerprints of all calls of a family."""
    one, other = (hashlib.sha256("".join(x).encode()).hexdigest()[:16] for x in zip(*found, strict=True))
    return one, other


def commit() -> str:
    """Return the commit of this checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    return subprocess.run(command, cwd=FILE.parent, capture_output=True, text=True, check=True).stdout.strip()


def environment() -> dict[str, Any]:
    """Return what these bits were computed with."""
    packages = ("numpy", "scipy", *(("numba", "llvmlite") if compiles() else ()))
    return {
        "date": date.today().isoformat(),
        "commit": commit(),
        "machine": platform.machine(),
        "compiled": compiles(),
        "byte products": [kernel.name for kernel in available_kernels()] if compiles() else [],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages if find_spec(name)},
    }


def recorded() -> dict[str, Any]:
    """Return the file's contents: machines, and the fingerprints that all of them have."""
    return json.loads(FILE.read_text()) if FILE.exists() else {"machines": {}, "fingerprints": {}}


def verdict(found: Fingerprints, expected: list[str] | None) -> str:
    """Say what a family's fingerprints are, beside those recorded."""
    if expected is None or found[0] != expected[0]:
        return "other calls than those recorded" if expected else "not recorded"
    return "same" if found[1] == expected[1] else "DIFFERENT"


def record(name: str, entry: dict[str, Any], found: dict[str, Fingerprints]) -> None:
    """Write a machine, what differs there, and the fingerprints of calls that nobody has recorded."""
    known = recorded()
    verdicts = {family: verdict(both, known["fingerprints"].get(family)) for family, both in found.items()}
    entry |= {"families": len(found), "differing": [x for x, said in verdicts.items() if said == "DIFFERENT"]}
    new = {family: both for family, both in found.items() if verdicts[family] not in ("same", "DIFFERENT")}
    content = {
        "date": entry["date"],
        "command": "python -m tests.fuzz.machines --record NAME",
        "machines": known["machines"] | {name: entry},
        "fingerprints": known["fingerprints"] | new,
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each family, and return 1 if any has other bits than those recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.machines", description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=FAMILY_NAMES, metavar="NAME", help="print each of its calls")
    parser.add_argument("--record", metavar="NAME", help="add this machine, with that name, to the file")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=ozaki.CostWarning)  # the data are hard on purpose
    if options.only:
        for line, both in calls(options.only):
            print(line, *both)
        return 0
    expected, found, begun, wrong = recorded()["fingerprints"], {}, time.monotonic(), 0
    entry = environment() if options.record else {}
    for name in FAMILY_NAMES:
        found[name] = together([both for _, both in calls(name)])
        said = verdict(found[name], expected.get(name))
        wrong += said == "DIFFERENT"
        print(f"{name:36}{found[name][1]}  {said}", flush=True)
    if options.record:
        record(options.record, entry | {"seconds": round(time.monotonic() - begun)}, found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
