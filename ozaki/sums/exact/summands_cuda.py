"""Summands as the CUDA kernels read them: strides of what lies evenly in memory, copies of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from ozaki.sums.exact.extraction import SOURCES, batch
from ozaki.sums.exact.summands import Summands, as_floats, factor_pairs, tiles

_COPIED = 1 << 25  # elements copied at a time, where dtype or strides do not allow reading in place


@dataclass(frozen=True)
class Rows:
    """An array as the kernels read it; in elements, from one to the next.

    outer : between outputs, or pairs of them.
    inner : between the two of a pair.
    step : between an output's terms.
    """

    array: Array
    outer: int
    inner: int
    step: int
    pair: bool = False

    def parameters(self, name: str) -> dict[str, Any]:
        """Address and strides as `Reduction` has them."""
        return {
            name: self.array,
            f"{name}_outer": self.outer,
            f"{name}_inner": self.inner,
            f"{name}_step": self.step,
        }

    @property
    def packed(self) -> bool:
        """Whether an output's terms are neighbours in memory, and its first has a word's address."""
        size = self.array.itemsize
        in_words = self.array.data.ptr % 8 == 0 and self.outer * size % 8 == 0
        return self.step == 1 and not self.pair and in_words


@dataclass(frozen=True)
class Terms:
    """The terms of one launch: one or two arrays that the kernels can read, outputs × n."""

    rows: tuple[Rows, ...]
    n: int
    negate: bool = False
    square: bool = False

    @property
    def product(self) -> bool:
        """Whether the terms are products of two numbers."""
        return len(self.rows) == 2 or self.square

    @property
    def dtype(self) -> str:
        """The arrays' dtype."""
        return dtype_name(self.rows[0].array.dtype)

    @property
    def batch(self) -> int:
        """How many of them a thread reads at a time."""
        return batch(self.dtype, self.product, self.square)


def in_place(source: Summands, reduced: int) -> Terms | None:
    """What the kernels can read where it is, or None."""
    x = source.factors[0]
    n = prod(x.shape[:reduced])
    square = len(source.factors) == 2 and source.factors[1] is x and source.sign > 0
    factors = source.factors[:1] if square else source.factors
    if len(factors) == 1 and reduced > 1:  # whose terms may come in any order
        order = sorted(range(reduced), key=lambda a: -abs(x.strides[a]))
        factors = (x.transpose(*order, *range(reduced, x.ndim)),)
    alike = factors[0].dtype == factors[-1].dtype and dtype_name(x.dtype) in SOURCES
    if n == 0:
        empty = import_cupy().zeros(1, x.dtype if alike else np.float64)
        return Terms((Rows(empty, 0, 0, 1),) * len(factors), 0, source.sign < 0, square)
    rows = [_as_rows(f, reduced) for f in factors] if alike else [None]
    even = tuple(r for r in rows if r is not None)
    if len(even) < len(rows) or even[0].pair != even[-1].pair:
        return None
    return Terms(even, n, source.sign < 0, square)


def readable(summands: Sequence[Summands], reduced: int) -> Iterator[Terms]:
    """Yield what the kernels can read where it is, and copies of the rest, tile by tile."""
    for source in summands:
        if (terms := in_place(source, reduced)) is not None:
            yield terms
            continue
        outputs = prod(source.shape[reduced:])
        for part in tiles(source.shape[:reduced], max(1, _COPIED // outputs)):
            xs = [x[cast(Any, (*part, ...))] for x in source.factors]
            for together in factor_pairs(*xs) if len(xs) == 2 else ((x,) for x in as_floats(xs[0])):
                packed = [_packed(x, reduced, outputs) for x in together]
                n = packed[0].shape[1]
                yield Terms(tuple(Rows(x, n, 0, 1) for x in packed), n, source.sign < 0)


def _as_rows(x: Array, reduced: int) -> Rows | None:
    """Return strides if the reduced axes, and the others, are each evenly spaced; else None.

    The others may also be evenly spaced but for the last, if that has length 2.
    """
    kept = [(x.strides[a] // x.itemsize, x.shape[a]) for a in range(reduced, x.ndim) if x.shape[a] > 1]
    terms = [(x.strides[a] // x.itemsize, x.shape[a]) for a in range(reduced) if x.shape[a] > 1]
    if not _even(terms):
        return None
    step = terms[-1][0] if terms else 1
    if _even(kept):
        return Rows(x, kept[-1][0] if kept else 1, 0, step)
    if kept[-1][1] == 2 and _even(kept[:-1]):
        return Rows(x, kept[-2][0], kept[-1][0], step, pair=True)
    return None


def _even(axes: list[tuple[int, int]]) -> bool:
    """Whether axes, as strides and lengths, are together evenly spaced."""
    return all(outer == inner * length for (outer, _), (inner, length) in pairwise(axes))


def _packed(x: Array, reduced: int, outputs: int) -> Array:
    """A contiguous (outputs, n) copy."""
    moved = x.transpose(*range(reduced, x.ndim), *range(reduced))
    return import_cupy().ascontiguousarray(moved).reshape(outputs, -1)


@cache
def dtype_name(dtype: np.dtype) -> str:
    """A dtype's name, which NumPy takes microseconds to spell."""
    return dtype.name
