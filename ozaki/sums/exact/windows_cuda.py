"""Sums over windows on a GPU: enclosed first, then, where that does not decide, in digits.

The kernel of enclosures has the steps of `windows_enclosed_numba`, for the threads of a block that take a
part of a row together. Digits are the texts of `windows_numba`, printed in CUDA. A thread takes a part of a
row.

A part begins with its own first window, whose numbers are added up once more. Where windows are long, that
is the difference of two running sums of chunks, which are exact, and the few numbers at their ends.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.compiled import compiled
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import Kernel, expanded, from_text
from multiword.runtime.printing import Language
from multiword.runtime.readback import Readback
from ozaki.sums.exact.levels import bits_between

TEXTS = "ozaki.sums.exact.windows_numba"

SCRATCH = 1 << 28
"""Bytes of digits that threads have in the device's memory, at most."""

_THREADS = 128
_BLOCKS = 16  # to a multiprocessor
_LOCAL = 40  # words that a thread has of its own, at most: variances of numbers within 100 octaves
COUNTS = 4
"""Counts of a window: `windows_numba` names them."""

_NOTHING = np.uint64(0)  # a null pointer
_SHORTEST, _LONGEST = 64, 1024  # parts
_AT_ONCE = 1 << 17  # threads that keep a GPU busy
_MOST_THREADS, _TILES, _BUSY = 256, 16, 1 << 10
"""Threads that enclose windows of a part together, how often each does at most but for long windows, and
blocks that keep a GPU busy."""

_LONGEST_ENCLOSED = 1 << 13
"""Terms of a window up to which a block adds up the first one of its part."""

_LARGEST = 1 << 53  # divisors are float64 numbers below
_OCTAVES = Kernel(
    "octaves", Path(__file__).with_name("octaves.cu"), equals="ozaki.definition.sums.rounded_variance"
)


class Windows(NamedTuple):
    """What is asked of windows: see `windows_numba.rolled`."""

    window: int
    ahead: int
    min_count: int
    divided: bool
    spread: bool
    root: bool
    ddof: int
    single: bool


def rolled(x: Array, asked: Windows) -> tuple[Array, Array | None] | None:
    """Return results of windows of the rows of a C-contiguous CuPy array, and which are certain; None: all.

    None without numba, which knows the texts.
    """
    if compiled(TEXTS) is None:
        return None
    refuse_captures("sums")
    cupy, terms = import_cupy(), min(asked.window, x.shape[1])
    result, certain = cupy.empty(x.shape), cupy.zeros(x.shape, bool)
    short = terms <= _LONGEST_ENCLOSED and terms * (terms + abs(asked.ddof)) < _LARGEST
    if short and not _enclose(x, asked, terms, result, certain):
        return result, None
    return result, certain if _in_digits(x, asked, result, certain) else None


