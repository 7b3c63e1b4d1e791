"""Determinants with a proved sign and a relative bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, on_host, quietly
from multiword.runtime.readback import everywhere
from ozaki.linalg import factor_lu
from ozaki.linalg.arguments import one_square
from ozaki.linalg.determinant import exact_product, nearest, ratio
from ozaki.linalg.products import words_of_product
from ozaki.linalg.triangular import solved
from ozaki.linalg.verified.tools.integers import exact_determinant
from ozaki.linalg.verified.tools.preconditioner import tail
from ozaki.linalg.verified.tools.scaling import brought_to_one, equilibrated, unit
from ozaki.linalg.verified.tools.solution import NotProvedError
from ozaki.linalg.verified.tools.upward import ETA, U, apply, largest, magnitude, plus, root, total, up

TERMS, PLACES = 30, 160
"""Of the exponential's series, for arguments below 1: the rest is below 2**-100; and binary places."""


@public_in("ozaki.linalg.verified", "What they return")
@dataclass(frozen=True)
class Determinant:
    """A determinant, and what is proved about it.

    Attributes
    ----------
    value : nearest float64 or complex128 of mantissa·2**exponent: 0 or infinite where that is out of range.
    sign : -1, 0 or 1, proved; of a complex determinant 0 or value/|value|.
    mantissa, exponent : the determinant is mantissa·2**exponent·(1 + δ), |δ| <= relative, with the larger
        part of the mantissa in [1/2, 1).
    relative : the bound of |δ|; 0 where mantissa·2**exponent is proved to be exact.
    integer : the exact determinant of a matrix of integers, where that is known; else None.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.det(np.array([[64919121.0, -159018721.0], [41869520.5, -102558961.0]])).value
    -0.5
    >>> int(verified.det(np.eye(3))), float(verified.det(np.eye(2) / 2))
    (1, 0.25)
    """

    value: complex
    sign: complex
    mantissa: complex
    exponent: int
    relative: float
    integer: int | None

    def __bool__(self) -> bool:
        """Whether it is not 0, proved."""
        return self.sign != 0

    def __complex__(self) -> complex:
        return complex(self.value)

    def __float__(self) -> float:
        """The value; TypeError of a complex one."""
        return float(self.value)  # type: ignore[arg-type]

    def __int__(self) -> int:
        """The exact integer; ValueError where that is not known."""
        if self.integer is None:
            raise ValueError("the determinant is not known as an integer: take value, or det(a, exact=True)")
        return self.integer

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype=dtype, copy=copy)


@public_in("ozaki.linalg.verified", "Proofs")
@on_device_of_arrays
def det(a: Any, *, exact: bool = False) -> Determinant:
    """Return the determinant of a matrix with a proved sign and bound; of integers exactly, if cheap.

        det(PA) = det(B) / Π diag(X_U),   B = X_L·PA·X_U = I - E,   X_L ≈ L⁻¹,  X_U ≈ U⁻¹ triangular
        |log det(B) + tr E + tr E²/2| <= ‖E‖_F²·‖E‖ / (3(1 - ‖E‖))

    If ‖E‖ < 1, no I - tE with 0 <= t <= 1 is singular, so det(B) > 0 for real A. Where ‖E‖ is not below 1,
    and with `exact`, the determinant is computed modulo primes up to Hadamard's bound.

    The bound of A times a power of two is that of A, but where only one of the two has integers, as float64
    numbers from 2**53 on all are: of these the exact determinant is looked for.

    Parameters
    ----------
    a : (n, n) array of real or complex numbers.
    exact : compute the exact determinant in any case.

    Returns
    -------
    A `Determinant`.

    Raises
    ------
    TypeError, ValueError : as `solve`. numpy.linalg.LinAlgError : not square; `NotProvedError` where neither
        way gives the sign in reasonable time.

    References
    ----------
    Ogita, Accurate and verified numerical computation of the matrix determinant; Rump, Computer-assisted
    proofs and self-validating methods.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.det(np.array([[2, 1], [1, 3]])).integer
    5
    """
    a = one_square(a)
    with quietly(a):
        result = None if exact else _by_factors(a)
        if result is not None and (result.integer is not None or not _integers(a)):
            return result
        integers = exact_determinant(on_host(a))
        if integers is not None:
            real, imaginary, exponent = integers
            return _determinant(real, imaginary, 1, exponent, 0.0, a)
        if result is not None:
            return result
    raise NotProvedError("the sign of the determinant is not proved", np.inf, 1, np.inf)


