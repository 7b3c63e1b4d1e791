"""The programs of `examples/` that are no tutorials print what they say, in a second or two."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def program(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_page(name):
    """What a guide shows of its program's output."""
    return re.search(r"```text\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)[1]


def form(text):
    """An output without what may differ from machine to machine."""
    return re.sub(r"-?\d+(\.\d+)?|True|False", "#", text)


def test_the_sensor_pipeline_forgets_what_is_broken(capsys):
    pipeline = program("sensor_pipeline")
    pipeline.main()
    shown = capsys.readouterr().out
    assert "the broken value among them: True" in shown
    assert "rows in another order, the same bits: True" in shown
    assert form(shown).startswith(form(on_page("data.md")))
    assert int(re.search(r"with other bits: (\d+) of 96", shown)[1]) > 0
    x = pipeline.readings(np.random.default_rng(5))[1]
    assert abs(pipeline.by_differences(x)[160] - np.nanmean(x[131:161])) > 0.1


def test_the_regression_table_is_the_certified_one(capsys):
    """Of NIST's statistical reference datasets, Longley, fifteen digits."""
    program("regression_table").main()
    shown = capsys.readouterr().out
    assert "rows in another order, the same bits: True" in shown
    table = program("regression_table").regression(*split(program("regression_table").LONGLEY))
    certified = [
        *(-3482258.63459582, 15.0618722713733, -0.358191792925910e-01, -2.02022980381683),
        *(-1.03322686717359, -0.511041056535807e-01, 1829.15146461355),
    ]
    errors = [
        *(890420.383607373, 84.9149257747669, 0.334910077722432e-01, 0.488399681651699),
        *(0.214274163161675, 0.226073200069370, 455.478499142212),
    ]
    assert np.allclose(table.coefficients, certified, rtol=1e-13, atol=0)
    assert np.allclose(table.errors, errors, rtol=1e-11, atol=0)
    assert abs(table.r_squared - 0.995479004577296) < 1e-14


def split(data):
    return data[:, 1:], data[:, 0]


def test_the_disordered_chain_does_not_depend_on_who_computes_what(capsys):
    pytest.importorskip("scipy.sparse")
    program("disordered_chain").main()
    shown = capsys.readouterr().out
    assert form(shown) == form(on_page("physics.md"))
    ours, native = shown.split("NumPy and SciPy:")
    assert on_page("physics.md").startswith(ours), "on every machine"
    assert ours.count("the same bits: True") == 4
    assert "the same bits: False" in native
    numbers = [np.array(re.findall(r"energy (-\d\.\d+) ± (0\.\d+)", half), float) for half in (ours, native)]
    (means, errors), (others, their_errors) = (half.T for half in numbers)
    assert np.all(np.abs(means - others) < 4 * np.hypot(errors, their_errors))
