"""Least squares of any rank: by QR factorization where the rank is full, else by singular values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, as_array, converted, namespace, on_device_of_arrays, quietly
from multiword.runtime.readback import all_finite, everywhere
from ozaki.arguments import result_dtype
from ozaki.linalg import factor_qr
from ozaki.linalg.arguments import LinAlgError, rectangular_system
from ozaki.linalg.arithmetic import real_quotient, scaled_to_one, times_powers
from ozaki.linalg.products import multiply, normwise
from ozaki.linalg.spectral import svd, svdvals
from ozaki.linalg.triangular import solved, within_range
from ozaki.nonfinite import one_nan
from ozaki.sums.api import sum as exact_sum


@public_in("ozaki.linalg", "The same bits")
@on_device_of_arrays
def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[Array, Array, int, Array]:
    """Solve a least squares problem, with the same bits on every machine; as `numpy.linalg.lstsq`.

    Of the solutions it returns the one of least norm. For proved bounds see `ozaki.linalg.verified.lstsq`.

    Parameters
    ----------
    a : (m, n) array of real or complex numbers.
    b : (m,) or (m, k) array.
    rcond : singular values of up to rcond times the largest one count as 0; default max(m, n)·2**-52,
        negative ones stand for 2**-53, as LAPACK's.

    Returns
    -------
    (x, residuals, rank, s) as NumPy returns them: residuals are sums of squares, empty unless m > n and the
    rank is n; s are the singular values of a.

    Raises
    ------
    TypeError : not numbers. ValueError : rcond is NaN. numpy.linalg.LinAlgError : shapes that do not fit; an
        Inf or a NaN in a.

    References
    ----------
    Björck, Numerical Methods for Least Squares Problems, sections 2.4 and 2.7.

    >>> import numpy as np, ozaki.linalg
    >>> ozaki.linalg.lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    (array([2.]), array([2.]), 1, array([1.41421356]))
    """
    matrix, right, one = rectangular_system(a, b, finite=False)
    xp, (m, n) = namespace(matrix), matrix.shape
    share = max(m, n) * 2.0**-52 if rcond is None else float(rcond)
    if math.isnan(share):
        raise ValueError("rcond must be a number, got NaN")
    share = share if share >= 0 else 2.0**-53
    if not all_finite(matrix):
        raise LinAlgError("a must be finite: it has an Inf or a NaN")
    with quietly(matrix):
        k = min(m, n)
        if m >= n:
            r, exponents, projected, of_right = factor_qr.projected(matrix, right)
        else:
            r, exponents = factor_qr.scaled_columns(matrix.conj().T)
            reflections = factor_qr.factorize(r)
            r = xp.triu(r[:k])
        top = int(exponents.max()) if k else 0
        sizes = svdvals(times_powers(r, exponents - top))  # of A·2**-top, which has them of R
        rank = int((sizes > share * sizes[:1]).sum())
        if rank < k or not everywhere(r.diagonal() != 0):
            x, rank = _of_least_norm(matrix, right, share)
        elif m >= n:
            x = within_range(lambda y: solved(r, y, lower=False), projected)
            x = times_powers(x, of_right - exponents[:, None])
        else:
            y = xp.zeros((n, right.shape[1]), matrix.dtype)
            y[:k] = solved(r.conj().T, times_powers(right, -exponents[:, None]), lower=True)
            x = reflections.apply(y)
        squares = _squared_norms(right - multiply(matrix, x)) if m > n == rank else xp.zeros(0)
        dtype = result_dtype(as_array(a, "a"), as_array(b, "b"))
        x = one_nan(converted(x[:, 0] if one else x, dtype))
        real = np.zeros(0, dtype).real.dtype
        return x, converted(squares, real), rank, converted(times_powers(sizes, top), real)


def _squared_norms(x: Array) -> Array:
    """The sums of squares of columns."""
    return exact_sum(x.real * x.real, axis=0) + exact_sum(x.imag * x.imag, axis=0)


def _of_least_norm(matrix: Array, right: Array, share: float) -> tuple[Array, int]:
    """V·S⁺·Uᴴ·B and the rank: how many singular values are above that share of the largest."""
    scaled, exponent = scaled_to_one(matrix)
    columns, of_right = factor_qr.scaled_columns(right)
    u, sizes, vh = svd(scaled, full_matrices=False)
    rank = int((sizes > share * sizes[:1]).sum())
    parts = real_quotient(normwise(u[:, :rank].conj().T, columns), sizes[:rank, None])
    return times_powers(normwise(vh[:rank].conj().T, parts), of_right - exponent), rank
