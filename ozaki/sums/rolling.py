"""Sums, means and variances of windows that move along an axis, each correctly rounded, in time of the axis.

Sums of integers take what enters a window and give back what leaves it: whatever has gone by leaves no
trace, as it does in differences of running sums. Numbers of similar sizes become two integers
(`exact/windows_enclosed_numba.py`), others digits (`exact/windows_numba.py`).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, on_device_of_arrays, on_host, to_float64
from multiword.runtime.compiled import cached_form, compiled
from multiword.runtime.options import exactly, integer
from multiword.runtime.parallel import over_rows
from multiword.runtime.readback import everywhere
from ozaki.public import public
from ozaki.rounding.conversion import narrow
from ozaki.sums.arguments import DType, axes_of, format_of, numbers, real_result_dtype
from ozaki.sums.exact import windows_cuda
from ozaki.sums.exact.extraction import LOOPS, contiguous
from ozaki.sums.exact.windows_cuda import COUNTS, Windows, digits_of
from ozaki.sums.table import REDUCTIONS
from ozaki.sums.variance import exact_ddof

_MOST = 1 << 30  # numbers of a window, of which digits are 64 bits
_ENCLOSED = "ozaki.sums.exact.windows_enclosed_numba"
_GATHERED = 1 << 22  # numbers of windows that are copied at a time
_FLOAT64 = np.dtype(np.float64)
_INFINITE = 2047  # the exponent field of Inf and NaN


@public("Moving windows", dask=True)
@on_device_of_arrays
def rolling_sum(
    x: Array,
    window: int,
    axis: int = -1,
    min_count: int | None = None,
    center: bool = False,
    dtype: DType = None,
) -> Array:
    """Return the sums of windows along an axis, each correctly rounded: pandas' `rolling(window).sum()`.

    Element i is the sum of the `window` numbers up to it, NaN left out. It depends on these alone, where a
    difference of running sums has the rounding errors of all before. The time does not depend on the window.

    Parameters
    ----------
    x : real array, NumPy or CuPy; integers that float64 holds.
    window : how many numbers a window has, at least 1; at the ends it has fewer.
    axis : along which windows move.
    min_count : the fewest numbers, NaN left out, that have a result, others having NaN; by default `window`.
    center : whether window i is centred at i: it ends (window − 1)//2 numbers later.
    dtype : of the results, by default that of x, and float64 for integers and booleans.

    Returns
    -------
    Array of the shape of x, of the exact values rounded to nearest, ties to even; Inf and NaN as IEEE 754
    adds. pandas takes Inf for NaN.

    Raises
    ------
    TypeError : x is not real, or has integers that float64 does not hold; window, axis or min_count is no
        integer. ValueError : window < 1; min_count negative, or larger than window; an axis that x does not
        have.

    References
    ----------
    Kulisch, Computer Arithmetic and Validity, chapter 8 (sums in fixed point, each rounded once).

    >>> rolling_sum(np.array([1e100, 1.0, 2.0, np.nan, 4.0]), 2, min_count=1)
    array([1.e+100, 1.e+100, 3.e+000, 2.e+000, 4.e+000])
    """
    return _rolling("nansum", "a sum", x, window, axis, min_count, center, dtype)


@public("Moving windows", dask=True)
@on_device_of_arrays
def rolling_mean(
    x: Array,
    window: int,
    axis: int = -1,
    min_count: int | None = None,
    center: bool = False,
    dtype: DType = None,
) -> Array:
    """Return the means of windows along an axis, each correctly rounded: pandas' `rolling(window).mean()`.

    As `ozaki.rolling_sum`; differs in dividing by how many numbers of a window are not NaN.

    >>> rolling_mean(np.array([1e100, 1.0, 2.0, 6.0]), 2, center=True)
    array([      nan, 5.0e+99, 1.5e+00, 4.0e+00])
    """
    return _rolling("nanmean", "a mean", x, window, axis, min_count, center, dtype)


@public("Moving windows", dask=True)
@on_device_of_arrays
def rolling_var(
    x: Array,
    window: int,
    axis: int = -1,
    min_count: int | None = None,
    center: bool = False,
    dtype: DType = None,
    ddof: float = 0,
) -> Array:
    """Return the variances of windows, each correctly rounded: pandas' `rolling(window).var(ddof=0)`.

    As `ozaki.rolling_sum`; differs as `nanvar` does from `nansum`: about the exact mean of the window, NaN
    where it has no more than ddof numbers.

    Parameters
    ----------
    x, window, axis, min_count, center, dtype : as in `rolling_sum`.
    ddof : as in `var`; pandas has 1.

    >>> rolling_var(np.array([1e16, 1e16 + 2, 1e16 + 4, 0.0]), 3, ddof=1)[:3]
    array([nan, nan,  4.])
    """
    return _rolling("nanvar", "a variance", x, window, axis, min_count, center, dtype, ddof)


@public("Moving windows", dask=True)
@on_device_of_arrays
def rolling_std(
    x: Array,
    window: int,
    axis: int = -1,
    min_count: int | None = None,
    center: bool = False,
    dtype: DType = None,
    ddof: float = 0,
) -> Array:
    """Return the standard deviations of windows along an axis, each correctly rounded.

    As `ozaki.rolling_var`; differs in the root, which is rounded once.

    >>> rolling_std(np.array([-3e200, 3e200, 3e200]), 2)
    array([   nan, 3.e+200, 0.e+000])
    """
    return _rolling("nanstd", "a standard deviation", x, window, axis, min_count, center, dtype, ddof)


def window_of(window: Any, min_count: Any, center: bool) -> tuple[int, int, int]:
    """Return a window's length, how far it reaches ahead, and of how many numbers there is a result."""
    length = integer("window", window)
    least = length if min_count is None else integer("min_count", min_count)
    if length < 1:
        raise ValueError(f"window must be at least 1, got {length}")
    if not 0 <= least <= length:
        raise ValueError(f"min_count must be from 0 to window, which is {length}, got {least}")
    return length, (length - 1) // 2 if center else 0, least


