"""Sums of sparse products, compiled: of rows one after the other, and of entries in any order.

A sum is high + low, both float64, and a bound of what is missing; what both of its ends round to is the
result. The first pass over a row takes the bound of Dot2 (Ogita, Rump and Oishi, Accurate sum and dot
product, Proposition 5.5), which costs the least. A row that this does not decide, which may cancel to zero,
is added up again in an enclosure that watches what is lost. NaN stands for results that are still undecided.
"""

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, uint32, uint64, void

from multiword.runtime.jit import inlined, jit
from ozaki.sums.exact.enclosure_numba import RELATIVE, add_product, rounded, two_sum
from ozaki.sums.exact.extraction_numba import fma

EQUALS = {
    "add_rows": "sums.rounded_dot",
    "add_entries": "sums.rounded_dot",
    "round_sums": "sums.rounded_dot",
    "count_entries": "sums.rounded_dot",
    "place_entries": "sums.rounded_dot",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

INVALID = -1
"""What the loops return where an index is out of range."""

LONGEST = float(1 << 24)
"""Terms of a row up to which the first pass's bound holds, with the roundings of the bound itself."""

UNDERFLOW = 1e-290
"""More than so many products lose by underflow. A subnormal number here would make every row slow."""

INDICES = {"int32": (int32, uint32), "int64": (int64, uint64)}
VALUES = {"float32": float32, "float64": float64}


def _read(dtype, ndim=1):
    return types.Array(dtype, ndim, "C", readonly=True)


def of_kinds(indices, values):
    """A decorator that compiles a loop over rows for these dtypes: a dict of functions by both names."""

    def compiled(function, index, value):
        signed, unsigned = index
        matrix, numbers = (_read(signed), _read(unsigned), _read(value)), _read(float64)
        return jit(int64(*matrix, numbers, numbers, boolean, float64[::1]))(function)

    return lambda function: {
        (i, v): compiled(function, indices[i], values[v]) for i in indices for v in values
    }


@inlined
def _in_enclosure(indices, values, x, begin, end, initial, single):
    """Return a row's sum rounded, or NaN, by a bound of what is really lost."""
    high, low, error = initial, 0.0, 0.0
    for p in range(begin, end):
        high, low, error = add_product(np.float64(values[p]), x[indices[p]], high, low, error, False)
    return rounded(high, low, error, single)


@of_kinds(INDICES, VALUES)
def add_rows(pointers, indices, values, x, initial, single, out):
    """Write RN(initial + Σ values·x) of each row to `out`; return how many are undecided, or INVALID.

    pointers : (rows + 1,), where the entries of rows begin.
    indices : unsigned, so that a negative one is too large.
    initial : (rows,), or empty.
    single : round to float32.
    """
    undecided, width, added, stored = 0, np.uint64(len(x)), len(initial) > 0, np.uint64(len(values))
    for i in range(len(out)):
        begin, end = (
            np.uint64(pointers[i]),
            np.uint64(pointers[i + 1]),
        )  # negative ones are too large, as well
        if end < begin or end > stored:
            return INVALID
        start = initial[i] if added else 0.0
        high, low, total = start, 0.0, abs(start)
        for p in range(begin, end):
            j = np.uint64(indices[p])
            if j >= width:
                return INVALID
            a, b = np.float64(values[p]), x[j]
            product = a * b
            high, lost = two_sum(high, product)
            low += fma(a, b, -product) + lost
            total += abs(product)
        terms = np.float64(end - begin) + 1.0
        bound = total * (terms * terms * 2.0**-104) + UNDERFLOW
        if single:  # rounded twice
            bound += abs(high) * RELATIVE
        value, below = high + (low + bound), high + (low - bound)
        if single:
            value, below = np.float64(np.float32(value)), np.float64(np.float32(below))
        if value != below or terms > LONGEST:  # NaN, too, differs
            value = _in_enclosure(indices, values, x, begin, end, start, single)
            undecided += value != value
        out[i] = value + 0.0  # a sum that begins with +0 is not −0
    return undecided


@jit(int64(_read(int64), _read(int64), _read(float64), _read(float64, 2), int64, float64[:, :, ::1]))
def add_entries(rows, columns, values, x, first, sums):
    """Add values·x of entries to the enclosures of their rows; return INVALID where an index is out of range.

    x : (columns, k). sums : (rows, 3, k), high, low and error of the rows from `first` on.
    """
    height, width, zero = np.uint64(len(sums)), np.uint64(len(x)), np.uint64(0)
    for p in range(len(values)):
        i, j = np.uint64(rows[p] - first), np.uint64(columns[p])
        if i >= height or j >= width:
            return INVALID
        if x.shape[1] == 1:  # views of rows would take longer than the sum
            total = sums[i, 0, zero], sums[i, 1, zero], sums[i, 2, zero]
            total = add_product(values[p], x[j, zero], *total, False)
            sums[i, 0, zero], sums[i, 1, zero], sums[i, 2, zero] = total
            continue
        line, of_x, value = sums[i], x[j], values[p]
        high, low, error = line[0], line[1], line[2]
        for c in range(len(of_x)):
            high[c], low[c], error[c] = add_product(value, of_x[c], high[c], low[c], error[c], False)
    return 0


@jit(int64(float64[:, :, ::1], boolean, float64[:, ::1]))
def round_sums(sums, single, out):
    """Write what enclosures round to, or NaN; return how many are undecided."""
    undecided = 0
    for i in range(len(out)):
        for c in range(out.shape[1]):
            value = rounded(sums[i, 0, c], sums[i, 1, c], sums[i, 2, c], single)
            out[i, c] = value + 0.0
            undecided += value != value
    return undecided


@jit(int64(_read(int64), int64[::1]))
def count_entries(rows, counts):
    """Add the entries of each row to the count behind its own; return INVALID where a row is out of range."""
    height = np.uint64(len(counts) - 1)
    for p in range(len(rows)):
        i = np.uint64(rows[p])
        if i >= height:
            return INVALID
        counts[i + np.uint64(1)] += 1
    return 0


@jit(void(_read(int64), _read(int64), _read(float64), int64[::1], int64[::1], float64[::1]))
def place_entries(rows, columns, values, ends, indices, numbers):
    """Write entries, whose rows are in range, behind those of their rows that are there."""
    for p in range(len(rows)):
        i = np.uint64(rows[p])
        place = np.uint64(ends[i])
        indices[place], numbers[place] = columns[p], values[p]
        ends[i] += 1
