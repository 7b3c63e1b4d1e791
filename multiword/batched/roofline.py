"""The roofline of batched products: what memory allows (Abdelfattah et al., section 6)."""

from __future__ import annotations

import math

from multiword.public import public_in
from multiword.runtime.options import check_choice

LAYOUTS = {"real": (2, 2), "interleaved": (8, 4), "planar": (8, 8)}
"""Layout: (flops for each term of an inner product, bytes moved for each matrix entry).

A planar complex product is four real ones, each of which moves its own operands again."""


@public_in("multiword.batched", "Batches of small matrices")
def operational_intensity(m: int, n: int, k: int, layout: str = "real", *, read_c: bool = True) -> float:
    """Return the flops of one product over the fewest bytes that it can move.

    For (m, k) by (k, n) matrices of halves: 2mnk / (2mn + k(m+n)) for "interleaved" half-complex
    (equation 1), and half of that for "planar" half-complex (equation 2) and for "real".

    Parameters
    ----------
    m, n, k : dimensions, positive.
    layout : "real", "interleaved" or "planar".
    read_c : whether C is read as well as written (beta ≠ 0), as the paper assumes.

    Returns
    -------
    Flops per byte.

    Raises
    ------
    ValueError : unknown layout, or a dimension that is not positive.

    References
    ----------
    Abdelfattah, Tomov and Dongarra, equations (1) and (2).

    >>> operational_intensity(32, 32, 32, "interleaved"), operational_intensity(32, 32, 32, "planar")
    (16.0, 8.0)
    """
    return _flops(m, n, k, layout) / bytes_moved(m, n, k, layout, read_c=read_c)


@public_in("multiword.batched", "Batches of small matrices")
def bytes_moved(m: int, n: int, k: int, layout: str = "real", *, read_c: bool = True) -> int:
    """Return the fewest bytes that one product moves: A and B read, C written (and read).

    As `multiword.batched.operational_intensity`; differs in returning the denominators of (1) and (2).

    >>> bytes_moved(16, 16, 16, read_c=False)
    1536
    """
    _flops(m, n, k, layout)  # or a ValueError
    return LAYOUTS[layout][1] * ((2 if read_c else 1) * m * n + k * (m + n))


@public_in("multiword.batched", "Batches of small matrices")
def attainable_flops(
    m: int,
    n: int,
    k: int,
    layout: str = "real",
    *,
    bandwidth: float,
    peak: float = math.inf,
    read_c: bool = True,
) -> float:
    """Return the flops per second that the roofline allows.

    As `multiword.batched.operational_intensity`; differs in the hardware.

    Parameters
    ----------
    bandwidth, peak : of the memory, in bytes per second; of the arithmetic, in flops per second.

    >>> attainable_flops(16, 16, 16, bandwidth=4.2e12) / 1e12
    16.8
    """
    return min(peak, bandwidth * operational_intensity(m, n, k, layout, read_c=read_c))


@public_in("multiword.batched", "Batches of small matrices")
def least_seconds(
    m: int,
    n: int,
    k: int,
    batch: int,
    layout: str = "real",
    *,
    bandwidth: float,
    peak: float = math.inf,
    read_c: bool = True,
) -> float:
    """Return the time in seconds that a batch takes on the roofline.

    As `multiword.batched.attainable_flops`; differs in the number of products.

    Parameters
    ----------
    batch : number of products.

    >>> round(least_seconds(16, 16, 16, 10000, bandwidth=4.2e12, read_c=False) * 1e6, 2)
    3.66
    """
    rate = attainable_flops(m, n, k, layout, bandwidth=bandwidth, peak=peak, read_c=read_c)
    return batch * _flops(m, n, k, layout) / rate


def _flops(m: int, n: int, k: int, layout: str) -> int:
    """Return the flops of one product; ValueError for what is no product."""
    if min(m, n, k) < 1:
        raise ValueError(f"m, n and k must be positive, got {m}, {n}, {k}")
    check_choice("layout", layout, LAYOUTS)
    return LAYOUTS[layout][0] * m * n * k
