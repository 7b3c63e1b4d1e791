"""Compiled functions in the mode: they run as they are written.

Compiled code makes small products itself and does not ask PyTorch's operators for them. There is one setting
for the process, so the blocks of all threads share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch

from ozaki.modes import Shared

_eager = Shared(partial(torch.compiler.set_stance, "force_eager"))


@contextmanager
def run_eagerly() -> Iterator[None]:
    """Run functions compiled by `torch.compile`, before or within the context, uncompiled in all threads.

    The first context of a process imports PyTorch's compiler, about a second, if no optimizer has done so.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_eager())
        except RuntimeError as error:
            raise RuntimeError(
                "ozaki.torch.reproducible cannot be entered within a compiled function; "
                "enter it around the call"
            ) from error
        yield
