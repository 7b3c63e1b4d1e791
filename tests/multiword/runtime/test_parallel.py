"""Row blocks shared out over threads: each is done once, and none is left running."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from multiword import tuning
from multiword.runtime import parallel, tasks
from multiword.runtime.tasks import Task
from ozaki.public import for_every_library
from tests.threads import in_threads


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)), raising=False)
    monkeypatch.setattr(parallel, "_limit", sys.maxsize)
    monkeypatch.delitem(sys.modules, "threadpoolctl", raising=False)  # which another test may have imported
    parallel._pool.cache_clear()
    yield
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


def test_tensors_take_no_more_threads_than_pytorch():
    torch = pytest.importorskip("torch")
    count = for_every_library(lambda x: np.float64(parallel.thread_count()))
    before, most = torch.get_num_threads(), parallel.thread_count()
    try:
        for threads in (1, 3, 9):
            torch.set_num_threads(threads)
            assert count(torch.ones(2)) == min(threads, most)
            assert count(np.ones(2)) == parallel.thread_count() == most
    finally:
        torch.set_num_threads(before)


def test_variables_are_read_once():
    """Those that are set later, as Dask's nannies set them for workers, do not limit this process."""
    code = """
import os
from multiword.runtime import parallel

parallel.cores = lambda: 8
os.environ["OMP_NUM_THREADS"] = "1"
print(parallel.thread_count())
"""
    environment = {**os.environ, **dict.fromkeys(parallel.THREAD_LIMITS, "3")}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert run.stdout == "3\n"


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

    waiting = [Task(occupy) for _ in range(parallel.thread_count())]
    for task in waiting:
        parallel._pool().put(task)
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
        for task in waiting:
            task.result()


def test_a_handler_that_raises_at_any_instruction_leaves_threads_that_work():
    """Where a lock stayed taken, a later call would wait for ever: each is made in a thread of its own."""

    class Interrupted(Exception):
        pass

    def call():
        """Return what a call leaves in a list of ones."""
        done = np.zeros(8, int)

        def work(block):
            time.sleep(1e-4)
            done[block] += 1

        parallel.over_rows(work, 8, 1, 1)
        return done

    def interrupted(at):
        """Return whether a call was interrupted at its instruction of that number."""
        count = 0

        def trace(frame, event, _):
            nonlocal count
            frame.f_trace_opcodes = True
            if event == "opcode":
                count += 1
                if count == at:
                    raise Interrupted
            return trace

        sys.settrace(trace)
        try:
            call()
        except Interrupted:
            return True
        finally:
            sys.settrace(None)
        return False

    at = 1
    while interrupted(at):
        at += 1
        result = []
        thread = threading.Thread(target=lambda result=result: result.append(call()), daemon=True)
        thread.start()
        thread.join(10)
        assert result, f"waits for ever after instruction {at}"
        assert result[0].tolist() == [1] * 8
    assert at > 200


@pytest.mark.parametrize("step", range(40))
def test_memory_has_one_user_wherever_threads_meet(monkeypatch, step):
    """Another thread's whole call falls between any two steps of one, and an array ends there.

    Steps are whatever asks or changes what is shared: the operations of the loans' deques, and whether an
    array is still there.
    """
    left, alive, size = [step], {}, tuning.LARGE_BYTES

    def meet():
        left[0] -= 1
        if left[0] == -1:  # once: calls of the other thread meet nobody
            del alive["first"]
            alive["other"] = [parallel.scratch((size,), np.uint8), parallel.scratch((2 * size,), np.uint8)]

    class Loans(deque):
        def popleft(self):
            meet()
            return super().popleft()

        def append(self, loan):
            meet()
            super().append(loan)

        def __iter__(self):
            meet()
            return super().__iter__()

    class Reference(weakref.ref):
        def __call__(self):
            meet()
            user = super().__call__()
            meet()
            return user

    monkeypatch.setattr(parallel, "_loans", {})
    monkeypatch.setattr(parallel, "deque", Loans)
    monkeypatch.setattr(parallel, "weakref", SimpleNamespace(ref=Reference))
    left[0] = 10**6
    for name, bytes_ in (("first", size), ("second", size), ("third", 2 * size)):
        alive[name] = parallel.scratch((bytes_,), np.uint8)
    left[0] = step
    for name, bytes_ in (("mine", 3 * size), ("next", size), ("last", size), ("wide", 2 * size)):
        alive[name] = parallel.scratch((bytes_,), np.uint8)
    arrays = [x for held in alive.values() for x in (held if isinstance(held, list) else [held])]
    assert not any(np.shares_memory(x, y) for x, y in itertools.combinations(arrays, 2))


def test_no_thread_is_left_where_the_system_refuses_one(monkeypatch):
    living, started = [], []

    def in_new_thread(work):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        thread = threading.Thread(target=work)
        started.append(thread)
        living.append(thread)
        thread.start()

    monkeypatch.setattr(tasks, "in_new_thread", in_new_thread)
    with pytest.raises(RuntimeError, match="start new thread"):
        tasks.queue_for(4)
    for thread in living:
        thread.join(10)
    assert not any(thread.is_alive() for thread in living)
