"""Sums of sparse products, compiled: of rows one after the other, and of entries in any order.

A row is added up quickly first (`sums_numba`). One that this does not decide, which may cancel to zero or be
a tie, is added up again, carefully. NaN stands for results that are still undecided.
"""

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, uint32, uint64, void

from multiword.runtime.jit import inlined, jit, pasted
from ozaki.sparse.limits import LONGEST, SMALLEST, UNDERFLOW
from ozaki.sparse.sums_numba import add_carefully, add_quickly, ends, extent_of, extract
from ozaki.sums.exact.enclosure_numba import add_product, rounded

EQUALS = {
    "add_rows": "sums.rounded_dot",
    "add_blocks": "sums.rounded_dot",
    "add_complex_rows": "sums.rounded_dot",
    "add_diagonals": "sums.rounded_dot",
    "add_columns": "sums.rounded_dot",
    "add_entries": "sums.rounded_dot",
    "round_sums": "sums.rounded_dot",
    "count_entries": "sums.rounded_dot",
    "place_entries": "sums.rounded_dot",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

INVALID = -1
"""What the loops return where an index is out of range."""

TOGETHER = 1 << 10
"""Entries, of some rows, with one limit: so few that they are near when they are read again."""

SHORT = 8
"""Entries of a row from which `extract` takes less time, in four sums."""

EXACT = 2.0**-105
"""All products are multiples of at least n·sigma times this (`extract`), and nothing is lost."""

INDICES = {"int32": (int32, uint32), "int64": (int64, uint64)}
VALUES = {"float32": float32, "float64": float64}


def _read(dtype, ndim=1):
    return types.Array(dtype, ndim, "C", readonly=True)


def of_kinds(indices, values, signature):
    """A decorator that compiles a loop for these dtypes of a matrix: a dict of functions by both names."""
    return lambda function: {
        (i, v): jit(signature(*indices[i], values[v]))(function) for i in indices for v in values
    }


def _rows(signed, _, value):
    matrix, x = (_read(signed), _read(signed), _read(value)), _read(float64)
    return int64(*matrix, x, _read(float64), boolean, float64[::1])


def _blocks(signed, _, value):
    matrix, x = (_read(signed), _read(signed), _read(value, 3)), _read(float64, 2)
    return int64(*matrix, x, _read(float64), boolean, float64[::1])


def _complex(signed, _, value):
    matrix, x = (_read(signed), _read(signed), _read(value, 2), float64), _read(float64, 2)
    return int64(*matrix, x, x, boolean, float64[:, ::1])


def _columns(signed, unsigned, value):
    return int64(_read(signed), _read(unsigned), _read(value), _read(float64, 2), float64[:, :, ::1])


def _entries(signed, unsigned, value):
    return int64(_read(unsigned), _read(unsigned), _read(value), _read(float64, 2), float64[:, :, ::1])


def _of_row(add):
    """Return the function that adds up a row's entries; it ends with False for an index out of range."""

    @inlined
    def add_up(indices, values, x, begin, end, high, error):
        low, width = 0.0, np.uint64(len(x))
        for p in range(begin, end):
            j = np.uint64(indices[p])
            if j >= width:
                return high, low, error, False
            high, low, error = add(np.float64(values[p]), x[j], high, low, error)
        return high, low, error, True

    return add_up


@inlined
def _extracted_row(indices, values, x, begin, end, sigma, start):
    """Return high and low of a row's sum by `extract`; False for an index out of range."""
    width, one, two, three, four = np.uint64(len(x)), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    high, p = sigma + start, begin
    low = start - (high - sigma)
    if end - begin >= SHORT:  # four sums, none of which waits for another
        high2, high3, high4, low2, low3, low4 = sigma, sigma, sigma, 0.0, 0.0, 0.0
        while p + four <= end:
            i, j = np.uint64(indices[p]), np.uint64(indices[p + one])
            k, m = np.uint64(indices[p + two]), np.uint64(indices[p + three])
            if i >= width or j >= width or k >= width or m >= width:
                return high, low, False
            high, low = extract(np.float64(values[p]), x[i], high, low)
            high2, low2 = extract(np.float64(values[p + one]), x[j], high2, low2)
            high3, low3 = extract(np.float64(values[p + two]), x[k], high3, low3)
            high4, low4 = extract(np.float64(values[p + three]), x[m], high4, low4)
            p += four
        others, first = (high2 - sigma) + ((high3 - sigma) + (high4 - sigma)), high  # exactly
        high += others
        low = ((low + low2) + (low3 + low4)) + (others - (high - first))
    while p < end:
        j = np.uint64(indices[p])
        if j >= width:
            return high, low, False
        high, low = extract(np.float64(values[p]), x[j], high, low)
        p += one
    return high - sigma, low, True


def _of_blocks(add):
    """As `_of_row`, of row k of blocks, which have some columns each."""

    @inlined
    def add_up(indices, values, x, begin, end, k, high, error):
        low, width = 0.0, np.uint64(len(x))
        for p in range(begin, end):
            j = np.uint64(indices[p])
            if j >= width:
                return high, low, error, False
            for c in range(np.uint64(x.shape[1])):
                high, low, error = add(values[p, k, c], x[j, c], high, low, error)
        return high, low, error, True

    return add_up


def _of_complex_row(add):
    """As `_of_row`, of complex numbers; sums are of real and imaginary parts."""

    @inlined
    def add_up(indices, values, sign, x, begin, end, real, imaginary, real_error, imaginary_error):
        real_low, imaginary_low, width = 0.0, 0.0, np.uint64(len(x))
        first, second, valid = np.uint64(0), np.uint64(1), True
        for p in range(begin, end):
            j = np.uint64(indices[p])
            if j >= width:
                valid = False
                break
            a, b, c, d = values[p, first], sign * values[p, second], x[j, first], x[j, second]
            real, real_low, real_error = add(a, c, real, real_low, real_error)
            imaginary, imaginary_low, imaginary_error = add(a, d, imaginary, imaginary_low, imaginary_error)
            real, real_low, real_error = add(-b, d, real, real_low, real_error)
            imaginary, imaginary_low, imaginary_error = add(b, c, imaginary, imaginary_low, imaginary_error)
        return (real, real_low, real_error), (imaginary, imaginary_low, imaginary_error), valid

    return add_up


def _of_diagonals(add):
    """As `_of_row`, of row i of diagonals; what lies outside of the matrix is left out."""

    @inlined
    def add_up(stored, columns, values, x, i, high, error):
        low, width, length = 0.0, np.uint64(len(x)), np.uint64(values.shape[1])
        for d in range(np.uint64(len(columns))):
            j, q = np.uint64(i + columns[d]), np.uint64(i + stored[d])
            if j < width and q < length:
                high, low, error = add(values[d, q], x[j], high, low, error)
        return high, low, error

    return add_up


_row, _row_again = _of_row(add_quickly), _of_row(add_carefully)
_block, _block_again = _of_blocks(add_quickly), _of_blocks(add_carefully)
_complex_row, _complex_row_again = _of_complex_row(add_quickly), _of_complex_row(add_carefully)
_diagonal, _diagonal_again = _of_diagonals(add_quickly), _of_diagonals(add_carefully)


@inlined
def _add_quickly(pointers, indices, values, stored, x, initial, single, first, last, out):
    """Sum the rows from first to last quickly, and carefully where that does not decide."""
    undecided, added = 0, len(initial) > 0
    for i in range(first, last):
        begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + np.uint64(1)])
        if end < begin or end > stored:
            return INVALID
        start = initial[i] if added else 0.0
        high, low, total, valid = _row(indices, values, x, begin, end, start, abs(start))
        if not valid:
            return INVALID
        value, below = ends(high, low, total, end - begin, single)
        if value != below or end - begin > LONGEST:  # NaN, too, differs
            high, low, error, _ = _row_again(indices, values, x, begin, end, start, 0.0)
            value = rounded(high, low, error, single)
            undecided += value != value
        out[i] = value + 0.0  # a sum that begins with +0 is not −0
    return undecided


