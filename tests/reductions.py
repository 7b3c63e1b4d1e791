"""The reductions of one array as the table of `ozaki` has them, and the exact reference of each.

A new reduction needs one entry in `REFERENCES`: tests that are about all of them ask the lists here.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

import ozaki  # noqa: F401  # which fills the table
from ozaki.public import PUBLIC
from ozaki.sums.table import REDUCTIONS
from tests.oracle import integers, parts, real_sum, rounded_ratio, rounded_root, value

ONE_ARRAY = tuple(n for n in REDUCTIONS if PUBLIC[n].arrays == ("x",) and "out" in PUBLIC[n].parameters)
"""The reductions of one array; not `average`, whose weights are another."""

REAL_RESULTS = tuple(name for name in ONE_ARRAY if REDUCTIONS[name].real)
WITH_WHERE = tuple(name for name in ONE_ARRAY if "where" in PUBLIC[name].parameters)

Format = tuple[int, int, int]
"""Precision, emin and emax."""


def _total(row: np.ndarray, fmt: Format, left_out: bool = False) -> list[float]:
    """The parts of Σ x; numbers that are left out count as +0, which turns −0 into +0."""
    row = np.append(row, np.zeros(1, row.dtype)) if left_out else row
    return [value(real_sum(part), fmt) for part in parts(row)]


def _mean(row: np.ndarray, fmt: Format, left_out: bool = False) -> list[float]:
    """The parts of Σ x/n; −0 stays what it is, NaN for nothing."""
    found = []
    for part in parts(row):
        n, e, special = real_sum(part) if len(row) else (0, 0, math.nan)
        found.append(rounded_ratio(n, len(row), e, fmt) if special is None else special)
    return found


def _root_of_squares(row: np.ndarray, fmt: Format, divisor: int = 1) -> list[float]:
    """√(Σ|x|²/divisor)."""
    flat = np.concatenate(parts(row))
    if flat.dtype.kind not in "iub" and not np.isfinite(flat).all():
        return [math.nan if np.isnan(flat).any() else math.inf]
    whole, e = integers(flat)
    return [rounded_root(sum(v * v for v in whole.tolist()), 2 * e, fmt, divisor)]


def variance(row: np.ndarray, ddof: float, skip: bool, root: bool, fmt: Format) -> float:
    """(n·Σ|x|² − |Σx|²)/(n·(n − ddof)), or its root, rounded once."""
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


def covariance(x: np.ndarray, y: np.ndarray, ddof: float, fmt: Format) -> float:
    """(n·Σxy − Σx·Σy)/(n·(n − ddof)) of real numbers, rounded once."""
    n, divisor = len(x), len(x) - Fraction(ddof)
    if n == 0 or not all(z.dtype.kind in "iub" or np.isfinite(z).all() for z in (x, y)):
        return math.nan
    (a, e), (b, f) = integers(x), integers(y)
    above = n * sum((a * b).tolist()) - sum(a.tolist()) * sum(b.tolist())
    if divisor <= 0:
        return math.copysign(math.inf, (above > 0) - (above < 0)) if above else math.nan
    return rounded_ratio(above * divisor.denominator, n * divisor.numerator, e + f, fmt)


def _spread(skip: bool, root: bool) -> Callable[..., list[float]]:
    return lambda row, fmt, left_out=False, ddof=0: [variance(row, ddof, skip, root, fmt)]


def _without_nan(reference: Callable[..., list[float]]) -> Callable[..., list[float]]:
    """The reference of what is not NaN."""

    def of_rest(row: np.ndarray, fmt: Format, left_out: bool = False, **options: float) -> list[float]:
        nan = np.isnan(row) if row.dtype.kind not in "iub" else np.zeros(len(row), bool)
        return reference(row[~nan], fmt, left_out or bool(nan.any()), **options)

    return of_rest


REFERENCES: dict[str, Callable[..., list[float]]] = {
    "sum": _total,
    "mean": _mean,
    "norm": lambda row, fmt, left_out=False: _root_of_squares(row, fmt),
    "rms": lambda row, fmt, left_out=False: _root_of_squares(row, fmt, len(row)) if len(row) else [math.nan],
    "var": _spread(skip=False, root=False),
    "std": _spread(skip=False, root=True),
    "nansum": _without_nan(_total),
    "nanmean": _without_nan(_mean),
    "nanvar": _without_nan(_spread(skip=True, root=False)),
    "nanstd": _without_nan(_spread(skip=True, root=True)),
}
"""What each returns for a vector of numbers, rounded once to a format: the real part, and the imaginary one
if there is one. `left_out` says whether numbers of the vector were left out, by `where` or for being NaN."""
