"""What texts are made of: Python that numba compiles as it stands, and which is printed for a GPU.

A text is a function of numbers and of C-contiguous arrays. Its loops over `across` have iterations that do
not depend on one another, and that write to different numbers; they call functions of numbers alone. A
variable is first assigned in the block that encloses its uses, and keeps its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

TEXTS: list[Callable[..., Any]] = []
"""All texts, those that are called before those that call them."""

across = range
"""The numbers of a loop whose iterations may go in any order, or at once."""


def text(function: F) -> F:
    """Add a function to the texts."""
    TEXTS.append(function)
    return function


def place(i: int) -> int:
    """Return which part of scratch memory iteration i of a loop over `across` has: one thread needs one."""
    return 0 * i


def exponent(x: float) -> int:
    """Return e with 2**(e - 1) <= x < 2**e; 0 of 0."""
    return math.frexp(x)[1]


def parts_of(x: Any) -> int:
    """Return of how many real numbers the numbers of an array are: 1, or 2 of complex ones."""
    return 2 if x.dtype.kind == "c" else 1


def number(like: Any, real: float, imaginary: float) -> Any:
    """Return a number of an array's kind."""
    return complex(real, imaginary) if like.dtype.kind == "c" else real


def bits(x: float) -> int:
    """Return the bits of a float64 as an integer."""
    return int(np.float64(x).view(np.int64))


def from_bits(x: int) -> float:
    """Return the float64 of such bits."""
    return float(np.int64(x).view(np.float64))
