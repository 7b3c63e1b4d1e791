"""Matrix products from fp16 slices as Mukunoki, Ozaki, Ogita and Imamura have them.

Floating-point slices whose products an fp16 engine with fp32 accumulation computes without
error (Algorithm 1), all of them or the leading ones multiplied and summed (Algorithm 2), and
how many are worth having (Algorithm 3). Scheme "slices" of `accurate_dgemm` is the same idea
in integers, with a certificate; this module is the method as it was published.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword.engines import Engine, get_engine, get_word
from multiword.runtime.arrays import Array, as_array, namespace, on_device_of_arrays
from multiword.runtime.options import exactly
from multiword.runtime.readback import all_finite, anywhere, everywhere
from ozaki.api import accurate_dgemm
from ozaki.arguments import factors_of
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.public import public
from ozaki.rounding.digits import round_digits
from ozaki.scaling.statistics import NONFINITE_ROW

_SUMMATIONS = ("fp64", "nearsum")
_DIGIT_BITS = 30


@dataclass(frozen=True)
class SplitRows:
    """Rows cut into fp16 slices: x = Σ_p 2**exponents[p]·slices[p], exactly once none are left out.

    Attributes
    ----------
    slices : fp16 arrays of the shape of x, magnitudes at most 1, multiples of 2**-bits.
    exponents : int32 arrays, one exponent for each row of x and slice, decreasing.
    bits : bits of each slice.
    """

    slices: list[Array]
    exponents: list[Array]
    bits: int


def slice_bits(k: int) -> int:
    """Return the bits of a slice for which inner products of length k are exact in fp32.

    The largest b with k·2**(2b) <= 2**24 that fp16 can hold.

    >>> slice_bits(64), slice_bits(4096)
    (9, 6)
    """
    word = get_word("fp16")
    bits = min(word.bits, (word.exact_bits - max(0, k - 1).bit_length()) // 2)
    if bits < 1:
        raise ValueError(f"fp16 slices have no bits left for an inner dimension of {k}; at most 2**22 works")
    return bits


@public("Building blocks of the papers")
@on_device_of_arrays
def mukunoki_split(x: Any, count: int | None = None) -> SplitRows:
    """Split rows into fp16 slices without error (Algorithm 1).

    Parameters
    ----------
    x : (..., k) real array, finite, converted to float64; NumPy or CuPy. Each row is split for
        inner products along it.
    count : at most so many slices, the leading ones; by default as many as it takes.

    Returns
    -------
    `SplitRows`. What the first s slices leave out of a row is at most 2**(exponents[s-1] - bits).

    Raises
    ------
    ValueError : no rows at all (a scalar), not finite, k beyond 2**22, or count below 1.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura, DGEMM using tensor cores, and its accurate and
    reproducible versions (2020), Algorithm 1.

    >>> import numpy as np, ozaki
    >>> split = ozaki.mukunoki_split(np.array([[1.0, 2.0**-40]]))
    >>> len(split.slices), [int(c[0]) for c in split.exponents]
    (2, [0, -40])
    """
    x = exactly("x", as_array(x, "x"), np.float64)
    if x.ndim < 1:
        raise ValueError("x must have rows to split, got a scalar")
    if not all_finite(x):
        raise ValueError("x must be finite")
    return _split(x, _checked_count("count", count))


@public("Building blocks of the papers")
@on_device_of_arrays
def mukunoki_dgemm(
    a: Any,
    b: Any,
    *,
    slices: int | str | None = None,
    fast: bool = False,
    summation: str = "fp64",
    engine: str | Engine = "auto",
) -> Array:
    """Multiply float64 matrices by error-free fp16 products (Algorithm 2).

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays; real, converted to float64; both NumPy or both CuPy.
    slices : how many slices of either operand are used. None: as many as they have, nothing
        is left out. A number: at most so many. "estimated": `slice_count(a, b)`.
    fast : leave out the products of slices p and q with p + q > d + 1 (counted from 1, d being
        the larger count): d(d+1)/2 products instead of d² for little accuracy.
    summation : how the error-free products are added, "fp64": one after another, small ones
        first, in double precision; "nearsum": exactly, rounded once. With all slices and
        without fast mode, "nearsum" returns the correctly rounded product.
    engine : "host", "cublas", "tensorcore", an `Engine` with fp16 products, or "auto".

    Returns
    -------
    (m, n) float64 array of the kind of `a`; the same bits on every engine.

    Raises
    ------
    TypeError : arrays that are not real numbers; NumPy and CuPy mixed.
    ValueError : shapes that do not fit, unknown options, k beyond 2**22.

    Notes
    -----
    Inf and NaN give their rows and columns what IEEE arithmetic gives. With a number of slices
    the accuracy is not certified: for that, use `accurate_dgemm`.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura (2020), Algorithm 2 and section 3.2.

    >>> import numpy as np, ozaki
    >>> a, b = np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1))
    >>> ozaki.mukunoki_dgemm(a, b, summation="nearsum")
    array([[1.]])
    """
    a, b = _operands(a, b)
    if summation not in _SUMMATIONS:
        raise ValueError(f"unknown summation {summation!r}; known are {', '.join(_SUMMATIONS)}")
    chosen = get_engine(engine, a)
    finite_a, scale_a = _finite_rows(a)
    finite_b, scale_b = _finite_rows(b.T)
    count = _count(finite_a, finite_b.T, slices)
    split_a, split_b = _split(finite_a, count), _split(finite_b, count)
    products = _products(split_a, split_b, fast, chosen)
    add = _sum_fp64 if summation == "fp64" else _sum_exactly
    with np.errstate(over="ignore", invalid="ignore"):
        out = add(products, split_a, split_b, a, b)
        overwrite_nonfinite([a], [b.T], (scale_a, scale_b), out)
    return out


@public("Building blocks of the papers")
@on_device_of_arrays
def slice_count(a: Any, b: Any) -> int:
    """Return how many slices give the accuracy expected of a DGEMM (Algorithm 3).

    With e = (1, …, 1)ᵀ: the smallest d for which |d-th slice of A|·(|B|e) is everywhere below
    the probabilistic error bound of a DGEMM, 2√k·u·(|A|(|B|e)); likewise for the columns of B;
    the larger of the two. Only matrix-vector products are computed, and exactly enough that
    every machine finds the same count. It is an estimate, meant for fast mode.

    Parameters
    ----------
    a, b : (m, k) and (k, n) arrays; real, finite, converted to float64.

    Returns
    -------
    The number of slices d; 0 for an empty product.

    Raises
    ------
    TypeError : complex arrays, or NumPy and CuPy mixed.
    ValueError : shapes that do not fit, an Inf or a NaN.

    References
    ----------
    Mukunoki, Ozaki, Ogita and Imamura (2020), Algorithm 3; Higham and Mary, A new approach to
    probabilistic rounding error analysis (the bound).

    >>> import numpy as np, ozaki
    >>> a = np.array([[1.0, 1e-30]])
    >>> ozaki.slice_count(a, a.T), len(ozaki.mukunoki_split(a).slices)
    (2, 5)
    """
    a, b = _operands(a, b)
    if not (all_finite(a) and all_finite(b)):
        raise ValueError("a and b must be finite")
    if 0 in (*a.shape, *b.shape):
        return 0
    return max(_rows_slice_count(a, b), _rows_slice_count(b.T, a.T))


def _split(x: Array, count: int | None) -> SplitRows:
    """Return the slices of rows (Algorithm 1); the letters are the paper's."""
    xp = namespace(x)
    bits = slice_bits(x.shape[-1])
    slices: list[Array] = []
    exponents: list[Array] = []
    tau: Array | int = 0
    for part, tau in _slices(x, bits):
        slices.append(xp.ascontiguousarray(part.astype(xp.float16)))
        exponents.append(tau[..., 0])
        if len(slices) == count:
            break
    return SplitRows(slices, exponents, bits)


