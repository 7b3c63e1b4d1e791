"""Tasks: objects for blocks, trees that merge them, and the name of a task that runs out of memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.memory import WorkspaceTooSmall
from ozaki.public import Record


def objects(function: Callable[..., Any], indices: Sequence[Any], *pairs: Any, token: str) -> da.Array:
    """Return a Dask array of one object for each block of these indices.

    Pairs are of arrays and their indices, as for `da.blockwise`; the function gets lists of blocks along all
    other indices.
    """
    meta = np.empty((0,) * len(indices), object)
    options = {"align_arrays": False, "concatenate": False}
    return da.blockwise(function, indices, *pairs, dtype=object, meta=meta, token=token, **options)


def merge_tree(
    parts: da.Array,
    axis: int,
    finish: Callable[..., Any],
    combine: Callable[..., Any],
    name: str,
    split_every: int | dict[int, int] | None = None,
    meta: Any = None,
    keepdims: bool = False,
) -> da.Array:
    """Return the objects along an axis merged as a tree, by `combine` and at last by `finish`."""
    meta = np.empty((0,) * (parts.ndim - (not keepdims)), object) if meta is None else meta
    return da.reduction(
        parts,
        _unchanged,
        finish,
        axis=axis,
        keepdims=keepdims,
        dtype=meta.dtype,
        combine=combine,
        name=name,
        concatenate=False,
        split_every=split_every,
        meta=meta,
    )


def _unchanged(x: Any, **_: Any) -> Any:
    return x


def flat(parts: Any) -> Iterator[Any]:
    """The elements of nested lists."""
    if isinstance(parts, list):
        for part in parts:
            yield from flat(part)
    else:
        yield parts


def merged(parts: Any, *, merge: Callable[[Any, Any], Any], **_: Any) -> Any:
    """The elements of nested lists, merged by a function of two."""
    return reduce(merge, flat(parts))


def task(name: str, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function with these options, whose MemoryError names the task and its chunks."""
    return partial(_named, name, function, **options)


def _named(
    name: str,
    function: Callable[..., Any],
    /,
    *blocks: Any,
    computing_meta: bool = False,
    **options: Any,
) -> Any:
    if computing_meta:  # by Dask, of blocks without elements, for a kind and a dtype that it casts this to
        return blocks[0].real
    try:
        return function(*blocks, **options)
    except WorkspaceTooSmall as error:
        raise WorkspaceTooSmall(f"{name}: {error}") from error
    except MemoryError as error:
        shapes = [x.shape for x in flat(list(blocks)) if hasattr(x, "shape")]
        of = f" on chunks of shapes {', '.join(map(str, shapes))}" if shapes else ""
        raise MemoryError(
            f"{name} ran out of memory{of}: choose smaller chunks, or fewer threads a worker"
            + (f" ({error})" if str(error) else "")
        ) from error


def public_form(
    compute: Callable[..., da.Array], record: Record, signature: inspect.Signature, of: str, differs: str
) -> Callable[..., da.Array]:
    """Return a lazy function under the name of one of `ozaki`, with a signature and documentation.

    compute : what it calls with all arguments by their names, those that are not given, too.
    of : what follows on the first words of that one's. differs : the rest.
    """

    def lazy(*arguments: Any, **options: Any) -> da.Array:
        given = signature.bind(*arguments, **options)
        given.apply_defaults()
        return compute(**given.arguments)

    summary = str(inspect.getdoc(record.value)).replace(", each correctly", ", correctly")
    lazy.__name__, lazy.__qualname__, lazy.__module__ = record.name, record.name, "ozaki.dask"
    lazy.__doc__ = f"{summary.partition(', correctly rounded')[0]} {of}, lazily.{differs}"
    lazy.__signature__ = signature  # type: ignore[attr-defined]
    return lazy
