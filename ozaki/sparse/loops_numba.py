"""Sums of sparse products, compiled: of rows one after the other, and of entries in any order.

A row is added up quickly first (`sums_numba`). One that this does not decide, which may cancel to zero or be
a tie, is added up again, carefully. NaN stands for results that are still undecided.
"""

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, uint32, uint64

from multiword.runtime.addresses import on_stack, plus, to_doubles_at
from multiword.runtime.jit import inlined, jit, pasted
from ozaki.sparse.columns_numba import row_adder
from ozaki.sparse.limits import LONGEST, SMALLEST, UNDERFLOW
from ozaki.sparse.sums_numba import (
    add_carefully,
    add_quickly,
    bound_of,
    bound_within,
    ends,
    extract,
    largest_and_unit_of,
    largest_of,
    not_minus_zero,
)
from ozaki.sums.exact.enclosure_numba import add_product, rounded
from ozaki.sums.exact.extraction_numba import fma

EQUALS = {
    "add_rows": "sums.rounded_dot",
    "add_wide_rows": "sums.rounded_dot",
    "add_blocks": "sums.rounded_dot",
    "add_complex_rows": "sums.rounded_dot",
    "add_diagonals": "sums.rounded_dot",
    "add_columns": "sums.rounded_dot",
    "add_entries": "sums.rounded_dot",
    "round_sums": "sums.rounded_dot",
    "sort_columns": "sums.rounded_dot",
    "sort_entries": "sums.rounded_dot",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

INVALID = -1
"""What the loops return where an index is out of range."""

TOGETHER = 1 << 11
"""Entries, of some rows, with one sigma: so few that they are near when they are read again."""

SHARE = np.uint64(8)
"""Of those, the first rows have so little: they may have to be read twice, to be exact."""

LONG = 32
"""Entries of a row from which several sums take less time, side by side, than one."""

LONGEST_PAUSE = 16
"""Steps without one sigma at most, after rows that it did not decide: those beside a heavy row, or all."""

FURTHEST = np.int64(1 << 62)
"""What an offset of a diagonal may as well be, where it is further below: no row is so far."""

EXACT = 2.0**-105
"""All terms are multiples of at least (n + 1)·sigma times this (`extract`), and nothing is lost."""

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


def _wide_rows(signed, _, value):
    matrix, x = (_read(signed), _read(signed), _read(value)), _read(float64, 2)
    return int64(*matrix, x, x, boolean, float64[:, ::1])


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


@inlined
def _longest_row(pointers, indices, stored, width, first, last):
    """Return the most entries of a row from first to last, or INVALID: the one check of what loops read.

    stored : entries that there are. width : columns. As unsigned numbers negative pointers are too large.
    """
    longest, valid = np.uint64(0), np.uint64(pointers[first]) <= stored
    for i in range(first, last):
        begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + np.uint64(1)])
        valid &= (begin <= end) & (end <= stored)
        longest = max(longest, end - begin)
    begin, end = np.uint64(pointers[first]), np.uint64(pointers[last])
    if not valid or begin == end:
        return np.int64(0 if valid else INVALID)
    least = most = indices[begin]
    for p in range(begin, end):
        least, most = min(least, indices[p]), max(most, indices[p])
    return np.int64(longest) if least >= 0 and np.uint64(most) < width else np.int64(INVALID)


def _of_row(add):
    """Return the function that adds up a row's entries."""

    @inlined
    def add_up(indices, values, x, begin, end, high, error):
        low = 0.0
        for p in range(begin, end):
            high, low, error = add(np.float64(values[p]), x[np.uint64(indices[p])], high, low, error)
        return high, low, error

    return add_up


