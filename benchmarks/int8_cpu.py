"""`python -m benchmarks.int8_cpu`: products on int8 words against the native routines of a CPU, in turns.

Writes benchmarks/results/int8_cpu_CPU_T_threads.json, in half an hour on two quiet cores. For each size and
dtype, NumPy's matmul, PyTorch's and ours take turns in one process; before each, a pause in which the threads
of a BLAS stop spinning. Figures are medians. NumPy is measured again in processes whose OpenBLAS is told to
take its AVX2 and its AVX-512 kernels. Beside them: LIBXS's emulation, where LIBXS_OZAKI names the library of
its sample ozaki (libwrap.so); one thread, Gram matrices, the choice of words, and the
byte products of onnxruntime and PyTorch, alone: of one modulus, not reduced.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.runtime.parallel import thread_count

SIZES = (64, 128, 256, 512, 1024, 2048, 4096)
DTYPES = {"float64": 8192, "float32": 8192, "complex128": 4096}
"""The dtypes, and the largest size of each."""

CORETYPES = "Haswell", "SkylakeX"
"""OpenBLAS's AVX2 and AVX-512 kernels, as OPENBLAS_CORETYPE names them."""

TURNS, BURST, LONG = 5, 0.15, 20.0
"""Turns of each, or three where these take longer than LONG seconds; in a turn, as many calls as fit into
BURST seconds, at least one."""

PAUSE = 0.12
"""Seconds for which threads of OpenBLAS spin after a product, and a little more."""

CHOICES = (
    *((n, n, n) for n in (32, 64, 80, 96, 128, 192, 256)),
    *((4, 300, 300), (300, 4, 300), (300, 300, 4), (16, 1000, 16), (1000, 16, 1000), (2000, 64, 8)),
    *((8, 8, 20_000), (8, 20_000, 8), (500, 500, 2), (2, 500, 500), (1000, 1000, 8), (2000, 16, 16)),
)
"""Shapes (m, k, n) at which the choice of words is compared with both words."""

Works = dict[str, Callable[[], object]]


