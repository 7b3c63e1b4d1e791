"""Sums of vectors in floating point alone: error-free transformations and what is built on them.

These are the literature's algorithms under the literature's names. `ozaki.sum` adds extracted parts as
integers instead, to the same bits as `near_sum`.
"""

from __future__ import annotations

from math import copysign, frexp, ldexp, nan, nextafter

import numpy as np

from multiword.runtime.arrays import on_device_of_arrays
from multiword.runtime.options import integer
from ozaki.public import public
from ozaki.rounding.conversion import as_float64
from ozaki.rounding.error_free import two_sum
from ozaki.sums.arguments import vector

_UNIT_ROUNDOFF = 2.0**-53
_LARGEST = 2.0**960
_LONGEST = 2**26 - 2
"""The algorithms' range: sigma stays finite, and a level keeps bits beside the n terms' carries."""


@public("Building blocks of the papers")
@on_device_of_arrays
def extract_vector(sigma: float, p: np.ndarray) -> tuple[float, np.ndarray]:
    """Split a vector at a power of two: Σp = tau + Σp′ exactly, with |p′| at most 2**-53·sigma.

    Parameters
    ----------
    sigma : a power of two.
    p : (n,) float64, n + 2 at most 2**M and |p| at most 2**-M·sigma, for some integer M. (That is
        not checked.)

    Returns
    -------
    tau and the (n,) float64 array p′.

    Raises
    ------
    TypeError : p is complex, not numeric, or has integers that are no float64.
    ValueError : p is not a vector.

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part I, Algorithm 3.2
    (ExtractVector).

    >>> tau, rest = extract_vector(2.0**55, np.array([3.0, 4.0, 5.0]))
    >>> tau, rest
    (8.0, array([ 3.,  4., -3.]))
    """
    p = as_float64(p, "p")
    if np.ndim(p) != 1:
        raise ValueError(f"p must be a vector, got shape {np.shape(p)}")
    return _extract_vector(sigma, p)


def _extract_vector(sigma: float, p: np.ndarray) -> tuple[float, np.ndarray]:
    q = (sigma + p) - sigma
    return float(q.sum()), p - q


@public("Building blocks of the papers")
@on_device_of_arrays
def acc_sum(p: np.ndarray) -> float:
    """Return the sum of a vector, faithfully rounded: one of the two neighbours of the exact sum.

    It is the exact sum where that is a float64, and always has the sign of the exact sum.

    Parameters
    ----------
    p : (n,) float64, n at most 2**26 - 2, no element of 2**960 or more.

    Returns
    -------
    A float: the exact sum if it is one, else one of its two neighbours.

    Raises
    ------
    TypeError : p is complex, masked, not numeric, or has integers that are no float64.
    ValueError : p is not a vector, or outside that range (or not finite).

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part I, Algorithm 4.5 (AccSum).

    >>> acc_sum(np.array([1e16, 1.0, -1e16]))
    1.0
    """
    p = _checked(p)
    return _acc_sum(p) or _zero(p)


@public("Building blocks of the papers")
@on_device_of_arrays
def near_sum(p: np.ndarray) -> float:
    """Return the sum of a vector rounded to nearest, ties to even.

    Parameters
    ----------
    p : (n,) float64, as for `acc_sum`. `ozaki.sum` returns the same without these limits.

    Returns
    -------
    A float: the exact sum, rounded once.

    Raises
    ------
    TypeError, ValueError : as `acc_sum`.

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part II, NearSum: a faithful sum,
    then the sign of its distance to the nearest midpoint of two float64 numbers.

    >>> near_sum(np.array([1.0, 2.0**-53, 2.0**-300]))
    1.0000000000000002
    """
    p = _checked(p)
    terms = _compressed(p)
    faithful = _faithful(terms)
    terms = np.append(terms, -faithful)
    side = _acc_sum(terms)
    if side == 0.0:
        return faithful if faithful != 0.0 else _zero(p)
    neighbour = nextafter(faithful, side * np.inf)
    # Below 2**-1021 every sum is a float64, so half the distance is one where it is needed.
    beyond = copysign(1.0, side) * _acc_sum(np.append(terms, (faithful - neighbour) / 2))
    if beyond == 0.0:
        return faithful if frexp(faithful)[0] * 2**53 % 2 == 0 else neighbour
    return neighbour if beyond > 0 else faithful


