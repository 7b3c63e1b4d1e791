"""The loops around the vector steps, compiled by numba for one kernel: what one thread does of a product.

Threads take units of work from counters, so that neither their number nor their order shows in a result: a
unit of `split` is a block of an operand, one of `multiply` a panel of the result, which is multiplied modulo
all moduli and rounded while its residues are in the cache. A thread that comes late finds nothing left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import float64, int64, types, uint8, void

from multiword.engines.int8_cpu import steps
from multiword.engines.int8_cpu.emit import Emit
from multiword.engines.int8_cpu.kernels import INNER, LINE_BYTES, Kernel
from multiword.engines.int8_cpu.scalars import (
    BLOCK,
    LINES,
    clear_nonfinite,
    gather,
    mirror,
    round_alone,
    write_factors,
)
from multiword.engines.int8_cpu.steps import GROUP
from multiword.runtime.addresses import instruction, read_double, read_int, take, write_double, write_single
from multiword.runtime.jit import allow, inlined, jit

MOST_LIMBS = 16
"""64-bit words of an integer, of both parts together: sums of their bytes times weights stay below 2**22."""

SCRATCH = 2 * BLOCK + 2 * LINES * GROUP + INNER * MOST_LIMBS + 8
"""Float64 numbers of a thread that splits: a block of each part, the factors of its rows, aligned limbs."""

TILE_SUMS = 4096
"""Bytes of the sums of a tile."""


def _record(names: str) -> np.dtype:
    """A record of integers, as compiled code takes it."""
    return np.dtype([(name, np.int64) for name in names.split()])


Operand = _record(
    "real imaginary row_step inner_step single parts rows inner scales limbs table count "
    "out step right unit_rows unit_inner units"
)
"""One side of a product that is to be split: addresses, byte steps, numbers.

Numbers are real[i·row_step + h·inner_step], and imaginary[…] if there are two parts, float32 if `single`;
row i is taken times 2**scales[i], as integers of `limbs` times 64 bits. The residues modulo `count` moduli
are written to `out`, `step` bytes apart, as tiles of the left or the `right` side. A unit is a block of
unit_rows and unit_inner numbers; there are `units`.
"""

Panels = _record(
    "left left_step left_blocks right right_step right_blocks blocks table count moduli "
    "row_tiles column_tiles unit_rows unit_columns units kept kept_step add add_table finish "
    "parts part_table round_table pairs digits digit_count limits rows columns row_scales column_scales "
    "real imaginary row_step column_step single precision last_place symmetric"
)
"""A product of split operands, and how it is cut and rounded.