def _of_extracted_rows(plus):
    """Return the function that sums the rows from first to last by `extract`, added up by `plus`.

    It writes NaN for those that this leaves undecided, and returns how many.
    """

    @inlined
    def add_up(pointers, indices, values, x, initial, first, last, sigma, bound, lows, out):
        added, end = len(initial) > 0, np.uint64(pointers[first])
        for i in range(first, last):
            begin, end = end, np.uint64(pointers[i + np.uint64(1)])
            start = initial[i] if added else 0.0
            high = (sigma + start) - sigma
            low = start - high
            for p in range(begin, end):
                upper, lower = extract(np.float64(values[p]), x[np.uint64(indices[p])], sigma)
                high, low = plus(high, upper), plus(low, lower)
            out[i], lows[i - first] = high, low
        undecided = np.int64(0)
        for i in range(first, last):  # a loop of its own becomes vector instructions
            margin = bound if pointers[i] < pointers[i + np.uint64(1)] else 0.0
            value, below = ends(out[i], lows[i - first], margin, False)
            undecided += value != below
            out[i] = value + 0.0 if value == below else np.nan
        return undecided

    return add_up


def _of_blocks(add):
    """As `_of_row`, of row k of blocks, which have some columns each."""

    @inlined
    def add_up(indices, values, x, begin, end, k, high, error):
        low = 0.0
        for p in range(begin, end):
            j = np.uint64(indices[p])
            for c in range(np.uint64(x.shape[1])):
                high, low, error = add(values[p, k, c], x[j, c], high, low, error)
        return high, low, error

    return add_up


def _of_complex_row(add):
    """As `_of_row`, of complex numbers; sums are of real and imaginary parts."""

    @inlined
    def add_up(indices, values, sign, x, begin, end, real, imaginary, real_error, imaginary_error):
        real_low, imaginary_low, first, second = 0.0, 0.0, np.uint64(0), np.uint64(1)
        for p in range(begin, end):
            j = np.uint64(indices[p])
            a, b, c, d = values[p, first], sign * values[p, second], x[j, first], x[j, second]
            real, real_low, real_error = add(a, c, real, real_low, real_error)
            imaginary, imaginary_low, imaginary_error = add(a, d, imaginary, imaginary_low, imaginary_error)
            real, real_low, real_error = add(-b, d, real, real_low, real_error)
            imaginary, imaginary_low, imaginary_error = add(b, c, imaginary, imaginary_low, imaginary_error)
        return (real, real_low, real_error), (imaginary, imaginary_low, imaginary_error)

    return add_up


@inlined
def _diagonal_again(stored, columns, values, x, i, high, error):
    """As `_of_row`, carefully, of row i of diagonals; what lies outside of the matrix is left out."""
    low, width, length = 0.0, np.uint64(len(x)), np.uint64(values.shape[1])
    for d in range(np.uint64(len(columns))):
        j, q = np.uint64(i + columns[d]), np.uint64(i + stored[d])
        if j < width and q < length:
            high, low, error = add_carefully(values[d, q], x[j], high, low, error)
    return high, low, error


@inlined
def _add_diagonals(row, stored, columns, values, x, high, low, total):
    """Add up the products of rows from `row` on, side by side."""
    for d in range(np.uint64(len(columns))):
        # The rows that have a number of this diagonal; offsets may be any integers.
        j, q = max(row + columns[d], -FURTHEST), max(row + stored[d], -FURTHEST)
        begin, end = max(np.int64(0), -j, -q), min(len(high), len(x) - j, values.shape[1] - q)
        if begin < end:
            line, of_x = values[d, q + begin : q + end], x[j + begin : j + end]
            upper, lower, size = high[begin:end], low[begin:end], total[begin:end]
            for i in range(np.uint64(len(line))):
                upper[i], lower[i], size[i] = add_quickly(line[i], of_x[i], upper[i], lower[i], size[i])


@inlined
def _end_diagonals(high, low, total, count, unit, single, out):
    """Write what sums round to, NaN where that is undecided; return how many are."""
    undecided = 0
    for i in range(np.uint64(len(out))):
        value, below = ends(high[i], low[i], bound_within(total[i], count, unit), single)
        out[i] = not_minus_zero(value, single) if value == below else np.nan
        undecided += value != below
    return undecided


