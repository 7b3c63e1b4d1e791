"""Recording launches and replaying them, without a GPU."""

import gc

import numpy as np
import pytest

from multiword.runtime import graphs, kernels
from multiword.runtime.graphs import CaptureError, Recorder, retained, side_by_side
from multiword.runtime.libcuda import CudaError
from tests.standin import Gpu


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    gpu.install(monkeypatch)
    yield gpu
    gc.collect()
    assert not gpu.executables


def recorded(work, *arrays):
    """The graph of what work() launches."""
    found = []
    with Recorder().capture(arrays, found):
        work()
    return found[0]


def fork(gpu, joined):
    """Launch a kernel on a stream of its own, which comes back to the current one or does not."""
    stream, side = gpu.current_stream(), gpu.cupy.cuda.Stream()
    begin, end = gpu.cupy.cuda.Event(), gpu.cupy.cuda.Event()
    begin.record()
    side.wait_event(begin)
    with side:
        gpu.launch(lambda: None, [])
        end.record()
    if joined:
        stream.wait_event(end)


def test_a_branch_that_does_not_join_is_no_graph(gpu):
    recorded(lambda: fork(gpu, True))
    with pytest.raises(CudaError, match="UNJOINED"):
        recorded(lambda: fork(gpu, False))


@pytest.mark.parametrize("branches", [0, 2])
def test_a_launch_that_is_not_the_last_node_is_no_graph(gpu, branches):
    """Its arguments could not be found in the graph."""
    x = gpu.empty((1, 1))

    def work():
        for _ in range(branches):
            fork(gpu, True)
        kernels.noted.value((x,))

    with pytest.raises(CaptureError, match=f"{branches} nodes"):
        recorded(work, x)


def test_branches_run_after_what_they_come_after(gpu):
    """In graphs, as the stand-in runs them, the last branch comes first; forks may fork again."""
    seen, results = [], []

    def step(name):
        gpu.launch(lambda: seen.append(name), [])
        return name

    def work():
        step("begin")
        results.append(side_by_side(lambda: step("a"), lambda: step("b")))
        results.append(side_by_side(lambda: side_by_side(lambda: 1, lambda: step("c")), lambda: step("d")))
        step("end")

    graph = recorded(work)
    assert results == [("a", "b"), ((1, "c"), "d")]
    assert seen == []
    for _ in range(2):
        graph.replay((), gpu.current_stream())
        assert (seen[0], set(seen[1:3]), set(seen[3:5]), seen[5]) == ("begin", {"a", "b"}, {"c", "d"}, "end")
        seen.clear()
    assert side_by_side(lambda: step("a"), lambda: step("b")) == ("a", "b")  # outside, one after the other
    assert seen == ["a", "b"]


def test_events_within_a_graph_are_recorded_at_every_replay(gpu):
    event = gpu.cupy.cuda.Event()
    graphs.record(event)
    assert event.recorded == 1
    graph = recorded(lambda: graphs.record(event))
    assert event.recorded == 1
    for i in range(3):
        graph.replay((), gpu.current_stream())
        assert event.recorded == 2 + i


def test_memory_of_the_capture_is_the_recorders(gpu):
    recorder, found = Recorder(), []
    with recorder.warm():
        gpu.empty((10, 10))  # a table, for one, which others use, too
    assert recorder.nbytes == 0
    with recorder.capture((), found):
        gpu.empty((10, 10))
    assert recorder.nbytes == 800
    gpu.empty((10, 10))
    assert recorder.nbytes == 800


def test_what_a_warming_takes_from_caches_is_not_the_last_graphs(gpu):
    """A recorder lives longer than its graphs, of which each retains what it reads."""
    recorder, found = Recorder(), []
    table = np.zeros(3)
    with recorder.capture((), found):
        retained(table)
    with recorder.warm():
        retained(np.zeros(100))
    assert list(found[0].retained) == [id(table)]
    assert recorder.nbytes == table.nbytes
    found.clear()
    gc.collect()
    assert recorder.nbytes == 0
