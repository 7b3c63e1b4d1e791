"""Linear systems with a proof: x nearly always correctly rounded, every component with a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, device_of, namespace, on_device_of_arrays, quietly
from ozaki.linalg.arguments import one_square, square, systems
from ozaki.linalg.verified.tools.preconditioner import Correction, check_words
from ozaki.linalg.verified.tools.refinement import Problem, refine
from ozaki.linalg.verified.tools.regularity import Regularity, prove_regular
from ozaki.linalg.verified.tools.scaling import equilibrated, exactly_scaled, rows_scaled
from ozaki.linalg.verified.tools.solution import (
    SingularError,
    Solution,
    Statistics,
    attempted,
    empty,
    first_column,
    proved,
    stacked,
)
from ozaki.public import is_sparse

LARGEST_EXPONENT = 960
"""By which small integers are multiplied and still are float64 numbers."""


@public_in("ozaki.linalg.verified", "What they return")
@dataclass(frozen=True)
class Certificate:
    """A proof that a matrix is regular, with which systems are solved and the matrix is inverted.

    Attributes
    ----------
    matrix : A, of float64 or complex128.
    scaled_matrix, rows, columns : 2**-rows·A·2**-columns and the integer exponents.
    regularity : the proof, for the scaled matrix.
    max_words : of the preconditioner, as asked for.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> proof = verified.certify(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> proof.solve(np.array([3.0, 4.0])).value
    array([1., 1.])
    """

    matrix: Array
    scaled_matrix: Array
    rows: Array
    columns: Array
    regularity: Regularity
    max_words: int

    @property
    def condition(self) -> float:
        """Upper bound of ‖|R||A|‖∞, nearly the condition number of Bauer and Skeel when A is equilibrated."""
        return self.regularity.condition

    @on_device_of_arrays
    def solve(self, b: Any) -> Solution:
        """Return the solution of Ax = b for a (n,) or (n, m) array of right sides, as `solve` does."""
        _, b, one = systems(self.matrix, b)
        if b.ndim != 2:
            raise np.linalg.LinAlgError(f"b must be a vector or a matrix of right sides, got shape {b.shape}")
        with quietly(b):
            result = self._solve(b)
        return result if not one else first_column(result)

    def inv(self) -> Solution:
        """Return the inverse, each element with its bound."""
        with device_of(self.matrix):
            identity = namespace(self.matrix).eye(len(self.matrix), dtype=self.matrix.dtype)
        return self.solve(identity)

    def _problem(self) -> Problem:
        """What is refined: x* - x = A⁻¹r ≈ R·r."""
        proof, r = self.regularity, self.regularity.preconditioner

        def correction(residual: Sequence[Array]) -> Correction:
            d, bound = r.correction(residual)
            return d, lambda: proof.enclose(bound())

        return Problem.of_matrix(self.scaled_matrix, 4 + r.count, r.residual_words, correction)

    def _solve(self, b: Array) -> Solution:
        """The solution for a matrix of right sides."""
        if not b.size:
            return empty(b)
        right, t = rows_scaled(b, self.rows)
        words, error, steps = refine(self._problem(), right)
        proof = self.regularity
        stats = Statistics(proof.tier, proof.condition, proof.contraction, proof.preconditioner.count, steps)
        return proved(words, error, t - self.columns.T, stats, b.shape[1])


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def solve(a: Any, b: Any, *, max_words: int = 4, throw: bool = True) -> Solution:
    """Solve Ax = b and prove a bound for every component, which nearly always shows it correctly rounded.

    The value is therefore nearly always the same on every machine, whatever its LAPACK.

    Parameters
    ----------
    a : (..., n, n) array of real or complex numbers, taken as float64 or complex128; or a sparse matrix of
        SciPy, symmetric or Hermitian, and positive definite.
    b : (n,) array, or (..., n, m), as for `numpy.linalg.solve`; stacks broadcast.
    max_words : of the approximate inverse: about 15 decimal digits of condition number each.
    throw : raise where nothing can be proved; False returns a `Solution` of NaN with infinite bounds that
        says so in `result`.

    Returns
    -------
    A `Solution`, whose value has the shape that `numpy.linalg.solve` gives.

    Raises
    ------
    TypeError : arrays that are not numbers, or of two kinds. ValueError : Inf or NaN.
    numpy.linalg.LinAlgError : shapes that do not fit; `SingularError` where a is proved singular,
        `NotProvedError` where nothing is proved about it.

    References
    ----------
    Oishi and Rump, Fast verification of solutions of matrix equations; Rump, Inversion of extremely
    ill-conditioned matrices in floating-point.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> hilbert = 1 / (np.arange(15.0)[:, None] + np.arange(15.0) + 1)  # condition number 1e18
    >>> x = verified.solve(hilbert, np.ones(15))
    >>> bool(x.rounded.all()), x.stats.tier
    (True, 'factored')
    """
    if is_sparse(a):
        return cast(
            Solution, import_module("ozaki.sparse.verified").solve(a, b, max_words=max_words, throw=throw)
        )
    a, b, one = systems(a, b)
    with quietly(b):
        if a.ndim == b.ndim == 2:
            result = _solved(a, b, max_words, throw)
            return first_column(result) if one else result
        xp, batch = namespace(b), np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = xp.broadcast_to(a, (*batch, *a.shape[-2:]))
        b = xp.broadcast_to(b, (*batch, *b.shape[-2:]))
        if 0 in batch:
            check_words(max_words)
            return empty(xp.zeros(b.shape[:-1] if one else b.shape, b.dtype))
        results = [_solved(a[index], b[index], max_words, throw) for index in np.ndindex(batch)]
        if one:
            results = [first_column(result) for result in results]
        return stacked(results, batch)


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def certify(a: Any, *, max_words: int = 4) -> Certificate:
    """Prove that a matrix is regular, and return what it takes to solve with it.

    Parameters
    ----------
    a : (n, n) array of real or complex numbers. It must not change while the certificate is used.
    max_words : as in `solve`.

    Returns
    -------
    A `Certificate`, with `solve`, `inv` and `condition`.

    Raises
    ------
    TypeError, ValueError, numpy.linalg.LinAlgError : as `solve`.

    References
    ----------
    Oishi and Rump, Fast verification of solutions of matrix equations.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.certify(np.eye(3)).condition < 1.01
    True
    """
    a = one_square(a)
    with quietly(a):
        return _certified(a, max_words)


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def inv(a: Any, *, max_words: int = 4, throw: bool = True) -> Solution:
    """Invert a matrix and prove a bound for every element.

    As `ozaki.linalg.verified.solve`; differs in that the right sides are those of the identity.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.inv(np.array([[2.0, 1.0], [1.0, 1.0]])).value
    array([[ 1., -1.],
           [-1.,  2.]])
    """
    a = square(a)
    return solve(a, namespace(a).eye(a.shape[-1], dtype=a.dtype), max_words=max_words, throw=throw)


def _certified(a: Array, max_words: int) -> Certificate:
    check_words(max_words)
    n, xp = len(a), namespace(a)
    nothing = xp.zeros((n, 1), np.int32), xp.zeros((1, n), np.int32)
    matrix, rows, columns = equilibrated(a) if n else (a, *nothing)
    try:
        proof = prove_regular(matrix, max_words)
    except SingularError as error:
        raise SingularError(_unscaled_null_vector(error.null_vector, columns[0])) from None
    return Certificate(a, matrix, rows, columns, proof, max_words)


def _unscaled_null_vector(z: Array, columns: Array) -> Array | None:
    """2**-columns·z, times a power of two that makes it exact; None if float64 has no such numbers."""
    xp = namespace(z)
    exponents = columns.max() - columns
    exponents = exponents - exponents[z != 0].min()
    largest = int(exponents[z != 0].max())
    if largest > LARGEST_EXPONENT:
        exponents = exponents - largest // 2
    return exactly_scaled(z, xp.where(z != 0, exponents, 0))


def _solved(a: Array, b: Array, max_words: int, throw: bool) -> Solution:
    """The solution of one system with a matrix of right sides."""
    return attempted(lambda: _certified(a, max_words)._solve(b), b, throw)