def _by_factors(a: Array) -> Determinant | None:
    """The determinant from a triangular factorization; None if that does not prove the sign."""
    xp, n = namespace(a), len(a)
    # Whether A is equilibrated depends on its scale, and the bound on how: A·2**s has the bound of A.
    matrix, exponent, lost = brought_to_one(a) if n else (a, 0, 0.0)
    matrix, exponent = (a, 0) if lost else (matrix, exponent)
    matrix, rows, columns = equilibrated(matrix) if n else (a, *np.zeros((2, 0), int))
    shift = n * exponent + int(rows.sum() + columns.sum())
    lu = matrix.copy(order="C")
    swaps = factor_lu.factorize(lu)
    if not everywhere(lu.diagonal() != 0):
        return None
    permuted = matrix[xp.asarray(swaps.rows)]
    identity = xp.eye(n, dtype=a.dtype)
    x_lower = xp.tril(solved(lu, identity, lower=True, unit=True), -1) + identity
    x_upper = xp.triu(solved(lu, identity, lower=False))
    # Transposed, as of the right factor zeros cost nothing.
    words = [word.T for word in words_of_product([permuted.T], [x_lower.T], words=2)]
    (e,) = words_of_product(words, [-x_upper], [identity])
    size = magnitude(e)
    # |E - e| row by row, times a vector of ones: the dropped word times X_U, and the last rounding
    of_rows = apply(size)
    lost = plus(apply(tail(words), apply(magnitude(x_upper))), of_rows * 2 * U, n * ETA)
    norm = largest(plus(of_rows, lost))
    if not norm < 1:
        return None
    logarithm, error = _logarithm(e, size, norm, total(lost))
    if not (error < 0.1 and abs(logarithm) < 1):
        return None
    x, y = _exponential(logarithm)
    diagonal = x_upper.diagonal()
    p, q, exponent = exact_product(on_host(diagonal))
    sign, square = -1 if swaps.odd else 1, p * p + q * q
    real, imaginary = sign * (x * p + y * q), sign * (y * p - x * q)
    relative = up(error * (1 + error) + 2.0**-90)
    return _determinant(real, imaginary, square, shift - exponent - PLACES, relative, a)


def _logarithm(e: Array, size: Array, norm: float, lost: float) -> tuple[complex, float]:
    """log det(I - E) and its error, for ‖E‖ <= norm and Σ|E - e| <= lost."""
    n = len(e)
    diagonal = on_host(e.diagonal())
    trace = -complex(math.fsum(diagonal.real), math.fsum(diagonal.imag))  # both correctly rounded
    second = -complex((e * e.T).sum()) / 2
    frobenius = root(total(size * size))
    square = float(up(plus(frobenius, lost) ** 2 * (1 + 4 * U)))
    rest = up(up(up(square * norm) / (3 * (1 - up(norm)))) * (1 + 4 * U))
    rounding = plus(4 * U * abs(trace), 2 * n * n * U * square, 4 * U * square)
    return trace + second, float(plus(rest, rounding, up(lost * (1 + 2 * norm))))


def _exponential(z: complex) -> tuple[int, int]:
    """The parts of exp(z) times 2**PLACES, by its series, to 2**-100."""
    x, y = (int(math.ldexp(part, PLACES)) for part in (z.real, z.imag))
    real, imaginary = of_real, of_imaginary = 1 << PLACES, 0
    for k in range(1, TERMS):
        unit = k << PLACES
        of_real, of_imaginary = (
            (of_real * x - of_imaginary * y) // unit,
            (of_real * y + of_imaginary * x) // unit,
        )
        real, imaginary = real + of_real, imaginary + of_imaginary
    return real, imaginary


def _integers(a: Array) -> bool:
    return a.dtype.kind != "c" and everywhere(a == namespace(a).rint(a))


def _integers_near(
    real: int, imaginary: int, divisor: int, exponent: int, relative: float
) -> tuple[int, int] | None:
    """The integers within a relative error of (real + i·imaginary)/divisor·2**exponent, if there is one pair
    only."""
    (x, d), (y, _) = (ratio(part, exponent, divisor) for part in (real, imaginary))
    p, q = ((2 * part + d) // (2 * d) for part in (x, y))  # the nearest ones
    n, m = float(relative).as_integer_ratio()
    away = max(abs(x - p * d), abs(y - q * d))  # times d
    return (p, q) if 2 * away * m < d * m - 4 * (abs(x) + abs(y)) * n else None


def _determinant(
    real: int, imaginary: int, divisor: int, exponent: int, relative: float, a: Array
) -> Determinant:
    """The record of (real + i·imaginary)/divisor·2**exponent, within a relative error."""
    exact, larger = not relative, max(abs(real), abs(imaginary))
    length = larger.bit_length() - divisor.bit_length()
    n, d = ratio(larger, -length, divisor)
    length += n >= d
    if relative and a.size and exponent + length + math.log2(relative) < (lowest := len(a) * unit(a)):
        integers = _integers_near(real, imaginary, divisor, exponent - lowest, relative)
        if integers is not None:
            return _determinant(*integers, 1, lowest, 0.0, a)
    parts = [ratio(x, -length, divisor) for x in (real, imaginary)]
    mantissa = [n / d for n, d in parts]  # correctly rounded
    if any(
        p * d != n * q for (p, q), (n, d) in zip(map(float.as_integer_ratio, mantissa), parts, strict=True)
    ):
        relative = up(relative + 4 * U)
    if max(map(abs, mantissa)) == 1:  # rounded upwards
        mantissa, length = [m / 2 for m in mantissa], length + 1
    value = [nearest(x, exponent, divisor=divisor) for x in (real, imaginary)]
    if a.dtype.kind == "c":
        size = abs(complex(*mantissa))
        sign = complex(*mantissa) / size if size else 0j
        proved = exponent + length, float(relative)
        return Determinant(complex(*value), sign, complex(*mantissa), *proved, None)
    sign = (real > 0) - (real < 0)
    n, d = ratio(real, exponent, divisor)
    integer = n // d if exact and _integers(a) else None  # without a remainder
    return Determinant(value[0], sign, mantissa[0], exponent + length, float(relative), integer)
