"""Lazy arrays: Dask's go to the function of the same name in `ozaki.dask`, which is imported only then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

ON_DASK = {
    *("matmul", "dot", "vdot", "norm", "sum", "mean", "average", "var", "std", "cumsum"),
    *("nansum", "nanmean", "nanvar", "nanstd"),
}
"""The functions that `ozaki.dask` has, too."""


def is_dask(x: object) -> bool:
    """Return whether `x` is a Dask array, without importing Dask.

    >>> is_dask([1.0])
    False
    """
    kind = getattr(sys.modules.get("dask.array"), "Array", None)
    return kind is not None and isinstance(x, kind)


def or_on_dask(function: F) -> F:
    """Make a function return what `ozaki.dask` has under its name where an argument is a Dask array.

    TypeError for an option that only the function itself has.
    """

    @wraps(function)
    def chosen(*arguments: Any, **options: Any) -> Any:
        if "dask.array" not in sys.modules or not any(map(is_dask, (*arguments, *options.values()))):
            return function(*arguments, **options)
        name, here = function.__name__, signature(function).parameters
        on_dask = getattr(import_module("ozaki.dask"), name)
        taken = signature(on_dask).parameters
        if refused := [option for option in options if option in here and option not in taken]:
            raise TypeError(
                f"{name} takes {refused[0]} for arrays in memory alone; "
                f"for Dask arrays it takes {', '.join(taken)}"
            )
        return on_dask(*arguments, **options)

    return cast(F, chosen)
