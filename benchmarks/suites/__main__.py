"""Run other projects' own tests with and without this library, and say what differs.

Fails if a test passes without this library, fails with it, and is not explained in `differences.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from datetime import date
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suites.differences import DIFFERENCES
from benchmarks.suites.table import SUITES, Suite
from benchmarks.timing import compact

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


def findings(native: Outcomes, ours: Outcomes, known: dict[str, str]) -> dict[str, Any]:
    """Return what the tests of a suite have shown: counts, differences by reason, and those without one.

    known : reasons by pattern of the tests' names.
    """
    different = differing(native, ours)
    patterns = {test: next((p for p in known if fnmatchcase(test, p)), None) for test in different}
    times = Counter(patterns.values())
    return {
        "run": len(ours),
        "calling": sum(x.calls > 0 for x in ours.values()),
        **{outcome: sum(x.outcome == outcome for x in ours.values()) for outcome in ("passed", "skipped")},
        "failing natively": sum(x.outcome == "failed" for x in native.values()),
        "differing": len(different),
        "reasons": [{"tests": p, "times": times[p], "reason": reason} for p, reason in known.items()],
        "unexplained": {test: different[test] for test, p in patterns.items() if p is None},
    }


def report(name: str, found: dict[str, Any]) -> bool:
    """Print findings; return whether the tests ran and all differences are explained."""
    print(f"{name}: {found['run']} run, {found['calling']} of them call ours, ", end="")
    print(
        f"{found['passed']} pass, {found['skipped']} skipped, {found['failing natively']} fail natively, ",
        end="",
    )
    print(f"{found['differing']} with ours and not natively")
    for row in found["reasons"]:
        print(f"  {row['times']} × {row['tests']}: {row['reason']}")
    for test, error in found["unexplained"].items() if found["run"] else ():
        print(f"  not explained: {test}: {' '.join(error.split())[:200]}")
    return bool(found["run"]) and not found["unexplained"]


def record(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return findings with their date, command, commit and versions."""
    commit = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    project = SUITES[name].project
    return {
        "date": date.today().isoformat(),
        "command": f"python -m benchmarks.suites --only {name}",
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "versions": {x: import_module(x).__version__ for x in ("numpy", project)},
        **found,
        "reasons": [row for row in found["reasons"] if row["times"]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(SUITES), default=list(SUITES))
    parser.add_argument("--keep", help="a folder for pytest's own output, in a folder for each suite")
    parser.add_argument("--minutes", type=float, default=60, help="for each run of a suite")
    parser.add_argument("--json", type=Path, help="a file of findings, in which those of these suites go")
    options = parser.parse_args()
    records = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
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
        found = findings(native, ours, DIFFERENCES.get(name, {}))
        explained &= report(name, found)
        records[name] = record(name, found)
        if options.json:
            options.json.write_text(compact(records))
    return 0 if explained else 1


if __name__ == "__main__":
    sys.exit(main())
