"""Error-free transformations of float64: what a rounded sum or product leaves, exactly."""

from __future__ import annotations

import numpy as np

from multiword import rounding
from ozaki.public import public
from ozaki.rounding.conversion import as_float64

product_error = rounding.product_error


@public("Building blocks of the papers")
def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return s = fl(a + b) and the error e, so that s + e = a + b exactly.

    Knuth's TwoSum: six operations, no condition but that nothing overflows.

    Parameters
    ----------
    a, b : float64 scalars, or arrays that broadcast.

    Returns
    -------
    (s, e), of the shape of a + b.

    Raises
    ------
    TypeError : complex, not numeric, or integers that are no float64.

    References
    ----------
    Knuth, The Art of Computer Programming, vol. 2, section 4.2.2, Theorem B; Ogita, Rump and
    Oishi, Accurate sum and dot product, Algorithm 3.1.

    >>> two_sum(1.0, 2.0**-60)
    (1.0, 8.673617379884035e-19)
    """
    return rounding.two_sum(as_float64(a, "a"), as_float64(b, "b"))


@public("Building blocks of the papers")
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

    Raises
    ------
    TypeError : complex, not numeric, or integers that are no float64.

    References
    ----------
    Dekker, A floating-point technique for extending the available precision; Ogita, Rump and
    Oishi, Accurate sum and dot product, Algorithm 3.3.

    >>> two_product(1 + 2.0**-30, 1 + 2.0**-30)
    (1.0000000018626451, 8.673617379884035e-19)
    """
    a, b = as_float64(a, "a"), as_float64(b, "b")
    p = a * b
    return p, product_error(a, b, p)
