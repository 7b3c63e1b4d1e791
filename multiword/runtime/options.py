"""What scalars and options accept, checked alike in every function, with messages that name the argument."""

from __future__ import annotations

import operator
from collections.abc import Collection
from numbers import Number
from typing import Any

import numpy as np
from numpy.exceptions import AxisError

from multiword.runtime.arrays import Array, as_array, converted, namespace, quietly
from multiword.runtime.readback import anywhere


def integer(name: str, x: Any) -> int:
    """Return x as an int. TypeError for anything that is no integer.

    >>> integer("workspace", 1e9)
    Traceback (most recent call last):
    ...
    TypeError: workspace must be an integer, got 1000000000.0
    """
    try:
        return operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {x!r}") from None


def check_choice(kind: str, x: Any, choices: Collection[str]) -> None:
    """Raise ValueError, listing the choices, for anything that is none of them.

    >>> check_choice("rounding", "up", ("RN", "RZ"))
    Traceback (most recent call last):
    ValueError: unknown rounding 'up'; known are RN, RZ
    """
    if not (isinstance(x, str) and x in choices):
        raise ValueError(f"unknown {kind} {x!r}; known are {', '.join(choices)}")


def workspace_bytes(workspace: Any) -> int:
    """Return a limit of working memory. TypeError for what is no integer, ValueError below one byte."""
    limit = integer("workspace", workspace)
    if limit < 1:
        raise ValueError(f"workspace must be positive, in bytes, got {workspace!r}")
    return limit


def transposition(name: str, trans: Any) -> bool | str:
    """Return how a matrix is transposed: False, True or "C". ValueError for anything else."""
    if isinstance(trans, str | int | np.bool_) and trans in (False, True, "C"):
        return trans if isinstance(trans, str) else bool(trans)
    raise ValueError(f"{name} must be False, True or 'C', got {trans!r}")


def axes(name: str, x: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that an int, a tuple of ints or None (all of them) names, not negative, each once.

    TypeError for anything else, ValueError for an axis that is not there, and for one named twice.

    >>> axes("axis", (0, -1), 3)
    (0, 2)
    """
    if x is None:
        return tuple(range(ndim))
    try:
        named = tuple(operator.index(a) for a in (x if isinstance(x, tuple) else (x,)))
    except TypeError:
        raise TypeError(f"{name} must be an integer, a tuple of integers or None, got {x!r}") from None
    for a in named:
        if not -ndim <= a < ndim:
            raise AxisError(f"{name} {a} is out of bounds for an array of {ndim} dimensions")
    result = tuple(a % ndim for a in named)
    if len(set(result)) < len(result):
        raise ValueError(f"{name} {x} names an axis twice")
    return result


def exactly(name: str, x: Array, dtype: Any) -> Array:
    """Return `x` in the dtype of a product: integers exactly, other numbers rounded where they must be."""
    if x.dtype == dtype:
        return x
    xp, dtype = namespace(x), np.dtype(dtype)
    if x.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"{name} must be real for a result of {dtype}, got dtype {x.dtype}")
    real = np.finfo(dtype)  # of its parts
    integers = x.dtype.kind in "iu" and 8 * x.dtype.itemsize > real.nmant  # that may be rounded
    with quietly(x):
        result = converted(x, dtype)
        back = result.real.astype(x.dtype) if integers else x
    if integers:
        # What is beyond the integers' range comes back as anything.
        beyond = result.real >= 2.0 ** (8 * x.dtype.itemsize - (x.dtype.kind == "i"))
        if anywhere(beyond | (back != x)):
            raise TypeError(
                f"{name} has integers that {dtype} cannot hold exactly (beyond 2**{real.nmant + 1}); "
                f"{name}.astype(np.{dtype}) rounds them, if that is what you want"
            )
    elif x.dtype.kind in "fc" and real.bits < np.finfo(x.dtype).bits:
        lost = xp.isfinite(x) & ~xp.isfinite(result)
        if anywhere(lost):
            raise ValueError(f"{name} has numbers out of the range of {dtype}")
    return result


def scalar(name: str, x: Any, dtype: Any) -> Any:
    """Return a factor of a product in a dtype, by the rule for the elements of arrays.

    TypeError for what is no number, and for integers that the dtype cannot hold; ValueError for numbers
    beyond its range.

    >>> scalar("alpha", 10**400, float)
    Traceback (most recent call last):
    ValueError: alpha is out of the range of float64
    """
    dtype = np.dtype(dtype)
    x = x.item() if isinstance(x, np.ndarray) and x.ndim == 0 else x
    if isinstance(x, int):  # perhaps one of more than 64 bits
        try:
            factor = dtype.type(x)
        except OverflowError:
            raise ValueError(f"{name} is out of the range of {dtype}") from None
        if not np.isfinite(factor) or int(factor.real) != x:
            raise TypeError(f"{name} is an integer that {dtype} cannot hold exactly; float({name}) rounds it")
        return factor
    if not isinstance(x, Number | np.generic) or np.asarray(x).dtype.kind not in "biufc":
        raise TypeError(f"{name} must be a number, got {x!r}")
    return exactly(name, as_array(x, name), dtype)[()]
