"""Integers reduced in float64 operations, and tables of a residue number system on a device."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType

import numpy as np

from multiword.engines.moduli import ResidueSystem
from multiword.runtime.arrays import Array
from multiword.runtime.graphs import retained

SPLIT = 27
"""Integers are reduced in two halves, cut at this bit, so that nothing exceeds 53 bits."""

QUOTIENT = 1.5 * 2.0**52
"""Adding it and taking it off again rounds numbers below 2**51 to integers."""

Table = Callable[[ResidueSystem, int], np.ndarray]


@lru_cache(2048)
def _on_device(make: Table, system: ResidueSystem, argument: int, device: int, xp: ModuleType) -> Array:
    del device  # part of the key: the copy lies there
    table = xp.asarray(make(system, argument))
    xp.cuda.get_current_stream().synchronize()  # other streams will read it
    return table


def on_device(make: Table, system: ResidueSystem, argument: int, xp: ModuleType) -> Array:
    """Return make(system, argument) on the current device; graphs that read it keep it."""
    return retained(_on_device(make, system, argument, xp.cuda.runtime.getDevice(), xp))


def reduce(
    x: np.ndarray,
    p: float | np.ndarray,
    inverse: float | np.ndarray,
    scratch: np.ndarray | None = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return x mod p, in place or in `out`, for integers |x| < 2**53: of least magnitude where |x| < 2**51.

    Beyond, the quotient may be rounded to the wrong side of one half: at most p/2 + 2 then.
    """
    quotient = np.multiply(x, inverse, out=scratch)
    np.rint(quotient, out=quotient)
    quotient *= p
    return np.subtract(x, quotient, out=x if out is None else out)
