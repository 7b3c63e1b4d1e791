"""Functions of matrices, made functions of stacks of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, converted, device_of, namespace, quietly
from ozaki.arguments import result_dtype
from ozaki.linalg.small import calls
from ozaki.nonfinite import one_nan


def each(work: Callable[..., Any], *stacks: Array, like: tuple[Any, ...]) -> Any:
    """What a function of matrices makes of each of a stack, in the precision of the arrays as they came.

    It is given small matrices together, as (s, m, n) arrays, and others one by one.
    """
    first, xp = stacks[0], namespace(stacks[0])
    arrays = [as_array(x, "a") for x in like]
    dtype = result_dtype(arrays[0], arrays[-1])
    batches = {x.shape[:-2] for x in stacks}
    batch = batches.pop() if len(batches) == 1 else np.broadcast_shapes(*batches)
    with device_of(first), quietly(first):
        if calls.takes(*stacks):
            together = [_in_line(x, batch) for x in stacks]
            return _narrowed(_in_shape(work(*together), batch), dtype)
        if not batch:
            return _narrowed(work(*stacks), dtype)
        matrices = [xp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in stacks]
        results = [work(*(x[index] for x in matrices)) for index in np.ndindex(batch)]
        count, results = len(results), results or [work(*map(_stand_in, stacks))]

        def stacked(part: Sequence[Array]) -> Array:
            return xp.stack(part)[:count].reshape(*batch, *part[0].shape)

        if not isinstance(results[0], tuple):
            return _narrowed(stacked(results), dtype)
        return _narrowed(tuple(map(stacked, zip(*results, strict=True))), dtype)


def _in_line(stack: Array, batch: tuple[int, ...]) -> Array:
    """The matrices of a stack one after the other."""
    matrix = stack.shape[-2:]
    if stack.ndim != len(batch) + 2 or stack.shape[:-2] != batch:
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


def _narrowed(result: Any, dtype: np.dtype) -> Any:
    """Results in the precision of a dtype, NaNs as the canonical one; integers as they are."""
    if isinstance(result, tuple):
        return tuple(_narrowed(x, dtype) for x in result)
    if result.dtype.kind not in "fc":
        return result
    if dtype.char not in "dD":  # a GPU's conversion has a NaN of its own
        result = converted(result, np.complex64 if result.dtype.kind == "c" else np.float32)
    return one_nan(result)
