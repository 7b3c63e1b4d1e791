"""Matrices whose rows a compiled loop adds up one after the other: CSR, BSR and DIA on a CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import to_float64
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import in_threads, taken, thread_count
from ozaki.sparse.matrices import COMPRESSED, DIAGONALS, Matrix
from ozaki.tuning import SPARSE_ENTRIES_OF_A_THREAD

LOOPS = "ozaki.sparse.loops_numba"

NOTHING = np.empty(0)


class Rows(NamedTuple):
    """The rows of a matrix as a loop takes them. Indices are checked by the loop, in every call.

    Attributes
    ----------
    loop : the function that is called with arguments of some rows, and x, the numbers that are added, whether
        to round to float32, and the results.
    of : the function that returns the matrix's arguments for a slice of rows, or of rows of blocks.
    height : how many of these there are. block : the rows of one, and the numbers of x that belong to one
        index, if x is to have an axis for them.
    ends : where the entries of each begin, and those of the last one end, or the entries of any.
    """

    loop: Callable[..., int]
    of: Callable[[slice], tuple[Any, ...]]
    height: int
    block: tuple[int, int] | None
    ends: np.ndarray | int

    @classmethod
    def of_matrix(cls, matrix: Matrix) -> Rows | None:
        """Return the rows of a matrix; None for other formats, 64-bit integers, and without compiled code."""
        loops, kind = compiled(LOOPS), matrix.values.dtype
        if loops is None or (kind.kind in "iu" and kind.itemsize == 8):
            return None
        if matrix.format == DIAGONALS and kind.kind != "c":
            return cls._of_diagonals(matrix, loops)
        if matrix.transposed or matrix.format not in COMPRESSED:
            return None
        return cls._of_compressed(matrix, loops)

    @classmethod
    def _of_compressed(cls, matrix: Matrix, loops: Any) -> Rows:
        pointers, indices = same_integers(*matrix.indices)
        signed, values, loop, block = indices.dtype, matrix.values, loops.add_rows, None
        if values.ndim == 3 or values.dtype.kind == "c":
            values, loop = _real_blocks(values), loops.add_blocks
            block = values.shape[1:]
        elif values.dtype.kind != "f":
            values = to_float64(values)
        values, stored = np.ascontiguousarray(values), min(len(indices), len(values))
        indices, values = indices[:stored].view(f"u{signed.itemsize}"), values[:stored]

        def of(rows: slice) -> tuple[np.ndarray, ...]:
            return pointers[rows.start : rows.stop + 1], indices, values

        return cls(loop[signed.name, values.dtype.name], of, len(pointers) - 1, block, pointers)

    @classmethod
    def _of_diagonals(cls, matrix: Matrix, loops: Any) -> Rows:
        offsets, values = matrix.indices[0].astype(np.int64), np.ascontiguousarray(to_float64(matrix.values))
        # Numbers lie in the columns of the matrix that is stored.
        stored, columns = (0 * offsets, -offsets) if matrix.transposed else (offsets, offsets)

        def of(rows: slice) -> tuple[Any, ...]:
            return rows.start, stored, columns, values

        return cls(loops.add_diagonals, of, matrix.shape[0], None, len(offsets))

    def add(self, x: np.ndarray, initial: np.ndarray, single: bool, out: np.ndarray) -> int:
        """Write RN(initial + Σ A·x) of vectors to `out`; return how many are undecided, or a negative number.

        Rows are shared out over threads by entries.
        """
        x = x if self.block is None else x.reshape(-1, self.block[1])
        each, counts = 1 if self.block is None else self.block[0], list[int]()

        def work(rows: slice) -> None:
            some = rows if each == 1 else slice(rows.start * each, rows.stop * each)
            counts.append(self.loop(*self.of(rows), x, initial[some], single, out[some]))

        cuts = self._cuts()
        if len(cuts) == 2:
            work(slice(0, self.height))
        else:
            blocks = deque(slice(i, max(i, j)) for i, j in pairwise(cuts))

            def share() -> None:
                for rows in taken(blocks):
                    work(rows)

            in_threads(share, len(cuts) - 2, blocks.clear)
        return min(counts) if min(counts) < 0 else sum(counts)

    def _cuts(self) -> Sequence[int]:
        """Return where the shares of threads begin, and the last one ends."""
        ends, height = self.ends, self.height
        entries = ends * height if isinstance(ends, int) else int(ends[-1])
        shares = (
            entries
            * (1 if self.block is None else self.block[0] * self.block[1])
            // SPARSE_ENTRIES_OF_A_THREAD
        )
        if shares < 2 or (shares := min(thread_count(), shares)) < 2:
            return 0, height
        if isinstance(ends, int):
            return [height * share // shares for share in range(shares + 1)]
        cuts = np.searchsorted(ends, [entries * share // shares for share in range(1, shares)])
        return [0, *np.clip(cuts, 0, height).tolist(), height]


def same_integers(*indices: np.ndarray) -> list[np.ndarray]:
    """Return contiguous indices of one dtype: int64 if they are of several."""
    one = all(x.dtype == indices[0].dtype for x in indices)
    return [np.ascontiguousarray(x, None if one else np.int64) for x in indices]


def _real_blocks(values: np.ndarray) -> np.ndarray:
    """Return (entries,) numbers, or (entries, r, c) blocks, as real blocks; Re a, Im a for a complex a."""
    blocks = values.reshape(len(values), *(values.shape[1:] or (1, 1)))
    if values.dtype.kind != "c":
        return to_float64(blocks)
    return np.ascontiguousarray(blocks, np.complex128).view(np.float64)
