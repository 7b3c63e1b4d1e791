"""What a float32 training step costs in `ozaki.torch.reproducible`, beside PyTorch's own.

    python -m benchmarks.training --json benchmarks/results/training_cpu.json
    python -m benchmarks.training --gpu --json benchmarks/results/training_h200.json

On a CPU networks of three linear layers, by processor time, since other work on the machine is not theirs; on
a GPU a transformer of 124 million parameters with 8 sequences of 1,024 tokens, TF32 off, by the time between
synchronizations: of single steps, and of four that nobody waits for in between. Both in turns, medians.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import ozaki.torch
from benchmarks.networks import Sizes, Transformer
from benchmarks.timing import compact

LAYERS = ((64, 64), (256, 128), (512, 256), (1024, 256))
"""Units and batches of the networks on a CPU."""

SEQUENCES = 8
"""Of a batch of the transformer."""

TURNS = {"cpu": 5, "cuda": 5}

F = nn.functional


def network(units: int, batch: int) -> tuple[nn.Module, Callable[[], Tensor]]:
    """Three linear layers, and their loss."""
    model = nn.Sequential(
        *(nn.Linear(units, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, units))
    )
    x, y = torch.randn(2, batch, units)
    return model, lambda: F.mse_loss(model(x), y)


def transformer() -> tuple[nn.Module, Callable[[], Tensor]]:
    """The transformer on a GPU, and its loss on random tokens."""
    sizes = Sizes()
    model = Transformer(sizes).cuda()
    x, y = torch.randint(sizes.vocabulary, (2, SEQUENCES, sizes.tokens), device="cuda")
    return model, lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def in_turns(model: nn.Module, loss: Callable[[], Tensor], device: str, steps: int = 1) -> dict[str, Any]:
    """Seconds of a step, natively and in the mode, of so many at once; what the mode replaced in one."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    clock = time.perf_counter if device == "cuda" else time.process_time
    spent: dict[str, list[float]] = {"native": [], "mode": []}
    calls: Any = {}
    for _ in range(TURNS[device] + 3):  # the first compile and capture
        for way, seconds in spent.items():
            start = clock()
            mode = ozaki.torch.reproducible(dtypes=torch.float32) if way == "mode" else nullcontext({})
            with mode as found:
                for _ in range(steps):
                    optimizer.zero_grad()
                    loss().backward()
                    optimizer.step()
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append((clock() - start) / steps)
            calls = {name: count // steps for name, count in found.items()} or calls
    seconds = {way: median(times[3:]) for way, times in spent.items()}
    ratio = seconds["mode"] / seconds["native"]
    return {**seconds, "ratio": round(ratio, 2), "replaced": calls}


def measure(device: str) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    models = (
        {"transformer": transformer()}
        if device == "cuda"
        else {f"3 layers of {units}, batch {batch}": network(units, batch) for units, batch in LAYERS}
    )
    rows = []
    for name, (model, loss) in models.items():
        parameters = sum(p.numel() for p in model.parameters())
        for steps in (1, 4) if device == "cuda" else (1,):
            at_once = f"{name}, {steps} steps at once" if steps > 1 else name
            row: dict[str, Any] = {"model": at_once, "parameters": parameters}
            rows.append(row | in_turns(model, loss, device, steps))
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on an NVIDIA GPU instead of the CPU")
    parser.add_argument("--json", type=Path, help="where to write the results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    target = f"{' --gpu' if options.gpu else ''}{f' --json {options.json}' if options.json else ''}"
    record = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if options.gpu else platform.machine(),
        "command": f"python -m benchmarks.training{target}",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "unit": "seconds of a step, medians",
        "rows": measure("cuda" if options.gpu else "cpu"),
    }
    if options.json:
        options.json.write_text(compact(record))


if __name__ == "__main__":
    main()
