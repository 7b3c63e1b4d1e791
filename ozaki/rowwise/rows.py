"""How functions of rows take arrays: their axes, blocks of rows, kernels and what these leave, weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from multiword.rounding import round_to, widened
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_out,
    check_same_device,
    in_place_of,
    is_cupy,
    namespace,
    put_one_nan,
    quietly,
    to_float64,
)
from multiword.runtime.parallel import over_rows
from ozaki.elementary.api import FORMATS, float_of, rounded
from ozaki.sums.arguments import Axis, Out, axes_of, deliver, reduced_shape
from ozaki.sums.table import filled
from ozaki.tuning import COLUMNS_OF_A_BLOCK, ROW_BLOCK, SHORT_ROW

_FLOAT64 = np.dtype(np.float64)

Compute = Callable[[Array, int], Array]
"""compute(x, axis): float64 results of x along an axis, which one of one number a row still has."""

Kernel = Callable[..., tuple[Array, Array | None] | None]
"""kernel(rows, weight, bias): results of rows, in their dtype, and which are in doubt, if some are; None
where it does not take such rows."""


def each(x: Any, axis: Axis, out: Out, compute: Compute, kernel: Kernel, *factors: Array | None) -> Any:
    """Return as many numbers as x has, times a weight and plus a bias."""
    x, dtype = _floats(x)
    axes = tuple(sorted(axes_of(axis, x.ndim)))
    if out is not None:
        check_out(out, x, x.shape, dtype)
    given = zip(factors, ("weight", "bias"), strict=False)
    of_row = [None if v is None else _along(v, name, x, axes, dtype) for v, name in given]
    return deliver(_by_rows(x, axes, compute, dtype, False, kernel, *of_row), out)


def reduced(
    x: Any,
    axis: Axis,
    out: Out,
    keepdims: bool,
    compute: Compute,
    empty: float,
    kernel: Kernel | None = None,
) -> Any:
    """Return a number for each row; `empty` for those of nothing."""
    x, dtype = _floats(x)
    axes = tuple(sorted(axes_of(axis, x.ndim)))
    shape = reduced_shape(x.shape, axes, keepdims)
    if out is not None:
        check_out(out, x, shape, dtype)
    if x.size or prod([x.shape[a] for a in axes]):
        result = _by_rows(x, axes, compute, dtype, True, kernel).reshape(shape)
    else:
        result = filled(x, shape, empty, dtype)
    return deliver(result, out)


def _floats(x: Any) -> tuple[Array, np.dtype]:
    """Return x, and the dtype of results."""
    if type(x) is np.ndarray and x.dtype is _FLOAT64:  # as most often
        return x, _FLOAT64
    x = as_array(x, "x")
    if x.dtype.kind == "c":
        raise TypeError(f"x must be real, got {x.dtype}")
    dtype = np.dtype(float_of(x.dtype))
    return (x if x.dtype == dtype else widened(x, "x")), dtype


def _by_rows(
    x: Array,
    axes: Sequence[int],
    compute: Compute,
    dtype: np.dtype,
    reduced: bool,
    kernel: Kernel | None,
    *given: Array | None,
) -> Array:
    """Return results of rows, rounded: where no kernel takes them, of as many at once as a cache holds.

    A column of results, or those in some other shape, where rows are reduced to one each.
    Where such rows are short, or lie in memory as columns, the axis that is reduced is the first.
    """
    xp, shape = namespace(x), x.shape
    every = range(len(shape))
    kept = [a for a in every if a not in axes]
    if not x.size:
        return xp.empty([shape[a] for a in kept] if reduced else shape, dtype)
    order, n = [*kept, *axes], prod([shape[a] for a in axes])
    in_order = order == [*every]  # as most often
    rows = (x if in_order else x.transpose(order)).reshape(-1, n)

    def computed(part: Array) -> Array:
        part = to_float64(part)
        if len(part) == 1:
            return compute(xp.ascontiguousarray(part.T), 0).T
        step, across = map(abs, part.strides)
        in_columns = step < across and n * COLUMNS_OF_A_BLOCK <= ROW_BLOCK and not is_cupy(x)
        if n < SHORT_ROW or in_columns:
            return compute(xp.ascontiguousarray(part.T), 0).T
        return compute(xp.ascontiguousarray(part), 1)

    def exactly(part: Array) -> Array:
        if is_cupy(x):
            return affine(rounded(computed(part), dtype), *given)
        if part.size <= ROW_BLOCK:
            with quietly(x):
                return affine(_stored(computed(part), dtype), *given)
        result = np.empty((len(part), 1 if reduced else n), dtype)

        def work(block: slice) -> None:
            result[block] = _stored(computed(part[block]), dtype)

        with quietly(x):
            over_rows(work, len(part), n, ROW_BLOCK)
            return affine(result, *given)

    with in_place_of(x):
        result = _results(rows, exactly, kernel, given)
    if reduced:
        return result
    if in_order:
        return result.reshape(x.shape)
    return result.reshape([x.shape[a] for a in order]).transpose(np.argsort(order).tolist())


def _results(
    rows: Array,
    compute: Callable[[Array], Array],
    kernel: Kernel | None,
    given: Sequence[Array | None],
) -> Array:
    """Return results of rows, rounded: by a kernel where one takes them, but for what it leaves in doubt."""
    done = kernel and kernel(rows, *given)
    if not done:
        return compute(rows)
    result, doubtful = done
    if doubtful is not None:
        result[doubtful] = compute(rows[doubtful])
    return result


def _along(values: Any, name: str, x: Array, axes: Sequence[int], dtype: np.dtype) -> Array:
    """Return a weight or bias as numbers of a row."""
    values = as_array(values, name)
    check_same_device(x=x, **{name: values})
    shape = tuple(x.shape[a] for a in axes)
    if values.dtype != dtype or values.shape != shape:
        raise (TypeError if values.dtype != dtype else ValueError)(
            f"{name} must be {dtype} of shape {shape}, got {values.dtype} of shape {values.shape}"
        )
    return namespace(values).ascontiguousarray(values).reshape(-1)


def affine(rows: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
    """Return rows times a weight, rounded, plus a bias, rounded."""
    if weight is None and bias is None:
        return rows
    with quietly(rows):
        if weight is not None:
            rows = rounded(to_float64(rows) * to_float64(weight), rows.dtype)
        if bias is not None:
            rows = rounded(to_float64(rows) + to_float64(bias), rows.dtype)
    return rows


def _stored(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return float64 numbers rounded to a dtype, with one NaN, in C order; perhaps in their own memory."""
    if np.count_nonzero(np.isnan(x)):
        put_one_nan(x)
    x = x if dtype.itemsize >= 4 else round_to(x, FORMATS[dtype.name])
    return np.ascontiguousarray(x, dtype)
