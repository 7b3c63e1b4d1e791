"""The cores of a process, as control groups of both versions limit them."""

import os

import pytest

from multiword.runtime import cores

POD = "0::/kubepods/pod1/web\n"
"""Of version 2; of version 1 there is a line for each controller."""
OF_VERSION_1 = "9:memory:/docker/a1\n4:cpu,cpuacct:/docker/a1\n1:cpuset:/\n0::/\n"


@pytest.fixture
def written(tmp_path):
    """Write files of control groups, and return how many cores a membership is granted."""

    def granted(membership, **files):
        for path, text in files.items():
            file = tmp_path / path.replace("__", "/").replace("_max", ".max").replace("cfs", ".cfs")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return cores.granted(membership, tmp_path)

    return granted


def test_of_the_second_version(written):
    assert written(POD, cpu_max="max 100000\n") is None
    assert written(POD, kubepods__pod1__web__cpu_max="150000 100000\n") == 2
    assert written(POD, kubepods__pod1__cpu_max="400000 100000\n") == 2
    assert written(POD, kubepods__cpu_max="1000 100000\n") == 1
    assert written("0::/\n", cpu_max="250000 50000\n") == 5


def test_of_the_first_version(written):
    assert written(OF_VERSION_1, cpu__cpucfs_quota_us="-1\n", cpu__cpucfs_period_us="100000\n") is None
    within = {"cpu__docker__a1__cpucfs_quota_us": "300000\n", "cpu__docker__a1__cpucfs_period_us": "100000\n"}
    assert written(OF_VERSION_1, **within) == 3
    in_a_container = {"cpu__cpucfs_quota_us": "120000\n", "cpu__cpucfs_period_us": "100000\n"}
    assert written(OF_VERSION_1, **in_a_container) == 2


def test_a_process_has_no_more_than_it_is_granted(monkeypatch):
    monkeypatch.setattr(cores, "_granted", lambda: 1)
    assert cores.cores() == 1
    monkeypatch.setattr(cores, "_granted", lambda: 10**6)
    assert cores.cores() <= os.cpu_count()
    monkeypatch.setattr(cores, "_granted", lambda: None)
    assert cores.cores() <= os.cpu_count()


def test_where_nothing_tells_all_cores_are_granted(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "MEMBERSHIP", tmp_path / "none")
    assert cores._granted.__wrapped__() is None
