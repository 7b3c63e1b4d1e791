"""The loops of `groups_numba` on a GPU, whose threads all add to the words of the groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.formats import Format
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.kernels import Kernel
from ozaki.sums.exact.extraction import HUGE, TINY
from ozaki.sums.exact.fixed_point import FLAG_CONSTANTS
from ozaki.sums.exact.levels import GROUPS, HIGHEST, SLACK
from ozaki.tuning import GROUP_SAMPLE

_NULL = np.uintp(0)
_BEYOND = HIGHEST + GROUPS.limit  # the exponent field of what no window holds
_THREADS, _BLOCKS_PER_PROCESSOR = 256, 8
_CONSTANTS: dict[str, int | str] = {
    "GAP": GROUPS.bits,
    "LIMIT": GROUPS.limit,
    "SLACK": SLACK,
    "LOWEST": f"({GROUPS.lowest})",
    "HIGHEST": HIGHEST,
    "LARGEST_SAFE": repr(HUGE),
    "SMALLEST_SAFE": repr(TINY),
    **FLAG_CONSTANTS,
}
_NUMBERS: dict[str, dict[str, Any]] = {
    "float64": {**_CONSTANTS, "NUMBER": "double"},
    "float32": {**_CONSTANTS, "NUMBER": "float"},
}
_FILE, _INSTANCES = Path(__file__).with_name("groups.cu"), tuple(_NUMBERS.values())

_LARGEST_NUMBER = Kernel("largest_number", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_sum")
_GROUPED = Kernel("grouped", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_sum")
_CARRIED = Kernel("carried", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_sum")
_LEVELS_OF_GROUPS = Kernel("levels_of_groups", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_sum")
_ROUNDED_GROUPS = Kernel("rounded_groups", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_sum")
_FLAGGED_GROUPS = Kernel("flagged_groups", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_sum")
_TWO_PRODUCTS = Kernel("two_products", _FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_dot")


def _launch(kernel: Kernel, n: int, arguments: tuple[Any, ...], dtype: str = "float64") -> None:
    """Launch a kernel for n elements, or pairs of them, of this dtype."""
    grid = (min(-(-n // _THREADS), multiprocessors() * _BLOCKS_PER_PROCESSOR),)
    kernel.instance(**_NUMBERS[dtype])(grid, (_THREADS,), arguments)


def largest_number(x: Array) -> int:
    """Return the bit pattern of the largest magnitude that some window holds; −1 where none holds any."""
    largest = import_cupy().zeros(1, np.int64)
    _launch(_LARGEST_NUMBER, x.size, (x, np.int64(x.size), np.int64(_BEYOND << 52), largest), x.dtype.name)
    return int(largest.item()) - 1


def grouped(
    x: Array, labels: Array, k: int, lane_bits: int, words: Array, lowest: Array, flags: Array
) -> tuple[Array, Array, np.ndarray]:
    """Add numbers, fewer than 2**32, to their groups' words; return those that are left, and their labels.

    Noted on the host: how many those are, whether there is a −0, and whether a label is none of a group's:
    its number is left out.
    """
    rest, noted = import_cupy().empty(x.size, np.uint32), import_cupy().zeros(3, np.int64)
    sizes = np.int64(x.size), np.int64(flags.size), np.int32(k), _NULL, np.int32(lane_bits)
    _launch(_GROUPED, x.size, (x, labels, *sizes, words, lowest, flags, rest, noted), x.dtype.name)
    on_host: np.ndarray = noted.get()
    chosen = rest[: int(on_host[0])] if on_host[0] else slice(0)
    return x[chosen], labels[chosen], on_host


def rounded_sums(x: Array, labels: Array, groups: int, lane_bits: int, target: Format) -> Array | None:
    """Return the sums of numbers, fewer than 2**32, by group, rounded, as float64; a GPU is waited for once.

    None if there is a −0, a label that is none of a group's, or a number that the window for the first
    ones does not hold.
    """
    cupy, lanes = import_cupy(), 1 << lane_bits
    state = cupy.zeros(4 + (2 * lanes + 1) * groups + -(-groups // 8), np.int64)
    noted, largest, words = state[:3], state[3:4], state[4:]
    lowest, out = words[2 * lanes * groups :], cupy.empty(groups)
    flags = lowest[groups:].view(np.uint8)
    sample, n = min(x.size, GROUP_SAMPLE), np.int64(x.size)
    _launch(_LARGEST_NUMBER, sample, (x, np.int64(sample), np.int64(_BEYOND << 52), largest), x.dtype.name)
    window = np.int32(0), largest, np.int32(lane_bits)
    arguments: tuple[Any, ...] = x, labels, n, np.int64(groups), *window, words, lowest, flags, _NULL, noted
    _launch(_GROUPED, x.size, arguments, x.dtype.name)
    width = min(lanes, 32)  # both are powers of two
    sizes = np.int64(groups), np.int32(width)
    formats = np.int32(target.precision), np.int32(target.last_place)
    arguments = words, np.int64(lanes), lowest, *sizes, flags, largest, *formats, out
    _launch(_ROUNDED_GROUPS, groups * width, arguments)
    return None if noted.get().any() else out


def carried(words: Array, lowest: Array) -> int:
    """Bring the lower words into [0, 2**GAP), and return the largest magnitude of the others."""
    largest = import_cupy().zeros(1, np.int64)
    sizes = np.int64(len(words)), np.int64(lowest.size)
    _launch(_CARRIED, len(words), (words, sizes[0], lowest, sizes[1], largest))
    return int(largest.item())


def levels_of_groups(words: Array, lowest: Array, flags: Array, levels: Array, undecided: Array) -> None:
    """Write the sums of each group's words to its three levels, lowest first, and note which have a sum.

    undecided[0] becomes 1 where nothing is known of a group yet but, perhaps, that it has −0.
    """
    groups = lowest.size
    lanes = len(words) // max(groups, 1)
    width = min(lanes, 32)  # both are powers of two
    sizes = np.int64(groups), np.int32(width)
    arguments = words, np.int64(lanes), lowest, *sizes, flags, levels, undecided
    _launch(_LEVELS_OF_GROUPS, groups * width, arguments)


def flagged_groups(x: Array, labels: Array, flags: Array) -> None:
    """Note for each group whether it has −0, and whether it has anything else."""
    _launch(_FLAGGED_GROUPS, x.size, (x, labels, np.int64(x.size), flags), x.dtype.name)


def products(x: Array, y: Array, p: Array, e: Array) -> bool:
    """TwoProduct, x·y = p + e. Return whether every product and error is a finite float64."""
    unsafe = import_cupy().zeros(1, np.int64)
    _launch(_TWO_PRODUCTS, x.size, (x, y, np.int64(x.size), p, e, unsafe), x.dtype.name)
    return not unsafe.item()
