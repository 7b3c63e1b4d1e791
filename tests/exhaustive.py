"""Compare elementary functions of all 2**32 float32 arguments with what they are.

    python -m tests.exhaustive                 # all functions, on this processor
    python -m tests.exhaustive exp log --gpu   # some, on a GPU, in seconds
    python -m tests.exhaustive --step 1009     # a sample

Every value is compared with a float64 function of NumPy or CuPy. Where that is within reach of a midpoint of
two float32 numbers, or differs, mpmath decides in many digits. Printed for each function: how many values are
wrong, how many mpmath decided, and a fingerprint of all bits, which is the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

from multiword.runtime.arrays import on_host, to_float32, to_float64
from ozaki.elementary.api import apply
from tests.elementary.references import REFERENCES, mp, nearest, special_of

ALL, BLOCK = 1 << 32, 1 << 24
NAN = 0x7FC00000
SHOWN = 5
PATIENCE = 1_000_000
"""More doubts than that: the function, or its reference, is wrong altogether."""


class Tally:
    """What has been compared of one function."""

    def __init__(self, name: str) -> None:
        self.name, self.total, self.wrong, self.decided, self.mixed = name, 0, 0, 0, 0

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
        if self.decided + doubts.size > PATIENCE:
            raise SystemExit(f"{self.name}: more than {PATIENCE} values differ from the reference")
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
    return tally


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.exhaustive", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="functions, all if none is named")
    parser.add_argument("--gpu", action="store_true", help="on a GPU, with CuPy")
    parser.add_argument("--step", type=int, default=1, help="compare one number in so many")
    options = parser.parse_args(arguments)
    if options.gpu:
        import cupy as xp
    else:
        xp = np
    wrong = 0
    for name in options.names or REFERENCES:
        begun = time.perf_counter()
        tally = compare(name, xp, options.step)
        wrong += tally.wrong
        print(
            f"{name}: {tally.wrong} of {tally.total} wrong, {tally.decided} decided in many digits, "
            f"fingerprint {tally.mixed:016x}, {time.perf_counter() - begun:.1f} s",
            flush=True,
        )
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
