"""The order of the products that share a prepared operand on a GPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from multiword.runtime.arrays import import_cupy
from multiword.runtime.forking import finalize


class StreamOrder:
    """Exclusive use, one product after another.

    What one of them computes for the operand, or reads of it, is only queued when it returns: the next one
    may come from another thread, or on another stream, which has to wait for that. Memory that is freed goes
    back to the stream that it came from, though another may still read it.
    """

    def __init__(self, owner: object) -> None:
        self.lock = threading.RLock()
        self.last_use = import_cupy().cuda.Event(disable_timing=True)
        self.last_use.record()
        finalize(owner, self.last_use.synchronize)


def exclusive_use(*orders: StreamOrder | None) -> AbstractContextManager[None]:
    """Give this thread and stream, within the context, the operands of these orders to itself."""
    return _in_order([x for x in orders if x is not None]) if any(orders) else _ANY_ORDER


_ANY_ORDER: AbstractContextManager[None] = nullcontext()


@contextmanager
def _in_order(orders: list[StreamOrder]) -> Iterator[None]:
    with ExitStack() as stack:
        for order in sorted(orders, key=id):
            stack.enter_context(order.lock)
            import_cupy().cuda.get_current_stream().wait_event(order.last_use)
            stack.callback(order.last_use.record)
        yield
