"""Exact references, and comparison bit for bit."""

from fractions import Fraction

import numpy as np

from multiword.formats import FORMATS
from tests.fuzz.rational import exact_product, rounded_ratio, rounded_root


def same(x, y) -> bool:
    """Bit for bit, the dtype and the shape included."""
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def nearest(value: Fraction, fmt=FORMATS["fp64"]) -> float:
    """RN of an exact rational to a format, ties to even, subnormals and overflow included."""
    return rounded_ratio(value.numerator, value.denominator, 0, (fmt.precision, fmt.emin, fmt.emax))


def nearest_root(square: Fraction, fmt=FORMATS["fp64"]) -> float:
    """RN of the square root of an exact rational."""
    return rounded_root(square.numerator, 0, (fmt.precision, fmt.emin, fmt.emax), square.denominator)


def componentwise_error(c, a, b, fmt=FORMATS["fp64"]) -> tuple[float, float]:
    """Return max |C - AB| / |A||B| and max (|C - AB| - half an ulp of C) / |A||B|."""
    whole, exponent = exact_product(a, b)
    magnitude, _ = exact_product(np.abs(a), np.abs(b))
    unit = Fraction(2) ** exponent
    worst = truncation = Fraction(0)
    for v, w, x in zip(whole.ravel(), magnitude.ravel(), np.asarray(c, np.float64).ravel(), strict=True):
        error = abs(Fraction(v) * unit - Fraction(float(x)))
        if w == 0:
            assert error == 0
            continue
        last = (
            max(int(np.frexp(x)[1]) - fmt.precision, fmt.emin - fmt.precision + 1)
            if x
            else fmt.emin - fmt.precision + 1
        )
        scale = Fraction(w) * unit
        worst = max(worst, error / scale)
        truncation = max(truncation, (error - Fraction(2) ** last / 2) / scale)
    return float(worst), float(truncation)


def images_of(real, imaginary, system):
    """(images, N, …) weighted residues of products with these real and imaginary parts, arrays of integers.

    Each is any number between 0 and its modulus.
    """
    found = []
    for t, (p, w) in enumerate(zip(system.moduli, system.weights, strict=True)):
        if system.images == 2:
            half, j = w * pow(2, -1, p), system.roots[t]
            images = half * (real + j * imaginary), half * (real - j * imaginary)
        else:  # Karatsuba's first two are what the real part is the difference of
            images = (w * real, 0 * real, w * (real + imaginary))[: system.images]
        found.append([x % p for x in images])
    return np.array(found, object).swapaxes(0, 1)
