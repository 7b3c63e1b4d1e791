"""The CPU's bits against a GPU's, for random calls of every function.

    python -m tests.fuzz.devices [--minutes M] [--seed S] [--processes N] [--only NAME [--case N]] [--dry]

Products of every width, which is every number of moduli, with every inner dimension from 0 to 70, every
word, real and complex, come first: those of a width together, so that nothing waits for the GPU between them.
Then random calls until the time is up. Each is made three times with other numbers in the same layout: on a
GPU the second is captured as a graph and the third replays it. --dry puts NumPy in the GPU's place, to try
the command itself. Without a GPU it says so and returns 0.
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np

import ozaki
from ozaki.product import limbs
from ozaki.product.limbs import columns, small
from tests.fuzz.arrays import LAYOUTS, fetched, place, values
from tests.fuzz.device_cases import FAMILIES
from tests.fuzz.device_products import CASES_OF_A_WIDTH, SWEEPS, Call
from tests.fuzz.draw import Draw, Mismatch, check_one_nan, check_same
from tests.fuzz.tally import Tally, one_case, one_thread, reproducer, seed_of

warnings.filterwarnings("ignore", category=ozaki.CostWarning)  # the data are hard on purpose

COMMAND = "tests.fuzz.devices"
REPEATS = 3
SWEEP_SHARE = 0.7
"""The sweeps stop when this share of the time is gone; what they have not reached is reported."""
SHOWN_AT_ONCE = 5
"""Mismatches of a campaign that are shown when they are found, not only at its end."""
LATE = 120.0
"""Seconds that a process may take beyond its time, for the compilation of its last kernels."""


WHATEVER_FITS = (
    (small, "LIMB_PRODUCTS", (0, 0)),
    (limbs, "FEW_PRODUCTS", 0),
    (columns, "SHORT_ROWS", 0),
    (columns, "LEAST_IN_BYTES", 1),
    (columns, "STEPS_OF_A_BLOCK", 1),
)


class Device:
    """Where the other side of the comparison runs: CuPy, or NumPy once more."""

    def __init__(self, dry: bool) -> None:
        self.dry, self.xp = dry, np
        self.streams: list[Any] = []
        if not dry:
            import cupy

            self.xp = cupy
            self.streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]

    def stream(self, draw: Draw) -> AbstractContextManager[Any]:
        """The device's own stream, or one of two others."""
        which = draw.pick("stream", None, None, 0, 1)
        return nullcontext() if which is None or self.dry else self.streams[which]

    def lost(self) -> str | None:
        """Why nothing more can run, if so: an error that a CUDA context does not survive."""
        if self.dry:
            return None
        try:
            self.xp.cuda.runtime.deviceSynchronize()
            self.xp.zeros(1).get()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None


def why_no_gpu() -> str | None:
    """None if there is a GPU and CuPy to use it with."""
    try:
        import cupy

        return None if cupy.cuda.runtime.getDeviceCount() else "CuPy finds no GPU"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def called(call: Call, xp: Any, arrays: dict) -> tuple[list, str | None]:
    """The results where they are; or the error's kind and message."""
    try:
        return call.function(xp, arrays), None
    except (TypeError, ValueError, MemoryError, ArithmeticError) as error:
        return [], f"{type(error).__name__}: {error}"


def on_host(results: list) -> list:
    """The results as NumPy arrays, strings or bytes."""
    return [x if isinstance(x, str | bytes) else fetched(x) for x in results]


def fetched_together(arrays: list, xp: Any) -> list[np.ndarray]:
    """Arrays as NumPy's, in one transfer: it waits for the device once."""
    if xp is np:
        return [np.asarray(x) for x in arrays]
    flat = [xp.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in arrays if x.size]
    whole = xp.concatenate(flat).get() if flat else np.zeros(0, np.uint8)
    ends = np.cumsum([x.nbytes for x in arrays]).tolist()
    return [
        whole[end - x.nbytes : end].view(x.dtype).reshape(x.shape)
        for x, end in zip(arrays, ends, strict=True)
    ]


