"""Moments of rows on a GPU, weighted ones, and those of groups: exact sums of numbers and of their powers.

They are integers relative to the smallest number of a row, which takes numbers at most 48 octaves apart:
ordinary data. Others have their exact sums in digits, as on a CPU (`ozaki.sums.table`).
"""

from __future__ import annotations

from ctypes import c_int, c_longlong, c_void_p
from fractions import Fraction
from functools import lru_cache, partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, import_cupy, real_parts
from multiword.runtime.graphs import capturing
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.options import exactly
from multiword.runtime.readback import Readback
from ozaki.rounding.conversion import joined
from ozaki.sums.arguments import format_of
from ozaki.sums.exact.extraction import SOURCES, constants
from ozaki.sums.exact.fixed_point import ORDINARY, DigitRange, Rounding
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exact.summands_cuda import Rows, in_place, packed

MOST = 1 << 26
"""Numbers of an output, and of ddof, are fewer: see moments.cuh."""

_THREADS = 256
_FORM = {"ALIKE": 0, "HEADROOM": 0, "THREADS": _THREADS}
_PART = 1 << 13  # numbers that a block takes where several share an output, at least
_WAVES = 4  # blocks to a multiprocessor, then
_NONE: np.ndarray = np.zeros(0, np.int64)
_LONGEST_GROUP = 1 << 18  # numbers of a group that a block takes in less time than a window's sums


class Variances(Struct):
    """The kernel's parameters; see the comment above the C struct."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "w", "index", "starts")),
        *((f"{array}_{step}", c_longlong) for array in "xw" for step in ("outer", "inner", "step")),
        *((name, c_longlong) for name in ("n", "outputs", "ddof", "scale", "less", "over")),
        *((name, c_void_p) for name in ("known", "partial", "tickets", "undecided", "open", "result")),
        *((name, c_int) for name in ("pair", "parts", "measure", "reliable", "seen")),
        *((name, c_int) for name in ("root", "precision", "smallest")),
    )


class _Quantity(NamedTuple):
    """What a kernel makes of an output's sums: a variance if nothing else is said."""

    order: int = 2
    skip_nan: bool = False
    mean: bool = False
    total: bool = False
    weighted: bool = False
    covariance: bool = False

    def words(self, parts: int) -> int:
        """Return the words of an output's sums: the size of the struct `Sums`."""
        if self.weighted:
            return 2 + 4 * parts + (2 if self.covariance else 0 if self.mean or self.total else 10)
        return 4 + 2 * parts + {2: 0, 3: 6, 4: 13}[self.order]


_KNOWN = 6  # members of the struct `Known`, at most
_VARIANCE, _MEAN, _WEIGHTED = _Quantity(), _Quantity(mean=True), _Quantity(weighted=True)
_WEIGHTED_MEAN, _WEIGHTED_TOTAL = _WEIGHTED._replace(mean=True), _WEIGHTED._replace(total=True)
_COVARIANCE = _WEIGHTED._replace(covariance=True)


def _constants(
    dtype: str, parts: int, lanes: int, along: bool, of: _Quantity = _VARIANCE, grouped: bool = False
) -> dict[str, Any]:
    form = {"PARTS": parts, "SKIP_NAN": of.skip_nan, "LANES": lanes, "ALONG": along, "ORDER": of.order}
    form |= {"GROUPED": grouped, "MEAN": of.mean, "TOTAL": of.total, "WEIGHTED": of.weighted}
    form |= {"COVARIANCE": of.covariance}
    whole = {name: int(value) for name, value in form.items()}
    return constants(dtype, DigitRange.of(format_of(dtype)), **_FORM, **whole)


