"""What `ozaki.torch.reproducible` costs beside the product: microseconds a call, and where they go.

    python -m benchmarks.torch_mode --json benchmarks/results/torch_cpu.json
    python -m benchmarks.torch_mode --gpu --json benchmarks/results/torch_h200.json

Each operator of PyTorch's, this library's function of arrays and of tensors, and the operator in the mode, in
turns, each call on an idle device: the host's time until it returns, and the time until all is done. Then the
steps of a call, as they are timed within it; what is left of the mode's is PyTorch's dispatch. A step takes
longer there than in a loop of its own, because what runs in between displaces it from the processor's caches;
so does the product itself.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import ozaki
import ozaki.torch
from benchmarks.timing import compact
from multiword.runtime.graphs import Graph
from multiword.runtime.tensors import array_of
from ozaki.execution import step_by_step
from ozaki.torch import products, reductions

SIZES = {"cpu": (16, 64), "cuda": (64, 256, 1024)}
"""n, of (n, n) matrices."""

ROUNDS, WARM, SECONDS = 300, 10, 2.0
"""Calls that are timed, and before them; seconds after which an operator has had enough turns."""

STEPS = (
    "_fit",
    "_addable",
    "stream_of",
    "array_of",
    "multiply",
    "multiply_stacks",
    "combine",
    "tensor_of",
    "delivered",
)
"""Those of a call in the mode, one after another."""

WITHIN = ((step_by_step, "empty_result"), (Graph, "replay"))
"""Those of a product on a GPU that move with its memory."""

Work = Callable[[], Any]


@dataclass(frozen=True)
class Operator:
    """One of PyTorch's, and what computes the same here of arrays or tensors."""

    native: Callable[..., Any]
    ours: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]

    def variants(self) -> dict[str, tuple[Callable[[], AbstractContextManager[Any]], Work]]:
        """What is compared, and the contexts that it runs in."""
        arrays = [array_of(x) for x in self.tensors]
        return {
            "native": (nullcontext, lambda: self.native(*self.tensors)),
            "arrays": (nullcontext, lambda: self.ours(*arrays)),
            "tensors": (nullcontext, lambda: self.ours(*self.tensors)),
            "mode": (lambda: ozaki.torch.reproducible(sums=True), lambda: self.native(*self.tensors)),
        }


def operators(n: int, device: str) -> dict[str, Operator]:
    generator = torch.Generator().manual_seed(1)
    a, b, c = (torch.randn(n, n, dtype=torch.float64, generator=generator).to(device) for _ in range(3))
    v, stacks = b[0].clone(), (torch.stack([a, b]), torch.stack([b, c]))

    def product(x: Any, y: Any) -> Any:
        return ozaki.matmul(x, y, accuracy="normwise")

    def added(c: Any, a: Any, b: Any) -> Any:
        return ozaki.accurate_dgemm(a, b, beta=1.0, c=c, accuracy="normwise")

    return {
        "mm": Operator(torch.mm, product, (a, b)),
        "addmm": Operator(torch.addmm, added, (c, a, b)),
        "bmm": Operator(torch.bmm, product, stacks),
        "mv": Operator(torch.mv, product, (a, v)),
        "dot": Operator(torch.dot, product, (v, v)),
        "sum": Operator(torch.sum, ozaki.sum, (a,)),
    }


def in_turns(operator: Operator) -> dict[str, dict[str, float]]:
    """Median microseconds of a call: until it returns, and until the device is done."""
    times = defaultdict[str, list[tuple[int, int]]](list)
    variants, end = operator.variants(), time.perf_counter() + SECONDS
    for turn in range(ROUNDS + WARM):
        for name, (context, work) in variants.items():
            with context():
                start = time.perf_counter_ns()
                result = work()
                returned = time.perf_counter_ns()
                synchronize()
                times[name].append((returned - start, time.perf_counter_ns() - start))
                del result
        if turn > 2 * WARM and time.perf_counter() > end:
            break
    of_calls = {name: zip(*found[WARM:], strict=True) for name, found in times.items()}
    return {
        name: dict(zip(("host", "done"), map(microseconds, pair), strict=True))
        for name, pair in of_calls.items()
    }


def steps_of(operator: Operator, variant: str, rounds: int) -> dict[str, float]:
    """Median microseconds of the steps of a call, each in all, and of the call itself."""
    context, work = operator.variants()[variant]
    found = defaultdict[str, list[int]](list)
    with context(), timed_steps() as spent:
        for _ in range(rounds + WARM):
            spent.clear()
            start = time.perf_counter_ns()
            result = work()
            spent["call"] = time.perf_counter_ns() - start
            synchronize()
            for name, time_spent in spent.items():
                found[name].append(time_spent)
            del result
    medians = {name: microseconds(times[WARM:] or times) for name, times in found.items()}
    return medians | {"rest": round(medians["call"] - sum(medians.get(name, 0) for name in STEPS), 1)}


@contextmanager
def timed_steps() -> Iterator[dict[str, int]]:
    """A context in which the steps note how long they took."""
    spent = defaultdict[str, int](int)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return function(*arguments, **options)
            finally:
                spent[name] += time.perf_counter_ns() - start

        return call

    def timed_context(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def context(*arguments: Any) -> Iterator[None]:
            start = time.perf_counter_ns()
            with make(*arguments):
                spent[name] += time.perf_counter_ns() - start
                yield
                start = time.perf_counter_ns()
            spent[name] += time.perf_counter_ns() - start

        return context

    with ExitStack() as patched:
        for owner, name in (*((m, s) for m in (products, reductions) for s in STEPS), *WITHIN):
            if (step := getattr(owner, name, None)) is not None:
                around = timed_context if name == "stream_of" else timed
                patched.enter_context(patch.object(owner, name, around(name, step)))
        yield spent


def microseconds(times: Any) -> float:
    return round(median(times) / 1e3, 1)


def synchronize() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def measure(device: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    rows = []
    for n in sizes:
        for name, operator in operators(n, device).items():
            times = in_turns(operator)
            rounds = max(WARM, min(ROUNDS, int(1e6 * SECONDS / 4 / times["mode"]["done"])))
            steps = {variant: steps_of(operator, variant, rounds) for variant in ("arrays", "mode")}
            more = round(times["mode"]["host"] - times["arrays"]["host"], 1)
            rows.append({"operator": name, "n": n, "more": more, "times": times, "steps": steps})
            print(f"{name} {n}: in the mode {more} more than of arrays")
            for what, of in {**times, **{f"steps, {x}": y for x, y in steps.items()}}.items():
                print(f"    {what:14} {', '.join(f'{key} {value}' for key, value in of.items())}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true", help="on an NVIDIA GPU instead of the CPU")
    parser.add_argument("--sizes", type=int, nargs="+", help="n of the (n, n) matrices")
    parser.add_argument("--json", type=Path, help="where to write the results")
    options = parser.parse_args()
    device = "cuda" if options.gpu else "cpu"
    torch.set_num_threads(1)  # whose threads would wait for work where NumPy's are to run
    target = f"{' --gpu' if options.gpu else ''}{f' --json {options.json}' if options.json else ''}"
    record = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if options.gpu else platform.machine(),
        "command": f"python -m benchmarks.torch_mode{target}",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "unit": "microseconds a call, medians",
        "operators": measure(device, tuple(options.sizes or SIZES[device])),
    }
    if options.json:
        options.json.write_text(compact(record))


if __name__ == "__main__":
    main()