def _slices(x: Array, bits: int) -> Iterator[tuple[Array, Array]]:
    """Yield 2**(-tau)·x⁽ʲ⁾ in float64, and tau, for j = 1, 2, … until nothing of x is left.

    The paper adds sigma = 2**(rho + tau) to x. Here x is scaled by 2**(-tau) instead, which
    rounds at the same bit, for then a sigma near the largest number cannot overflow.
    """
    xp = namespace(x)
    sigma = 2.0 ** (53 - bits)  # rho = 53 - bits
    tau = xp.zeros((*x.shape[:-1], 1), xp.int32)
    while anywhere(x != 0):
        mu = xp.abs(x).max(axis=-1, keepdims=True)
        tau = xp.where(mu != 0, _ceil_log2(mu), tau)  # a row that is spent keeps its last one
        scaled = xp.ldexp(x, -tau)
        part = (scaled + sigma) - sigma
        # Where the slice is zero, scaling may have underflowed: there x stays as it is.
        x = xp.where(part != 0, xp.ldexp(scaled - part, tau), x)
        yield part, tau


def _ceil_log2(mu: Array) -> Array:
    """Return ⌈log2 mu⌉ of positive numbers, exactly."""
    xp = namespace(mu)
    significand, exponent = xp.frexp(mu)
    return (exponent - (significand == 0.5)).astype(xp.int32)


