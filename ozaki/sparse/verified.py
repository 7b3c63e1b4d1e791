"""`ozaki.linalg.verified.solve` of sparse matrices: Hermitian, positive definite, and proved to be.

Rump, Verification methods: rigorous results using floating-point arithmetic, section 13 (sparse systems).

    A − sI ≈ LU     by SuperLU, pivots on the diagonal, s about half of the smallest eigenvalue
    λ_min >= s − ‖A − sI − LDLᵀ‖, D the diagonal of U, where D is positive
    r = b − A·Σx    exactly, rounded to the next number
    |x* − Σx| <= ‖r‖₂/λ_min, in every component

A is scaled by powers of two to a diagonal near 1 before, so that components of graded systems have bounds of
their own. A complex system is the real one of twice the order, [Re A, −Im A; Im A, Re A]·[Re x; Im x] =
[Re b; Im b], which has the same eigenvalues, and is symmetric where A is Hermitian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, is_cupy, quietly
from multiword.runtime.options import exactly
from ozaki.linalg.arguments import LinAlgError, numbers
from ozaki.linalg.verified.tools.preconditioner import Correction, check_words
from ozaki.linalg.verified.tools.refinement import Problem, refine
from ozaki.linalg.verified.tools.scaling import rows_scaled, units
from ozaki.linalg.verified.tools.solution import (
    NotProvedError,
    Solution,
    Statistics,
    attempted,
    empty,
    first_column,
    proved,
)
from ozaki.linalg.verified.tools.upward import ETA, U, gamma, magnitude, norms, plus, root, up
from ozaki.sparse.api import residual
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.pairs import sorted_entries

SHARES = (0.5, 0.1, 0.01, 0.001)
"""Shares of the smallest eigenvalue, as it is estimated, that A is shifted by, one after the other."""

MOST_WORDS = 6
"""Words of x, at most."""


def solve(a: Any, b: Any, *, max_words: int = 4, throw: bool = True) -> Solution:
    """Return the solution of Ax = b with a bound for every component, of a sparse positive definite A.

    `ozaki.linalg.verified.solve` goes here.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> from scipy.sparse import csr_array
    >>> x = verified.solve(csr_array([[4.0, 1.0], [1.0, 3.0]]), np.array([6.0, 7.0]))
    >>> x.value, x.stats.tier
    (array([1., 2.]), 'shifted')
    """
    check_words(max_words)
    matrix, right, one = _system(a, b)
    real, of_real = _in_reals(matrix, right)
    with quietly(right):
        result = attempted(lambda: _proved(real, of_real) if len(right) else empty(right), of_real, throw)
        result = result if real is matrix else _joined(result, len(right))
    return first_column(result) if one else result


def _system(a: Any, b: Any) -> tuple[Any, np.ndarray, bool]:
    """Return A as a sorted CSR array without duplicates, B as a matrix, and whether b is a vector."""
    from scipy.sparse import csr_array

    matrix = Matrix.of(a, "a")
    if is_cupy(matrix.values):
        raise TypeError("a sparse matrix is factorized on the host, by SciPy: pass a.get()")
    if matrix.shape[0] != matrix.shape[1]:
        raise LinAlgError(f"a must be square, got shape {matrix.shape}")
    exactly("a", matrix.values.reshape(-1), np.result_type(matrix.dtype, np.float64))
    pointers, columns, values = sorted_entries(matrix)
    if len(values) < sum(piece.values.size for piece in matrix.pieces()):
        raise ValueError("a must have no duplicate entries: call a.sum_duplicates()")
    right = numbers(as_array(b, "b"), "b")
    if right.ndim not in (1, 2) or len(right) != matrix.shape[0]:
        raise LinAlgError(
            f"b must have {matrix.shape[0]} rows, as a of shape {matrix.shape}, got {right.shape}"
        )
    if not np.isfinite(values).all():
        raise LinAlgError("a must be finite: it has an Inf or a NaN")
    one = right.ndim == 1
    return csr_array((values, columns, pointers), matrix.shape), right[:, None] if one else right, one


def _in_reals(a: Any, b: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return a system of real numbers as it is, a complex one as one of twice the order."""
    if "c" not in (a.dtype.kind, b.dtype.kind) or not len(b):
        return a, b
    from scipy.sparse import block_array

    real, imaginary = a.real, a.imag
    whole = block_array([[real, -imaginary], [imaginary, real]], format="csr")
    whole.eliminate_zeros()
    return whole, np.concatenate([b.real, b.imag])


def _joined(solution: Solution, n: int) -> Solution:
    """Return the complex solution whose parts are the halves of a real one."""

    def joined(x: np.ndarray) -> np.ndarray:
        result = np.empty((n, x.shape[1]), complex)
        result.real, result.imag = x[:n], x[n:]
        return result

    return replace(
        solution,
        value=joined(solution.value),
        bound=magnitude(joined(solution.bound)),
        rounded=solution.rounded[:n] & solution.rounded[n:],
        words=tuple(map(joined, solution.words)),
        error=magnitude(joined(solution.error)),
    )


