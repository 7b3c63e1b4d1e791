"""Other projects' tests: what differs is told apart from what is explained."""

import numpy as np
import pytest

from benchmarks.suites.__main__ import Outcome, differing, findings, report
from benchmarks.suites.replaced import of_numpy

PASSED, FAILED = Outcome("passed", "", 1), Outcome("failed", "ValueError", 1)


def test_tests_that_fail_or_do_not_end_with_ours_alone_differ():
    native = {"a": PASSED, "b": PASSED, "c": FAILED, "d": PASSED}
    assert differing(native, {"a": PASSED, "b": FAILED, "c": FAILED}) == {
        "b": "ValueError",
        "d": "did not end",
    }


@pytest.mark.parametrize(("known", "explained"), [({}, False), ({"b*": "meant"}, True)])
def test_a_difference_must_be_explained(known, explained, capsys):
    native, ours = {"a": PASSED, "b[1]": PASSED}, {"a": PASSED, "b[1]": FAILED}
    assert report("suite", findings(native, ours, known)) is explained
    assert not report("suite", findings(native, {}, known))
    assert "2 run" in capsys.readouterr().out


def test_replaced_functions_of_plain_arrays_are_ours():
    total = of_numpy()[np]["sum"](np.array([1e16, 1.0, -1e16]))
    assert (total, type(total)) == (1.0, np.float64)


def test_tests_that_pick_ufuncs_find_the_replaced_ones():
    replaced = of_numpy()[np]
    assert isinstance(replaced["matmul"], np.ufunc)
    assert not isinstance(replaced["sum"], np.ufunc)
