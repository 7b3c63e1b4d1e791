"""The benchmarks follow the packages: each of them can at least be imported."""

import importlib
from pathlib import Path

import pytest

MODULES = sorted(x.stem for x in (Path(__file__).parents[2] / "benchmarks").glob("[a-z]*.py"))


NEEDED = {
    "torch_mode": "torch",
    "training": "torch",
    **dict.fromkeys(("dask_arrays", "gpu_workers", "two_gpus"), "distributed"),
}
"""Optional packages that benchmarks measure."""


@pytest.mark.parametrize("name", MODULES)
def test_benchmark_is_there(name):
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__


@pytest.mark.slow
def test_products_by_two_workers_have_the_bits_of_one():
    pytest.importorskip("distributed")
    from benchmarks.two_gpus import larger, measured

    for measure in (measured, larger):
        (row,) = measure(64, 2, ("fp64",), "numpy")["results"]
        assert row["same bits"]
