"""Scaling by powers of two: exact, or with a bound of what it rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import Any, TypeVar

import numpy as np

from multiword.runtime.arrays import Array, backwards, import_cupy, is_cupy, namespace, on_host, real_parts
from multiword.runtime.readback import anywhere, everywhere
from ozaki.linalg.arithmetic import scaled_to_one
from ozaki.linalg.verified.tools.upward import ETA, compiled_for, magnitude, up

T = TypeVar("T", bound=Any)

PASSES = 3
"""Times that rows and columns are scaled by their largest elements in turn."""

TAME = 2.0**6
"""A ratio of largest to smallest row, and a size of both, that needs no scaling."""

NEAR = 30
"""Octaves from 1 at which right sides are not scaled."""

SPREAD = 1000
"""Octaves below 1 in which float64 numbers have all of their bits, and more than that."""

FAR_BELOW, FAR_ABOVE = -(2**20), 2**20
"""Exponents for zero."""


def scaled(x: Array, exponent: Array) -> Array:
    """Return x·2**exponent, rounded where it must be, for real or complex x."""
    xp = namespace(x)
    if x.dtype.kind != "c":
        return xp.ldexp(x, exponent)
    result = xp.empty(np.broadcast_shapes(x.shape, exponent.shape), x.dtype)
    result.real, result.imag = xp.ldexp(x.real, exponent), xp.ldexp(x.imag, exponent)
    return result


def exactly_scaled(x: Array, exponent: Array) -> Array | None:
    """Return x·2**exponent; None where that rounds a number."""
    result = scaled(x, exponent)
    return result if everywhere(scaled(result, -exponent) == x) else None


def equilibrated(a: Array) -> tuple[Array, Array, Array]:
    """Return 2**-r·A·2**-c and the integer exponents r of rows and c of columns.

    The largest magnitudes of rows and columns become about 1 (Ruiz, A scaling algorithm to equilibrate both
    rows and columns norms in matrices). Nothing is scaled where some element could not be exactly.
    """
    xp, (m, n) = namespace(a), a.shape
    if _is_tame(a):
        return a, xp.zeros((m, 1), np.int32), xp.zeros((1, n), np.int32)
    octaves, r, c = _octaves(magnitude(a)), xp.zeros((m, 1), np.int32), xp.zeros((1, n), np.int32)
    for _ in range(PASSES):
        for scale, axis in ((r, 1), (c, 0)):
            largest = backwards(octaves - r - c, axis).max(axis=axis, keepdims=True)
            scale += _beyond(largest, -1)
    result = exactly_scaled(a, -r - c)
    return (a, 0 * r, 0 * c) if result is None else (result, r, c)


def _is_tame(a: Array) -> bool:
    """Whether the largest magnitudes of rows and columns are near one another, and near 1."""
    if (loops := compiled_for(a)) is not None:
        return bool(loops.is_tame(a, np.empty(a.shape[1])))
    size = magnitude(a)
    extremes = on_host(namespace(a).concatenate([backwards(size, axis).max(axis=axis) for axis in (1, 0)]))
    return bool(extremes.min() * TAME > extremes.max() and 1 / TAME < extremes.max() < TAME)


def equilibrated_by_diagonal(a: Array) -> tuple[Array, Array]:
    """Return 2**-e_i·a_ij·2**-e_j with a diagonal in [1/2, 4), and e; A and zeros where that is not exact."""
    e = namespace(a).frexp(a.diagonal().real)[1] // 2
    result = exactly_scaled(a, -(e[:, None] + e))
    return (a, 0 * e) if result is None else (result, e)


def equilibrated_by_columns(a: Array) -> tuple[Array, Array]:
    """Return A·2**-e with columns at about 1, or as near as their numbers stay multiples of η, and e."""
    xp = namespace(a)
    e = xp.minimum(xp.frexp(backwards(magnitude(a), 0).max(axis=0))[1], units(a) + 1074)
    return scaled(a, -e[None]), e


def brought_to_one(a: Array) -> tuple[Array, int, float]:
    """Return B = 2**-e·A, whose largest number is between 1/2 and 1, e, and a bound of ‖B - 2**-e·A‖₂.

    That is 0 unless B has subnormal numbers: what these are rounded by is at most η, also in complex numbers.
    """
    b, exponent = scaled_to_one(a)
    exact = everywhere(scaled(b, np.int32(exponent)) == a)
    return b, exponent, 0.0 if exact else max(a.shape) * ETA


def rows_scaled(b: Array, r: Array) -> tuple[Array, Array]:
    """Return parts of 2**-r·B, side by side, and exponents t: times 2**t they add up to it exactly.

    Each part is scaled so that columns are at about 1, if they are not near it. There are several where
    numbers of a column are farther apart than float64 numbers can be: then a part has those within `SPREAD`
    octaves.
    """
    if (loops := compiled_for(b)) is not None:
        t = np.empty((1, b.shape[1]), np.int32)
        far = loops.right_octaves(b, r, t)
        if far >= 0:  # zeros are +0, and BLAS meets one order of elements, by which it sums
            b = np.add(b, 0.0, order="C")
            return (scaled(b, -r - t) if far else b), t
    xp, rest = namespace(b), b
    parts: list[Array] = []
    exponents: list[Array] = []
    while not parts or anywhere(rest):
        octave = [_octaves(x) - r for x in real_parts(rest)]
        t = _beyond(backwards(reduce(xp.maximum, octave), 0).max(axis=0, keepdims=True), NEAR)
        exponents.append(t)
        if not any(anywhere(_far_below(*pair, t)) for pair in zip(real_parts(rest), octave, strict=True)):
            parts.append(scaled(rest + 0.0, -r - t))  # zeros are +0 in every part
            break
        near = [e > t - SPREAD for e in octave]
        part, rest = rest.copy(), rest.copy()
        for of_part, of_rest, x in zip(real_parts(part), real_parts(rest), near, strict=True):
            of_part[~x], of_rest[x] = 0, 0
        parts.append(scaled(part, -r - t))
    return (parts[0], exponents[0]) if len(parts) == 1 else (xp.hstack(parts), xp.hstack(exponents))


def _octaves(x: Array) -> Array:
    """The exponents of real numbers, and `FAR_BELOW` of zeros."""
    if is_cupy(x):
        return _octaves_kernel()(x)
    return np.where(x != 0, np.frexp(x)[1], np.int32(FAR_BELOW))


def _beyond(top: Array, near: int) -> Array:
    """The exponents that are not those of zeros alone, and not `near` 0 either; 0 for the others."""
    if is_cupy(top):
        return _beyond_kernel()(top, np.int32(near))
    return np.where((top > FAR_BELOW // 2) & (abs(top) > near), top, np.int32(0))


def _far_below(x: Array, octaves: Array, t: Array) -> Array:
    """Where numbers that are not 0 are `SPREAD` octaves below exponents, or farther."""
    if is_cupy(x):
        return _far_below_kernel()(x, octaves, t)
    return (octaves <= t - SPREAD) & (x != 0)


@cache
def _octaves_kernel() -> Any:
    """One kernel in place of four: each takes a tenth of a second to compile."""
    code = f"int e; frexp(x, &e); y = x == 0 ? {FAR_BELOW} : e;"
    return import_cupy().ElementwiseKernel("float64 x", "int32 y", code, "octaves")


@cache
def _beyond_kernel() -> Any:
    """One in place of five."""
    code = f"y = top > {FAR_BELOW // 2} && abs(top) > near ? top : 0"
    return import_cupy().ElementwiseKernel("int32 top, int32 near", "int32 y", code, "beyond")


@cache
def _far_below_kernel() -> Any:
    """One in place of four."""
    code = f"y = octave <= t - {SPREAD} && x != 0"
    return import_cupy().ElementwiseKernel("float64 x, int32 octave, int32 t", "bool y", code, "far_below")


def units(x: Array) -> Array:
    """Return by column an exponent e such that all its numbers are multiples of 2**e."""
    xp = namespace(x)
    smallest = [backwards(xp.where(part == 0, 2.0**1000, abs(part)), 0).min(axis=0) for part in real_parts(x)]
    return xp.frexp(reduce(xp.minimum, smallest))[1] - 53


def unit(a: Array) -> int:
    """Return the largest e such that all numbers are multiples of 2**e; 0 of zeros."""
    xp, lowest = namespace(a), FAR_ABOVE
    for part in real_parts(a):
        mantissa, exponent = xp.frexp(part)
        integer = xp.ldexp(mantissa, 53).astype(np.int64)
        _, last = xp.frexp((integer & -integer).astype(np.float64))  # the place of the last bit 1, and 1
        lowest = min(lowest, int(xp.where(integer != 0, exponent - 54 + last, FAR_ABOVE).min()))
    return lowest if lowest != FAR_ABOVE else 0


def unscaled(x: Array, bound: Array, sure: Array, exponent: Array) -> tuple[Array, Array, Array]:
    """Return x·2**exponent, its bound, and where it is proved to be rounded: not where this rounds."""
    (y,), bound, exact = unscaled_words([x], bound, exponent)
    return y, bound, sure & exact


def times_power(result: T, exponent: int) -> T:
    """Return a record of values that are multiplied by 2**exponent."""
    value, bound, sure = unscaled(result.value, result.bound, result.rounded, np.int32(exponent))
    return replace(result, value=value, bound=bound, rounded=sure)


def unscaled_words(
    words: Sequence[Array], error: Array, exponent: Array
) -> tuple[tuple[Array, ...], Array, Array | bool]:
    """Return words times 2**exponent, the error of their sum with what is lost, and where nothing is."""
    xp, exact = namespace(error), True
    if not anywhere(exponent):
        return tuple(words), error, True
    total = xp.ldexp(error, exponent)
    smaller = xp.ldexp(total, -exponent) < error
    total = xp.where(smaller, up(total), total) if anywhere(smaller) else total
    low = tuple(scaled(word, exponent) for word in words)
    for y, word in zip(low, words, strict=True):
        same = scaled(y, -exponent) == word
        if not everywhere(same):
            lost = xp.where(xp.isfinite(y), 2 * ETA, np.inf)
            total, exact = xp.where(same, total, up(total + lost)), same & exact
    return low, total, exact
