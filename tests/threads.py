"""Work in several threads at once, none of which can fail unseen."""

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
