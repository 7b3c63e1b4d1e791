"""Least squares of full rank with proved bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, quietly
from multiword.runtime.readback import all_finite
from ozaki.linalg.arguments import LinAlgError, rectangular_system
from ozaki.linalg.products import classical, multiply, words_of_product
from ozaki.linalg.triangular import solved
from ozaki.linalg.verified.tools.eigenvalues import gram_defect
from ozaki.linalg.verified.tools.preconditioner import Correction, classical_error, tail
from ozaki.linalg.verified.tools.refinement import Problem, refine
from ozaki.linalg.verified.tools.scaling import equilibrated_by_columns, rows_scaled
from ozaki.linalg.verified.tools.solution import (
    NotProvedError,
    Solution,
    Statistics,
    attempted,
    empty,
    first_column,
    proved,
)
from ozaki.linalg.verified.tools.upward import ETA, U, apply, magnitude, norms, plus, spectral_norm, up


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def lstsq(a: Any, b: Any, *, throw: bool = True) -> Solution:
    """Minimize ‖b - Ax‖₂ for a matrix of full column rank, and prove a bound for every component.

    With S ≈ R⁻¹ of A = QR, Q = AS and H = QᴴQ, the error of any x is

        e = S·H⁻¹·Sᴴ·g,   g = Aᴴ(b - Ax),   |e_i| <= ‖row i of S‖₂·‖Sᴴg‖₂ / σ_min(Q)²

    with g from exact products, and σ_min(Q)² >= 1 - ‖I - H‖, which proves the rank. x is refined by S·Sᴴ·g
    until its rounding is decided.

    Parameters
    ----------
    a : (m, n) array, m >= n, of real or complex numbers.
    b : (m,) or (m, k) array.
    throw : as in `solve`.

    Returns
    -------
    A `Solution` of shape (n,) or (n, k).

    Raises
    ------
    TypeError, ValueError : as `solve`. numpy.linalg.LinAlgError : shapes that do not fit; `NotProvedError`
        where full rank is not proved: condition numbers beyond about 1e15.

    References
    ----------
    Björck, Iterative refinement of linear least squares solutions; Rump, Verified bounds for least squares
    problems and underdetermined linear systems.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.lstsq(np.array([[1.0, 0], [1, 1], [1, 2]]), np.array([1.0, 2, 4])).value
    array([0.83333333, 1.5       ])
    """
    a, right, one = rectangular_system(a, b)
    if len(a) < a.shape[1]:
        raise LinAlgError(f"a must be (m, n) with m >= n, got {a.shape}")
    with quietly(a):
        of_x = right[: a.shape[1]]
        result = attempted(lambda: _solved(a, right) if len(of_x) else empty(of_x), of_x, throw)
    return first_column(result) if one else result


def _solved(a: Array, b: Array) -> Solution:
    """The solution for a matrix of right sides, with the columns of A scaled by powers of two."""
    matrix, exponents = equilibrated_by_columns(a)
    problem, stats = _full_rank(matrix)
    right, t = rows_scaled(b, namespace(a).zeros((len(b), 1), np.int32))
    words, error, steps = refine(problem, right)
    return proved(words, error, t - exponents[:, None], replace(stats, steps=steps), b.shape[1])


def _normal_equations(a: Array, s: Array, smallest: float) -> Problem:
    """What is refined: x* - x = S·H⁻¹·Sᴴ·Aᴴr, for S ≈ R⁻¹ and 0 < smallest <= σ_min(AS)²."""
    of_s = magnitude(s)

    def correction(residual: Sequence[Array]) -> Correction:
        gradient = words_of_product([a.conj().T], residual, words=2)
        t = classical(s.conj().T, gradient[0])

        def bound() -> Array:
            lost = plus(
                magnitude(gradient[0]) * (classical_error(s) + 4 * U),
                *map(magnitude, gradient[1:]),
                tail(gradient),
                apply(magnitude(a).T, tail(residual)),
            )
            size = plus(magnitude(t), apply(of_s.T, lost), 8 * len(s) * ETA)
            return up(norms(of_s, 1)[:, None] * up(norms(size, 0)[None] / smallest))

        return classical(s, t), bound

    return Problem.of_matrix(a, 5, 3, correction)


def _full_rank(a: Array) -> tuple[Problem, Statistics]:
    """The problem, if the rank is full, with the contraction ‖I - (AS)ᴴ(AS)‖ and the condition ‖S‖₂‖R‖₂."""
    xp, (m, n) = namespace(a), a.shape
    r = xp.linalg.qr(a, mode="r")
    s = xp.triu(solved(r, xp.eye(n, dtype=a.dtype), lower=False))
    condition = contraction = math.inf
    if all_finite(s):
        condition = float(up(spectral_norm(magnitude(s)) * spectral_norm(magnitude(r))))
        q = multiply(a, s, "exact")
        contraction = float(gram_defect(q).max())
        # AS = q + δ with |δ| <= u|q| + η: σ_min(AS) >= √(1 - ‖I - qᴴq‖) - ‖δ‖_F
        rounding = float(up(norms(norms(magnitude(q), 1)[None], 1)[0] * 2 * U)) + m * n * ETA
        if contraction < 1:
            root = math.sqrt(1 - contraction) * (1 - 4 * U) - rounding
            if root > 0:
                stats = Statistics("least squares", condition, contraction, 1, 0)
                return _normal_equations(a, s, root * root * (1 - 4 * U)), stats
    raise NotProvedError(
        f"full column rank is not proved: ‖I - QᴴQ‖ <= {contraction:.2g} for Q = A·R⁻¹",
        *(condition, 1, contraction),
    )
