"""Exact sums by group: each term goes to the column that its label names.

Compiled loops, or a GPU's threads (`groups_cuda`), add three levels of each number to words of its group
(`levels`). What a window does not hold is gathered and goes into one of its own or, number by number,
to the superaccumulator, which is the plain definition. All of it is integer addition, so that neither the
order nor the cut can be seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, cast

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import in_threads, taken, thread_count
from multiword.runtime.readback import anywhere
from ozaki.sums.exact import groups_cuda
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.extraction import HUGE, LOOPS, TINY, contiguous, readable
from ozaki.sums.exact.fixed_point import FixedPoint
from ozaki.sums.exact.levels import (
    GROUP_TERMS,
    GROUP_TERMS_ON_DEVICE,
    GROUPS,
    GROUPS_CARRIED,
    HIGHEST,
    SLACK,
)
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.tiles import digits_of
from ozaki.tuning import (
    GROUP_LANES,
    GROUP_LANES_ON_DEVICE,
    GROUP_REST,
    GROUP_SAMPLE,
    GROUP_TERMS_OF_A_THREAD,
    GROUP_TERMS_OF_A_WORD,
    PLAIN_TERMS,
)

GAP, LOWEST = GROUPS.bits, GROUPS.lowest


def group_sums(summands: Sequence[Summands], labels: Array, groups: int) -> FixedPoint:
    """Return the exact sums of one-dimensional terms by label; ValueError if one is none of 0 to groups − 1.

    Groups whose sum is +0 may have no flag.
    """
    total = Superaccumulator(digits_of(summands), groups, namespace(labels))
    filled = [window for window in _add(total, summands, labels, final=True) if window.k is not None]
    if len(filled) == 1 and not len(total.digits):
        return filled[0].levels()
    for window in filled:
        window.empty()
    return total.fixed_point()


def rounded_group_sums(
    summands: Sequence[Summands], labels: Array, groups: int, target: Format
) -> Array | None:
    """Return `group_sums`, rounded, as float64, in one go on a GPU; None where it takes several."""
    (first, *others), at_once = summands, 0 < labels.size <= GROUP_TERMS_ON_DEVICE
    if others or len(first.factors) > 1 or not (is_cupy(labels) and at_once and groups):
        return None
    parts = list(readable(first.factors))
    if len(parts) > 1:
        return None
    x = contiguous(parts[0][0])
    return groups_cuda.rounded_sums(x, labels, groups, lane_bits(GROUP_LANES_ON_DEVICE, groups), target)


def add_groups(total: Superaccumulator, summands: Sequence[Summands], labels: Array) -> None:
    """Add one-dimensional terms, each to the column that its label names. ValueError as `group_sums`."""
    for window in _add(total, summands, labels, final=False):
        window.empty()


def check_labels(labels: Array, groups: int) -> None:
    """Raise ValueError, with the first, if labels, integers of 64 bits, are none of 0 to groups − 1."""
    words = labels.view(np.uint64)  # as which negative ones are the largest
    if not labels.size or not (anywhere(words >= groups) if is_cupy(words) else words.max() >= groups):
        return
    first = int(((labels < 0) | (labels >= groups)).argmax())
    most = f"from 0 to num_groups − 1 = {groups - 1}" if groups else "none where num_groups is 0"
    raise ValueError(f"labels must be {most}, got {int(labels[first])} at index {first}")


def _loop(name: str, x: Array) -> Callable[..., Any]:
    """Return the form of a loop for arrays like x."""
    if is_cupy(x):
        return getattr(groups_cuda, name)
    loops = compiled(LOOPS)
    return loops.loop(getattr(loops, name), x.dtype if x.dtype.kind == "f" else np.dtype(np.float64))


def _add(total: Superaccumulator, summands: Sequence[Summands], labels: Array, final: bool) -> list[_Window]:
    """Add terms to the total and to windows, which are returned: of numbers or products, and of errors.

    final : whether nothing is added to the sums after that: 0 need not be told from nothing.
    """
    size = GROUP_TERMS_ON_DEVICE if is_cupy(labels) else GROUP_TERMS
    blocks = [slice(start, start + size) for start in range(0, labels.size, size)]
    parts = [(terms.apply(itemgetter(block)), labels[block]) for terms in summands for block in blocks]
    if not is_cupy(labels) and compiled(LOOPS) is None:
        check_labels(labels, total.flags.size)
        for terms, columns in parts:
            total.add_in_parts(terms, columns, PLAIN_TERMS)
        return []
    shares = 1 if is_cupy(labels) else shares_of(labels.size, total.flags.size)
    both = [_Window(total, shares) for _ in range(2)]
    for terms, columns in parts:
        for factors in readable(terms.factors):
            vectors, unsafe = _vectors(factors, terms)
            for window, x in zip(both, vectors, strict=False):
                window.add(x, columns)
            if any(window.outside for window in both):
                check_labels(labels, total.flags.size)
            if unsafe is not None:
                some = Summands(tuple(x[unsafe] for x in factors), terms.sign)
                total.add_in_parts(some, columns[unsafe], PLAIN_TERMS)
    if _flags_are_open(total, both, final):
        _flag_zeros(total, parts)
    return both


def _flags_are_open(total: Superaccumulator, windows: list[_Window], final: bool) -> bool:
    """Note which groups have sums; return whether there is one of which that tells too little."""
    used = [window for window in windows if window.k is not None]
    for window in used:
        window.settle()
    if final and not (used and used[0].minus_zeros):
        return False
    return used[-1].undecided if used else bool(total.flags.size)


def _vectors(factors: tuple[Array, ...], terms: Summands) -> tuple[list[Array], Array | None]:
    """Return numbers, or products and their errors, and which products these leave out, if any."""
    xs = [contiguous(x) for x in factors]
    if len(xs) == 1:
        return xs, None
    p, e = namespace(xs[0]).empty((2, *xs[0].shape))
    unsafe = None
    if not _loop("products", xs[0])(*xs, p, e):
        nonzero, size = (xs[0] != 0) & (xs[1] != 0), abs(p)
        unsafe = ~(size <= HUGE) | (size < TINY) & nonzero
        p[unsafe] = e[unsafe] = 0
    exact = [p] if terms.narrow() else [p, e]
    return exact if terms.sign == 1 else [-x for x in exact], unsafe


def _flag_zeros(total: Superaccumulator, parts: Sequence[tuple[Summands, Array]]) -> None:
    """Note what was added to groups of which sums do not tell: nothing, −0 alone or numbers that cancel."""
    for terms, columns in parts:
        for factors in terms.in_float64():
            with np.errstate(all="ignore"):
                x = terms.sign * np.multiply(*factors) if len(factors) == 2 else factors[0]
            _loop("flagged_groups", x)(contiguous(x), columns, total.flags)


def shares_of(terms: int, groups: int) -> int:
    """How many threads of the host add so many terms, each to words of its own."""
    if terms < 2 * GROUP_TERMS_OF_A_THREAD:
        return 1
    worthwhile = terms // max(GROUP_TERMS_OF_A_THREAD, GROUP_TERMS_OF_A_WORD * groups)
    return min(worthwhile, thread_count()) if worthwhile > 1 else 1


def lane_bits(lanes: int, groups: int) -> int:
    """log2 of how many lanes a group has, for so many of all groups together."""
    return (lanes // groups or 1).bit_length() - 1


class _Window:
    """Three words of each group, in the units of one window, on their way into a superaccumulator.

    Attributes
    ----------
    words : (shares, lanes of groups, 2) int64, of the lower unit and of the upper one; a share is a thread's.
    lowest : (shares, groups) int64, of the lowest unit, which few numbers need.
    flags : (groups,) of each share, the superaccumulator's own first.
    k : exponent of the first sigma, 1.5·2**k; None before the first number.
    minus_zeros, outside : whether a −0 came, and whether a label that is none of a group's.
    """

    words: Array
    lowest: Array

    def __init__(self, total: Superaccumulator, shares: int) -> None:
        self.total, self.xp = total, namespace(total.flags)
        self.k: int | None = None
        self.minus_zeros, self.outside = False, False
        on_device = is_cupy(total.flags)
        self._terms, lanes = (
            (GROUP_TERMS_ON_DEVICE, GROUP_LANES_ON_DEVICE) if on_device else (GROUP_TERMS, GROUP_LANES)
        )
        self._lane_bits = lane_bits(lanes, max(total.flags.size, 1))
        self.flags = [total.flags, *(np.zeros_like(total.flags) for _ in range(shares - 1))]

    def add(self, x: Array, labels: Array) -> None:
        """Add numbers, those that the window holds, then what is left, unless it is little."""
        k = self._fitting(x[:GROUP_SAMPLE])  # what comes first is like the rest
        if self.k is None or (k is not None and not self.k - GAP < k <= self.k + SLACK):
            self._move(LOWEST if k is None else k)
        while True:
            self._carry(x.size)
            x, labels = self._held(x, labels)
            if x.size <= GROUP_REST or (k := self._fitting(x)) is None:
                break
            self._move(k)
        self.total.add_in_parts(Summands((x,)), labels, PLAIN_TERMS)

    def _held(self, x: Array, labels: Array) -> tuple[Array, Array]:
        """Add what the window holds; return what is left, and its labels."""
        if is_cupy(x):
            sums = self.words[0], self.lowest[0], self.flags[0]
            rest, rest_labels, noted = groups_cuda.grouped(
                x, labels, cast(int, self.k), self._lane_bits, *sums
            )
            noted = noted[None]
        else:
            rest, rest_labels, noted = self._held_by_threads(x, labels)
        self.minus_zeros = self.minus_zeros or anywhere(noted[:, 1])
        self.outside = self.outside or anywhere(noted[:, 2])
        return rest, rest_labels

    def _held_by_threads(self, x: Array, labels: Array) -> tuple[Array, Array, Array]:
        """The same on the host, by a thread for each share; and what each noted."""
        loop, size = _loop("grouped", x), -(-x.size // len(self.words))
        rest, rest_labels = np.empty(x.size), np.empty(x.size, np.int64)
        parts = [slice(start, min(start + size, x.size)) for start in range(0, x.size, size)]
        noted, shares = np.zeros((len(parts), 3), np.int64), deque(range(len(parts)))

        def work() -> None:
            for i in taken(shares):
                sums = self.words[i], self.lowest[i], self.flags[i]
                left = rest[parts[i]], rest_labels[parts[i]], noted[i]
                loop(x[parts[i]], labels[parts[i]], self.k, self._lane_bits, *sums, *left)

        in_threads(work, len(parts) - 1, shares.clear)
        kept = [slice(p.start, p.start + n) for p, n in zip(parts, noted[:, 0].tolist(), strict=True)]
        rest, rest_labels = (np.concatenate([y[p] for p in kept]) for y in (rest, rest_labels))
        return rest, rest_labels, noted

    def settle(self) -> None:
        """Bring the words together by level: nothing is added after that."""
        for flags in self.flags[1:]:
            self.flags[0] |= flags
        words, lowest = (x[0] if len(x) == 1 else x.sum(axis=0) for x in (self.words, self.lowest))
        self._levels = self.xp.empty((3, lowest.size), np.int64)
        self._undecided = self.xp.zeros(1, np.int64)
        _loop("levels_of_groups", lowest)(words, lowest, self.flags[0], self._levels, self._undecided)

    @property
    def undecided(self) -> bool:
        """Whether the words, once they are settled, tell nothing of some group; a GPU is waited for."""
        return bool(self._undecided.item())

    def levels(self) -> FixedPoint:
        """Return the sums of the groups, once they are settled."""
        exponent = cast(int, self.k) - GAP - 52
        if is_cupy(self._levels) or self._levels[0].any():  # a GPU is not waited for
            return FixedPoint(self._levels, GAP, exponent - GAP, self.total.flags)
        return FixedPoint(self._levels[1:], GAP, exponent, self.total.flags)

    def empty(self) -> None:
        """Add the words to the superaccumulator."""
        if self.k is None:
            return
        self.settle()
        self.total.add(self.levels())
        self.k = None

    def _fitting(self, x: Array) -> int | None:
        """The window for the largest number that there is one for; None if there is no such number."""
        largest = _loop("largest_number", x)(x)
        return min(max(GROUPS.window(largest), LOWEST), HIGHEST) if largest >= 0 else None

    def _move(self, k: int) -> None:
        """Make this the window for other numbers."""
        self.empty()
        groups = self.total.flags.size
        self.k, self._since_carry = k, 0
        self.words = self.xp.zeros((len(self.flags), groups << self._lane_bits, 2), np.int64)
        self.lowest = self.xp.zeros((len(self.flags), groups), np.int64)

    def _carry(self, terms: int) -> None:
        """Make room in the words for so many terms."""
        self._since_carry += terms
        if self._since_carry <= self._terms:
            return
        largest = _loop("carried", self.lowest)(self.words.reshape(-1, 2), self.lowest.ravel())
        if largest * (len(self.flags) << self._lane_bits) > GROUPS_CARRIED:
            self._move(cast(int, self.k))
        self._since_carry = terms
