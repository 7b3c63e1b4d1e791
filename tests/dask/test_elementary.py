"""Elementary functions of Dask arrays have the bits of those of the whole array."""

import numpy as np
import pytest

import ozaki
from ozaki.dask.elementary import ELEMENTARY
from ozaki.public import PUBLIC
from tests.cells import cells

da = pytest.importorskip("dask.array")


@cells(name=sorted(ELEMENTARY))
def test_chunks_cannot_be_seen(name, dask_in_this_thread):
    x = np.linspace(1, 2, 12).reshape(3, 4) if name == "acosh" else np.linspace(0.1, 0.9, 12).reshape(3, 4)
    for dtype in (np.float32, np.float64):
        arrays = [x.astype(dtype), x[:1].astype(dtype)][: len(PUBLIC[name].arrays)]
        whole = getattr(ozaki, name)(*arrays)
        lazy = getattr(ozaki, name)(*[da.from_array(a, chunks=(2, 4 - i)) for i, a in enumerate(arrays, 1)])
        assert isinstance(lazy, da.Array)
        assert (lazy.dtype, lazy.shape) == (dtype, x.shape)
        assert lazy.compute().tobytes() == whole.tobytes()


def test_options_and_refusals(dask_in_this_thread):
    x = da.from_array(np.array([0.5, 1.0]), chunks=1)
    assert (ozaki.gelu(x, approximate="tanh").compute() == ozaki.gelu(x.compute(), approximate="tanh")).all()
    assert ozaki.exp(x.astype(int)).dtype == np.float64
    with pytest.raises(TypeError, match="out"):
        ozaki.exp(x, out=np.empty(2))
    with pytest.raises(TypeError, match="x must be real"):
        ozaki.sin(x * 1j)
    y = np.array([[3.0], [4.0]])
    for other in (y, 2.0, y[0]):
        assert ozaki.hypot(x, other).compute().tobytes() == ozaki.hypot(x.compute(), other).tobytes()
        assert ozaki.atan2(other, x).compute().tobytes() == ozaki.atan2(other, x.compute()).tobytes()
    assert ozaki.pow(x.astype("f4"), 2.0).dtype == np.float32
