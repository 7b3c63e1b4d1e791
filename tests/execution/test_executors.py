"""The table of executors: all of them give the bits of "steps", and plans foresee which one is taken."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.runtime.compiled import compiling, numpy_forms
from ozaki.arguments import request_of
from ozaki.execution.contract import Done
from ozaki.execution.executors import EXECUTORS, NAMES, chosen, executor, foreseen
from ozaki.execution.groups import Groups
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.scale import bits_of_level_factors
from tests.cells import cells
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import same

pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow", "ignore:divide")

SHAPES = [(1, 1, 1), (4, 4, 4), (3, 16, 5), (70, 3, 3), (1, 60, 30), (30, 60, 1), (33, 40, 35)]
ACCURACIES = ["fp64", "fp32", "normwise", "exact", 40]
SLOW = 200
"""Multiplications up to which the definition is asked, too."""


def by(name, multiply, *arguments, **options):
    """The product by one executor; None if it cannot take it, or leaves it to others, and says so."""
    with executor(name):
        try:
            return multiply(*arguments, **options)
        except ValueError as error:
            assert f"executor {name!r}" in str(error)  # noqa: PT017
            return None


@cells(shape=SHAPES, dtype=FACES, accuracy=ACCURACIES)
def test_every_executor_gives_the_bits_of_steps(shape, dtype, accuracy):
    taken = set()
    for kind in ("uniform", "wide6", "sparse", "graded", "cancelling", "subnormal", "overflowing"):
        if kind == "cancelling" and shape[1] % 2:
            continue
        a, b = in_dtype(*matrices("uniform" if kind == "overflowing" else kind, *shape), dtype)
        if kind == "overflowing":
            a, b = (x * x.dtype.type(np.sqrt(np.finfo(x.dtype).max)) * 2 for x in (a, b))
        expected = by("steps", FACES[dtype], a, b, accuracy=accuracy)
        for name in NAMES:
            if name != "definition" or np.prod(shape) <= SLOW:
                found = by(name, FACES[dtype], a, b, accuracy=accuracy)
                assert found is None or same(found, expected), (name, kind)
                taken |= {name} if found is not None else set()
    assert "steps" in taken
    if compiling():
        assert "floats" in taken
        assert ("bytes" in taken) == (bool(available_kernels()) and accuracy not in ("exact", 40))


@pytest.mark.parametrize("accuracy", ["fp64", "normwise", "exact"])
@pytest.mark.parametrize("dtype", FACES)
def test_every_executor_gives_the_same_stacks(dtype, accuracy):
    kinds = ["uniform", "sparse", "wide6", "graded", "uniform"]
    pairs = [in_dtype(*matrices(kind, 5, 6, 3, seed=i), dtype) for i, kind in enumerate(kinds)]
    a, b = (np.stack(x) for x in zip(*pairs, strict=True))
    a[4, 1, 2] = np.nan
    expected = by("steps", ozaki.matmul, a, b, accuracy=accuracy)
    assert same(ozaki.matmul(a, b, accuracy=accuracy), expected)
    assert same(by("groups", ozaki.matmul, a, b, accuracy=accuracy), expected)
    assert same(by("definition", ozaki.matmul, a, b, accuracy=accuracy), expected)
    for name in ("bytes", "floats"):
        found = by(name, ozaki.matmul, a[:1], b[:1], accuracy=accuracy)
        assert found is None or same(found, expected[:1])


def pair_of(a, b, accuracy):
    pair = Pair.of(Factor(a, 0), Factor(b, 1), request_of(a, accuracy, "auto", None, "auto", None))
    return pair._replace(bits=bits_of_level_factors(pair)) if pair.request.certified else pair


@cells(
    shape=[(4, 4, 4), (300, 4, 3), (40, 9000, 1), (50, 48, 52), (130, 128, 70)],
    kind=[*KINDS, "nan"],
    accuracy=["fp64", "normwise", "exact"],
)
def test_plans_foresee_which_executor_is_taken(monkeypatch, shape, kind, accuracy):
    a, b = matrices("uniform" if kind == "nan" else kind, *shape)
    if kind == "nan":
        a[2, 1] = np.nan
    done, declined = [], []
    for each in EXECUTORS:

        def note(self, pair, out, run=each.run):
            outcome = run(self, pair, out)
            (done if isinstance(outcome, Done) else declined).append((self.name, outcome))
            return outcome

        monkeypatch.setattr(each, "run", note)
    with np.errstate(all="ignore"):
        name, others = foreseen(pair_of(a, b, accuracy))
        ozaki.matmul(a, b, accuracy=accuracy)
    assert len(done) == 1
    assert {name} | set(others) == set(NAMES)
    assert name not in others
    if not any("middle of two numbers" in x.why for _, x in declined):
        assert name == done[0][0]
        assert {x for x, _ in declined} <= set(others)
    assert ozaki.plan(a, b, accuracy=accuracy).executor == name


def test_a_named_executor_that_cannot_take_a_product_says_why():
    x = np.ones((300, 300))
    for name, why in (("graph", "on a GPU"), ("groups", "takes stacks")):
        with executor(name), pytest.raises(ValueError, match=f"'{name}' cannot take.*{why}"):
            ozaki.matmul(x, x)
    if compiling():
        with (
            executor("floats"),
            pytest.raises(ValueError, match=r"'floats' cannot take.*integers are too wide"),
        ):
            ozaki.matmul(x, x, accuracy=200)
    with pytest.raises(ValueError, match=r"unknown executor 'fast'; known are floats"):
        executor("fast")


@pytest.mark.skipif(not compiling(), reason="needs numba")
def test_a_named_executor_that_declines_says_why():
    x = np.ones((3, 3))
    x[1, 1] = np.inf
    for name in ("floats", "bytes"):
        with executor(name), pytest.raises(ValueError, match=f"'{name}' leaves this.*Inf or NaN"):
            ozaki.matmul(x, x)
    with executor("steps"), executor(None):
        assert ozaki.plan(x[1:], x[1:].T).executor != ""


def test_documents_name_every_executor():
    page = (Path(__file__).parents[2] / "docs" / "inside.md").read_text()
    page = page.partition("## Which executor runs a product")[2].partition("\n## ")[0]
    (listed,) = re.findall(r"name : (.*), or None", ozaki.executor.__doc__)
    assert tuple(listed.replace('"', "").split(", ")) == NAMES
    assert tuple(re.findall(r"^\| `(\w+)` \| `\w+\.py` \|", page, re.MULTILINE)) == NAMES


def test_executors_are_chosen_in_the_order_of_their_costs():
    for shape in SHAPES:
        a, b = matrices("uniform", *shape)
        able = chosen(pair_of(a, b, "fp64").signature)
        assert able[-1].name == "steps"
        assert [x.cost for x in able] == sorted(x.cost for x in able)
    stack = Pair(
        Factor(np.ones((3, 4, 4)), 0, stack=3),
        Factor(np.ones((3, 4, 4)), 1, stack=3),
        pair_of(a, b, "fp64").request,
    )
    assert isinstance(chosen(stack.signature)[-1], Groups)


@pytest.mark.skipif(not compiling(), reason="needs numba")
def test_numpy_forms_leave_no_choice_behind():
    x = matrices("uniform", 44, 44, 44)
    with numpy_forms():
        assert ozaki.plan(*x).executor == "steps"
        before = ozaki.matmul(*x)
    assert ozaki.plan(*x).executor in ("bytes", "floats")
    assert same(ozaki.matmul(*x), before)


def test_a_variable_names_the_executor_of_a_process():
    code = "import numpy, ozaki; print(ozaki.plan(numpy.eye(3), numpy.eye(3)).executor)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OZAKI_EXECUTOR": "definition"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "definition"
