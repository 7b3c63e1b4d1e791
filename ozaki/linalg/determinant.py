"""Determinants of triangular matrices: the exact product of a diagonal, rounded once."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from math import frexp

import numpy as np

_DIGITS = Context(prec=60)
_BITS = 256
"""Leading bits of the product that logarithm and sign are computed from, far more than float64 shows."""


def exact_product(diagonal: np.ndarray) -> tuple[int, int, int]:
    """Return integers (x, y, e): the product of finite float64 or complex128 numbers is (x + iy)·2**e."""
    real, imaginary, exponent = 1, 0, 0
    for z in diagonal.tolist():
        parts = [part for part in (z.real, z.imag) if part]
        unit = min((frexp(part)[1] for part in parts), default=0) - 53
        x, y = (int(Fraction(part) / Fraction(2) ** unit) for part in (z.real, z.imag))
        real, imaginary = real * x - imaginary * y, real * y + imaginary * x
        exponent += unit
    return real, imaginary, exponent


def determinant(diagonal: np.ndarray, sign: int) -> complex:
    """Return sign times the product of a diagonal, rounded to nearest, ±Inf beyond float64's range."""
    if not np.isfinite(diagonal).all():
        return np.nan
    real, imaginary, exponent = exact_product(diagonal)
    value = [nearest(sign * part, exponent) for part in (real, imaginary)]
    return complex(*value) if diagonal.dtype.kind == "c" else value[0]


def sign_and_logarithm(diagonal: np.ndarray, sign: int) -> tuple[complex, float]:
    """Return det/|det| and log|det|, to within an ulp, for the same numbers; 0 and -Inf for zero."""
    if not np.isfinite(diagonal).all():
        return np.nan, np.nan
    real, imaginary, exponent = exact_product(diagonal)
    excess = max(0, max(abs(real), abs(imaginary)).bit_length() - _BITS)
    x, y = (Decimal(part >> excess if part > 0 else -(-part >> excess)) for part in (real, imaginary))
    square = _DIGITS.add(_DIGITS.multiply(x, x), _DIGITS.multiply(y, y))
    if not square:
        return 0.0, -np.inf
    size = _DIGITS.sqrt(square)
    of_powers = _DIGITS.multiply(_DIGITS.ln(Decimal(2)), Decimal(exponent + excess))
    logarithm = float(_DIGITS.add(_DIGITS.ln(size), of_powers))
    direction = [sign * float(_DIGITS.divide(part, size)) for part in (x, y)]
    return (complex(*direction) if diagonal.dtype.kind == "c" else direction[0]), logarithm


def nearest(x: int | Fraction, exponent: int) -> float:
    """Return RN(x·2**exponent), ±Inf beyond float64's range."""
    try:
        return float(Fraction(x) * Fraction(2) ** exponent)
    except OverflowError:
        return np.inf if x > 0 else -np.inf
