"""Sums of vectors in floating point alone: error-free transformations and what is built on them.

These are the literature's algorithms under the literature's names. `ozaki.sum` takes another
road (integers in a window) to the same bits as `near_sum`.
"""

from __future__ import annotations

from math import copysign, frexp, ldexp, nextafter

import numpy as np

_UNIT_ROUNDOFF = 2.0**-53
SPLITTER = 2.0**27 + 1
_LARGEST = 2.0**960
_LONGEST = 2**26 - 2
"""The algorithms' range: sigma stays finite, and a level keeps bits beside the n terms' carries."""


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return s = fl(a + b) and the error e, so that s + e = a + b exactly.

    Knuth's TwoSum: six operations, no condition but that nothing overflows.

    Parameters
    ----------
    a, b : float64 scalars, or arrays that broadcast.

    Returns
    -------
    (s, e), of the shape of a + b.

    References
    ----------
    Knuth, The Art of Computer Programming, vol. 2, section 4.2.2, Theorem B; Ogita, Rump and
    Oishi, Accurate sum and dot product, Algorithm 3.1.

    >>> two_sum(1.0, 2.0**-60)
    (1.0, 8.673617379884035e-19)
    """
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return p = fl(a·b) and the error e, so that p + e = a·b exactly.

    Parameters
    ----------
    a, b : float64 scalars, or arrays that broadcast. |a| and |b| must be below 2**995 and, unless
        it is zero, |p| at least 2**-968: then neither the splitting overflows nor the error
        underflows. (That is not checked.)

    Returns
    -------
    (p, e), of the shape of a·b.

    References
    ----------
    Dekker, A floating-point technique for extending the available precision; Ogita, Rump and
    Oishi, Accurate sum and dot product, Algorithm 3.3.

    >>> two_product(1 + 2.0**-30, 1 + 2.0**-30)
    (1.0000000018626451, 8.673617379884035e-19)
    """
    p = a * b
    return p, product_error(a, b, p)


def product_error(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return a·b − p for p = fl(a·b), by Dekker's splitting."""
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Veltkamp's splitting into halves of 26 bits (Dekker; ORO, Algorithm 3.2)."""
    c = SPLITTER * a
    high = c - (c - a)
    return high, a - high


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

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part I, Algorithm 3.2
    (ExtractVector).

    >>> tau, rest = extract_vector(2.0**55, np.array([3.0, 4.0, 5.0]))
    >>> tau, rest
    (8.0, array([ 3.,  4., -3.]))
    """
    q = (sigma + p) - sigma
    return float(q.sum()), p - q


def acc_sum(p: np.ndarray) -> float:
    """Return the sum of a vector, faithfully rounded: one of the two neighbours of the exact sum.

    The exact sum itself where that is a float64, hence with the right sign, always.

    Parameters
    ----------
    p : (n,) float64, n at most 2**26 - 2, no element of 2**960 or more.

    Returns
    -------
    A float: the exact sum if it is one, else one of its two neighbours.

    Raises
    ------
    ValueError : p is not a vector, or outside that range (or not finite).

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part I, Algorithm 4.5 (AccSum).

    >>> acc_sum(np.array([1e16, 1.0, -1e16]))
    1.0
    """
    return _acc_sum(_checked(p))


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
    ValueError : as `acc_sum`.

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part II, NearSum: a faithful sum,
    then the sign of its distance to the nearest midpoint of two float64 numbers.

    >>> near_sum(np.array([1.0, 2.0**-53, 2.0**-300]))
    1.0000000000000002
    """
    terms = _compressed(_checked(p))
    faithful = _faithful(terms)
    terms = np.append(terms, -faithful)
    side = _acc_sum(terms)
    if side == 0.0:
        return faithful
    neighbour = nextafter(faithful, side * np.inf)
    # Below 2**-1021 every sum is a float64, so half the distance is one where it is needed.
    beyond = copysign(1.0, side) * _acc_sum(np.append(terms, (faithful - neighbour) / 2))
    if beyond == 0.0:
        return faithful if frexp(faithful)[0] * 2**53 % 2 == 0 else neighbour
    return neighbour if beyond > 0 else faithful


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
    ValueError : p is not a vector or k is below 2.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product, Algorithm 4.8 (SumK), Proposition 4.10.

    >>> sum_k(np.array([1e16, 1.0, -1e16]), 2)
    1.0
    """
    p = np.asarray(p, np.float64)
    if p.ndim != 1 or k < 2:
        raise ValueError(f"sum_k takes a vector and k of at least 2, got shape {p.shape} and k = {k}")
    if not p.size:
        return 0.0
    for _ in range(k - 1):
        p = _vec_sum(p)
    return float(np.add.accumulate(p[:-1])[-1] + p[-1]) if p.size > 1 else float(p[0])


def _vec_sum(p: np.ndarray) -> np.ndarray:
    """VecSum (ORO, Algorithm 4.3): the running sums' errors, and the sum in the last place."""
    running = np.add.accumulate(p)
    errors = two_sum(running[:-1], p[1:])[1]
    return np.append(errors, running[-1])


def _checked(p: np.ndarray) -> np.ndarray:
    p = np.asarray(p, np.float64)
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
            tau, p = extract_vector(sigma, p)
            tau1 = t + tau
            if abs(tau1) >= ldexp(_UNIT_ROUNDOFF, 2 * carries) * sigma or sigma <= 2.0**-1022:
                return tau1, tau - (tau1 - t), p  # FastTwoSum(t, tau)
            t = tau1
            if t == 0.0:
                break  # everything extracted so far has cancelled: start over with the rest
            sigma *= ldexp(_UNIT_ROUNDOFF, carries)
        p = p[p != 0]
    return 0.0, 0.0, p


def _acc_sum(p: np.ndarray) -> float:
    return _faithful(_compressed(p))


def _compressed(p: np.ndarray) -> np.ndarray:
    """Terms of the same sum, of which the first dominates."""
    tau1, tau2, rest = _transform(p)
    return np.concatenate([[tau1, tau2], rest[rest != 0]])


def _faithful(terms: np.ndarray) -> float:
    return float(terms[0] + (terms[1] + terms[2:].sum()))
