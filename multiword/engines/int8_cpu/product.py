"""Products of int8 words on a CPU: operands split once into packed bytes, multiplied and rounded panel by panel.

The compiled loops take addresses: `split` and `multiply` here are their only callers, and check what they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from multiword.engines.int8_cpu import loops, tables
from multiword.engines.int8_cpu.kernels import Kernel
from multiword.engines.int8_cpu.steps import GROUP, INNER
from multiword.engines.int8_cpu.threads import in_threads
from multiword.runtime.parallel import empty_beside

LONGEST = 64_960
"""Numbers of the inner dimension whose products fit int32, and their sum 22 bits once its halves are weighed:
255·128·LONGEST < 2**31, and 127·⌈255·128·LONGEST/2**16⌉ + 2**16 < 2**22. A multiple of INNER."""

MOST_LIMBS = 16
"""64-bit words of an integer, of both parts together: sums of their bytes times weights stay below 2**22."""


@dataclass(frozen=True)
class Residues:
    """The moduli and weights of a product of integers, real or complex.

    Attributes
    ----------
    moduli : pairwise coprime odd numbers from 3 to 255, or 256.
    images : residues modulo p that stand for a number; 1 for real ones, 2 or 3 for complex ones.
    roots : of -1, one for each modulus, where there are 2 images.
    """

    moduli: tuple[int, ...]
    images: int = 1
    roots: tuple[int, ...] = ()

    @property
    def parts(self) -> int:
        return 1 if self.images == 1 else 2

    def weights(self, side: int) -> tuple[tuple[int, ...], ...]:
        """What the parts of a number are multiplied by, image by image; the left side takes in the weights of
        the Chinese remainder theorem, halved where a part is half of a sum of images."""
        found: list[tuple[int, ...]] = []
        product = int(np.prod(np.array(self.moduli, object)))
        whole = [1 if side else pow(product // p, -1, p) for p in self.moduli]
        if self.images == 1:
            return tuple((w,) for w in whole)
        if self.images == 3:
            return tuple((w * x, w * y) for x, y in ((1, 0), (0, 1), (1, 1)) for w in whole)
        for sign in (1, -1):
            for p, w, j in zip(self.moduli, whole, self.roots, strict=True):
                half = w if side else w * pow(2, -1, p)
                found.append((half % p, sign * half * j % p))
        return tuple(found)

    def part_factors(self) -> list[tuple[int, ...]]:
        """The factors of `steps.combine` that make real parts of images."""
        if self.images == 3:
            return [(1, -1, 0, -1, -1, 1)] * len(self.moduli)
        return [(1, 1, 0, -j, j, 0) for j in self.roots]


@lru_cache(512)
def _split_table(residues: Residues, side: int, limbs: int, signed: bool) -> np.ndarray:
    moduli = residues.moduli * residues.images
    return tables.split_table(moduli, residues.weights(side), limbs, side == 0 and not signed, signed)


@lru_cache(512)
def _product_tables(residues: Residues) -> tuple[np.ndarray, ...]:
    moduli = residues.moduli
    add = tables.combine_table(moduli, [(1, 1, 0, 1, 1, 0)] * len(moduli))
    parts = tables.combine_table(moduli, residues.part_factors()) if residues.images > 1 else add
    return tables.product_table(moduli), add, parts, *tables.round_tables(moduli)


@dataclass(frozen=True)
class PackedOperand:
    """An operand's residues, as the kernel reads them.

    Attributes
    ----------
    memory : bytes, those of a modulus `step` bytes after those of the one before.
    rows, inner : of the operand; rows of the right one are columns of the product's.
    """

    kernel: Kernel
    residues: Residues
    side: int
    rows: int
    inner: int
    memory: np.ndarray
    step: int

    @property
    def tiles(self) -> int:
        return -(-self.rows // _tile(self.kernel, self.side))

    @property
    def nbytes(self) -> int:
        return int(self.memory.nbytes)


def _tile(kernel: Kernel, side: int) -> int:
    return kernel.columns if side else kernel.rows


def _aligned(size: int) -> np.ndarray:
    """That many bytes, from a multiple of 64 on."""
    raw = empty_beside(np.empty(0), (size + 64,), np.dtype(np.uint8))
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def _spaced(size: int) -> int:
    """Bytes from one modulus to the next: an odd number of cache lines, so that these do not share a set."""
    return (-(-size // 64) | 1) * 64


def split(
    kernel: Kernel, residues: Residues, operands: Sequence[tuple[Sequence[np.ndarray], np.ndarray, int, int]]
) -> list[PackedOperand]:
    """Return the residues of operands: (parts, scale, side, width) of each.

    parts : (r, k) float32 or float64 arrays, one for each real part, of one dtype and strides.
    scale : (r,) int32; rows with the scale NONFINITE_ROW are taken as zero.
    width : integers RN(x·2**scale) are at most 2**width in magnitude.
    """
    packed, records = [], []
    for parts, scale, side, width in operands:
        parts, scale = _checked_parts(parts, scale, residues)
        (rows, inner), tile, count = parts[0].shape, _tile(kernel, side), len(residues.moduli) * residues.images
        limbs = (width + 2 + 63) // 64
        if limbs * len(parts) > MOST_LIMBS:
            raise ValueError(f"integers of {width} bits are too wide")
        step = _spaced(-(-rows // tile) * tile * -(-inner // INNER) * INNER)
        found = PackedOperand(kernel, residues, side, rows, inner, _aligned(step * count), step)
        table = _split_table(residues, side, limbs, kernel.signed)
        row_step, inner_step = parts[0].strides
        along = abs(inner_step) <= abs(row_step)
        unit = (loops.LINES, UNIT_BLOCKS * INNER) if along else (loops.LINES * UNIT_BLOCKS, INNER)
        record = (
            *(parts[0].ctypes.data, parts[-1].ctypes.data, row_step, inner_step, parts[0].itemsize == 4, len(parts)),
            *(rows, inner, scale.ctypes.data, limbs, table.ctypes.data, count),
            *(found.memory.ctypes.data, step, side, *unit, -(-rows // unit[0]) * -(-inner // unit[1])),
        )
        packed.append(found)
        records.append((record, (parts, scale, table, found)))
    _run_split(kernel, records)
    return packed


FINISH = 1
UNIT_BLOCKS = 16
"""Blocks that a thread splits at a time."""


def _run_split(kernel: Kernel, records: list[tuple[tuple[Any, ...], Any]]) -> None:
    operands = np.array([record for record, _ in records], loops.Operand)
    compiled, _ = loops.compile_loops(kernel)
    counter = np.zeros(8, np.int64)

    def work(_: int, kept: Any = records) -> None:
        words = _aligned(512 * MOST_LIMBS).view(np.int32)
        compiled(operands, counter.ctypes.data, np.empty(2 * loops.BLOCK + 2 * loops.LINES), words)

    in_threads(work, int(operands["units"].sum()), counter)


def _checked_parts(
    parts: Sequence[np.ndarray], scale: np.ndarray, residues: Residues
) -> tuple[list[np.ndarray], np.ndarray]:
    first = parts[0]
    if len(parts) != residues.parts or first.ndim != 2 or first.dtype.char not in "fd" or not first.dtype.isnative:
        raise ValueError(f"an operand must have {residues.parts} parts, matrices of float32 or float64")
    if any(x.shape != first.shape or x.strides != first.strides or x.dtype != first.dtype for x in parts):
        raise ValueError("parts must agree in shape, strides and dtype")
    if scale.shape != first.shape[:1]:
        raise ValueError(f"scales must be of shape {first.shape[:1]}, got {scale.shape}")
    return list(parts), np.ascontiguousarray(scale, np.int32)


def multiply_and_round(
    left: PackedOperand,
    right: PackedOperand,
    scales: tuple[np.ndarray, np.ndarray],
    out: np.ndarray,
    lowest: int,
) -> None:
    """Write RN(C'·2**(-s_i - t_j)) to `out`."""
    kernel, residues = left.kernel, left.residues
    product, add, of_parts, pairs, digits = _product_tables(residues)
    count, moduli = len(residues.moduli) * residues.images, len(residues.moduli)
    m, n = out.shape
    row_scales = np.ascontiguousarray(scales[0], np.int32)
    column_scales = np.zeros(-(-n // GROUP) * GROUP, np.int32)
    column_scales[:n] = scales[1]
    real, imaginary = (out.real, out.imag) if residues.parts == 2 else (out, out)
    single = real.itemsize == 4
    cut = 1 << 29 if single else 1
    highest = 1000 - int(np.ceil(sum(np.log2(p) for p in residues.moduli)))
    limits = np.zeros(3, np.int64)
    limits[:1].view(np.int32)[:] = lowest, highest
    limits[1:] = cut - 1, max(1, cut >> 1)
    unit_rows, unit_columns = _panel(kernel, left.tiles, right.tiles, left.inner)
    units = -(-left.tiles // unit_rows) * -(-right.tiles // unit_columns)
    record = (
        *(left.memory.ctypes.data, left.step, right.memory.ctypes.data, right.step, -(-left.inner // INNER)),
        *(product.ctypes.data, count, moduli),
        *(left.tiles, right.tiles, unit_rows, unit_columns, units),
        *(0, 0, add.ctypes.data, FINISH),
        *(residues.parts, of_parts.ctypes.data, pairs.ctypes.data, len(pairs) - 1),
        *(digits.ctypes.data, digits.shape[1] - 1, limits.ctypes.data),
        *(m, n, row_scales.ctypes.data, column_scales.ctypes.data),
        *(real.ctypes.data, imaginary.ctypes.data, *real.strides, single),
    )
    panels = np.array([record], loops.Panels)
    _, compiled = loops.compile_loops(kernel)
    counter = np.zeros(8, np.int64)
    step = _spaced(unit_rows * unit_columns * kernel.rows * kernel.columns)

    def work(_: int) -> None:
        y = _aligned(step * (count + 1))
        sums = _aligned(4096 + 64)
        sums[4096:] = 0
        sums[4096] = 1
        sums[4096 + 16 : 4096 + 32].view(np.uint16)[:] = 64
        sums[4096 + 48 : 4096 + 56] = 16
        compiled(
            panels, counter.ctypes.data, y.ctypes.data, step, sums.ctypes.data,
            _aligned(8 * GROUP).view(np.float64), np.empty(digits.shape[1], np.int64),
        )

    in_threads(work, units, counter)


def _panel(kernel: Kernel, rows: int, columns: int, inner: int) -> tuple[int, int]:
    import os; R,C=map(int,os.environ.get("PANEL","256,256").split(",")); return max(1, R // kernel.rows), max(1, C // kernel.columns)