@contextmanager
def in_bytes(wanted: bool) -> Iterator[None]:
    """Multiply in limbs of a byte whatever fits: sizes here are too small for it to be chosen."""
    with ExitStack() as stack:
        for module, name, value in WHATEVER_FITS if wanted else ():
            stack.enter_context(patch.object(module, name, value))
        yield


def compare(call: Call, draw: Draw, device: Device) -> None:
    """Make the call on both sides, several times. Raises Mismatch."""
    stream, bytes_wanted = device.stream(draw), draw.pick("in bytes", False, True)
    for repeat in range(REPEATS):
        numbers = {name: values(draw.rng, spec) for name, spec in call.specs.items()}
        host = {name: place(x, call.specs[name].layout) for name, x in numbers.items()}
        with np.errstate(all="ignore"):
            expected, refused = called(call, np, host)
        with stream, np.errstate(all="ignore"), in_bytes(bytes_wanted):
            there = {name: place(x, call.specs[name].layout, device.xp) for name, x in numbers.items()}
            got, error = called(call, device.xp, there)
            got = on_host(got)
        judge_one(call, host, (on_host(expected), refused), (got, error), f"call {repeat + 1} of {REPEATS}")


def compare_together(calls: list[Call], draws: list[Draw], device: Device) -> list[Mismatch | None]:
    """Make each call once on both sides, and compare all results at the end."""
    sides: list[tuple[dict, tuple, tuple]] = []
    with device.stream(draws[0]), np.errstate(all="ignore"):
        for call, draw in zip(calls, draws, strict=True):
            numbers = {name: values(draw.rng, spec) for name, spec in call.specs.items()}
            there = {name: place(x, call.specs[name].layout, device.xp) for name, x in numbers.items()}
            got = called(call, device.xp, there)
            host = {name: place(x, call.specs[name].layout) for name, x in numbers.items()}
            sides.append((host, called(call, np, host), got))
        back = iter(fetched_together([x for *_, (results, _) in sides for x in results], device.xp))
    found: list[Mismatch | None] = []
    for call, (host, (expected, refused), (got, error)) in zip(calls, sides, strict=True):
        results = list(itertools.islice(back, len(got)))
        try:
            judge_one(call, host, (on_host(expected), refused), (results, error), "the only call")
            found.append(None)
        except Mismatch as mismatch:
            found.append(mismatch)
    return found


def judge_one(call: Call, host: dict, cpu: tuple, gpu: tuple, note: str) -> None:
    (expected, refused), (got, error) = cpu, gpu
    kinds = [None if e is None else e.split(":")[0] for e in (refused, error)]
    if "WorkspaceTooSmall" in kinds:
        return  # how much the smallest panel takes depends on the engine's words
    if kinds[0] != kinds[1]:
        raise Mismatch(
            f"{kinds[1] or 'no error'} instead of {kinds[0] or 'a result'}", f"{note}: {error or refused}"
        )
    if error is not None:
        return
    if call.judge is not None:
        call.judge(host, got)
        return
    if len(expected) != len(got):
        raise Mismatch("number of results", f"{note}: {len(got)} instead of {len(expected)}")
    for i, (x, y) in enumerate(zip(got, expected, strict=True)):
        where = f"{note}, result {i}" if len(got) > 1 else note
        if isinstance(y, str | bytes):
            if x != y:
                raise Mismatch("bytes", f"{where}: {x[:40]!r} instead of {y[:40]!r}")
            continue
        check_same("bits", x, y, where)
        if call.one_nan:
            check_one_nan("NaN bits", x)


def one(name: str, case: int, seed: int, device: Device) -> tuple[Draw, Mismatch | None]:
    draw = Draw(seed_of(seed, name, case), LAYOUTS, case)
    return draw, one_case(lambda d: compare(FAMILIES[name](d), d, device), draw)


