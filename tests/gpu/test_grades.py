"""The inputs of the grading tests on a GPU: the CPU's bits, and so its grades."""

import pytest

from tests.gpu.same import same_on_the_gpu
from tests.grades import ACCURACIES, FACES, INPUTS, TARGETS, matrices

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::ozaki.CostWarning")]


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("given", INPUTS, ids=lambda given: given.name)
def test_the_inputs_of_the_grading_tests(given, dtype):
    for accuracy in ACCURACIES[TARGETS[dtype]]:
        for n in (8, 32):
            same_on_the_gpu(FACES[dtype], *matrices(given, n, dtype), accuracy=accuracy)
