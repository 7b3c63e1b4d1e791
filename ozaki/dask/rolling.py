"""Rolling sums, means and variances of Dask arrays: each chunk with what windows need of its neighbours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da

from multiword.runtime.options import integer
from ozaki.dask.arguments import checked_chunks, without_empty_chunks
from ozaki.dask.tasks import public_form, task
from ozaki.public import PUBLIC, Record
from ozaki.sums.arguments import axes_of, real_result_dtype
from ozaki.sums.rolling import window_of

_DIFFERENCE = """

    As `ozaki.{name}`; differs in being lazy: it has the bits of that function on the whole array.

    Parameters
    ----------
    x : in chunks of NumPy or CuPy arrays, of sizes that are known.

    Raises
    ------
    TypeError, ValueError : as `ozaki.{name}`; chunks of unknown sizes.

    >>> import dask.array as da, numpy as np, ozaki
    >>> x = np.array([1e200, 3.0, -1e200, 5.0])
    >>> ozaki.{name}(da.from_array(x, chunks=2), 2).compute().tobytes() == ozaki.{name}(x, 2).tobytes()
    True
    """


def _on_dask(record: Record) -> Callable[..., da.Array]:
    """Return a function of `ozaki` for Dask arrays, with its signature and documentation."""
    name, signature = record.name, inspect.signature(record.value)

    compute = partial(_rolled, record.value, name)
    return public_form(compute, record, signature, "of Dask arrays", _DIFFERENCE.format(name=name))


def _rolled(
    function: Callable[..., Any],
    name: str,
    x: Any,
    window: Any,
    axis: Any,
    min_count: Any,
    center: bool,
    **options: Any,
) -> da.Array:
    """The lazy results of windows."""
    length, ahead, least = window_of(window, min_count, center)
    x = without_empty_chunks(checked_chunks(x, "x"))
    if not x.ndim:
        raise ValueError("x must have an axis along which windows move, got a number")
    (along,) = axes_of(integer("axis", axis), x.ndim)
    target = real_result_dtype(x._meta, options["dtype"], None, (), "the result of a window")
    if x.dtype.kind == "c":
        raise TypeError(f"x must be real, got {x.dtype}; take the real and the imaginary part")
    work = partial(function, window=length, axis=along, min_count=least, center=center, **options)
    made: dict[str, Any] = {"dtype": target, "meta": x._meta.astype(target)}
    if length >= x.shape[along]:
        x = x.rechunk({along: -1})
    if x.numblocks[along] == 1:
        return x.map_blocks(task(f"ozaki.dask.{name}", work), **made)
    depth = {a: (length - 1 - ahead, ahead) if a == along else 0 for a in range(x.ndim)}
    return da.map_overlap(task(f"ozaki.dask.{name}", work), x, depth=depth, boundary="none", **made)


LAZY = {
    name: _on_dask(PUBLIC[name]) for name in ("rolling_sum", "rolling_mean", "rolling_var", "rolling_std")
}
"""Every rolling function of `ozaki`, by name."""
