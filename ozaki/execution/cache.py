"""The captured products that are kept: by kind of call, the least recently used given up first."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from multiword.engines.cublas import Cublas
from multiword.runtime.arrays import Array, import_cupy, is_cupy, overlap
from multiword.runtime.graphs import capturing
from ozaki.execution.captured import UNFIT, CapturedProduct, disturbances
from ozaki.product.factor import Factor
from ozaki.product.request import NORMWISE, Request

SHARE, SHARE_OF_ONE = 16, 32
"""What is captured may hold one part in this many of the device's memory, and one product use one in so
many: larger ones keep a GPU busy for longer than their launches take."""

KINDS_KNOWN = 256
"""Kinds of call that are remembered."""

WARM, NEVER = "warm", "not to be captured"
"""What is known of a kind of call that has no graph: its kernels are compiled; it shall have none."""

_known: OrderedDict[tuple[Any, ...], CapturedProduct | str] = OrderedDict()
"""What is known of each kind of call, the one used last at the end."""

_lock = threading.RLock()  # what is forgotten may take prepared operands along, which are then forgotten too


def captured_product(
    a: Factor, b: Factor, request: Request, multiply: Callable[[Factor, Factor], Array]
) -> Array | None:
    """The product, replayed; None if there is no graph of it. multiply(a, b) computes it of other factors."""
    known = _captured(a, b, request)
    return None if known is None else known.product(a, b, _forget_the_oldest, multiply)


def captured_stack(a: Factor, b: Factor, request: Request) -> tuple[Array, np.ndarray] | None:
    """The products of a stack, replayed, and which of them need wider integers; None if there is no graph."""
    known = _captured(a, b, request)
    return None if known is None else known.products(a, b, _forget_the_oldest)


def _captured(a: Factor, b: Factor, request: Request) -> CapturedProduct | None:
    """What was captured for such a product, now if need be; None if what it launches depends on the data.

    None, too, while the caller captures a graph: the launches are to go into that one.
    """
    if not is_cupy(a.matrix) or not request.of_norms or not isinstance(request.engine, Cublas):
        return None
    if request.accuracy == NORMWISE and capturing():
        return None
    key = _key(a, b, request)
    with _lock:
        known = _known.pop(key, None)
        if known is None:
            for x in (a, b):
                if x.prepared:
                    weakref.finalize(x, _forget_prepared, id(x)).atexit = False
        _known[key] = known or WARM  # the first time compiles the kernels and copies their tables
    if known == WARM:
        known = _capture(a, b, request)
        _keep(key, known)
    return known if isinstance(known, CapturedProduct) else None


def forget() -> None:
    """Give back the memory of all that was captured."""
    _drop(list(_known))


def _key(a: Factor, b: Factor, request: Request) -> tuple[Any, ...]:
    x, y = a.matrix, b.matrix
    x_at, y_at = x.data.ptr, y.data.ptr
    of_x, of_y = (x.shape, x.strides, x_at % 16), (y.shape, y.strides, y_at % 16)
    # Memory that the operands share decides which addresses move together.
    shared = x_at - y_at if overlap(x, y) else None
    prepared = tuple(id(z) for z in (a, b) if z.prepared) if a.prepared or b.prepared else ()
    of_a = (a.stack, a.equilibrated)  # equilibrated factors look like those that they come from
    return (threading.get_ident(), x.data.device_id, x.dtype, of_x, of_y, of_a, shared, request, prepared)


def _forget_prepared(number: int) -> None:
    """Forget what was captured for a prepared operand, which is gone, and its id free for another."""
    with _lock:
        _drop([key for key in list(_known) if number in key[-1]])


def _keep(key: tuple[Any, ...], known: CapturedProduct | str) -> None:
    """Remember what is known of a kind of call."""
    with _lock:
        _known[key] = known
    _forget_the_oldest()


def _forget_the_oldest() -> None:
    """Forget what was used least recently beyond the limits; never what was used last.

    What is given up for others is not captured again: where two take turns, both would be
    at every call.
    """
    limit = _limit()
    dropped: list[tuple[Any, ...]] = []
    given_up: list[tuple[Any, ...]] = []
    with _lock:
        kinds = list(_known.items())  # a finalizer may change the cache at any time
        held = sum(x.nbytes for _, x in kinds if isinstance(x, CapturedProduct))
        for key, known in kinds[:-1]:
            size = known.nbytes if isinstance(known, CapturedProduct) else 0
            if len(_known) - len(dropped) > KINDS_KNOWN:
                held -= size
                dropped.append(key)
            elif size and held > limit:
                held -= size
                given_up.append(key)
    _drop(dropped)
    _drop(given_up, NEVER)


def _drop(keys: list[tuple[Any, ...]], instead: str | None = None) -> None:
    with _lock:
        gone = [_known.pop(key, None) for key in keys]
        if instead is not None:
            _known.update(dict.fromkeys(keys, instead))
            for key in keys:
                _known.move_to_end(key, last=False)
    del gone  # outside of the lock: a graph that is running is waited for


def _limit() -> int:
    return int(import_cupy().cuda.runtime.memGetInfo()[1]) // SHARE


def _capture(a: Factor, b: Factor, request: Request) -> CapturedProduct | str:
    try:
        captured = CapturedProduct(a, b, request, _limit() * SHARE // SHARE_OF_ONE)
    except UNFIT:
        return NEVER
    except disturbances():
        return WARM
    return captured if captured.nbytes <= _limit() else NEVER
