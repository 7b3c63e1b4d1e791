"""NumPy and SciPy with some functions replaced, as the modules of a suite see them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import update_wrapper
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

import ozaki
from ozaki.arrays.functions import FUNCTIONS, UFUNCS

calls = 0
"""How often a replaced function has been called, or an array of this library been made, in this process."""


class Replaced:
    """A function in place of another one, with the other's attributes.

    It is an object, so that a class that has it as an attribute makes no method of it: nor does it of ufuncs.
    """

    def __init__(self, original: Any, compute: Callable[..., Any]) -> None:
        self._original, self._compute = original, compute
        update_wrapper(self, original, updated=())

    def __call__(self, *args: Any, **options: Any) -> Any:
        global calls
        calls += 1
        return self._compute(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_original"], name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The other's class, by which tests pick the functions that they try."""
        return type(self._original)

    def __repr__(self) -> str:
        return f"<ozaki's {self._original!r}>"


class Module(ModuleType):
    """A module as a suite sees it: another one with some of its members replaced."""

    def __init__(self, original: ModuleType, members: dict[str, Any]) -> None:
        super().__init__(original.__name__, original.__doc__)
        self._original = original
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_original"], name)


def adopt(module: ModuleType, members: dict[ModuleType, dict[str, Any]]) -> None:
    """Give a module the replaced functions and modules in place of those that it has imported."""
    stand_ins: dict[ModuleType, Module] = {}
    for original, replaced in members.items():
        stand_ins[original] = Module(original, replaced)
    for original, stand_in in stand_ins.items():  # np.linalg of the np that stands in
        parent = sys.modules.get(original.__name__.rpartition(".")[0])
        if parent in stand_ins:
            setattr(stand_ins[parent], original.__name__.rpartition(".")[2], stand_in)
    by_identity = {id(original): stand_in for original, stand_in in stand_ins.items()}
    for original, replaced in members.items():
        by_identity |= {id(getattr(original, name)): x for name, x in replaced.items()}
    for name, value in list(vars(module).items()):
        if id(value) in by_identity:
            setattr(module, name, by_identity[id(value)])


@contextmanager
def imported(members: dict[ModuleType, dict[str, Any]]) -> Iterator[None]:
    """Within this context imports from these modules give the replaced functions, as decorators may want."""
    with ExitStack() as stack:
        for original, replaced in members.items():
            stack.enter_context(patch.multiple(original, **replaced))
        yield


def of_numpy() -> dict[ModuleType, dict[str, Any]]:
    """Return NumPy's functions that `ozaki.array` replaces, which take plain arrays and return plain ones.

    Elementwise ufuncs stay: compiled modules take `np.absolute` and its like for NumPy's own objects.
    """
    products = {f for f, method in UFUNCS if method == "__call__" and getattr(f, "signature", None)}
    originals = products | FUNCTIONS.keys()
    return {
        module: {
            name: Replaced(function, _as_ours(function))
            for name, function in vars(module).items()
            if callable(function) and _hashable(function) and function in originals
        }
        for module in (np, np.linalg)
    }


def of_arrays() -> dict[ModuleType, dict[str, Any]]:
    """Return functions that make arrays of NumPy, which make those of `ozaki.array`."""
    makers = (
        *("array", "zeros", "ones", "empty", "full", "arange", "linspace", "eye", "identity", "diag"),
        *("zeros_like", "ones_like", "empty_like", "full_like"),
    )
    return {np: {name: Replaced(getattr(np, name), _made(getattr(np, name))) for name in makers}}


def _hashable(function: Any) -> bool:
    return getattr(type(function), "__hash__", None) is not None


def _marked(x: Any) -> Any:
    """Return plain numbers as an array of this library; other things as they are."""
    array = np.asanyarray(x) if isinstance(x, list | tuple | int | float | complex | np.generic) else x
    return array.view(ozaki.array) if type(array) is np.ndarray and array.dtype.kind in "biufc" else x


def _plain(result: Any) -> Any:
    if isinstance(result, list | tuple):
        plain = map(_plain, result)
        return type(result)(*plain) if hasattr(result, "_fields") else type(result)(plain)
    return result.view(np.ndarray) if type(result) is ozaki.array else result


def _as_ours(function: Any) -> Callable[..., Any]:
    """Return a function that hands NumPy's own an array of this library, which NumPy then asks."""

    def compute(*args: Any, **options: Any) -> Any:
        values = list(args)
        for i, x in enumerate(values[:2]):
            if not isinstance(x, str):  # the subscripts of einsum
                values[i] = _marked(x)
                break
        return _plain(function(*values, **options))

    return compute


def _made(function: Any) -> Callable[..., Any]:
    def compute(*args: Any, **options: Any) -> Any:
        return _marked(function(*args, **options))

    return compute