@inlined
def _add_extracted(pointers, indices, values, stored, x, initial, single, first, last, limit, unit, out):
    """Sum the rows by `extract`; return how many that leaves undecided, as NaN, or INVALID.

    limit : four times what no product exceeds. unit : a power of two that divides all products, or 0.
    """
    undecided, added = 0, len(initial) > 0
    for i in range(first, last):
        begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + np.uint64(1)])
        if end < begin or end > stored:
            return INVALID
        start = initial[i] if added else 0.0
        sigma = np.float64(end - begin) * limit + (4 * abs(start) + SMALLEST)
        high, low, valid = _extracted_row(indices, values, x, begin, end, sigma, start)
        if not valid:
            return INVALID
        if np.float64(end - begin) * sigma * EXACT <= unit:
            value = below = high + low
        else:
            value, below = ends(high, low, sigma, end - begin, single)
        decided = value == below and end - begin <= LONGEST
        undecided += not decided
        out[i] = value + 0.0 if decided else np.nan
    return undecided


@of_kinds(INDICES, VALUES, _rows)
def add_rows(pointers, indices, values, x, initial, single, out):
    """Write RN(initial + Σ values·x) of each row to `out`; return how many are undecided, or INVALID.

    pointers : (rows + 1,), where the entries of rows begin.
    indices : of columns; as an unsigned number a negative one is too large.
    initial : (rows,), or empty.
    single : round to float32.
    """
    undecided, stored = 0, np.uint64(min(len(indices), len(values)))
    # Negative ones are too large, as well.
    rows, begin, end = np.uint64(len(out)), np.uint64(pointers[0]), np.uint64(pointers[len(out)])
    if end < begin or end > stored:
        return INVALID
    mean, first, step = np.float64(end - begin) / max(1, len(out)), np.uint64(0), rows
    # For `extract` all of x is read once more, and so is each entry of the rows that have one limit.
    extracting = end - begin >= np.uint64(len(x))
    if extracting:
        largest, unit_of_x = extent_of(x)
        step = max(np.uint64(1), np.uint64(TOGETHER) * rows // max(np.uint64(1), end - begin))
        while first < rows and extracting:
            last = min(first + step, rows)
            begin, end = np.uint64(pointers[first]), np.uint64(pointers[last])
            if end < begin or end > stored:
                return INVALID
            of_values, unit_of_values = extent_of(values[begin:end])
            limit, unit = 4 * (largest * of_values), unit_of_values * unit_of_x
            if len(initial) or single or not unit > UNDERFLOW:
                unit = 0.0
            if mean < SHORT and mean * mean * limit * EXACT > unit:
                break
            count = _add_extracted(
                pointers, indices, values, stored, x, initial, single, first, last, limit, unit, out
            )
            if count < 0:
                return INVALID
            extracting = 2 * count <= last - first  # else most of it is in vain
            if count:
                for i in range(first, last):
                    if out[i] != out[i]:
                        undecided += _add_quickly(
                            pointers, indices, values, stored, x, initial, single, i, i + np.uint64(1), out
                        )
            first = last
    count = _add_quickly(pointers, indices, values, stored, x, initial, single, first, rows, out)
    return INVALID if count < 0 else undecided + count


@of_kinds(INDICES, {"float64": float64}, _blocks)
def add_blocks(pointers, indices, values, x, initial, single, out):
    """As `add_rows`, of blocks of rows and columns.

    values : (blocks, r, c).
    x : (blocks of columns, c). out : (blocks of rows · r,).
    """
    undecided, added, stored = 0, len(initial) > 0, np.uint64(min(len(indices), len(values)))
    each = np.uint64(values.shape[1])
    for block in range(np.uint64(len(pointers) - 1)):
        begin, end = np.uint64(pointers[block]), np.uint64(pointers[block + np.uint64(1)])
        if end < begin or end > stored:
            return INVALID
        count = (end - begin) * np.uint64(values.shape[2])
        for k in range(each):
            i = block * each + k
            start = initial[i] if added else 0.0
            high, low, total, valid = _block(indices, values, x, begin, end, k, start, abs(start))
            if not valid:
                return INVALID
            value, below = ends(high, low, total, count, single)
            if value != below or count > LONGEST:
                high, low, error, _ = _block_again(indices, values, x, begin, end, k, start, 0.0)
                value = rounded(high, low, error, single)
                undecided += value != value
            out[i] = value + 0.0
    return undecided


@of_kinds(INDICES, {"float64": float64}, _complex)
def add_complex_rows(pointers, indices, values, sign, x, initial, single, out):
    """As `add_rows`, of complex numbers, which are pairs along an axis.

    sign : −1 for conjugates of the values.
    """
    undecided, added, stored = 0, len(initial) > 0, np.uint64(min(len(indices), len(values)))
    first, second = np.uint64(0), np.uint64(1)
    for i in range(np.uint64(len(out))):
        begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + second])
        if end < begin or end > stored:
            return INVALID
        c, d = (initial[i, first], initial[i, second]) if added else (0.0, 0.0)
        real, imaginary, valid = _complex_row(indices, values, sign, x, begin, end, c, d, abs(c), abs(d))
        if not valid:
            return INVALID
        count = np.uint64(2) * (end - begin)
        of_real, of_imaginary = ends(*real, count, single), ends(*imaginary, count, single)
        value, other = of_real[0], of_imaginary[0]
        if value != of_real[1] or other != of_imaginary[1] or count > LONGEST:
            real, imaginary, _ = _complex_row_again(indices, values, sign, x, begin, end, c, d, 0.0, 0.0)
            value, other = rounded(*real, single), rounded(*imaginary, single)
            undecided += (value != value) + (other != other)
        out[i, first], out[i, second] = value + 0.0, other + 0.0
    return undecided


