"""Work in several threads at once, none of which can fail unseen, and work interrupted on any line."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier


def in_threads(work, arguments):
    """Call work(x) for every x, each in a thread of its own, all begun together; raise what one raises."""
    begin = Barrier(len(arguments))

    def call(x):
        begin.wait()
        return work(x)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(call, arguments))


def interrupted(line, handler, work):
    """Call work(), and handler() as a signal would before that line of the packages on the way.

    Return whether there was such a line.
    """
    lines = itertools.count()

    def trace(frame, event, _):
        if not frame.f_globals.get("__name__", "").startswith(("ozaki.", "multiword.")):
            return None
        if event == "line" and next(lines) == line:
            handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return next(lines) > line
