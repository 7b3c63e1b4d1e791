"""One record for each public name of `ozaki`, made where the name is defined.

Whatever lists public names asks the table: `ozaki.__all__`, the functions on Dask arrays, NumPy's functions
of an `ozaki.array`, the pages of the reference, the lists of the tests. What a function takes, `out`, `axis`
or `where`, is asked of its signature.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial, wraps
from importlib import import_module
from inspect import signature
from types import NoneType
from typing import Any, TypeVar, cast

import numpy as np

from multiword import public as records
from multiword.runtime.arrays import is_cupy
from ozaki.tensors import kinds_of, with_tensors

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class Record(records.Record):
    """A public function, or class, of `ozaki`.

    Attributes
    ----------
    dask : whether `ozaki.dask` has a function of this name, which takes Dask arrays.
    sparse : whether `ozaki.sparse` has one, which takes sparse matrices.
    instead : its forms with derivatives, which `ozaki.torch` and `ozaki.jax` have, by "torch" and "jax".
    example : what an example call passes after the first array.

    >>> PUBLIC["sum"].arrays, "where" in PUBLIC["sum"].parameters, PUBLIC["sum"].instead["jax"]
    (('x',), True, 'sum')
    """

    dask: bool
    sparse: bool
    instead: Mapping[str, str]
    example: str

    @cached_property
    def arrays(self) -> tuple[str, ...]:
        """The parameters without a default, which of a reduction are its arrays."""
        return tuple(name for name, p in self.parameters.items() if p.default is p.empty)

    def form(self, module: str) -> str:
        """The name of its form in `ozaki.dask`, `ozaki.torch` or `ozaki.jax`; empty if it has none."""
        return self.instead.get(module, self.name if self.dask and module == "dask" else "")


PUBLIC: dict[str, Record] = {}
"""By name, in the order of their definition."""


def public(
    heading: str,
    *,
    dask: bool = False,
    sparse: bool = False,
    torch: str = "",
    jax: str = "",
    example: str = "",
    takes_all: bool = False,
) -> Callable[[T], T]:
    """Return a decorator that makes a class public, or a function, then for the arrays of every library.

    Parameters
    ----------
    heading, dask, sparse, example : as in `Record`.
    torch, jax : its forms with derivatives in `ozaki.torch` and `ozaki.jax`.
    takes_all : whether the function takes the arrays of every library itself.
    """
    instead = {module: name for module, name in (("torch", torch), ("jax", jax)) if name}

    def register(value: T) -> T:
        if isinstance(value, type):
            _OWN.add(value)
        elif not takes_all:
            value = for_every_library(value, dask, instead, sparse)
        entry = Record("ozaki", value.__name__, value, heading, dask, sparse, instead, example)
        PUBLIC[entry.name] = entry
        records.record(entry)
        return value

    return register


def forms_in(module: str) -> list[str]:
    """Return the sorted names of functions that have forms in `ozaki.dask`, `ozaki.torch` or `ozaki.jax`.

    >>> "cumsum" in forms_in("torch"), "cumsum" in forms_in("jax")
    (True, False)
    """
    return sorted({name for entry in PUBLIC.values() if (name := entry.form(module))})


def for_every_library(
    function: T, dask: bool = False, instead: Mapping[str, str] | None = None, sparse: bool = False
) -> T:
    """Make a function of NumPy's and CuPy's arrays one of PyTorch's tensors, JAX's and Dask's arrays, too.

    Tensors and JAX's arrays are taken as `with_tensors` says. Dask arrays go to the function of the same
    name in `ozaki.dask`, where that has one, and sparse matrices to the one in `ozaki.sparse`.
    """
    name, instead = function.__name__, instead or {}

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        for x in arguments:
            if type(x) not in _OWN:
                break
        else:
            if not options:  # most often
                return function(*arguments)
        if sys.modules.keys().isdisjoint(_LIBRARIES):  # the other way round all modules are looked through
            return function(*arguments, **options)
        others = [x for x in (*arguments, *options.values()) if type(x) not in _OWN and not is_cupy(x)]
        if sparse and others and all(map(is_sparse, others)):
            return _elsewhere(function, name, "ozaki.sparse", "sparse matrices", *arguments, **options)
        if not others or all(type(x) is tuple and _OWN.issuperset(map(type, x)) for x in others):
            return function(*arguments, **options)
        chosen: Callable[..., Any] = function
        if dask and any(map(is_dask, others)):
            chosen = partial(_elsewhere, function, name, "ozaki.dask", "Dask arrays")
        elif sparse and any(map(_has_sparse, others)):
            chosen = partial(_elsewhere, function, name, "ozaki.sparse", "sparse matrices")
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


_LIBRARIES = frozenset({"torch", "jax", "dask.array", "scipy.sparse", "cupyx.scipy.sparse"})
"""The modules without which there are no arguments but NumPy's and CuPy's arrays."""


def is_sparse(x: object) -> bool:
    """Return whether `x` is a sparse array or matrix of SciPy's or CuPy's, without importing either.

    >>> is_sparse([1.0])
    False
    """
    kind: Any = type(x)
    return _is_sparse_type(kind)


@lru_cache(1024)
def _is_sparse_type(kind: type) -> bool:
    """Whether a type is one of sparse matrices; a subclass exists only after the module with its base."""
    bases = (getattr(sys.modules.get(name), base, None) for name, base in _SPARSE)
    return any(base is not None and issubclass(kind, base) for base in bases)


_SPARSE = (
    ("scipy.sparse", "sparray"),
    ("scipy.sparse", "spmatrix"),
    ("cupyx.scipy.sparse", "spmatrix"),
)
"""The classes of sparse matrices, and the modules that have them."""


def _has_sparse(x: object) -> bool:
    """Return whether an argument is a sparse matrix, or a sum of words with one."""
    return any(map(is_sparse, x)) if isinstance(x, tuple) else is_sparse(x)


def is_dask(x: object) -> bool:
    """Return whether `x` is a Dask array, without importing Dask.

    >>> is_dask([1.0])
    False
    """
    kind = getattr(sys.modules.get("dask.array"), "Array", None)
    return kind is not None and isinstance(x, kind)


def _elsewhere(
    function: Callable[..., Any], name: str, module: str, kind: str, *arguments: Any, **options: Any
) -> Any:
    """Return what the function of the same name in a module makes of another kind of arrays.

    TypeError for an option that only the function here has.
    """
    there = getattr(sys.modules.get(module) or import_module(module), name)
    if options:
        here, taken = signature(function).parameters, signature(there).parameters
        if refused := [option for option in options if option in here and option not in taken]:
            raise TypeError(
                f"{name} takes {refused[0]} for dense arrays in memory alone; "
                f"for {kind} it takes {', '.join(taken)}"
            )
    return there(*arguments, **options)
