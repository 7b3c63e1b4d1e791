"""A product by Dask on two GPUs, beside the same on one: how much faster, and whether it has the same bits.

    python -m benchmarks.two_gpus --json benchmarks/results/two_gpus_h200.json

One worker process a GPU, started by Dask itself. Chunks are CuPy arrays and were made where they are: A lies
in panels of rows, one on each GPU, and B, in one chunk, on every GPU. So every panel of the result is
multiplied where its rows of A are, and what is sent between workers is statistics of rows and columns, about
100 bytes each; it is counted. How fast a chunk goes to another GPU, through the memory of the host, is
measured by itself.

"one GPU" is the same graph of tasks, on one of the workers; "without Dask" is `ozaki.matmul` of whole
matrices. Times are those of whole calls, until every GPU is idle: the graph is made, sent, scheduled and run.

With --larger, A, B and C together are larger than one GPU's memory, in several chunks a GPU; some rows of the
result are compared with `ozaki.matmul` of these rows:

    python -m benchmarks.two_gpus --larger --size 61440    # GPUs of 80 GB: 69 GB on each
    python -m benchmarks.two_gpus --larger --size 81920    # GPUs of 141 GB: 116 GB on each
"""

from __future__ import annotations

import argparse
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed

import ozaki
from benchmarks.dgemm import versions
from benchmarks.gpu_workers import (
    computed,
    device_memory,
    in_chunks,
    normal,
    until_forgotten,
    until_idle,
    workers,
)
from benchmarks.timing import publish

GPUS, SIZE, REPEATS = 2, 32768, 3
ACCURACIES = "fp64", "normwise"
SENT = 4096  # rows and columns of the chunk that is sent
SEED_OF_B = 1000
FINGERPRINTED = 8
"""Blocks of rows of which each panel's fingerprints are taken, side by side."""

ROW_CHUNKS, COLUMN_CHUNKS, WORKSPACE = 4, 4, 8 << 30
"""Of matrices larger than a GPU: chunks of A on each GPU and of B on every GPU, and the bytes of a task."""

CHECKED = 256
"""Rows of each chunk of A that are multiplied again."""


def sent(client: distributed.Client, library: str, rows: int, where: list[str]) -> dict[str, float]:
    """How long a chunk takes from the first worker to the others."""
    chunk = client.submit(normal, library, 0, (rows, rows), workers=where[:1])
    distributed.wait(chunk)
    client.run(until_idle, library)
    start = time.perf_counter()
    client.replicate([chunk])
    client.run(until_idle, library)
    return {"bytes": 8 * rows * rows, "seconds": time.perf_counter() - start}


