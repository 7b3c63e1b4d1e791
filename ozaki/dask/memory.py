"""A task that runs out of memory says which one it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from ozaki.dask.trees import flat

F = TypeVar("F", bound=Callable[..., Any])


def naming_the_task(function: F) -> F:
    """Let a MemoryError of a task name the task, by its argument `task`, and the chunk."""

    @wraps(function)
    def named(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except MemoryError as error:
            shapes = [x.shape for x in flat(list(arguments)) if hasattr(x, "shape")]
            of = f" on chunks of shapes {', '.join(map(str, shapes))}" if shapes else ""
            raise MemoryError(
                f"{options['task']} ran out of memory{of}: choose smaller chunks, or fewer threads a worker"
                + (f" ({error})" if str(error) else "")
            ) from error

    return cast(F, named)
