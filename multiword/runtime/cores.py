"""How many cores a process may use: those it may run on, as far as its control groups grant their time."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from math import ceil
from pathlib import Path, PurePosixPath

MEMBERSHIP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Where Linux says which control groups a process is in, and what they are granted."""


def cores() -> int:
    """Return how many cores this process has: never more than it is granted, as containers are."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(here, _granted() or here)


@cache
def _granted() -> int | None:
    with suppress(OSError):
        return granted(MEMBERSHIP.read_text(), GROUPS)
    return None


def granted(membership: str, groups: Path) -> int | None:
    """Return how many cores' time the control groups of a process are granted, rounded up; None if all.

    A group's limit is one of all groups in it. Within a container, its own group is the root of the tree,
    whatever path it has outside.

    >>> granted("0::/", Path("/nowhere"))
    """
    limits = []
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        tree, read = (groups / "cpu", _of_first_version) if controllers else (groups, _of_second_version)
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            with suppress(OSError, ValueError):  # there is no such file, or "max" in it
                limits.append(read(tree / group.relative_to("/")))
    return max(1, ceil(min(limits))) if limits else None


def _of_second_version(group: Path) -> float:
    quota, period = (group / "cpu.max").read_text().split()
    return int(quota) / int(period)


def _of_first_version(group: Path) -> float:
    quota = int((group / "cpu.cfs_quota_us").read_text())
    if quota < 0:
        raise ValueError("no limit")
    return quota / int((group / "cpu.cfs_period_us").read_text())