left, right : packed residues, `step` bytes from one modulus to the next, in tiles of so many `blocks`; the
product takes `blocks` of them. kept : memory for the residues of all units, `kept_step` bytes from one
modulus to the next, that products go to, or are added to; 0 where they are rounded at once (`finish`).
Results are rounded to `precision` bits, or at 2**last_place, and are float32 if `single`. Of a `symmetric`
product the tiles above the diagonal are left out, and its numbers below copied there.
"""

# No fastmath: numba would give its flags to the vector steps' arithmetic too, whose order matters.

operand, panel = map(numba.from_dtype, (Operand, Panels))
OPERANDS, PANELS, BYTES = (types.Array(kind, 1, "C", readonly=True) for kind in (operand, panel, uint8))


def emitted(kernel: Kernel, step: Callable[..., Any], arguments: int, result: Any = void) -> Any:
    """A vector step as a function that compiled code calls, of so many addresses and integers."""

    @instruction(result(*[int64] * arguments))
    def emit(context: Any, builder: Any, *values: Any) -> Any:
        allow(builder.function, context.codegen(), *kernel.features)
        return step(Emit(builder, kernel), *values)

    return emit


class Loops(NamedTuple):
    """Compiled functions, and what compiled code may call itself."""

    split: Any
    multiply: Any
    split_units: Any
    multiply_units: Any


@cache
def compile_loops(kernel: Kernel) -> Loops:
    """Return the loops of a kernel."""
    ROWS, COLUMNS, SIGNED, TILES = kernel.rows, kernel.columns, kernel.signed, kernel.tiles
    TILE = ROWS * COLUMNS
    FLIP, FLIP_TOP = (-0x7F7F7F7F7F7F7F80, 0x0080808080808080) if SIGNED else (0, -1 << 63)
    write_words, write_limb = emitted(kernel, steps.write_words, 5), emitted(kernel, steps.write_limb, 6)
    write_words_of_singles = emitted(kernel, partial(steps.write_words, single=True), 5)
    narrow_group = emitted(kernel, steps.narrow_group, 2)
    split_64 = emitted(kernel, steps.split, 6)
    BLOCKS = kernel.together // INNER
    multiply_tile = emitted(kernel, steps.multiply_in_tiles if TILES else steps.multiply_in_registers, 8)
    begin_tile = go_on_with_tile = end_tile = multiply_tile
    if TILES:
        begin_tile, go_on_with_tile, end_tile = (
            emitted(kernel, partial(steps.multiply_in_tiles, begins=begins, ends=ends), 8)
            for begins, ends in ((True, False), (False, False), (False, True))
        )
    round_group = emitted(kernel, steps.round_group, 8, int64)
    configure, release = emitted(kernel, steps.configure_tiles, 1), emitted(kernel, steps.release_tiles, 0)
    combine, prefetch = emitted(kernel, steps.combine, 7), emitted(kernel, Emit.prefetch, 1)

    def named(function: Any) -> Any:
        """Name a function for the kernel: its file on disk, and its symbol among those of other kernels."""
        function.__qualname__ = f"{function.__name__}_{kernel.name}"
        return function

    def compiled(function: Any) -> Any:
        return inlined(named(function))

    def for_kernel(signature: Any) -> Any:
        return lambda function: jit(signature)(named(function))

    @compiled
    def split_block(op, i, h, finite, block, factors, words):
        """Split one block of an operand, from row i and inner number h on."""
        rows, inner = min(LINES, op.rows - i), min(INNER, op.inner - h)
        itemsize = 4 if op.single else 8
        contiguous = op.row_step == itemsize and rows == LINES if op.right else op.inner_step == itemsize
        straight = contiguous and inner == INNER and finite and (op.limbs == 1 or not op.single)
        # From one line to the next, and from one group of it: as `gather` writes them, or where they are.
        line, group = (GROUP, GROUP * LINES) if op.right else (INNER, GROUP)
        line_step, group_step, of_factors = 8 * line, 8 * group, 0 if op.right else 16 * GROUP
        if straight:
            line_step, group_step = op.inner_step, GROUP * op.inner_step
            if not op.right:
                line_step = op.row_step
        for part in range(op.parts):
            start = (op.imaginary if part else op.real) + i * op.row_step + h * op.inner_step
            if op.right:
                for row in range(inner):  # the processor foresees near lines alone
                    prefetch(start + row * op.inner_step + LINES * op.row_step)
                    prefetch(start + row * op.inner_step + LINES * op.row_step + LINE_BYTES)
            if not straight:
                x = block[part * BLOCK : (part + 1) * BLOCK]
                gather(start, op.row_step, op.inner_step, op.single, rows, inner, op.right, x)
                if not finite:
                    clear_nonfinite(op, i, rows, x)
        tile, padded = COLUMNS if op.right else ROWS, (op.inner + INNER - 1) // INNER * INNER
        limbs = op.parts * op.limbs
        for j in range(LINES if op.right else rows):
            for part in range(op.parts):
                start = block.ctypes.data + 8 * part * BLOCK
                if straight:
                    start = (op.imaginary if part else op.real) + i * op.row_step + h * op.inner_step
                start += j * line_step
                of_line = factors.ctypes.data + j * of_factors
                for limb in range(op.limbs):
                    flip = FLIP_TOP if limb == op.limbs - 1 else FLIP
                    to = words + 512 * (part * op.limbs + limb)
                    if straight and op.single:
                        write_words_of_singles(start, group_step, of_line, flip, to)
                    elif op.limbs == 1:
                        write_words(start, group_step, of_line, flip, to)
                    else:
                        write_limb(start, group_step, of_line, 64 * limb, flip, to)
            row = i if op.right else i + j
            to = op.out + row // tile * tile * padded + h * tile
            to += row % tile * INNER + (j * INNER if op.right else 0)
            split_64(words, limbs, op.table, op.count, to, op.step)

    @compiled
    def split_units(operands, counter, block):
        """What one thread does to split operands; `block` is SCRATCH memory.

        The counter says how many units have been taken, the number behind it how many are done.
        """
        factors, finite = block[2 * BLOCK :], True
        limbs = block[2 * BLOCK + 2 * LINES * GROUP :]
        words = (limbs.ctypes.data + 63) & -64
        first = np.int64(0)
        unit = take(counter.ctypes.data)
        for index in range(len(operands)):
            op = operands[index]
            across = (op.inner + op.unit_inner - 1) // op.unit_inner
            while unit < first + op.units:
                i0, h0 = (unit - first) // across * op.unit_rows, (unit - first) % across * op.unit_inner
                for h in range(h0, min(h0 + op.unit_inner, op.inner), INNER):
                    for i in range(i0, min(i0 + op.unit_rows, op.rows), LINES):
                        if h == h0 or op.unit_rows > LINES:
                            finite = write_factors(op, i, min(LINES, op.rows - i), factors)
                        split_block(op, i, h, finite, block, factors, words)
                take(counter.ctypes.data + 8)
                unit = take(counter.ctypes.data)
            first += op.units

    @compiled
    def round_numbers(p, y, step, out, i, j, many, doubles, digits):
        """Write numbers of a row, at most GROUP of them, from their residues y, y + step, ..."""
        to = out + i * p.row_step + j * p.column_step
        straight = many == GROUP and p.column_step == 8 and not p.single
        target = to if straight else doubles
        exponent, scales = -read_int(p.row_scales + 4 * i), p.column_scales + 4 * j
        undecided = round_group(y, step, p.round_table, p.pairs, exponent, scales, p.limits, target)
        if undecided:
            for c in range(many):
                if undecided >> c & 1:
                    power_of_two = exponent - read_int(scales + 4 * c)
                    write_double(target + 8 * c, round_alone(y + c, step, p, power_of_two, digits))
        if p.single and many == GROUP and p.column_step == 4:
            narrow_group(target, to)
        elif not straight:
            for c in range(many):
                x = read_double(doubles + 8 * c)
                if p.single:
                    write_single(to + c * p.column_step, x)
                else:
                    write_double(to + c * p.column_step, x)

    @compiled
    def round_panel(p, y, step, i0, rows, j0, columns, part, doubles, digits):
        """Round the numbers of a panel, from row i0 and column j0 on, whose residues lie as tiles."""
        out, row_tiles = p.imaginary if part else p.real, (rows + ROWS - 1) // ROWS
        for tile in range(row_tiles * ((columns + COLUMNS - 1) // COLUMNS)):
            i1, j1 = tile % row_tiles * ROWS, tile // row_tiles * COLUMNS
            if p.symmetric and i0 + i1 + ROWS <= j0 + j1:
                continue
            for i in range(i1, min(i1 + ROWS, rows)):
                for j in range(j1, min(j1 + COLUMNS, columns), GROUP):
                    at = y + tile * TILE + (i - i1) * COLUMNS + j - j1
                    round_numbers(
                        p, at, step, out, i0 + i, j0 + j, min(np.int64(GROUP), columns - j), doubles, digits
                    )
            if p.symmetric:
                i2, j2 = min(i1 + ROWS, rows), min(j1 + COLUMNS, columns)
                mirror(p, out, i0 + i1, i0 + i2, j0 + j1, j0 + j2, part)

    @compiled
    def multiply_panel(p, i0, row_tiles, j0, column_tiles, y, step, sums):
        """The residues of a panel of the product, as tiles, modulo all moduli.

        In tile registers, a long inner dimension is taken in parts, of which a tile of B stays in L1; sums
        wait in memory.
        """
        of_left, of_right = ROWS * INNER * p.left_blocks, COLUMNS * INNER * p.right_blocks
        parts = (p.blocks + BLOCKS - 1) // BLOCKS
        for t in range(p.count):
            left = p.left + t * p.left_step + i0 * of_left
            right = p.right + t * p.right_step + j0 * of_right
            table, out = p.table + steps.PRODUCT_TABLE * (t % p.moduli), y + t * step
            for part in range(parts):
                blocks, last = min(BLOCKS, p.blocks - part * BLOCKS), part == parts - 1
                fetched = 4 * INNER * blocks
                next_left, next_right = left + ROWS * INNER * blocks, right + COLUMNS * INNER * blocks
                if last:  # the next modulus
                    next_left = left + p.left_step - part * ROWS * INNER * BLOCKS
                    next_right = right + p.right_step - part * COLUMNS * INNER * BLOCKS
                for j in range(column_tiles):
                    after = right + (j + 1) * of_right if j + 1 < column_tiles else next_right
                    for i in range(row_tiles):
                        if p.symmetric and (i0 + i + 1) * ROWS <= (j0 + j) * COLUMNS:
                            continue
                        tile = j * row_tiles + i
                        a, b, to = left + i * of_left, right + j * of_right, out + tile * TILE
                        soon, then = after + i * fetched, next_left + i * of_left + j * fetched
                        if TILES and parts > 1:
                            kept = sums + tile * TILE_SUMS
                            if part == 0:
                                begin_tile(a, b, to, blocks, table, soon, then, kept)
                            elif last:
                                end_tile(a, b, to, blocks, table, soon, then, kept)
                            else:
                                go_on_with_tile(a, b, to, blocks, table, soon, then, kept)
                        else:
                            multiply_tile(a, b, to, blocks, table, soon, then, sums)
                left, right = next_left, next_right

    @compiled
    def multiply_units(panels, counter, y, step, digits, tiles):
        """What one thread does of products. Scratch memory from y on, aligned: residues, `step` bytes from
        one modulus to the next, GROUP numbers, sums; and digits. `tiles` configures registers."""
        if TILES:
            configure(tiles.ctypes.data)
        doubles = y + step * (panels[0].count + 1)
        sums = doubles + 8 * GROUP
        first = np.int64(0)
        unit = take(counter.ctypes.data)
        for index in range(len(panels)):
            p = panels[index]
            while unit < first + p.units:
                residues, apart = y, step
                if p.kept:
                    residues, apart = (
                        p.kept + (unit - first) * p.unit_rows * p.unit_columns * TILE,
                        p.kept_step,
                    )
                across = (p.column_tiles + p.unit_columns - 1) // p.unit_columns
                i0, j0 = (unit - first) // across * p.unit_rows, (unit - first) % across * p.unit_columns
                row_tiles = min(p.unit_rows, p.row_tiles - i0)
                column_tiles = min(p.unit_columns, p.column_tiles - j0)
                size = row_tiles * column_tiles * TILE
                if p.symmetric and (i0 + row_tiles) * ROWS <= j0 * COLUMNS:
                    unit = take(counter.ctypes.data)
                    continue
                if p.blocks:
                    to, by = (y, step) if p.add else (residues, apart)
                    multiply_panel(p, i0, row_tiles, j0, column_tiles, to, by, sums)
                if p.add:
                    for t in range(p.count):
                        x, z = residues + t * apart, y + t * step
                        table = p.add_table + steps.COMBINE_TABLE * (t % p.moduli)
                        combine(x, z, z, x, x, size // GROUP, table)
                if p.finish:
                    image = p.moduli * apart
                    if p.parts == 2:
                        for t in range(p.moduli):
                            x, table = residues + t * apart, p.part_table + steps.COMBINE_TABLE * t
                            third = x + 2 * image if p.count > 2 * p.moduli else x
                            combine(x, x + image, third, x, x + image, size // GROUP, table)
                    i0, j0 = i0 * ROWS, j0 * COLUMNS
                    rows, columns = (
                        min(p.rows - i0, row_tiles * ROWS),
                        min(p.columns - j0, column_tiles * COLUMNS),
                    )
                    for part in range(p.parts):
                        at = residues + part * image
                        round_panel(p, at, apart, i0, rows, j0, columns, part, doubles, digits)
                unit = take(counter.ctypes.data)
            first += p.units
        if TILES:
            release()

    @for_kernel(void(OPERANDS, int64[::1], float64[::1]))
    def split(operands, counter, block):
        """Split operands, in one of several threads."""
        split_units(operands, counter, block)

    @for_kernel(void(PANELS, int64[::1], uint8[::1], int64, int64[::1], BYTES))
    def multiply(panels, counter, memory, step, digits, tiles):
        """Multiply, in one of several threads, in aligned memory."""
        multiply_units(panels, counter, memory.ctypes.data, step, digits, tiles)

    return Loops(split, multiply, split_units, multiply_units)
