"""Every public function against what its result must be, on the CPU; counts by family, as a table or JSON.

    python -m tests.fuzz.campaign [--minutes M] [--processes N] [--json FILE] [--seed S] [--cases C]
                                  [--only FAMILY [--case N]]

Processes take cases of their own, and hand over their counts every half minute. Ctrl-C or SIGTERM ends the
campaign after the cases that are running; what has been found by then is counted.
"""

import argparse
import json
import multiprocessing
import shlex
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from queue import Empty
from typing import Any

import ozaki
from tests.fuzz import (
    exact_bounds,
    exact_int8,
    exact_linalg,
    exact_matmul,
    exact_products,
    exact_state,
    exact_statistics,
    exact_sums,
    exact_words,
    functions,
    mixtures,
    shared,
    situations,
    solvers,
    spectra,
)
from tests.fuzz.draw import Draw
from tests.fuzz.tally import Tally, one_case, one_thread, reproducer, run, seed_of

_MODULES = (
    *(exact_products, exact_matmul, exact_sums, exact_statistics, exact_state, exact_words, exact_bounds),
    *(exact_int8, exact_linalg, functions, spectra, shared, solvers, situations, mixtures),
)
CHECKS = {name: check for module in _MODULES for name, check in module.CHECKS.items()}
COMMAND = "tests.fuzz.campaign"
SLICE = 30.0
"""Seconds after which a process hands over its counts: a process that dies loses no more."""
STRIDE = 10**6
"""The numbers of the cases of a slice begin at a multiple of this."""


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog=f"python -m {COMMAND}", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the counts are written")
    parser.add_argument("--cases", type=int, help="of each family at most, of a process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=f"one of: {'; '.join(CHECKS)}")
    parser.add_argument("--case", type=int, help="repeat this case of --only alone")
    options = parser.parse_args(arguments)
    if options.only and options.only not in CHECKS:
        parser.error(f"unknown family {options.only!r}; known are {'; '.join(CHECKS)}")
    if options.case is not None:
        if not options.only:
            parser.error("--case needs --only")
        return _repeated(options.only, options.seed, options.case)
    names = [options.only] if options.only else list(CHECKS)
    begun, tally, remarks = time.time(), Tally(), []
    for name in names:
        tally.cases[name] = 0
    limits = options.seed, 60 * options.minutes, options.cases
    parts = _here(names, *limits) if options.processes == 1 else _shared(names, *limits, options.processes)
    for part in parts:
        if isinstance(part, str):
            remarks.append(part)
        else:
            tally.merge(part)
        _write(options, tally, remarks, begun)
    print("\n".join(["", tally.table(), *remarks]))
    return 1 if tally.failed or remarks else 0


def _repeated(name: str, seed: int, case: int) -> int:
    """One case again, with what was drawn for it."""
    _quiet()
    draw = Draw(seed_of(seed, name, case))
    mismatch = one_case(CHECKS[name], draw)
    found = "\n".join([*draw.notes, "no mismatch"])
    print(reproducer(COMMAND, name, seed, case, draw, mismatch) if mismatch else found)
    return 1 if mismatch else 0


def _quiet() -> None:
    warnings.filterwarnings("ignore", category=ozaki.CostWarning)  # the data are hard on purpose
    warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # by JAX, whose threads are not used


def _say(text: str) -> None:
    print(text, flush=True)


def _here(names: list[str], seed: int, seconds: float, most: int | None) -> Iterator[Tally]:
    """The campaign in this process."""
    _quiet()
    yield run({name: CHECKS[name] for name in names}, seconds, seed, COMMAND, _say, most)


def _shared(
    names: list[str], seed: int, seconds: float, most: int | None, processes: int
) -> Iterator[Tally | str]:
    """Slices of the campaign as processes end them, and remarks on processes that died."""
    context = multiprocessing.get_context("spawn")
    queue, stop = context.Queue(), context.Event()
    given = (names, seed, time.time() + seconds, most, queue, stop)
    workers = [context.Process(target=_work, args=(rank, processes, *given)) for rank in range(processes)]
    ends = signal.SIGINT, signal.SIGTERM
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # in the workers for good: `stop` tells them
    before = [signal.signal(number, lambda *_: stop.set()) for number in ends]
    with one_thread():
        for worker in workers:
            worker.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
    try:
        yield Tally()  # from now on there are counts, and signals end the campaign in good order
        left = set(range(processes))
        while left:
            try:
                rank, tally = queue.get(timeout=1)
                if tally is None:
                    left.discard(rank)
                else:
                    yield tally
            except Empty:
                dead = {rank for rank in left if workers[rank].exitcode is not None}
                yield from (f"process {rank} died: exit status {workers[rank].exitcode}" for rank in dead)
                left -= dead
    finally:
        stop.set()
        for worker in workers:
            worker.join()
        for number, handler in zip(ends, before, strict=True):
            signal.signal(number, handler)


def _work(
    rank: int,
    processes: int,
    names: list[str],
    seed: int,
    until: float,
    most: int | None,
    queue: Any,
    stop: Any,
) -> None:
    """What one process does: slice after slice, each with cases that no other has."""
    _quiet()
    checks, part, spent = {name: CHECKS[name] for name in names}, 0, Counter()
    while (left := until - time.time()) > 0 and not stop.is_set() and not (most and part):
        first = (part * processes + rank) * STRIDE
        seconds = left if most else min(SLICE, left)
        queue.put((rank, run(checks, seconds, seed, COMMAND, _say, most, first, spent, stop.is_set)))
        part += 1
    queue.put((rank, None))


def _write(options: argparse.Namespace, tally: Tally, remarks: list[str], begun: float) -> None:
    """Write the counts to the file that --json names."""
    if not options.json:
        return
    families = {
        name: {"cases": cases, "mismatches": tally.failed[name], "seconds": round(tally.seconds[name], 1)}
        for name, cases in sorted(tally.cases.items())
    }
    counts = {
        "date": date.today().isoformat(),
        "command": f"python -m tests.fuzz.campaign {shlex.join(sys.argv[1:])}".strip(),
        "version": ozaki.__version__,
        "seed": options.seed,
        "processes": options.processes,
        "minutes": round((time.time() - begun) / 60, 2),
        "cases": sum(tally.cases.values()),
        "mismatches": sum(tally.failed.values()),
        "families": families,
        "reproducers": tally.reproducers[:100],
        "remarks": remarks,
    }
    options.json.write_text(json.dumps(counts, indent=1))


if __name__ == "__main__":
    sys.exit(main())
