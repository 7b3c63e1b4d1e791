"""The cache of captured products, by kind of call: the least recently used are evicted first."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from multiword.runtime.arrays import Array, import_cupy, overlap
from multiword.runtime.forking import finalize
from multiword.runtime.graphs import CaptureError, Recorder, capturing
from multiword.runtime.scoped import Scoped
from ozaki.execution.captured import CapturedProduct
from ozaki.execution.captured_integers import CapturedIntegers
from ozaki.execution.variants import Captured, Room, Waiting, disturbances
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.request import NORMWISE, Request
from ozaki.residues.integers import Target
from ozaki.tuning import KINDS_CACHED, SHARE, SHARE_OF_ONE

WARM, NEVER = "warm", "not to be captured"
"""The states of a kind of call without a graph: its kernels are compiled; it shall have none."""

Entry = Captured[Any, Any] | Waiting | str
Capture = Callable[[Room], Captured[Any, Any]]

_cached: OrderedDict[tuple[Any, ...], Entry] = OrderedDict()
"""What is captured of each kind of call, or its state; the one used last at the end."""

_memories: weakref.WeakValueDictionary[tuple[int, int], Recorder] = weakref.WeakValueDictionary()
"""By thread and device: the memory of the graphs captured there, which therefore run one after the other."""

_watched: set[int] = set()
"""The ids of the prepared factors that have a finalizer: one each, for all that is captured of it."""

_lock = threading.RLock()  # dropping an entry may drop prepared operands, which drops their entries
"""Held while what is captured is looked up or changed; re-entrant, for finalizers come back to it."""

questions: Scoped[list[Question] | None] = Scoped(None)
"""Where a thread notes what it asks for."""


class Question(NamedTuple):
    """What the cache is asked for: the captured product of such factors.

    Attributes
    ----------
    key : by which it is cached.
    request, stack : those of the pair, which is not symmetric.
    places : where their matrices lie.
    """

    key: tuple[Any, ...]
    request: Request
    stack: int
    places: tuple[tuple[Any, ...], tuple[Any, ...]]

    def is_about(self, a: Array, b: Array) -> bool:
        """Return whether the factors were these arrays as they are."""
        return tuple((x.data.ptr, x.shape, x.strides) for x in (a, b)) == self.places


def _place(x: Factor) -> tuple[Any, ...]:
    return x.matrix.data.ptr, x.matrix.shape, x.matrix.strides


def captured_product(pair: Pair, at_once: bool = False) -> CapturedProduct | None:
    """Return what is captured of such products, or stacks, and capture it now where the kind of call has been
    seen before, or `at_once`; None where it has no graph."""
    if pair.request.accuracy == NORMWISE and capturing():
        return None  # the launches are to go into the caller's graph
    question = Question(_key(pair, pair.request), pair.request, pair.stack, (_place(pair.a), _place(pair.b)))
    if questions.value is not None and not pair.symmetric:
        questions.value.append(question)
    return _captured(question.key, pair, at_once)


def may_have_graph(pair: Pair) -> bool:
    """Return whether the next product of this kind is replayed, as far as is known."""
    entry = _cached.get(_key(pair, pair.request), NEVER)
    return entry != NEVER and not isinstance(entry, Waiting)


def captured_before(question: Question) -> CapturedProduct | None:
    """As `captured_product`, where the question is known; None, too, if it is yet to be captured."""
    with _lock:
        entry = _cached.get(question.key)
        if not isinstance(entry, CapturedProduct):
            return None
        _cached.move_to_end(question.key)
    return entry


def captured_integers(pair: Pair, target: Target) -> tuple[Array, int] | None:
    """Return a product of integers in 64 bits, replayed, and the place of the first that does not fit.

    None if there is no graph.
    """

    def capture(room: Room) -> CapturedIntegers:
        return CapturedIntegers(room, pair, target)

    entry = _entry(_key(pair, (pair.request, target)), (), capture, pair.a.matrix.data.device_id)
    return entry.product(pair) if isinstance(entry, CapturedIntegers) else None


def _captured(key: tuple[Any, ...], pair: Pair, at_once: bool) -> CapturedProduct | None:
    def capture(room: Room) -> CapturedProduct:
        return CapturedProduct(room, pair)

    entry = _entry(key, (pair.a, pair.b), capture, pair.a.matrix.data.device_id, at_once)
    return entry if isinstance(entry, CapturedProduct) else None


def _entry(
    key: tuple[Any, ...],
    factors: tuple[Factor, ...],
    capture: Capture,
    device: int,
    at_once: bool = False,
) -> Entry | None:
    """Return what is cached of a kind of call, captured at the second; the key ends with prepared factors."""
    with _lock:
        entry = _cached.pop(key, None)
        if entry is None:
            _watch(*factors)
        _cached[key] = entry or WARM  # the first time compiles the kernels and copies their tables
    waiting = entry if isinstance(entry, Waiting) else None
    if entry == WARM or (entry is None and at_once) or (waiting is not None and waiting.is_over()):
        entry = _capture(capture, device, waiting)
        with _lock:
            _cached[key] = entry
        _forget_the_oldest()
        entry = _cached.get(key)
    return entry


def forget() -> None:
    """Give back the memory of all captured products."""
    _memories.clear()
    _drop(list(_cached))


def _key(pair: Pair, wanted: Any) -> tuple[Any, ...]:
    a, b = pair.a, pair.b
    x, y = a.matrix, b.matrix
    x_at, y_at = x.data.ptr, y.data.ptr
    of_x, of_y = (x.shape, x.strides, x_at % 16), (y.shape, y.strides, y_at % 16)
    # Memory that the operands share decides which addresses move together.
    shared = x_at - y_at if overlap(x, y) else None
    prepared = tuple(id(z) for z in (a, b) if z.prepared) if a.prepared or b.prepared else ()
    # Equilibrated factors look like those that they come from.
    facts = pair.stack, pair.symmetric, pair.equilibrated
    return (threading.get_ident(), x.data.device_id, x.dtype, of_x, of_y, facts, shared, wanted, prepared)


def _watch(*factors: Factor) -> None:
    """Have what was captured for prepared factors forgotten when they are no more."""
    for x in factors:
        if x.prepared and id(x) not in _watched:
            finalize(x, _forget_prepared, id(x))
            _watched.add(id(x))  # after it: a second finalizer is harmless, a missing one is not


def _forget_prepared(number: int) -> None:
    """Forget what was captured for a prepared operand, which no longer exists: its id may be used again."""
    with _lock:
        _watched.discard(number)
        _drop([key for key in list(_cached) if number in key[-1]])


def _forget_the_oldest() -> None:
    """Forget what was used least recently beyond the limits, and memory with all that works in it.

    What is given up for others is not captured again: where two take turns, both would be at every call.
    """
    limit, total = _limit(), 0
    kept: dict[int, bool] = {}  # by the id of a memory
    given_up: list[tuple[Any, ...]] = []
    with _lock:
        kinds = list(_cached.items())  # a finalizer may change the cache at any time
        dropped = [key for key, _ in kinds[: max(0, len(kinds) - KINDS_CACHED)]]
        for key, entry in reversed(kinds[len(dropped) :]):
            if not isinstance(entry, Captured):
                continue
            if (memory := id(entry.memory)) not in kept:
                total += entry.memory.nbytes
                kept[memory] = total <= limit
            if not kept[memory]:
                given_up.append(key)
    _drop(dropped)
    if given_up and given_up[0] == kinds[-1][0]:  # used last, it does not fit beside others in its memory
        _drop(given_up[1:])
        given_up = given_up[:1]
    _drop(given_up[::-1], NEVER)


def _drop(keys: list[tuple[Any, ...]], instead: str | None = None) -> None:
    with _lock:
        gone = [_cached.pop(key, None) for key in keys]
        if instead is not None:
            _cached.update(dict.fromkeys(keys, instead))
            for key in keys:
                _cached.move_to_end(key, last=False)
    del gone  # outside of the lock: a graph that is running is waited for


def _limit() -> int:
    return int(import_cupy().cuda.runtime.memGetInfo()[1]) // SHARE


def _capture(capture: Capture, device: int, waiting: Waiting | None) -> Entry:
    """Return what is captured now, or the state of what is not; waiting : the state so far."""
    where = threading.get_ident(), device
    memory = _memories.get(where) or Recorder()
    if memory.busy:
        return waiting or WARM
    memory.busy = True
    try:
        captured = capture(Room(memory, _limit() * SHARE // SHARE_OF_ONE, _forget_the_oldest))
    except CaptureError:
        return NEVER
    except MemoryError:
        return waiting or Waiting()
    except disturbances():
        return WARM
    finally:
        memory.busy = False
    if captured.empty:
        return NEVER
    _memories[where] = memory
    return captured