@jit(
    int64(
        int64,
        _read(int64),
        _read(int64),
        _read(float64, 2),
        _read(float64),
        _read(float64),
        boolean,
        float64[::1],
    )
)
def add_diagonals(first, stored, columns, values, x, initial, single, out):
    """As `add_rows`, of diagonals and the rows from `first` on.

    values : (diagonals, length). Row i has values[d, i + stored[d]] in column i + columns[d].
    """
    undecided, added = 0, len(initial) > 0
    for i in range(np.uint64(len(out))):
        start = initial[i] if added else 0.0
        row = np.int64(i) + first
        high, low, total = _diagonal(stored, columns, values, x, row, start, abs(start))
        value, below = ends(high, low, total, np.uint64(len(columns)), single)
        if value != below or len(columns) > LONGEST:
            high, low, error = _diagonal_again(stored, columns, values, x, row, start, 0.0)
            value = rounded(high, low, error, single)
            undecided += value != value
        out[i] = value + 0.0
    return undecided


@pasted
def _add_entry(i, j, value, x, sums):
    """Add value·x[j] to the enclosures of row i."""
    zero = np.uint64(0)
    if x.shape[1] == 1:  # views of rows would take longer than the sum
        total = sums[i, 0, zero], sums[i, 1, zero], sums[i, 2, zero]
        total = add_product(value, x[j, zero], *total, False)
        sums[i, 0, zero], sums[i, 1, zero], sums[i, 2, zero] = total
    else:
        line, of_x = sums[i], x[j]
        high, low, error = line[0], line[1], line[2]
        for c in range(len(of_x)):
            high[c], low[c], error[c] = add_product(value, of_x[c], high[c], low[c], error[c], False)


