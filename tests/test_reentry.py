"""A call that another one interrupts, in the same thread, as signal handlers and destructors do."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import multiword
import ozaki

PACKAGES = tuple(str(Path(package.__file__).parent) for package in (multiword, ozaki))


def interrupted(work, interruption, most=150):
    """work(), with interruption() called before up to `most` of the lines of the packages that it runs."""
    lines, events = 0, 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count if frame.f_code.co_filename.startswith(PACKAGES) else None

    def interrupt(frame, event, argument):
        nonlocal events
        if not frame.f_code.co_filename.startswith(PACKAGES):
            return None
        if event == "line":
            events += 1
            if events % step == 0:
                sys.settrace(None)
                interruption()
                sys.settrace(interrupt)
        return interrupt

    before = sys.gettrace()
    try:
        sys.settrace(count)
        work()
        step = max(1, lines // most)
        sys.settrace(interrupt)
        return work()
    finally:
        sys.settrace(before)


RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((150, 300)), RNG.standard_normal((300, 140))
SMALL, STACK = RNG.standard_normal((3, 3)), RNG.standard_normal((5, 4, 6))
WIDE = X * np.exp(6 * RNG.standard_normal(X.shape))
LARGE = RNG.standard_normal((200, 700))

CALLS = {
    "dgemm": lambda: ozaki.accurate_dgemm(X, Y),
    "wide": lambda: ozaki.accurate_dgemm(WIDE, Y),
    "strided": lambda: ozaki.accurate_dgemm(LARGE.T, LARGE),
    "sgemm": lambda: ozaki.accurate_sgemm(X.astype(np.float32), Y.astype(np.float32)),
    "zgemm": lambda: ozaki.accurate_zgemm(X[:, :150] + 1j * X[:, 150:], Y[:150] + 1j * Y[150:]),
    "exact": lambda: ozaki.matmul(X, Y, accuracy="exact"),
    "normwise": lambda: ozaki.matmul(X, Y, accuracy="normwise"),
    "slices": lambda: ozaki.matmul(X, Y, scheme="slices"),
    "small": lambda: ozaki.matmul(SMALL, SMALL),
    "stack": lambda: ozaki.matmul(STACK, STACK.swapaxes(-1, -2)),
    "mukunoki": lambda: ozaki.mukunoki_dgemm(X, Y),
    "words": lambda: multiword.matmul(X.astype(np.float32), Y.astype(np.float32)),
    "batched": lambda: multiword.batched_matmul(
        STACK.astype(np.float16), STACK.swapaxes(-1, -2).astype(np.float16)
    ),
    "sum": lambda: ozaki.sum(WIDE),
    "rows": lambda: ozaki.sum(WIDE, axis=0),
    "dot": lambda: ozaki.dot(WIDE.ravel(), X.ravel()),
    "var": lambda: ozaki.var(WIDE, axis=1),
    "norm": lambda: ozaki.norm(WIDE),
    "cumsum": lambda: ozaki.cumsum(WIDE[0]),
    "accumulator": lambda: ozaki.ExactSum().add(WIDE).round(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_within_a_call_changes_no_bit(name):
    others = [CALLS[other] for other in ("dgemm", "strided", "wide", "dot", name)]
    expected = CALLS[name]()
    for other in others:
        other()
    turns = 0

    def interruption():
        nonlocal turns
        turns += 1
        others[turns % len(others)]()

    result = interrupted(CALLS[name], interruption, most=40)
    assert turns > 0
    assert np.array_equal(result, expected, equal_nan=True)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal")
def test_a_handler_while_an_engine_is_imported():
    """It may import or compile, too, which waits for that."""
    code = """
import signal, time
from multiword.engines import select
from multiword.runtime.forking import loading, to_the_end

def import_module(name, real=select.import_module):
    signal.raise_signal(signal.SIGALRM)
    time.sleep(0.2)  # its handler runs in the main thread
    return real(name)

def work():
    with loading:
        print("handled")

signal.signal(signal.SIGALRM, lambda *_: to_the_end(work))
select.import_module = import_module
print(select.get_engine("host").name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["handled", "host"], done.stderr