_KERNEL = Kernel(
    "variances",
    Path(__file__).with_suffix(".cu"),
    (
        _constants("float64", 1, 256, True),
        _constants("float64", 2, 1, True, _Quantity(skip_nan=True)),
        _constants("float32", 1, 32, True),
        _constants("float32", 2, 8, False),
        _constants("float16", 1, 8, True, _Quantity(skip_nan=True)),
        _constants("bfloat16", 1, 1, False),
        _constants("float64", 1, 32, True, _MEAN, grouped=True),
        _constants("float32", 2, 8, True, grouped=True),
        _constants("float64", 1, 8, True, _Quantity(skip_nan=True, mean=True), grouped=True),
        _constants("float32", 1, 8, False, _Quantity(3)),
        _constants("float64", 1, 256, True, _Quantity(4)),
        _constants("float64", 1, 256, True, _WEIGHTED_MEAN),
        _constants("float64", 1, 32, True, _WEIGHTED_TOTAL, grouped=True),
        _constants("float64", 2, 8, False, _WEIGHTED),
        _constants("float32", 1, 8, True, _COVARIANCE, grouped=True),
    ),
    (Variances,),
    equals="ozaki.definition.sums.rounded_variance",
)


_STARTS = Kernel(
    "starts_of_groups", Path(__file__).with_name("starts.cu"), equals="ozaki.definition.sums.rounded_variance"
)

Found = tuple[Array, Array]
"""Results in C order, and the indices of those that are undecided."""


def variances(
    x: Array, reduced: int, rounding: Rounding, ddof: Fraction, skip_nan: bool = False
) -> Found | None:
    """Return the variances of a CuPy array over its first `reduced` axes, or their roots.

    Undecided are those of numbers too far apart. None for numbers that are no floating-point ones, or are too
    many; None in a caller's CUDA graph, too, where nothing can be waited for. Those that do not lie evenly in
    memory are copied.
    """
    if not _is_count(ddof):
        return None
    return _of_rows(x, None, reduced, rounding, _Quantity(skip_nan=skip_nan), ddof=int(ddof))


def standardized(x: Array, order: int, ratio: tuple[int, int, int], rounding: Rounding) -> Found | None:
    """Return what `central` in central.cuh makes of columns, (n, m) numbers; None as `variances`.

    Parameters
    ----------
    order : 3 or 4.
    ratio : scale, less and over.
    """
    names = ("scale", "less", "over")
    return _of_rows(x, None, 1, rounding, _Quantity(order), **dict(zip(names, ratio, strict=True)))


def averages(x: Array, w: Array, reduced: int, rounding: Rounding) -> Found | None:
    """Return the means of numbers with weights, in the shape of x, over its first `reduced` axes.

    Undecided are also those of which the weights sum to zero. None as `variances`, and for integers that
    float64 does not hold.
    """
    found = [_of_rows(part, w, reduced, rounding, _WEIGHTED_MEAN) for part in real_parts(x)]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    dtype = np.result_type(rounding.target.dtype, np.complex64) if len(parts) > 1 else rounding.target.dtype
    undecided = [some for _, some in parts if len(some)]
    together = import_cupy().unique(import_cupy().concatenate(undecided)) if undecided else _NONE
    return joined([result for result, _ in parts], dtype), together


def weighted_variances(
    x: Array, w: Array, reliable: bool, ddof: Fraction, rounding: Rounding
) -> Found | None:
    """Return the variances of columns, (n, m) numbers of float64, with weights, or their roots.

    As `averages`.

    reliable : whether the weights are reliabilities, and not frequencies.
    """
    if not _is_count(ddof):
        return None
    return _of_rows(x, w, 1, rounding, _WEIGHTED, ddof=int(ddof), reliable=int(reliable))


def _is_count(ddof: Fraction) -> bool:
    """Whether the kernel takes so many degrees of freedom."""
    return ddof.denominator == 1 and abs(ddof) < MOST


def _alike(x: Array, w: Array) -> tuple[Array, Array] | None:
    """Return numbers and weights in one dtype that the kernel reads; None for integers of two words."""
    if x.dtype == w.dtype and x.dtype.name in SOURCES:
        return x, w
    try:
        return exactly("x", x, np.float64), exactly("weights", w, np.float64)
    except TypeError:
        return None


