"""GMRES (Saad and Schultz), with modified Gram and Schmidt and restarts."""

from __future__ import annotations

from multiword.runtime.arrays import Array
from ozaki.sparse.linalg.system import System, krylov_method
from ozaki.sparse.linalg.vectors import (
    Scalar,
    added,
    dot,
    magnitude,
    norm,
    product,
    quotient,
    rotation,
    scaled,
)


@krylov_method
def gmres(system: System, *, restart: int | None = None) -> tuple[Array, int]:
    """Return the solution of Ax = b for a general A, as `scipy.sparse.linalg.gmres` does.

    As `cg`; differs in taking any square matrix, in `restart`, and in M, which is applied from the right: the
    residuals are those of the system itself. The callback gets x after each cycle (callback_type="x").

    Parameters
    ----------
    restart : iterations of a cycle, by default 20.
    maxiter : cycles at most, by default 10·n.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> x, info = gmres(csr_array([[4.0, 1.0], [0.0, 2.0]]), np.array([6.0, 4.0]))
    >>> np.allclose(x, [1, 2]), info
    (True, 0)
    """
    length = min(20 if restart is None else restart, system.b.size)
    for cycle in range(system.limit):
        r = system.residual()
        size = norm(r)
        system.told(cycle * length, size)
        if size <= system.tolerance:
            return system.x, 0
        update = _cycle(system, r, size, length, cycle)
        system.x, system.given = system.x + update, True
        system.callback(system.x)
    return system.x, 0 if norm(system.residual()) <= system.tolerance else system.limit


def _cycle(system: System, r: Array, size: float, length: int, cycle: int) -> Array:
    """Return what minimizes the residual in the Krylov space of one cycle."""
    basis, columns, turns = [scaled(1 / size, r)], list[list[Scalar]](), list[tuple[float, Scalar]]()
    right: list[Scalar] = [size]
    for step in range(length):
        w, column = system.matvec(system.precondition(basis[step])), list[Scalar]()
        for v in basis:
            column.append(dot(v, w))
            w = added(w, -column[-1], v)
        below = norm(w)
        for i, (c, s) in enumerate(turns):
            column[i], column[i + 1 : i + 2] = _turned(c, s, column[i], column[i + 1])
        c, s, column[step] = rotation(column[step], below)
        turns.append((c, s))
        right[step:], columns = list(_pair(c, s, right[step])), [*columns, column]
        system.told(cycle * length + step + 1, magnitude(right[-1]))
        if magnitude(right[-1]) <= system.tolerance or below == 0:
            break
        basis.append(scaled(1 / below, w))
    return system.precondition(_combined(basis, columns, right))


def _turned(c: float, s: Scalar, a: Scalar, b: Scalar) -> tuple[Scalar, list[Scalar]]:
    """Return both numbers, rotated; the second in a list."""
    return c * a + product(s, b), [c * b - product(s.conjugate(), a)]


def _pair(c: float, s: Scalar, a: Scalar) -> tuple[Scalar, Scalar]:
    return c * a, -product(s.conjugate(), a)


def _combined(basis: list[Array], columns: list[list[Scalar]], right: list[Scalar]) -> Array:
    """Return the sum of the basis with the coefficients that solve the triangular system."""
    y = list(right[: len(columns)])
    for i in range(len(y) - 1, -1, -1):
        for j in range(i + 1, len(y)):
            y[i] = y[i] - product(columns[j][i], y[j])
        y[i] = quotient(y[i], columns[i][i]) if columns[i][i] != 0 else 0.0 * y[i]
    total = scaled(y[0], basis[0])
    for a, v in zip(y[1:], basis[1:], strict=False):
        total = added(total, a, v)
    return total
