"""Determinants of triangular matrices: the exact product of a diagonal, rounded once.

Defined here in integers, matrix by matrix. `determinant_numba` has the same bits, and says where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import frexp
from typing import Any

import numpy as np

from multiword.runtime.compiled import compiled

FORM = "ozaki.linalg.determinant_numba"

_BITS = 256
"""Leading bits of numbers that logarithm and sign are computed from, far more than float64 shows."""


def exact_product(diagonal: np.ndarray) -> tuple[int, int, int]:
    """Return integers (x, y, e): the product of finite float64 or complex128 numbers is (x + iy)·2**e."""
    if diagonal.dtype.kind != "c":
        mantissas, exponents = np.frexp(diagonal)
        return math.prod(map(int, (mantissas * 2.0**53).tolist())), 0, int((exponents - 53).sum())
    real, imaginary, exponent = 1, 0, 0
    for z in diagonal.tolist():
        (p, of_p), (q, of_q) = frexp(z.real), frexp(z.imag)
        unit = min(of_p if p else of_q, of_q if q else of_p) - 53
        x, y = int(p * 2.0**53) << max(of_p - 53 - unit, 0), int(q * 2.0**53) << max(of_q - 53 - unit, 0)
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
        exponent += unit
    return real, imaginary, exponent


def determinants(diagonals: np.ndarray, pivots: np.ndarray, single: bool) -> np.ndarray:
    """Return what `determinant` does, of matrices with (s, n) diagonals of U and pivots."""
    values = np.empty(len(diagonals), diagonals.dtype)
    for i in _undecided("determinants", diagonals, pivots, bool(single), _parts(values)):
        values[i] = determinant(diagonals[i], _sign(pivots[i]), single)
    return values


def signs_and_logarithms(diagonals: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return det/|det| and log|det| of the same, as `sign_and_logarithm` does."""
    signs, sizes = np.empty(len(diagonals), diagonals.dtype), np.empty(len(diagonals))
    for i in _undecided("logarithms", diagonals, pivots, _parts(signs), sizes):
        signs[i], sizes[i] = sign_and_logarithm(diagonals[i], _sign(pivots[i]))
    return signs, sizes


def _parts(x: np.ndarray) -> np.ndarray:
    return x.view(np.float64).reshape(len(x), x.itemsize // 8)


def _sign(pivots: np.ndarray) -> int:
    return -1 if np.count_nonzero(pivots != np.arange(len(pivots))) % 2 else 1


def _undecided(name: str, diagonals: np.ndarray, pivots: np.ndarray, *rest: Any) -> Sequence[int]:
    """Have the compiled form write what it knows to the rest; return for which diagonals that is nothing."""
    form = compiled(FORM)
    if form is None:
        return range(len(diagonals))
    undecided = np.empty(len(diagonals), bool)
    if getattr(form, name)(diagonals.real, diagonals.imag, pivots, *rest, undecided):
        return np.flatnonzero(undecided).tolist()
    return ()


def determinant(diagonal: np.ndarray, sign: int, single: bool = False) -> complex:
    """Return sign times the product of a diagonal, rounded to nearest, ±Inf beyond float64's range.

    single : rounded so that rounding it to nearest once more, to float32, is one rounding of the exact value.
    """
    if not np.isfinite(diagonal).all():
        return sign * _infinite(diagonal)
    real, imaginary, exponent = exact_product(diagonal)
    value = [nearest(sign * part, exponent, single) for part in (real, imaginary)]
    return complex(*value) if diagonal.dtype.kind == "c" else value[0]


def _infinite(diagonal: np.ndarray) -> float:
    """The product of real numbers with an Inf among them; NaN for others."""
    if diagonal.dtype.kind == "c" or np.isnan(diagonal).any() or not diagonal.all():
        return np.nan
    return float(np.sign(diagonal).prod() * np.inf)


def sign_and_logarithm(diagonal: np.ndarray, sign: int) -> tuple[complex, float]:
    """Return det/|det| and log|det|, to within an ulp, for the same numbers; 0 and -Inf for zero."""
    if not np.isfinite(diagonal).all():
        value = _infinite(diagonal)
        return sign * np.sign(value), abs(value)
    real, imaginary, exponent = exact_product(diagonal)
    square = real * real + imaginary * imaginary
    if not square:
        return 0.0, -np.inf
    digits = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
    size = digits.sqrt(_leading(square, 0, digits))
    direction = [sign * float(digits.divide(_leading(part, 0, digits), size)) for part in (real, imaginary)]
    logarithm = float(_logarithm(square, 2 * exponent)) / 2
    return (complex(*direction) if diagonal.dtype.kind == "c" else direction[0]), logarithm


def _leading(x: int, exponent: int, digits: Context, bits: int = _BITS) -> Decimal:
    """x·2**exponent by the leading bits of x."""
    excess = max(0, x.bit_length() - bits)
    cut = x >> excess if x > 0 else -(-x >> excess)
    return digits.multiply(Decimal(cut), digits.power(2, exponent + excess))


def _logarithm(x: int, exponent: int) -> Decimal:
    """log(x·2**exponent), with as many digits more as cancel where that is close to 1."""
    near = abs(x - (1 << -exponent)) if exponent <= 0 else x
    if not near:
        return Decimal(0)
    lost = max(0, -exponent - near.bit_length())
    digits = Context(prec=60 + lost // 3, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return digits.ln(_leading(x, exponent, digits, _BITS + lost))


def nearest(x: int, exponent: int, odd: bool = False, divisor: int = 1) -> float:
    """Return RN(x/divisor·2**exponent), ±Inf beyond float64's range; with `odd` the neighbour whose last bit
    is 1, unless that is exact: of the two, one has it (Boldo and Melquiond, Emulation of FMA)."""
    n, d = ratio(x, exponent, divisor)
    try:
        value = n / d  # correctly rounded
    except OverflowError:
        return np.inf if x > 0 else -np.inf
    if odd:
        p, q = value.as_integer_ratio()
        if p * d != n * q and not np.float64(value).view(np.int64) & 1:
            value = math.nextafter(value, math.inf if n * q > p * d else -math.inf)
    return value


def ratio(x: int, exponent: int, divisor: int = 1) -> tuple[int, int]:
    """Return integers n and d, perhaps with common divisors: x/divisor·2**exponent is n/d.

    >>> ratio(3, -2), ratio(1, 2, divisor=3)
    ((3, 4), (4, 3))
    """
    return (x << exponent, divisor) if exponent >= 0 else (x, divisor << -exponent)
