"""Equilibration of the inner dimension: column h of A and row h of B are brought to one size.

    AB = (A·D)(D⁻¹·B),   D = diag(2**d_h),   d_h = floor((q_h - p_h)/2)

with p_h the largest exponent in column h of A, its rows scaled to the norm limit, and q_h that in row h of B,
its columns scaled likewise. Both products with D are exact, or equilibration is not done. A graded inner
dimension, A = X·G and B = G⁻¹·Y with G = diag(2**g_h), needs integers wider by the range of g; equilibrated,
it is an ordinary product. D is a function of maxima: neither the order of the inner dimension nor its cut
can show.

When it is done. Let M be the norm limit, k the length of a row, and e the largest p_h + q_h. The norms of
scaled rows are above √M/2 and at most √M, so with T = (Σ|a'| + Σ|b'|)/2 + k/4 of the certificate, T is above
√M/2 + k/4 and at most √(kM) + k/4. In the same rows of A·D and D⁻¹·B, not scaled anew, no number exceeds
2**(e/2) and 2**((e + 1)/2), and the product of two norms is at most k·2**(e + 1/2): the norm limit scales
them up by at least M/4 over that. Hence for every pair of a row and a column

    T / Σ|a'||b'| becomes smaller by a factor of at least M·2**-e / (2**3.5·k**1.5).

Where this is 1 or more, equilibration takes no more bits than the product without it; where data are not
graded, e is about log2(M/k).

References: Ballard, Benson, Druinsky, Lipshitz and Schwartz, Improving the numerical stability of fast matrix
multiplication, 2016 (inside scaling, after outside scaling). LAPACK's equilibration (`dgeequb`) scales rows
and columns of one matrix by powers of two.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.graphs import kept_zeros, side_by_side
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.parallel import over_rows
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts, strided_parts
from ozaki.definition.scales import NormLimit
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.tuning import SAMPLED_ROWS, SHORT_RUN_NUMBERS

NOTHING = -(1 << 30)
"""The largest exponent where there is no nonzero number."""

FURTHEST = 2044
"""Shifts that are two powers of two, both of normal numbers."""


@dataclass(frozen=True)
class InnerExponents:
    """The largest exponents along the inner dimension of both factors, of each product of a stack.

    Attributes
    ----------
    of_a, of_b : (s, k) int32, p and q as `column_exponents` gives them.
    sums : (s,) int32, the largest p_h + q_h, or `NOTHING`.
    on_host : waits for a device, and returns the sums on the host.
    """

    of_a: Array
    of_b: Array
    sums: Array
    on_host: Callable[[], np.ndarray]


def inner_exponents(
    parts: tuple[list[Array], list[Array]], scales: tuple[Array, Array], stack: int = 1
) -> InnerExponents:
    """Return the exponents of the (r, k) parts of both factors, in norm scales; nothing is waited for."""
    p, q = side_by_side(
        lambda: column_exponents(parts[0], scales[0], stack),
        lambda: column_exponents(parts[1], scales[1], stack),
    )
    if not is_cupy(p):
        sums = largest_sums(p, q)
        return InnerExponents(p, q, sums, lambda: sums)
    sums, readback = namespace(p).empty(len(p), np.int32), Readback(len(p), np.int32)
    arguments = p, q, np.int32(p.shape[1]), sums, readback.address
    threads = _MOST_THREADS if p.shape[1] > 16 * _THREADS else _THREADS
    _LARGEST_SUMS((len(p),), (threads,), arguments, **_CONSTANTS, THREADS=threads)
    readback.send()
    return InnerExponents(p, q, sums, readback.wait)


def largest_sums(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the (s,) largest p_h + q_h of (s, k) exponents, or `NOTHING`; maxima merge blocks of k."""
    return np.where((p > NOTHING) & (q > NOTHING), p + q, NOTHING).max(axis=1)


def is_graded(largest: np.ndarray, length: int, limit: NormLimit) -> np.ndarray:
    """Return which products are proved to gain by equilibration, from their largest sums of exponents."""
    return (largest > NOTHING) & (largest <= most_graded(length, limit))


def most_graded(length: int, limit: NormLimit) -> int:
    """Return the largest sum of exponents that proves a gain."""
    # 2**3.5·k**1.5, and half a bit for norms that are bounded by integers.
    return limit.bits - 4 - ((length**3 - 1).bit_length() + 1) // 2


