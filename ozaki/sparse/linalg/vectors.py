"""Operations on vectors with the same bits everywhere: exact dot products, and sums that nothing contracts.

Vectors are of float64 or complex128. Complex numbers are multiplied by their parts: NumPy's own product may
contract, and so may a compiler's of a CUDA kernel; a product and a sum in kernels of their own cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan, sqrt
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows
from ozaki.sparse.linalg.vectors_cuda import add_scaled, enclosed_dots, real_vectors
from ozaki.sums import api as sums
from ozaki.tuning import SPARSE_VECTORS

LOOPS = "ozaki.sparse.linalg.vectors_numba"

Scalar = float | complex

EPS = 2.0**-52
"""From 1 to the next float64 number."""


def dot(x: Array, y: Array) -> Scalar:
    """Return RN(Σ conj(x)·y) as Python's number; a GPU is waited for."""
    return _decided(_in_one_pass(x, y)[0], lambda: sums.vdot(x, y))


def norm(x: Array) -> float:
    """Return RN(√Σ|x|²)."""
    return _decided(_in_one_pass(x, x)[1], lambda: sums.norm(x))


def norm_and_dot(x: Array, y: Array) -> tuple[float, Scalar]:
    """Return `norm(x)` and `dot(x, y)`: of real numbers in one pass if y is x, on a GPU with one wait."""
    if y is not x and is_cupy(x) and real_vectors(x, y):
        _, root, product = enclosed_dots(x, x, y)
    else:
        square, root = _in_one_pass(x, x)
        product = square if y is x else _in_one_pass(x, y)[0]
    return _decided(root, lambda: sums.norm(x)), _decided(product, lambda: sums.vdot(x, y))


def _decided(value: Scalar, exactly: Callable[[], Any]) -> Any:
    """Return a value, or what is exactly so: of NaN, which is undecided, and 0, whose sign is open."""
    return value if value and value == value else exactly().item()


def _in_one_pass(x: Array, y: Array) -> tuple[float, float]:
    """Return RN(Σ x·y) and RN(√Σ x·y); NaN where one pass over real vectors does not find it."""
    if is_cupy(x):
        product, of_root, _ = enclosed_dots(x, y) if real_vectors(x, y) else (nan, nan, nan)
        return product, of_root
    if (loops := _loops_of(x, y)) is None:
        return nan, nan
    found: tuple[float, float]
    if x.size <= SPARSE_VECTORS:
        found = loops.dots(x, y)
    else:
        parts = np.empty((-(-x.size // SPARSE_VECTORS), 3))
        _in_parts(lambda some, part: loops.enclose(x[some], y[some], parts[part]), x.size)
        found = loops.dots_of_parts(parts)
    return found


def _in_parts(work: Callable[[slice, int], None], size: int) -> None:
    """Call work(numbers, part) for all parts of vectors, on all cores."""
    over_rows(lambda some: work(some, some.start // SPARSE_VECTORS), size, 1, SPARSE_VECTORS)


def _loops_of(x: Array, y: Array) -> Any:
    """Return the compiled loops over real vectors of one length; None where these are others."""
    if type(x) is not np.ndarray or not x.dtype == y.dtype == np.float64 or x.shape != y.shape:
        return None
    return compiled(LOOPS) if x.flags.c_contiguous and y.flags.c_contiguous else None


def scaled(a: Scalar, x: Array) -> Array:
    """Return a·x: each real product and each difference is rounded by itself.

    >>> scaled(1j, np.array([1 + 2j]))
    array([-2.+1.j])
    """
    if x.dtype.kind != "c":
        return x * a
    a = complex(a)
    if a.imag == 0:
        return (x.view(np.float64) * a.real).view(x.dtype)
    out = x.copy()
    out.real = x.real * a.real - x.imag * a.imag
    out.imag = x.real * a.imag + x.imag * a.real
    return out


def added(x: Array, a: Scalar, y: Array) -> Array:
    """Return x + a·y, with two roundings for real numbers.

    >>> added(np.array([1.0]), -2.0, np.array([0.5]))
    array([0.])
    """
    if is_cupy(x) and real_vectors(x, y):
        return add_scaled(x, a, y)
    if (loops := _loops_of(x, y)) is not None:
        result = np.empty_like(y)
        if x.size <= SPARSE_VECTORS:
            loops.add_scaled(x, a, y, result)
        else:
            _in_parts(lambda some, _: loops.add_scaled(x[some], a, y[some], result[some]), x.size)
        return result
    result = scaled(a, y)
    result += x
    return result


def length(a: float, b: float) -> float:
    """Return √(a² + b²), in four operations of IEEE's.

    >>> length(3.0, -4.0)
    5.0
    """
    return sqrt(a * a + b * b)


def magnitude(a: Scalar) -> float:
    """Return |a|, of a complex number by a root and no function of the C library.

    >>> magnitude(3 + 4j), magnitude(-2.0)
    (5.0, 2.0)
    """
    return abs(a) if isinstance(a, float) else length(a.real, a.imag)


def product(a: Scalar, b: Scalar) -> Scalar:
    """Return a·b, of complex numbers in real operations.

    >>> product(1j, 1j), product(2.0, 3.0)
    ((-1+0j), 6.0)
    """
    if isinstance(a, float) and isinstance(b, float):
        return a * b
    return complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def quotient(a: Scalar, b: Scalar) -> Scalar:
    """Return a/b; of complex numbers a·conj(b)/|b|², in real operations, with b scaled by a power of two.

    ZeroDivisionError for b = 0.

    >>> quotient(1 + 2j, 2j), quotient(1.0, 4.0)
    ((1-0.5j), 0.25)
    """
    if isinstance(a, float) and isinstance(b, float):
        return a / b
    a, b = complex(a), complex(b)
    scale = 2.0 ** -int(np.frexp(max(abs(b.real), abs(b.imag)))[1])
    c, d = b.real * scale, b.imag * scale
    square = c * c + d * d
    real, imaginary = a.real * c + a.imag * d, a.imag * c - a.real * d
    return complex(real / square * scale, imaginary / square * scale)


def rotation(a: Scalar, b: float) -> tuple[float, Scalar, Scalar]:
    """Return c, s and r of the rotation [c s; −conj(s) c]·[a; b] = [r; 0]; c is real.

    >>> rotation(3.0, 4.0)
    (0.6, 0.8, 5.0)
    """
    if b == 0:
        return 1.0, 0.0, a
    if a == 0:
        return 0.0, 1.0, b
    size = magnitude(a)
    whole = length(size, b)
    if isinstance(a, float):
        sign = 1.0 if a > 0 else -1.0
        return size / whole, sign * b / whole, sign * whole
    unit = complex(a.real / size, a.imag / size)
    share = b / whole
    return (
        size / whole,
        complex(unit.real * share, unit.imag * share),
        complex(unit.real * whole, unit.imag * whole),
    )
