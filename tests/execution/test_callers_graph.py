"""Products that the caller captures, without a GPU: whose memory, whose handle, and what is refused."""

import weakref
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_void_p
from types import SimpleNamespace

import numpy as np
import pytest

from multiword.engines import cublas
from multiword.runtime.graphs import retained
from multiword.runtime.libcuda import CudaError
from ozaki.execution.callers_graph import _retained, capturable
from ozaki.product.factor import Factor
from ozaki.product.operand import Operand
from tests.standin import Gpu


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    gpu.install(monkeypatch)
    return gpu


@pytest.fixture
def multiply(gpu):
    """A product that allocates as the real one does, and says where.

    It is called in a thread of its own: cuBLAS's handles end with that.
    """

    @capturable
    def product(a, b, *, accuracy=None, out=None):
        used.append((a, b, cublas.current_handle()))
        result = gpu.empty((a.shape[0], b.shape[1]))
        allocated.append(result)
        result[...] = a @ b
        if out is None:
            return result
        out[...] = result
        return out

    used, allocated = [], []
    with ThreadPoolExecutor(1) as thread:
        yield SimpleNamespace(
            call=lambda *operands, **options: thread.submit(product, *operands, **options).result(),
            used=used,
            allocated=allocated,
        )
    used.clear()


def captured_stream(gpu):
    stream = gpu.cupy.cuda.Stream()
    gpu.cuStreamBeginCapture_v2(stream.ptr, 0)
    return stream


def within(array, pool):
    start = array.__array_interface__["data"][0]
    return any(x.ctypes.data <= start < x.ctypes.data + x.nbytes for x in pool.blocks)


def test_temporary_arrays_belong_to_the_graph_and_results_to_the_caller(gpu, multiply):
    a, b = gpu.asarray(np.eye(3)), gpu.asarray(np.arange(6.0).reshape(3, 2))
    multiply.call(a, b, accuracy="normwise")
    usual = multiply.used[0][2]
    with captured_stream(gpu):
        result = multiply.call(a, b, accuracy="normwise")
        out = gpu.empty((3, 2))
        assert multiply.call(a, b, accuracy="normwise", out=out) is out
    pool = gpu.of_graphs
    assert not within(multiply.allocated[0], pool)
    assert all(within(x, pool) for x in multiply.allocated[1:])
    assert not within(result, pool)
    assert np.array_equal(result, b)
    assert np.array_equal(out, b)
    assert multiply.used[1][2] is multiply.used[2][2] is not usual


def ended(gpu, stream):
    """The graph that a stream has been captured into."""
    graph = c_void_p()
    gpu.cuStreamEndCapture(stream.ptr, byref(graph))
    return graph


class Table:
    """What a cache has, and may give up."""


def test_what_a_callers_graph_uses_is_kept_until_its_last_instance_is_gone(gpu):
    tables, a, instance = [Table()], gpu.asarray(np.eye(3)), c_void_p()

    @capturable
    def product(a, b, *, accuracy):
        retained(tables[-1])
        return a @ b

    def call():
        product(a, a, accuracy="normwise")

    def captured():
        with captured_stream(gpu) as stream:
            call()
        return ended(gpu, stream)

    def steps():
        call()
        graph, used = captured(), weakref.ref(tables.pop())
        tables.append(Table())
        gpu.cuGraphInstantiateWithFlags(byref(instance), graph, 0)
        for end in (lambda: None, lambda: gpu.cuGraphDestroy(graph)):
            end()
            gpu.cuGraphDestroy(captured())
            call()
            assert used() is not None
        gpu.cuGraphExecDestroy(instance)
        captured()
        assert used() is not None  # to give something up would end a capture
        call()
        assert used() is None

    with ThreadPoolExecutor(1) as thread:
        thread.submit(steps).result()


def test_without_an_end_what_a_callers_graph_uses_is_kept(gpu, multiply):
    a, before = gpu.asarray(np.eye(3)), len(_retained)
    gpu.failing["cuGraphRetainUserObject"] = [CudaError("cuGraphRetainUserObject", 801)]
    multiply.call(a, a, accuracy="normwise")
    with captured_stream(gpu):
        multiply.call(a, a, accuracy="normwise")
    assert [x.end for x in _retained.values()][before:] == [None]


def test_the_streams_own_handle_comes_back(gpu, multiply):
    a = gpu.asarray(np.eye(3))
    with gpu.cupy.cuda.Stream() as stream:
        multiply.call(a, a, accuracy="normwise")
        made = gpu.called["cublasCreate_v2"]
        gpu.cuStreamBeginCapture_v2(stream.ptr, 0)
        multiply.call(a, a, accuracy="normwise")
        stream.capture = None
        multiply.call(a, a, accuracy="normwise")
    first, second, third = (handle for *_, handle in multiply.used)
    assert first is third is not second
    assert second._workspace is None
    assert gpu.called["cublasCreate_v2"] == made == 2


def test_prepared_operands_are_worked_out_anew(gpu, multiply):
    a = gpu.asarray(np.eye(3))
    operand = Operand(Factor(a, 0))
    multiply.call(a, a, accuracy="normwise")
    with captured_stream(gpu):
        multiply.call(operand, a, accuracy="normwise")
    assert multiply.used[1][0] is a


@pytest.mark.parametrize("options", [{}, {"accuracy": "fp64"}, {"accuracy": "exact"}, {"accuracy": 40}])
def test_accuracies_that_wait_are_refused(gpu, multiply, options):
    a = gpu.asarray(np.eye(3))
    with captured_stream(gpu), pytest.raises(ValueError, match="'normwise'"):
        multiply.call(a, a, **options)
    assert not multiply.used


def test_a_first_call_cannot_be_captured(gpu, multiply):
    a = gpu.asarray(np.eye(3))
    with captured_stream(gpu), pytest.raises(RuntimeError, match="once in this thread before"):
        multiply.call(a, a, accuracy="normwise")


def test_arrays_of_numpy_are_never_captured(gpu, multiply):
    a = np.eye(3)
    with captured_stream(gpu):
        for x in (a, a.tolist()):
            capturable(lambda x, y, **_: multiply.used.append((x, y)))(x, a)
    assert len(multiply.used) == 2
