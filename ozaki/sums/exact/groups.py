"""Exact sums by group: each term goes to the column that its label names.

Compiled loops, or a GPU's threads (`groups_cuda`), add two levels of each number to two words of its group
(`group_windows`). What a window does not hold is gathered and goes into one of its own or, number by number,
to the superaccumulator, which is the plain definition. All of it is integer addition, so that neither the
order nor the cut can be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from ozaki.sums.exact import groups_cuda
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.extraction import LOOPS, contiguous, readable
from ozaki.sums.exact.fixed_point import MINUS_ZERO, ORDINARY, FixedPoint
from ozaki.sums.exact.group_windows import GAP, LOWEST, SLACK, fitting
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.tiles import digits_of
from ozaki.tuning import GROUP_LANES, GROUP_REST, PLAIN_TERMS

_TERMS = 1 << 21  # between carries: at most 2**60 units
_CARRIED = 1 << 59  # units of a group that need not be moved before so many terms more, for 61 bits


def group_sums(summands: Sequence[Summands], labels: Array, groups: int) -> FixedPoint:
    """Return the exact sums of one-dimensional terms by label, from 0 to groups − 1."""
    total = Superaccumulator(digits_of(summands), groups, namespace(labels))
    filled = [window for window in _add(total, summands, labels) if window.k is not None]
    if len(filled) == 1 and not len(total.digits):
        return FixedPoint(filled[0].sums(), GAP, filled[0].exponent, total.flags)
    for window in filled:
        window.empty()
    return total.fixed_point()


def add_groups(total: Superaccumulator, summands: Sequence[Summands], labels: Array) -> None:
    """Add one-dimensional terms, each to the column that its label names."""
    for window in _add(total, summands, labels):
        window.empty()


def _add(total: Superaccumulator, summands: Sequence[Summands], labels: Array) -> list[_Window]:
    """Add terms to the total and to windows, which are returned: of numbers or products, and of errors."""
    size = groups_cuda.TERMS if is_cupy(labels) else _TERMS
    blocks = [slice(start, start + size) for start in range(0, labels.size, size)]
    parts = [(terms.apply(itemgetter(block)), labels[block]) for terms in summands for block in blocks]
    if not is_cupy(labels) and compiled(LOOPS) is None:
        for terms, columns in parts:
            total.add_in_parts(terms, columns, PLAIN_TERMS)
        return []
    both = [] if is_cupy(labels) else [_Window(total, min(_TERMS, labels.size)) for _ in range(2)]
    for terms, columns in parts:
        if is_cupy(labels):
            groups_cuda.add_terms(total, terms, columns)
            continue
        for factors in readable(terms.factors):
            for window, x in zip(both, _vectors(total, factors, terms, columns), strict=False):
                window.add(x, columns)
    for window in both:
        window.flag()
    if bool(((total.flags | MINUS_ZERO) == MINUS_ZERO).any()):
        _flag_zeros(total, parts)
    return both


def _vectors(
    total: Superaccumulator, factors: tuple[np.ndarray, ...], terms: Summands, labels: np.ndarray
) -> list[np.ndarray]:
    """Return numbers, or products and their errors; add those products whose errors are no float64."""
    loops, xs = compiled(LOOPS), [contiguous(x) for x in factors]
    if len(xs) == 1:
        return xs
    p, e = np.empty((2, *xs[0].shape))
    if not loops.loop(loops.products, xs[0].dtype)(*xs, p, e):
        nonzero, size = (xs[0] != 0) & (xs[1] != 0), abs(p)
        unsafe = ~(size <= loops.HUGE) | (size < loops.TINY) & nonzero
        some = Summands((xs[0][unsafe], xs[1][unsafe]), terms.sign)
        total.add_in_parts(some, labels[unsafe], PLAIN_TERMS)
        p[unsafe] = e[unsafe] = 0
    return [terms.sign * p] if terms.narrow() else [terms.sign * p, terms.sign * e]


def _flag_zeros(total: Superaccumulator, parts: Sequence[tuple[Summands, np.ndarray]]) -> None:
    """Note what was added to groups of which sums do not tell: nothing, −0 alone or numbers that cancel."""
    loops = None if is_cupy(total.flags) else compiled(LOOPS)
    for terms, columns in parts:
        for factors in terms.in_float64():
            with np.errstate(all="ignore"):
                x = terms.sign * np.multiply(*factors) if len(factors) == 2 else factors[0]
            if loops is not None:
                loops.loop(loops.flagged_groups, x.dtype)(contiguous(x), columns, total.flags)
                continue
            minus_zero = (x == 0) & np.signbit(x)
            total.flags[columns[minus_zero]] |= MINUS_ZERO
            total.flags[columns[~minus_zero]] |= ORDINARY


class _Window:
    """Two words of each group, in the units of one window, on their way into a superaccumulator.

    Attributes
    ----------
    words : (lanes of groups, 2) int64, of the lower unit and of the upper one.
    k : exponent of the first sigma, 1.5·2**k; None before the first number.
    """

    def __init__(self, total: Superaccumulator, terms: int) -> None:
        self.total = total
        self.k: int | None = None
        groups = max(total.flags.size, 1)
        self._lane_bits = max(0, (GROUP_LANES // groups).bit_length() - 1)
        self.words = np.zeros((total.flags.size << self._lane_bits, 2), np.int64)
        self._rest = np.empty(terms), np.empty(terms, np.int64)
        self._since_carry = 0

    @property
    def exponent(self) -> int:
        """Of the lower unit."""
        return (self.k or 0) - GAP - 52

    def sums(self) -> np.ndarray:
        """Return the words of the groups, (2, groups)."""
        words = self.words.reshape(self.total.flags.size, -1, 2)
        return (words.sum(axis=1) if self._lane_bits else words[:, 0]).T

    def add(self, x: np.ndarray, labels: np.ndarray) -> None:
        """Add up to _TERMS numbers: those that the window holds, then what is left, unless it is little."""
        loops = compiled(LOOPS)
        k = self._fitting(x[: loops.BLOCK])  # what comes first is like the rest
        if self.k is None or (k is not None and not self.k - GAP < k <= self.k + SLACK):
            self._move(LOWEST if k is None else k)
        while True:
            self._carry(len(x))
            add = loops.loop(loops.grouped, x.dtype)
            left = add(x, labels, self.k, self._lane_bits, self.words, self.total.flags, *self._rest)
            x, labels = (part[:left] for part in self._rest)
            if left <= GROUP_REST or (k := self._fitting(x)) is None:
                break
            self._move(k)
        self.total.add_in_parts(Summands((x,)), labels, PLAIN_TERMS)

    def flag(self) -> None:
        """Note which groups have numbers that do not cancel."""
        if self.k is not None:
            low, high = self.sums()
            self.total.flags |= ((low | high) != 0) * ORDINARY

    def empty(self) -> None:
        """Add the words to the superaccumulator."""
        if self.k is None:
            return
        low, high = self.sums()
        self.flag()
        self.total.add_integers(slice(None), low, self.exponent)
        self.total.add_integers(slice(None), high, self.exponent + GAP)
        self.words[:] = self._since_carry = 0

    def _fitting(self, x: np.ndarray) -> int | None:
        """The window for the largest number that there is one for; None if there is no such number."""
        loops = compiled(LOOPS)
        largest = loops.loop(loops.largest_number, x.dtype)(x)
        return fitting(largest) if largest >= 0 else None

    def _move(self, k: int) -> None:
        """Make this the window for other numbers."""
        self.empty()
        self.k = k

    def _carry(self, terms: int) -> None:
        """Make room in the words for so many terms."""
        self._since_carry += terms
        if self._since_carry <= _TERMS:
            return
        self._since_carry = terms
        loops = compiled(LOOPS)
        if loops.loop(loops.carried, np.dtype(np.float64))(self.words) > _CARRIED:
            self.empty()
