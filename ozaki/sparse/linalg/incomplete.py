"""ILU(0) and IC(0), incomplete factorizations without fill-in: every operation in a fixed order.

Saad, Iterative methods for sparse linear systems, sections 10.3 and 10.4. A product and a difference are each
rounded once, in the order of the columns, so that the bits are the same with and without compiled code
(`incomplete_numba` compiles these loops as they stand). Rows are sorted by column, without duplicates.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from multiword.runtime.arrays import is_cupy
from multiword.runtime.compiled import compiled
from ozaki.rounding.conversion import joined
from ozaki.sparse.matrices import Matrix, expanded
from ozaki.sparse.pairs import real_entries

FORM = "ozaki.sparse.linalg.incomplete_numba"

COMPLETE = -1
"""What a factorization returns that has met no pivot that it cannot use; else the row of that."""


def factor_lu(
    pointers: np.ndarray, columns: np.ndarray, values: np.ndarray, diagonal: np.ndarray, place: np.ndarray
) -> int:
    """Replace the values of A by those of a unit L and of U (algorithm 10.4); return COMPLETE or a row.

    diagonal : (n,), where the diagonal elements are among the entries; all of them must be there.
    place : (n,) scratch, full of −1: where the entries of a row are, by column.
    """
    n = len(diagonal)
    for i in range(n):
        for p in range(pointers[i], pointers[i + 1]):
            place[columns[p]] = p
        for p in range(pointers[i], diagonal[i]):
            k = columns[p]
            factor = values[p] / values[diagonal[k]]
            values[p] = factor
            for q in range(diagonal[k] + 1, pointers[k + 1]):
                at = place[columns[q]]
                if at >= 0:
                    values[at] -= factor * values[q]
        for p in range(pointers[i], pointers[i + 1]):
            place[columns[p]] = -1
        if not 0 < abs(values[diagonal[i]]) < np.inf:
            return i
    return COMPLETE


def solve_lu(
    pointers: np.ndarray, columns: np.ndarray, values: np.ndarray, diagonal: np.ndarray, x: np.ndarray
) -> None:
    """Replace x by the solution of LUy = x: forwards, and backwards."""
    n = len(diagonal)
    for i in range(n):
        total = x[i]
        for p in range(pointers[i], diagonal[i]):
            total -= values[p] * x[columns[p]]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for p in range(diagonal[i] + 1, pointers[i + 1]):
            total -= values[p] * x[columns[p]]
        x[i] = total / values[diagonal[i]]


def factor_cholesky(pointers: np.ndarray, columns: np.ndarray, values: np.ndarray) -> int:
    """Replace the values of A's lower triangle by those of L, LLᵀ ≈ A; return COMPLETE or a row.

    The last entry of each row is its diagonal element.
    """
    n = len(pointers) - 1
    for i in range(n):
        begin, last = pointers[i], pointers[i + 1] - 1
        for p in range(begin, last):
            j = columns[p]
            total, q, r = values[p], begin, pointers[j]
            while q < p and r < pointers[j + 1] - 1:
                if columns[q] == columns[r]:
                    total -= values[q] * values[r]
                    q, r = q + 1, r + 1
                elif columns[q] < columns[r]:
                    q += 1
                else:
                    r += 1
            values[p] = total / values[pointers[j + 1] - 1]
        total = values[last]
        for p in range(begin, last):
            total -= values[p] * values[p]
        if not 0 < total < np.inf:
            return i
        values[last] = sqrt(total)
    return COMPLETE


def solve_cholesky(pointers: np.ndarray, columns: np.ndarray, values: np.ndarray, x: np.ndarray) -> None:
    """Replace x by the solution of LLᵀy = x: forwards, and backwards by columns of Lᵀ."""
    n = len(pointers) - 1
    for i in range(n):
        last, total = pointers[i + 1] - 1, x[i]
        for p in range(pointers[i], last):
            total -= values[p] * x[columns[p]]
        x[i] = total / values[last]
    for i in range(n - 1, -1, -1):
        last = pointers[i + 1] - 1
        x[i] = x[i] / values[last]
        for p in range(pointers[i], last):
            x[columns[p]] -= values[p] * x[i]


class ilu0:
    """An incomplete factorization LU ≈ A with the pattern of A, whose inverse is to be passed as M.

    The factors and what they solve have the same bits on every machine.

    Parameters
    ----------
    A : (n, n) sparse matrix of SciPy of real numbers; duplicates are added up, exactly, before.

    Raises
    ------
    ValueError : A is not square, lacks a diagonal element, or a pivot is zero or not finite. TypeError : A is
        complex, or CuPy's: triangular systems are solved on the host.

    References
    ----------
    Saad, Iterative methods for sparse linear systems, algorithm 10.4.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> ilu0(csr_array([[4.0, 2.0], [2.0, 3.0]])).matvec(np.array([6.0, 5.0]))
    array([1., 1.])
    """

    def __init__(self, A: Any) -> None:
        pointers, columns, values = _rows_of(A)
        self.shape, self.dtype, n = A.shape, np.dtype(np.float64), A.shape[0]
        rows = expanded(pointers, 0, len(columns))
        diagonal = np.flatnonzero(rows == columns)
        if len(diagonal) < n:
            raise ValueError(f"A has no diagonal element in row {_first_missing(rows[diagonal])}")
        with np.errstate(all="ignore"):
            row = _loop("factor_lu")(pointers, columns, values, diagonal, np.full(n, -1))
        if row != COMPLETE:
            raise ValueError(f"ILU(0) breaks down: the pivot of row {row} is zero or not finite")
        self._factors = pointers, columns, values, diagonal

    def matvec(self, x: Any) -> Any:
        """Return the solution y of LUy = x; complex numbers by their parts."""
        return _solved("solve_lu", self._factors, x)


class ic0:
    """An incomplete Cholesky factorization LLᵀ ≈ A with the pattern of A, whose inverse is to be passed as M.

    The factor and what it solves have the same bits on every machine.

    Parameters
    ----------
    A : (n, n) sparse matrix of SciPy of real numbers, symmetric: its lower triangle is read.

    Raises
    ------
    ValueError : A is not square, or a pivot is not positive, as it may be although A is positive definite.
        TypeError : A is complex, or CuPy's: triangular systems are solved on the host.

    References
    ----------
    Meijerink and van der Vorst, An iterative solution method for linear systems of which the coefficient
    matrix is a symmetric M-matrix.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> ic0(csr_array([[4.0, 2.0], [2.0, 5.0]])).matvec(np.array([6.0, 7.0]))
    array([1., 1.])
    """

    def __init__(self, A: Any) -> None:
        pointers, columns, values = _rows_of(A)
        self.shape, self.dtype = A.shape, np.dtype(np.float64)
        rows = expanded(pointers, 0, len(columns))
        lower = columns <= rows
        rows, columns, values = rows[lower], columns[lower], values[lower]
        present = rows[rows == columns]
        if len(present) < A.shape[0]:
            raise ValueError(f"A has no diagonal element in row {_first_missing(present)}")
        pointers = np.searchsorted(rows, np.arange(A.shape[0] + 1))
        with np.errstate(all="ignore"):
            row = _loop("factor_cholesky")(pointers, columns, values)
        if row != COMPLETE:
            raise ValueError(f"IC(0) breaks down: the pivot of row {row} is not positive")
        self._factors = pointers, columns, values

    def matvec(self, x: Any) -> Any:
        """Return the solution y of LLᵀy = x; complex numbers by their parts."""
        return _solved("solve_cholesky", self._factors, x)


def _loop(name: str) -> Any:
    """Return a loop of this file, compiled if it can be."""
    form = compiled(FORM)
    return globals()[name] if form is None else getattr(form, name)


def _rows_of(A: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    matrix = Matrix.of(A, "A")
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A must be square, got shape {matrix.shape}")
    if is_cupy(matrix.values):
        raise TypeError("A must be SciPy's, as triangular systems are solved on the host: pass A.get()")
    return real_entries(matrix)


def _first_missing(rows: np.ndarray) -> int:
    """Return the first number that sorted ones leave out."""
    return int(np.flatnonzero(np.append(rows, -1) != np.arange(len(rows) + 1))[0])


def _solved(name: str, factors: tuple[np.ndarray, ...], x: Any) -> np.ndarray:
    if is_cupy(x):
        raise TypeError("x must be NumPy's, as triangular systems are solved on the host")
    if x.dtype.kind == "c":
        real, imaginary = (_solved(name, factors, part) for part in (x.real, x.imag))
        return joined([real, imaginary], np.dtype(np.complex128))
    out = np.array(x, np.float64).reshape(-1)
    with np.errstate(all="ignore"):
        _loop(name)(*factors, out)
    return out
