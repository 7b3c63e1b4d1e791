"""What was asked of PyTorch's operators, for the thread that asked.

PyTorch carries these objects, as it carries the gradient mode, to the threads of a backward pass.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import cast

import torch

from multiword.runtime.arrays import Array, is_cupy
from ozaki.arguments import request_of
from ozaki.product.request import Request

ACCURACY = "normwise"
"""What products are computed to if nothing is said: an element depends on its row and column alone."""

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""Of tensors that are multiplied and summed."""

_KEY = "ozaki.torch.settings"
_is_set, _get, _stash = torch._C._is_key_in_tls, torch._C._get_obj_in_tls, torch._C._stash_obj_in_tls


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
    _requests: dict[int | None, Request] = field(default_factory=dict, init=False, repr=False)

    def request(self, like: Array) -> Request:
        """How products of arrays on the device of this one are asked for."""
        device = like.data.device_id if is_cupy(like) else None
        if device not in self._requests:
            self._requests[device] = request_of(like, self.accuracy, "auto", None, "auto", None)
        return self._requests[device]


def active() -> Settings | None:
    """What this thread has asked for, or the thread whose backward pass it works for."""
    return cast("Settings | None", _get(_KEY)) if _is_set(_KEY) else None


def activate(settings: Settings | None) -> None:
    """Ask for that from now on; None for PyTorch's own operators."""
    if _STEALS:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(settings))
    _stash(_KEY, settings)


def _steals_references() -> bool:
    """Whether PyTorch, as 2.11 does, gives up a reference in the end to what it carries, but takes none."""
    probe = object()
    before = sys.getrefcount(probe)
    _stash(f"{_KEY}.probe", probe)
    steals = sys.getrefcount(probe) == before
    if steals:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(probe))
    return steals


_STEALS = _steals_references()