@of_kinds(INDICES, {"float64": float64}, _columns)
def add_columns(pointers, indices, values, x, sums):
    """Add the products of a matrix whose entries lie column by column to the enclosures of their rows.

    x, sums : as in `add_entries`, which returns the same.
    """
    height, stored = np.uint64(len(sums)), np.uint64(len(values))
    for j in range(np.uint64(len(x))):
        begin, end = np.uint64(pointers[j]), np.uint64(pointers[j + np.uint64(1)])
        if end < begin or end > stored:
            return INVALID
        for p in range(begin, end):
            i = np.uint64(indices[p])
            if i >= height:
                return INVALID
            _add_entry(i, j, values[p], x, sums)
    return 0


@of_kinds(INDICES, {"float64": float64}, _entries)
def add_entries(rows, columns, values, x, sums):
    """Add values·x of entries to the enclosures of their rows; return INVALID where an index is out of range.

    rows, columns : unsigned. x : (columns, k). sums : (rows, 3, k), high, low and error of each row.
    """
    height, width = np.uint64(len(sums)), np.uint64(len(x))
    for p in range(np.uint64(len(values))):
        i, j = np.uint64(rows[p]), np.uint64(columns[p])
        if i >= height or j >= width:
            return INVALID
        _add_entry(i, j, values[p], x, sums)
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
