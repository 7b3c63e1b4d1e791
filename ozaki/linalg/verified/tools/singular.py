"""Proofs that a matrix is singular: an exact null vector."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, real_parts
from multiword.runtime.readback import anywhere
from ozaki.sums.exactsum import ExactSum

LARGEST_DENOMINATOR = 1000
"""Null vectors are looked for among rationals with denominators up to this."""


def null_vector(a: Array) -> Array | None:
    """Return an exact z with Az = 0, small integers that are not all 0; None if there seems to be none.

    The null space as the singular value decomposition sees it is brought to reduced echelon form; the first
    of its vectors is read as rationals, and multiplied exactly with A.
    """
    xp = namespace(a)
    try:
        _, sizes, rows = xp.linalg.svd(a)
    except np.linalg.LinAlgError:
        return None
    nullity = int((sizes <= 64 * len(a) * 2.0**-53 * sizes[:1]).sum())
    if nullity == 0:
        return None
    basis: Array = rows[len(a) - nullity :].conj()
    basis = _reduced(basis.get() if is_cupy(basis) else basis.copy())
    z = xp.asarray(_as_integers(basis[0]))
    zero = all(value in (0, (0, 0)) for value in exact_image(a, z))
    return z if zero and anywhere(z) else None


def exact_image(a: Array, x: Array) -> list[Any]:
    """Return Ax in fractions, in pairs of them if complex."""
    of_rows = namespace(a).broadcast_to(x[:, None].astype(a.dtype), a.T.shape)
    return ExactSum(a.dtype, (len(a),)).add_products(a.T, of_rows).fractions()


def _reduced(basis: np.ndarray) -> np.ndarray:
    """The reduced row echelon form of a few orthonormal rows, by complete pivoting, in place."""
    for i in range(len(basis)):
        row, column = divmod(int(np.argmax(abs(basis[i:]))), basis.shape[1])
        basis[[i, i + row]] = basis[[i + row, i]]
        basis[i] /= basis[i, column]
        for other in range(len(basis)):
            if other != i:
                basis[other] -= basis[other, column] * basis[i]
    return basis


def _as_integers(row: np.ndarray) -> np.ndarray:
    """The rationals near a row's elements, times their common denominator, as far as float64 holds them."""
    parts = [
        [Fraction(x).limit_denominator(LARGEST_DENOMINATOR) for x in p.tolist()] for p in real_parts(row)
    ]
    common = lcm(*(x.denominator for part in parts for x in part))
    if common > 2**40:
        return np.zeros(len(row), row.dtype)
    real, *imaginary = (np.array([float(x * common) for x in part]) for part in parts)
    return real + 1j * imaginary[0] if imaginary else real
