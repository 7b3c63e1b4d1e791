"""Functions of arrays on a CPU: a short text for all elements, longer ones for those that it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multiword.runtime.arrays import is_cupy
from multiword.runtime.compiled import cached_form, compiled
from multiword.runtime.parallel import compiled_block, over_rows
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.rounding import decided
from ozaki.elementary.slopes import values_of
from ozaki.tuning import DECIDED_BY_INTEGERS, VERY_FEW_ARGUMENTS

Run = Callable[..., int]
"""run(*arguments, out, undecided): fill `out`; where a value is undecided, write the argument and count.

undecided may be longer than out."""

Otherwise = Callable[[str, np.dtype, list[np.ndarray]], np.ndarray]
"""otherwise(name, dtype, arguments): values of arguments that a text leaves undecided."""


def evaluate(
    name: str, x: Sequence[Any], out: Any, otherwise: Otherwise | None = None, waits: bool | None = None
) -> None:
    """Write a text's values of flat float32 or float64 arrays to `out`, which may be the first one.

    otherwise : computes what the texts leave undecided; integers if there is none.
    waits : whether to ask a GPU if something is: not of a function of one float32 number, of which the longer
        text decides all (tests/gpu/test_elementary.py).
    """
    if is_cupy(out):
        from ozaki.elementary import cuda

        waits = out.dtype != np.float32 or len(x) > 1 if waits is None else waits
        cuda.evaluate(name, x, out, (otherwise or by_integers) if waits else None)
        return
    first = _run(name, out.dtype == np.float32)

    def work(block: slice) -> None:
        _evaluate(name, first, [a[block] for a in x], out[block], otherwise or decide)

    over_rows(work, len(out), 1, compiled_block(len(out)))


def evaluate_alone(name: str, x: Sequence[np.ndarray], out: np.ndarray | None = None) -> Any:
    """Return a function's values of up to ALONE_ELEMENTS numbers, in contiguous arrays of one shape.

    They are written to `out`, if it is given, which is another such array, or the first argument. Of very few
    numbers it is counted how many are undecided, none mostly; which ones are is asked a second time.
    """
    first = x[0]
    if out is first:
        out[...] = evaluate_alone(name, x)
        return out
    result = values = np.empty(first.shape, first.dtype) if out is None else out
    if first.ndim != 1:
        x, values = [a.reshape(-1) for a in x], values.reshape(-1)
    run, very_few = _run_alone(name, first.itemsize == 4), out is None and first.size <= VERY_FEW_ARGUMENTS
    undecided = _UNREAD if very_few else np.empty(len(values), np.uint8)
    # Faster than run(*x, values, undecided).
    if run(x[0], values, undecided) if len(x) == 1 else run(x[0], x[1], values, undecided):
        if very_few:
            _evaluate(name, run, x, values, decide)
        else:
            _decide_rest(name, x, values, undecided, decide)
    return result if first.ndim or out is not None else result[()]


_UNREAD = np.empty(VERY_FEW_ARGUMENTS, np.uint8)
"""Where all threads write which arguments are undecided, and none reads it."""


def _evaluate(name: str, first: Run, x: Sequence[np.ndarray], out: np.ndarray, otherwise: Otherwise) -> None:
    in_place = out.ctypes.data == x[0].ctypes.data  # where a loop would go number by number
    values, undecided = np.empty_like(out) if in_place else out, np.empty(len(out), np.uint8)
    if first(*x, values, undecided):
        _decide_rest(name, x, values, undecided, otherwise)
    if in_place:
        out[...] = values


def _decide_rest(
    name: str, x: Sequence[np.ndarray], out: np.ndarray, undecided: np.ndarray, otherwise: Otherwise
) -> None:
    """Write the values that a loop has left undecided, whose first arguments are in `out`."""
    (where,) = undecided.view(np.bool_).nonzero()  # ten times as fast
    out[where] = otherwise(name, out.dtype, [out[where], *(a[where] for a in x[1:])])


def decide(name: str, dtype: np.dtype, x: list[np.ndarray]) -> np.ndarray:
    """Return a function's values of arguments that its first text leaves undecided.

    The first ones of a process are decided by integers: the longer text may have to be compiled.
    """
    out, of_single = np.empty_like(x[0]), dtype == np.float32
    rest: Any = slice(None)
    seen = _decided[name, of_single] = _decided.get((name, of_single), 0) + len(out)
    if seen > DECIDED_BY_INTEGERS:
        undecided = np.empty(len(out), np.uint8)
        if not _run(name, of_single, True)(*x, out, undecided):
            return out
        rest = np.flatnonzero(undecided.view(np.bool_))
    out[rest] = by_integers(name, dtype, [a[rest] for a in x])
    return out


_decided: dict[tuple[str, bool], int] = {}
"""How many arguments of a function, of float32 or float64, have been undecided."""


def by_integers(name: str, dtype: np.dtype, x: Sequence[np.ndarray]) -> np.ndarray:
    """Return a function's values, rounded once to a dtype, of arguments one by one."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        return np.array([decided(function, dtype, *map(float, one)) for one in zip(*x, strict=True)], dtype)


@cached_form
def _run(name: str, of_single: bool, last: bool = False) -> Run:
    """Return what computes a text: a compiled loop, or NumPy where there is no compiler."""
    loops = compiled("ozaki.elementary.loops_numba")
    run: Run = (_interpreted if loops is None else loops.loop)(name, of_single, last)
    return run


@cached_form
def _run_alone(name: str, of_single: bool) -> Run:
    """Return the same for arguments of which all is known that a compiled loop is told by its signature."""
    run: Any = _run(name, of_single)
    return run if compiled("ozaki.elementary.loops_numba") is None else run.unchecked()


def _interpreted(name: str, of_single: bool, last: bool) -> Run:
    def run(*arguments: np.ndarray) -> int:
        *x, out, undecided = arguments
        with np.errstate(all="ignore"):
            result, doubt = values_of(name, of_single, last, *(a.astype(np.float64) for a in x))
            out[...] = np.where(doubt, x[0], result)
        undecided[: len(out)] = doubt
        return int(np.count_nonzero(doubt))

    return run
