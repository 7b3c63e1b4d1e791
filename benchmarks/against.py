"""`python -m benchmarks.against OTHER --json FILE`: this checkout against another one, in turns.

Each of the two runs in a process of its own. A row is timed alternately, so that clocks and temperature
move both; the figures are medians over the turns, the ratio that of the turns' ratios. With --gpu the times
are those of calls queued one after another, by CUDA events, once the clock has settled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

TURNS = 7


def normal(rng, *shape):
    return rng.standard_normal(shape)


def spread(phi):
    return lambda rng, *shape: (rng.random(shape) - 0.5) * np.exp(phi * rng.standard_normal(shape))


def sparse(share):
    return lambda rng, *shape: rng.standard_normal(shape) * (rng.random(shape) < share)


def products(draw, m, k, n, function="accurate_dgemm", **options):
    """A product of (m, k) and (k, n) matrices."""

    def prepare(rng, xp, ozaki):
        a, b = draw(rng, m, k), draw(rng, k, n)
        if function in ("accurate_sgemm", "multiword"):
            a, b = a.astype("float32"), b.astype("float32")
        if function == "accurate_zgemm":
            a, b = a + 1j * draw(rng, m, k), b + 1j * draw(rng, k, n)
        if function == "multiword":
            import multiword

            return lambda: multiword.matmul(a, b)
        return lambda: getattr(ozaki, function)(a, b, **options)

    return prepare


def one_wild_row(rng, m, n):
    x = rng.standard_normal((m, n))
    x[0] *= 2.0 ** rng.integers(-30, 31, n)
    return x


def left_factor(draw, n):
    """A product of such a matrix and a normal one."""

    def prepare(rng, xp, ozaki):
        a, b = draw(rng, n, n), rng.standard_normal((n, n))
        return lambda: ozaki.accurate_dgemm(a, b)

    return prepare


def graded(n):
    def prepare(rng, xp, ozaki):
        scale = 2.0 ** rng.integers(-200, 201, n).astype(float)
        a, b = rng.standard_normal((n, n)) * scale, rng.standard_normal((n, n)) / scale[:, None]
        return lambda: ozaki.accurate_dgemm(a, b)

    return prepare


def stacks(count, n):
    def prepare(rng, xp, ozaki):
        a, b = rng.standard_normal((2, count, n, n))
        return lambda: ozaki.matmul(a, b)

    return prepare


def reductions(function, size, both=False):
    def prepare(rng, xp, ozaki):
        x = rng.standard_normal(size)
        operands = (x, rng.standard_normal(size)) if both else (x,)
        return lambda: getattr(ozaki, function)(*operands)

    return prepare


GPU: dict[str, Callable[..., Any]] = {
    **{f"dgemm {n}": products(normal, n, n, n) for n in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)},
    **{f"dgemm {n}, φ = 2": products(spread(2.0), n, n, n) for n in (1024, 2048, 4096, 8192)},
    **{f"dgemm {n}, half zeros": products(sparse(0.5), n, n, n) for n in (4096, 8192)},
    "dgemm 4096, 1 % nonzeros": products(sparse(0.01), 4096, 4096, 4096),
    "dgemm 4096, first rows of A and B over ±30 octaves": products(one_wild_row, 4096, 4096, 4096),
    "dgemm 4096, one row of A over ±30 octaves": left_factor(one_wild_row, 4096),
    "dgemm 4096, φ = 4": products(spread(4.0), 4096, 4096, 4096),
    "dgemm 4096, graded by 2^±200": graded(4096),
    "dgemm 4096, exact": products(normal, 4096, 4096, 4096, accuracy="exact"),
    "dgemm 16384 x 300 x 16384": products(normal, 16384, 300, 16384),
    "dgemm 8192 x 8192 x 64": products(normal, 8192, 8192, 64),
    "dgemm 64 x 65536 x 64": products(normal, 64, 65536, 64),
    **{f"{s} of {n}²": stacks(s, n) for s, n in ((1000, 16), (1000, 24), (1000, 64), (256, 128), (100, 256))},
    "sgemm 8192": products(normal, 8192, 8192, 8192, "accurate_sgemm"),
    **{f"zgemm {n}": products(normal, n, n, n, "accurate_zgemm") for n in (1024, 8192)},
    "multiword.matmul 8192": products(normal, 8192, 8192, 8192, "multiword"),
    "sum of 1e8": reductions("sum", 10**8),
    "sum of 1000": reductions("sum", 1000),
    "dot of 1e8": reductions("dot", 10**8, True),
}
CPU: dict[str, Callable[..., Any]] = {
    **{f"dgemm {n}": products(normal, n, n, n) for n in (8, 16, 128, 512, 1024, 2048)},
    "dgemm 512, φ = 2": products(spread(2.0), 512, 512, 512),
    "dgemm 512, half zeros": products(sparse(0.5), 512, 512, 512),
    "dgemm 512, exact": products(normal, 512, 512, 512, accuracy="exact"),
    **{f"1000 of {n}²": stacks(1000, n) for n in (8, 16, 24)},
    **{f"sum of {n}": reductions("sum", n) for n in (100, 10**6)},
    **{f"dot of {n}": reductions("dot", n, True) for n in (10, 10**6)},
    "norm of 1000000": reductions("norm", 10**6),
}


def measure(work: Callable[[], Any], xp: Any) -> float:
    """Seconds of a call."""
    work()
    if xp is np:
        start = time.perf_counter()
        work()
        count = max(1, min(200, int(0.3 / max(time.perf_counter() - start, 1e-6))))
        start = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - start) / count
    work()
    begin, end = xp.cuda.Event(), xp.cuda.Event()
    until, calls = time.perf_counter() + 0.1, 0  # the clock settles
    start = time.perf_counter()
    while time.perf_counter() < until:
        work()
        xp.cuda.get_current_stream().synchronize()
        calls += 1
    count = max(2, min(200, int(0.15 * calls / (time.perf_counter() - start))))
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return xp.cuda.get_elapsed_time(begin, end) / 1e3 / count


def serve(gpu: bool) -> None:
    """Answer each row's name on standard input with its time."""
    import warnings

    import ozaki

    warnings.simplefilter("ignore")
    with suppress(ImportError):  # version 0.1 has no compiled forms
        from multiword.runtime import compiled

        compiled.patience = 0.0  # of version 0.2
    xp: Any = np
    if gpu:
        import cupy as xp
    held: tuple[str, Callable[[], Any]] | None = None
    for line in sys.stdin:
        name = line.strip()
        if held is None or held[0] != name:
            held = None
            if xp is not np:
                xp.get_default_memory_pool().free_all_blocks()
            held = name, (GPU if gpu else CPU)[name](xp.random.default_rng(0), xp, ozaki)
        print(measure(held[1], xp), flush=True)


