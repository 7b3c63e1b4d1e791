"""The products of Mukunoki et al. on a GPU have the CPU's bits."""

import numpy as np
import pytest

from ozaki import mukunoki_dgemm, mukunoki_split, slice_count
from tests.matrices import KINDS, matrices
from tests.oracle import same

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kind", KINDS)
def test_the_gpu_gives_the_hosts_bits(cupy, kind):
    for shape in ((7, 68, 61), (130, 1000, 70)):
        a, b = matrices(kind, *shape)
        x, y = cupy.asarray(a), cupy.asarray(b)
        assert slice_count(x, y) == slice_count(a, b)
        for options in (
            {},
            {"slices": "estimated", "fast": True},
            {"slices": 3},
            {"summation": "nearsum"},
            {"slices": 4, "fast": True, "summation": "nearsum"},
        ):
            result = mukunoki_dgemm(x, y, **options)
            assert isinstance(result, cupy.ndarray)
            assert same(result.get(), mukunoki_dgemm(a, b, **options)), (shape, options)


def test_the_gpu_splits_as_the_host(cupy):
    largest, smallest = np.finfo(np.float64).max, 2.0**-1074
    x = np.array([[largest, smallest, -1.0, 0.1], [0.0, -largest, 2.0**1023, 3 * smallest]])
    host, device = mukunoki_split(x), mukunoki_split(cupy.asarray(x))
    assert len(host.slices) == len(device.slices)
    for left, right in zip(host.slices + host.exponents, device.slices + device.exponents, strict=True):
        assert same(left, right.get())
