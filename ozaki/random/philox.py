"""Random words by their place: Philox 4×32-10.

Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011).

Ten rounds of multiplications make four words of a key and a counter, and nothing is carried from one counter
to the next. So word w of a call is the same wherever, and beside whatever, it is computed. The key is a seed,
the counter the place of four words and the number of the call.
"""

from __future__ import annotations

from pathlib import Path
from sys import byteorder
from types import ModuleType
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel
from multiword.runtime.memory import empty_result_in
from multiword.runtime.parallel import over_rows

FACTORS = 0xD2511F53, 0xCD9E8D57
BUMPS = 0x9E3779B9, 0xBB67AE85
"""Of the multiplications, and what is added to the key's halves after each round: the paper's table 2."""
ROUNDS = 10

_A, _B = map(np.uint64, FACTORS)
_V, _W = map(np.uint64, BUMPS)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_BLOCK = 1 << 14  # counters at a time: their words stay in the cache
_THREADS = 256

_WORDS, _FRACTIONS, _BELOW, _CHOSEN = 0, {4: 1, 8: 2}, 3, 4
"""What a kernel makes of four words; fractions by the bytes of a number."""

_KERNEL = Kernel(
    "random_numbers",
    Path(__file__).with_suffix(".cu"),
    tuple({"NUMBERS": made} for made in (_WORDS, *_FRACTIONS.values(), _BELOW, _CHOSEN)),
    equals="ozaki.random.philox.rounds",
)


def words(seed: int, call: int, first: int, count: int, xp: ModuleType = np) -> Array:
    """Return the words from one place on, as uint32.

    Parameters
    ----------
    seed, call : of 64 bits: the key, and the counter's upper half.
    first, count : the place of the first word, and how many there are.
    xp : numpy, or cupy for an array on the current device.

    >>> [hex(word) for word in words(0, 0, 0, 4)]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    if xp is not np:
        return _on_device(_WORDS, seed, call, first, count, 4, np.uint32)
    begin, end = first // 4, -(-(first + count) // 4)
    result = np.empty((end - begin, 4), np.uint32)
    _fill(seed, call, begin, result)
    return result.reshape(-1)[first - 4 * begin :][:count]


def fractions(seed: int, call: int, first: int, count: int, dtype: np.dtype, xp: ModuleType = np) -> Array:
    """Return the leading bits of words, or of two each, as numbers in [0, 1).

    As `words`, of float32 numbers, which have a word each, or of float64 ones, which have two.

    >>> fractions(0, 0, 0, 2, np.dtype(np.float32)).tolist()
    [0.3990464210510254, 0.8805201649665833]
    """
    each = dtype.itemsize // 4
    if xp is not np:
        return _on_device(_FRACTIONS[dtype.itemsize], seed, call, first, count, 4 // each, dtype)
    w = words(seed, call, first * each, count * each)
    if each == 1:
        return (w >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return (wide(w) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(
    bound: float,
    seed: int,
    call: int,
    first: int,
    count: int,
    xp: ModuleType = np,
    *,
    value: np.float32 | None = None,
) -> Array:
    """Return which float64 `fractions` are below a bound, or a value for these, and 0 for the others.

    >>> below(0.5, 0, 0, 0, 2).tolist() == (fractions(0, 0, 0, 2, np.dtype(float)) < 0.5).tolist()
    True
    """
    if xp is not np:
        made, dtype = (_BELOW, np.bool_) if value is None else (_CHOSEN, np.float32)
        return _on_device(made, seed, call, first, count, 2, dtype, bound, float(value or 0))
    chosen = fractions(seed, call, first, count, np.dtype(np.float64)) < bound
    return chosen if value is None else chosen * value


def wide(w: Array) -> Array:
    """Return two words each, the first the lower one, as uint64: a view where memory has that order."""
    return w.view(np.uint64) if byteorder == "little" else w[::-1].copy().view(np.uint64)[::-1]


def _fill(seed: int, call: int, begin: int, result: np.ndarray) -> None:
    loops, of_all = compiled("ozaki.random.philox_numba"), (np.uint64(seed), np.uint64(call))

    def work(rows: slice) -> None:
        start, block = np.uint64(begin + rows.start), result[rows]
        if loops is not None:
            loops.fill(*of_all, start, block)
            return
        counters = start + np.arange(len(block), dtype=np.uint64)
        for column, of_each in zip(block.T, rounds(*of_all, counters), strict=True):
            column[...] = of_each

    over_rows(work, len(result), 1, _BLOCK)


def rounds(seed: Any, call: Any, counter: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four words of a counter, or of an array of them, all in uint64: the definition.

    This text is compiled, too, as it stands.
    """
    x, y, z, w = counter & _LOW, counter >> _HALF, call & _LOW, call >> _HALF
    k, m = seed & _LOW, seed >> _HALF
    for _ in range(ROUNDS):
        a, b = x * _A, z * _B
        x, y, z, w = (b >> _HALF) ^ y ^ k, b & _LOW, (a >> _HALF) ^ w ^ m, a & _LOW
        k, m = (k + _V) & _LOW, (m + _W) & _LOW
    return x, y, z, w


def _on_device(
    made: int,
    seed: int,
    call: int,
    first: int,
    count: int,
    each: int,
    dtype: Any,
    bound: float = 0.0,
    value: float = 0.0,
) -> Any:
    """Return what a kernel makes of each counter, so many numbers, from one place on."""
    begin, end = first // each, -(-(first + count) // each)
    n = end - begin
    result = empty_result_in(import_cupy(), (each * n,), dtype)
    if n:
        numbers = (np.uint64(x) for x in (seed, call, begin, n))
        grid = (-(-n // _THREADS),)
        _KERNEL(grid, (_THREADS,), (*numbers, np.float64(bound), np.float32(value), result), NUMBERS=made)
    return result[first - each * begin :][:count]
