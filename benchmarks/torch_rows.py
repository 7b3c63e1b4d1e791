"""Functions of rows, and products of half precision in the mode, on a GPU beside PyTorch's.

    python -m benchmarks.torch_rows --json benchmarks/results/torch_rows_h200.json

Seconds of a call among many one after another and of a call alone, by events around it; of functions of rows
also those that the GPU itself works, by its own clock: Python takes longer for a call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import ozaki.torch
from benchmarks.dgemm import versions
from benchmarks.timing import publish, settled
from multiword.runtime.arrays import import_cupy

SHAPES = ((16384, 768), (512, 8192), (65536, 64))
SIZES = (1024, 2048, 4096, 8192)
CALLS = 20

F = torch.nn.functional
Work = Callable[[], Any]


def functions(m: int, n: int) -> Iterator[tuple[str, Work, Work]]:
    """Yield functions of float32 rows: a name, PyTorch's and ours."""
    x, weight, bias = (torch.randn(*shape, device="cuda") for shape in ((m, n), (n,), (n,)))
    for name in ("softmax", "log_softmax", "logsumexp"):
        native, own = getattr(torch, name), getattr(ozaki.torch, name)
        yield name, lambda f=native: f(x, -1), lambda f=own: f(x, -1)  # type: ignore[misc]
    shape = (n,)
    yield (
        "layer_norm",
        lambda: F.layer_norm(x, shape, weight, bias),
        lambda: ozaki.torch.layer_norm(x, shape, weight, bias),
    )
    yield "rms_norm", lambda: F.rms_norm(x, shape), lambda: ozaki.torch.rms_norm(x, shape)


def on_device(work: Work) -> float:
    """Seconds of a call that the GPU works."""
    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(CALLS):
            work()
        torch.cuda.synchronize()
    kernels = (e for e in found.events() if e.device_type == torch.autograd.DeviceType.CUDA)
    return float(sum(e.device_time for e in kernels)) / CALLS / 1e6


def rows() -> Iterator[dict[str, Any]]:
    """Measure functions of rows."""
    for shape in SHAPES:
        for name, native, ours in functions(*shape):
            times = settled({"native": native, "ours": ours})
            for who, work in (("native", native), ("ours", ours)):
                queued, alone = times[who]
                found = {"queued": queued, "alone": alone, "device": on_device(work)}
                yield {"function": name, "shape": shape, "who": who, **found}


def products() -> Iterator[dict[str, Any]]:
    """Measure products of half precision."""
    for dtype in (torch.bfloat16, torch.float16):
        for n in SIZES:
            a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
            native = settled({"native": lambda a=a, b=b: a @ b})["native"]
            with ozaki.torch.reproducible(dtypes=dtype):
                ours = settled({"ours": lambda a=a, b=b: a @ b})["ours"]
            for who, (queued, alone) in (("native", native), ("ours", ours)):
                yield {"dtype": str(dtype), "n": n, "who": who, "queued": queued, "alone": alone}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record = {
        "date": str(date.today()),
        "command": "python -m benchmarks.torch_rows",
        "environment": versions(import_cupy()) | {"torch": torch.__version__},
        "unit": "seconds of a call: one after another, alone, and of the GPU's own clock",
        "rows": list(rows()),
        "products": list(products()),
    }
    publish(record, options.json)


if __name__ == "__main__":
    main()
