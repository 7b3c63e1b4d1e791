"""What the functions on Dask arrays accept."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import Any

import numpy as np

try:
    import dask.array as da
except ImportError as error:
    raise ImportError("ozaki.dask needs Dask: pip install 'ozaki-multiword[dask]'") from error

from multiword.runtime.arrays import Array, check_same_device
from ozaki.arguments import exactly
from ozaki.sums.arguments import Axis, axes_of, float_type, native, numbers

SplitEvery = int | dict[int, int] | None


def known_chunks(x: Any, name: str) -> da.Array:
    """Return x as a Dask array of numbers. ValueError where its chunks have unknown sizes."""
    array = x if isinstance(x, da.Array) else da.asarray(numbers(x, name))
    numbers(array._meta, name)
    if any(isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(f"{name} has chunks of unknown sizes; call {name}.compute_chunk_sizes() first")
    dtype = native(array.dtype)
    check = partial(_chunk, name=f"a chunk of {name}", expected=dtype)
    meta: Any = array._meta.astype(dtype)
    return da.map_blocks(check, array, dtype=dtype, meta=meta)


def _chunk(x: Any, *, name: str, expected: np.dtype) -> Array:
    """Return a chunk in the dtype announced for it. TypeError for other kinds of array and wider dtypes."""
    chunk = numbers(x, name)
    if chunk.dtype == expected:
        return chunk
    if not np.can_cast(chunk.dtype, expected, "safe"):
        raise TypeError(f"{name} is of dtype {chunk.dtype}, but {expected} was announced")
    return chunk.astype(expected) if expected.kind in "iub" else exactly(name, chunk, expected)


def without_empty_chunks(x: da.Array) -> da.Array:
    """The same array with no chunk of size zero, but one where it has no elements along an axis."""
    return x.rechunk(tuple(tuple(n for n in sizes if n) or (0,) for sizes in x.chunks))


def like_arrays(**arrays: da.Array) -> None:
    """Raise TypeError if the chunks of some are NumPy's and those of others CuPy's."""
    check_same_device(**{name: x._meta for name, x in arrays.items()})


def checked(x: Any, axis: Axis, out: None) -> tuple[da.Array, tuple[int, ...]]:
    """The array of a reduction, and its reduced axes."""
    no_out(out)
    x = known_chunks(x, "x")
    return x, axes_of(axis, x.ndim)


def no_out(out: None) -> None:
    """Raise TypeError if there is an `out`."""
    if out is not None:
        raise TypeError(f"out must be None: Dask arrays are not written to, got {type(out).__name__}")


def held_dtype(x: da.Array) -> np.dtype:
    """The dtype of an accumulator that holds x exactly."""
    return x.dtype if x.dtype.kind == "c" else float_type(x._meta)
