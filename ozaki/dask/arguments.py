"""What the functions on Dask arrays accept."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from math import isnan
from typing import Any

import numpy as np

from multiword.runtime.install import missing

try:
    import dask.array as da
except ImportError as error:
    raise missing("ozaki.dask needs Dask", "dask") from error

from multiword.runtime.arrays import Array, as_array, check_same_device
from multiword.runtime.options import integer
from ozaki.sums.arguments import Axis, axes_of, float_type, native, numbers

SplitEvery = int | dict[int, int] | None


def known_chunks(x: Any, name: str, reduced: Axis = ()) -> da.Array:
    """Return x as a Dask array of numbers.

    ValueError where its chunks have unknown sizes, but along reduced axes.
    """
    array = x if isinstance(x, da.Array) else da.asarray(numbers(x, name))
    numbers(array._meta, name)
    check_sizes(array, name, axes_of(reduced, array.ndim))
    return array if array.dtype.isnative else _checked(array, name)


def check_sizes(x: da.Array, name: str, unknown: Container[int] = ()) -> None:
    """Raise ValueError where chunks have unknown sizes, but along these axes."""
    if any(isnan(size) for axis, sizes in enumerate(x.chunks) if axis not in unknown for size in sizes):
        raise ValueError(f"{name} has chunks of unknown sizes; call {name}.compute_chunk_sizes() first")


def check_chunk_dtype(dtype: np.dtype, name: str, declared: np.dtype) -> None:
    """Raise TypeError for the dtype of a chunk that the declared one does not hold."""
    if not np.can_cast(dtype, declared, "safe"):
        raise TypeError(
            f"a chunk of {name} is of dtype {dtype}, and the Dask array says {declared}: "
            "say the dtype of the chunks where they are made, as in map_blocks(…, dtype=…)"
        )


def as_chunk(x: Any, name: str, declared: np.dtype) -> Array:
    """Return a chunk as the array of numbers that its Dask array declares.

    TypeError as for a whole array, and for a dtype that the declared one does not hold.
    """
    array = as_array(x, f"chunk_of_{name}")
    check_chunk_dtype(array.dtype, name, declared)
    return array.astype(declared) if declared.kind == "c" != array.dtype.kind else array


def checked_chunks(x: Any, name: str, reduced: Axis = ()) -> da.Array:
    """Return x as by `known_chunks`, its chunks passed through `as_chunk` when they are computed."""
    return _checked(known_chunks(x, name, reduced), name)


def _checked(x: da.Array, name: str) -> da.Array:
    dtype = native(x.dtype)
    check, meta = partial(as_chunk, name=name, declared=dtype), x._meta.astype(dtype)
    return da.map_blocks(check, x, dtype=dtype, meta=meta, token="ozaki-chunk")


def without_empty_chunks(x: da.Array) -> da.Array:
    """The same array with no chunk of size zero, but one where it has no elements along an axis."""
    return x.rechunk(tuple(tuple(n for n in sizes if n) or (0,) for sizes in x.chunks))


def like_arrays(**arrays: da.Array) -> None:
    """Raise TypeError if the chunks of some are NumPy's and those of others CuPy's."""
    check_same_device(**{name: x._meta for name, x in arrays.items()})


def no_out(out: None) -> None:
    """Raise TypeError if there is an `out`."""
    if out is not None:
        raise TypeError(f"out must be None: Dask arrays are not written to, got {type(out).__name__}")


def partial_sums_a_task(split_every: Any, numblocks: tuple[int, ...]) -> SplitEvery:
    """Return `split_every` for Dask's trees: none above what merges all chunks at once, which take memory.

    TypeError for what is no integer, nor a dict of them; ValueError below 2.
    """
    largest = max(2, 2, *numblocks)
    if split_every is None:
        return None
    if isinstance(split_every, dict):
        return {axis: _at_least_two(count, largest) for axis, count in split_every.items()}
    return _at_least_two(split_every, largest ** max(1, len(numblocks)))


def _at_least_two(split_every: Any, limit: int) -> int:
    count = integer("split_every", split_every)
    if count < 2:
        raise ValueError(f"split_every must be at least 2, got {count}")
    return min(count, limit)


def accumulator_dtype(x: da.Array) -> np.dtype:
    """The dtype of an accumulator that holds x exactly."""
    return x.dtype if x.dtype.kind == "c" else float_type(x._meta)
