"""A product of matrices, step by step: scales, integers, their product, one rounding.

    A'_ih = RN(a_ih·2**s_i),   B'_hj = RN(b_hj·2**t_j),   C_ij = RN((A'B')_ij·2**(−s_i − t_j))

with A'B' exact in the integers. C depends on A, B and the accuracy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite

import numpy as np

from multiword.formats import FORMATS
from ozaki.definition.decision import WIDENED_IN_ALL, Rows, Side, widening
from ozaki.definition.rounding import nearest
from ozaki.definition.scales import exact_scale, limit_of, width_scale
from ozaki.definition.statistics import statistics_of
from ozaki.definition.sums import special


def product(
    a: np.ndarray, b: np.ndarray, accuracy: str | int = "fp64", target: str | None = None
) -> np.ndarray:
    """Return the product of an (m, k) and a (k, n) matrix, float32, float64, complex64 or complex128.

    accuracy : "fp64" or "fp32", certified; "normwise"; "exact", correctly rounded; or bits of integers, as of
    `ozaki.matmul`.
    target : the format that results are rounded to; None for that of the dtype.

    >>> product(np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1)), "exact")
    array([[1.]])
    """
    parts, target = 1 + (a.dtype.kind == "c"), target or ("fp64" if a.dtype.char in "dD" else "fp32")
    result = np.zeros((len(a), b.shape[1]), a.dtype)
    if a.shape[1] == 0 or result.size == 0:
        return result
    rows, columns = (_real_rows(a), _real_rows(b.T))
    left, right, s, t = scaled(rows, columns, parts, accuracy, target)
    for (i, j), _ in np.ndenumerate(result):
        if all(map(isfinite, rows[i])) and all(map(isfinite, columns[j])):
            x, y = _integers(left[i], s[i]), _integers(right[j], t[j])
            unit = Fraction(2) ** -(s[i] + t[j])
            values = [nearest(c * unit, FORMATS[target]) for c in _parts_of_dot(x, y, parts)]
        else:
            values = _parts_of_special_dot(rows[i], columns[j], parts)
        result[i, j] = complex(*values) if parts == 2 else values[0]
    return result


def scaled(
    rows: Rows, columns: Rows, parts: int, accuracy: str | int, target: str
) -> tuple[Rows, Rows, list[int], list[int]]:
    """Return the rows of A and the columns of B, equilibrated perhaps, and the scales of both."""
    if accuracy == "exact" or not isinstance(accuracy, str):
        return rows, columns, _given_scales(rows, accuracy), _given_scales(columns, accuracy)
    limit = limit_of(target if accuracy == "normwise" else accuracy, len(rows[0]))
    sides = Side.of(rows, limit), Side.of(columns, limit)
    bits = 0
    if accuracy != "normwise":
        bits, sides = widening(sides, parts, accuracy)
    s, t = (_widened(side, bits) for side in sides)
    return sides[0].rows, sides[1].rows, s, t


def _widened(side: Side, bits: int) -> list[int]:
    """Return norm scales widened by some bits; by very many, only until nothing is lost."""
    wide = [scale + bits for scale in side.scales]
    if bits <= WIDENED_IN_ALL:
        return wide
    exact = [
        exact_scale(row) if s is not None else 0 for row, s in zip(side.rows, side.statistics, strict=True)
    ]
    return list(map(min, zip(wide, exact, strict=True)))


def _given_scales(rows: Rows, accuracy: str | int) -> list[int]:
    """Return the scales of an accuracy that fixes the integers: "exact", or a number of bits."""
    scales = []
    for row in rows:
        statistics = statistics_of(row)
        exact = exact_scale(row) if statistics is not None else 0
        scales.append(exact if accuracy == "exact" else width_scale(statistics, int(accuracy)))
    return scales


def _real_rows(x: np.ndarray) -> list[list[float]]:
    """Return the rows as Python's floats, the real parts of a complex one, then its imaginary parts."""
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    return np.concatenate(parts, axis=1).astype(np.float64).tolist()


def _integers(row: Sequence[float], scale: int) -> list[int]:
    """Return RN(x·2**scale), ties to even as Python rounds fractions."""
    unit = Fraction(2) ** scale
    return [round(Fraction(x) * unit) for x in row]


def _parts_of_dot(x: list[int], y: list[int], parts: int) -> list[int]:
    """Return the exact dot product, or its real and its imaginary part."""
    if parts == 1:
        return [_dot(x, y)]
    half = len(x) // 2
    (re, im), (u, v) = ((z[:half], z[half:]) for z in (x, y))
    return [_dot(re, u) - _dot(im, v), _dot(re, v) + _dot(im, u)]


def _dot(x: list[int], y: list[int]) -> int:
    return sum(a * b for a, b in zip(x, y, strict=True))


def _parts_of_special_dot(x: Sequence[float], y: Sequence[float], parts: int) -> list[float]:
    """Return what IEEE arithmetic gives where an Inf or NaN takes part: which, depends on signs alone."""
    x, y = ([float(np.sign(v)) if isfinite(v) else v for v in row] for row in (x, y))
    if parts == 1:
        terms = [[a * b for a, b in zip(x, y, strict=True)]]
    else:
        half = len(x) // 2
        (re, im), (u, v) = ((z[:half], z[half:]) for z in (x, y))
        terms = [
            [a * b for a, b in zip(re, u, strict=True)] + [-a * b for a, b in zip(im, v, strict=True)],
            [a * b for a, b in zip(re, v, strict=True)] + [a * b for a, b in zip(im, u, strict=True)],
        ]
    values = [special(of_part) for of_part in terms]
    return [sum(t) if value is None else value for value, t in zip(values, terms, strict=True)]
