"""The launch cache: calls of a kind that came before need only their addresses."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from multiword.batched.gpu.storage import Call, Launcher
from multiword.batched.halfcomplex import HalfComplex
from multiword.runtime.arrays import span
from multiword.tuning import LAUNCHES_CACHED

_launches: dict[tuple[Any, ...], CachedLaunch] = {}
"""By layout, dtypes, options and device: the function that launches, and its numbers."""


@dataclass(frozen=True)
class CachedLaunch:
    """A call that one launch computes, whatever the addresses.

    Attributes
    ----------
    transposed : whether it is that of the transposed problem, B before A.
    shape, word : of a new result.
    spans : where the bytes of a, b, c and out begin and end, counted from their addresses.
    """

    launch: Launcher
    transposed: bool
    shape: tuple[int, ...]
    word: Any
    spans: tuple[tuple[int, int], ...]


def _stored(*arrays: Any) -> list[Any]:
    return [x.pairs if type(x) is HalfComplex else x for x in arrays]


def key_of(a: Any, b: Any, c: Any, out: Any, options: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return all that a call depends on but for its addresses, of which only the alignment counts.

    None for calls that are not cached: lists, NumPy arrays, arrays of another device than the current one.
    """
    arrays, ndarray = _stored(a, b, c, out), getattr(sys.modules.get("cupy"), "ndarray", None)
    if type(arrays[0]) is not ndarray:
        return None
    try:
        hash(options)
    except TypeError:
        return None
    device = sys.modules["cupy"].cuda.runtime.getDevice()
    key = [options, type(a), type(b), type(c), type(out), device]
    for x in arrays:
        if type(x) is ndarray and x.data.device_id == device:
            key += (x.shape, x.strides, x.dtype.num, x.data.ptr & 15)
        elif x is not None:
            return None
    c, out = arrays[2:]
    key.append(c is not None and out is not None and c.data.ptr == out.data.ptr)
    return tuple(key)


def relaunch(key: tuple[Any, ...], a: Any, b: Any, c: Any, out: Any) -> Any:
    """Compute a call as before and return its result; None if it has to be planned anew."""
    cached = _launches.get(key)
    if cached is None:
        return None
    left, right, added, result = arrays = _stored(a, b, c, out)
    if result is None:
        result = sys.modules["cupy"].empty(cached.shape, cached.word)
    elif _overlaps(cached, arrays):
        return None
    if cached.transposed:
        left, right = right, left
    cached.launch(left, right, result if added is None else added, result)
    if out is not None:
        return out
    return HalfComplex(result) if type(a) is HalfComplex else result


def cache(key: tuple[Any, ...], call: Call, launch: Launcher, a: Any, b: Any, c: Any, out: Any) -> None:
    """Cache a call whose arrays were read and written where they lie, not copied first."""
    arrays = a, b, c, out = _stored(a, b, c, out)
    first, second = (b, a) if call.transposed else (a, b)
    used = ((call.a, first), (call.b, second), (call.c, c), (call.out, out))
    if any(x is not None and x.data.ptr != storage.address for storage, x in used if storage):
        return
    if len(_launches) >= LAUNCHES_CACHED:
        _launches.clear()
    spans = tuple((0, 0) if x is None else span(x) for x in arrays)
    shape, word = call.problem.stored_shape, call.problem.word
    _launches[key] = CachedLaunch(launch, call.transposed, shape, word, spans)


def _overlaps(cached: CachedLaunch, arrays: list[Any]) -> bool:
    """Return whether the result may share memory with what is read, other than with C if it is C."""
    out = arrays[3].data.ptr
    low, high = (out + end for end in cached.spans[3])
    for i, (bottom, top) in enumerate(cached.spans[:3]):
        if arrays[i] is not None:
            address = arrays[i].data.ptr
            if address + bottom < high and low < address + top and not (i == 2 and address == out):
                return True
    return False
