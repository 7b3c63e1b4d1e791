"""Two networks trained to one checkpoint: a GPT, and a residual network with batch norms and dropout.

    python -m benchmarks.two_networks --json benchmarks/results/two_networks_cpu.json
    python -m benchmarks.two_networks --size full --device cuda --json FILE
    python -m benchmarks.two_networks --size few [--device cuda] --json FILE

Some steps of AdamW with warm-up and clipping, dropout on, in `reproducible(everything=True)`, without and
with `ExactGradients`: with one thread and more, with the instructions of other CPUs (PyTorch's, OpenBLAS's),
the batch at once and in four parts, each in a process of its own; and with the parts divided between two
workers (gloo, or NCCL and two GPUs). With exact gradients all have to end in one fingerprint, of both models
and of what their optimizers keep; of two workers, whose running statistics are of their own samples, of
parameters instead of models. Without, all that train on the batch at once. Beside them PyTorch's own: seconds
of a step, on a CPU of processor time, since other work on the machine is not theirs, and the process's peak
of memory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

import ozaki.torch
from benchmarks.networks import BatchNorm, Sizes, Transformer, residual_network
from benchmarks.timing import compact
from multiword.runtime.arrays import import_cupy

F = nn.functional

WARM = 4
"""Steps in which the rate grows; the first compile."""

SIZES: dict[str, dict[str, Any]] = {
    "small": {"gpt": (Sizes(32, 4, 2, 64, 12, 0.1), 64), "resnet": (4, 10, 24), "batch": 64, "steps": 10},
    "medium": {"gpt": (Sizes(128, 4, 4, 512, 64, 0.1), 16), "resnet": (16, 10, 32), "batch": 64, "steps": 10},
    "full": {"gpt": (Sizes(dropout=0.1), 16), "resnet": (64, 1000, 224), "batch": 64, "steps": 10},
    "few": {"gpt": (Sizes(tokens=128, dropout=0.1), 4), "resnet": (64, 1000, 224), "batch": 4, "steps": 3},
}
"""The transformer's and samples of its batch; the residual network's width, classes and pixels, and samples
of its batch; steps of training. "few" is "full" with so few samples and tokens that a CPU takes seconds a
step."""

SETTINGS: dict[str, dict[str, Any]] = {
    "1 thread": {},
    "2 threads": {"threads": 2},
    "4 parts of the batch": {"parts": 4},
    "2 threads, 4 parts": {"threads": 2, "parts": 4},
    "PyTorch for AVX2": {"environment": {"ATEN_CPU_CAPABILITY": "avx2"}},
    "PyTorch without vectors": {"environment": {"ATEN_CPU_CAPABILITY": "default"}},
    "OpenBLAS for Haswell": {"environment": {"OPENBLAS_CORETYPE": "Haswell"}},
    "OpenBLAS for SandyBridge, 4 parts": {"environment": {"OPENBLAS_CORETYPE": "SandyBridge"}, "parts": 4},
    "8 threads": {"threads": 8},
    "4 parts, 2 workers": {"workers": 2, "parts": 4},
    "norms of the whole batch": {"whole": True},
}
"""What differs between runs on a CPU; a GPU has those in ON_GPUS. In all but the last batch norms are of a
quarter of the batch, so that it can be cut; the last one trains another network."""

MODES = PYTORCH, ALONE, EXACT = "PyTorch", "everything=True", "everything=True, ExactGradients"

ON_GPUS = "1 thread", "norms of the whole batch", "4 parts of the batch", "4 parts, 2 workers"

Batches = Callable[[int], tuple[Tensor, Tensor]]


def gpt(size: str, device: str) -> tuple[nn.Module, Batches]:
    """Return the transformer, and what makes the tokens of a step and those that follow them."""
    sizes, samples = SIZES[size]["gpt"]

    def batch(step: int) -> tuple[Tensor, Tensor]:
        tokens = torch.from_numpy(
            np.random.default_rng(step).integers(sizes.vocabulary, size=(samples, sizes.tokens + 1))
        ).to(device)
        return tokens[:, :-1], tokens[:, 1:]

    return Transformer(sizes).to(device), batch


def resnet(size: str, device: str) -> tuple[nn.Module, Batches]:
    """Return the residual network, and what makes the images of a step and their classes."""
    width, classes, pixels = SIZES[size]["resnet"]

    def batch(step: int) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(step)
        images = rng.integers(256, size=(SIZES[size]["batch"], 3, pixels, pixels))
        x = torch.from_numpy((images / 128 - 1).astype(np.float32))
        return x.to(device), torch.from_numpy(rng.integers(classes, size=len(x))).to(device)

    return residual_network(width, classes).to(device), batch


def trained(
    make: Any, size: str, device: str, parts: int, mode: str
) -> tuple[nn.Module, torch.optim.Optimizer, list[float]]:
    """Return a model and its optimizer after all steps, and seconds of each."""
    rank, workers = (distributed.get_rank(), distributed.get_world_size()) if _is_worker() else (0, 1)
    torch.manual_seed(1)
    model, batch = make(size, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM))
    gradients = ozaki.torch.ExactGradients(model.parameters()) if mode == EXACT else None
    seconds = []
    clock = time.perf_counter if device == "cuda" else time.process_time
    for step in range(SIZES[size]["steps"]):
        x, y = batch(step)
        start = clock()
        optimizer.zero_grad()
        for first, inputs, targets in [*cut(x, y, parts)][rank::workers]:
            with gradients.part(first, len(inputs)) if gradients else nullcontext():
                loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten(), reduction="sum")
                (loss / y.numel()).backward()
        if gradients:
            gradients.all_reduce() if workers > 1 else None
            gradients.write()
        elif workers > 1:
            for p in model.parameters():
                distributed.all_reduce(p.grad)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm_up.step()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(clock() - start)
    return model, optimizer, seconds


def cut(x: Tensor, y: Tensor, parts: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the place of the first sample of each part of a batch, its inputs and its targets."""
    n = len(x) // parts
    for first in range(0, len(x), n):
        yield first, x[first : first + n], y[first : first + n]