def is_level(
    parts: tuple[list[Array], list[Array]], scales: tuple[Array, Array], limit: NormLimit
) -> Callable[[], bool]:
    """Return a function that waits for a device, and says whether a few rows of both prove that a product is
    not graded: more only raise the maxima."""
    steps = max(1, len(scales[0]) // SAMPLED_ROWS), max(1, len(scales[1]) // SAMPLED_ROWS)
    largest = (_sampled_sums_device if is_cupy(scales[0]) else _sampled_sums_host)(parts, scales, steps)
    most = most_graded(sum(x.shape[1] for x in parts[0]), limit)
    return lambda: int(largest()[0]) > most


def _sampled_sums_host(
    parts: tuple[list[np.ndarray], list[np.ndarray]],
    scales: tuple[np.ndarray, np.ndarray],
    steps: tuple[int, int],
) -> Callable[[], np.ndarray]:
    """Return a function that returns the largest sum of exponents of every so many rows of both factors."""
    p, q = (
        column_exponents([x[::step] for x in of_side], scale[::step])
        for of_side, scale, step in zip(parts, scales, steps, strict=True)
    )
    return lambda: largest_sums(p, q)


def column_shifts(p: Array, q: Array, largest: Array) -> Array:
    """Return the (s, k) int32 shifts d_h from the exponents of both sides and their largest sums."""
    return (_column_shifts_device if is_cupy(p) else _column_shifts_host)(p, q, largest)


def _column_shifts_host(p: np.ndarray, q: np.ndarray, largest: np.ndarray) -> np.ndarray:
    # Where one side has nothing, the other must not stand out.
    middle = largest[:, None] >> 1
    one_side = np.where(p > NOTHING, middle - p, np.where(q > NOTHING, q - middle, 0))
    shifts = np.where((p > NOTHING) & (q > NOTHING), (q - p) >> 1, one_side)
    return np.clip(shifts, -FURTHEST, FURTHEST).astype(np.int32)


def column_exponents(parts: list[Array], scale: Array, stack: int = 1) -> Array:
    """Return the largest exponents along the inner dimension: (s, k) int32, of the (r, k) parts of a stack.

    2**(p - 1) <= max_i |x_ih|·2**scale_i < 2**p over the rows of a product that have no Inf or NaN; `NOTHING`
    without a nonzero number there. Maxima merge those of blocks of rows.
    """
    return (_exponents_device if is_cupy(parts[0]) else _exponents_host)(parts, scale, stack)


def _exponents_host(parts: list[np.ndarray], scale: np.ndarray, stack: int) -> np.ndarray:
    columns = parts[0].shape[1]
    scale = scale.reshape(stack, -1, 1)
    maxima = list[tuple[slice, np.ndarray]]()  # of blocks, in any order

    def work(products: slice, rows: slice) -> None:
        of_rows, of_parts = scale[products, rows], []
        for x in parts:
            y = x.reshape(stack, -1, columns)[products, rows]
            counted = (y != 0) & (of_rows != NONFINITE_ROW)
            of_parts.append(np.where(counted, np.frexp(y)[1] + of_rows, NOTHING).max(axis=1))
        maxima.append((products, np.maximum.reduce(of_parts)))

    _over_rows_of_products(work, stack, scale.shape[1], columns)
    out = np.full((stack, columns), NOTHING, np.int32)
    for products, largest in maxima:
        np.maximum(out[products], largest, out=out[products])
    return out


def _over_rows_of_products(work: Callable[[slice, slice], None], stack: int, rows: int, columns: int) -> None:
    """Call work(products, rows) for blocks of the rows of a single product, or of the products of a stack."""
    if stack == 1:
        over_rows(lambda block: work(slice(0, 1), block), rows, columns)
    else:
        over_rows(lambda block: work(block, slice(None)), stack, rows * columns)


def shift(parts: list[Array], scale: Array, shifts: Array, out: list[Array]) -> Callable[[], np.ndarray]:
    """Write the (r, k) parts, column h multiplied by 2**shifts_h, to `out`.

    Returns a function that waits for a device, and says in which products that is exact. Rows with the scale
    `NONFINITE_ROW` are left as they are.
    """
    return (_shift_device if is_cupy(parts[0]) else _shift_host)(parts, scale, shifts, out)


def _shift_host(
    parts: list[np.ndarray], scale: np.ndarray, shifts: np.ndarray, out: list[np.ndarray]
) -> Callable[[], np.ndarray]:
    stack, columns = shifts.shape
    halves = [d[:, None, :] for d in (shifts >> 1, shifts - (shifts >> 1))]
    first, second, *back = (np.ldexp(1.0, sign * d) for sign in (1, -1) for d in halves)
    exact, nonfinite = np.ones(stack, np.bool_), (scale == NONFINITE_ROW).reshape(stack, -1, 1)

    def work(products: slice, rows: slice) -> None:
        for source, target in zip(parts, out, strict=True):
            x, y = (z.reshape(stack, -1, columns)[products, rows] for z in (source, target))
            left_alone = nonfinite[products, rows]
            y[...] = np.where(left_alone, x, x * first[products] * second[products])
            same = (y * back[0][products] * back[1][products] == x) | left_alone
            if not same.all():
                exact[products] &= same.all(axis=(1, 2))

    _over_rows_of_products(work, stack, len(parts[0]) // stack, columns)
    return lambda: exact


class Matrix(Struct):
    """The real parts of a matrix to write to; strides in elements."""

    _fields_ = (
        *members(ctypes.c_void_p, "part0", "part1"),
        *members(ctypes.c_longlong, "row_stride", "column_stride"),
    )


_THREADS, _RUN, _SHORT_RUN = 256, 64, 16
"""Threads of a block, and rows to a thread: the shorter run for a matrix of up to `SHORT_RUN_NUMBERS`."""

_MOST_THREADS = 1024
"""Threads of the one block that folds a long inner dimension."""

_CONSTANTS: dict[str, Any] = {"NOTHING": NOTHING, "FURTHEST": FURTHEST}
_OF_PARTS: dict[str, Any] = {"NOTHING": NOTHING, "NONFINITE_ROW": NONFINITE_ROW}
_FILE = Path(__file__).with_suffix(".cu")
_FOLD = _FILE.with_name("inner_exponents.cu")
_INSTANCES = tuple(
    {**_OF_PARTS, "ALONG_K": along, "REAL": t, "PARTS": parts}
    for along in (0, 1)
    for t in ("float", "double")
    for parts in (1, 2)
)
_EXPONENTS = Kernel(
    "column_exponents", _FILE, _INSTANCES, (StridedParts,), equals="ozaki.definition.decision.equilibrated"
)
_SAMPLED_SUMS = Kernel(
    "sampled_sums",
    _FILE,
    tuple(x for x in _INSTANCES if x["ALONG_K"]),
    (StridedParts,),
    equals="ozaki.definition.decision.equilibrated",
)
_SHIFT = Kernel(
    "shift_columns",
    _FILE,
    _INSTANCES,
    (StridedParts, Matrix),
    equals="ozaki.definition.decision.equilibrated",
)
_FOLDS = tuple({**_CONSTANTS, "THREADS": threads} for threads in (_THREADS, _MOST_THREADS))
_LARGEST_SUMS = Kernel("largest_sums", _FOLD, _FOLDS, equals="ozaki.definition.decision.equilibrated")
_COLUMN_SHIFTS = Kernel("column_shifts", _FOLD, _FOLDS[:1], equals="ozaki.definition.decision.equilibrated")


def _grid(
    parts: list[Array], stack: int
) -> tuple[tuple[int], dict[str, Any], StridedParts, tuple[np.int32, np.int32]]:
    """Return a launch's blocks and constants, the operand, and the rows of one product and of a thread."""
    operand, layout = strided_parts(parts)
    rows, columns = parts[0].shape
    lanes, run = 1 if layout["ALONG_K"] else 32, _RUN if rows * columns > SHORT_RUN_NUMBERS else _SHORT_RUN
    strips, chunks = -(-columns // (_THREADS // lanes)), -(-(rows // stack) // (run * lanes))
    constants = {**_OF_PARTS, **{x: layout[x] for x in ("ALONG_K", "REAL")}, "PARTS": len(parts)}
    return (strips * chunks * stack,), constants, operand, (np.int32(rows // stack), np.int32(run))


def _exponents_device(parts: list[Array], scale: Array, stack: int) -> Array:
    out = namespace(scale).full((stack, parts[0].shape[1]), NOTHING, np.int32)
    grid, constants, operand, each = _grid(parts, stack)
    _EXPONENTS(grid, (_THREADS,), (operand, _contiguous(scale), *each, out), **constants)
    return out


def _contiguous(scale: Array) -> Array:
    """Return scales as kernels read them, side by side."""
    return namespace(scale).ascontiguousarray(scale, np.int32)


def _sampled_sums_device(
    parts: tuple[list[Array], list[Array]], scales: tuple[Array, Array], steps: tuple[int, int]
) -> Callable[[], np.ndarray]:
    (a, layout), (b, _) = map(strided_parts, parts)
    raised, readback = kept_zeros((2,), np.uint32), Readback(1, np.int32)
    constants = {**_OF_PARTS, "ALONG_K": 1, "REAL": layout["REAL"], "PARTS": len(parts[0])}
    arguments = a, b, *scales, *map(np.int32, steps), raised, readback.address
    _SAMPLED_SUMS((-(-parts[0][0].shape[1] // 32),), (_THREADS,), arguments, **constants)
    readback.send()
    return readback.wait


def _column_shifts_device(p: Array, q: Array, largest: Array) -> Array:
    shifts = namespace(p).empty_like(p)
    stack, columns = p.shape
    arguments = p, q, np.int32(columns), largest, shifts
    grid = -(-columns // _THREADS), stack
    _COLUMN_SHIFTS(grid, (_THREADS,), arguments, **_CONSTANTS, THREADS=_THREADS)
    return shifts


def _shift_device(
    parts: list[Array], scale: Array, shifts: Array, out: list[Array]
) -> Callable[[], np.ndarray]:
    lost = Readback(len(shifts), np.int32)
    grid, constants, operand, each = _grid(parts, len(shifts))
    row_stride, column_stride = (stride // out[0].itemsize for stride in out[0].strides)
    to = Matrix(part0=out[0], part1=out[-1], row_stride=row_stride, column_stride=column_stride)
    shifts = namespace(out[0]).asarray(shifts)
    _SHIFT(grid, (_THREADS,), (operand, _contiguous(scale), to, shifts, *each, lost.address), **constants)
    lost.send()
    return lambda: lost.wait() == 0
