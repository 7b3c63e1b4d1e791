"""Exact determinants, by elimination modulo primes and Hadamard's bound.

A row of float64 numbers is integers times a power of two; the determinant D of the integers satisfies
|D| <= Π‖row‖₂ (Hadamard), and is known once it is known modulo primes whose product exceeds twice that.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

import numpy as np

MOST_OPERATIONS = 2e10
"""Elementary operations, at most, that an exact determinant may take: about a minute."""


def exact_determinant(a: np.ndarray) -> tuple[int, int, int] | None:
    """Return integers (x, y, e) with det A = (x + iy)·2**e exactly; None if that takes too long."""
    n, complex_numbers = len(a), a.dtype.kind == "c"
    parts = np.stack([a.real, a.imag]) if complex_numbers else a[None]
    mantissas, exponents = np.frexp(parts)
    mantissas = np.ldexp(mantissas, 53).astype(np.int64)
    exponents = np.where(mantissas != 0, exponents - 53, 2**20)
    unit = exponents.min(axis=(0, 2), initial=2**20)
    unit = np.where(unit == 2**20, 0, unit)
    shifts = np.where(mantissas != 0, exponents - unit[:, None], 0)
    # ‖row‖₂ <= √(2n)·2**(53 + shift), with a bit to spare for the sign
    bits = int(shifts.max(axis=(0, 2), initial=0).sum()) + n * (54 + (2 * n).bit_length() // 2) + 2
    if bits / 29 * (n**3 / 3 + 10 * n * n) * len(parts) > MOST_OPERATIONS:
        return None
    modulus, real, imaginary = 1, 0, 0
    for p, root in _primes(need_root=complex_numbers):
        if modulus.bit_length() > bits:
            break
        powers = np.array([pow(2, k, p) for k in range(int(shifts.max(initial=0)) + 1)], np.int64)
        x = mantissas % p * powers[shifts] % p
        if complex_numbers:
            one, other = (_determinant((x[0] + r * x[1]) % p, p) for r in (root, p - root))
            half = pow(2, -1, p)
            residues = (one + other) * half % p, (one - other) * half * pow(root, -1, p) % p
        else:
            residues = _determinant(x[0], p), 0
        inverse = pow(modulus, -1, p)
        real += modulus * ((residues[0] - real) * inverse % p)
        imaginary += modulus * ((residues[1] - imaginary) * inverse % p)
        modulus *= p
    x, y = (z - modulus if 2 * z > modulus else z for z in (real, imaginary))
    return x, y, int(unit.sum())


def _determinant(x: np.ndarray, p: int) -> int:
    """The determinant of integers modulo a prime below 2**31."""
    result = 1
    for j in range(len(x)):
        nonzero = np.flatnonzero(x[j:, j])
        if not len(nonzero):
            return 0
        if i := int(nonzero[0]):
            x[[j, j + i]] = x[[j + i, j]]
            result = -result
        pivot = int(x[j, j])
        result = result * pivot % p
        factors = x[j + 1 :, j] * pow(pivot, -1, p) % p
        x[j + 1 :, j + 1 :] = (x[j + 1 :, j + 1 :] - factors[:, None] * x[j, j + 1 :]) % p
    return result % p


def _primes(need_root: bool) -> Iterator[tuple[int, int]]:
    """Primes p below 2**30, the largest first, with a root of -1 modulo p if that is needed, else 0."""
    small = [q for q in range(3, isqrt(2**30) + 1, 2) if all(q % d for d in range(3, isqrt(q) + 1, 2))]
    divisors = np.array(small)
    for p in range(2**30 - 1, 2**29, -2):
        if (need_root and p % 4 != 1) or not (p % divisors).all():
            continue
        root = (
            next(r for g in range(2, p) if pow(r := pow(g, (p - 1) // 4, p), 2, p) == p - 1)
            if need_root
            else 0
        )
        yield p, root
