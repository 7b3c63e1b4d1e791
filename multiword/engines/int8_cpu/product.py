"""Products of int8 words on a CPU: operands split into packed bytes, multiplied and rounded by panels.

The compiled loops take addresses: `split` and `Product` are their only callers, and check what they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from multiword import tuning
from multiword.engines.int8_cpu import loops, tables
from multiword.engines.int8_cpu.kernels import INNER, LONGEST, Kernel
from multiword.engines.int8_cpu.packed import PackedOperand, aligned, spaced
from multiword.engines.int8_cpu.scalars import LINES
from multiword.engines.int8_cpu.steps import GROUP
from multiword.engines.moduli import ResidueSystem
from multiword.engines.words import INT8_K_BLOCK, WORDS
from multiword.formats import FORMATS, Format
from multiword.runtime.parallel import in_threads, thread_count

NO_MORE_UNITS = 1 << 60
"""A count of units taken that leaves none."""


class Tables(NamedTuple):
    """Fields of a record that depend on no data, and the arrays that some of them are the addresses of."""

    fields: dict[str, int]
    arrays: tuple[np.ndarray, ...]


@lru_cache(512)
def split_tables(system: ResidueSystem, side: int, limbs: int, signed: bool, words: int = 1) -> Tables:
    weights = tuple(of_parts * words for of_parts in tables.image_weights(system, weighted=side == 0))
    moduli, unsigned = system.moduli * system.images, side == 0 and not signed
    table = tables.split_table(moduli, weights, limbs, unsigned, signed)
    fields = {"right": side, "limbs": limbs, "table": table.ctypes.data, "count": system.products}
    return Tables(fields, (table,))


@lru_cache(512)
def product_tables(system: ResidueSystem) -> Tables:
    moduli = system.moduli
    add = tables.combine_table(moduli, [(1, 1, 0, 1, 1, 0)] * len(moduli))
    parts = tables.combine_table(moduli, tables.part_factors(system))
    pairs, digits = tables.round_tables(moduli)
    arrays = tables.product_table(moduli), add, parts, pairs, digits
    names = "table", "add_table", "part_table", "round_table", "digits"
    fields = {"count": system.products, "moduli": len(moduli), "parts": 1 if system.images == 1 else 2}
    fields |= {"pairs": len(pairs) - 1, "digit_count": digits.shape[1] - 1}
    return Tables(fields | {name: x.ctypes.data for name, x in zip(names, arrays, strict=True)}, arrays)


def rounding_fields(target: Format) -> dict[str, int]:
    """Those of a product's record that tell the format of its results: float32, unless that is fp64."""
    single = target.precision < 53
    return {"single": single, "precision": target.precision, "last_place": target.last_place}


@lru_cache(512)
def rounding_limits(system: ResidueSystem, target: Format) -> np.ndarray:
    """What `steps.round_group` compares exponents, the bits that a target lacks, and results with."""
    bits = int(np.ceil(sum(np.log2(system.moduli)))) + 1
    lacking = 1 << 53 - target.precision
    # Integers times normal powers of float64 have no error; `least` finds what the target has only in part.
    limits = np.array([0, lacking - 1, max(1, lacking >> 1), 0], np.int64)
    limits[:1].view(np.int32)[:] = FORMATS["fp64"].emin, 1000 - bits
    limits[3:].view(np.float64)[:] = 2.0**target.emin
    return limits


def as_records(kind: np.dtype, stack: int, fields: Mapping[str, int], steps: Mapping[str, int]) -> np.ndarray:
    """One record for each matrix of a stack: the fields, of which some grow by steps from one to the next."""
    names = kind.names or ()
    records = np.array([[fields.get(name, 0) for name in names]], np.int64)
    if stack > 1:
        growth = np.array([steps.get(name, 0) for name in names], np.int64)
        records = records + np.arange(stack)[:, None] * growth
    return records.view(kind)[:, 0]