def compare(other: str, gpu: bool, names: list[str]) -> list[dict[str, Any]]:
    """Time every row in turns."""
    command = [sys.executable, str(Path(__file__).resolve()), "--serve", *(["--gpu"] if gpu else [])]
    paths = {"before": str(Path(other).resolve()), "now": str(Path(__file__).resolve().parents[1])}
    workers = {
        which: subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": f"{path}:{os.environ.get('PYTHONPATH', '')}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=path,
        )
        for which, path in paths.items()
    }
    results = []
    for name in names:
        times: dict[str, list[float]] = {which: [] for which in workers}
        for turn in range(TURNS):
            for which in sorted(workers, reverse=bool(turn % 2)):
                worker = workers[which]
                assert worker.stdin is not None
                assert worker.stdout is not None
                print(name, file=worker.stdin, flush=True)
                times[which].append(float(worker.stdout.readline()))
        before, now = (median(times[which]) for which in ("before", "now"))
        ratios = [y / x for x, y in zip(times["before"], times["now"], strict=True)]
        ratio = median(ratios)
        results.append({"row": name, "before": before, "now": now, "ratio": ratio, "ratios": ratios})
        print(f"{name:40} {before * 1e3:10.4f} ms {now * 1e3:10.4f} ms  {ratio:6.3f}", flush=True)
    for worker in workers.values():
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("other", nargs="?", help="the folder of the other checkout")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--only", default="", help="rows whose names begin so, separated by semicolons")
    parser.add_argument("--commit", default="", help="what the other checkout is")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.gpu)
        return
    rows = GPU if arguments.gpu else CPU
    names = [n for n in rows if n.startswith(tuple(arguments.only.split(";")))]
    results = compare(arguments.other, arguments.gpu, names)
    if arguments.json:
        device = platform.processor() or platform.machine()
        if arguments.gpu:
            import cupy

            device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        record = {
            "date": date.today().isoformat(),
            "device": device,
            "numpy": np.__version__,
            "command": "python -m benchmarks.against OTHER" + " --gpu" * arguments.gpu,
            "before": arguments.commit,
            "unit": "seconds a call, medians of turns",
            "results": results,
        }
        arguments.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
