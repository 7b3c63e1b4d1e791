"""The settings of the mode, in each context: which `reproducible` blocks are open, and what they ask for.

They are kept in a context variable, so they follow asyncio's tasks. The threads on which PyTorch computes a
backward pass see nothing of it; to them PyTorch carries an object, as it carries the gradient mode.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, is_cupy
from ozaki.arguments import request_of
from ozaki.modes import Modes, innermost
from ozaki.product.request import Request, forced
from ozaki.torch.notes import AddTerms, Part

ACCURACY = "normwise"
"""The default accuracy of products: an element depends on its row and its column alone."""

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""The dtypes of tensors that are multiplied and summed."""

HALVES = {torch.float16: FORMATS["fp16"], torch.bfloat16: FORMATS["bf16"]}
"""Half precision, of which products, "normwise", and sums are replaced; their formats."""

REPLACEABLE = (*DTYPES, torch.int64, *HALVES)
"""The dtypes of the products that the mode replaces on request."""


@dataclass(eq=False)
class Settings:
    """The settings of one `reproducible` block.

    Attributes
    ----------
    accuracy : of products.
    dtypes : of the tensors whose operators are replaced, but for halves.
    sums : whether sums and means are replaced, too.
    calls : how often each operator was computed by this library.
    strict : whether an operator whose bits may vary raises RuntimeError.
    everything : whether functions, activations, softmax, norms, losses and look-ups are replaced, too.
    halves : half precision of which products, and sums if asked, are replaced.
    native : how many products, convolutions and solves PyTorch computed itself, by operator and dtype.
    varying : how many other calls PyTorch computed whose bits may vary, by operator.
    is_open : whether the block is still being run.
    part : the part of a batch whose gradients are added exactly, if any is.
    """

    accuracy: str | int
    dtypes: frozenset[torch.dtype]
    sums: bool
    strict: bool = False
    everything: bool = False
    halves: frozenset[torch.dtype] = frozenset()
    calls: Counter[str] = field(default_factory=Counter)
    native: Counter[tuple[str, torch.dtype]] = field(default_factory=Counter)
    varying: Counter[str] = field(default_factory=Counter)
    is_open: bool = True
    part: Part | None = None
    _requests: dict[tuple[int | None, str | None, Format | None], Request] = field(
        default_factory=dict, init=False, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def request(self, like: Array, target: Format | None = None) -> Request:
        """Return the request for products of arrays on the device of this one, rounded to a half if named."""
        key = like.data.device_id if is_cupy(like) else None, forced.value, target
        if key not in self._requests:
            request = request_of(like, self.accuracy, "auto", None, "auto", None)
            self._requests[key] = request._replace(target=target)
        return self._requests[key]

    def note(
        self, result: torch.Tensor, add: AddTerms, of: Sequence[torch.Tensor] = (), summed: bool = True
    ) -> torch.Tensor:
        """Return a sum, of which `add` adds the exact terms to an accumulator of its shape (`Notes.note`)."""
        if self.part is not None:
            self.part.notes.note(result, add, of, summed)
        return result

    def count(self, operator: str) -> None:
        """Count a call that this library has computed; backward passes count from several threads."""
        with self._lock:
            self.calls[operator] += 1

    def count_native(self, operator: str, dtype: torch.dtype) -> None:
        """Count a product, convolution or solve that PyTorch has computed itself."""
        with self._lock:
            self.native[operator, dtype] += 1

    def count_varying(self, operator: str) -> None:
        """Count another call that PyTorch has computed itself, and whose bits may vary."""
        with self._lock:
            self.varying[operator] += 1


_modes: Modes[Settings] = Modes("ozaki.torch")

_KEY = "ozaki.torch.modes"
_is_set, _get, _stash = torch._C._is_key_in_tls, torch._C._get_obj_in_tls, torch._C._stash_obj_in_tls


def enter(settings: Settings) -> None:
    """Make these the settings of the context."""
    _modes.enter(settings)
    active()


def leave(settings: Settings) -> None:
    """End these settings in every context; the innermost of those still open holds from now on."""
    _modes.leave(settings)
    active()


def active() -> Settings | None:
    """Return the settings that hold here: of the innermost open mode, or None outside of all modes.

    The modes of this context come after those of the caller whose backward pass this thread computes. What
    PyTorch carries is (thread, modes of its caller, modes of its own). It is brought up to date here, that is
    with every operator, since a task that is resumed says nothing.
    """
    entered, here = _modes.entered(), threading.get_ident()
    thread, outer, carried = _get(_KEY) if _is_set(_KEY) else (here, (), ())
    if thread != here:  # carried here for a backward pass
        outer, carried = outer + carried, ()
    if carried != entered:
        _carry((here, outer, entered))
    return innermost(outer + entered if outer else entered)


def _carry(modes: tuple[int, tuple[Settings, ...], tuple[Settings, ...]]) -> None:
    if _STEALS:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(modes))
    _stash(_KEY, modes)


def _steals_references() -> bool:
    """Return whether PyTorch, as 2.11 does, in the end gives up a reference that it has not taken."""
    probe = object()
    before = sys.getrefcount(probe)
    _stash(f"{_KEY}.probe", probe)
    steals = sys.getrefcount(probe) == before
    if steals:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(probe))
    return steals


_STEALS = _steals_references()
