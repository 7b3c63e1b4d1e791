"""Row blocks shared out over threads: each is done once, and none is left running."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from multiword import tuning
from multiword.runtime import parallel
from tests.threads import in_threads


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(parallel, "thread_count", lambda: 4)
    parallel._pool.cache_clear()
    yield
    parallel._pool().shutdown()
    parallel._pool.cache_clear()


def test_every_row_once_for_callers_in_many_threads():
    def call(rows):
        times = np.zeros(rows, int)

        def work(block):
            times[block] += 1
            time.sleep(1e-4)

        parallel.over_rows(work, rows, 10, 20)
        return bool((times == 1).all())

    assert all(in_threads(call, list(range(150, 174))))


def test_work_that_shares_out_its_own_does_it_itself():
    found = []

    def work(block):
        mine = threading.get_ident()
        parallel.over_rows(lambda _: found.append(threading.get_ident() == mine), 8, 1, 1)

    parallel.over_rows(work, 8, 1, 1)
    assert found == [True] * 64


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_ends_the_work_of_all_threads(error):
    running, ends = set(), []
    caller = threading.get_ident()

    def work(block):
        running.add(block.start)
        time.sleep(1e-3)
        running.discard(block.start)
        ends.append(block.start)
        if threading.get_ident() == caller:
            raise error("here")

    with pytest.raises(error, match="here"):
        parallel.over_rows(work, 1000, 1, 1)
    assert not running
    count = len(ends)
    assert count < 1000
    time.sleep(0.01)
    assert len(ends) == count
    done = []
    parallel.over_rows(done.append, 8, 1, 1)  # the next work is shared out again
    assert len(done) == 8


def test_an_error_in_another_thread_is_raised():
    caller = threading.get_ident()

    def work(block):
        time.sleep(1e-3)
        if threading.get_ident() != caller:
            raise ValueError("there")

    with pytest.raises(ValueError, match="there"):
        parallel.over_rows(work, 200, 1, 1)


def test_scratch_memory_is_used_again_when_no_view_of_it_is_left():
    size = (300, 400)
    view = parallel.scratch(size)[1:].T
    address = view.ctypes.data
    other = parallel.scratch(size)
    assert not np.shares_memory(view, other)
    del view
    again = parallel.scratch(size)[1:].T
    assert again.ctypes.data == address
    assert not np.shares_memory(again, other)


def test_scratch_memory_is_not_hoarded():
    large = tuning.CACHED_BYTES // 5
    arrays = [parallel.scratch((large + i,), np.uint8) for i in range(8)]  # no two of a size
    del arrays
    assert sum(size * len(x) for size, x in parallel._loans.items()) <= tuning.CACHED_BYTES
    parallel.scratch((tuning.REUSED_BYTES,), np.uint8)
    assert [size for size, x in parallel._loans.items() if x] == [tuning.REUSED_BYTES]
    parallel.scratch((tuning.CACHED_BYTES + 1,), np.uint8)
    assert tuning.CACHED_BYTES + 1 not in parallel._loans


def test_work_after_the_threads_have_ended_is_done_by_its_caller():
    """When the process ends no thread is started any more, and exit handlers may still compute."""
    code = """
import atexit, threading
import numpy as np, ozaki

x = np.random.default_rng(0).standard_normal((700, 700))
expected = ozaki.matmul(x, x)

def last():
    assert (ozaki.matmul(x, x) == expected).all()
    print("done")

atexit.register(last)
threading._register_atexit(last)
"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("done\n" * 2, "")


def test_a_call_that_waits_in_the_queue_keeps_no_memory_alive():
    """Threads that are busy elsewhere find later that there is nothing left to do."""
    busy, release = threading.Barrier(parallel.thread_count() + 1), threading.Event()

    def occupy():
        busy.wait()
        release.wait()

    waiting = [parallel._pool().submit(occupy) for _ in range(parallel.thread_count())]
    busy.wait()
    try:
        held, blocks = np.ones(10), []
        kept = weakref.ref(held)

        def work(block, held=held):
            blocks.append(block)
            assert len(held) == 10

        parallel.over_rows(work, 64, 1, 1)
        assert sorted(x.start for x in blocks) == list(range(64))
        del work, held
        gc.collect()
        assert kept() is None
    finally:
        release.set()
        for future in waiting:
            future.result()