def split(
    kernel: Kernel,
    system: ResidueSystem,
    parts: Sequence[np.ndarray],
    scale: np.ndarray,
    side: int,
    width: int,
) -> PackedOperand:
    """Return the residues of the integers RN(x·2**scale), at most 2**width in magnitude, of one side.

    Of real numbers of two words, those of the sum of both words' integers.

    Parameters
    ----------
    parts : (stack, r, k) float32 or float64 arrays, one for each real part, or both words of a real number,
        alike but for their numbers.
    scale : (stack·r,) int32; rows with the scale NONFINITE_ROW are taken as zero.
    """
    parts = _checked_parts(parts, (1, 2) if system.images == 1 else (2,))
    stack, rows, inner = parts[0].shape
    scale = np.ascontiguousarray(scale, np.int32)
    if scale.shape != (stack * rows,):
        raise ValueError(f"scales must be of shape {(stack * rows,)}, got {scale.shape}")
    limbs = (width + 65) // 64  # two's complement, and 2**width itself
    if limbs * len(parts) > loops.MOST_LIMBS:
        raise ValueError(f"integers of {width} bits are too wide")
    packed = PackedOperand.empty(kernel, side, system.images, system.products, (stack, rows, inner))
    words = len(parts) if system.images == 1 else 1
    of = split_tables(system, side, limbs, kernel.signed, words)
    matrix_step, row_step, inner_step = parts[0].strides
    along_rows = abs(inner_step) <= abs(row_step)
    blocks = tuning.INT8_CPU_UNIT_BLOCKS
    unit = (LINES, blocks * INNER) if along_rows else (blocks * LINES, INNER)
    units = -(-rows // unit[0]) * -(-inner // unit[1])
    at = [x.ctypes.data for x in (parts[0], scale, packed.memory)]
    fields = of.fields | {"real": at[0], "scales": at[1], "out": at[2], "step": packed.step}
    fields["imaginary"] = parts[-1].ctypes.data if len(parts) > 1 else at[0]
    fields |= {"row_step": row_step, "inner_step": inner_step, "single": parts[0].itemsize == 4}
    fields |= {"parts": len(parts), "rows": rows, "inner": inner}
    fields |= {"unit_rows": unit[0], "unit_inner": unit[1], "units": units}
    growth = {"real": matrix_step, "imaginary": matrix_step, "scales": 4 * rows, "out": packed.matrix_bytes}
    records = as_records(loops.Operand, stack, fields, growth)
    compiled = loops.compile_loops(kernel).split
    counter = np.zeros(8, np.int64)

    def work(alive: Any = of) -> None:
        compiled(records, counter, np.empty(loops.SCRATCH))

    alone = _is_short(kernel, system, stack * rows * inner)
    _over_units(work, 1 if alone else stack * units, counter)
    return packed


def _over_units(work: Callable[[], None], units: int, counter: np.ndarray) -> None:
    """Call work in as many threads as the BLAS would take, or units; all have returned when this does.

    Threads take units from the counter: one that comes late, because others of the process are busy, finds
    none left, and nobody waits for it.
    """
    if units <= 1:
        work()
    else:
        in_threads(work, min(units, thread_count()) - 1, lambda: counter.fill(NO_MORE_UNITS))


def _is_short(
    kernel: Kernel, system: ResidueSystem, operands: int, results: int = 0, multiplications: int = 0
) -> bool:
    """Whether one thread is faster, by what a product of 14 moduli takes for so many numbers of each kind."""
    _, *rates = tuning.CPU_RATES.get(kernel.name, tuning.CPU_RATES["avxvnni"])
    seconds = sum(x * y for x, y in zip(rates, (operands, results, multiplications), strict=True))
    return seconds * system.products / 14 < tuning.INT8_CPU_ALONE


def _checked_parts(parts: Sequence[np.ndarray], counts: tuple[int, ...]) -> list[np.ndarray]:
    first = parts[0]
    if (
        len(parts) not in counts
        or first.ndim != 3
        or first.dtype.char not in "fd"
        or not first.dtype.isnative
    ):
        raise ValueError(f"an operand must have {counts[-1]} parts, stacks of matrices of float32 or float64")
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

    def __init__(self, left: PackedOperand, right: PackedOperand, system: ResidueSystem) -> None:
        self._system, self._kernel = system, left.kernel
        self._stack, self._rows, self._columns = left.stack, left.rows, right.rows
        results = self._stack * left.rows * right.rows
        alone = _is_short(left.kernel, system, 0, results, results * left.inner)
        self._threads = 1 if alone else thread_count()
        self._cut = Cut.of(left.kernel, left.rows, right.rows, -(-self._threads // self._stack))
        self._operands: tuple[PackedOperand, PackedOperand] | None = None
        self._memory: np.ndarray | None = None
        self._check(left, right)
        self._operands = left, right

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(images, moduli, m, n)."""
        return self._system.images, len(self._system.moduli), self._stack * self._rows, self._columns

    def multiplied(self) -> Product:
        """Multiply now, so that the operands can go; return this one."""
        self._residues()
        return self

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
        """Write RN(C'·2**(-s_i - t_j)) to `out`, (stack·m, n), float32 or float64 or their complex.

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
        of, size = product_tables(system), cut.units * cut.unit_bytes
        fields = of.fields | cut.fields | {"rows": self._rows, "columns": self._columns}
        fields |= {"add": add, "symmetric": symmetric}
        growth: dict[str, int] = {}
        if operands is not None:
            for name, x in zip(("left", "right"), operands, strict=True):
                fields[name], growth[name] = x.memory.ctypes.data + x.start, x.matrix_bytes
                fields[f"{name}_step"], fields[f"{name}_blocks"] = x.step, x.tile_bytes // x.tile // INNER
            fields["blocks"] = -(-operands[0].inner // INNER)
        if self._memory is not None:
            fields["kept"], growth["kept"] = self._memory.ctypes.data, size
            fields["kept_step"] = spaced(self._stack * size)
        if rounding is not None:
            fields, growth = fields | rounding.fields, growth | rounding.growth
        records = as_records(loops.Panels, self._stack, fields, growth)
        compiled, counter = loops.compile_loops(self._kernel).multiply, np.zeros(8, np.int64)
        digits, step = len(system.moduli) + 8, spaced(cut.unit_bytes)
        scratch = step * (system.products + 1) + cut.scratch_bytes(fields.get("blocks", 0))

        def work(alive: Any = (operands, rounding, of, self._memory)) -> None:
            compiled(records, counter, aligned(scratch), step, np.empty(digits, np.int64), TILES)

        _over_units(work, min(self._stack * cut.units, self._threads), counter)

    def first(self, count: int) -> np.ndarray:
        """Return the (images, count, m, n) residues modulo the first moduli, of least magnitude."""
        cut, (images, moduli, *shape) = self._cut, self.shape
        step = spaced(self._stack * cut.units * cut.unit_bytes)
        every = self._residues()[: step * images * moduli].reshape(images, moduli, -1).view(np.int8)
        tiles = every[:, :count].reshape(images * count, -1)
        out = np.empty((images * count, self._stack, self._rows, self._columns), np.int8)
        for i, (matrix, unit) in enumerate(np.ndindex(self._stack, cut.units)):
            cut.unpack(tiles[:, i * cut.unit_bytes :], unit, out[:, matrix])
        return out.reshape(images, count, *shape)


def _tile_configuration() -> np.ndarray:
    """Palette 1 of AMX: tile registers of 16 rows of 64 bytes, eight of them."""
    configuration = np.zeros(64, np.uint8)
    configuration[0] = 1
    configuration[16:32].view(np.uint16)[:] = 64
    configuration[48:56] = 16
    return configuration


TILES = _tile_configuration()


class Cut(NamedTuple):
    """How a product is cut into units of tiles."""

    kernel: Kernel
    row_tiles: int
    column_tiles: int
    unit_rows: int
    unit_columns: int

    @classmethod
    def of(cls, kernel: Kernel, rows: int, columns: int, threads: int) -> Cut:
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

    def scratch_bytes(self, blocks: int) -> int:
        """Bytes of a thread beside residues, for products of so many blocks: sums of all tiles where these
        are taken in parts."""
        tiles = self.unit_rows * self.unit_columns if blocks * INNER > self.kernel.together else 1
        return tiles * loops.TILE_SUMS + 8 * GROUP

    @property
    def fields(self) -> dict[str, int]:
        """Those of a product's record."""
        tiles = {"row_tiles": self.row_tiles, "column_tiles": self.column_tiles, "units": self.units}
        return tiles | {"unit_rows": self.unit_rows, "unit_columns": self.unit_columns}

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
    """Where a product is rounded to, and how; the arrays whose addresses are its record's fields."""

    def __init__(
        self,
        system: ResidueSystem,
        scales: tuple[np.ndarray, np.ndarray],
        target: Format,
        out: np.ndarray,
        shape: tuple[int, int, int],
    ) -> None:
        stack, m, n = shape
        self.parts = (out,) if system.images == 1 else (out.real, out.imag)
        of_target = rounding_fields(target)
        dtype = np.float32 if of_target["single"] else np.float64
        if out.shape != (stack * m, n) or self.parts[0].dtype != dtype:
            raise ValueError(
                f"out must be of shape {(stack * m, n)} and {target.name}, got {out.dtype} {out.shape}"
            )
        self.rows = np.ascontiguousarray(scales[0], np.int32)
        columns = scales[1].reshape(-1, n)
        if self.rows.shape != (stack * m,) or len(columns) not in (1, stack):
            raise ValueError(f"scales do not fit: {scales[0].shape} and {scales[1].shape}")
        self.columns = np.zeros((stack, -(-n // GROUP) * GROUP), np.int32)
        self.columns[:, :n] = columns
        self._limits = rounding_limits(system, target)
        row_step, column_step = self.parts[0].strides
        arrays = self.rows, self.columns, self._limits, self.parts[0], self.parts[-1]
        at = [x.ctypes.data for x in arrays]
        self.fields = {"row_scales": at[0], "column_scales": at[1], "limits": at[2], "real": at[3]}
        self.fields |= {"imaginary": at[4], "row_step": row_step, "column_step": column_step}
        self.fields |= of_target | {"finish": True}
        self.growth = {"row_scales": 4 * m, "column_scales": self.columns.strides[0]}
        self.growth |= {"real": m * row_step, "imaginary": m * row_step}


_INT32 = ResidueSystem(WORDS["int8"], INT8_K_BLOCK, (256, 255, 253, 251))
"""Residues of sums of int8 products, which are int32."""


def multiply_int8(kernel: Kernel, a: np.ndarray, bt: np.ndarray) -> np.ndarray:
    """Return A·Bᵀ of two stacks of int8 matrices, (stack·m, n), exact as float64."""
    words, scales = [], []
    for side, x in enumerate((a, bt)):
        scales.append(np.zeros(x.shape[0] * x.shape[1], np.int32))
        words.append(split(kernel, _INT32, [x.astype(np.float32)], scales[side], side, 7))
    out = np.empty((a.shape[0] * a.shape[1], bt.shape[1]))
    Product(words[0], words[1], _INT32).round((scales[0], scales[1]), FORMATS["fp64"], out)
    return out
