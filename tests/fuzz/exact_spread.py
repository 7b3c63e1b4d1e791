"""Variances, standard deviations, and sums and means without NaN, of `ozaki` against Python's integers."""

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np

import ozaki
from tests.fuzz.arrays import INTEGERS, REAL
from tests.fuzz.draw import Draw, check, plain
from tests.fuzz.exact_sums import (
    FLOAT64,
    FLOATS,
    array_of,
    check_reduction,
    chosen_axis,
    columns,
    common_dtype,
    complete,
    form,
    out_for,
    targets,
    value,
)
from tests.fuzz.rational import (
    FORMATS,
    integers,
    part_dtype,
    parts,
    real_dot,
    real_sum,
    rounded_ratio,
    rounded_root,
)


def _missing(row: np.ndarray) -> np.ndarray:
    return np.isnan(row) if row.dtype.kind not in "iub" else np.zeros(len(row), bool)


def _sums(row: np.ndarray, fmt) -> list[float]:
    """The parts of the sum, NaN counting as 0."""
    return [value(real_sum(np.where(_missing(row), np.zeros(1, p.dtype), p)), fmt) for p in parts(row)]


def _means(row: np.ndarray, fmt) -> list[float]:
    """The parts of the mean of what is not NaN."""
    found, row = [], row[~_missing(row)]
    for part in parts(row):
        n, e, special = real_sum(part) if len(row) else (0, 0, math.nan)
        found.append(rounded_ratio(n, len(row), e, fmt) if special is None else special)
    return found


def variance(row: np.ndarray, ddof: float, skip: bool, root: bool, fmt) -> float:
    """(n·Σ|x|² − |Σx|²)/(n·(n − ddof)), or its root, rounded once."""
    row = row[~_missing(row)] if skip else row
    n, divisor = len(row), len(row) - Fraction(ddof)
    if n == 0 or not all(p.dtype.kind in "iub" or np.isfinite(p).all() for p in parts(row)):
        return math.nan
    found = [integers(part) for part in parts(row)]
    unit = min(e for _, e in found)
    exact = [[v << (e - unit) for v in whole.tolist()] for whole, e in found]
    square = sum(n * sum(v * v for v in part) - sum(part) ** 2 for part in exact)
    if divisor <= 0:
        return math.inf if square and not skip else math.nan
    above, below = square * divisor.denominator, n * divisor.numerator
    form = rounded_root if root else rounded_ratio
    return form(n=above, d=below, e=2 * unit, fmt=fmt)


def spread(name: str):
    """The check of one of these functions."""
    real, skip = name[-3:] in ("var", "std"), name.startswith("nan")

    def body(draw: Draw) -> None:
        x = array_of(draw, "x", (*FLOATS, *FLOATS, *INTEGERS))
        if skip and x.dtype.kind not in "iub" and x.flags.writeable and draw.chance(0.6):
            x[draw.rng.random(x.shape) < draw.pick("missing", 0.05, 0.5, 0.9)] = np.nan
        source, options = x.dtype.newbyteorder("="), {"keepdims": draw.pick("keepdims", False, True)}
        options["axis"], axes = chosen_axis(draw, x.ndim)
        dtype = targets(draw, source)
        if name == "nansum" and source.kind in "iub" and dtype is None:
            dtype = FLOAT64
        dtype = part_dtype(dtype) if real and dtype is not None else dtype
        target = dtype or (FLOAT64 if source.kind in "iub" else part_dtype(source) if real else source)
        shape = form(x.shape, axes, options["keepdims"])
        out = out_for(draw, shape, np.dtype(target))
        result = np.dtype(target if out is None else out.dtype)
        fmt, rows = FORMATS[part_dtype(result)], columns(plain(x), axes)
        if real:
            options["ddof"] = ddof = draw.pick("ddof", 0, 0, 1, 2, 0.5, -1.25, Fraction(7, 3), 10**400)
            found = [np.array([variance(row, ddof, skip, name.endswith("std"), fmt) for row in rows])]
        else:
            of = _means if name == "nanmean" else _sums
            count = 1 + (source.kind == "c")
            found = list(np.array([of(row, fmt) for row in rows], np.float64).reshape(-1, count).T)
        got = getattr(ozaki, name)(x, dtype=dtype, out=out, **options)
        check_reduction(draw, name, got, complete(found, shape, result), out)

    body.__doc__ = f"`ozaki.{name}` over any axes, into any dtype."
    return body


def average(draw: Draw) -> None:
    """`ozaki.average` with weights of any sign, of the array's shape or along one axis."""
    x = array_of(draw, "x", (*FLOATS, *INTEGERS))
    axis, axes = chosen_axis(draw, x.ndim)
    shape = (x.shape[axes[0]],) if len(axes) == 1 and draw.chance(0.4) else x.shape
    w = draw.array("weights", shape, (*REAL, *INTEGERS), draw.kind())
    if (both := common_dtype(x, w)) is None:
        return
    target = FLOAT64 if both.kind in "iub" else both
    every = plain(w)
    if shape != x.shape:
        every = np.broadcast_to(
            every.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)]), x.shape
        )
    values, rows = parts(plain(x)), columns(every, axes)
    if any(special == 0 or (special is None and d == 0) for d, _, special in map(real_sum, rows)):
        with suppress(ZeroDivisionError):
            check("average: no error", False, repr(ozaki.average(x, axis, w)))
        return
    fmt = FORMATS[part_dtype(target)]
    found = [
        [_weighted(*pair, fmt) for pair in zip(columns(part, axes), rows, strict=True)] for part in values
    ]
    keepdims = draw.pick("keepdims", False, True)
    got = ozaki.average(x, axis, w, keepdims)
    check_reduction(draw, "average", got, complete(found, form(x.shape, axes, keepdims), target), None)


def _weighted(row: np.ndarray, weights: np.ndarray, fmt) -> float:
    (n, e, above), (d, f, below) = real_dot([(1, row, weights)]), real_sum(weights)
    if n and above is below is None:
        return rounded_ratio(n if d > 0 else -n, abs(d), e - f, fmt)
    with np.errstate(all="ignore"):
        above = np.float64((n > 0) - (n < 0) if above is None else above)
        return float(above / np.float64((1 if d > 0 else -1) if below is None else below))


CHECKS = {name: spread(name) for name in ("var", "std", "nansum", "nanmean", "nanvar", "nanstd")}
CHECKS["average"] = average
