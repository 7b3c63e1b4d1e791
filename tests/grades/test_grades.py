"""The published grading tests, for every accuracy and dtype."""

import numpy as np
import pytest

from tests.grades import ACCURACIES, FACES, INPUTS, SIZES, TARGETS, complementary, errors, grade, matrices
from tests.grades.page import PAGE, page

GRADES = {"fp64": "A", "fp32": "A", "exact": "A", "normwise": "B", 53: "B", 24: "B"}
"""The least that an accuracy must get, whatever the input."""

CASES = [(dtype, accuracy) for dtype in FACES for accuracy in ACCURACIES[TARGETS[dtype]]]

pytestmark = pytest.mark.filterwarnings("ignore::ozaki.CostWarning")


@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
@pytest.mark.parametrize(("dtype", "accuracy"), CASES)
def test_grades_are_what_is_promised(given, dtype, accuracy):
    assert grade(given, dtype, accuracy) <= GRADES[accuracy]


@pytest.mark.parametrize("dtype", FACES)
def test_the_bounds_behind_the_grades(dtype):
    for given in INPUTS:
        for n in SIZES:
            k = n * (1 + dtype.startswith("c"))
            own = ACCURACIES[TARGETS[dtype]][0]
            assert errors(given, n, dtype, own)[0] <= 1.001 + min(12 * k**0.5, k / 2)
            assert errors(given, n, dtype, "normwise")[1] <= 1.001 + k**0.5
            assert errors(given, n, dtype, "exact")[0] <= 1.001


@pytest.mark.parametrize("dtype", FACES)
def test_grading_tells_fixed_point(dtype):
    """Otherwise the inputs would prove nothing."""
    bits = ACCURACIES[TARGETS[dtype]][-1]
    for given in INPUTS[3:]:
        assert {grade(given, dtype, "normwise"), grade(given, dtype, bits)} == {"B"}


@pytest.mark.parametrize(("dtype", "accuracy"), CASES)
def test_complementary_rows_and_columns_give_zero(dtype, accuracy):
    (given,) = (x for x in INPUTS if x.make is complementary)
    for n in SIZES:
        a, b = matrices(given, n, dtype)
        result = FACES[dtype](a, b, accuracy=accuracy)
        assert not np.diag(result)[::2].any()
        assert np.diag(result)[1::2].all()


def test_the_page_is_made_of_these_results():
    assert PAGE.read_text() == page()
