"""Exact products of matrices, as digits that add: the numbers of both are cut at common powers of two.

A slice has the same `bits` places of all numbers of a matrix, as integers in float64. A product of two slices
has no rounding error while k·2**(2·bits) <= 2**53, in whatever order it is added up (Ozaki, Ogita, Oishi and
Rump, Error-free transformations of matrix multiplication, section 3). The sum of TOGETHER such products has
none while TOGETHER·k·2**(2·bits) <= 2**53, and is one product: of slices side by side, and one below the
other. The places do not depend on what else is added, so products of parts of the inner dimension add up as
integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import frexp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace, to_float64
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel
from multiword.runtime.parallel import empty_beside
from ozaki.sums.exact.fixed_point import ORDINARY, FixedPoint, flags_of

INNER, INNER_ON_GPU = 1 << 13, 1 << 16
"""The longest inner dimension of one product of slices, of 18 bits, or of 17 where launches take longer."""

TOGETHER = 8
"""Products of slices that are added up in one product, at most."""

ELEMENTS = 1 << 22
"""The most elements of a result, whose digits take memory, at once; and an eighth of both factors' on a GPU,
where the inner dimension is longer than INNER."""

LOOPS = "ozaki.sums.exact.matrix_products_numba"

_TYPES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
"""What loops and kernels read."""

_THREADS, _MOST_BLOCKS = 256, 1 << 10

FILE = Path(__file__).with_suffix(".cu")
_INSTANCES: tuple[dict[str, int | str], ...] = tuple({"NUMBER": kind} for kind in _TYPES.values())
_PLACES = Kernel("places_of_matrix", FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_dot")
_CUT = Kernel("cut_matrix", FILE, _INSTANCES, equals="ozaki.definition.sums.rounded_dot")


class Places(NamedTuple):
    """Where the finite numbers of a matrix that are not 0 lie: multiples of 2**last, and below 2**top.

    Attributes
    ----------
    finite : whether all numbers are.
    """

    top: int
    last: int
    finite: bool

    @classmethod
    def found(cls, magnitude: int, lowest: int, others: int) -> Places:
        """Return the places of what loops and kernels find, in the words of the kernel's comment."""
        if not magnitude:
            return cls(0, 0, not others)
        return cls(frexp(np.int64(magnitude).view(np.float64))[1], 2048 - lowest, not others)

    def slices(self, bits: int) -> int:
        """Return how many slices of so many bits there are."""
        return -(-(self.top - self.last) // bits)


@dataclass(frozen=True)
class Slices:
    """The finite numbers of a matrix, Σ A_s·2**(exponent + bits·s), s < count, of integers below 2**bits.

    Attributes
    ----------
    matrix : [A_0, A_1, …] side by side of a left factor; of a right one below each other, the last first.
    """

    matrix: Array
    exponent: int
    bits: int
    count: int

    @classmethod
    def of(cls, x: Array, places: Places, bits: int, right: bool) -> Slices:
        """Return the slices of a left or right factor."""
        count, below = places.slices(bits), right
        # On a GPU slices are below each other, since CuPy copies others; on a CPU as the matrix lies.
        turned = not right if is_cupy(x) else abs(x.strides[0]) < abs(x.strides[1])
        if turned:
            x, below = x.T, not right
        rows, columns = x.shape
        matrix = empty_beside(x, (count * rows, columns) if below else (rows, count * columns), np.float64)
        if below:
            parts = matrix.reshape(count, rows, columns)
        else:
            parts = matrix.reshape(rows, count, columns).transpose(1, 0, 2)
        if count:
            _cut(x, places, bits, parts[::-1] if right else parts)
        return cls(matrix.T if turned else matrix, places.last, bits, count)


def places_of(matrices: Sequence[Array]) -> list[Places]:
    """Return the places of matrices of one kind."""
    if not is_cupy(matrices[0]):
        return [_places(x) for x in matrices]
    found = import_cupy().zeros((len(matrices), 3), np.uint64)
    for x, of in zip(matrices, found, strict=True):
        _launch(_PLACES, x, of)
    return [Places.found(*row) for row in found.tolist()]


def _places(x: np.ndarray) -> Places:
    if (loops := compiled(LOOPS)) is not None:
        found = np.zeros(3, np.int64)
        loops.places(*_matrix(x), found, np.empty(x.shape[1]))
        return Places.found(*found.tolist())
    numbers = x[np.isfinite(x) & (x != 0)]
    finite = bool(np.isfinite(x).all())
    if not numbers.size:
        return Places(0, 0, finite)
    fraction, exponent = np.frexp(numbers)
    odd = np.ldexp(fraction, 53).astype(np.int64)
    last = exponent + np.frexp((odd & -odd).astype(np.float64))[1] - 54
    return Places(int(exponent.max()), int(last.min()), finite)


def _cut(x: Array, places: Places, bits: int, parts: Array) -> None:
    """Write to (s, m, n) parts the places of each number from last + bits·s on: integers below 2**bits."""
    if is_cupy(x):
        steps = [np.int64(step // parts.itemsize) for step in parts.strides]
        sizes = np.int32(places.last), np.int32(bits), np.int32(len(parts))
        _launch(_CUT, x, *sizes, parts, *steps)
    elif (loops := compiled(LOOPS)) is not None:
        loops.cut(*_matrix(x), places.last, bits, parts, np.empty(x.shape[1]))
    else:
        rest = np.where(np.isfinite(x), x, 0.0)
        for s in reversed(range(len(parts))):
            np.trunc(np.ldexp(rest, -(places.last + bits * s)), out=parts[s])
            rest -= np.ldexp(parts[s], places.last + bits * s)  # exact: leading places of a number are one


def _matrix(x: np.ndarray) -> tuple[int, ...]:
    """Return a matrix as loops take it."""
    return x.ctypes.data, *x.shape, *x.strides, x.dtype == np.float32


def _launch(kernel: Kernel, x: Array, *arguments: Any) -> None:
    """Launch a kernel for each number of a matrix."""
    steps = [np.int64(step // x.itemsize) for step in x.strides]
    blocks = min(-(-x.size // _THREADS), _MOST_BLOCKS)
    kernel((blocks,), (_THREADS,), (x, *map(np.int64, x.shape), *steps, *arguments), NUMBER=_TYPES[x.dtype])


def product_digits(a: Array, b: Array) -> Iterator[tuple[slice, FixedPoint]]:
    """Yield exact values, and the elements of the product in C order that they add up to.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays of real numbers that float64 holds.
    """
    a, b = (x if x.dtype in _TYPES else to_float64(x) for x in (a, b))
    k, n = b.shape
    step, inner = max(1, ELEMENTS // max(1, n)), INNER
    if is_cupy(a):
        inner = max(INNER, min(INNER_ON_GPU, 8 * ELEMENTS // max(1, len(a) + n)))
    for start in range(0, k, inner):
        right = b[start : start + inner]
        blocks = [a[row : row + step, start : start + inner] for row in range(0, len(a), step)]
        bits = (53 - (TOGETHER * len(right) - 1).bit_length()) // 2
        of_right, *of_blocks = places_of([right, *blocks])
        columns, first = Slices.of(right, of_right, bits, True), 0
        for rows, places in zip(blocks, of_blocks, strict=True):
            plain, size = places.finite and of_right.finite, len(rows) * n
            flags = namespace(a).full(size, ORDINARY) if plain else _flags(rows, right)
            yield slice(first, first + size), _digits(Slices.of(rows, places, bits, False), columns, flags)
            first += size


def _digits(a: Slices, b: Slices, flags: Array) -> FixedPoint:
    """Return the product of the slices: a digit for each sum d = s + t of two places, Σ A_s·B_t."""
    count = a.count + b.count - 1 if a.count and b.count else 0
    digits = namespace(flags).empty((count, flags.size), np.int64)
    k = a.matrix.shape[1] // max(1, a.count)
    for d in range(count):
        first, end = max(0, d - b.count + 1), min(d + 1, a.count)
        for s in range(first, end, TOGETHER):
            some, place = min(TOGETHER, end - s), b.count - 1 - d + s  # of B_(d - s), which others follow
            left, right = a.matrix[:, s * k : (s + some) * k], b.matrix[place * k : (place + some) * k]
            part = (left @ right).reshape(-1)
            if s == first:
                digits[d] = part
            else:
                digits[d] += part.astype(np.int64)
    return FixedPoint(digits, a.bits, a.exponent + b.exponent, flags)


def _flags(a: Array, b: Array) -> Array:
    """Return what Inf and NaN make of sums of products; numbers are 1 and −1, which cannot overflow."""
    signs = [namespace(x).where(np.isfinite(x), np.sign(x), x) for x in (a, b)]
    with np.errstate(invalid="ignore"):
        return flags_of((signs[0] @ signs[1]).reshape(-1) + 0.0)
