"""A task that runs out of memory says which one it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ozaki.dask.trees import flat


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
    except MemoryError as error:
        shapes = [x.shape for x in flat(list(blocks)) if hasattr(x, "shape")]
        of = f" on chunks of shapes {', '.join(map(str, shapes))}" if shapes else ""
        raise MemoryError(
            f"{name} ran out of memory{of}: choose smaller chunks, or fewer threads a worker"
            + (f" ({error})" if str(error) else "")
        ) from error