def _rolling(
    name: str,
    what: str,
    x: Any,
    window: Any,
    axis: Any,
    min_count: Any,
    center: bool,
    dtype: DType,
    ddof: Any = 0,
) -> Array:
    """Return the results of windows, of the reduction that leaves out NaN."""
    x, (length, ahead, least) = numbers(x, "x"), window_of(window, min_count, center)
    if x.dtype.kind == "c":
        raise TypeError(f"x must be real, got {x.dtype}; take the real and the imaginary part")
    if not x.ndim:
        raise ValueError("x must have an axis along which windows move, got a number")
    (along,) = axes_of(integer("axis", axis), x.ndim)
    target, options = real_result_dtype(x, dtype, None, x.shape, what), {}
    if name in ("nanvar", "nanstd"):
        options["ddof"] = exact_ddof(ddof)
    moved, xp, last = exactly("x", x, np.float64), namespace(x), along == x.ndim - 1
    moved = moved if last else xp.moveaxis(moved, along, -1)
    rows = contiguous(moved).reshape(prod(moved.shape[:-1]), x.shape[along])
    result, certain = _quickly(rows, length, ahead, least, name, target, options)
    if certain is not None and not certain.all():
        _complete(rows, length, ahead, least, name, target, options, result, certain)
    result = narrow(result, target).reshape(moved.shape)
    return result if last else xp.moveaxis(result, -1, along)


