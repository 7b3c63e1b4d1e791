"""The benchmarks follow the packages: each of them can at least be imported."""

import importlib
from pathlib import Path

import numpy as np
import pytest

import ozaki
from benchmarks.report_sections import load
from benchmarks.torch_report import operators_section
from ozaki.linalg import verified
from ozaki.public import PUBLIC

MODULES = sorted(x.stem for x in (Path(__file__).parents[2] / "benchmarks").glob("[a-z]*.py"))


NEEDED = {
    "torch_mode": "torch",
    "torch_rows": "torch",
    "torch_operators": "expecttest",
    "networks": "torch",
    "training": "torch",
    "two_networks": "torch",
    "elementary": "torch",
    **dict.fromkeys(("dask_arrays", "gpu_workers", "two_gpus"), "distributed"),
}
"""Optional packages that benchmarks measure."""


OTHER_PARTS = ("groups", "functions", "products", "linalg", "sparse")


@pytest.mark.parametrize("name", MODULES)
def test_benchmark_is_there(name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__


def test_no_operator_of_pytorchs_varies_in_silence():
    """In the mode, by the committed experiment; nor is one left out of its table."""
    (row, *_) = (rows := load("torch_operators_cpu")["rows"])
    assert len(rows) > 600
    assert {"plain", "products", "everything"} < row.keys()
    varying = {"threads", "cut", "order"}
    for row in rows:
        assert not varying & {*row["products"], *row["everything"]}, row["operator"]
        assert row["operator"] in operators_section("torch_operators_cpu")
    assert sum(bool(varying & {*row["plain"]}) for row in rows) > 40  # what the experiment can see


@pytest.mark.slow
def test_products_by_two_workers_have_the_bits_of_one():
    pytest.importorskip("distributed")
    from benchmarks.two_gpus import larger, measured

    for measure in (measured, larger):
        (row,) = measure(64, 2, ("fp64",), "numpy")["results"]
        assert row["same bits"]


def test_no_public_function_is_forgotten_by_the_scan_of_cliffs():
    """Each has rows, or a reason for having none; nothing is timed, and of most rows nothing drawn."""
    cliffs = importlib.import_module("benchmarks.cliffs")
    asked = set()

    def wanted(name):
        asked.add(name)
        return False

    for part in cliffs.PARTS:
        for dtype in cliffs.DTYPES:
            asked |= {row.function for row in part(np, dtype, wanted)}
    names = set(PUBLIC) | {f"linalg.{name}" for name in ozaki.linalg.__all__}
    names |= {f"linalg.verified.{name}" for name in verified.__all__ if name.islower()}
    assert names - asked == set(cliffs.NOT_TIMED)


SMALLER = {
    "ROWS": ((5,), (4, 3)),
    "MATRICES": (3,),
    "STACKS": ((2, 3),),
    "GRIDS": (3,),
    "PRODUCTS": (((3, 4), (4, 2)), ((2, 3, 3), (3, 3))),
}
"""Sizes of the scan that take no time."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", ["sums", *(pytest.param(x, marks=pytest.mark.slow) for x in OTHER_PARTS)])
def test_every_row_of_the_scan_of_cliffs_runs(monkeypatch, part):
    cliffs = importlib.import_module("benchmarks.cliffs")
    for name, sizes in SMALLER.items():
        monkeypatch.setattr(cliffs, name, sizes)
    count = 0
    for dtype in cliffs.DTYPES:
        for row in getattr(cliffs, f"rows_of_{part}")(np, dtype, lambda _: True):
            if row.numbers <= 2000:
                ours, native = row.ours(), row.native()
                assert part != "sums" or "rolling" in row.function or np.shape(ours) == np.shape(native)
                count += 1
    assert count