def run(size: str, device: str, threads: int, parts: int, whole: bool, mode: str) -> dict[str, Any]:
    """Train both networks here, and return fingerprints, seconds of a step and the peak of memory."""
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False  # its convolutions, too, are to be of float32
    BatchNorm.at_once = SIZES[size]["batch"] // (1 if whole else 4)
    row: dict[str, Any] = {}
    ours = ozaki.torch.reproducible(dtypes=torch.float32, everything=True)
    everything, parameters = [], []
    with ours if mode != PYTORCH else nullcontext():
        for name, make in {"gpt": gpt, "resnet": resnet}.items():
            model, optimizer, seconds = trained(make, size, device, parts, mode)
            everything.append([model.state_dict(), optimizer])
            parameters.append([dict(model.named_parameters()), optimizer])
            row[name] = round(median(seconds[min(2, len(seconds) - 1) :]), 4)
    row |= {"fingerprint": ozaki.fingerprint(everything), "parameters": ozaki.fingerprint(parameters)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if device == "cuda":  # of PyTorch's memory, and of CuPy's, where what is between is
        pool = import_cupy().get_default_memory_pool() if mode != PYTORCH else None
        peak = (torch.cuda.max_memory_allocated() + (pool.total_bytes() if pool else 0)) / 2**20
    row["MiB"] = round(peak)
    return row


def _is_worker() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def work(rank: int, folder: str, workers: int, device: str, given: tuple[Any, ...]) -> None:
    """Train as one of several workers; the first one writes what `run` returns."""
    backend = "gloo" if device == "cpu" else "nccl"
    store = f"file://{folder}/store"
    distributed.init_process_group(backend, init_method=store, rank=rank, world_size=workers)
    if device == "cuda":
        torch.cuda.set_device(rank)
    row = run(*given)
    if rank == 0:
        Path(folder, "row").write_text(json.dumps(row))
    distributed.destroy_process_group()


def in_a_process(options: argparse.Namespace, mode: str, setting: dict[str, Any]) -> dict[str, Any]:
    threads, parts, workers = (setting.get(name, 1) for name in ("threads", "parts", "workers"))
    command = [sys.executable, "-m", "benchmarks.two_networks", "--size", options.size, "--device"]
    command += [options.device, "--mode", mode, "--run", str(threads), str(parts), str(workers)]
    command += ["--whole"] * setting.get("whole", False)
    environment = {**os.environ, **setting.get("environment", {}), "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(options: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows so far, after each setting; AssertionError where fingerprints differ in the mode."""
    chosen, rows = SETTINGS, list[dict[str, Any]]()
    if options.device == "cuda":
        several = torch.cuda.device_count() > 1
        chosen = {name: SETTINGS[name] for name in ON_GPUS[: 4 if several else 3]}
    if options.settings is not None:
        chosen = {name: SETTINGS[name] for name in options.settings}
    for name, setting in chosen.items():
        for mode in options.modes:
            if mode == ALONE and setting.get("parts", 1) > 1:
                continue  # gradients of parts are rounded, and so depend on the cut
            if mode == EXACT and setting.get("whole"):
                continue  # which are for parts
            rows.append({"mode": mode, "setting": name, **in_a_process(options, mode, setting)})
            print(rows[-1], flush=True)
        yield rows
    for mode in (ALONE, EXACT):
        ours = [r for r in rows if r["mode"] == mode and "whole" not in chosen[r["setting"]]]
        alone = {r["fingerprint"] for r in ours if "workers" not in chosen[r["setting"]]}
        assert not ours or len({r["parameters"] for r in ours}) == 1 >= len(alone), ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small", help="of the networks; full is for a GPU")
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, help="which of them; all if not given")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES, help="likewise")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    parser.add_argument(
        "--run", type=int, nargs=3, metavar=("THREADS", "PARTS", "WORKERS"), help="a single run"
    )
    parser.add_argument("--whole", action="store_true", help="of a single run: batch norms of the batch")
    parser.add_argument("--mode", choices=MODES, default=EXACT, help="of a single run")
    parser.add_argument("--json", type=Path, help="where to write the results")
    options = parser.parse_args()
    if options.run:
        threads, parts, workers = options.run
        given = options.size, options.device, threads, parts, options.whole, options.mode
        if workers == 1:
            print(json.dumps(run(*given)))
            return
        with TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(work, (folder, workers, options.device, given), nprocs=workers)
            print(Path(folder, "row").read_text())
        return
    size = "" if options.size == "small" else f" --size {options.size}"
    size += " --device cuda" if options.device == "cuda" else ""
    record = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "command": f"python -m benchmarks.two_networks{size}",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "unit": "seconds of a step, medians, of a CPU's processor time; peak MiB of the process, or a GPU's",
    }
    for rows in measure(options):
        if options.json:
            options.json.write_text(compact(record | {"rows": rows}))


if __name__ == "__main__":
    main()
