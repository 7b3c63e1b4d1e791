"""`python -m benchmarks.int8_cpu`: products on int8 words against the native routines of a CPU, in turns.

For each size and dtype, NumPy's matmul, PyTorch's and ours take turns in one process; before each, a pause in
which the threads of a BLAS stop spinning. Figures are medians. `core` names OpenBLAS's kernels, which
OPENBLAS_CORETYPE=Haswell or SkylakeX forces. --threads limits all of them. Beside them the byte products of
onnxruntime and PyTorch, alone: of one modulus, not reduced.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.engines.int8_cpu.threads import available_threads

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
DTYPES = ("float64", "complex128", "float32")
SECONDS = 1.5
"""Of turns for a row, at least three."""

PAUSE = 0.12
"""Seconds for which threads of OpenBLAS spin after a product, and a little more."""

Works = dict[str, Callable[[], object]]


def gemms(n: int, dtype: str, kernels: list[str]) -> Works:
    """The products of one row, by name."""
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n, n))
    if dtype.startswith("complex"):
        a, b = a + 1j * b, b - 1j * a.T
    a, b = a.astype(dtype), b.astype(dtype)
    out = np.empty_like(a)
    works: Works = {"numpy": lambda: np.matmul(a, b, out=out)}
    works |= {
        "ours": lambda: ozaki.matmul(a, b),
        "ours, normwise": lambda: ozaki.matmul(a, b, accuracy="normwise"),
    }
    works["ours, fp64 words"] = lambda: ozaki.matmul(a, b, engine="host")
    works["ours, int8 words"] = lambda: ozaki.matmul(a, b, engine="int8_cpu")
    if n <= 2048:
        works["ours, exact"] = lambda: ozaki.matmul(a, b, accuracy="exact")
    for kernel in kernels:
        works[f"ours, {kernel}"] = partial(ozaki.matmul, a, b, engine=f"int8_cpu:{kernel}")
    try:
        import torch

        x, y, z = map(torch.from_numpy, (a, b, np.empty_like(a)))
        works["torch"] = lambda: torch.matmul(x, y, out=z)
    except ImportError:
        pass
    return works


def byte_products(n: int) -> Works:
    """Products of bytes by other libraries, where they are installed."""
    rng, works = np.random.default_rng(n), Works()
    a, b = rng.integers(0, 255, (n, n), dtype=np.uint8), rng.integers(-128, 127, (n, n), dtype=np.int8)
    try:
        session = _onnx_session(n)
        works["onnxruntime"] = lambda: session.run(None, {"a": a, "b": b})
    except ImportError:
        pass
    try:
        import torch

        x, y = torch.from_numpy(a.view(np.int8)), torch.from_numpy(b)
        works["torch._int_mm"] = lambda: torch._int_mm(x, y)
    except (ImportError, AttributeError):
        pass
    return works


def _onnx_session(n: int) -> Any:
    import onnxruntime
    from onnx import TensorProto, helper

    node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    values = [
        helper.make_tensor_value_info(name, kind, [n, n])
        for name, kind in (("a", TensorProto.UINT8), ("b", TensorProto.INT8), ("c", TensorProto.INT32))
    ]
    graph = helper.make_graph([node], "product", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = available_threads()
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def in_turns(works: Works, seconds: float) -> dict[str, float]:
    """The median time of each, in seconds."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    begin = time.perf_counter()
    while min(map(len, times.values())) < 3 or time.perf_counter() - begin < seconds:
        for name, work in works.items():
            time.sleep(PAUSE)
            work()  # what it needs is in the caches, and its threads are awake
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: median(x) for name, x in times.items()}


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    """All measurements, each printed."""
    for dtype in arguments.dtypes:
        for n in arguments.sizes:
            seconds = in_turns(gemms(n, dtype, arguments.kernels), arguments.seconds)
            native = min(seconds[name] for name in ("numpy", "torch") if name in seconds)
            ratios = {name: x / seconds["numpy"] for name, x in seconds.items()}
            row = {
                "dtype": dtype,
                "n": n,
                "seconds": seconds,
                "to_numpy": ratios,
                "to_fastest": seconds["ours"] / native,
            }
            print(
                f"{dtype} {n}: "
                + ", ".join(f"{k} {v * 1e3:.3g} ms ({ratios[k]:.2f})" for k, v in seconds.items()),
                flush=True,
            )
            yield row
    for n in arguments.sizes:
        seconds = in_turns(byte_products(n), arguments.seconds / 3)
        gops = {name: 2 * n**3 / x / 1e9 for name, x in seconds.items()}
        print(f"bytes {n}: " + ", ".join(f"{name} {x:.0f} Gop/s" for name, x in gops.items()), flush=True)
        yield {"dtype": "int8", "n": n, "seconds": seconds, "gops": gops}


def libraries() -> dict[str, object]:
    """The libraries that are measured, with OpenBLAS's kernels."""
    from threadpoolctl import threadpool_info

    found: dict[str, object] = {"numpy": np.__version__, "python": platform.python_version()}
    for name in ("numba", "torch", "onnxruntime"):
        try:
            found[name] = __import__(name).__version__
        except ImportError:
            found[name] = None
    found["blas"] = [
        {k: x.get(k) for k in ("internal_api", "version", "architecture", "num_threads")}
        for x in threadpool_info()
    ]
    return found


def processor() -> str:
    """Its name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.int8_cpu", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=(*DTYPES, "complex64"))
    parser.add_argument("--kernels", nargs="*", default=[], choices=[x.name for x in available_kernels()])
    parser.add_argument("--threads", type=int, help="of every library")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of turns for a row")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.threads:
        from threadpoolctl import threadpool_limits

        threadpool_limits(arguments.threads)
        with suppress(ImportError):
            import torch

            torch.set_num_threads(arguments.threads)
    variables = " ".join(
        f"{x}={os.environ[x]}" for x in ("OPENBLAS_CORETYPE", "OMP_NUM_THREADS") if x in os.environ
    )
    report = {
        "date": date.today().isoformat(),
        "command": f"{variables} python -m benchmarks.int8_cpu {shlex.join(sys.argv[1:])}".strip(),
        "device": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernels": [x.name for x in available_kernels()],
        "threads": available_threads(),
        **libraries(),
        "results": list(rows(arguments)),
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
