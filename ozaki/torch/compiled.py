"""Compiled functions in the mode: they run as they are written.

Compiled code makes small products itself and does not ask PyTorch's operators for them. There is one setting
for the process, so the contexts of all threads share it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

_lock = threading.Lock()
_eager = ExitStack()
_contexts = 0


@contextmanager
def run_eagerly() -> Iterator[None]:
    """A context in which functions compiled by `torch.compile` before are run uncompiled, in all threads."""
    global _contexts
    if "torch._dynamo" not in sys.modules:  # nothing has been compiled, and its import takes seconds
        yield
        return
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
