"""What other projects' own tests have shown, as text and tables."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.report_sections import folded, load, table

_RESULT = "suites_cpu"
_TITLES = {
    "numpy": "NumPy, its functions replaced",
    "numpy-arrays": "NumPy, its arrays replaced",
    "scipy": "SciPy, functions of matrices replaced",
    "torch": "PyTorch, its operators' samples within the mode",
    "sklearn": "scikit-learn, NumPy's functions replaced",
    "statsmodels": "statsmodels, NumPy's functions replaced",
}


def suites_table() -> str:
    """A row for each suite, and below them why tests fail with this library and not without."""
    found = {name: load(_RESULT)[name] for name in _TITLES if name in load(_RESULT)}
    header = "tests of | version | tests | call ours | skipped | pass | differ | not explained | date, commit"
    rows = [_row(_TITLES[name], suite) for name, suite in found.items()]
    reasons = "\n\n".join(_reasons(_TITLES[name], suite) for name, suite in found.items())
    made = f"By `python -m benchmarks.suites --json benchmarks/results/{_RESULT}.json`"
    which = (
        "`benchmarks/suites/table.py` says which tests these are; a + b is commit a with the changes of b."
    )
    return "\n\n".join([table(header, rows), folded("Why they fail", reasons), f"{made}; {which}"])


def _row(title: str, suite: dict[str, Any]) -> list[str]:
    counts = [suite[x] for x in ("run", "calling", "skipped", "passed", "differing")]
    counts.append(len(suite["unexplained"]))
    version = list(suite["versions"].values())[-1]
    return [title, version, *map(str, counts), f"{suite['date']}, {suite['commit']}"]


def _reasons(title: str, suite: dict[str, Any]) -> str:
    times: Counter[str] = Counter()
    for row in suite["reasons"]:
        times[row["reason"]] += row["times"]
    lines = [f"- {count} × {reason}" for reason, count in times.most_common()] or ["- none fails"]
    return "\n".join([f"{title}:", "", *lines])
