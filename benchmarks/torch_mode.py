"""What `ozaki.torch.reproducible` costs beside the product: microseconds a call.

    python -m benchmarks.torch_mode --json benchmarks/results/torch_cpu.json
    python -m benchmarks.torch_mode --gpu --json benchmarks/results/torch_h200.json

Each operator is called in the mode with `ozaki.matmul` replaced by a function that returns a ready result at
once: what is left is PyTorch's dispatch, the conversions, and alpha·R + beta·C. The same of PyTorch's own
kernels, in and out of the mode, and of whole calls.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import ozaki.torch
from benchmarks.timing import compact
from multiword.runtime.tensors import array_of
from ozaki.torch import products

N, ROUNDS, CALLS = 16, 200, 10


def microseconds(work: Callable[[], Any], calls: int = CALLS) -> float:
    """A call, of the least disturbed of many short rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return round(1e6 * min(times), 1)


def measure(device: str) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    a, b, c = (torch.randn(N, N, dtype=torch.float64, generator=generator).to(device) for _ in range(3))
    works = {
        "mm": (lambda: torch.mm(a, b), (a, b)),
        "addmm": (lambda: torch.addmm(c, a, b), (a, b)),
        "bmm": (lambda: torch.bmm(a[None], b[None]), (a[None], b[None])),
        "mv": (lambda: torch.mv(a, b[0]), (a, b[0])),
        "dot": (lambda: torch.dot(a[0], b[0]), (a[0], b[0])),
    }
    natives = {name: microseconds(work) for name, (work, _) in works.items()}  # before anything is replaced
    rows = []
    for name, (work, factors) in works.items():
        arrays = [array_of(x) for x in factors]
        ready = products.matmul(*arrays, accuracy="normwise")
        with ozaki.torch.reproducible():
            whole = microseconds(work, 1)
            with patch.object(products, "matmul", lambda *_, ready=ready, **__: ready):
                overhead = microseconds(work)
        with ozaki.torch.reproducible(dtypes=(torch.float32,)):
            passed = microseconds(work)
        alone = microseconds(lambda arrays=arrays: products.matmul(*arrays, accuracy="normwise"), 1)
        rows.append(
            {
                "operator": name,
                "native": natives[name],
                "native_in_the_mode": passed,
                "ozaki_matmul": alone,
                "in_the_mode": whole,
                "overhead": overhead,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on an NVIDIA GPU instead of the CPU")
    parser.add_argument("--json", type=Path, help="where to write the results")
    options = parser.parse_args()
    target = f"{' --gpu' if options.gpu else ''}{f' --json {options.json}' if options.json else ''}"
    record = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if options.gpu else f"CPU, {platform.machine()}",
        "command": f"python -m benchmarks.torch_mode{target}",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "n": N,
        "unit": "microseconds a call",
        "operators": measure("cuda" if options.gpu else "cpu"),
    }
    if options.json:
        options.json.write_text(compact(record))


if __name__ == "__main__":
    main()
