"""Compiled functions in the mode: they run as they are written.

Compiled code makes small products itself and does not ask PyTorch's operators for them. There is one setting
for the process, so the contexts of all threads share it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

_lock = threading.Lock()
_eager = ExitStack()
_contexts = 0


@contextmanager
def run_eagerly() -> Iterator[None]:
    """Run functions compiled by `torch.compile`, before or within the context, uncompiled in all threads.

    The first context of a process imports PyTorch's compiler, about a second, if no optimizer has done so.
    """
    global _contexts
    with _lock:
        if not _contexts:
            try:
                _eager.enter_context(torch.compiler.set_stance("force_eager"))
            except RuntimeError as error:
                raise RuntimeError(
                    "ozaki.torch.reproducible cannot be entered within a compiled function; "
                    "enter it around the call"
                ) from error
        _contexts += 1
    try:
        yield
    finally:
        with _lock:
            _contexts -= 1
            if not _contexts:
                _eager.close()
