"""`python -m benchmarks.first_calls [--gpu [--record]] [--json FILE]`: first calls on a machine, later ones.

Each call is made in a process of its own: where nothing has been compiled yet, and again, when the compiled
code lies on the disk: in a process, and a second time there. Times are processor time from `import ozaki` on;
on a GPU they are a clock's, once CuPy has been used. Python's own bytecode is there, as pip leaves it. The
last row is that of `python -m ozaki compile`, which compiles everything beforehand.

`--record` writes which kernels the calls compile, one after another, to `ozaki/companions.json`, so that the
library compiles them at once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.dgemm import versions
from benchmarks.timing import publish
from multiword.runtime.arrays import import_cupy
from multiword.runtime.sources import PACKAGES

CALLS = {
    "sum of 10⁶": "ozaki.sum(x)",
    "variance of 10⁶": "ozaki.var(x)",
    "sum along an axis": "ozaki.sum(x.reshape(1000, 1000), axis=0)",
    "10⁶ in 1000 groups": "ozaki.group_sum(x, np.arange(10**6) % 1000, 1000)",
    "product of 8 × 8": "ozaki.matmul(a[:8, :8], b[:8, :8])",
    "200 products of 8 × 8": "[ozaki.matmul(a[:8, :8], b[:8, :8]) for _ in range(200)]",
    "product of 300 × 300": "ozaki.matmul(a, b)",
    "solution of 300 unknowns": "ozaki.linalg.solve(a, b)",
}

CALLS_ON_A_GPU = {
    "sum of 10⁶": "ozaki.sum(x)",
    "10⁶ in 1000 groups": "ozaki.group_sum(x, labels, 1000)",
    "product of 1024 × 1024": "ozaki.matmul(a, b)",
    "1000 products of 16 × 16": "ozaki.matmul(stack, stack)",
    "solution of 1024 unknowns": "ozaki.linalg.solve(a, b[:, 0])",
    "verified solution of 1024 unknowns": "ozaki.linalg.verified.solve(a, b[:, 0])",
}

RECORDED = CALLS_ON_A_GPU | {
    "QR of 1024 × 1024": "ozaki.linalg.qr(a)",
    "Cholesky of 1024 × 1024": "ozaki.linalg.cholesky(a @ a.T)",
    "eigenvalues of 1024 × 1024": "ozaki.linalg.eigh(a + a.T)",
}
"""The calls whose kernels are compiled at once."""

PROGRAM = """
import time
import numpy as np

rng = np.random.default_rng(1)
x, (a, b) = rng.standard_normal(10**6), rng.standard_normal((2, 300, 300))
start = time.process_time()
import ozaki, ozaki.linalg

for _ in range(2):
    {}
    print(time.process_time() - start)
    start = time.process_time()
"""

PROGRAM_ON_A_GPU = """
import time
import cupy

x = cupy.random.standard_normal(2**20)
a, b = x.reshape(1024, 1024) + cupy.eye(1024) * 64, x[::-1].reshape(1024, 1024).copy()
labels, stack = cupy.arange(2**20) % 1000, x[:256000].reshape(1000, 16, 16)
cupy.linalg.solve(a, b @ b)
cupy.cuda.Device().synchronize()
start = time.perf_counter()
import ozaki, ozaki.linalg

for _ in range(2):
    {}
    cupy.cuda.Device().synchronize()
    print(time.perf_counter() - start)
    start = time.perf_counter()
"""


RECORDER = """
import json, time
import cupy
import ozaki, ozaki.linalg
from multiword.runtime import kernels

x = cupy.random.standard_normal(2**20)
a, b = x.reshape(1024, 1024) + cupy.eye(1024) * 64, x[::-1].reshape(1024, 1024).copy()
labels, stack = cupy.arange(2**20) % 1000, x[:256000].reshape(1000, 16, 16)
compiled, seen = kernels._compile, []

def noted(name, constants, device):
    start = time.perf_counter()
    function = compiled(name, constants, device)
    seen.append((time.perf_counter() - start, name, dict(constants)))
    return function

kernels._compile = noted
{}
seen = [one for one in seen if one[2].get("WORD") != "unsigned char"]
print(json.dumps([[name, constants] for _, name, constants in sorted(seen, key=lambda one: -one[0])]))
"""
"""Prints the instances that a call compiles, those first that took longest; none that asks any mask."""


INSTANCES = PACKAGES[1] / "companions.json"


def environment(cache: str) -> dict[str, str]:
    """Return the environment of a process that keeps compiled code in a folder, bytecode where it belongs."""
    kept = {name: x for name, x in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | dict.fromkeys(("NUMBA_CACHE_DIR", "CUPY_CACHE_DIR"), cache)


def timed(program: str, cache: str) -> list[float]:
    """Seconds of the first and the second call in a process that keeps its compiled code in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(cache),
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(line) for line in done.stdout.split()]


def measure(name: str, call: str, program: str) -> dict[str, Any]:
    """A row: on a new machine, in a later process, and the second call there."""
    program = program.format(call)
    with tempfile.TemporaryDirectory() as cache:
        (machine, _), (process, again) = timed(program, cache), timed(program, cache)
    row = {"row": name, "call": call, "machine": machine, "process": process, "again": again}
    print(row, flush=True)
    return row


def record_instances() -> None:
    """Write the instances that calls compile where nothing is compiled, one a line."""
    written = []
    for name, call in RECORDED.items():
        with tempfile.TemporaryDirectory() as cache:
            alone = environment(cache) | {"OMP_NUM_THREADS": "1"}  # nothing is compiled ahead
            program = [sys.executable, "-c", RECORDER.format(call)]
            seen = subprocess.run(program, env=alone, check=True, stdout=subprocess.PIPE, text=True).stdout
        instances = ",\n".join(map(json.dumps, json.loads(seen.splitlines()[-1])))
        written.append(f"{json.dumps(name, ensure_ascii=False)}: [\n{instances}\n]")
    INSTANCES.write_text("{\n" + ",\n".join(written) + "\n}\n", encoding="utf-8")


def compilation() -> float:
    """Processor seconds of `python -m ozaki compile` where nothing has been compiled."""
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "ozaki", "compile"]
        subprocess.run(command, env=environment(cache), check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", *map(str, PACKAGES)], check=True)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--gpu", action="store_true", help="calls of CuPy arrays")
    parser.add_argument("--record", action="store_true", help="write which kernels they compile instead")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.record:
        record_instances()
        return
    import numba

    gpu = arguments.gpu
    calls, program = (CALLS_ON_A_GPU, PROGRAM_ON_A_GPU) if gpu else (CALLS, PROGRAM)
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.first_calls" + " --gpu" * gpu,
        **versions(import_cupy() if gpu else np),
        "numba": numba.__version__,
        "results": [measure(name, call, program) for name, call in calls.items()],
    }
    if not gpu:
        record["compile"] = compilation()
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
