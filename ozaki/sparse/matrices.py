"""Sparse matrices of SciPy and CuPy as they lie in memory, read as entries: row, column and value.

Entries of formats that do not lie row by row are numbered piece by piece. Duplicate entries are terms of one
element, explicit zeros are zeros, and neither has to be sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, as_array, conjugated, is_cupy, namespace
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.readback import anywhere

PIECE = 1 << 17
"""Entries that are numbered together."""

COMPRESSED, COORDINATES, DIAGONALS = ("csr", "csc", "bsr"), "coo", "dia"

_INDICES: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys(COMPRESSED, ("indptr", "indices")),
    COORDINATES: ("row", "col"),
    DIAGONALS: ("offsets",),
}
"""What each format has for indices."""


class Piece(NamedTuple):
    """Some entries of a matrix: vectors of one length."""

    rows: Array
    columns: Array
    values: Array

    def turned(self) -> Piece:
        """Return the entries of the transpose."""
        return Piece(self.columns, self.rows, self.values)


class Matrix(NamedTuple):
    """A sparse matrix.

    Attributes
    ----------
    shape : of the matrix.
    values : numbers as they lie: (entries,), (blocks, r, c) of BSR, (diagonals, width) of DIA.
    format : of SciPy's names; "csc" is the CSR of its transpose, with `transposed`.
    indices : pointers and indices of CSR and BSR, rows and columns of COO, offsets of DIA.
    transposed, conjugate : what the matrix is of the one that lies there.
    """

    shape: tuple[int, int]
    values: Array
    format: str
    indices: tuple[Array, ...]
    transposed: bool = False
    conjugate: bool = False

    @classmethod
    def of(cls, x: Any, name: str) -> Matrix:
        """Return the matrix of an argument. TypeError for formats that are no arrays, as LIL and DOK.

        ValueError while CuPy's stream is captured.
        """
        form: Any = getattr(x, "format", None)
        if (names := _INDICES.get(form)) is None:
            raise TypeError(f"{name} is a sparse matrix of format {form!r}: pass {name}.tocsr()")
        if x.ndim != 2:
            raise ValueError(f"{name} must be a matrix, got a sparse array of shape {x.shape}")
        if is_cupy(x.data):
            refuse_captures("functions of sparse matrices")  # which wait for the device
        m, n = x.shape
        indices = tuple([getattr(x, part) for part in names])
        matrix = cls((int(m), int(n)), as_array(x.data, name), form, indices, form == "csc")
        if form in COMPRESSED:
            matrix._check_pointers(name)
        return matrix

    @property
    def T(self) -> Matrix:
        """The transpose; nothing is copied."""
        return self._replace(shape=self.shape[::-1], transposed=not self.transposed)

    @property
    def H(self) -> Matrix:
        """The conjugate transpose; nothing is copied."""
        return self.T._replace(conjugate=self.conjugate is not (self.values.dtype.kind == "c"))

    @property
    def dtype(self) -> np.dtype:
        """Of its elements."""
        return self.values.dtype

    @property
    def row_by_row(self) -> bool:
        """Whether entries lie row by row, each with an index, so that rows can be added up one by one."""
        return self.format in ("csr", "csc") and not self.transposed

    def pieces(self) -> Iterator[Piece]:
        """Yield all entries, some at a time, in the order in which they lie."""
        lying = {COORDINATES: self._of_coordinates, DIAGONALS: self._of_diagonals}
        for piece in lying.get(self.format, self._of_blocks)():
            values = conjugated(piece.values) if self.conjugate else piece.values
            piece = piece._replace(values=values)
            yield piece.turned() if self.transposed else piece

    def together(self) -> Piece:
        """Return all entries at once."""
        xp, pieces = namespace(self.values), list(self.pieces())
        if not pieces:
            nowhere = xp.zeros(0, np.int64)
            return Piece(nowhere, nowhere, self.values.reshape(-1)[:0])
        return Piece(*(xp.concatenate(parts) for parts in zip(*pieces, strict=True)))

    def _of_coordinates(self) -> Iterator[Piece]:
        rows, columns = self.indices
        for start in range(0, self.values.size, PIECE):
            some = slice(start, start + PIECE)
            yield Piece(_long(rows[some]), _long(columns[some]), self.values[some])

    def _of_diagonals(self) -> Iterator[Piece]:
        """Number what each diagonal has inside of the matrix, of which DIA stores more."""
        height, width = self.shape[::-1] if self.transposed else self.shape
        offsets, xp, length = _long(self.indices[0]), namespace(self.values), self.values.shape[1]
        starts = xp.maximum(offsets, 0)
        ends, numbers = xp.minimum(min(length, width), offsets + height), self.values.reshape(-1)
        pointers = xp.zeros(len(offsets) + 1, np.int64)
        pointers[1:] = xp.cumsum(xp.maximum(ends - starts, 0))
        for start in range(0, entries := int(pointers[-1]), PIECE):
            end = min(start + PIECE, entries)
            lines = expanded(pointers, start, end)
            columns = xp.arange(start, end) + (starts - pointers[:-1])[lines]
            values = numbers.take(lines * length + columns)
            yield Piece(columns - offsets[lines], columns, values)

    def _of_blocks(self) -> Iterator[Piece]:
        pointers, indices = self.indices
        self._check_ends("the sparse matrix")
        if anywhere(pointers[1:] < pointers[:-1]):
            raise ValueError("indptr of a sparse matrix must not decrease")
        r, c = self.values.shape[1:] or (1, 1)
        step, xp = max(1, PIECE // max(1, r * c)), namespace(self.values)
        for start in range(0, int(pointers[-1]), step):
            end = min(start + step, int(pointers[-1]))
            rows, columns = expanded(pointers, start, end), _long(indices[start:end])
            if (r, c) != (1, 1):
                within, across = xp.arange(r)[:, None], xp.arange(c)
                rows = ((rows * r)[:, None, None] + within + 0 * across).reshape(-1)
                columns = ((columns * c)[:, None, None] + across + 0 * within).reshape(-1)
            yield Piece(rows, columns, self.values[start:end].reshape(-1))

    def _check_pointers(self, name: str) -> None:
        """Raise ValueError for pointers that no rows can have. What a GPU's are, kernels find out."""
        pointers, lines = self.indices[0], self._lines
        if len(pointers) != lines + 1:
            raise ValueError(f"{name}.indptr must have {lines + 1} numbers, got {len(pointers)}")
        if not is_cupy(pointers):
            self._check_ends(name)

    def _check_ends(self, name: str) -> None:
        """Raise ValueError for pointers that do not begin with 0, or end behind what is stored."""
        pointers, indices = self.indices
        stored = min(len(indices), len(self.values))
        if not 0 == int(pointers[0]) <= int(pointers[-1]) <= stored:
            raise ValueError(f"{name}.indptr must lead from 0 to at most {stored} in {self._lines} steps")

    @property
    def _lines(self) -> int:
        """How many rows, columns of CSC, or rows of blocks, have pointers."""
        return self.shape[self.transposed] // (self.values.shape[1] if self.values.ndim == 3 else 1)


def out_of_range() -> ValueError:
    """Return the error for indices that the compiled loops and kernels refuse."""
    return ValueError("a sparse matrix has an index out of range, or an indptr that decreases")


def _long(indices: Array) -> Array:
    return indices.astype(np.int64, copy=False)


def expanded(pointers: Array, start: int, end: int) -> Array:
    """Return the rows of the entries from start to end, of which row i has those up to pointers[i + 1]."""
    xp = namespace(pointers)
    if is_cupy(pointers):  # which cannot repeat each element as often as an array says
        return _long(xp.searchsorted(pointers, xp.arange(start, end), side="right") - 1)
    first = int(np.searchsorted(pointers, start, side="right")) - 1
    last = int(np.searchsorted(pointers, end, side="left"))
    bounds = np.clip(pointers[first : last + 1], start, end)
    return np.repeat(np.arange(first, last, dtype=np.int64), np.diff(bounds))
