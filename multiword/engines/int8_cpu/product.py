"""Products of int8 words on a CPU: operands split into packed bytes, multiplied and rounded by panels.

The compiled loops take addresses: `split` and `Product` are their only callers, and check what they pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from multiword import tuning
from multiword.engines.int8_cpu import loops, tables
from multiword.engines.int8_cpu.kernels import Kernel
from multiword.engines.int8_cpu.packed import PackedOperand, aligned, spaced
from multiword.engines.int8_cpu.steps import GROUP, INNER
from multiword.engines.int8_cpu.threads import available_threads, in_threads
from multiword.formats import Format

LONGEST = 64_960
"""Numbers of the inner dimension whose products fit int32, and their sum 22 bits once its halves are weighed:
255·128·LONGEST < 2**31, and 127·⌈255·128·LONGEST/2**16⌉ + 2**16 < 2**22. A multiple of INNER."""

MOST_LIMBS = 16
"""64-bit words of an integer, of both parts together: sums of their bytes times weights stay below 2**22."""


class ModularSystem(NamedTuple):
    """What the steps need to know of a residue number system.

    Attributes
    ----------
    moduli : pairwise coprime odd numbers from 3 to 255, or 256.
    images : residues modulo p that stand for a number: 1 for a real one; for a complex one 2, by a root of
        -1, or 3, by Karatsuba.
    roots : of -1 modulo every p, where there are 2 images.
    """

    moduli: tuple[int, ...]
    images: int
    roots: tuple[int, ...]

    @property
    def products(self) -> int:
        """Residues that stand for a number."""
        return self.images * len(self.moduli)


@dataclass(frozen=True)
class _ProductTables:
    product: np.ndarray
    add: np.ndarray
    parts: np.ndarray
    pairs: np.ndarray
    digits: np.ndarray


@lru_cache(512)
def _split_table(system: ModularSystem, side: int, limbs: int, signed: bool) -> np.ndarray:
    weights = tables.weights(*system, weighted=side == 0)
    moduli, unsigned = system.moduli * system.images, side == 0 and not signed
    return tables.split_table(moduli, weights, limbs, unsigned, signed)


@lru_cache(512)
def _product_tables(system: ModularSystem) -> _ProductTables:
    moduli = system.moduli
    add = tables.combine_table(moduli, [(1, 1, 0, 1, 1, 0)] * len(moduli))
    parts = tables.combine_table(moduli, tables.part_factors(*system))
    return _ProductTables(tables.product_table(moduli), add, parts, *tables.round_tables(moduli))


def split(
    kernel: Kernel,
    system: ModularSystem,
    parts: Sequence[np.ndarray],
    scale: np.ndarray,
    side: int,
    width: int,
) -> PackedOperand:
    """Return the residues of the integers RN(x·2**scale), at most 2**width in magnitude, of one side.

    Parameters
    ----------
    parts : (stack, r, k) float32 or float64 arrays, one for each real part, alike but for their numbers.
    scale : (stack·r,) int32; rows with the scale NONFINITE_ROW are taken as zero.
    """
    parts = _checked_parts(parts, 1 if system.images == 1 else 2)
    stack, rows, inner = parts[0].shape
    scale = np.ascontiguousarray(scale, np.int32)
    if scale.shape != (stack * rows,):
        raise ValueError(f"scales must be of shape {(stack * rows,)}, got {scale.shape}")
    limbs = (width + 65) // 64  # two's complement, and 2**width itself
    if limbs * len(parts) > MOST_LIMBS:
        raise ValueError(f"integers of {width} bits are too wide")
    packed = PackedOperand.empty(kernel, side, system.images, system.products, (stack, rows, inner))
    table = _split_table(system, side, limbs, kernel.signed)
    matrix_step, row_step, inner_step = parts[0].strides
    along_rows = abs(inner_step) <= abs(row_step)
    blocks = tuning.INT8_CPU_UNIT_BLOCKS
    unit = (loops.LINES, blocks * INNER) if along_rows else (blocks * loops.LINES, INNER)
    units = -(-rows // unit[0]) * -(-inner // unit[1])
    records = np.zeros(stack, loops.Operand)
    for i in range(stack):
        at = (x.ctypes.data + i * matrix_step for x in (parts[0], parts[-1]))
        out = packed.memory.ctypes.data + i * packed.matrix_bytes
        records[i] = (
            *(*at, row_step, inner_step, parts[0].itemsize == 4, len(parts)),
            *(rows, inner, scale.ctypes.data + 4 * i * rows, limbs, table.ctypes.data, system.products),
            *(out, packed.step, side, *unit, units),
        )
    compiled, _ = loops.compile_loops(kernel)
    counter = np.zeros(8, np.int64)

    def work() -> None:
        words = aligned(512 * MOST_LIMBS).view(np.int32)
        compiled(records, counter.ctypes.data, np.empty(loops.SCRATCH), words)

    elements = len(parts) * stack * rows * inner
    in_threads(work, stack * units if elements * system.products > tuning.INT8_CPU_ALONE else 1, counter)
    return packed


def _checked_parts(parts: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    first = parts[0]
    if len(parts) != count or first.ndim != 3 or first.dtype.char not in "fd" or not first.dtype.isnative:
        raise ValueError(f"an operand must have {count} parts, stacks of matrices of float32 or float64")
    if any((x.shape, x.strides, x.dtype) != (first.shape, first.strides, first.dtype) for x in parts):
        raise ValueError("parts must agree in shape, strides and dtype")
    if first.size == 0:
        raise ValueError(f"an operand must not be empty, got shape {first.shape}")
    return list(parts)


class Product:
    """The product of packed operands, multiplied and rounded in one go where it can be.

    Attributes
    ----------
    shape : (images, moduli, m, n), as that of an array of residues; a stack's lie one below the other.
    dtype : int8.
    """

    dtype = np.dtype(np.int8)

    def __init__(self, left: PackedOperand, right: PackedOperand, system: ModularSystem) -> None:
        self._system, self._kernel = system, left.kernel
        self._stack, self._rows, self._columns = left.stack, left.rows, right.rows
        numbers = self._stack * left.rows * right.rows * left.inner * system.products
        self._threads = available_threads() if numbers > tuning.INT8_CPU_ALONE else 1
        self._cut = _Cut.of(left.kernel, left.rows, right.rows, -(-self._threads // self._stack))
        self._operands: tuple[PackedOperand, PackedOperand] | None = None
        self._memory: np.ndarray | None = None
        self._check(left, right)
        self._operands = left, right

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(images, moduli, m, n)."""
        return self._system.images, len(self._system.moduli), self._stack * self._rows, self._columns

    def add(self, left: PackedOperand, right: PackedOperand) -> Product:
        """Add the product of another block of the inner dimension, modulo the moduli; return this one."""
        self._check(left, right)
        self._residues()
        self._run((left, right), add=True)
        return self

    def _check(self, left: PackedOperand, right: PackedOperand) -> None:
        sides = (left.side, right.side) == (0, 1)
        fit = (left.stack, left.inner, left.rows) == (right.stack, right.inner, self._rows)
        alike = left.kernel == right.kernel == self._kernel
        counts = left.count == right.count == self._system.products
        if not (sides and fit and alike and counts and right.rows == self._columns and left.inner <= LONGEST):
            raise ValueError(f"operands do not fit: {left.shape} and {right.shape}")

    def round(
        self,
        scales: tuple[np.ndarray, np.ndarray],
        target: Format,
        out: np.ndarray,
        symmetric: bool = False,
    ) -> None:
        """Write RN(C'·2**(-s_i - t_j)) to `out`, (stack·m, n), of the target's dtype or its complex.

        Of a symmetric (Hermitian) matrix only the tiles on and below the diagonal are computed.
        """
        if symmetric and (self._stack > 1 or self._rows != self._columns):
            raise ValueError(f"a symmetric product must be one square matrix, got shape {self.shape}")
        rounding = _Rounding(self._system, scales, target, out, (self._stack, self._rows, self._columns))
        self._run(self._operands, rounding=rounding, symmetric=symmetric)

    def _residues(self) -> np.ndarray:
        """Memory for the residues, with those of the operands that have not been multiplied yet."""
        if self._memory is None:
            cut = self._cut
            self._memory = aligned(
                spaced(self._stack * cut.units * cut.unit_bytes) * (self._system.products + 1)
            )
            self._run(self._operands)
            self._operands = None
        return self._memory

    def _run(
        self,
        operands: tuple[PackedOperand, PackedOperand] | None,
        rounding: _Rounding | None = None,
        add: bool = False,
        symmetric: bool = False,
    ) -> None:
        """Multiply operands, if any, and round or keep the residues."""
        system, cut = self._system, self._cut
        of = _product_tables(system)
        records = np.zeros(self._stack, loops.Panels)
        for name, value in {
            "table": of.product.ctypes.data,
            "count": system.products,
            "moduli": len(system.moduli),
            "row_tiles": cut.row_tiles,
            "column_tiles": cut.column_tiles,
            "unit_rows": cut.unit_rows,
            "unit_columns": cut.unit_columns,
            "units": cut.units,
            "rows": self._rows,
            "columns": self._columns,
            "add": add,
            "symmetric": symmetric,
            "add_table": of.add.ctypes.data,
            "part_table": of.parts.ctypes.data,
        }.items():
            records[name] = value
        matrices, size = np.arange(self._stack), cut.units * cut.unit_bytes
        if operands is not None:
            for name, x in zip(("left", "right"), operands, strict=True):
                records[name] = x.memory.ctypes.data + x.start + matrices * x.matrix_bytes
                records[f"{name}_step"], records[f"{name}_blocks"] = x.step, x.tile_bytes // x.tile // INNER
            records["blocks"] = -(-operands[0].inner // INNER)
        if self._memory is not None:
            records["kept"] = self._memory.ctypes.data + matrices * size
            records["kept_step"] = spaced(self._stack * size)
        if rounding is not None:
            rounding.fill(records, of)
        self._in_threads(records, cut, (operands, rounding, of))

    def _in_threads(self, records: np.ndarray, cut: _Cut, alive: Any) -> None:
        _, compiled = loops.compile_loops(self._kernel)
        counter, count = np.zeros(8, np.int64), self._system.products
        digits = len(self._system.moduli) + 8
        step = spaced(cut.unit_bytes)

        def work(alive: Any = alive) -> None:
            y, sums = aligned(step * (count + 1)), aligned(TILE_MEMORY)
            _write_tile_configuration(sums[4096:])
            memory = y.ctypes.data, step, sums.ctypes.data, aligned(8 * GROUP).view(np.float64)
            compiled(records, counter.ctypes.data, *memory, np.empty(digits, np.int64))

        in_threads(work, min(self._stack * cut.units, self._threads), counter)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The residues, of least magnitude."""
        cut, memory = self._cut, self._residues()
        step = spaced(self._stack * cut.units * cut.unit_bytes)
        tiles = memory[: step * self._system.products].reshape(self._system.products, -1).view(np.int8)
        out = np.empty((self._system.products, self._stack, self._rows, self._columns), np.int8)
        for i, (matrix, unit) in enumerate(np.ndindex(self._stack, cut.units)):
            cut.unpack(tiles[:, i * cut.unit_bytes :], unit, out[:, matrix])
        return out.reshape(self.shape).astype(dtype or np.int8, copy=False)

    def __getitem__(self, index: Any) -> np.ndarray:
        result: np.ndarray = np.asarray(self)[index]
        return result


TILE_MEMORY = 4096 + 64
"""Bytes of the sums of a tile, and the configuration of AMX's registers behind them."""


def _write_tile_configuration(out: np.ndarray) -> None:
    """Palette 1: tile registers of 16 rows of 64 bytes, eight of them."""
    out[:] = 0
    out[0] = 1
    out[16:32].view(np.uint16)[:] = 64
    out[48:56] = 16


class _Cut(NamedTuple):
    """How a product is cut into units of tiles."""

    kernel: Kernel
    row_tiles: int
    column_tiles: int
    unit_rows: int
    unit_columns: int

    @classmethod
    def of(cls, kernel: Kernel, rows: int, columns: int, threads: int) -> _Cut:
        """Cut into the largest panels of which each of several threads finds two."""
        row_tiles, column_tiles = -(-rows // kernel.rows), -(-columns // kernel.columns)
        for panel in tuning.INT8_CPU_PANELS:
            unit_rows, unit_columns = (
                max(1, -(-tiles // -(-tiles * size // panel)))
                for tiles, size in ((row_tiles, kernel.rows), (column_tiles, kernel.columns))
            )
            cut = cls(kernel, row_tiles, column_tiles, unit_rows, unit_columns)
            if threads == 1 or cut.units >= 2 * threads:
                break
        return cut

    @property
    def units(self) -> int:
        return -(-self.row_tiles // self.unit_rows) * -(-self.column_tiles // self.unit_columns)

    @property
    def unit_bytes(self) -> int:
        return self.unit_rows * self.unit_columns * self.kernel.rows * self.kernel.columns

    def unpack(self, tiles: np.ndarray, unit: int, out: np.ndarray) -> None:
        """Copy the residues of a unit to where they belong in (count, m, n)."""
        across = -(-self.column_tiles // self.unit_columns)
        i, j = unit // across * self.unit_rows, unit % across * self.unit_columns
        rows, columns = min(self.unit_rows, self.row_tiles - i), min(self.unit_columns, self.column_tiles - j)
        height, width = self.kernel.rows, self.kernel.columns
        shape = len(tiles), columns, rows, height, width
        values = tiles[:, : columns * rows * height * width].reshape(shape).transpose(0, 2, 3, 1, 4)
        part = out[:, i * height : (i + rows) * height, j * width : (j + columns) * width]
        part[...] = values.reshape(len(tiles), rows * height, -1)[:, : part.shape[1], : part.shape[2]]


class _Rounding:
    """Where a product is rounded to, and how."""

    def __init__(
        self,
        system: ModularSystem,
        scales: tuple[np.ndarray, np.ndarray],
        target: Format,
        out: np.ndarray,
        shape: tuple[int, int, int],
    ) -> None:
        stack, m, n = shape
        self.parts = (out,) if system.images == 1 else (out.real, out.imag)
        single = target.precision == 24
        if out.shape != (stack * m, n) or self.parts[0].dtype != (np.float32 if single else np.float64):
            raise ValueError(
                f"out must be of shape {(stack * m, n)} and {target.name}, got {out.dtype} {out.shape}"
            )
        self.rows = np.ascontiguousarray(scales[0], np.int32)
        columns = scales[1].reshape(-1, n)
        if self.rows.shape != (stack * m,) or len(columns) not in (1, stack):
            raise ValueError(f"scales do not fit: {scales[0].shape} and {scales[1].shape}")
        self.columns = np.zeros((stack, -(-n // GROUP) * GROUP), np.int32)
        self.columns[:, :n] = columns
        bits = int(np.ceil(sum(np.log2(system.moduli)))) + 1
        lacking = 1 << 53 - target.precision
        self.limits = np.array([0, lacking - 1, max(1, lacking >> 1)], np.int64)
        self.limits[:1].view(np.int32)[:] = target.emin, 1000 - bits
        self.m = m

    def fill(self, records: np.ndarray, of: _ProductTables) -> None:
        """Tell the compiled loop."""
        matrices, (row_step, column_step) = np.arange(len(records)), self.parts[0].strides
        at = [x.ctypes.data + matrices * self.m * row_step for x in self.parts]
        for name, value in {
            "finish": True,
            "parts": len(self.parts),
            "round_table": of.pairs.ctypes.data,
            "pairs": len(of.pairs) - 1,
            "digits": of.digits.ctypes.data,
            "digit_count": of.digits.shape[1] - 1,
            "limits": self.limits.ctypes.data,
            "row_scales": self.rows.ctypes.data + 4 * self.m * matrices,
            "column_scales": self.columns.ctypes.data + self.columns.strides[0] * matrices,
            "real": at[0],
            "imaginary": at[-1],
            "row_step": row_step,
            "column_step": column_step,
            "single": self.parts[0].itemsize == 4,
        }.items():
            records[name] = value
