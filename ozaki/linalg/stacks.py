"""Functions of matrices, made functions of stacks of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    converted,
    is_cupy,
    namespace,
    on_host,
    quietly,
    where_lies,
)
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.options import check_choice
from ozaki.arguments import result_dtype
from ozaki.linalg.arguments import LinAlgError
from ozaki.linalg.small import calls
from ozaki.nonfinite import one_nan

_SHOWN = 5  # matrices that an error names


def each(
    work: Callable[..., Any],
    *stacks: Array,
    like: tuple[Any, ...],
    errors: str = "raise",
) -> Any:
    """What a function of matrices makes of each of a stack, in the precision of the arrays as they came.

    It is given small matrices together, as (s, m, n) arrays, and others one by one. Where it fails,
    LinAlgError names the matrices of the stack, or the results of these alone are NaN, for errors="nan". A
    single small one is given as a stack of one, on the host, which is done before a GPU has begun.
    """
    if errors != "raise":
        check_choice("errors", errors, ("raise", "nan"))
    first = stacks[0]
    dtype = result_dtype(as_array(like[0], "a"), as_array(like[-1], "a"))
    batch = first.shape[:-2]
    for x in stacks[1:]:
        if x.shape[:-2] != batch:
            batch = np.broadcast_shapes(batch, x.shape[:-2])
    with quietly(first):
        if not calls.takes(*stacks):
            return narrowed(_one_by_one(work, stacks, batch, errors), dtype)
        if is_cupy(first) and not batch and calls.on_cpus():
            refuse_captures("functions of small matrices")
            near = [on_host(x) for x in stacks]
            with quietly(near[0]):
                return narrowed(_as_near(first, _together(work, near, batch, errors)), dtype)
        return narrowed(_together(work, stacks, batch, errors), dtype)


def _together(work: Callable[..., Any], stacks: Sequence[Array], batch: tuple[int, ...], errors: str) -> Any:
    """The results of small matrices; one by one where one of them fails."""
    try:
        return _in_shape(work(*[_in_line(x, batch) for x in stacks]), batch)
    except LinAlgError:
        return _one_by_one(work, stacks, batch, errors, small=True)


def _one_by_one(
    work: Callable[..., Any],
    stacks: Sequence[Array],
    batch: tuple[int, ...],
    errors: str,
    small: bool = False,
) -> Any:
    """The results of matrices one after the other; `small` ones as stacks of one."""
    xp, results, failures = namespace(stacks[0]), [], {}
    matrices = [xp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in stacks]

    def of(arrays: Iterable[Array]) -> Any:
        return _in_shape(work(*(x[None] for x in arrays)), ()) if small else work(*arrays)

    for index in np.ndindex(batch):
        try:
            results.append(of([x[index] for x in matrices]))
        except LinAlgError as error:
            failures[index] = error
            results.append(None)
            if len(failures) > _SHOWN and errors == "raise":
                break
    if failures and errors == "raise":
        raise _of_matrices(failures)
    if failures or not results:
        stand_in = of([*map(_stand_in, stacks)])
        results = [_nan_like(stand_in) if x is None else x for x in results]
        count, results = len(results), results or [stand_in]
    else:
        count = len(results)
    if not batch:
        return results[0]

    def stacked(part: Sequence[Array]) -> Array:
        return xp.stack(part)[:count].reshape(*batch, *part[0].shape)

    if not isinstance(results[0], tuple):
        return stacked(results)
    return tuple(map(stacked, zip(*results, strict=True)))


def _of_matrices(failures: dict[tuple[int, ...], LinAlgError]) -> LinAlgError:
    """The first error, which says of which matrices of a stack it is."""
    (first, error), *_ = failures.items()
    if not first:
        return error
    indices = [str(index[0]) if len(index) == 1 else str(index) for index in failures]
    shown, more = ", ".join(indices[:_SHOWN]), " and more" if len(failures) > _SHOWN else ""
    return LinAlgError(f"{error}: matrices {shown}{more} of the stack; errors='nan' gives NaN for these")


def _nan_like(result: Any) -> Any:
    """NaN in place of results."""
    if isinstance(result, tuple):
        return tuple(map(_nan_like, result))
    return namespace(result).full_like(result, np.nan if result.dtype.kind in "fc" else 0)


def _as_near(like: Array, result: Any) -> Any:
    """Results where an array lies."""
    if isinstance(result, tuple):
        return tuple(_as_near(like, x) for x in result)
    return where_lies(like, result)


def _in_line(stack: Array, batch: tuple[int, ...]) -> Array:
    """The matrices of a stack one after the other."""
    matrix = stack.shape[-2:]
    if stack.shape[:-2] != batch:
        stack = namespace(stack).broadcast_to(stack, (*batch, *matrix))
    return stack.reshape(math.prod(batch), *matrix)


def _in_shape(result: Any, batch: tuple[int, ...]) -> Any:
    """Results of a stack in its shape."""
    if isinstance(result, tuple):
        return tuple(_in_shape(x, batch) for x in result)
    return result.reshape((*batch, *result.shape[1:]))


def _stand_in(stack: Array) -> Array:
    """A matrix that is solved, or pivots that are rows, in place of those that an empty stack has not."""
    xp, shape = namespace(stack), stack.shape[-2:]
    return xp.zeros(shape, stack.dtype) if stack.dtype.kind in "iu" else xp.eye(*shape, dtype=stack.dtype)


def narrowed(result: Any, dtype: np.dtype) -> Any:
    """Results in the precision of a dtype, NaNs as the canonical one; integers as they are."""
    if isinstance(result, tuple):
        return tuple(narrowed(x, dtype) for x in result)
    if result.dtype.kind not in "fc":
        return result
    if dtype.char not in "dD":  # a GPU's conversion has a NaN of its own
        result = converted(result, np.complex64 if result.dtype.kind == "c" else np.float32)
    if not is_cupy(result) and result.flags.c_contiguous and not np.count_nonzero(np.isnan(result)):
        return result  # mostly
    return one_nan(result)
