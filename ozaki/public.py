"""One record for each public name of `ozaki`, made where the name is defined.

Whatever lists public names asks the table: `ozaki.__all__`, the functions on Dask arrays, NumPy's functions
of an `ozaki.array`, the pages of the reference, the lists of the tests. What a function takes, `out`, `axis`
or `where`, is asked of its signature.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from importlib import import_module
from inspect import signature
from types import NoneType
from typing import Any, TypeVar, cast

import numpy as np

from multiword import public as records
from ozaki.tensors import kinds_of, with_tensors

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class Record(records.Record):
    """A public function, or class, of `ozaki`.

    Attributes
    ----------
    dask : whether `ozaki.dask` has a function of this name, which takes Dask arrays.
    instead : its forms with derivatives, which `ozaki.torch` and `ozaki.jax` have, by "torch" and "jax".
    example : what an example call passes after the first array.

    >>> PUBLIC["sum"].arrays, "where" in PUBLIC["sum"].parameters, PUBLIC["sum"].instead["jax"]
    (('x',), True, 'sum')
    """

    dask: bool
    instead: Mapping[str, str]
    example: str

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The parameters without a default, which of a reduction are its arrays."""
        return tuple(name for name, p in self.parameters.items() if p.default is p.empty)


PUBLIC: dict[str, Record] = {}
"""By name, in the order of their definition."""


def public(
    heading: str, *, dask: bool = False, torch: str = "", jax: str = "", example: str = ""
) -> Callable[[T], T]:
    """Return a decorator that makes a class public, or a function, then for the arrays of every library.

    Parameters
    ----------
    heading, dask, example : as in `Record`.
    torch, jax : its forms with derivatives in `ozaki.torch` and `ozaki.jax`.
    """
    instead = {module: name for module, name in (("torch", torch), ("jax", jax)) if name}

    def register(value: T) -> T:
        if isinstance(value, type):
            _OWN.add(value)
        else:
            value = for_every_library(value, dask, instead)
        entry = Record("ozaki", value.__name__, value, heading, dask, instead, example)
        PUBLIC[entry.name] = entry
        records.record(entry)
        return value

    return register


def for_every_library(function: T, dask: bool = False, instead: Mapping[str, str] | None = None) -> T:
    """Make a function of NumPy's and CuPy's arrays one of PyTorch's tensors, JAX's and Dask's arrays, too.

    Tensors and JAX's arrays are taken as `with_tensors` says. Dask arrays go to the function of the same
    name in `ozaki.dask`, where that has one.
    """
    name, instead = function.__name__, instead or {}

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        modules = sys.modules
        if "torch" not in modules and "jax" not in modules and "dask.array" not in modules:
            return function(*arguments, **options)
        others = [x for x in (*arguments, *options.values()) if type(x) not in _OWN]
        if not others or all(type(x) is tuple and _OWN.issuperset(map(type, x)) for x in others):
            return function(*arguments, **options)
        chosen = partial(_on_dask, function, name) if dask and any(map(is_dask, others)) else function
        if kinds_of(others).isdisjoint(("PyTorch", "JAX")):
            return chosen(*arguments, **options)
        return with_tensors(chosen, name, instead, arguments, options, _out_of(function, arguments, options))

    return cast(T, call)


def _out_of(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the argument `out` of a call, by the function's signature; None without one."""
    place = _place_of_out(function)
    return arguments[place] if place is not None and place < len(arguments) else options.get("out")


@cache
def _place_of_out(function: Callable[..., Any]) -> int | None:
    names = list(signature(function).parameters)
    return names.index("out") if "out" in names else None


_OWN = {np.ndarray, NoneType, bool, int, float, complex, str}
"""The types of most arguments, and the public classes: no arrays of other libraries."""


def is_dask(x: object) -> bool:
    """Return whether `x` is a Dask array, without importing Dask.

    >>> is_dask([1.0])
    False
    """
    kind = getattr(sys.modules.get("dask.array"), "Array", None)
    return kind is not None and isinstance(x, kind)


def _on_dask(function: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
    """Return what `ozaki.dask` makes of Dask arrays. TypeError for an option that only the function has."""
    here, on_dask = signature(function).parameters, getattr(import_module("ozaki.dask"), name)
    taken = signature(on_dask).parameters
    if refused := [option for option in options if option in here and option not in taken]:
        raise TypeError(
            f"{name} takes {refused[0]} for arrays in memory alone; "
            f"for Dask arrays it takes {', '.join(taken)}"
        )
    return on_dask(*arguments, **options)
