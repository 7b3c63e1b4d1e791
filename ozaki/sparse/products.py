"""Σ A·X + Σ B of sparse A and dense X and B, every element the exact value, rounded once.

    rows      row by row (`rows`), real matrices of entries that are sorted by row first: few columns one by
              one, more of them side by side
    entries   everything else on a CPU: each entry is added to the enclosure of its row, in any order
    exact     elements that these leave undecided, and all where there is neither: exact sums by group

A complex number is two real columns: a·(x + iy) = Re a·(x, y) + Im a·(−y, x). A GPU adds up rows of any
number of columns (`products_cuda`), for which entries that do not lie row by row are sorted first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, conjugated, is_cupy, namespace, quietly, real_parts, to_float64
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import in_threads, scratch, taken, thread_count
from ozaki.arguments import result_dtype
from ozaki.rounding.conversion import joined, narrow
from ozaki.sparse.matrices import COORDINATES, Matrix, out_of_range
from ozaki.sparse.products_cuda import rows_on_device
from ozaki.sparse.rows import LOOPS, NOTHING, Rows, kinds, pairs, same_integers
from ozaki.sums.arguments import format_of, real_dtype
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.extraction import contiguous
from ozaki.sums.exact.fixed_point import DigitRange, Rounding
from ozaki.sums.exact.groups import add_groups
from ozaki.sums.exact.summands import Summands, as_floats, products
from ozaki.tuning import SPARSE_COLUMNS, SPARSE_COLUMNS_BY_ROWS

Terms = Sequence[tuple[Matrix, Array]]
"""Products that are added up: of (m, n) matrices and (n, k) arrays."""


def rounded_products(terms: Terms, addends: Sequence[Array], dtype: np.dtype) -> Array:
    """Return Σ A·X over terms, plus Σ B over (m, k) addends, each element rounded once; no zero is −0.

    ValueError for an index out of range.
    """
    (first, x), *_ = terms
    height, width, parts = first.shape[0], x.shape[1], 2 if dtype.kind == "c" else 1
    if not height * width:
        return namespace(x).zeros((height, width), dtype)
    with quietly(first.values):
        if is_cupy(first.values) and len(terms) == 1:
            terms = [(in_rows(first), x)]
        result, undecided = _enclosed(terms, addends, (height, width * parts), dtype)
        if undecided:
            xp = namespace(result)
            missing = xp.isnan(result)
            for column in xp.flatnonzero(missing.any(axis=0)).tolist():
                rows = xp.flatnonzero(missing[:, column])
                result[rows, column] = _exact(terms, addends, rows, column, dtype)
    return result


def _enclosed(
    terms: Terms, addends: Sequence[Array], shape: tuple[int, int], dtype: np.dtype
) -> tuple[Array, int]:
    """Return the results, NaN where they are undecided, and how many of them are, or whether any is.

    shape : of the results as real columns.
    """
    matrix, x = terms[0]
    single, plain = real_dtype(dtype) == np.float32, len(terms) == 1 and len(addends) < 2
    if is_cupy(matrix.values):
        if plain and (found := rows_on_device(matrix, x, addends, dtype)) is not None:
            return found, False
        return namespace(x).full((shape[0], x.shape[1]), np.nan, dtype), True
    if compiled(LOOPS) is None:
        return np.full((shape[0], x.shape[1]), np.nan, dtype), shape[0]
    out, parts = np.empty(shape), shape[1] // x.shape[1]
    numbers = [x, *addends]
    plain = plain and all(len(as_floats(y[:0].real)) == 1 for y in numbers)
    few = shape[1] <= SPARSE_COLUMNS_BY_ROWS
    if plain and few and (rows := _rows_of(matrix)):
        undecided = _by_rows(rows, numbers, single, out, parts)
    elif plain and not few and (rows := Rows.of_many_columns(in_rows(matrix))):
        wide, *initial = [_real_columns(y, parts) for y in numbers]
        undecided = _checked(rows.add(wide, initial[0] if initial else out[:0], single, out))
    else:
        undecided = _by_entries(terms, addends, single, out, parts)
    return narrow(out, real_dtype(dtype)).view(dtype), undecided


def _rows_of(matrix: Matrix) -> Rows | None:
    """Return the rows of a matrix, sorted first where entries do not lie so; None as `Rows.of_matrix`."""
    return Rows.of_matrix(matrix) or Rows.of_matrix(in_rows(matrix))


def in_rows(matrix: Matrix) -> Matrix:
    """Return a matrix with its entries row by row, as floats, to be multiplied many times.

    The same matrix where no compiled code adds up its rows: of 64-bit integers, on a CPU of complex numbers.
    ValueError for an index out of range.
    """
    loops, values = compiled(LOOPS), matrix.values
    if matrix.row_by_row and values.dtype.kind in "fc":
        return matrix
    apart = not is_cupy(values) and (loops is None or values.dtype.kind == "c")
    if apart or (values.dtype.kind in "iu" and values.dtype.itemsize == 8):
        return matrix
    if matrix.row_by_row:
        return matrix._replace(values=to_float64(values))
    if is_cupy(values):
        return sorted_by_row(matrix)
    if matrix.format in ("csr", "csc"):
        sort, lying, values = loops.sort_columns, same_integers(*matrix.indices), matrix.values
    elif matrix.format == COORDINATES:
        sort, lying, values = loops.sort_entries, same_integers(*matrix.indices), matrix.values
        lying = lying[::-1] if matrix.transposed else lying
    else:
        sort, (rows, columns, values) = loops.sort_entries, matrix.together()
        lying = rows, columns
    values = np.ascontiguousarray(to_float64(values))
    stored = min(len(lying[1]), len(values))
    if max(stored, *matrix.shape) >> 31:  # 32 bits may be too few to count them
        lying = same_integers(*(x.astype(np.int64, copy=False) for x in lying))
    integers = lying[1].dtype
    ends, places = np.zeros(matrix.shape[0] + 2, integers), scratch((stored,), integers)
    numbers = scratch((stored,))
    _checked(sort[kinds(lying[1], values)](*lying, values, ends, places, numbers))
    return Matrix(matrix.shape, numbers, "csr", (ends[:-1], places))


def sorted_by_row(matrix: Matrix) -> Matrix:
    """Return a matrix with its entries row by row. ValueError for a row out of range."""
    rows, columns, values = matrix.together()
    check_indices(rows, matrix.shape[0])
    order, xp = rows.argsort(), namespace(rows)
    pointers = xp.searchsorted(rows[order], xp.arange(matrix.shape[0] + 1))
    values = values if values.dtype.kind in "fc" else to_float64(values)
    return Matrix(matrix.shape, values[order], "csr", (pointers, columns[order]))


def product_with_vector(
    matrix: Matrix, x: Array, addends: Sequence[Array] = (), dtype: np.dtype | None = None
) -> Array:
    """Return Ax + Σ b, correctly rounded, of a vector of as many numbers as A has columns, and others."""
    dtype = result_dtype(matrix.values, x) if dtype is None else dtype
    found = None
    if matrix.shape[0]:  # the shortest way, which most products take
        if not is_cupy(x):
            found = in_one_loop(matrix, x, addends, dtype)
        elif not addends:
            found = rows_on_device(in_rows(matrix), x, (), dtype)
    if found is not None:
        return found
    return rounded_products([(matrix, as_columns(x))], [*map(as_columns, addends)], dtype)[:, 0]


def in_one_loop(
    matrix: Matrix, x: np.ndarray, addends: Sequence[np.ndarray], dtype: np.dtype
) -> np.ndarray | None:
    """Return Ax, or Ax + b, of floats on a CPU; None where that takes more than a compiled loop over rows."""
    numbers = [x, *addends]
    if dtype.kind != "f" or len(addends) > 1 or [y for y in numbers if y.dtype.kind != "f"]:
        return None
    if (rows := _rows_of(matrix)) is None:
        return None
    x, initial, *_ = *[np.ascontiguousarray(to_float64(y)) for y in numbers], NOTHING
    out = np.empty(matrix.shape[0])
    return None if _checked(rows.add(x, initial, dtype.itemsize == 4, out)) else narrow(out, dtype)


def _by_rows(rows: Rows, numbers: Sequence[np.ndarray], single: bool, out: np.ndarray, parts: int) -> int:
    """Add up row by row, for one column after the other; return how many are undecided.

    numbers : x, and what is added, if anything is.
    parts : real columns of `out` for each column of these, of which loops for complex matrices take two.
    """
    together = parts if rows.complex else 1
    results = (
        np.empty((out.shape[1] // together, len(out), together)) if out.shape[1] > together else out[None]
    )
    undecided = 0
    for c, result in enumerate(results):
        x, *initial = [pairs(y[:, c]) if rows.complex else _real_column(y, c, parts) for y in numbers]
        result = result if rows.complex else result[:, 0]
        undecided += _checked(rows.add(x, initial[0] if initial else result[:0], single, result))
    if len(results) > 1:
        out.reshape(len(out), -1, together)[...] = results.swapaxes(0, 1)
    return undecided


def _real_column(x: np.ndarray, c: int, parts: int) -> np.ndarray:
    """Return a real column of numbers that have so many parts, of which real ones lack the second."""
    column = x[:, c // parts]
    if x.dtype.kind == "c":
        column = column.imag if c % parts else column.real
    elif c % parts:
        return np.zeros(len(x))
    return np.ascontiguousarray(to_float64(column))


def _real_columns(x: np.ndarray, parts: int) -> np.ndarray:
    """Return numbers as real columns, so many for each of theirs."""
    return (
        np.ascontiguousarray(x, np.complex128).view(np.float64) if parts == 2 else contiguous(to_float64(x))
    )


def _by_entries(
    terms: Terms, addends: Sequence[np.ndarray], single: bool, out: np.ndarray, parts: int
) -> int:
    """Add each entry to its row, some columns at a time; return how many results are undecided."""
    sides = [(matrix, list(_sides(x, parts))) for matrix, x in terms]
    starts = [side[0] for b in addends for side in _sides(b, parts)]
    step = SPARSE_COLUMNS - SPARSE_COLUMNS % parts
    blocks, counts = deque(slice(c, c + step) for c in range(0, out.shape[1], step)), []
    every, ones, loops = np.arange(len(out), dtype=np.uint64), np.ones(len(out)), compiled(LOOPS)

    def add(columns: slice) -> int:
        sums = np.zeros((len(out), 3, len(range(*columns.indices(out.shape[1])))))
        for b in starts:
            loops.add_entries["int64", "float64"](every, every, ones, _block(b, columns), sums)
        for matrix, xs in sides:
            chosen = [[_block(x, columns) for x in both] for both in xs]
            for add_part, values in _summands(matrix):
                for number, part in enumerate(real_parts(values)):
                    for value in map(np.ascontiguousarray, as_floats(part)):
                        _checked(min(add_part(value, x[number], sums) for x in chosen))
        rounded = np.empty((len(out), sums.shape[2]))
        undecided: int = loops.round_sums(sums, single, rounded)
        out[:, columns] = rounded
        return undecided

    def work() -> None:
        for columns in taken(blocks):
            counts.append(add(columns))

    in_threads(work, min(len(blocks), thread_count()) - 1, blocks.clear)
    return sum(counts)


def _summands(matrix: Matrix) -> Iterator[tuple[Callable[..., int], np.ndarray]]:
    """Yield numbers of a matrix, and the function that adds their products with x to enclosures.

    Entries in columns, and those of COO, are read where they lie.
    """
    loops, kind = compiled(LOOPS), "float64"
    values = conjugated(matrix.values) if matrix.conjugate else matrix.values
    if matrix.format in ("csr", "csc") and matrix.transposed:
        pointers, indices = same_integers(*matrix.indices)
        stored, signed = min(len(indices), len(values)), indices.dtype
        indices = indices[:stored].view(f"u{signed.itemsize}")
        yield partial(loops.add_columns[signed.name, kind], pointers, indices), values[:stored]
    elif matrix.format == COORDINATES:
        rows, columns = same_integers(*matrix.indices)
        signed, places = rows.dtype, [x.view(f"u{x.itemsize}") for x in (rows, columns)]
        yield (
            partial(loops.add_entries[signed.name, kind], *places[:: -1 if matrix.transposed else 1]),
            values,
        )
    else:
        for rows, columns, values in matrix.pieces():
            unsigned = (x.view(np.uint64) for x in (rows, columns))
            yield partial(loops.add_entries["int64", kind], *unsigned), values


def _block(x: np.ndarray, columns: slice) -> np.ndarray:
    return np.ascontiguousarray(x[:, columns])


def _sides(x: np.ndarray, parts: int) -> Iterator[list[np.ndarray]]:
    """Yield real columns whose sum is x, exactly; where numbers have two parts also those of i·x."""
    real, *imaginary = real_parts(x)
    for number, part in enumerate(as_floats(real)):
        if parts == 1:
            yield [part]
            continue
        columns = np.zeros((*x.shape, parts))
        columns[..., 0] = part
        if imaginary and not number:
            columns[..., 1] = imaginary[0]
        both = [columns, np.stack([-columns[..., 1], columns[..., 0]], axis=-1)]
        yield [y.reshape(len(x), x.shape[1] * parts) for y in both]


def _exact(terms: Terms, addends: Sequence[Array], rows: Array, column: int, dtype: np.dtype) -> Array:
    """Return the elements of one column in some rows, by exact sums of the products of each."""
    xp, real = namespace(rows), real_dtype(dtype)
    number = xp.full(terms[0][0].shape[0], -1, np.int64)
    number[rows] = xp.arange(len(rows))
    sums = [
        Superaccumulator(DigitRange.of(FORMATS["fp64"]), len(rows), xp)
        for _ in range(2 if dtype.kind == "c" else 1)
    ]
    for matrix, x in terms:
        for i, j, values in matrix.pieces():
            check_indices(i, matrix.shape[0])
            check_indices(j, matrix.shape[1])
            some = xp.flatnonzero(number[i] >= 0)
            if len(some):
                labels, factors = number[i[some]], (values[some], x[j[some], column])
                for total, part in zip(sums, products(*factors), strict=False):
                    add_groups(total, part, labels)
    for b in addends:
        for total, part in zip(sums, real_parts(b[rows, column]), strict=False):
            add_groups(total, [Summands((part,))], xp.arange(len(rows)))
    rounding = Rounding(format_of(dtype))
    return joined([narrow(rounding(total.fixed_point()) + 0.0, real) for total in sums], dtype)


def check_indices(indices: Array, size: int) -> None:
    """Raise ValueError unless all indices are from 0 to size − 1."""
    if len(indices) and int(indices.view(np.uint64).max()) >= size:
        raise out_of_range()


def _checked(count: int) -> int:
    """Return what a loop returns. ValueError if that is not a count."""
    if count < 0:
        raise out_of_range()
    return count


def as_columns(x: Array) -> Array:
    """Return a vector as a matrix of one column; a matrix as it is."""
    return x[:, None] if x.ndim == 1 else x