def sweep_units(names: list[str]) -> list[tuple[str, range]]:
    """The sweeps, cut into parts of one width each: the widest, which take longest, first."""
    units = [
        (i, name, range(i * CASES_OF_A_WIDTH, (i + 1) * CASES_OF_A_WIDTH))
        for name in names
        if name in SWEEPS
        for i in range(SWEEPS[name][3])
    ]
    return [(name, cases) for _, name, cases in sorted(units, key=lambda unit: -unit[0])]


BEGUN, CASES, FAILED = range(3)
_counters: Any = None
"""What all processes count together: parts of the sweeps begun, of which each takes the next when it is done
with one; cases, and those that failed."""
EVERY = 30.0
"""Seconds after which a campaign says how far it is: one that is cut off has said that much."""


def share_counters(counters: Any) -> None:
    """Tell a process of the counters that all of them share."""
    global _counters
    _counters = counters


def counted(which: int) -> int:
    """Return how much has been counted, and count one more."""
    with _counters.get_lock():
        _counters[which] += 1
        return int(_counters[which]) - 1


def next_numbers() -> Iterator[int]:
    """Numbers that no other process gets."""
    while _counters is not None:
        yield counted(BEGUN)
    yield from itertools.count()


class Share:
    """What one process does of a campaign: its results, and remarks on what it could not do."""

    def __init__(self, rank: int, processes: int, seed: int, dry: bool) -> None:
        self.rank, self.processes, self.seed = rank, processes, seed
        self.device, self.tally, self.remarks = Device(dry), Tally(), []

    def run(self, name: str, case: int) -> bool:
        """Run a case; False if the device is lost."""
        begun = time.monotonic()
        draw, mismatch = one(name, case, self.seed, self.device)
        self.tally.seconds[name] += time.monotonic() - begun
        return self.note(name, draw, mismatch)

    def note(self, name: str, draw: Draw, mismatch: Mismatch | None) -> bool:
        """Count a case; False if the device is lost."""
        tally = self.tally
        tally.cases[name] += 1
        if _counters is not None:
            counted(CASES)
        if mismatch is None:
            return True
        if _counters is not None and counted(FAILED) < SHOWN_AT_ONCE:
            print(reproducer(COMMAND, name, self.seed, draw.case, draw, mismatch), flush=True)
        tally.failed[name] += 1
        tally.mismatches[name, mismatch.sort] += 1
        tally.reproducers.append(reproducer(COMMAND, name, self.seed, draw.case, draw, mismatch))
        if (reason := self.device.lost()) is not None:
            self.remarks.append(f"process {self.rank} stopped after {name} case {draw.case}: {reason}")
            return False
        return True

    def run_together(self, name: str, cases: range) -> bool:
        """Run the cases of a width; one by one if something other than a result is wrong."""
        begun = time.monotonic()
        draws = [Draw(seed_of(self.seed, name, case), LAYOUTS, case) for case in cases]
        try:
            found = compare_together([FAMILIES[name](draw) for draw in draws], draws, self.device)
        except Exception:
            return all(self.run(name, case) for case in cases)
        self.tally.seconds[name] += time.monotonic() - begun
        return all(self.note(name, *pair) for pair in zip(draws, found, strict=True))

    def sweep(self, names: list[str], deadline: float) -> bool:
        """Every width in turn; False if the device is lost."""
        units, done = sweep_units(names), 0
        for number in next_numbers():
            if number >= len(units):
                return True
            if time.monotonic() >= deadline:
                break
            if not self.run_together(*units[number]):
                return False
            done += 1
        self.remarks.append(
            f"process {self.rank} did not reach all widths, after {done}: give more --minutes"
        )
        return True

    def random(self, names: list[str], deadline: float) -> None:
        """Cases of every function, each for the same time."""
        case = dict.fromkeys(names, self.rank)
        while case and time.monotonic() < deadline:
            name = min(case, key=lambda n: self.tally.seconds[n])
            if not self.run(name, case[name]):
                return
            case[name] += self.processes


