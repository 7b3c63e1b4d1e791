"""Matrices whose rows a compiled loop adds up one after the other: CSR, BSR and DIA on a CPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import to_float64
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import in_threads, taken, thread_count
from ozaki.sparse.matrices import DIAGONALS, Matrix
from ozaki.tuning import SPARSE_ENTRIES_OF_A_THREAD

LOOPS = "ozaki.sparse.loops_numba"

NOTHING = np.empty(0)


class Rows(NamedTuple):
    """The rows of a matrix as a loop takes them. The loop checks every index, in each call.

    Attributes
    ----------
    loop : the function that is called with `entries`, and x, the numbers that are added, whether to round to
        float32, and the results.
    entries : arguments of the loop. The first one is where the entries of each row, or row of blocks, begin,
        or the first row.
    height : how many rows, or rows of blocks, there are.
    block : the rows of a block, and the numbers of x that belong to one index; None where x has one axis.
    complex : whether x, and all but `entries`, have real and imaginary parts along a second axis.
    """

    loop: Callable[..., int]
    entries: tuple[Any, ...]
    height: int
    block: tuple[int, int] | None = None
    complex: bool = False

    @classmethod
    def of_matrix(cls, matrix: Matrix) -> Rows | None:
        """Return the rows of a matrix; None for others, of 64-bit integers, and without compiled code."""
        loops, kind = compiled(LOOPS), matrix.values.dtype
        if loops is None or (kind.kind in "iu" and kind.itemsize == 8):
            return None
        in_reals = kind.kind != "c"
        if matrix.format == DIAGONALS and in_reals:
            return cls._of_diagonals(matrix, loops)
        if matrix.row_by_row or (matrix.format == "bsr" and in_reals and not matrix.transposed):
            return cls._of_compressed(matrix, loops, loops.add_rows)
        return None

    @classmethod
    def of_many_columns(cls, matrix: Matrix) -> Rows | None:
        """Return the rows of a real matrix for x of many columns; None as `of_matrix`."""
        loops = compiled(LOOPS)
        if loops is None or matrix.values.dtype.kind != "f" or not matrix.row_by_row:
            return None
        return cls._of_compressed(matrix, loops, loops.add_wide_rows)

    @classmethod
    def _of_compressed(cls, matrix: Matrix, loops: Any, loop: Any) -> Rows:
        pointers, indices = same_integers(*matrix.indices)
        values, block = matrix.values, None
        in_parts, more = values.dtype.kind == "c", list[float]()
        if in_parts:
            values, loop, block = pairs(values), loops.add_complex_rows, (1, 2)
            more.append(-1.0 if matrix.conjugate else 1.0)
        elif values.ndim == 3:
            values, loop, block = to_float64(values), loops.add_blocks, values.shape[1:]
        elif values.dtype.kind != "f":
            values = to_float64(values)
        loop = loop[kinds(indices, values)]
        entries = pointers, indices, np.ascontiguousarray(values), *more
        return cls(loop, entries, len(pointers) - 1, block, in_parts)

    @classmethod
    def _of_diagonals(cls, matrix: Matrix, loops: Any) -> Rows:
        offsets, values = matrix.indices[0].astype(np.int64), np.ascontiguousarray(to_float64(matrix.values))
        # Numbers lie in the columns of the matrix that is stored.
        stored, columns = (0 * offsets, -offsets) if matrix.transposed else (offsets, offsets)
        return cls(loops.add_diagonals, (0, stored, columns, values), matrix.shape[0])

    def add(self, x: np.ndarray, initial: np.ndarray, single: bool, out: np.ndarray) -> int:
        """Write RN(initial + Σ A·x) to `out`; return how many are undecided, or a negative number.

        Rows are shared out over threads by entries.
        """
        x = x if self.block is None else x.reshape(-1, self.block[1])
        cuts = self._cuts(x.shape[1] if x.ndim > 1 and self.block is None else 1)
        if len(cuts) == 2:
            return self.loop(*self.entries, x, initial, single, out)
        blocks, counts = deque(slice(i, max(i, j)) for i, j in pairwise(cuts)), list[int]()
        each, (first, *others) = self.block[0] if self.block else 1, self.entries

        def work() -> None:
            for rows in taken(blocks):
                begin = rows.start if isinstance(first, int) else first[rows.start : rows.stop + 1]
                some = slice(rows.start * each, rows.stop * each)
                counts.append(self.loop(begin, *others, x, initial[some], single, out[some]))

        in_threads(work, len(cuts) - 2, blocks.clear)
        return min(counts) if min(counts) < 0 else sum(counts)

    def _cuts(self, columns: int) -> Sequence[int]:
        """Return where the shares of threads begin, and the last one ends, for so many columns of x."""
        first, height = self.entries[0], self.height
        entries = self.entries[-1].size if isinstance(first, int) else int(first[-1])
        each = columns if self.block is None else prod(self.block)
        shares = entries * each // SPARSE_ENTRIES_OF_A_THREAD
        if shares < 2 or (shares := min(thread_count(), shares)) < 2:
            return 0, height
        if isinstance(first, int):
            return [height * share // shares for share in range(shares + 1)]
        cuts = np.searchsorted(first, [entries * share // shares for share in range(1, shares)])
        return [0, *np.clip(cuts, 0, height).tolist(), height]


_LOOPS = {
    (np.dtype(kind), np.dtype(number)): (kind.__name__, number.__name__)
    for kind in (np.int32, np.int64)
    for number in (np.float32, np.float64)
}
"""Names of the loops over rows, by the dtypes of indices and of numbers."""


def csr_times_vector(a: Any, x: Any) -> np.ndarray | None:
    """Return Ax of a CSR matrix of SciPy's and a vector, which one thread takes as they are, or None.

    None, too, of what the loop leaves undecided, and of what is invalid. Most small products need no more,
    and would spend half of their time on the way to the loop.
    """
    if type(x) is not np.ndarray or getattr(a, "format", None) != "csr":
        return None
    values, indices, pointers, shape = a.data, a.indices, a.indptr, a.shape
    if type(values) is not np.ndarray or values.dtype is not x.dtype or len(shape) != 2:
        return None
    if x.shape != shape[1:] or len(pointers) != shape[0] + 1:
        return None
    if len(values) >= 2 * SPARSE_ENTRIES_OF_A_THREAD and thread_count() > 1:
        return None
    name = _LOOPS.get((indices.dtype, values.dtype))
    if name is None or pointers.dtype != indices.dtype or (loops := compiled(LOOPS)) is None:
        return None
    contiguous = values.flags.c_contiguous and indices.flags.c_contiguous and pointers.flags.c_contiguous
    if not (contiguous and x.flags.c_contiguous) or pointers[0] != 0:
        return None
    out, single = np.empty(shape[0]), values.itemsize == 4
    x = to_float64(x) if single else x
    if loops.add_rows[name](pointers, indices, values, x, NOTHING, single, out):
        return None
    return out.astype(np.float32) if single else out


_BITS = {4: "32", 8: "64"}


def kinds(indices: np.ndarray, values: np.ndarray) -> tuple[str, str]:
    """Return the names of a loop for integers and real numbers; NumPy takes longer to name dtypes."""
    return "int" + _BITS[indices.itemsize], "float" + _BITS[values.itemsize]


def same_integers(*indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of indices as contiguous ones of one dtype: int64 unless both are int32."""
    first, second = indices
    dtype = first.dtype if first.dtype == second.dtype and first.dtype.char in "ilq" else np.int64
    return np.ascontiguousarray(first, dtype), np.ascontiguousarray(second, dtype)


def pairs(x: np.ndarray) -> np.ndarray:
    """Return complex numbers, or others, with their real and imaginary parts along one more axis."""
    return np.ascontiguousarray(x, np.complex128).view(np.float64).reshape(*x.shape, 2)
