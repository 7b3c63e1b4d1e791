"""One rounding of an exact number: to nearest, ties to even, as IEEE 754 has it."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isqrt, ldexp

from multiword.formats import FORMATS, Format

FP64 = FORMATS["fp64"]


def nearest(value: Fraction, target: Format = FP64) -> float:
    """Return RN(value), the nearest number of a format, subnormal numbers and overflow included.

    The unit of the last place is that of the value's octave, but not below the smallest subnormal number.

    >>> nearest(Fraction(1, 3)), nearest(Fraction(1, 3), FORMATS["bf16"]), nearest(-(Fraction(10) ** 400))
    (0.3333333333333333, 0.333984375, -inf)
    """
    magnitude = abs(value)
    if not magnitude:
        return 0.0
    octave = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    octave -= magnitude < Fraction(2) ** octave  # 2**octave <= |value| < 2**(octave + 1)
    unit = max(octave, target.emin) - target.precision + 1
    significand = round(magnitude / Fraction(2) ** unit)  # Python rounds fractions to even
    rounded = significand * Fraction(2) ** unit
    result = inf if rounded > target.maximum else ldexp(significand, unit)
    return result if value > 0 else -result


def nearest_root(square: Fraction, target: Format = FP64) -> float:
    """Return RN(√square), of a fraction that is not negative.

    The root is cut far below the place of the rounding and made odd there if anything was cut off, so that it
    lies on the side of every midpoint on which the root itself does (Boldo and Melquiond).

    >>> nearest_root(Fraction(2)), nearest_root(Fraction(1, 4))
    (1.4142135623730951, 0.5)
    """
    if not square:
        return 0.0
    octave = square.numerator.bit_length() - square.denominator.bit_length()
    shift = 2 * (target.precision + 10) - octave // 2 * 2
    scaled = square * Fraction(2) ** shift
    root = isqrt(scaled.numerator // scaled.denominator)
    inexact = root * root != scaled
    return nearest(Fraction(2 * root + inexact) / Fraction(2) ** (shift // 2 + 1), target)