_row, _row_again = _of_row(add_quickly), _of_row(add_carefully)
room = on_stack(TOGETHER)
_short_rows, _long_rows = _of_extracted_rows(inlined(lambda x, y: x + y)), _of_extracted_rows(plus)
_block, _block_again = _of_blocks(add_quickly), _of_blocks(add_carefully)
_complex_row, _complex_row_again = _of_complex_row(add_quickly), _of_complex_row(add_carefully)


@inlined
def _rows_to_float32(pointers, indices, values, x, initial, first, last, longest, out):
    """As `_of_extracted_rows`, rounded to float32, for which plain sums are narrow enough.

    With u = 2**-53 n products and their sums lose at most (n + 1)u·T, where T is the sum of magnitudes; the
    rest of the bound is for its own rounding and that of its ends.
    """
    undecided, added, loss = 0, len(initial) > 0, np.float64(longest + 4) * 2.0**-52
    for i in range(first, last):
        high = initial[i] if added else 0.0
        total = abs(high)
        for p in range(np.uint64(pointers[i]), np.uint64(pointers[i + np.uint64(1)])):
            product = np.float64(values[p]) * x[np.uint64(indices[p])]
            high, total = high + product, total + abs(product)
        bound = fma(total, loss, UNDERFLOW)
        value, below = np.float32(high + bound), np.float32(high - bound)
        if value == below:
            out[i] = np.float64(value) + 0.0
        else:
            undecided += 1
            out[i] = np.nan
    return undecided


@inlined
def _extract_rows(
    pointers, indices, values, x, initial, first, last, longest, sigma, exact, units, lows, out
):
    """Sum the rows from first to last, of so many entries at most, by `extract`.

    Ties and zeros are decided where a power of two divides all products, so that nothing is lost.

    exact : whether that is likely, as in the rows before.
    units : powers of two that divide x and these entries, or 0; negative as long as they are not known.

    Returns how many are undecided, whether nothing was lost, and the unit of x.
    """
    unit, of_some = units
    matrix, left = (pointers, indices, values, x, initial), np.int64(last - first)
    some = values[np.uint64(pointers[first]) : np.uint64(pointers[last])]
    for again in range(2):
        if exact or again:
            unit = largest_and_unit_of(x)[1] if unit < 0 else unit
            of_some = largest_and_unit_of(some)[1] if of_some < 0 else of_some
            of_terms = unit * of_some
            if len(initial):
                of_terms = min(of_terms, largest_and_unit_of(initial[first:last])[1])
            exact = of_terms > UNDERFLOW and np.float64(longest + 1) * sigma * EXACT <= of_terms
        if again and not exact:
            break
        bound = 0.0 if exact else bound_of(sigma, np.uint64(longest))
        if longest >= LONG:
            left = _long_rows(*matrix, first, last, sigma, bound, lows, out)
        else:
            left = _short_rows(*matrix, first, last, sigma, bound, lows, out)
        if not left or exact:
            break
    return left, exact, unit


@inlined
def _add_row(pointers, indices, values, x, initial, single, i, out):
    """Sum a row quickly, and carefully where that does not decide; return whether this does not, either."""
    begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + np.uint64(1)])
    start = initial[i] if len(initial) else 0.0
    high, low, total = _row(indices, values, x, begin, end, start, abs(start))
    value, below = ends(high, low, bound_of(total, end - begin), single)
    if value != below or end - begin > LONGEST:  # NaN, too, differs
        value = rounded(*_row_again(indices, values, x, begin, end, start, 0.0), single)
    out[i] = not_minus_zero(value, single)
    return value != value