def _quickly(
    x: Array, length: int, ahead: int, least: int, name: str, target: np.dtype, options: dict[str, Any]
) -> tuple[Array, Array | None]:
    """The results that compiled loops are certain of, as float64, and which these are; None if all are."""
    precision, ddof = format_of(target).precision, options.get("ddof", 0)
    simple = precision in (24, 53) and ddof == int(ddof) and abs(ddof) < _MOST > x.shape[1]
    if simple and x.size:
        length, ahead = min(length, 2 * x.shape[1] + 1), min(ahead, x.shape[1])  # which are as long
        kinds = name != "nansum", name in ("nanvar", "nanstd"), name == "nanstd"
        asked = Windows(length, ahead, least, *kinds, int(ddof), precision == 24)
        found = (windows_cuda.rolled if is_cupy(x) else _rolled)(x, asked)
        if found is not None:
            return found
    return namespace(x).empty(x.shape), namespace(x).zeros(x.shape, bool)


def _rolled(x: np.ndarray, asked: Windows) -> tuple[np.ndarray, np.ndarray | None] | None:
    """The same on the host: as enclosures, and in digits what these leave. None where nothing is compiled."""
    if (loops := compiled(LOOPS)) is None:
        return None
    result, certain = np.empty(x.shape), np.empty(x.shape, bool)
    _enclosed(x, asked, result, certain)
    if everywhere(certain):
        return result, None
    _in_digits(loops, x, asked, result, certain)
    return result, certain


def _enclosed(x: np.ndarray, asked: Windows, result: np.ndarray, certain: np.ndarray) -> None:
    """Write results of windows, and which of them are certain, part by part."""
    n, roll, form = x.shape[1], _windows_enclosed(), compiled(_ENCLOSED)
    length = min(n, max(form.PART, 8 * asked.window))

    def work(parts: slice) -> None:
        sums, before = np.empty((form.SUMS, form.BLOCK), np.int64), np.empty(form.SUMS, np.int64)
        floats = np.empty((form.COLUMNS, form.BLOCK))
        roll(x, parts.start, parts.stop, length, asked, sums, before, floats, result, certain)

    over_rows(work, len(x) * -(-n // length), length)


@cached_form
def _windows_enclosed() -> Any:
    """Return the loop over windows, for rows that are contiguous and aligned, unchecked."""
    loops = compiled(LOOPS)
    return loops.loop(loops.windows_enclosed, _FLOAT64).unchecked()


def _in_digits(loops: Any, x: np.ndarray, asked: Windows, result: np.ndarray, certain: np.ndarray) -> None:
    """The same of windows that are not certain, whatever their numbers are."""
    exponents = (x.view(np.int64) >> 52) & _INFINITE
    counts = (x != 0) & (exponents < _INFINITE)
    unit = max(1, int(exponents.min(where=counts, initial=_INFINITE)))
    highest = max(unit, int(exponents.max(where=counts, initial=0)))
    digits, squares = digits_of(highest - unit, asked.spread)
    scratch = (np.zeros(n, np.int64) for n in (COUNTS, digits, squares, digits + squares + 2))
    *window, divided, spread, root, ddof, single = asked
    roll = loops.loop(loops.rolled, x.dtype)
    roll(x, *window, unit, divided, spread, root, ddof, single, *scratch, result, certain)


def _complete(
    x: Array,
    length: int,
    ahead: int,
    least: int,
    name: str,
    target: np.dtype,
    options: dict[str, Any],
    result: Array,
    certain: Array,
) -> None:
    """Compute what is not certain by the reduction itself, of windows of one length at once, where x lies."""
    xp, n, values = namespace(x), x.shape[1], result.reshape(-1)
    undecided = xp.flatnonzero(~certain)
    place = undecided % n
    first = xp.maximum(place + (ahead + 1 - length), 0)
    sizes, first = xp.minimum(place + (ahead + 1), n) - first, first + (undecided - place)
    for size in np.unique(on_host(sizes)).tolist():
        alike, at_once = xp.flatnonzero(sizes == size), max(1, _GATHERED // size)
        for start in range(0, len(alike), at_once):
            some = alike[start : start + at_once]
            windows = x.reshape(-1)[first[some] + xp.arange(size)[:, None]]
            found = to_float64(REDUCTIONS[name].of((windows,), (0,), target, **options))
            few = (windows == windows).sum(axis=0) < least
            values[undecided[some]] = xp.where(few, np.nan, found)
