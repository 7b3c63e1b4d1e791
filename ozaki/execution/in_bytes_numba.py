"""All steps of a product in one compiled call, by one thread or by several that meet after each step.

Threads take units of work from counters: one that comes late finds none left. One that has waited too long
for another's last unit returns the step that it is at; its caller lets others run, and calls again.
"""

from functools import cache, partial

import numpy as np
from numba import float64, from_dtype, int32, int64, types, uint8, uint64
from numba.np.arrayobj import make_array, populate_array

from multiword.engines.int8_cpu.at_once import OPERANDS, PANELS
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.engines.int8_cpu.loops import compile_loops
from multiword.runtime.addresses import I32, I64, count_now, instruction, pause, take
from multiword.runtime.jit import jit
from ozaki.certificate.counting_numba import ANYTHING, certify
from ozaki.definition.statistics import LEVELS
from ozaki.scaling.statistics_numba import LINES, statistics_of_rows

STATISTICS, SCALES, SPLIT, MULTIPLY, FINISHED = range(5)
"""The steps. Each has a counter of the units that are taken, and behind it one of those that are done."""

COUNTER = 8
"""Numbers from one step's counter to the next's: a line of the cache."""

SPINS = 1000
"""How often a thread looks whether others are done before it returns: some tens of microseconds."""

LEVEL_COUNT = len(LEVELS)

Call = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("a", "a_imaginary", "a_matrix", "a_row", "a_inner"),
            *("b", "b_imaginary", "b_matrix", "b_row", "b_inner"),
            *("out", "out_imaginary", "out_matrix", "out_row", "out_column"),
            *("m", "k", "n", "parts", "single", "right_words", "split_units"),
        )
    ]
)
"""Stacks of matrices: addresses of their real and imaginary parts, bytes from one matrix to the next, from
one row of A, or column of B, and from one number of it; sizes, and whether numbers are float32; what
`CompiledSteps` says of the words and the units of the split."""

CALL, TILES = (types.Array(kind, 1, "C", readonly=True) for kind in (from_dtype(Call), uint8))
COUNTS = int32[:, :]
MEMORY = int64, int64, int64, int64[::1], TILES, float64[::1], float64[::1], uint64[::1], float64[:, ::1]


@jit("boolean(int64, int64)", inner=True)
def done(counter, units):
    """Return whether so many units are done, now or soon."""
    for _ in range(SPINS):
        if count_now(counter + 8) >= units:
            return True
        pause()
    return False


@instruction(COUNTS(int64, int64, int64))
def counts_at(context, builder, address, levels, rows):
    """Return the counts of so many first levels, from those of all, row after row.

    Where they are made by `reshape`, numba takes a tenth of its time for that.
    """
    array, strides = make_array(COUNTS)(context, builder), [I64(4), I64(4 * LEVEL_COUNT)]
    data = builder.inttoptr(address, I32.as_pointer())
    populate_array(array, data, [levels, rows], strides, strides[0], None)
    return array._getvalue()


@cache
def compiled_products(kernel, split_units, multiply_units):
    """Return the compiled function for one kernel, by its name, and its steps."""

    def products(
        step, which, expected, call, sync, bits, wide, narrow, limits, operands, panels,
        shared, own, apart, digits, tiles, block, lines, words, reached,
    ):  # fmt: skip
        """Compute products of a stack whose integers grow by `expected` bits; return the step reached.

        which : the products, one after the other; a single one may be computed by several threads.
        sync : the counters. bits : of every product, how many its integers must grow by, or -1.
        wide, narrow : the statistics of a product's rows and columns, and their scales.
        limits : of `certified_scales`. operands, panels : records, to which the addresses are written here.
        shared, own : addresses of memory of all threads, and of this one; the rest is scratch memory.
        """
        c, left, right, p, stack = call[0], operands[0], operands[1], panels[0], len(which) > 1
        rows, units_of_a = c.m + c.n, (c.m + LINES - 1) // LINES
        units = units_of_a + (c.n + LINES - 1) // LINES
        total, square, exponent, width = wide[:rows], wide[rows:], narrow[:rows], narrow[rows : 2 * rows]
        levels = 0 if limits[2] == ANYTHING else LEVEL_COUNT
        counts = counts_at(narrow.ctypes.data + 4 * 2 * rows, levels, rows)
        scale = narrow[(2 + LEVEL_COUNT) * rows : (3 + LEVEL_COUNT) * rows]
        of_statistics, of_scales, of_split, of_products = (
            sync[COUNTER * STATISTICS :],
            sync[COUNTER * SCALES :],
            sync[COUNTER * SPLIT :],
            sync[COUNTER * MULTIPLY :],
        )
        left.row_step, left.inner_step, right.row_step, right.inner_step = (
            c.a_row,
            c.a_inner,
            c.b_row,
            c.b_inner,
        )
        left.out, p.left, right.out, p.right = shared, shared, shared + c.right_words, shared + c.right_words
        left.scales = p.row_scales = scale.ctypes.data
        right.scales = p.column_scales = scale.ctypes.data + 4 * c.m
        p.row_step, p.column_step = c.out_row, c.out_column
        for s in which:
            left.real, left.imaginary = c.a + s * c.a_matrix, c.a_imaginary + s * c.a_matrix
            right.real, right.imaginary = c.b + s * c.b_matrix, c.b_imaginary + s * c.b_matrix
            p.real, p.imaginary = c.out + s * c.out_matrix, c.out_imaginary + s * c.out_matrix
            if stack:
                step = np.int64(STATISTICS)
                for i in range(len(sync)):
                    sync[i] = 0
            if step <= STATISTICS:
                counter = of_statistics.ctypes.data
                unit = take(counter)
                while unit < units:
                    of_b = unit >= units_of_a
                    op = right if of_b else left
                    i = LINES * (unit - units_of_a if of_b else unit)
                    first = (c.m if of_b else 0) + i
                    last = min(first + LINES, rows if of_b else c.m)
                    at = i * op.row_step
                    statistics_of_rows(
                        op.real + at, op.imaginary + at, op.row_step, op.inner_step, c.single, c.parts, c.k,
                        exponent[first:last], total[first:last], square[first:last], counts[:, first:last],
                        lines, words,
                    )  # fmt: skip
                    take(counter + 8)
                    unit = take(counter)
                if not done(counter, units):
                    return np.int64(STATISTICS)
            if step <= SCALES:
                counter = of_scales.ctypes.data
                if take(counter) == 0:
                    certify(
                        exponent, total, square, counts, c.parts * c.k, c.n, limits, scale, width,
                        bits[s : s + 1], reached,
                    )  # fmt: skip
                    take(counter + 8)
                if not done(counter, 1):
                    return np.int64(SCALES)
            if bits[s] == expected:
                split_units(operands, of_split, block)
                if not done(of_split.ctypes.data, c.split_units):
                    return np.int64(SPLIT)
                multiply_units(panels, of_products, own, apart, digits, tiles)
        return np.int64(FINISHED)

    products.__qualname__ = f"products_{kernel}"
    numbers = int64[::1], int64[::1], int64[::1], int32[::1], float64[::1], OPERANDS, PANELS
    return jit(int64(int64, types.Array(int64, 1, "C", readonly=True), int64, CALL, *numbers, *MEMORY))(
        products
    )


def _declare(kernel):
    """Declare what a kernel's products take, step by step and at once."""
    steps = compile_loops(kernel)
    compiled_products(kernel.name, steps.split_units, steps.multiply_units)


ON_DEMAND = tuple(partial(_declare, kernel) for kernel in available_kernels()[:1])
