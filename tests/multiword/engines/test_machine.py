"""The model of the machine: rates by size, what goes in one batch, and predicted times."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ozaki
from multiword.engines import cublas, machine
from multiword.engines.int8_cpu.engine import Int8Cpu
from multiword.engines.machine import Rates
from multiword.runtime import parallel
from tests.standin import Gpu

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


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
    Gpu(name="NVIDIA H200").install(monkeypatch)


def test_small_int8_products_go_in_batches_on_an_h200():
    rates = machine._rates("NVIDIA H200", "int8")
    assert [rates.batch(n**3) for n in (256, 1024, 2048, 4096, 16384)] == [True, True, True, False, False]


def test_products_are_reduced_where_that_was_measured_to_be_faster(h200, monkeypatch):
    engine = object.__new__(cublas.Cublas)
    assert not engine.reduces("int8", (16, 16, 16))  # asked for by name: everything is cuBLAS's
    engine.fused = True
    longest = machine.longest_reduced("cublas")
    assert engine.reduces("int8", (1, longest, 1))
    assert engine.reduces("int8", (longest, 2 * longest, longest))
    assert not engine.reduces("int8", (longest, 2 * longest, longest - 1))
    assert not engine.reduces("int8", (4 * longest, 2 * longest + 1, 4 * longest))
    up_to_longest = [True, True, False]
    for name, capability, expected in (
        ("NVIDIA H200", "90", up_to_longest),
        ("a Hopper that was not measured", "90", up_to_longest),
        ("a GPU of tomorrow", "100", [False] * 3),
    ):
        Gpu(name=name, capability=capability).install(monkeypatch)
        assert [engine.reduces("int8", (9, k, 9)) for k in (1, longest, longest + 1)] == expected


def test_predicted_times_are_near_those_that_were_measured(h200):
    rows = json.loads((RESULTS / "dgemm_h200.json").read_text())["results"]
    rows = [r for r in rows if r["data"] == "normal" and len(set(r["shape"])) == 1]
    assert len(rows) >= 5
    small = ozaki.plan(np.eye(300), np.eye(300), engine="tensorcore")
    engine = object.__new__(cublas.Cublas)
    engine.fused = True
    for r in rows:
        count = r["plan"]["products"]
        written = 1 if engine.reduces("int8", tuple(r["shape"])) else 4
        plan = replace(small, shape=tuple(r["shape"]), engine="cublas", products=count)
        plan = replace(plan, product_bytes=count * written)
        assert 0.6 < plan.predicted_seconds / r["ours"]["seconds"] < 2, r["shape"]


def test_no_time_is_predicted_without_measurements():
    assert ozaki.plan(np.eye(3), np.eye(3), engine="tensorcore").predicted_seconds is None
    plan = ozaki.plan(np.eye(3), np.eye(3))
    assert plan.predicted_seconds is None
    assert "predicted time" not in str(plan)
    assert machine.rates("host", "fp64") is None
    assert machine.bandwidth("host") is None


class WithoutProducts(Int8Cpu):
    """The engine of a CPU, which is asked for none."""

    def multiply(self, *_, **__):
        raise AssertionError("a product was computed")

    multiply_words = multiply


def test_nothing_is_multiplied_to_know_the_machine(monkeypatch):
    """Neither for a plan, nor on a GPU that is not known, where a batch is judged by its size alone."""
    plan = ozaki.plan(np.eye(2), np.eye(2), accuracy="exact", engine=WithoutProducts(automatic=True))
    assert plan.predicted_seconds is None
    Gpu(name="a GPU of tomorrow", multiprocessors=132).install(monkeypatch)
    engine = object.__new__(cublas.Cublas)
    engine.batch = None
    assert [engine._together("int8", n, n, n) for n in (256, 2048, 3072)] == [True, True, False]
    engine.batch = False
    assert not engine._together("int8", 256, 256, 256)


@pytest.mark.parametrize("name", parallel.THREAD_LIMITS)
@pytest.mark.parametrize(
    ("value", "limit"), [("1", 1), (" 1 ,4", 1), ("0", 1), ("", None), ("²", None), ("999", None)]
)
def test_threads_are_limited_as_those_of_a_blas(monkeypatch, name, value, limit):
    monkeypatch.setattr(parallel, "_limit", sys.maxsize)
    every = parallel.thread_count()
    monkeypatch.setattr(parallel, "_limit", parallel.limit_of({name: value}))
    assert parallel.thread_count() == (limit or every)
