"""The comparison of a GPU's bits with the CPU's."""

import numpy as np
import pytest


def same_on_the_gpu(function, *arrays, **options):
    """Assert that the GPU returns the CPU's bits, NaN included."""
    cupy = pytest.importorskip("cupy")
    host = np.asarray(function(*arrays, **options))
    device = function(*map(cupy.asarray, arrays), **options)
    assert isinstance(device, cupy.ndarray)
    assert (device.dtype, device.shape) == (host.dtype, host.shape), (function, options)
    back = device.get()
    assert back.tobytes() == host.tobytes(), (function, options, back, host)
