"""Which instances of a test an ordinary run takes: as many as a quarter of a second allows; others are slow.

`seconds.json` says what all instances of a test take on one core, where that is a tenth of a second or more,
and how many there are; `python -m tests.of --measure` writes it. Tests marked `whole` are run whole.
"""

import json
from collections import defaultdict
from math import ceil
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("seconds.json")
ENOUGH = 0.25


def share(seconds: float) -> int:
    """One instance in how many is run."""
    return max(1, ceil(seconds / ENOUGH))


def costs() -> dict[str, float]:
    """What the ordinary run of each file takes."""
    told = json.loads(SECONDS.read_text())
    return {
        file: sum(seconds * ceil(count / share(seconds)) / count for seconds, count in tests.values())
        for file, tests in told.items()
    }


def mark_others(items: list[pytest.Item]) -> None:
    """Mark as slow what is not run: instances whose indices do not add up to a multiple of the share.

    Those that do have each value of an axis, where the indices of the others have as many sums as the share.
    """
    told, instances = json.loads(SECONDS.read_text()), defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.keywords.keys() & {"whole", "gpu", "slow"}:
            instances[item.nodeid.partition("[")[0]].append(item)
    for name, several in instances.items():
        file, _, test = name.partition("::")
        seconds, _ = told.get(file, {}).get(test, (0, 1))
        axes = {
            tuple(item.callspec.indices[axis] for item in several) for axis in several[0].callspec.indices
        }
        for item, *index in zip(several, *axes, strict=True):
            if sum(index) % share(seconds):
                item.add_marker(pytest.mark.slow)