def operands(shape: tuple[int, int, int], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Random matrices (m, k) and (k, n)."""
    m, k, n = shape
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    if dtype.startswith("complex"):
        a, b = a + 1j * a[::-1], b - 1j * b[::-1]
    return a.astype(dtype), b.astype(dtype)


def native(a: np.ndarray, b: np.ndarray) -> Works:
    """The native products."""
    out = np.empty((len(a), b.shape[1]), a.dtype)
    works: Works = {"numpy": lambda: np.matmul(a, b, out=out)}
    with suppress(ImportError):
        import torch

        x, y, z = map(torch.from_numpy, (a, b, np.empty_like(out)))
        works["torch"] = lambda: torch.matmul(x, y, out=z)
    return works


def emulated(a: np.ndarray, b: np.ndarray) -> Works:
    """The products of LIBXS's sample ozaki, where LIBXS_OZAKI names its library."""
    path = os.environ.get("LIBXS_OZAKI")
    if path is None or a.dtype != np.float64 or len(a) > 1024:
        return {}
    dgemm, out = ctypes.CDLL(path).dgemm_, np.empty((len(a), b.shape[1]))
    (m, k), n = a.shape, b.shape[1]
    sizes = [ctypes.byref(ctypes.c_int(x)) for x in (n, m, k)]
    one, zero = (ctypes.byref(ctypes.c_double(x)) for x in (1.0, 0.0))
    of_b, of_a, of_out = (
        (x.ctypes.data_as(ctypes.c_void_p), size)
        for x, size in zip((b, a, out), (sizes[0], sizes[2], sizes[0]), strict=True)
    )
    arguments = (b"N", b"N", *sizes, one, *of_b, *of_a, zero, *of_out)

    def work(alive: object = (a, b, out)) -> None:
        dgemm(*arguments)  # of the transposes, by columns

    work()
    if np.abs(out - a @ b).max() > 1e-10:
        raise RuntimeError(f"{path} multiplies wrongly")
    return {"libxs": work}


def ours(a: np.ndarray, b: np.ndarray) -> Works:
    """Our products: by default, and on each kernel that is not the fastest."""
    works: Works = {
        "ours": lambda: ozaki.matmul(a, b),
        "ours, normwise": lambda: ozaki.matmul(a, b, accuracy="normwise"),
    }
    if len(a) <= 2048:
        works["ours, exact"] = lambda: ozaki.matmul(a, b, accuracy="exact")
        if a.dtype == np.float64:
            for kernel in available_kernels()[1:]:
                name = f"int8_cpu:{kernel.name}"
                works[f"ours, {kernel.name}"] = lambda name=name: ozaki.matmul(a, b, engine=name)
    return works


def gram_products(n: int) -> Works:
    """A Gram matrix, and the product of the same matrices lying apart, of which none is known to be equal."""
    x, _ = operands((n, n, n), "float64")
    apart = x.copy()
    return {"gram": lambda: ozaki.gram(x), "full": lambda: ozaki.matmul(x.T, apart)}


def choices(shape: tuple[int, int, int], dtype: str) -> Works:
    """The product by default, on fp64 words or the kernel of tiny products, and on int8 words."""
    a, b = operands(shape, dtype)
    engines = {"auto": "auto", "fp64": "host", "int8": "int8_cpu"}
    return {name: lambda e=e: ozaki.matmul(a, b, engine=e) for name, e in engines.items()}


def byte_products(n: int) -> Works:
    """Products of bytes by other libraries, where they are installed."""
    rng, works = np.random.default_rng(n), Works()
    a, b = rng.integers(0, 255, (n, n), dtype=np.uint8), rng.integers(-128, 127, (n, n), dtype=np.int8)
    with suppress(ImportError):
        session = _onnx_session(n)
        works["onnxruntime"] = lambda: session.run(None, {"a": a, "b": b})
    with suppress(ImportError, AttributeError):
        import torch

        x, y = torch.from_numpy(a.view(np.int8)), torch.from_numpy(b)
        works["torch._int_mm"] = lambda: torch._int_mm(x, y)
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
    options.intra_op_num_threads = thread_count()
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def in_turns(works: Works, pause: float = PAUSE) -> dict[str, float]:
    """Return the median time of each, in seconds."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    start_of_turns = time.perf_counter()
    for turn in range(TURNS):
        if turn >= 3 and time.perf_counter() - start_of_turns > LONG:
            break
        for name, work in works.items():
            time.sleep(pause)
            work()  # what it needs is in the caches, and its threads are awake
            calls, begin = [], time.perf_counter()
            while not calls or time.perf_counter() - begin < BURST:
                start = time.perf_counter()
                work()
                calls.append(time.perf_counter() - start)
            times[name].append(median(calls))
    return {name: median(x) for name, x in times.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Let every library compute on one thread: BLAS and OpenMP, and PyTorch, which counts its own."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), ExitStack() as after:
        with suppress(ImportError):
            import torch

            after.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        yield


def sized(sizes: list[int]) -> Iterator[tuple[str, int]]:
    """The dtypes, each with its sizes."""
    return ((dtype, n) for dtype, most in DTYPES.items() for n in sizes if n <= most)


def of_openblas(sizes: list[int], coretype: str) -> dict[str, dict[str, float]]:
    """Return NumPy's times in a process with other kernels of OpenBLAS; none if it does not have them."""
    command = [sys.executable, "-m", __spec__.name, "--native", "--sizes", *map(str, sizes)]
    environment = os.environ | {"OPENBLAS_CORETYPE": coretype}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def native_times(sizes: list[int]) -> dict[str, dict[str, float]]:
    """Return NumPy's times by dtype and size."""
    found: dict[str, dict[str, float]] = {}
    for dtype, n in sized(sizes):
        work = native(*operands((n, n, n), dtype))["numpy"]
        found.setdefault(dtype, {})[str(n)] = in_turns({"numpy": work})["numpy"]
    return found


def rows(sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Yield all measurements."""
    others = {coretype: of_openblas(sizes, coretype) for coretype in CORETYPES}
    for dtype, n in sized(sizes):
        a, b = operands((n, n, n), dtype)
        seconds = in_turns(native(a, b) | emulated(a, b) | ours(a, b))
        for coretype, times in others.items():
            with suppress(KeyError):
                seconds[f"numpy, {coretype}"] = times[dtype][str(n)]
        yield {"dtype": dtype, "n": n, "seconds": seconds} | ratios(seconds)
    with one_thread():
        for n in (size for size in sizes if 1024 <= size <= 4096):
            a, b = operands((n, n, n), "float64")
            seconds = in_turns(native(a, b) | {"ours": lambda a=a, b=b: ozaki.matmul(a, b)})
            yield {"dtype": "float64", "n": n, "threads": 1, "seconds": seconds} | ratios(seconds)
    for n in (size for size in sizes if 512 <= size <= 2048):
        seconds = in_turns(gram_products(n))
        yield {"gram": n, "seconds": seconds, "faster": seconds["full"] / seconds["gram"]}
    for n in (size for size in sizes if size >= 256):
        seconds = in_turns(byte_products(n))
        yield {"bytes": n, "gops": {name: 2 * n**3 / x / 1e9 for name, x in seconds.items()}}
    for dtype in DTYPES:
        for shape in CHOICES:
            seconds = in_turns(choices(shape, dtype), 0.01)
            least = min(seconds["fp64"], seconds["int8"])
            yield {"choice": shape, "dtype": dtype, "seconds": seconds, "to_best": seconds["auto"] / least}


def ratios(seconds: dict[str, float]) -> dict[str, Any]:
    """Return our times over NumPy's, and over that of the fastest native routine."""
    fastest = min(x for name, x in seconds.items() if name.startswith(("numpy", "torch")))
    mine = {name: x for name, x in seconds.items() if name.startswith("ours")}
    return {
        "to_numpy": {name: x / seconds["numpy"] for name, x in mine.items()},
        "to_fastest": {name: x / fastest for name, x in mine.items()},
    }


def said(row: dict[str, Any]) -> str:
    """Return a row with numbers of three digits."""
    short = json.loads(json.dumps(row), parse_float=lambda x: float(f"{float(x):.3g}"))
    return json.dumps(short, separators=(", ", " ")).replace('"', "")


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


def _kernels() -> str:
    """The variable that tells OpenBLAS which kernels to take, if it is set."""
    chosen = os.environ.get("OPENBLAS_CORETYPE")
    return f"OPENBLAS_CORETYPE={chosen} " if chosen else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--native", action="store_true", help="print NumPy's times alone")
    parser.add_argument("--json", type=Path, help="instead of benchmarks/results/int8_cpu_CPU_T_threads.json")
    arguments = parser.parse_args()
    if arguments.native:
        print(json.dumps(native_times(arguments.sizes)))
        return
    report: dict[str, Any] = {
        "date": date.today().isoformat(),
        "command": f"{_kernels()}python -m benchmarks.int8_cpu {shlex.join(sys.argv[1:])}".strip(),
        "device": processor(),
        "cores": thread_count(),
        "kernels": [x.name for x in available_kernels()],
        **libraries(),
        "results": [],
    }
    name = re.sub(r"\W+", "_", processor().replace("(R)", "").lower()).strip("_")
    path = (
        arguments.json or Path(__file__).parent / "results" / f"int8_cpu_{name}_{thread_count()}_threads.json"
    )
    begin = time.monotonic()
    for row in rows(arguments.sizes):
        print(said(row), flush=True)
        report["results"].append(row)
        report["minutes"] = (time.monotonic() - begin) / 60
        path.write_text(json.dumps(report, indent=1) + "\n")  # all so far: it takes long


if __name__ == "__main__":
    main()
