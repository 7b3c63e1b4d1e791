"""Run other projects' own tests with and without this library, and say what differs.

Fails if a test passes without this library, fails with it, and is not explained in `differences.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.suites.differences import DIFFERENCES
from benchmarks.suites.table import SUITES, Suite

ROOT = Path(__file__).parents[2]
PLUGIN = "benchmarks.suites.plugin"
ONE_THREAD = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Small matrices are slower on more threads, most of all beside other work."""


class Outcome(NamedTuple):
    """How a test ended: as pytest says or "missing", with its error, and how often it called this library."""

    outcome: str
    error: str
    calls: int


NOT_ENDED = Outcome("missing", "did not end", 0)
Outcomes = dict[str, Outcome]


def outcomes(suite: Suite, replaced: str, folder: Path, seconds: float) -> Outcomes:
    """Return how each test ended, run in a process of its own; those that it had no time for are missing."""
    ini, lines = folder / "pytest.ini", folder / f"{replaced}.jsonl"
    ini.write_text("[pytest]\n")
    lines.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", PLUGIN),
        *("-c", str(ini), "--rootdir", str(folder), "--outcomes", str(lines)),
        *("--replaced", replaced, "--adopting", suite.adopting, "--pyargs", *suite.tests),
        *(("-k", suite.chosen) if suite.chosen else ()),
    ]
    with (folder / f"{replaced}.log").open("w") as log, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command, cwd=ROOT, stdout=log, stderr=log, timeout=seconds, env=ONE_THREAD, check=False
        )
    ended: Outcomes = {}
    for line in lines.read_text().splitlines() if lines.exists() else ():
        test, *outcome = json.loads(line)
        if test not in ended or ended[test].outcome != "failed":  # a failed test may be torn down in peace
            ended[test] = Outcome(*outcome)
    return ended


def differing(native: Outcomes, ours: Outcomes) -> dict[str, str]:
    """Return tests that pass natively and with this library fail, or do not end, with their errors."""
    ended = {test: ours.get(test, NOT_ENDED) for test, x in native.items() if x.outcome == "passed"}
    return {test: x.error for test, x in ended.items() if x.outcome in ("failed", "missing")}


def report(name: str, native: Outcomes, ours: Outcomes, known: dict[str, str]) -> bool:
    """Print what the tests of a suite have shown; return whether they ran and all differences are explained.

    known : reasons by pattern of the tests' names.
    """
    different = differing(native, ours)
    count = Counter(x.outcome for x in ours.values())
    reached = sum(x.calls > 0 for x in ours.values())
    natively = sum(x.outcome == "failed" for x in native.values())
    print(f"{name}: {len(ours)} run, {reached} of them call ours, {count['passed']} pass, ", end="")
    print(f"{natively} fail natively, {len(different)} with ours and not natively")
    patterns = {test: next((p for p in known if fnmatchcase(test, p)), None) for test in different}
    times = Counter(patterns.values())
    for pattern, reason in known.items():
        print(f"  {times[pattern]} × {pattern}: {reason}")
    unexplained = [test for test, pattern in patterns.items() if pattern is None] if ours else []
    for test in unexplained:
        print(f"  not explained: {test}: {' '.join(different[test].split())[:200]}")
    return bool(ours) and not unexplained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SUITES), default=list(SUITES))
    parser.add_argument("--keep", help="a folder for pytest's own output, in a folder for each suite")
    parser.add_argument("--minutes", type=float, default=60, help="for each run of a suite")
    options = parser.parse_args()
    explained = True
    for name in options.only:
        suite = SUITES[name]
        if find_spec(suite.project) is None:
            print(f"{name}: {suite.project} is not installed")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(options.keep or temporary, name)
            folder.mkdir(parents=True, exist_ok=True)
            native, ours = (
                outcomes(suite, x, folder, 60 * options.minutes) for x in ("nothing", suite.replaced)
            )
        explained &= report(name, native, ours, DIFFERENCES.get(name, {}))
    return 0 if explained else 1


if __name__ == "__main__":
    sys.exit(main())
