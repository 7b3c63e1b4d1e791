"""The warning that data ask for several times the usual work."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ozaki.public import public
from ozaki.schemes import Scheme

TIMES = 4
"""Products beyond the usual, as a factor, that are worth a warning."""


@public("Plans and prepared operands")
class CostWarning(UserWarning):
    """The data ask for several times the usual number of low-precision products.

    The message says how many, because of what, and what would be cheaper.

    Attributes
    ----------
    args : the message.

    >>> import warnings, numpy as np, ozaki
    >>> x = np.ones((2, 2))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = ozaki.accurate_dgemm(np.array([[1e300, 1e-300]]), x, accuracy="exact")
    >>> [w.category.__name__ for w in caught]
    ['CostWarning']
    """


def is_costly(scheme: Scheme, usual: Scheme) -> bool:
    """Return whether a scheme takes many more products than that for ordinary data."""
    return scheme.products > TIMES * usual.products


_silent: ContextVar[bool] = ContextVar("_silent", default=False)


@contextmanager
def without_cost_warnings() -> Iterator[None]:
    """Warn nobody in this thread: Python's own filters are those of all threads."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def warn_of_cost(scheme: Scheme, usual: Scheme, accuracy: str) -> None:
    """Warn the caller if the scheme takes many more products than that for ordinary data."""
    if _silent.get() or not is_costly(scheme, usual):
        return
    widths = scheme.specification.widths
    cheaper = "a number of bits as accuracy"
    if accuracy == "exact":
        cheaper += " or accuracy='fp64'"
    warnings.warn(
        f"this product takes {scheme.products} {scheme.word} products where {usual.products} are usual: "
        f"the numbers of some rows of a or columns of b spread so far that accuracy {accuracy!r} needs "
        f"integers of {widths[0]} and {widths[1]} bits. Cheaper: {cheaper}",
        CostWarning,
        stacklevel=_callers_level(),
    )


def _callers_level() -> int:
    """Return how many frames up the caller of this library is."""
    level, frame = 1, sys._getframe(1)
    ours = "ozaki", "multiword"
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    return level
