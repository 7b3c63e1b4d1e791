"""What was asked of PyTorch's operators, for the thread that asked.

PyTorch carries these objects, as it carries the gradient mode, to the threads of a backward pass.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import cast

import torch

ACCURACY = "normwise"
"""What products are computed to if nothing is said: an element depends on its row and column alone."""

_KEY = "ozaki.torch.settings"
_is_set, _get = torch._C._is_key_in_tls, torch._C._get_obj_in_tls


@dataclass(frozen=True)
class Settings:
    """What a `reproducible` context asks for.

    Attributes
    ----------
    accuracy : of products.
    dtypes : of the tensors whose operators are replaced.
    sums : whether sums and means are replaced, too.
    calls : how often each operator was computed by this library.
    """

    accuracy: str | int
    dtypes: frozenset[torch.dtype]
    sums: bool
    calls: Counter[str] = field(default_factory=Counter)


def active() -> Settings | None:
    """What this thread has asked for, or the thread whose backward pass it works for."""
    return cast(Settings, _get(_KEY)) if _is_set(_KEY) else None


def activate(settings: Settings | None) -> None:
    """Ask for that from now on; None for PyTorch's own operators."""
    if settings is not None:
        torch._C._stash_obj_in_tls(_KEY, settings)
    elif _is_set(_KEY):
        torch._C._remove_obj_from_tls(_KEY)
