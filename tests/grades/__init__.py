"""Grading tests of matrix products: inputs that tell algorithms apart, and the grades that errors deserve.

The criterion of grade A and the inputs with zeros and with grading are those of Demmel, Li, Langou, Pereira,
Gates and Rubio González, "How to grade the accuracy of an implementation of the BLAS", BLIS Retreat 2024.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isqrt

import numpy as np

from multiword.formats import FORMATS
from tests.matrices import FACES, TARGETS
from tests.oracle import exact_product, integers, real_products

SIZES = (8, 16, 32)

ACCURACIES: dict[str, tuple[str | int, ...]] = {
    "fp64": ("fp64", "normwise", "exact", 53),
    "fp32": ("fp32", "normwise", "exact", 24),
}
"""What is graded, by the format of the result; the last is a number of bits."""

Matrices = tuple[np.ndarray, np.ndarray]


# inputs -----------------------------------------------------------------------------------------------


def significands(rng: np.random.Generator, shape: object, dtype: str) -> np.ndarray:
    """Numbers from 1 to 2, of full precision and the same on every machine; each part of complex ones."""
    digits = FORMATS[TARGETS[dtype]].precision - 1
    parts = [1 + np.ldexp(rng.integers(0, 1 << digits, shape).astype(float), -digits) for _ in range(2)]
    return (parts[0] + 1j * parts[1] if dtype.startswith("c") else parts[0]).astype(dtype)


def powers(n: int, dtype: str) -> np.ndarray:
    """n powers of two, falling, with inverses; products of two of them, and sums of n, do not overflow."""
    largest = {"fp64": 511, "fp32": 63}[TARGETS[dtype]] - n.bit_length() - 2
    return np.ldexp(1.0, np.linspace(largest, -largest, n).astype(int)).astype(np.zeros(1, dtype).real.dtype)


def positive(rng: np.random.Generator, n: int, dtype: str) -> Matrices:
    """Numbers from 1 to 2."""
    return significands(rng, (n, n), dtype), significands(rng, (n, n), dtype)


def signed(rng: np.random.Generator, n: int, dtype: str) -> Matrices:
    """The same with signs: sums cancel."""
    a, b = positive(rng, n, dtype)
    return a * (1 - 2 * rng.integers(0, 2, (n, n))).astype(a.real.dtype), b


def complementary(rng: np.random.Generator, n: int, dtype: str) -> Matrices:
    """For even i, row i of A and column i of B have no nonzero number in common: element (i, i) is 0."""
    a, b = signed(rng, n, dtype)
    for i in range(0, n, 2):
        zeros = rng.permutation(n) < rng.integers(1, n)
        a[i, zeros], b[~zeros, i] = 0, 0
    return a, b


def shifted(rng: np.random.Generator, n: int, dtype: str) -> Matrices:
    """A_ij = (x·D)_(i+j) and B_ij = (x̄/D)_(i+j), indices modulo n: small numbers of a row decide elements."""
    x, d = significands(rng, n, dtype), powers(n, dtype)
    places = np.add.outer(np.arange(n), np.arange(n)) % n
    return (x * d)[places], (x.conj() / d)[places]


def graded(rng: np.random.Generator, n: int, dtype: str) -> Matrices:
    """(X·D)·(D⁻¹·Y), with a last row and a last column that are large throughout."""
    (a, b), d = positive(rng, n, dtype), rng.permutation(powers(n, dtype))
    a, b = a * d, b / d[:, None]
    a[-1], b[:, -1] = significands(rng, n, dtype) * d.max(), significands(rng, n, dtype) * d.max()
    return a, b


@dataclass(frozen=True)
class Input:
    """Matrices, and what they are to show."""

    name: str
    make: Callable[[np.random.Generator, int, str], Matrices]
    shows: str


INPUTS = (
    Input("positive numbers", positive, "growth of errors with n"),
    Input("numbers of both signs", signed, "growth of errors with n"),
    Input("complementary zeros", complementary, "Strassen-like algorithms (test 1b)"),
    Input("shifted grading", shifted, "fixed point (test 2b)"),
    Input("graded inner dimension", graded, "fixed point (test 3b)"),
)


@cache
def matrices(given: Input, n: int, dtype: str) -> Matrices:
    """A and B of one kind and size."""
    return given.make(np.random.Generator(np.random.PCG64(n)), n, dtype)


# grades -----------------------------------------------------------------------------------------------


Scaled = tuple[np.ndarray, int]
"""Integers, and the exponent of their unit."""


@cache
def exact(given: Input, n: int, dtype: str) -> list[tuple[Scaled, list[Scaled]]]:
    """Of each real part: the exact product, and what errors are relative to, for A, B and C."""
    found = []
    for left, right in real_products(*matrices(given, n, dtype)):
        rows, columns = norms(left, 1), norms(right, 0)
        outer = np.outer(rows[0], columns[0]), rows[1] + columns[1]
        largest = np.full((n, n), rows[0].max() * columns[0].max()), outer[1]
        sizes = [exact_product(np.abs(left), np.abs(right)), outer, largest]
        found.append((exact_product(left, right), sizes))
    return found


def norms(x: np.ndarray, axis: int) -> Scaled:
    """2-norms of rows or columns, from below and to 50 places at least."""
    whole, exponent = integers(x)
    squares = (whole * whole).sum(axis=axis)
    return np.array([isqrt(int(s) << 100) for s in squares], object), exponent - 50


@cache
def errors(given: Input, n: int, dtype: str, accuracy: str | int) -> tuple[float, ...]:
    """The largest errors in units of u, relative to what grades A, B and C say; inf where it must be 0."""
    result = FACES[dtype](*matrices(given, n, dtype), accuracy=accuracy)
    worst = [0.0] * 3
    for part, ((whole, e), sizes) in zip((result.real, result.imag), exact(given, n, dtype), strict=False):
        got, f = integers(part)
        unit = min(e, f)
        error = abs((whole << (e - unit)) - (got << (f - unit)))
        for i, (size, g) in enumerate(sizes):
            worst[i] = max(
                worst[i], _largest_ratio(error, size, unit - g) * 2.0 ** FORMATS[TARGETS[dtype]].precision
            )
    return tuple(worst)


def _largest_ratio(x: np.ndarray, y: np.ndarray, exponent: int) -> float:
    """Of x·2**exponent to y; where y is 0, inf, or 0 if x is, too. Integers are divided without a gcd."""
    x, y = (x << exponent, y) if exponent >= 0 else (x, y << -exponent)
    pairs = zip(x.ravel(), y.ravel(), strict=True)
    return max(p / q if q else np.inf * (p > 0) if p else 0.0 for p, q in pairs)


def grade(given: Input, dtype: str, accuracy: str | int) -> str:
    """The best grade whose errors are at most n·u for every size; "–" for none."""
    held = [all(errors(given, n, dtype, accuracy)[i] <= n for n in SIZES) for i in range(3)]
    return next((name for name, good in zip("ABC", held, strict=True) if good), "–")