def in_panels(client: distributed.Client, library: str, n: int, where: list[str], each: int = 1) -> da.Array:
    """A in panels of rows, so many at each address."""
    count = len(where) * each
    places = {(i, 0): [where[i // each]] for i in range(count)}
    return in_chunks(client, f"a-{'-'.join(where)}", (cut(n, count), (n,)), places, library, 0)


def everywhere(
    client: distributed.Client, library: str, n: int, where: list[str], count: int = 1
) -> da.Array:
    """B in panels of columns, all of them at every address."""
    places = {(0, j): where for j in range(count)}
    return in_chunks(client, "b", ((n,), cut(n, count)), places, library, SEED_OF_B)


def cut(n: int, count: int) -> tuple[int, ...]:
    """n rows in so many chunks."""
    return tuple(n * (i + 1) // count - n * i // count for i in range(count))


def fingerprints(panel: Any) -> list[str]:
    """Of blocks of rows of a panel."""
    rows = len(panel) // FINGERPRINTED
    with ThreadPoolExecutor(FINGERPRINTED) as pool:
        return list(pool.map(ozaki.fingerprint, [panel[i : i + rows] for i in range(0, len(panel), rows)]))


def chunks_of(x: da.Array) -> list:
    """The futures of a persisted array, in the order of its chunks."""
    return sorted(distributed.futures_of(x), key=lambda future: future.key)


def fingerprint(client: distributed.Client, matrix: da.Array) -> str:
    """Of a matrix in panels of rows."""
    found = client.gather([client.submit(fingerprints, x, pure=False) for x in chunks_of(matrix)])
    return joined([x for some in found for x in some])


def joined(found: list[str]) -> str:
    return hashlib.sha256("".join(found).encode()).hexdigest()[:16]


def without_dask(panels: list[Any], b: Any, accuracy: str, library: str) -> tuple[list[float], str]:
    """Seconds of products of whole matrices on this worker, and their fingerprint."""
    xp = import_module(library)
    if library == "cupy":
        xp.get_default_memory_pool().free_all_blocks()
    a, times = xp.concatenate(panels), []
    rows = len(a) // len(panels)
    for _ in range(REPEATS + 2):  # the second call captures a graph
        until_idle(library)
        start = time.perf_counter()
        found = ozaki.matmul(a, b, accuracy=accuracy)
        until_idle(library)
        times.append(time.perf_counter() - start)
    return times[2:], joined([x for i in range(0, len(a), rows) for x in fingerprints(found[i : i + rows])])


def measured(n: int, count: int, accuracies: tuple[str, ...], library: str = "cupy") -> dict[str, Any]:
    """All of it; with library="numpy" the same by worker processes without GPUs."""
    with workers(count, library) as (client, addresses):
        chunk_sent = sent(client, library, min(n, SENT), addresses)
        b, one_address = everywhere(client, library, n, addresses), addresses[:1]
        several, one = (in_panels(client, library, n, x) for x in (addresses, one_address * count))
        runs = {f"{count} GPUs": (addresses, several), "one GPU": (one_address, one)}
        rows: list[dict[str, Any]] = []
        for accuracy in accuracies:
            row: dict[str, Any] = {"accuracy": accuracy, "seconds": {}, "sent": {}, "fingerprints": {}}
            for i in range(REPEATS + 1):  # the first is not counted
                for name, (where, a) in runs.items():
                    lazy = partial(ozaki.matmul, a, b, accuracy=accuracy)
                    seconds, row["sent"][name], found = computed(client, lazy, where, library)
                    if i:
                        row["seconds"].setdefault(name, []).append(seconds)
                    else:
                        row["fingerprints"][name] = fingerprint(client, found)
                    chunks = found.name
                    del found
                    until_forgotten(client, chunks)
            rows.append(row)
        for row in rows:
            alone = client.submit(
                without_dask, chunks_of(one), *chunks_of(b), row["accuracy"], library, workers=one_address
            )
            row["seconds"]["without Dask"], row["fingerprints"]["without Dask"] = alone.result()
            row.update(compared(row, f"{count} GPUs"))
        return {"n": n, "gpus": count, "chunk sent": chunk_sent, "results": rows}


def compared(row: dict[str, Any], several: str) -> dict[str, Any]:
    """How much faster several GPUs are, by the fastest runs, and whether all have the same bits."""
    best = {name: min(times) for name, times in row["seconds"].items()}
    ratios = {name: best[name] / best[several] for name in best if name != several}
    return {"times one": ratios, "same bits": len(set(row["fingerprints"].values())) == 1}


def larger(n: int, count: int, accuracies: tuple[str, ...], library: str = "cupy") -> dict[str, Any]:
    """Products of matrices larger than a GPU: their time, what was sent, whether rows have the right bits."""
    with workers(count, library) as (client, where):
        b = everywhere(client, library, n, where, COLUMN_CHUNKS)
        a = in_panels(client, library, n, where, ROW_CHUNKS)
        rows = []
        for accuracy in accuracies:
            lazy = partial(ozaki.matmul, a, b, accuracy=accuracy, workspace=WORKSPACE)
            times, same = [], True
            for i in range(REPEATS):  # the first is not counted
                seconds, moved, found = computed(client, lazy, where, library)
                if i:
                    times.append(seconds)
                else:
                    same = same_rows(client, a, b, found, accuracy)
                chunks = found.name
                del found
                until_forgotten(client, chunks)
            rate = 2 * n**3 / min(times) / 1e12
            row = {"accuracy": accuracy, "seconds": times, "Tflop/s": rate, "sent": moved, "same bits": same}
            rows.append(row)
        memory = {
            "bytes": 3 * 8 * n * n,
            "bytes on each": 8 * n * n * (count + 2) // count + WORKSPACE,
            "bytes of a GPU": max(client.run(device_memory, library).values()),
        }
        return {"n": n, "gpus": count, "memory": memory, "results": rows}


def same_rows(client: distributed.Client, a: da.Array, b: da.Array, found: da.Array, accuracy: str) -> bool:
    """Whether rows in the middle of every chunk of A, times all columns of B, have the same bits alone.

    For "fp64" that wants data whose certificate asks for no more bits for all rows than for these, as it does
    of normal numbers.
    """
    matrices = ({x.key[1:]: x for x in distributed.futures_of(matrix)} for matrix in (a, b, found))
    of_a, of_b, of_c = matrices
    place = client.who_has(list(of_c.values()))
    checks = [
        client.submit(
            rows_are_the_same, of_a[i, 0], of_b[0, j], c, accuracy, workers=place[c.key], pure=False
        )
        for (i, j), c in of_c.items()
    ]
    return all(client.gather(checks))


def rows_are_the_same(a: Any, b: Any, c: Any, accuracy: str) -> bool:
    """Whether some rows of a chunk of the result are the product of these rows of A."""
    first = max(0, len(a) // 2 - CHECKED // 2)
    rows = slice(first, first + CHECKED)
    alone = ozaki.matmul(a[rows], b, accuracy=accuracy, workspace=WORKSPACE // 8)
    return bool((alone.view("u8") == c[rows].view("u8")).all())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_gpus", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--size", type=int, default=SIZE, help=f"rows of the matrices (default {SIZE})")
    parser.add_argument("--gpus", type=int, default=GPUS, help=f"how many (default {GPUS})")
    parser.add_argument("--accuracy", nargs="+", default=list(ACCURACIES), help="default: fp64 normwise")
    parser.add_argument("--larger", action="store_true", help="matrices larger than a GPU's memory")
    parser.add_argument("--cpu", action="store_true", help="NumPy chunks, on workers without GPUs")
    options = parser.parse_args()
    library = "numpy" if options.cpu else "cupy"
    measure = larger if options.larger else measured
    found = {
        "date": date.today().isoformat(),
        "command": f"python -m benchmarks.two_gpus{' --larger' if options.larger else ''}",
        **versions(import_module(library)),
        "dask": dask.__version__,
        "distributed": distributed.__version__,
        **measure(options.size, options.gpus, tuple(options.accuracy), library),
    }
    publish(found, options.json)


if __name__ == "__main__":
    main()