@of_kinds(INDICES, VALUES, _rows)
def add_rows(pointers, indices, values, x, initial, single, out):
    """Write RN(initial + Σ values·x) of each row to `out`; return how many are undecided, or INVALID.

    pointers : (rows + 1,), where the entries of rows begin.
    indices : of columns.
    initial : (rows,), or empty.
    single : round to float32.
    """
    rows, width, stored = np.uint64(len(out)), np.uint64(len(x)), np.uint64(min(len(indices), len(values)))
    entries = max(np.uint64(1), np.uint64(pointers[rows]) - np.uint64(pointers[0]))
    step = min(max(np.uint64(1), np.uint64(TOGETHER) * rows // entries), np.uint64(TOGETHER))
    # For `extract` all of x is read once more, which takes an eighth of what an entry does, and so is each
    # entry of the rows that have one sigma.
    extracting, exact = np.uint64(8) * entries >= width and not single, False
    largest, unit, lows = largest_of(x) if extracting else 0.0, -1.0, to_doubles_at(room(), TOGETHER)
    undecided, first, pause, patience = 0, np.uint64(0), 0, 1
    while first < rows:
        last = min(first + (step if first else np.uint64(1) + step // SHARE), rows)
        longest = _longest_row(pointers, indices, stored, width, first, last)
        if longest == INVALID:
            return INVALID
        matrix, left = (pointers, indices, values, x, initial), np.int64(last - first)
        if longest > LONGEST or pause > 0 or not (extracting or single):
            out[first:last] = np.nan
            pause -= 1
        elif single:
            left = _rows_to_float32(*matrix, first, last, longest, out)
        else:
            some = values[np.uint64(pointers[first]) : np.uint64(pointers[last])]
            of_matrix, of_some = largest_and_unit_of(some) if exact else (largest_of(some), -1.0)
            sigma = 4 * np.float64(longest) * (largest * of_matrix) + SMALLEST
            if len(initial):
                sigma += 4 * largest_of(initial[first:last])
            units = unit, of_some
            left, exact, unit = _extract_rows(*matrix, first, last, longest, sigma, exact, units, lows, out)
            if 2 * left > last - first:  # most of it was in vain
                pause, patience = patience, min(2 * patience, LONGEST_PAUSE)
            else:
                patience = 1
        for i in range(first, last if left else first):
            if out[i] != out[i]:
                undecided += _add_row(*matrix, single, i, out)
        first = last
    return undecided


@inlined
def _unit_of_terms(values, x, initial):
    """Return a power of two that divides all products of values and x, and what is added to these; or 0."""
    unit = largest_and_unit_of(values)[1] * largest_and_unit_of(x)[1]
    unit = min(unit, largest_and_unit_of(initial)[1])
    return unit if unit > UNDERFLOW else 0.0


COLUMNS, FEW = 8, 4
"""Columns of wide rows that are added up side by side, and of those that have fewer than so many."""

_columns_of_row, _few_columns_of_row = row_adder(COLUMNS), row_adder(FEW)


@inlined
def _wide_row(indices, values, count, x, start, added, unit, single, out):
    """Add up a row in all columns, from numbers at the address `start`; return 0 if all are decided."""
    left, lanes = np.int64(0), COLUMNS if len(out) >= COLUMNS else FEW
    for c in range(0, len(out), lanes):
        first = 8 * min(c, len(out) - lanes)  # the last columns are some of those before, too
        begin, to = start + (first if added else 0), out.ctypes.data + first
        given = indices, values, count, x.ctypes.data + first, x.strides[0], begin, unit, single, to
        left |= _columns_of_row(*given) if lanes == COLUMNS else _few_columns_of_row(*given)
    return left


@of_kinds(INDICES, VALUES, _wide_rows)
def add_wide_rows(pointers, indices, values, x, initial, single, out):
    """As `add_rows`, of x, initial and out of at least FEW columns, which are added up side by side."""
    undecided, unit, added, rows = 0, -1.0, len(initial) > 0, np.uint64(len(out))
    stored, zeros = np.uint64(min(len(indices), len(values))), to_doubles_at(room(), COLUMNS)
    if _longest_row(pointers, indices, stored, np.uint64(len(x)), np.uint64(0), rows) == INVALID:
        return INVALID
    zeros[:] = 0.0
    for i in range(rows):
        begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + np.uint64(1)])
        start = initial[i].ctypes.data if added else zeros.ctypes.data
        row = indices[begin:], values[begin:], np.int64(end - begin), x, start, added
        left = _wide_row(*row, max(unit, 0.0), single, out[i])
        if left and unit < 0:  # ties and zeros, as likely as not, where a power of two divides all terms
            unit = _unit_of_terms(values, x.reshape(x.size), initial.reshape(initial.size))
            left = _wide_row(*row, unit, single, out[i])
        long = end - begin > LONGEST
        for c in range(out.shape[1] if left or long else 0):
            if out[i, c] != out[i, c] or long:
                first = initial[i, c] if added else 0.0
                value = rounded(*_row_again(indices, values, x[:, c], begin, end, first, 0.0), single)
                out[i, c] = not_minus_zero(value, single)
                undecided += value != value
    return undecided


@of_kinds(INDICES, {"float64": float64}, _blocks)
def add_blocks(pointers, indices, values, x, initial, single, out):
    """As `add_rows`, of blocks of rows and columns.

    values : (blocks, r, c).
    x : (blocks of columns, c). out : (blocks of rows · r,).
    """
    undecided, added = 0, len(initial) > 0
    each, lines = np.uint64(values.shape[1]), np.uint64(len(pointers) - 1)
    stored = np.uint64(min(len(indices), len(values)))
    if _longest_row(pointers, indices, stored, np.uint64(len(x)), np.uint64(0), lines) == INVALID:
        return INVALID
    for block in range(lines):
        begin, end = np.uint64(pointers[block]), np.uint64(pointers[block + np.uint64(1)])
        count = (end - begin) * np.uint64(values.shape[2])
        for k in range(each):
            i = block * each + k
            start = initial[i] if added else 0.0
            high, low, total = _block(indices, values, x, begin, end, k, start, abs(start))
            value, below = ends(high, low, bound_of(total, count), single)
            if value != below or count > LONGEST:
                value = rounded(*_block_again(indices, values, x, begin, end, k, start, 0.0), single)
                undecided += value != value
            out[i] = not_minus_zero(value, single)
    return undecided


@of_kinds(INDICES, {"float64": float64}, _complex)
def add_complex_rows(pointers, indices, values, sign, x, initial, single, out):
    """As `add_rows`, of complex numbers, which are pairs along an axis.

    sign : −1 for conjugates of the values.
    """
    undecided, added, stored = 0, len(initial) > 0, np.uint64(min(len(indices), len(values)))
    first, second, rows = np.uint64(0), np.uint64(1), np.uint64(len(out))
    if _longest_row(pointers, indices, stored, np.uint64(len(x)), first, rows) == INVALID:
        return INVALID
    for i in range(rows):
        begin, end = np.uint64(pointers[i]), np.uint64(pointers[i + second])
        c, d = (initial[i, first], initial[i, second]) if added else (0.0, 0.0)
        real, imaginary = _complex_row(indices, values, sign, x, begin, end, c, d, abs(c), abs(d))
        count = np.uint64(2) * (end - begin)
        of_real = ends(real[0], real[1], bound_of(real[2], count), single)
        of_imaginary = ends(imaginary[0], imaginary[1], bound_of(imaginary[2], count), single)
        value, other = of_real[0], of_imaginary[0]
        if value != of_real[1] or other != of_imaginary[1] or count > LONGEST:
            real, imaginary = _complex_row_again(indices, values, sign, x, begin, end, c, d, 0.0, 0.0)
            value, other = rounded(*real, single), rounded(*imaginary, single)
            undecided += (value != value) + (other != other)
        out[i, first], out[i, second] = not_minus_zero(value, single), not_minus_zero(other, single)
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
    undecided, unit, added, count = 0, -1.0, len(initial) > 0, np.uint64(len(columns))
    sums = to_doubles_at(room(), TOGETHER), to_doubles_at(room(), TOGETHER), to_doubles_at(room(), TOGETHER)
    for begin in range(0, len(out), TOGETHER):
        end = min(begin + TOGETHER, len(out))
        high, low, total = sums[0][: end - begin], sums[1][: end - begin], sums[2][: end - begin]
        for i in range(np.uint64(len(high))):
            high[i] = initial[begin + i] if added else 0.0
            low[i], total[i] = 0.0, abs(high[i])
        _add_diagonals(first + begin, stored, columns, values, x, high, low, total)
        given = high, low, total, count
        left = _end_diagonals(*given, max(unit, 0.0), single, out[begin:end])
        if left and unit < 0:
            unit = _unit_of_terms(values.reshape(values.size), x, initial)
            left = _end_diagonals(*given, unit, single, out[begin:end])
        long = len(columns) > LONGEST
        for i in range(begin, end if left or long else begin):
            if out[i] != out[i] or long:
                start = initial[i] if added else 0.0
                row = _diagonal_again(stored, columns, values, x, first + i, start, 0.0)
                value = rounded(*row, single)
                undecided += value != value
                out[i] = not_minus_zero(value, single)
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
            out[i, c] = not_minus_zero(value, single)
            undecided += value != value
    return undecided


@inlined
def _begin_rows(ends):
    """Make of the entries of row i, counted at ends[i + 2], where they begin, at ends[i + 1]."""
    begin = 0 * ends[0]
    for i in range(np.uint64(len(ends))):
        begin += ends[i]
        ends[i] = begin


@inlined
def _place(i, j, value, ends, columns, numbers):
    """Write an entry behind those of its row that are there."""
    place = np.uint64(ends[i + np.uint64(1)])
    columns[place], numbers[place] = j, value
    ends[i + np.uint64(1)] += 1


def _sorted(signed, _, value):
    return int64(_read(signed), _read(signed), _read(value), signed[::1], signed[::1], float64[::1])


@of_kinds(INDICES, {"float64": float64}, _sorted)
def sort_columns(pointers, indices, values, ends, columns, numbers):
    """Write entries that lie column by column row by row; return INVALID for indices that none can have.

    ends : (rows + 2,), of zeros; row i is from ends[i] to ends[i + 1] then.
    columns, numbers : (entries,).
    """
    height, stored, zero = np.uint64(len(ends) - 2), np.uint64(len(numbers)), np.uint64(0)
    lines = np.uint64(len(pointers) - 1)
    if _longest_row(pointers, indices, stored, height, zero, lines) == INVALID:
        return INVALID
    for p in range(np.uint64(pointers[zero]), np.uint64(pointers[lines])):
        ends[np.uint64(indices[p]) + np.uint64(2)] += 1
    _begin_rows(ends)
    for j in range(lines):
        for p in range(np.uint64(pointers[j]), np.uint64(pointers[j + np.uint64(1)])):
            _place(np.uint64(indices[p]), j, values[p], ends, columns, numbers)
    return 0


@of_kinds(INDICES, {"float64": float64}, _sorted)
def sort_entries(rows, columns_of, values, ends, columns, numbers):
    """As `sort_columns`, of entries in any order, of whose columns nothing is asked."""
    height = np.uint64(len(ends) - 2)
    for p in range(np.uint64(len(numbers))):
        i = np.uint64(rows[p])
        if i >= height:
            return INVALID
        ends[i + np.uint64(2)] += 1
    _begin_rows(ends)
    for p in range(np.uint64(len(numbers))):
        _place(np.uint64(rows[p]), columns_of[p], values[p], ends, columns, numbers)
    return 0
