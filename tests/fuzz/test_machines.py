"""The command that compares machines tells other bits from other calls."""

import json

import numpy as np
import pytest

from tests.fuzz import machines
from tests.fuzz.machines import FAMILY_NAMES, Portable, main


@pytest.fixture
def file(monkeypatch, tmp_path):
    """A file of its own, and two families."""
    path = tmp_path / "machines.json"
    monkeypatch.setattr(machines, "FILE", path)
    monkeypatch.setattr(machines, "FAMILY_NAMES", ("sum", "gemm"))
    monkeypatch.setattr(machines, "CASES", 4)
    monkeypatch.setattr(machines, "commit", lambda: "abc1234")
    return path


def said(capsys, *arguments):
    """What the command returns, and says of each family."""
    status = main(list(arguments))
    return status, [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()]


def test_a_machine_is_recorded_and_another_compared(file, capsys):
    assert said(capsys, "--record", "one") == (0, ["not recorded"] * 2)
    assert said(capsys, "--record", "two") == (0, ["same"] * 2)
    content = json.loads(file.read_text())
    assert list(content["machines"]) == ["one", "two"]
    assert content["machines"]["two"]["differing"] == []
    content["fingerprints"]["gemm"][1] = "0" * 16
    file.write_text(json.dumps(content))
    assert said(capsys, "--record", "three") == (1, ["same", "DIFFERENT"])
    assert json.loads(file.read_text())["machines"]["three"]["differing"] == ["gemm"]


def test_other_calls_are_no_other_bits(file, capsys, monkeypatch):
    main(["--record", "one"])
    monkeypatch.setattr(machines, "SEED", 1)
    capsys.readouterr()
    assert said(capsys, "--record", "two") == (0, ["other calls than those recorded"] * 2)
    assert said(capsys) == (0, ["same"] * 2)


def test_each_call_of_a_family_is_shown(file, capsys):
    assert main(["--only", "sum"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["sum", str(case)] for case in range(4)]
    assert len({line.split()[-1] for line in lines}) == 4


def test_numbers_are_about_normal_and_have_all_bits():
    x = Portable(np.random.PCG64(1)).standard_normal((100, 100))
    assert abs(x.mean()) < 0.05
    assert abs(x.var() - 1) < 0.05
    assert (x * 2.0**49 == np.rint(x * 2.0**49)).all()
    assert len(np.unique(x)) == x.size


@pytest.mark.slow
def test_this_machine_has_the_bits_that_others_have_recorded(capsys):
    status, found = said(capsys)
    assert status == 0
    assert len(found) == len(FAMILY_NAMES)
    assert found.count("same") > len(FAMILY_NAMES) / 2