def _products(a: SplitRows, b: SplitRows, fast: bool, engine: Engine) -> Iterator[tuple[Array, Array]]:
    """Yield fp32 products of slices, error-free, and the exponents of their elements, small ones first."""
    d = max(len(a.slices), len(b.slices))
    pairs = [(p, q) for p in range(len(a.slices)) for q in range(len(b.slices))]
    for p, q in sorted(pairs, key=sum, reverse=True):
        if fast and (p + 1) + (q + 1) > d + 1:
            continue
        yield engine.multiply("fp16", a.slices[p], b.slices[q]), a.exponents[p][:, None] + b.exponents[q]


def _sum_fp64(
    products: Iterator[tuple[Array, Array]], _a: SplitRows, _b: SplitRows, a: Array, b: Array
) -> Array:
    """Return Σ 2**exponent·product in double precision, in the order in which they come."""
    xp = namespace(a)
    c = xp.zeros((a.shape[0], b.shape[1]), xp.float64)
    for product, exponent in products:
        c += xp.ldexp(product.astype(xp.float64), exponent)
    xp.copyto(c, np.nan, where=c != c)  # infinities of both signs: each machine has NaNs of its own
    return c


def _sum_exactly(
    products: Iterator[tuple[Array, Array]], split_a: SplitRows, split_b: SplitRows, a: Array, b: Array
) -> Array:
    """Return RN(Σ 2**exponent·product), added up in digits of 30 bits above each element's last place."""
    xp = namespace(a)
    shape = (a.shape[0], b.shape[1])
    if not (split_a.slices and split_b.slices and all(shape)):
        return xp.zeros(shape, xp.float64)
    bits = split_a.bits + split_b.bits
    lowest = split_a.exponents[-1][:, None] + split_b.exponents[-1]
    highest = split_a.exponents[0][:, None] + split_b.exponents[0]
    length = (int((highest - lowest).max()) + 24) // _DIGIT_BITS + 2
    digits = xp.zeros((length, *shape), xp.int64)
    rows, columns = xp.arange(shape[0])[:, None], xp.arange(shape[1])
    for product, exponent in products:
        integer = xp.ldexp(product, bits).astype(xp.int64)  # below 2**25 in magnitude
        index = (exponent - lowest) // _DIGIT_BITS
        integer <<= exponent - lowest - _DIGIT_BITS * index
        digits[index, rows, columns] += integer & ((1 << _DIGIT_BITS) - 1)
        digits[index + 1, rows, columns] += integer >> _DIGIT_BITS
    return round_digits(digits, _DIGIT_BITS, lowest - bits)


def _rows_slice_count(a: Array, b: Array) -> int:
    """Return the count for A (Algorithm 3), whose two sides scale with each row of A and with all of B."""
    xp = namespace(a)
    k = a.shape[1]
    normal = xp.ldexp(xp.abs(b), -_ceil_log2(xp.maximum(xp.abs(b).max(), 2.0**-1074)))
    be = accurate_dgemm(normal, xp.ones((b.shape[1], 1)))
    tau = _ceil_log2(xp.maximum(xp.abs(a).max(axis=1, keepdims=True), 2.0**-1074))
    bound = 2 * k**0.5 * 2.0**-53 * accurate_dgemm(xp.ldexp(xp.abs(a), -tau), be)
    d = 0
    for part, exponent in _slices(a, slice_bits(k)):
        d += 1
        left_out = accurate_dgemm(xp.abs(xp.ldexp(part, exponent - tau)), be)
        if everywhere((left_out < bound) | (bound == 0)):
            break
    return d


def _operands(a: Any, b: Any) -> tuple[Array, Array]:
    left, right = factors_of(a, b, np.float64)
    return left.matrix, right.matrix


def _finite_rows(x: Array) -> tuple[Array, Array]:
    """Return x with the rows that hold an Inf or NaN zeroed, and NONFINITE_ROW marking them."""
    xp = namespace(x)
    finite = xp.isfinite(x).all(axis=1)
    return xp.where(finite[:, None], x, 0.0), xp.where(finite, 0, NONFINITE_ROW)


def _count(a: Array, b: Array, slices: int | str | None) -> int | None:
    if slices == "estimated":
        return slice_count(a, b)
    if isinstance(slices, str):
        raise ValueError(f"slices must be a number, 'estimated' or None, got {slices!r}")
    return _checked_count("slices", slices)


def _checked_count(name: str, count: int | None) -> int | None:
    if count is None:
        return None
    count = operator.index(count)
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")
    return count