@public("Building blocks of the papers")
@on_device_of_arrays
def sum_k(p: np.ndarray, k: int = 2) -> float:
    """Return the sum of a vector as if computed in k-fold precision and then rounded.

    Parameters
    ----------
    p : (n,) float64.
    k : at least 2; k - 1 error-free vector transformations come before an ordinary sum.

    Returns
    -------
    A float64 with relative error at most about u + (2·n·u)**k·cond, cond = Σ|p| / |Σp|. It
    depends on the order of p.

    Raises
    ------
    TypeError : as `acc_sum`, and k is no integer. ValueError : p is not a vector or k is below 2.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product, Algorithm 4.8 (SumK), Proposition 4.10.

    >>> sum_k(np.array([1e16, 1.0, -1e16]), 2)
    1.0
    """
    p, k = vector(p, "p"), integer("k", k)
    if p.ndim != 1 or k < 2:
        raise ValueError(f"p must be a vector and k of at least 2, got shape {p.shape} and k = {k}")
    if not p.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        for _ in range(k - 1):
            p = _vec_sum(p)
        total = float(np.add.accumulate(p[:-1])[-1] + p[-1]) if p.size > 1 else float(p[0])
    return nan if total != total else total


def _vec_sum(p: np.ndarray) -> np.ndarray:
    """VecSum (ORO, Algorithm 4.3): the running sums' errors, and the sum in the last place."""
    running = np.add.accumulate(p)
    errors = two_sum(running[:-1], p[1:])[1]
    return np.append(errors, running[-1])


def _checked(p: np.ndarray) -> np.ndarray:
    p = vector(p, "p")
    if p.ndim != 1 or p.size > _LONGEST:
        raise ValueError(f"p must be a vector of at most 2**26 - 2 elements, got shape {p.shape}")
    if p.size and not np.abs(p).max() < _LARGEST:
        raise ValueError("p must be finite and below 2**960 in magnitude; ozaki.sum has no such limit")
    return p


def _transform(p: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Σp = tau1 + tau2 + Σp′, tau1 + Σp′ faithful (Algorithm 4.1, Transform, with rho = 0)."""
    while p.size:
        carries = (p.size + 1).bit_length()  # the smallest M with n + 2 <= 2**M
        sigma = ldexp(1.0, carries + frexp(float(np.abs(p).max()))[1])
        t = 0.0
        while True:
            tau, p = _extract_vector(sigma, p)
            tau1 = t + tau
            # Where sigma <= 2**-1022, p′ is zero. Every limit up to 2**-996 gives the same bits: there
            # tau2 and p′ are multiples of 2**-1074 whose sum is below 2**(M + 2)·u·sigma <= 2**-1021,
            # hence added without error, so that Σp is rounded once, to nearest, wherever the loop ends.
            if abs(tau1) >= ldexp(_UNIT_ROUNDOFF, 2 * carries) * sigma or sigma <= 2.0**-1022:
                return tau1, tau - (tau1 - t), p  # FastTwoSum(t, tau)
            t = tau1
            if t == 0.0:
                break  # everything extracted so far has cancelled: start over with the rest
            sigma *= ldexp(_UNIT_ROUNDOFF, carries)
        p = p[p != 0]
    return 0.0, 0.0, p


def _zero(p: np.ndarray) -> float:
    """The sum of a vector whose exact sum is zero, as IEEE 754 adds: −0 for a sum of −0 alone."""
    return -0.0 if p.size and np.signbit(p).all() else 0.0


def _acc_sum(p: np.ndarray) -> float:
    return _faithful(_compressed(p))


def _compressed(p: np.ndarray) -> np.ndarray:
    """Terms of the same sum, of which the first dominates."""
    tau1, tau2, rest = _transform(p)
    return np.concatenate([[tau1, tau2], rest[rest != 0]])


def _faithful(terms: np.ndarray) -> float:
    return float(terms[0] + (terms[1] + terms[2:].sum()))
