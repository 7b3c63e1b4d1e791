"""PyTorch's own operators, replaced: this library's kernels under the names `aten::mm` and so on.

They are registered once for the process, when the mode is first entered. In a thread that has not asked for
them, and for whatever else they are not meant for, they call the kernels that they replaced.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ozaki.torch import attention, products, reductions
from ozaki.torch.settings import active

_DEVICES = ("CPU", "CUDA") if torch.version.cuda else ("CPU",)

_KERNELS: dict[str, Callable[..., Any]] = {
    **products.KERNELS,
    **reductions.KERNELS,
    **attention.KERNELS,
}

_lock = threading.Lock()
_libraries: list[torch.library.Library] = []


def register() -> None:
    """Register the kernels, unless they are."""
    with _lock:
        if _libraries:
            return
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*previously registered kernel", UserWarning)
            for name, compute in _KERNELS.items():
                for device in ("CPU",) if name in attention.KERNELS else _DEVICES:
                    library.impl(name, _kernel(name, device, compute), device, with_keyset=True)
        _libraries.append(library)


def _kernel(name: str, device: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """An operator's kernel on a device: what computes it in the mode, or else the kernel that it replaces."""
    native = torch.library.get_kernel(f"aten::{name}", device)
    operator = name.partition(".")[0].rstrip("_")

    def kernel(keys: Any, first: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        settings = active()
        if settings is not None and first.dtype in settings.dtypes:
            result = compute(settings, first, *arguments, **options)
            if result is not None:
                settings.calls[operator] += 1
                return result
        return native.call_boxed(keys, first, *arguments, **options)

    return kernel
