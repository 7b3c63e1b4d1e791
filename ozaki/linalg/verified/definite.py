"""Positive definite or not: proved by a shifted Cholesky factorization, by congruence or by a witness."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import (
    Array,
    is_cupy,
    namespace,
    on_device_of_arrays,
    on_host,
    quietly,
)
from multiword.runtime.readback import anywhere, everywhere
from ozaki.linalg import factor_cholesky
from ozaki.linalg.arguments import one_hermitian
from ozaki.linalg.products import classical, words_of_product
from ozaki.linalg.spectral import approximate
from ozaki.linalg.triangular import solved
from ozaki.linalg.verified.tools.preconditioner import check_words, tail
from ozaki.linalg.verified.tools.scaling import equilibrated_by_diagonal, scaled
from ozaki.linalg.verified.tools.singular import exact_image, null_vector
from ozaki.linalg.verified.tools.solution import NotProvedError
from ozaki.linalg.verified.tools.upward import ETA, U, apply, from_one, gamma, magnitude, plus, total, up


@public_in("ozaki.linalg.verified", "What they return")
@dataclass(frozen=True)
class Definiteness:
    """Whether a matrix is positive definite, proved either way; true in a condition if it is.

    Attributes
    ----------
    definite : the answer.
    how : "Cholesky", "congruence" or "witness".
    witness : (n,) array x, not 0, with xᴴAx <= 0 exactly, if it is not definite; else None.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> answer = verified.is_positive_definite(np.array([[1.0, 2.0], [2.0, 1.0]]))
    >>> bool(answer), answer.how, answer.witness @ [[1, 2], [2, 1]] @ answer.witness < 0
    (False, 'witness', np.True_)
    """

    definite: bool
    how: str
    witness: Array | None = None

    def __bool__(self) -> bool:
        return self.definite


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def is_positive_definite(a: Any, *, max_words: int = 4) -> Definiteness:
    """Return whether a symmetric or Hermitian matrix is positive definite, with a proof.

        Cholesky    if the factorization of A - cI in floating-point ends, A is definite, for c of about
                    γ_n·tr(A) (Rump, theorem 2.3): nearly always enough
        congruence  XAXᴴ within 1 of I in some norm, X in words, built from Cholesky factors in several steps
        witness     x with xᴴAx <= 0, evaluated exactly

    Parameters
    ----------
    a : (n, n) array, equal to its conjugate transpose.
    max_words : the most words of X; each is for about 15 digits of condition number.

    Returns
    -------
    A `Definiteness`.

    Raises
    ------
    TypeError, ValueError : as `solve`; a is not Hermitian. numpy.linalg.LinAlgError : not square;
        `NotProvedError` where neither is proved, as for a singular matrix without an exact null vector in
        float64.

    References
    ----------
    Rump, Verification of positive definiteness.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> bool(verified.is_positive_definite(np.eye(3)))
    True
    """
    check_words(max_words)
    a = one_hermitian(a)
    with quietly(a):
        xp = namespace(a)
        diagonal = a.diagonal().real
        if not everywhere(diagonal > 0):
            unit = xp.zeros(len(a), a.dtype)
            unit[int(diagonal.argmin())] = 1
            return Definiteness(False, "witness", unit)
        matrix, exponents = equilibrated_by_diagonal(a)
        if _shifted_factorization_ends(matrix):
            return Definiteness(True, "Cholesky")
        direction = _congruent_to_identity(matrix, max_words)
        if direction is None:
            return Definiteness(True, "congruence")
        lowest = approximate("eigh", matrix)[1][:, 0]
        for x in (direction, lowest, (lowest / abs(lowest).max()).round(), null_vector(matrix)):
            witness = scaled(direction if x is None else x, -exponents)
            if anywhere(witness) and _form_is_not_positive(a, witness):
                return Definiteness(False, "witness", witness)
    raise NotProvedError("neither proved to be positive definite nor disproved", np.inf, max_words, 1.0)


def _factor(a: Array) -> Array | None:
    """L with LLᴴ ≈ A, or None if there is none: from LAPACK; on a GPU, with a BLAS of any kind, our own.

    LAPACK's may end although a pivot is not positive: NaN, after an overflow.
    """
    if is_cupy(a):
        upper = a.copy(order="C")
        return namespace(a).tril(upper.conj().T) if factor_cholesky.factorize(upper) else None
    try:
        lower = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return None
    return lower if np.isfinite(lower).all() else None


def _shift(a: Array) -> float:
    """c with c >= ‖ΔA‖ for the backward error ΔA of any Cholesky factorization that ends (Rump, (2.4)).

    |ΔA|_ij <= γ/(1 - γ)·√(a_ii·a_jj) with γ = γ_(n + 1), so ‖ΔA‖₂ <= γ/(1 - γ)·tr(A). Complex factorizations
    and those by halves have about one more rounding a level: γ_(2n + 40) is above them all.
    """
    n = len(a)
    g = gamma(2 * n + 40) * (3 if a.dtype.kind == "c" else 1)
    trace = total(a.diagonal().real)
    return float(up(up(g / (1 - g)) * trace * (1 + 4 * U))) + 8 * n * n * ETA if g < 1 else np.inf


def _shifted_factorization_ends(a: Array) -> bool:
    """Whether the factorization of A - cI in floating-point ends; the diagonal is rounded downwards."""
    shifted = a.copy()
    diagonal = a.diagonal().real - _shift(a)
    n = len(a)
    shifted.reshape(-1)[:: n + 1] = namespace(a).nextafter(diagonal, -np.inf)
    return _factor(shifted) is not None


def _congruent_to_identity(a: Array, max_words: int) -> Array | None:
    """None if ‖I - XAXᴴ‖ < 1 is proved for some X in words; else where A may not be positive."""
    xp, n = namespace(a), len(a)
    identity, direction = xp.eye(n, dtype=a.dtype), None
    for shift in (0.0, 1.0, 8.0):
        lower = _factor(a + shift * _shift(a) * identity)
        if lower is None:
            continue
        words = [xp.tril(solved(lower, identity, lower=True))]
        for count in range(1, max_words + 1):
            half = words_of_product(words, [a], words=count + 1)
            adjoint = [word.conj().T for word in words]
            (h,) = words_of_product(half, adjoint)
            lost = apply(tail(half), apply(plus(*map(magnitude, adjoint))))
            norm = plus(from_one(h)(), apply(tail([h])), lost)
            if everywhere(norm < 1):
                return None
            h = (h + h.conj().T) / 2
            lower = _factor(h)
            if lower is None:
                direction = classical(words[0].conj().T, approximate("eigh", h)[1][:, 0])
                break
            words = words_of_product([xp.tril(solved(lower, identity, lower=True))], words, words=count + 1)
    return xp.zeros(n, a.dtype) if direction is None else direction


def _form_is_not_positive(a: Array, x: Array) -> bool:
    """Whether xᴴAx <= 0, exactly: y = Ax in rationals of its words, then the sum of conj(x)·y."""
    value = Fraction(0)
    for element, y in zip(on_host(x).tolist(), exact_image(a, x), strict=True):
        real, imaginary = y if isinstance(y, tuple) else (y, Fraction(0))
        value += Fraction(element.real) * real + Fraction(element.imag) * imaginary
    return value <= 0
