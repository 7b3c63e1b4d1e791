"""The model of the machine: rates by size, what goes in one batch, and predicted times."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ozaki
from multiword.engines import machine
from multiword.engines.machine import Rates

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def test_rates_are_interpolated_and_end_where_they_were_measured():
    rates = Rates((100, 1000), (1e9, 1e12), (4e9, 2.5e11))
    assert rates.at(100**3) == pytest.approx((1e9, 4e9))
    assert rates.at(1000**3) == pytest.approx((1e12, 2.5e11))
    assert rates.at(5000**3) == rates.at(1000**3)
    assert rates.at(100**3 // 8) == pytest.approx((1e9 / 8, 4e9 / 8))  # as long as the smallest measured
    middle = rates.at(round(10**7.5))
    assert middle == pytest.approx((10**10.5, 10**10.5), rel=1e-6)
    assert rates.batch(100**3)
    assert not rates.batch(1000**3)
    assert rates.seconds(1000**3, 14) == pytest.approx(14 * 2e9 / 1e12)


@pytest.fixture
def h200(monkeypatch):
    """The library on an H200, as far as its data go."""
    monkeypatch.setattr(machine, "_device", lambda engine: 0)
    monkeypatch.setattr(machine, "device_name", lambda engine: "NVIDIA H200")
    machine._rates.cache_clear()
    machine._bandwidth.cache_clear()
    yield
    machine._rates.cache_clear()
    machine._bandwidth.cache_clear()


def test_small_int8_products_go_in_batches_on_an_h200(h200):
    rates = machine.rates("cublas", "int8")
    assert [rates.batch(n**3) for n in (256, 1024, 2048, 4096, 16384)] == [True, True, True, False, False]


def test_predicted_times_are_near_those_that_were_measured(h200):
    rows = json.loads((RESULTS / "dgemm_h200.json").read_text())["results"]
    rows = [r for r in rows if r["data"] == "normal" and len(set(r["shape"])) == 1]
    assert len(rows) >= 5
    small = ozaki.plan(np.eye(300), np.eye(300), engine="tensorcore")
    for r in rows:
        plan = replace(small, shape=tuple(r["shape"]), engine="cublas", products=r["plan"]["products"])
        assert 0.6 < plan.predicted_seconds / r["ours"]["seconds"] < 2, r["shape"]


def test_no_time_is_predicted_for_a_model():
    assert ozaki.plan(np.eye(3), np.eye(3), engine="tensorcore").predicted_seconds is None
    assert ozaki.plan(np.eye(3), np.eye(3)).predicted_seconds > 0


def test_rates_of_this_cpu_are_measured_once():
    first = machine.rates("host", "fp64")
    assert first is machine.rates("host", "fp64")
    assert all(x > 1e8 for x in (*first.alone, *first.together))
    assert machine.bandwidth("host") > 1e8
