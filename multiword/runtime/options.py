"""What options accept, checked alike in every function, with messages that name the option."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


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
        given = tuple(operator.index(a) for a in (x if isinstance(x, tuple) else (x,)))
    except TypeError:
        raise TypeError(f"{name} must be an integer, a tuple of integers or None, got {x!r}") from None
    for a in given:
        if not -ndim <= a < ndim:
            raise ValueError(f"{name} {a} is out of bounds for an array of {ndim} dimensions")
    result = tuple(a % ndim for a in given)
    if len(set(result)) < len(result):
        raise ValueError(f"{name} {x} names an axis twice")
    return result
