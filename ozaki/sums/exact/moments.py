"""Moments of rows on a GPU, and means and variances of groups: exact sums of numbers and of their powers.

They are integers relative to the smallest number of a row, which takes numbers at most 48 octaves apart:
ordinary data. Others have their exact sums in digits, as on a CPU (`ozaki.sums.table`).
"""

from __future__ import annotations

from ctypes import c_int, c_longlong, c_void_p
from fractions import Fraction
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import capturing
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.readback import Readback
from ozaki.rounding.digits import last_place
from ozaki.sums.arguments import format_of
from ozaki.sums.exact.extraction import SOURCES, constants
from ozaki.sums.exact.fixed_point import DigitRange, Rounding
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.summands_cuda import Rows, in_place

MOST = 1 << 26
"""Numbers of an output, and of ddof, are fewer: see moments.cuh."""

_THREADS = 256
_FORM = {"ALIKE": 0, "HEADROOM": 0, "THREADS": _THREADS}
_PART = 1 << 13  # numbers that a block takes where several share an output, at least
_WAVES = 4  # blocks to a multiprocessor, then
_NO_OPTIONS = dict.fromkeys(("ddof", "scale", "less", "over"), 0)
_LONGEST_GROUP = 1 << 18  # numbers of a group that a block takes in less time than a window's sums


class Variances(Struct):
    """The kernel's parameters; see the comment above the C struct."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "index", "starts")),
        *((name, c_longlong) for name in ("x_outer", "x_inner", "x_step", "n", "outputs", "ddof")),
        *((name, c_longlong) for name in ("scale", "less", "over")),
        *((name, c_void_p) for name in ("known", "partial", "tickets", "undecided", "open", "result")),
        *((name, c_int) for name in ("pair", "parts", "measure", "root", "precision", "smallest")),
    )


def _constants(
    dtype: str,
    parts: int,
    lanes: int,
    along: bool,
    skip_nan: bool = False,
    order: int = 2,
    **of_groups: bool,
) -> dict[str, Any]:
    form = {"PARTS": parts, "SKIP_NAN": int(skip_nan), "LANES": lanes, "ALONG": int(along), "ORDER": order}
    form |= {"GROUPED": 0, "MEAN": 0} | {name: int(value) for name, value in of_groups.items()}
    return constants(dtype, DigitRange.of(format_of(dtype)), **_FORM, **form)


_KERNEL = Kernel(
    "variances",
    Path(__file__).with_suffix(".cu"),
    (
        _constants("float64", 1, 256, True),
        _constants("float64", 2, 1, True, skip_nan=True),
        _constants("float32", 1, 32, True),
        _constants("float32", 2, 8, False),
        _constants("float16", 1, 8, True, skip_nan=True),
        _constants("bfloat16", 1, 1, False),
        _constants("float64", 1, 32, True, GROUPED=True, MEAN=True),
        _constants("float32", 2, 8, True, GROUPED=True),
        _constants("float32", 1, 8, False, order=3),
        _constants("float64", 1, 256, True, order=4),
    ),
    (Variances,),
    equals="ozaki.definition.sums.rounded_variance",
)


def variances(
    x: Array, reduced: int, rounding: Rounding, ddof: Fraction, skip_nan: bool = False
) -> Array | None:
    """Return the variances of a CuPy array over its first `reduced` axes, or their roots, in C order.

    None for numbers that are no floating-point ones, do not lie evenly in memory, are too many, or too far
    apart, which is waited for; None in a caller's CUDA graph, too, where nothing can be.
    """
    if ddof.denominator > 1 or abs(ddof) >= MOST:
        return None
    found = _of_rows(x, reduced, rounding, 2, skip_nan, ddof=int(ddof))
    return None if found is None or found.undecided else found.result


def standardized(
    x: Array, order: int, ratio: tuple[int, int, int], rounding: Rounding
) -> tuple[Array, Array] | None:
    """Return what `central` in central.cuh makes of columns, and the indices of those that are undecided.

    Parameters
    ----------
    x : (n, m) real array; None is returned where `variances` does, but for numbers too far apart.
    order : 3 or 4.
    ratio : scale, less and over.
    """
    names = ("scale", "less", "over")
    found = _of_rows(x, 1, rounding, order, False, **dict(zip(names, ratio, strict=True)))
    if found is None:
        return None
    opened = import_cupy().flatnonzero(found.open) if found.undecided else np.zeros(0, np.int64)
    return found.result, opened


class _Found(NamedTuple):
    """Results, whether any is undecided, and, of orders beyond 2, which are."""

    result: Array
    undecided: bool
    open: Array | None


def _of_rows(
    x: Array, reduced: int, rounding: Rounding, order: int, skip_nan: bool, **options: int
) -> _Found | None:
    real = x.real if x.dtype.kind == "c" else x
    if real.dtype.name not in SOURCES or capturing():
        return None
    terms = in_place(Summands((real,)), reduced)
    if terms is None or not 0 < terms.n < MOST:
        return None
    (rows,), outputs, parts = terms.rows, prod(x.shape[reduced:]), 1 + (x.dtype.kind == "c")
    cupy, undecided = import_cupy(), Readback(1, np.int32)
    result = cupy.empty(outputs, rounding.target.dtype)
    if not outputs:
        return _Found(result, False, None)
    lanes, along, shares = _shape(rows, terms.n, outputs, multiprocessors())
    zeros = cupy.zeros((5, outputs), np.int32)
    opened = cupy.zeros(outputs, np.uint8) if order > 2 else None
    words = 4 + 2 * parts + {2: 0, 3: 6, 4: 13}[order]
    arguments: dict[str, Any] = dict(
        x=real,
        index=None,
        starts=None,
        **rows.parameters("x"),
        n=terms.n,
        outputs=outputs,
        **_NO_OPTIONS | options,
        known=zeros,
        partial=cupy.empty((outputs * shares, words), np.uint64) if shares > 1 else None,
        tickets=zeros[4],
        undecided=int(undecided.address),
        open=opened,
        result=result,
        pair=int(rows.pair),
        parts=shares,
        root=int(rounding.root),
        precision=rounding.target.precision,
        smallest=last_place(rounding.target),
    )
    chosen = _constants(terms.dtype, parts, lanes, along, skip_nan, order)
    grid = (-(-outputs // (_THREADS // lanes)) * shares,)
    for measure in (1, 0) if shares > 1 else (0,):
        _KERNEL(grid, (_THREADS,), (Variances(measure=measure, **arguments),), **chosen)
    undecided.send()
    return _Found(result, bool(undecided.look()[0]), opened)


def group_variances(x: Array, labels: Array, groups: int, rounding: Rounding, ddof: Fraction) -> Array | None:
    """Return the variances of a CuPy vector's groups, or their roots; None as `variances`."""
    return _by_group(x, labels, groups, rounding, ddof, False)


