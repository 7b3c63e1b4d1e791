"""Functions of rows have the CPU's bits on a GPU, by kernels and without."""

import numpy as np
import pytest

import ozaki
from ozaki import rowwise, rowwise_cuda
from tests.gpu.same import same_on_the_gpu
from tests.rowwise import DEFINITIONS, POSITIVE
from tests.test_rowwise_cuda import rows

pytestmark = pytest.mark.gpu
KERNELS = ("softmax", "log_softmax", "logsumexp")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_rows_of_every_kind_and_length(name, dtype):
    rng = np.random.default_rng(1)
    function, x = getattr(ozaki, name), rows(rng, "float64")
    x = (np.abs(x) if name in POSITIVE else x).astype(dtype)
    same_on_the_gpu(function, x, axis=1)
    same_on_the_gpu(function, np.asfortranarray(x), axis=0)
    for shape in (
        (1, 1),
        (90, 7),
        (900, 32),
        (257, 700),
        (2, 70_000),
        (260, 4096),
        (260, 4097),
        (3, 20_001),
        (1, 50_000),
        (30_000, 3),
    ):
        same_on_the_gpu(function, rng.exponential(3, shape).astype(dtype), axis=1)


@pytest.mark.parametrize("name", KERNELS)
def test_rows_in_doubt_are_computed_without_the_kernel(cupy, name, monkeypatch):
    """Some that are not: their results are kept, and the kernel's replaced."""
    x = np.random.default_rng(2).standard_normal((70, 50))
    compute, computed = rowwise_cuda.run, []

    def doubting(kind, of_rows):
        result, doubtful = compute(kind, of_rows)
        assert doubtful is None
        result[::3] = -1.0
        computed.append(kind)
        return result, cupy.arange(0, len(x), 3)

    monkeypatch.setattr(rowwise.rowwise_cuda, "run", doubting)
    same_on_the_gpu(getattr(ozaki, name), x, axis=1)
    assert computed == [name]