def _flags_seen(*arrays: Array) -> int:
    """Return the flags of every sum: none of integers, or their products, is −0."""
    return int(ORDINARY) * all(x.dtype.kind in "iub" for x in arrays)


def _of_rows(
    x: Array, w: Array | None, reduced: int, rounding: Rounding, of: _Quantity, **options: int
) -> Found | None:
    n, outputs, parts = prod(x.shape[:reduced]), prod(x.shape[reduced:]), 1 + (x.dtype.kind == "c")
    if not 0 < n < MOST or capturing():
        return None
    pair = (x.real, x.real) if w is None else _alike(x.real, w)  # parts of a number are neighbours
    if pair is None or pair[0].dtype.name not in SOURCES:
        return None
    if w is not None:  # copied if they do not lie evenly
        pair, reduced = (pair[0].reshape(n, outputs), pair[1].reshape(n, outputs)), 1
    terms = in_place(Summands(pair[:1] if w is None else pair), reduced)
    if terms is None and w is None:
        pair, reduced = (packed(x, reduced).T.real,) * 2, 1
        terms = in_place(Summands(pair[:1]), reduced)
    if terms is None:
        return None
    cupy, undecided = import_cupy(), Readback(1, np.int32)
    result = cupy.empty(outputs, rounding.target.dtype)
    if not outputs:
        return result, _NONE
    rows, of_weights = (terms.rows * 2)[:2]
    lanes, along, shares = _shape(rows, n, outputs, multiprocessors())
    zeros = cupy.zeros((_KNOWN + 2, outputs), np.int32)
    opened, words = zeros[-1].view(np.uint8)[:outputs], of.words(parts)
    of_all = partial(
        _parameters,
        pair,
        result,
        rounding,
        undecided=int(undecided.address),
        **rows.parameters("x"),
        **of_weights.parameters("w"),
        n=n,
        known=zeros,
        partial=cupy.empty((outputs * shares, words), np.uint64) if shares > 1 else None,
        tickets=zeros[_KNOWN],
        open=opened,
        pair=int(rows.pair),
        parts=shares,
        seen=0 if w is None else _flags_seen(x, w),
        **options,
    )
    chosen = _constants(terms.dtype, parts, lanes, along, of)
    grid = (-(-outputs // (_THREADS // lanes)) * shares,)
    for measure in (1, 0) if shares > 1 else (0,):
        _KERNEL(grid, (_THREADS,), (of_all(measure=measure),), **chosen)
    undecided.send()
    return result, cupy.flatnonzero(opened) if undecided.look()[0] else _NONE


def _parameters(arrays: tuple[Array, Array], result: Array, rounding: Rounding, **given: Any) -> Variances:
    """Return the parameters of a launch for numbers and weights: what is not given is 0, or null."""
    values: dict[str, Any] = {
        name: None if kind is c_void_p else 0 for name, kind in cast(Any, Variances._fields_)
    }
    values |= {"x": arrays[0], "w": arrays[1], "result": result, "outputs": result.size}
    values |= {"root": int(rounding.root), "precision": rounding.target.precision}
    return Variances(**values | {"smallest": rounding.target.last_place} | given)


def group_variances(
    x: Array, labels: Array, groups: int, rounding: Rounding, ddof: Fraction, skip_nan: bool = False
) -> Array | None:
    """Return the variances of a CuPy vector's groups, or their roots; None as `variances`.

    None for groups of which one is undecided, too.
    """
    if not _is_count(ddof):
        return None
    return _by_group(x, None, labels, groups, rounding, _Quantity(skip_nan=skip_nan), int(ddof))


def group_means(
    x: Array, labels: Array, groups: int, rounding: Rounding, skip_nan: bool = False
) -> Array | None:
    """Return the means of the groups of real numbers; None as `group_variances`, and for Inf and NaN."""
    return _by_group(x, None, labels, groups, rounding, _Quantity(mean=True, skip_nan=skip_nan))


def group_averages(x: Array, w: Array, labels: Array, groups: int, rounding: Rounding) -> Array | None:
    """Return the weighted means of the groups of real numbers; None as `group_variances`, NaN of nothing."""
    return _by_group(x, w, labels, groups, rounding, _WEIGHTED_MEAN)


def group_totals(x: Array, w: Array, labels: Array, groups: int, rounding: Rounding) -> Array | None:
    """Return the sums of products of the groups of real numbers; None as `group_variances`."""
    return _by_group(x, w, labels, groups, rounding, _WEIGHTED_TOTAL)


def group_covariances(
    x: Array, y: Array, labels: Array, groups: int, rounding: Rounding, ddof: Fraction
) -> Array | None:
    """Return the covariances of two vectors of real numbers by group; None as `group_variances`."""
    return _by_group(x, y, labels, groups, rounding, _COVARIANCE, int(ddof)) if _is_count(ddof) else None


def _by_group(
    x: Array, w: Array | None, labels: Array, groups: int, rounding: Rounding, of: _Quantity, ddof: int = 0
) -> Array | None:
    """Sort the labels, so that groups are rows of which the numbers lie anywhere."""
    pair = (x.real, x.real) if w is None else _alike(x.real, w)
    if pair is None or pair[0].dtype.name not in SOURCES or capturing():
        return None
    if not x.size or not 0 < groups < 1 << 31 or min(y.strides[0] for y in pair) < 0:
        return None
    cupy, undecided = import_cupy(), Readback(1, np.int32)
    index, starts, (first, last, longest) = _in_groups(labels, groups)
    if first or last != x.size or longest > _LONGEST_GROUP:
        return None
    lanes = next(lanes for lanes in (1, 8, 32, 256) if lanes == 256 or longest <= 64 * lanes)
    result = cupy.empty(groups, rounding.target.dtype)
    x_step, w_step = (y.strides[0] // y.dtype.itemsize for y in pair)
    parameters = _parameters(
        pair,
        result,
        rounding,
        undecided=int(undecided.address),
        index=index,
        starts=starts,
        x_step=x_step,
        w_step=w_step,
        ddof=ddof,
        parts=1,
        seen=0 if w is None else _flags_seen(x, w),
    )
    parts = 1 + (x.dtype.kind == "c")
    chosen = _constants(pair[0].dtype.name, parts, lanes, True, of, grouped=True)
    _KERNEL((-(-groups // (_THREADS // lanes)),), (_THREADS,), (parameters,), **chosen)
    undecided.send()
    return None if undecided.look()[0] else result


def _in_groups(labels: Array, groups: int) -> tuple[Array, Array, list[int]]:
    """Return the order of labels, and where each group begins, and the last one ends, in that order.

    Return also the first and the last of these, and how many numbers the largest group has.
    """
    cupy, told = import_cupy(), Readback(3, np.int64)
    narrow = cupy.clip(labels, -1, groups).astype(np.int32)  # labels of no group stay so
    index, starts, state = narrow.argsort(), cupy.empty(groups + 1, np.int64), cupy.zeros(2, np.uint64)
    arguments = narrow, index, np.int64(labels.size), np.int64(groups), starts, state, told.address
    blocks = min(-(-groups // _THREADS), _WAVES * multiprocessors())
    _STARTS((blocks,), (_THREADS,), arguments)
    told.send()
    return index, starts, told.look().tolist()


@lru_cache(1 << 10)
def _shape(rows: Rows, n: int, outputs: int, processors: int) -> tuple[int, bool, int]:
    """Return the threads of an output, whether neighbours go along it, and the blocks that share it."""
    along = abs(rows.step) <= abs(rows.outer) or outputs == 1
    most = 256 if along else 8
    lanes = next(lanes for lanes in (1, 8, 32, 256) if lanes >= most or n <= 8 * lanes)
    blocks = -(-outputs // (_THREADS // lanes))
    shares = min(-(-n // _PART), max(1, _WAVES * processors // blocks))
    return lanes, along, shares