def work(rank: int, processes: int, seconds: float, seed: int, names: list[str], dry: bool) -> Share:
    """A process's share, done."""
    start, share = time.monotonic(), Share(rank, processes, seed, dry)
    random = [name for name in names if name not in SWEEPS]
    if share.sweep(names, start + seconds * (SWEEP_SHARE if random else 1.0)):
        share.random(random, start + seconds)
    del share.device  # which does not travel
    return share


def campaign(
    seconds: float, seed: int, processes: int, names: list[str], dry: bool
) -> tuple[Tally, list[str]]:
    """All processes' shares, put together."""
    tally, remarks = Tally(), []
    for name in names:
        tally.cases[name] = 0
    if processes == 1:
        share = work(0, 1, seconds, seed, names, dry)
        tally.merge(share.tally)
        return tally, share.remarks
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    counters, start = context.Array("q", 3), time.monotonic()
    pool = ProcessPoolExecutor(processes, context, share_counters, (counters,))
    with one_thread():  # all of them start here
        pending = {pool.submit(work, r, processes, seconds, seed, names, dry): r for r in range(processes)}
    left = set(pending)
    while left and (now := time.monotonic() - start) < seconds + LATE:
        print(f"{now:.0f} s: {counters[CASES]} cases, {counters[FAILED]} mismatches", flush=True)
        done, left = wait(left, EVERY, FIRST_COMPLETED)
        for future in done:
            try:
                share = future.result()
                tally.merge(share.tally)
                remarks += share.remarks
            except Exception as error:
                remarks.append(f"process {pending[future]} died: {type(error).__name__}: {error}")
    if left:
        stuck = [pending[future] for future in left]
        remarks.append(f"processes {stuck} did not end in time; their results are missing")
    for process in list((pool._processes or {}).values()) if any(not f.done() for f in pending) else []:
        process.terminate()
    pool.shutdown(wait=True, cancel_futures=True)
    return tally, remarks


def main(arguments: list[str] | None = None) -> int:
    """Run, print the table and the first reproducers; return 1 if a bit differed or a process was lost."""
    parser = argparse.ArgumentParser(prog=f"python -m {COMMAND}", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) * 3 // 4))
    parser.add_argument("--only", help=f"one of: {'; '.join(FAMILIES)}")
    parser.add_argument("--case", type=int, help="repeat this case of --only alone")
    parser.add_argument("--show", type=int, default=20, help="how many reproducers to print")
    parser.add_argument(
        "--dry", action="store_true", help="NumPy against NumPy: try the command without a GPU"
    )
    options = parser.parse_args(arguments)
    if options.only and options.only not in FAMILIES:
        parser.error(f"unknown function {options.only!r}; known are {'; '.join(FAMILIES)}")
    if options.case is not None and not options.only:
        parser.error("--case needs --only")
    if not options.dry and (reason := why_no_gpu()) is not None:
        print(f"nothing compared: no GPU ({reason})")
        return 0
    if options.case is not None:
        draw, mismatch = one(options.only, options.case, options.seed, Device(options.dry))
        found = ["no mismatch", *draw.notes] if mismatch is None else []
        print(
            "\n".join(found) or reproducer(COMMAND, options.only, options.seed, options.case, draw, mismatch)
        )
        return mismatch is not None
    names = [options.only] if options.only else list(FAMILIES)
    tally, remarks = campaign(60 * options.minutes, options.seed, options.processes, names, options.dry)
    for text in first_of_each(tally.reproducers, options.show):
        print(text)
    print(f"\n{tally.table()}\n\neach case is {REPEATS} calls on either side, of a sweep one")
    print("\n".join(remarks))
    return 1 if tally.failed or any("reach" not in r for r in remarks) else 0


def first_of_each(reproducers: list[str], count: int) -> list[str]:
    """That many reproducers, of as many kinds as possible."""
    kinds: dict[str, list[str]] = {}
    for text in reproducers:
        kinds.setdefault(text.split("\n", 1)[0], []).append(text)
    rounds = [texts[i] for i in range(count) for texts in kinds.values() if i < len(texts)]
    return rounds[:count]


if __name__ == "__main__":
    sys.exit(main())
