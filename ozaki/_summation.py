"""Sums of vectors in floating point alone: error-free transformations and what is built on them.

These are the literature's algorithms under the literature's names. `ozaki.sum` takes another
road (integers in a window) to the same bits as `near_sum`.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

_UNIT_ROUNDOFF = 2.0**-53
_SPLITTER = 2.0**27 + 1
_LARGEST = 2.0**960
"""Where the extraction works unscaled: sigma, and the sums of what it extracts, stay finite."""


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return s = fl(a + b) and the error e, so that s + e = a + b exactly.

    float64 scalars or arrays. Knuth's TwoSum: six operations, no condition but that nothing
    overflows.

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

    float64 scalars or arrays. Needs |a|, |b| below 2**995 and, unless it is zero, |p| of at
    least 2**-968: then neither the splitting overflows nor the error underflows.

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
    c = _SPLITTER * a
    high = c - (c - a)
    return high, a - high


def extract_vector(sigma: float, p: np.ndarray) -> tuple[float, np.ndarray]:
    """Split a vector at a power of two: Σp = tau + Σp′ exactly, with |p′| at most 2**-53·sigma.

    p : (n,) float64, n + 2 at most 2**M and |p| at most 2**-M·sigma, for some integer M.

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, part I, Algorithm 3.2
    (ExtractVector).

    >>> tau, rest = extract_vector(2.0**55, np.array([3.0, 4.0, 5.0]))
    >>> tau, rest
    (8.0, array([ 3., 0., 1.]))
    """
    q = (sigma + p) - sigma
    return float(q.sum()), p - q
