"""Exact sums by group on a GPU: the window of `groups`, whose words all threads add to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.extraction import HUGE, TINY
from ozaki.sums.exact.fixed_point import ORDINARY
from ozaki.sums.exact.group_windows import BEYOND, GAP, LIMIT, LOWEST, fitting
from ozaki.sums.exact.summands import Summands
from ozaki.tuning import GROUP_LANES_ON_DEVICE

TERMS = 1 << 23
"""At a time: at most 2**39 units each, 2**62 in all."""

FEWEST = 1 << 16
"""Terms outside of a window for which there is another; fewer are added number by number."""

_PLAIN = 1 << 21  # numbers with temporaries at a time

_BELOW = 53
"""Octaves by which the error of a product is smaller than what it is the error of."""

_THREADS, _BLOCKS_PER_PROCESSOR = 256, 8
_FILE = Path(__file__).with_name("groups.cu")
_INSTANCES = tuple(
    {"PRODUCT": product, "LARGEST_SAFE": repr(HUGE), "SMALLEST_SAFE": repr(TINY)} for product in (0, 1)
)

_LARGEST = Kernel("largest_of_groups", _FILE, _INSTANCES)
_GROUPED = Kernel("grouped_terms", _FILE, _INSTANCES)


def add_terms(total: Superaccumulator, terms: Summands, labels: Array) -> None:
    """Add terms, at most TERMS of them, to the columns that their labels name; zeros change no flags."""
    for factors in terms.in_float64():
        _add(total, tuple(map(import_cupy().ascontiguousarray, factors)), terms.sign, labels)


def _add(total: Superaccumulator, factors: tuple[Array, ...], sign: int, labels: Array) -> None:
    cupy, n, groups = import_cupy(), labels.size, total.flags.size
    product = len(factors) - 1
    constants: dict[str, Any] = dict(_INSTANCES[product])
    x, y = factors[0], factors[-1]
    grid = (min(-(-n // _THREADS), multiprocessors() * _BLOCKS_PER_PROCESSOR),)
    largest = cupy.zeros(1, np.uint64)
    _LARGEST(grid, (_THREADS,), (x, y, np.int64(n), np.uint64(BEYOND << 52), largest), **constants)
    k = fitting(int(largest[0]), LOWEST + _BELOW * product)
    lane_bits = max(0, (GROUP_LANES_ON_DEVICE // max(groups, 1)).bit_length() - 1)
    words = cupy.zeros((groups << lane_bits, 2 + 2 * product), np.int64)
    rest, left = cupy.empty(n, np.int64), cupy.zeros(1, np.uint64)
    sigmas = (np.float64(1.5 * 2.0**e) for e in (k, k - GAP, k - _BELOW, k - _BELOW - GAP))
    limit = np.uint64((k + LIMIT) << 52)
    arguments = x, y, labels, np.int64(n), limit, *sigmas, np.int32(lane_bits), words, rest, left
    _GROUPED(grid, (_THREADS,), arguments, **constants)
    sums = sign * words.reshape(groups, -1, words.shape[1]).sum(axis=1).T
    for i, level in enumerate(sums):
        total.add_integers(slice(None), level, k - GAP - 52 + GAP * (i % 2) - _BELOW * (i // 2))
    total.flags |= (sums != 0).any(axis=0) * ORDINARY
    if count := int(left[0]):
        chosen = rest[:count]
        factors, labels = tuple(f[chosen] for f in factors), labels[chosen]
        if FEWEST < count < n:  # another window, unless this one held nothing
            _add(total, factors, sign, labels)
        else:
            total.add_in_parts(Summands(factors, sign), labels, _PLAIN)
