"""Summands as the CUDA kernels read them: strides of what lies evenly in memory, copies of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from ozaki.sums.exact.extraction import SOURCES, batch
from ozaki.sums.exact.summands import Summands, as_floats, factor_pairs, tiles

_COPIED = 1 << 25  # elements copied at a time, where dtype or strides do not allow reading in place


class Layout(NamedTuple):
    """How an array lies: all that a launch depends on but for the address.

    in_words : whether the address is that of an 8-byte word.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    in_words: bool

    @classmethod
    def of(cls, x: Array) -> Layout:
        """Return that of a CuPy array."""
        return cls(x.dtype, x.shape, x.strides, x.data.ptr % 8 == 0)

    def transposed(self, axes: Sequence[int]) -> Layout:
        """Return the layout with its axes in this order."""
        shape, strides = (tuple(x[a] for a in axes) for x in (self.shape, self.strides))
        return self._replace(shape=shape, strides=strides)


class Rows(NamedTuple):
    """An array as the kernels read it; in elements, from one to the next.

    outer : between outputs, or pairs of them.
    inner : between the two of a pair.
    step : between an output's terms.
    packed : whether an output's terms are neighbours in memory, and its first has a word's address.
    """

    outer: int
    inner: int
    step: int
    pair: bool = False
    packed: bool = False

    @classmethod
    def of(cls, layout: Layout, outer: int, inner: int, step: int, pair: bool = False) -> Rows:
        """Return the rows of an array of that layout."""
        in_words = layout.in_words and outer * layout.dtype.itemsize % 8 == 0
        return cls(outer, inner, step, pair, step == 1 and not pair and in_words)

    def parameters(self, name: str) -> dict[str, int]:
        """Strides as `Reduction` has them."""
        return {f"{name}_outer": self.outer, f"{name}_inner": self.inner, f"{name}_step": self.step}


class Terms(NamedTuple):
    """The terms of one launch: one or two arrays that the kernels can read, outputs × n.

    more : whether there are other products of two arrays that lie as these do, as of complex numbers' parts.
    negate : whether these products, and the others, are subtracted.
    """

    rows: tuple[Rows, ...]
    dtype: str
    n: int
    negate: tuple[bool, bool] = (False, False)
    square: bool = False
    more: bool = False

    @property
    def product(self) -> bool:
        """Whether the terms are products of two numbers."""
        return len(self.rows) == 2 or self.square

    @property
    def batch(self) -> int:
        """How many of them a thread reads at a time."""
        return batch(self.dtype, self.product, self.square)


def in_place(source: Summands, reduced: int) -> Terms | None:
    """What the kernels can read where it is, or None."""
    first, *others = source.factors
    square = bool(others) and others[0] is first and source.sign > 0
    layouts = [Layout.of(x) for x in (first, *others)[: 1 if square else 2]]
    return _readable_in_place(tuple(layouts), reduced, source.sign < 0, square)


def at_once(summands: Sequence[Summands], reduced: int) -> Terms | None:
    """What one launch can read where it is; None where it takes several."""
    terms = [in_place(source, reduced) for source in summands]
    first, *others = terms
    if first is None or not others:
        return first
    if len(others) > 1 or not first.product or others[0] is None:
        return None
    alike = first._replace(negate=others[0].negate) == others[0]
    return first._replace(negate=(first.negate[0], others[0].negate[0]), more=True) if alike else None


@lru_cache(1 << 12)
def _readable_in_place(layouts: tuple[Layout, ...], reduced: int, minus: bool, square: bool) -> Terms | None:
    x, negate = layouts[0], (minus, False)
    n, dtype = prod(x.shape[:reduced]), x.dtype.name
    if len(layouts) == 1 and reduced > 1:  # whose terms may come in any order
        order = sorted(range(reduced), key=lambda a: -abs(x.strides[a]))
        layouts = (x.transposed((*order, *range(reduced, len(x.shape)))),)
    alike = x.dtype == layouts[-1].dtype and dtype in SOURCES
    if n == 0:
        return Terms((Rows(0, 0, 1),) * len(layouts), dtype if alike else "float64", 0, negate, square)
    rows = [_as_rows(layout, reduced) for layout in layouts] if alike else [None]
    even = tuple(r for r in rows if r is not None)
    if len(even) < len(rows) or even[0].pair != even[-1].pair:
        return None
    return Terms(even, dtype, n, negate, square)


def readable(summands: Sequence[Summands], reduced: int) -> Iterator[tuple[Terms, tuple[Array, ...]]]:
    """Yield what the kernels can read where it is, and copies of the rest, tile by tile; with the arrays."""
    if len(summands) > 1 and (terms := at_once(summands, reduced)) is not None and terms.n:
        yield terms, tuple(x for source in summands for x in source.factors)
        return
    for source in summands:
        if (terms := in_place(source, reduced)) is not None:
            yield terms, source.factors if terms.n else (import_cupy().zeros(1, np.float64),)
            continue
        outputs = prod(source.shape[reduced:])
        for part in tiles(source.shape[:reduced], max(1, _COPIED // outputs)):
            xs = [x[cast(Any, (*part, ...))] for x in source.factors]
            for together in factor_pairs(*xs) if len(xs) == 2 else ((x,) for x in as_floats(xs[0])):
                copies = tuple(packed(x, reduced) for x in together)
                n, layouts = copies[0].shape[1], [Layout.of(x) for x in copies]
                rows = tuple(Rows.of(layout, n, 0, 1) for layout in layouts)
                yield Terms(rows, layouts[0].dtype.name, n, (source.sign < 0, False)), copies


def _as_rows(x: Layout, reduced: int) -> Rows | None:
    """Return strides if the reduced axes, and the others, are each evenly spaced; else None.

    The others may also be evenly spaced but for the last, if that has length 2.
    """
    axes = [(stride // x.dtype.itemsize, length) for stride, length in zip(x.strides, x.shape, strict=True)]
    terms, kept = ([axis for axis in some if axis[1] > 1] for some in (axes[:reduced], axes[reduced:]))
    if not _even(terms):
        return None
    step = terms[-1][0] if terms else 1
    if _even(kept):
        return Rows.of(x, kept[-1][0] if kept else 1, 0, step)
    if kept[-1][1] == 2 and _even(kept[:-1]):
        return Rows.of(x, kept[-2][0], kept[-1][0], step, pair=True)
    return None


def _even(axes: list[tuple[int, int]]) -> bool:
    """Whether axes, as strides and lengths, are together evenly spaced."""
    return all(outer == inner * length for (outer, _), (inner, length) in pairwise(axes))


def packed(x: Array, reduced: int) -> Array:
    """Return a contiguous (outputs, n) copy of what is summed over its first axes."""
    moved = x.transpose(*range(reduced, x.ndim), *range(reduced))
    return import_cupy().ascontiguousarray(moved).reshape(prod(x.shape[reduced:]), prod(x.shape[:reduced]))
