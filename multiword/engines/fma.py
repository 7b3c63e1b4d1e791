"""IEEE fused multiply-adds on arrays, for the products that are no block FMA.

A double-precision tensor core and the ordinary fp32 units round to nearest after every term:
one fma after another (Fasi et al., section "NVIDIA Ampere tensor cores"). NumPy has no fma, so
it is built here from error-free transformations and one rounding to odd (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from multiword.rounding import product_error, two_sum


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a·b + c rounded once, to nearest even, for float32 or float64 arrays of one dtype.

    >>> u = 2.0**-53
    >>> float(fma(np.float64(1 + 2 * u), np.float64(1 - 2 * u), np.float64(-1.0))) == -((2 * u) ** 2)
    True
    """
    with np.errstate(all="ignore"):
        return _fma32(a, b, c) if np.asarray(a).dtype == np.float32 else _fma64(a, b, c)


def _fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    # The product is exact in float64; the sum rounded to odd there has bits enough left that
    # rounding it again, to 24 bits, is as good as rounding once.
    product = np.multiply(a, b, dtype=np.float64)
    return _add_to_odd(product, np.asarray(c, np.float64)).astype(np.float32)


def _fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = np.broadcast_arrays(a, b, c)
    high = a * b
    low = product_error(a, b, high)
    t, t_error = two_sum(c, low)
    s, s_error = two_sum(high, t)
    result = np.where((high == 0) & (c == 0), high + c, s + _add_to_odd(t_error, s_error))
    risky = ~_safe(a, b, c, high)
    if risky.any():
        result[risky] = [_fma_scalar(*triple) for triple in zip(a[risky], b[risky], c[risky], strict=True)]
    return result


def _safe(a: np.ndarray, b: np.ndarray, c: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return where no step of the transformations can overflow or lose bits to underflow."""
    bounded = (np.abs(a) < 2.0**900) & (np.abs(b) < 2.0**900) & (np.abs(c) < 2.0**900)
    size = np.abs(high)
    exact = (size > 2.0**-900) & (size < 2.0**900)  # no condition on c: sums never underflow
    zero = (a == 0) | (b == 0)
    return bounded & (exact | zero)


def _fma_scalar(a: float, b: float, c: float) -> float:
    """Return the same for one triple, through rational numbers: any exponents, Inf and NaN."""
    a, b, c = float(a), float(b), float(c)
    if not (np.isfinite(a) and np.isfinite(b)):
        return a * b + c
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # the sign of zero is what the separate operations say
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _add_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a + b rounded to odd: inexact sums get an odd last bit, so no later rounding is fooled."""
    s, error = two_sum(a, b)
    s = np.asarray(s)
    bits = s.view(np.int64)
    inexact = (error != 0) & ((bits & 1) == 0) & np.isfinite(s)
    # Away from zero if the error has the sign of the sum, toward it otherwise.
    outward = (error > 0) == (s > 0)
    return np.where(inexact, bits + np.where(outward, 1, -1), bits).view(np.float64)


def chain(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return c + A·B by one fma after another in increasing k: a (m, k), b (k, n), c (m, n).

    Where all of it is exact in the dtype (integers within its significand, up to one power of
    two for each operand), the order cannot matter and a single product serves.
    """
    if _is_exact(a, b, c):
        return np.asarray(np.matmul(a, b)) + c
    for h in range(a.shape[1]):
        c = fma(a[:, h, None], b[h], c)
    return c


def _is_exact(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> bool:
    """Return whether every partial sum, in any order, is a representable integer (sufficient)."""
    bits = np.finfo(a.dtype).nmant + 1
    largest = [float(np.max(np.abs(x), initial=0)) for x in (a, b, c)]
    if not max(largest) < 2.0**bits or largest[0] * largest[1] * a.shape[1] + largest[2] >= 2.0**bits:
        return False
    return all(bool((np.trunc(x) == x).all()) for x in (a, b, c))
