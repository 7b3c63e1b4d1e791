"""Random numbers have the CPU's bits on a GPU."""

import numpy as np
import pytest

from ozaki.random import Generator
from tests.gpu.same import same_on_the_gpu
from tests.random.test_random import METHODS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", METHODS)
def test_the_same_on_a_gpu(cupy, name):
    for first, n in ((0, 1), (0, 100_001), (7, 5), (4 * (1 << 32) - 3, 1000), (3, 0)):
        same_on_the_gpu(
            lambda x, first=first, n=n: METHODS[name](Generator(2, like=x), n, first=first), np.ones(1)
        )
    assert METHODS[name](Generator(2, like=cupy.ones(1)), None) == METHODS[name](Generator(2), None)


def test_permutations_on_a_gpu():
    same_on_the_gpu(lambda x: Generator(3, like=x).permutation(100_000), np.ones(1))