def _enclose(x: Array, asked: Windows, terms: int, result: Array, certain: Array) -> bool:
    """Write results of windows, of so many terms at most, and which are certain.

    Return whether some are not.
    """
    (rows, n), undecided = x.shape, Readback(1, np.int32)
    threads = min(_MOST_THREADS, -(-n // 32) * 32)
    part = threads * max(1, min(_TILES, x.size // (threads * _BUSY)), -(-terms // threads))
    sizes = [np.int64(v) for v in (rows, n, part, bits_between(2 * terms), *asked)]
    kernel = _enclosing_kernel(import_cupy().cuda.runtime.getDevice())
    kernel((rows * -(-n // part),), (threads,), (x, *sizes, result, certain, undecided.address))
    undecided.send()
    return bool(undecided.look()[0])


def _in_digits(x: Array, asked: Windows, result: Array, certain: Array) -> bool:
    """Write the results that are not certain, and which still are not; return whether some are not."""
    cupy, (rows, n), undecided = import_cupy(), x.shape, Readback(1, np.int32)
    unit, digits, squares = _digits(x, asked.spread)
    known, room = COUNTS + digits + squares, digits + squares + 2
    local = _LOCAL if known + room <= _LOCAL else 0
    part = min(max(x.size // _AT_ONCE, _SHORTEST), _LONGEST)
    long = asked.window > 4 * part
    chunk, sums = _running_chunks(x, unit, digits, squares, part) if long else (1, _NOTHING)
    blocks = -(-rows * -(-n // part) // _THREADS)
    if not local:
        blocks = min(blocks, _BLOCKS * multiprocessors(), max(1, SCRATCH // (8 * (known + room) * _THREADS)))
    scratch = _NOTHING if local else cupy.empty((known + room, blocks * _THREADS), np.int64)
    sizes = rows, n, part, chunk, n // chunk if long else 0, unit, digits, squares
    numbers = [np.int64(v) for v in sizes], [np.int64(v) for v in asked]
    device = cupy.cuda.runtime.getDevice()
    _kernel("windows_of_parts", local, device)(
        (blocks,),
        (_THREADS,),
        (x, *numbers[0], sums, *numbers[1], scratch, result, certain, undecided.address),
    )
    undecided.send()
    return bool(undecided.look()[0])


def _running_chunks(x: Array, unit: int, digits: int, squares: int, part: int) -> tuple[int, Array]:
    """Return the length of chunks, and what is known of all before each: (rows, words, chunks + 1)."""
    cupy, (rows, n), words = import_cupy(), x.shape, COUNTS + digits + squares
    chunk = max(part, 4 * words)
    chunks = n // chunk
    sums = cupy.zeros((rows * words, chunks + 1), np.int64)
    blocks = max(1, min(-(-rows * chunks // _THREADS), _BLOCKS * multiprocessors()))
    sizes = [np.int64(v) for v in (rows, n, chunk, chunks, unit, digits, squares)]
    kernel = _kernel("windows_of_chunks", _LOCAL, cupy.cuda.runtime.getDevice())
    kernel((blocks,), (_THREADS,), (x, *sizes, sums))
    return chunk, cupy.cumsum(sums, axis=1)


def _digits(x: Array, spread: bool) -> tuple[int, int, int]:
    """Return the unit of digits, a biased exponent, and how many the sums and the squares of x have."""
    found = import_cupy().zeros(2, np.int32)
    blocks = min(-(-x.size // _THREADS), _BLOCKS * multiprocessors())
    _OCTAVES((blocks,), (_THREADS,), (x, np.int64(x.size), found))
    below, above = found.tolist()
    unit = 2048 - below if below else 1
    return unit, *digits_of(max(above - unit, 0), spread)


def digits_of(octaves: int, spread: bool) -> tuple[int, int]:
    """Return how many digits the sums, and the squares, of numbers have whose exponents are so far apart."""
    return (octaves >> 5) + 4, (2 * octaves >> 5) + 6 if spread else 0


@cache
def _kernel(name: str, local: int, device: int) -> Any:
    return from_text(source(local), name, device)


@cache
def _enclosing_kernel(device: int) -> Any:
    return from_text(enclosing_source(), "windows_enclosed", device)


@cache
def enclosing_source() -> str:
    """Return the kernel of enclosures in CUDA."""
    texts = compiled(TEXTS)
    rounding = texts.two_sum, texts.divided_by, texts.root_of, texts.rounded
    here = Path(__file__)
    return f"""{expanded(here.with_name("windows.cuh"))}
namespace text {{
{Language(rounding, {texts.fma: "fma"}, inlined=True).printed(*rounding)}
}}
{here.with_name("windows_enclosed.cu").read_text()}"""


@cache
def source(local: int) -> str:
    """Return the kernels in CUDA, whose threads have so many words of their own."""
    texts, here = compiled(TEXTS), Path(__file__)
    named = {texts.bits_of: "bits", texts.fma: "fma", texts.power_of_two: "power_of_two"}
    language = Language(texts.TEXTS, named, inlined=True)
    return f"""#define LOCAL {local}
#define COUNTS {COUNTS}
{expanded(here.with_name("windows.cuh"))}
namespace text {{
{language.printed(texts.enter, texts.roll)}
}}
{expanded(here.with_name("windows.cu"))}"""