def group_means(x: Array, labels: Array, groups: int, rounding: Rounding) -> Array | None:
    """Return the means of the groups of real numbers; None as `variances`, and for Inf and NaN."""
    return _by_group(x, labels, groups, rounding, Fraction(0), True)


def _by_group(
    x: Array, labels: Array, groups: int, rounding: Rounding, ddof: Fraction, mean: bool
) -> Array | None:
    """Sort the labels, so that groups are rows of which the numbers lie anywhere."""
    real = x.real if x.dtype.kind == "c" else x
    if real.dtype.name not in SOURCES or ddof.denominator > 1 or abs(ddof) >= MOST or capturing():
        return None
    if not x.size or not 0 < groups < 1 << 31 or real.strides[0] < 0:
        return None
    cupy, undecided = import_cupy(), Readback(1, np.int32)
    narrow = cupy.clip(labels, -1, groups).astype(np.int32)  # labels of no group stay so
    index = narrow.argsort()
    starts = cupy.searchsorted(narrow[index], cupy.arange(groups + 1, dtype=np.int32)).astype(np.int64)
    first, last, longest = cupy.stack([starts[0], starts[-1], cupy.diff(starts).max()]).tolist()
    if first or last != x.size or longest > _LONGEST_GROUP:
        return None
    lanes = next(lanes for lanes in (1, 8, 32, 256) if lanes == 256 or longest <= 64 * lanes)
    result = cupy.empty(groups, rounding.target.dtype)
    parameters = Variances(
        x=real,
        index=index,
        starts=starts,
        **dict.fromkeys(("x_outer", "x_inner", "n", "pair", "measure"), 0),
        x_step=real.strides[0] // real.dtype.itemsize,
        outputs=groups,
        **_NO_OPTIONS | {"ddof": int(ddof)},
        **dict.fromkeys(("known", "partial", "tickets", "open")),
        undecided=int(undecided.address),
        result=result,
        parts=1,
        root=int(rounding.root),
        precision=rounding.target.precision,
        smallest=last_place(rounding.target),
    )
    parts = 1 + (x.dtype.kind == "c")
    chosen = _constants(real.dtype.name, parts, lanes, True, GROUPED=True, MEAN=mean)
    _KERNEL((-(-groups // (_THREADS // lanes)),), (_THREADS,), (parameters,), **chosen)
    undecided.send()
    return None if undecided.look()[0] else result


@lru_cache(1 << 10)
def _shape(rows: Rows, n: int, outputs: int, processors: int) -> tuple[int, bool, int]:
    """Return the threads of an output, whether neighbours go along it, and the blocks that share it."""
    along = abs(rows.step) <= abs(rows.outer) or outputs == 1
    most = 256 if along else 8
    lanes = next(lanes for lanes in (1, 8, 32, 256) if lanes >= most or n <= 8 * lanes)
    blocks = -(-outputs // (_THREADS // lanes))
    shares = min(-(-n // _PART), max(1, _WAVES * processors // blocks))
    return lanes, along, shares
