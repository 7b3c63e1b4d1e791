"""Files of the Matrix Market exchange format, as dense arrays.

Their numbers are read as those of .csv files. SciPy reads them as float64: 1e400 becomes infinity, and
9007199254740993 its neighbour.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

from ozaki.cli.decimals import float64_of

Lines = Iterator[tuple[int, list[str]]]
"""The numbers of lines in a file, and their words."""

_NUMBERS_OF = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}
"""How many decimal numbers an entry has, by the field of the matrix."""

_MIRRORED: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {
    "general": None,
    "symmetric": np.positive,
    "skew-symmetric": np.negative,
    "hermitian": np.conj,
}
"""The entry (j, i) that an entry (i, j) stands for, by the symmetry of the matrix."""


def read_matrix_market(path: Path) -> np.ndarray:
    """Return the matrix in a Matrix Market file as a dense array, float64 or complex128.

    Decimal fractions are rounded to the nearest float64, and nothing else is rounded.

    Raises
    ------
    ValueError : a file that is no Matrix Market file, or holds numbers that float64 cannot hold, or names a
        place twice: the numbers there would be added, and rounded.
    MemoryError : the matrix is too large.

    References
    ----------
    Boisvert, Pozo and Remington, The Matrix Market exchange formats: initial design (NISTIR 5935).
    """
    with path.open(encoding="utf-8-sig") as file:
        try:
            return _matrix(file)
        except ValueError as error:
            raise ValueError(f"{path} is no Matrix Market file of float64 numbers: {error}") from error


def _matrix(file: TextIO) -> np.ndarray:
    banner = file.readline(1000).lower().split()
    if len(banner) != 5 or banner[0].lstrip("%") != "matrixmarket" or banner[1] != "matrix":
        raise ValueError("its first line is not %%MatrixMarket matrix, a format, a field and a symmetry")
    form, field, symmetry = banner[2:]
    if form not in ("array", "coordinate") or field not in _NUMBERS_OF or symmetry not in _MIRRORED:
        raise ValueError(f"unknown kind of matrix: {form} {field} {symmetry}")
    lines = ((i, line.split()) for i, line in enumerate(file, 2) if line.lstrip()[:1] not in ("", "%"))
    (rows, columns), count = _sizes(lines, form, symmetry)
    indices, values = _entries(lines, 0 if form == "array" else 2, field)
    if len(values) != count:
        raise ValueError(f"it has {len(values)} entries, not {count}")
    if form == "array":
        places = _triangle(rows, count, symmetry)
    else:
        places = np.array(indices, np.int64).reshape(-1, 2).T - 1
        if ((places < 0) | (places >= [[rows], [columns]])).any():
            raise ValueError(f"it has an entry outside of its {rows} rows and {columns} columns")
    return _dense((rows, columns), places, values, _MIRRORED[symmetry])


def _sizes(lines: Lines, form: str, symmetry: str) -> tuple[tuple[int, int], int]:
    """Return the shape of the matrix, and how many entries follow."""
    i, words = next(lines, (2, []))
    try:
        rows, columns, *counted = map(_unsigned, words)
        (count,) = counted if form == "coordinate" else (rows * columns, *counted)
    except ValueError as error:
        sizes = "rows and columns" if form == "array" else "rows, columns and entries"
        raise ValueError(f"line {i} must hold the numbers of {sizes}, not {' '.join(words)!r}") from error
    if symmetry != "general" and rows != columns:
        raise ValueError(f"{rows} rows and {columns} columns are not {symmetry}")
    if form == "array" and symmetry != "general":
        count = rows * (rows - 1) // 2 if symmetry == "skew-symmetric" else rows * (rows + 1) // 2
    return (rows, columns), count


def _unsigned(word: str) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise ValueError(f"{word} is no index")
    return int(word)


def _entries(lines: Lines, leading: int, field: str) -> tuple[array[int], np.ndarray]:
    """Return the indices that lines begin with, and the numbers that follow; ones for patterns."""
    indices, numbers, words = array("q"), array("d"), leading + _NUMBERS_OF[field]
    for i, line in lines:
        try:
            if len(line) != words:
                raise ValueError(f"{words} numbers are expected, not {len(line)}")
            indices.extend(map(_unsigned, line[:leading]))
            numbers.extend(map(float64_of, line[leading:]))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"line {i}: {error}") from error
    if field == "pattern":
        return indices, np.ones(len(indices) // 2)
    return indices, np.array(numbers, np.float64).view(np.complex128 if field == "complex" else np.float64)


def _triangle(rows: int, count: int, symmetry: str) -> np.ndarray:
    """Return the indices of a dense file's entries, column by column, of a triangle if symmetric."""
    if symmetry == "general":
        return np.array(np.divmod(np.arange(count), rows))[::-1]
    return np.array(np.triu_indices(rows, symmetry == "skew-symmetric"))[::-1]


def _dense(
    shape: tuple[int, int],
    places: np.ndarray,
    values: np.ndarray,
    mirrored: Callable[[np.ndarray], np.ndarray] | None,
) -> np.ndarray:
    try:
        result = np.zeros(shape, values.dtype)
    except (ValueError, OverflowError, MemoryError) as error:
        raise MemoryError(f"no memory for {shape[0]} x {shape[1]} {values.dtype} numbers") from error
    if mirrored is not None:
        beside = places[0] != places[1]
        places = np.concatenate([places, places[::-1, beside]], axis=1)
        values = np.concatenate([values, mirrored(values[beside])])
    flat = places[0] * shape[1] + places[1]
    if np.unique(flat).size < flat.size:
        raise ValueError("it names a place twice; the numbers there would be added, and rounded")
    result.reshape(-1)[flat] = values
    return result
