"""Exact references: matrix products in Python's integers, and their correct rounding."""

from fractions import Fraction

import numpy as np

from multiword.formats import FORMATS


def nearest(value: Fraction, fmt=FORMATS["fp64"]) -> float:
    """RN of an exact rational to a format, ties to even, subnormals and overflow included."""
    if value == 0:
        return 0.0
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = numerator.bit_length() - denominator.bit_length()
    if Fraction(2) ** exponent > abs(value):
        exponent -= 1
    last = max(exponent - fmt.precision + 1, fmt.emin - fmt.precision + 1)
    rounded = round(abs(value) / Fraction(2) ** last)  # rounds half to even
    result = Fraction(rounded) * Fraction(2) ** last
    magnitude = float("inf") if result >= Fraction(2) ** (fmt.emax + 1) else float(result)
    return magnitude if value > 0 else -magnitude


def integers(x) -> tuple[np.ndarray, int]:
    """Return an object array of Python integers and an exponent e: x = integers·2**e exactly."""
    significand, exponent = np.frexp(np.asarray(x, np.float64))
    whole = np.ldexp(significand, 53).astype(np.int64)
    exponent = exponent.astype(int) - 53
    lowest = (
        int(exponent[whole != 0].min(initial=0, where=np.ones((whole != 0).sum(), bool)))
        if whole.any()
        else 0
    )
    shift = np.where(whole == 0, 0, exponent - lowest)
    return whole.astype(object) * (np.full(whole.shape, 2, object) ** shift.astype(object)), lowest


def product(a, b) -> tuple[np.ndarray, int]:
    """The exact product: an object array of integers, and the exponent of their unit."""
    (left, e), (right, f) = integers(a), integers(b)
    return left.dot(right), e + f


def rounded_product(a, b, fmt=FORMATS["fp64"]) -> np.ndarray:
    """The correctly rounded product of real matrices."""
    whole, exponent = product(a, b)
    unit = Fraction(2) ** exponent
    values = [nearest(Fraction(v) * unit, fmt) for v in whole.ravel()]
    return np.array(values, np.float64).reshape(whole.shape)


def real_form(a, b):
    """The real products that AB is, or that its real and its imaginary part are."""
    if not (np.iscomplexobj(a) or np.iscomplexobj(b)):
        yield a, b
        return
    left = np.concatenate([a.real, a.imag], axis=1)
    yield left, np.concatenate([b.real, -b.imag])
    yield left, np.concatenate([b.imag, b.real])


def componentwise_error(c, a, b, fmt=FORMATS["fp64"]) -> tuple[float, float]:
    """Return max |C - AB| / |A||B| and max (|C - AB| - half an ulp of C) / |A||B|."""
    whole, exponent = product(a, b)
    magnitude, _ = product(np.abs(a), np.abs(b))
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