def _proved(a: Any, b: np.ndarray) -> Solution:
    """Return the solution for a matrix of right sides."""
    if (a - a.T).count_nonzero():
        raise _not_proved("a sparse matrix is solved with a proof if it is Hermitian: pass a.toarray()")
    scaled, exponents = _scaled(a)
    factors = _factors(scaled)
    if factors is None:
        raise _not_proved("a is not proved to be positive definite")
    lowest, contraction = _smallest_eigenvalue(scaled, factors)
    if not b.size:
        return empty(b)
    right, t = rows_scaled(b, exponents[:, None])
    words, error, steps = refine(_problem(scaled, factors, lowest), right)
    largest = float(up(abs(scaled) @ np.ones(len(b))).max()) * (1 + 2 * len(b) * U)
    stats = Statistics("shifted", up(largest * (1 / lowest)) * (1 + 4 * U), contraction, 1, steps)
    return proved(words, error, t - exponents[:, None], stats, b.shape[1])


def _scaled(a: Any) -> tuple[Any, np.ndarray]:
    """Return 2**-eᵢ·aᵢⱼ·2**-eⱼ with a diagonal in [1/2, 4), and e; zeros where that is not exact."""
    diagonal = a.diagonal()
    if not (diagonal > 0).all():
        raise _not_proved("a is not positive definite: its diagonal is not positive")
    e = np.frexp(diagonal)[1] // 2
    powers = -np.repeat(e, np.diff(a.indptr)) - e[a.indices]
    result = a.copy()
    result.data = np.ldexp(a.data, powers)
    return (result, e) if (np.ldexp(result.data, -powers) == a.data).all() else (a, 0 * e)


def _factors(a: Any) -> Any:
    """Return SuperLU's factors with pivots on the diagonal, all positive; None where there are none."""
    from scipy.sparse.linalg import splu

    options = {"SymmetricMode": True, "Equil": False}
    try:
        factors = splu(a.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    except RuntimeError:  # exactly singular
        return None
    pivots = factors.U.diagonal()
    usable = (factors.perm_r == factors.perm_c).all() and (pivots > 0).all() and np.isfinite(pivots).all()
    return factors if usable else None


def _smallest_eigenvalue(a: Any, factors: Any) -> tuple[float, float]:
    """Return a lower bound of A's smallest eigenvalue, and what is subtracted of the shift, as a share."""
    x, estimate = np.random.default_rng(0).standard_normal(a.shape[0]), 0.0
    for _ in range(8):  # inverse iteration
        x = factors.solve(x)
        size = float(np.linalg.norm(x))
        estimate, x = 1 / size, x / size
    lost = 1.0
    for share in SHARES:
        shift = share * estimate
        shifted = a.copy()
        shifted.setdiag(np.nextafter(a.diagonal() - shift, -np.inf))
        of_shifted = _factors(shifted)
        if of_shifted is not None:
            lost = _backward_error(of_shifted) / shift
            if lost < 0.5:
                return float(-up(-shift * (1 - up(lost) * (1 + 4 * U)) * (1 - 4 * U))), lost
    raise _not_proved("a is not proved to be positive definite", 1 / estimate, lost)


def _backward_error(factors: Any) -> float:
    """Return a bound of ‖A − LDLᵀ‖₂ for the factors of A, D the diagonal of U.

    |A − LU| <= γ|L||U| for the products that an element is made of, in any order (Higham, Accuracy and
    stability of numerical algorithms, theorem 9.3), a division by a pivot being two operations; U − DLᵀ is
    computed. A 2-norm is at most the root of the 1-norm times the ∞-norm.
    """
    lower, upper = abs(factors.L).tocsr(), abs(factors.U).tocsr()
    most = int(max(np.diff(lower.indptr).max(), np.diff(factors.U.tocsc().indptr).max()))
    product = factors.L.multiply(factors.U.diagonal()).T
    between = abs(factors.U - product) * (1 + 4 * U) + abs(product) * (4 * U)
    n = lower.shape[0]
    total = gamma(2 * most + 40) * upper + between.tocsr()
    rows = lower @ (total @ np.ones(n))
    columns = (np.ones(n) @ lower) @ total
    rounding = 1 + 4 * (n + 8) * U
    square = up(up(rows.max() * rounding) * up(columns.max() * rounding))
    return float(plus(root(square), 8.0 * n * n * ETA))


def _problem(a: Any, factors: Any, lowest: float) -> Problem:
    """What is refined: x* - x = A⁻¹r, at most ‖r‖₂/λ_min in norm."""

    def of_matrix(xs: Sequence[Array], b: Array, count: int) -> Sequence[Array]:
        return [residual(a, tuple(xs), b)]

    def correction(words: Sequence[Array]) -> Correction:
        (r,) = words

        def bound() -> Array:
            size = up(up(norms(abs(r), 0) * (1 + 4 * U)) + up(np.sqrt(len(r)) * 2) * ETA)
            return np.tile(up(up(size / lowest) * (1 + 4 * U)), (len(r), 1))

        return factors.solve(r), bound

    return Problem(of_matrix, lambda: int(units(a.data[:, None]).min()), MOST_WORDS, 1, correction)


def _not_proved(message: str, condition: float = np.inf, contraction: float = np.inf) -> NotProvedError:
    return NotProvedError(message, condition, 1, contraction)
