"""The loop over cases, the table of what was checked, and the commands that repeat a mismatch."""

import os
import re
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from multiword.runtime.parallel import THREAD_LIMITS
from tests.fuzz.draw import Draw, Mismatch

Check = Callable[[Draw], None]


@dataclass
class Tally:
    """What has come of the cases of each function."""

    cases: Counter = field(default_factory=Counter)
    mismatches: Counter = field(default_factory=Counter)  # by (function, sort)
    seconds: Counter = field(default_factory=Counter)
    reproducers: list[str] = field(default_factory=list)
    failed: Counter = field(default_factory=Counter)  # cases of each function with a mismatch

    def merge(self, other: "Tally") -> None:
        for mine, its in (
            (self.cases, other.cases),
            (self.mismatches, other.mismatches),
            (self.seconds, other.seconds),
            (self.failed, other.failed),
        ):
            mine.update(its)
        self.reproducers += other.reproducers

    def table(self) -> str:
        """Function by function: cases and mismatches; then the mismatches by sort."""
        rows = [("function", "cases", "mismatches", "seconds")]
        for name in self.cases:
            rows.append(
                (name, f"{self.cases[name]:,}", f"{self.failed[name]:,}", f"{self.seconds[name]:.0f}")
            )
        total = (
            f"{sum(self.cases.values()):,}",
            f"{sum(self.failed.values()):,}",
            f"{sum(self.seconds.values()):.0f}",
        )
        rows.append(("all", *total))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join(
                (row[0].ljust(widths[0]), *(v.rjust(w) for v, w in zip(row[1:], widths[1:], strict=True)))
            )
            for row in rows
        ]
        if self.mismatches:
            lines += ["", "mismatches by kind"]
            lines += [f"{n:>8,}  {name}: {sort}" for (name, sort), n in sorted(self.mismatches.items())]
        return "\n".join(lines)


def one_thread() -> AbstractContextManager:
    """Within it processes are started whose products take one thread; those of this one are as before."""
    return patch.dict(os.environ, dict.fromkeys(THREAD_LIMITS, "1"))


def seed_of(seed: int, name: str, case: int) -> list[int]:
    """The seed of one case: what `--only NAME --case N` repeats."""
    return [seed, zlib.crc32(name.encode()), case]


def one_case(check: Check, draw: Draw) -> Mismatch | None:
    """Run a case; an exception that the check did not expect is a mismatch, too."""
    try:
        check(draw)
    except Mismatch as mismatch:
        return mismatch
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
        sort = f"{type(error).__name__}: {re.split('[0-9(;]', str(error))[0][:50]}"
        return Mismatch(sort, f"{type(error).__name__} at {place}: {str(error)[:200]}")
    return None


def reproducer(command: str, name: str, seed: int, case: int, draw: Draw, mismatch: Mismatch) -> str:
    return "\n".join(
        [
            f"{name}: {mismatch.sort}",
            f"  python -m {command} --seed {seed} --only '{name}' --case {case}",
            *(f"  {note}" for note in draw.notes),
            f"  {mismatch}",
        ]
    )


def run(
    checks: dict[str, Check],
    seconds: float,
    seed: int,
    command: str,
    say: Callable = print,
    most: int | None = None,
    first: int = 0,
    spent: Counter | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Tally:
    """Run cases of every function, each for the same time, until the time is up or each has had `most`.

    first : the number of the first case of each. spent : seconds of each before, which are added to.
    stopped : asked before every case.
    """
    tally, shown, spent = Tally(), Counter(), Counter() if spent is None else spent
    until = time.monotonic() + seconds
    for name in checks:
        tally.cases[name] = 0
    with suppress(KeyboardInterrupt):  # what has been found by then is still worth its table
        while time.monotonic() < until and not stopped():
            left = [name for name in checks if most is None or tally.cases[name] < most]
            if not left:
                break
            name = min(left, key=lambda n: (spent[n], tally.cases[n]))
            start, case = time.monotonic(), first + tally.cases[name]
            draw = Draw(seed_of(seed, name, case))
            mismatch = one_case(checks[name], draw)
            tally.seconds[name] += time.monotonic() - start
            spent[name] += time.monotonic() - start
            tally.cases[name] += 1
            if mismatch is not None:
                tally.failed[name] += 1
                tally.mismatches[name, mismatch.sort] += 1
                text = reproducer(command, name, seed, case, draw, mismatch)
                tally.reproducers.append(text)
                shown[name, mismatch.sort] += 1
                if shown[name, mismatch.sort] <= 3:
                    say(text)
    return tally
