"""Compare elementary functions of all 2**32 float32 arguments with what they are.

    python -m tests.exhaustive                 # all functions, on this processor
    python -m tests.exhaustive exp log --gpu   # some, on all GPUs there are, a function on each, in seconds
    python -m tests.exhaustive --step 1009     # a sample
    python -m tests.exhaustive --gpu --json benchmarks/results/elementary_h200.json

Every value is compared with a float64 function of NumPy or CuPy. Where that is within reach of a midpoint of
two float32 numbers, or differs, mpmath decides in many digits. Printed for each function, and written to a
file as it comes: how many values are wrong, how many mpmath decided, and a fingerprint of all bits, which is
the same on every machine; and that of a sample, which the tests compare.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import on_host, to_float32, to_float64
from ozaki.elementary.api import apply
from tests.elementary.references import REFERENCES, mp, nearest, special_of

ALL, BLOCK = 1 << 32, 1 << 24
SAMPLE = 999_983
"""The step of the sample whose fingerprint is kept beside that of all."""

NAN = 0x7FC00000
SHOWN = 5
PATIENCE = 1_000_000
"""More doubts than that: the function, or its reference, is wrong altogether."""


class Tally:
    """What has been compared of one function."""

    def __init__(self, name: str) -> None:
        self.name, self.total, self.wrong, self.decided, self.mixed = name, 0, 0, 0, 0
        self.hopeless = False

    def compare(self, xp: Any, patterns: Any) -> None:
        """Compare the values of arguments with these bit patterns."""
        x = patterns.astype(np.uint32).view(np.float32)
        ours = apply(self.name, x)
        self.mixed = (self.mixed + _mixed(xp, patterns, ours)) % (1 << 64)
        self.total += int(x.size)
        reference = REFERENCES[self.name]
        with np.errstate(all="ignore"):
            y = reference.approximate(xp, special_of(xp), to_float64(x))
            margin = 2.0**-reference.bits
            low, high = to_float32(y * (1 - margin)), to_float32(y * (1 + margin))
        bits = ours.view(np.uint32)
        right = (low.view(np.uint32) == bits) & (high.view(np.uint32) == bits)
        right |= xp.isnan(y) & (bits == NAN)
        doubts = xp.flatnonzero(~right & xp.isfinite(x))
        self.hopeless = self.decided + doubts.size > PATIENCE
        if self.hopeless:
            self.wrong += int(doubts.size)
        else:
            self._decide(on_host(x[doubts]), on_host(ours[doubts]))

    def _decide(self, x: np.ndarray, ours: np.ndarray) -> None:
        self.decided += len(x)
        for argument, value in zip(x, ours, strict=True):
            expected = _exact(self.name, argument)
            if expected.tobytes() != value.tobytes():
                self.wrong += 1
                if self.wrong <= SHOWN:
                    print(f"  {self.name}({float(argument)!r}) is {value!r}, not {expected!r}", flush=True)


def _exact(name: str, x: np.float32) -> np.float32:
    try:
        value = REFERENCES[name].exact(mp.mpf(float(x)))
    except (ValueError, ZeroDivisionError, OverflowError):
        return np.float32(np.nan)
    return np.float32(np.nan) if isinstance(value, mp.mpc) or mp.isnan(value) else nearest(value, np.float32)


def _mixed(xp: Any, patterns: Any, values: Any) -> int:
    """Return a sum of hashes of (argument, value), which depends on no order."""
    h = (patterns.astype(np.uint64) << np.uint64(32)) | values.view(np.uint32).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    return int(h.sum(dtype=np.uint64))


def compare(name: str, xp: Any, step: int, block: int = BLOCK) -> Tally:
    """Compare a function of every step-th float32 number."""
    tally = Tally(name)
    for start in range(0, ALL, block * step):
        tally.compare(xp, xp.arange(start, min(start + block * step, ALL), step, dtype=np.int64))
        if tally.hopeless:
            break
    return tally


def result(name: str, step: int, gpu: bool) -> dict[str, Any]:
    """Return what has been found of a function."""
    if gpu:
        import cupy as xp
    else:
        xp = np
    begun = time.perf_counter()
    tally = compare(name, xp, step)
    return {
        "function": name,
        "inputs": tally.total,
        "wrong": tally.wrong,
        "decided in many digits": tally.decided,
        "fingerprint": f"{tally.mixed:016x}",
        "sample": f"{compare(name, xp, SAMPLE).mixed:016x}",
        "seconds": round(time.perf_counter() - begun, 1),
    }


def results(names: Sequence[str], step: int, gpu: bool) -> Iterator[dict[str, Any]]:
    """Return results as they come, of all GPUs at once."""
    if not gpu:
        yield from (result(name, step, gpu) for name in names)
        return
    import cupy

    context, count = get_context("spawn"), cupy.cuda.runtime.getDeviceCount()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    devices = context.Queue()
    for device in visible.split(","):
        devices.put(device)
    with ProcessPoolExecutor(count, mp_context=context, initializer=_on, initargs=(devices,)) as pool:
        for done in as_completed([pool.submit(result, name, step, gpu) for name in names]):
            if error := done.exception():
                print(repr(error), file=sys.stderr, flush=True)
            else:
                yield done.result()


def _on(devices: Any) -> None:
    """Have this process see one GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = devices.get()


def _environment(gpu: bool) -> dict[str, str]:
    if not gpu:
        return {"numpy": np.__version__}
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return {"device": name, "cupy": cupy.__version__}


def _write(path: Path, options: argparse.Namespace, entries: dict[str, dict[str, Any]]) -> None:
    """Write all results there are, in the order of the functions."""
    report = {
        "date": str(date.today()),
        "command": f"python -m tests.exhaustive{' --gpu' * options.gpu}",
        "environment": _environment(options.gpu),
        "what": "elementary functions of float32 arguments, compared with exact values; "
        "seconds of the whole comparison",
        "results": [entries[name] for name in REFERENCES if name in entries],
    }
    path.write_text(json.dumps(report, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.exhaustive", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="functions, all if none is named")
    parser.add_argument("--gpu", action="store_true", help="on all GPUs, with CuPy")
    parser.add_argument("--step", type=int, default=1, help="compare one number in so many")
    parser.add_argument("--json", type=Path, help="a file for the results, written after each function")
    options = parser.parse_args(arguments)
    entries: dict[str, dict[str, Any]] = {}
    names = options.names or list(REFERENCES)
    for entry in results(names, options.step, options.gpu):
        print(
            "{function}: {wrong} of {inputs} wrong, {decided in many digits} decided in many digits, "
            "fingerprint {fingerprint}, {seconds} s".format(**entry),
            flush=True,
        )
        entries[entry["function"]] = entry
        if options.json:
            _write(options.json, options, entries)
    return len(entries) < len(names) or any(entry["wrong"] for entry in entries.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
