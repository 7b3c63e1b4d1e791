"""What is added up: the elements of arrays, or their products, as sums of float64 terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, namespace, real_parts, to_float64

_MASK32 = (1 << 32) - 1


class Summands(NamedTuple):
    """The terms of a sum: x, or sign·x·y, element by element.

    factors : one or two arrays of real numbers, of one shape, reduced axes first; the same array
        twice for squares.
    """

    factors: tuple[Array, ...]
    sign: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each factor."""
        return self.factors[0].shape

    def apply(self, view: Callable[[Array], Array]) -> Summands:
        """Take a view of the factors; of one that is there twice, one view."""
        first = view(self.factors[0])
        others = (first if x is self.factors[0] else view(x) for x in self.factors[1:])
        return Summands((first, *others), self.sign)

    def in_float64(self) -> list[tuple[Array, ...]]:
        """Return factors in float64 whose sum, or sum of products, is exactly that of these."""
        if len(self.factors) == 2:
            return list(factor_pairs(*self.factors))
        return [(x,) for x in as_floats(*self.factors)]

    def narrow(self) -> bool:
        """Whether a product of two elements is a float64: 24 bits times 24, or 16 times 24."""
        bits = [x.dtype.itemsize * 8 for x in self.factors if x.dtype.kind in "iu"]
        floats = [x.dtype.itemsize for x in self.factors if x.dtype.kind in "fV"]
        return max(bits, default=0) <= 16 and max(floats, default=0) <= 4


Terms = list[list[Summands]]
"""What is added up for the real part of a sum and, of complex numbers, for the imaginary part."""


def products(x: Array, y: Array, conjugate: bool = False) -> Terms:
    """The terms of Σ x·y, or Σ conj(x)·y: those of its real part, then of its imaginary part."""
    if "c" not in (x.dtype.kind, y.dtype.kind):
        return [[Summands((x, y))]]
    (x_real, *x_imag), (y_real, *y_imag) = real_parts(x), real_parts(y)
    sign = -1 if conjugate else 1
    real = [Summands((x_real, y_real))] + [Summands((a, b), -sign) for a in x_imag for b in y_imag]
    imaginary = [Summands((x_real, b)) for b in y_imag] + [Summands((a, y_real), sign) for a in x_imag]
    return [real, imaginary]


def as_floats(block: Array) -> list[Array]:
    """Return float64 arrays whose sum is the block exactly: two, of one sign, for 64-bit integers.

    The first is zero only where the block is. So products of the parts that are zero have the sign of the
    product of the numbers.
    """
    if block.dtype.kind not in "iu" or block.dtype.itemsize < 8:
        return [to_float64(block)]
    xp = namespace(block)
    toward_zero = block + ((block >> 63) & _MASK32) if block.dtype.kind == "i" else block
    upper = toward_zero >> 32
    high, low = upper.astype(np.float64) * 2.0**32, (block - (upper << 32)).astype(np.float64)
    first = xp.where(high == 0, low, high)
    return [first, xp.copysign(xp.where(high == 0, 0.0, low), first)]


def factor_pairs(x: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    """Return pairs of float64 arrays whose products sum to x·y exactly.

    Integers know no −0: where one of two is zero, its zero has the other's sign, so that the product is +0.
    """
    xs, ys = as_floats(x), as_floats(y)
    xp = namespace(x)
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        first, second = xs[0], ys[0]
        xs[0] = xp.where(first == 0, xp.copysign(0.0, second), first)
        ys[0] = xp.where(second == 0, xp.copysign(0.0, first), second)
    yield xs[0], ys[0]
    if len(xs) + len(ys) == 2:
        return
    xs, ys = ([xp.where(xp.isfinite(f), f, 0.0) for f in factors] for factors in (xs, ys))
    yield from ((f, g) for i, f in enumerate(xs) for j, g in enumerate(ys) if i or j)


def tiles(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut an index space into boxes of at most `limit` points, the last axes whole if possible."""
    if not shape:
        yield ()
        return
    inner = prod(shape[1:])
    if inner > limit and len(shape) > 1:
        for i in range(shape[0]):
            for rest in tiles(shape[1:], limit):
                yield (slice(i, i + 1), *rest)
        return
    step = max(1, limit // max(inner, 1))
    pieces = -(-shape[0] // step)
    step = -(-shape[0] // max(pieces, 1)) or 1
    for i in range(0, shape[0], step):
        yield (slice(i, i + step), *(slice(None) for _ in shape[1:]))
