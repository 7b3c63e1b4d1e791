"""Least squares of full rank with proved bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import (
    Array,
    namespace,
    on_device_of_arrays,
    quietly,
)
from ozaki.linalg.arguments import LinAlgError, rectangular_system
from ozaki.linalg.products import classical, multiply, words_of_product
from ozaki.linalg.triangular import solved
from ozaki.linalg.verified.tools.eigenvalues import spectral_norm
from ozaki.linalg.verified.tools.equilibration import rows_scaled
from ozaki.linalg.verified.tools.preconditioner import classical_error, tail
from ozaki.linalg.verified.tools.refinement import DECIDED, relative_errors, units
from ozaki.linalg.verified.tools.solution import (
    NotProvedError,
    Solution,
    Statistics,
    empty,
    first_column,
    proved,
    unproved,
)
from ozaki.linalg.verified.tools.upward import ETA, U, apply, largest, magnitude, norms, plus, times, up
from ozaki.linalg.verified.tools.words import renormalized, scaled

MOST_STEPS, MOST_STALLS = 60, 4


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
        try:
            result = _solved(a, right) if a.shape[1] else empty(right[:0])
        except LinAlgError as error:
            if throw:
                raise
            result = unproved(right[: a.shape[1]], error)
    return first_column(result) if one else result


def _solved(a: Array, b: Array) -> Solution:
    """The solution for a matrix of right sides, with the columns of A scaled by powers of two."""
    xp = namespace(a)
    # To about 1, or as near as all numbers of a column stay multiples of η.
    exponents = xp.minimum(xp.frexp(magnitude(a).max(axis=0))[1], units(a) + 1074)[:, None]
    scaled_a = scaled(a, -exponents.T)
    s, smallest, contraction, condition = _full_rank(scaled_a)
    right, t = rows_scaled(b, xp.zeros((len(b), 1), np.int32))
    words, error, steps = _refined(scaled_a, right, s, smallest)
    stats = Statistics("least squares", condition, contraction, 1, steps)
    return proved(words, error, t - exponents, stats, b.shape[1])


def _full_rank(a: Array) -> tuple[Array, float, float, float]:
    """S ≈ R⁻¹, a positive lower bound of σ_min(AS)², ‖I - (AS)ᴴ(AS)‖, and a bound of ‖S‖₂‖R‖₂."""
    xp, (m, n) = namespace(a), a.shape
    r = xp.linalg.qr(a, mode="r")
    s = xp.triu(solved(r, xp.eye(n, dtype=a.dtype), lower=False))
    condition = contraction = math.inf
    if bool(xp.isfinite(s).all()):
        condition = float(times(spectral_norm(magnitude(s)), spectral_norm(magnitude(r))))
        q = multiply(a, s, "exact")
        size = magnitude(q)
        g = magnitude(xp.eye(n) - classical(q.conj().T, q))
        ones = xp.ones(n)
        error = times(apply(size.T, apply(size, ones)), classical_error(q.T)) + 8 * m * n * ETA
        contraction = largest(plus(apply(g, ones) * (1 + 4 * U), error))
        # AS = q + δ with |δ| <= u|q| + η: σ_min(AS) >= √(1 - ‖I - qᴴq‖) - ‖δ‖_F
        rounding = float(up(norms(norms(size, 1)[None], 1)[0] * 2 * U)) + m * n * ETA
        if contraction < 1:
            root = math.sqrt(1 - contraction) * (1 - 4 * U) - rounding
            if root > 0:
                return s, root * root * (1 - 4 * U), contraction, condition
    raise NotProvedError(
        f"full column rank is not proved: ‖I - QᴴQ‖ <= {contraction:.2g} for Q = A·R⁻¹",
        *(condition, 1, contraction),
    )


def _refined(a: Array, b: Array, s: Array, smallest: float) -> tuple[list[Array], Array, int]:
    """Words of x, their error, and the steps taken."""
    xp, n = namespace(a), a.shape[1]
    adjoint, of_s = s.conj().T, magnitude(s)
    row_norms = norms(of_s, 1)[:, None]
    xs = [xp.zeros((n, b.shape[1]), a.dtype)]
    best, smallest_error, stalls = (xs, xp.full(xs[0].shape, np.inf), 0), math.inf, 0
    for step in range(MOST_STEPS):
        residual = words_of_product([a], [-x for x in xs], [b], words=3)
        gradient = words_of_product([a.conj().T], residual, words=2)
        t = classical(adjoint, gradient[0])
        lost = plus(
            magnitude(gradient[0]) * (classical_error(s) + 4 * U),
            *map(magnitude, gradient[1:]),
            tail(gradient),
            apply(magnitude(a).T, tail(residual)),
        )
        size = plus(magnitude(t), apply(of_s.T, lost), 8 * n * ETA)
        error = times(row_norms, up(norms(size, 0)[None] / smallest))
        relative = largest(relative_errors(error, xs[0])) if step else math.inf
        stalls = 0 if relative < 0.5 * smallest_error else stalls + 1
        if step and relative < smallest_error:
            best, smallest_error = (xs, error, step), relative
        if step and (smallest_error <= DECIDED or stalls > MOST_STALLS):
            break
        xs = renormalized([*xs, classical(s, t)], 2 + min(step // 4, 2))
    return best
