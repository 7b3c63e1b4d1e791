"""A product by Dask on two GPUs, beside the same on one: how much faster, and whether it has the same bits.

    python -m benchmarks.two_gpus --json benchmarks/results/two_gpus_h200.json

One worker process a GPU, started by Dask itself. Chunks are CuPy arrays and were made where they are: A lies
in panels of rows, one on each GPU, and B, in one chunk, on every GPU. So every panel of the result is
multiplied where its rows of A are, and what is sent between workers is statistics of rows and columns, about
100 bytes each. How fast a chunk goes to another GPU, through the memory of the host, is measured by itself.

"one GPU" is the same graph of tasks, on one of the workers; "without Dask" is `ozaki.matmul` of whole
matrices. Times are those of whole calls, until every GPU is idle: the graph is made, sent, scheduled and run.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import publish

GPUS, SIZE, REPEATS = 2, 32768, 3
ACCURACIES = "fp64", "normwise"
SENT = 4096  # rows and columns of the chunk that is sent
SEED_OF_B = 1000
FINGERPRINTED = 8
"""Blocks of rows of which each panel's fingerprints are taken, side by side."""

OPTIONS = {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.ERROR}
"""Of a worker: its limit would be one of the host's memory, and the GPU has its own."""


@contextmanager
def workers(count: int, library: str) -> Iterator[tuple[distributed.Client, list[str]]]:
    """A client of worker processes with a GPU each, and their addresses.

    Dask's active memory manager is off: it would drop all copies of B but one.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
    spec = {
        i: {"cls": distributed.Nanny, "options": {**OPTIONS, "env": {"CUDA_VISIBLE_DEVICES": visible[i]}}}
        for i in range(count)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": ":0"}}
    with (
        dask.config.set({"distributed.scheduler.active-memory-manager.start": False}),
        distributed.SpecCluster(spec, scheduler, silence_logs=logging.ERROR) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(count)
        by_name = {info["name"]: address for address, info in client.scheduler_info(-1)["workers"].items()}
        client.run(prepare, library)
        yield client, [by_name[i] for i in range(count)]


def prepare(library: str) -> None:
    """Import what a worker needs, and let it send CuPy arrays: Dask alone wants RMM or numba-cuda for it."""
    xp = import_module(library)
    if library != "cupy":
        return
    xp.empty(1)
    from distributed.protocol import dask_deserialize, dask_serialize
    from distributed.protocol.numpy import deserialize_numpy_ndarray, serialize_numpy_ndarray

    dask_serialize.register(xp.ndarray, lambda x: serialize_numpy_ndarray(x.get()))
    dask_deserialize.register(
        xp.ndarray, lambda header, frames: xp.asarray(deserialize_numpy_ndarray(header, frames))
    )


def normal(library: str, seed: int, shape: tuple[int, int]) -> Any:
    """Standard normal numbers."""
    return import_module(library).random.default_rng(seed).standard_normal(shape)


def until_idle(library: str) -> None:
    """Wait for a worker's GPU."""
    if library == "cupy":
        import_module(library).cuda.Device().synchronize()


def in_panels(client: distributed.Client, library: str, n: int, where: list[str]) -> list:
    """A in panels of rows, one at each address."""
    shape = n // len(where), n
    panels = [
        client.submit(normal, library, i, shape, workers=[address], key=f"a-{i}-{'-'.join(where)}")
        for i, address in enumerate(where)
    ]
    distributed.wait(panels)
    return panels


def everywhere(client: distributed.Client, library: str, n: int, where: list[str]) -> Any:
    """B at every address, made there: to send it would take longer than the product."""
    b = client.submit(normal, library, SEED_OF_B, (n, n), workers=where[:1], key="b")
    distributed.wait(b)
    for address in where[1:]:
        client.run(put, b.key, library, SEED_OF_B, (n, n), workers=[address])
        client.run_on_scheduler(known_at, b.key, address)
    assert set(client.who_has([b])[b.key]) == set(where)
    return b


def put(key: str, library: str, seed: int, shape: tuple[int, int], dask_worker: Any) -> None:
    """Make the chunk of this key on one more worker."""
    dask_worker.update_data({key: normal(library, seed, shape)})


def known_at(key: str, address: str, dask_scheduler: Any) -> None:
    """Tell the scheduler of it."""
    dask_scheduler.add_keys(address, [key])


def sent(client: distributed.Client, library: str, rows: int, where: list[str]) -> dict[str, float]:
    """How long a chunk takes from the first worker to the others."""
    chunk = client.submit(normal, library, 0, (rows, rows), workers=where[:1])
    distributed.wait(chunk)
    client.run(until_idle, library)
    start = time.perf_counter()
    client.replicate([chunk])
    client.run(until_idle, library)
    return {"bytes": 8 * rows * rows, "seconds": time.perf_counter() - start}


def in_one_array(library: str, panels: list, n: int) -> da.Array:
    """The Dask array of panels of rows."""
    meta = import_module(library).empty((0, 0))
    shape = n // len(panels), n
    return da.concatenate([da.from_delayed(dask.delayed(x), shape, meta=meta) for x in panels])


def timed(
    client: distributed.Client,
    arrays: tuple[da.Array, da.Array],
    accuracy: str,
    where: list[str],
    library: str,
) -> tuple[float, list]:
    """Seconds of a product, and the futures of its panels of rows."""
    start = time.perf_counter()
    product = client.persist(ozaki.matmul(*arrays, accuracy=accuracy), workers=where)
    distributed.wait(product)
    client.run(until_idle, library, workers=where)
    return time.perf_counter() - start, sorted(distributed.futures_of(product), key=lambda x: x.key)


def fingerprints(panel: Any) -> list[str]:
    """Of blocks of rows of a panel."""
    rows = len(panel) // FINGERPRINTED
    with ThreadPoolExecutor(FINGERPRINTED) as pool:
        return list(pool.map(ozaki.fingerprint, [panel[i : i + rows] for i in range(0, len(panel), rows)]))


def fingerprint(client: distributed.Client, panels: list) -> str:
    """Of a matrix in panels of rows."""
    found = client.gather([client.submit(fingerprints, x, pure=False) for x in panels])
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
        product = ozaki.matmul(a, b, accuracy=accuracy)
        until_idle(library)
        times.append(time.perf_counter() - start)
    return times[2:], joined([x for i in range(0, len(a), rows) for x in fingerprints(product[i : i + rows])])


def measured(n: int, count: int, accuracies: tuple[str, ...], library: str = "cupy") -> dict[str, Any]:
    """All of it; with library="numpy" the same by worker processes without GPUs."""
    with workers(count, library) as (client, addresses):
        chunk_sent = sent(client, library, min(n, SENT), addresses)
        b = everywhere(client, library, n, addresses)
        several, one = (in_panels(client, library, n, x) for x in (addresses, addresses[:1] * count))
        whole_b = in_one_array(library, [b], n)
        runs = {
            f"{count} GPUs": (addresses, (in_one_array(library, several, n), whole_b)),
            "one GPU": (addresses[:1], (in_one_array(library, one, n), whole_b)),
        }
        rows = []
        for accuracy in accuracies:
            times: dict[str, list[float]] = {name: [] for name in runs}
            bits = {}
            for i in range(REPEATS + 1):  # the first is not counted
                for name, (where, arrays) in runs.items():
                    seconds, product = timed(client, arrays, accuracy, where, library)
                    if i:
                        times[name].append(seconds)
                    else:
                        bits[name] = fingerprint(client, product)
                    del product
            rows.append({"accuracy": accuracy, "seconds": times, "fingerprints": bits})
        for row in rows:
            alone = client.submit(
                without_dask, one, b, row["accuracy"], library, workers=addresses[:1], pure=False
            )
            row["seconds"]["without Dask"], row["fingerprints"]["without Dask"] = alone.result()
            row.update(compared(row, f"{count} GPUs"))
        return {"n": n, "gpus": count, "chunk sent": chunk_sent, "results": rows}


def compared(row: dict[str, Any], several: str) -> dict[str, Any]:
    """How much faster several GPUs are, by the fastest runs, and whether all have the same bits."""
    best = {name: min(times) for name, times in row["seconds"].items()}
    ratios = {name: best[name] / best[several] for name in best if name != several}
    return {"times one": ratios, "same bits": len(set(row["fingerprints"].values())) == 1}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_gpus", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--size", type=int, default=SIZE, help=f"rows of the matrices (default {SIZE})")
    parser.add_argument("--gpus", type=int, default=GPUS, help=f"how many (default {GPUS})")
    parser.add_argument("--accuracy", nargs="+", default=list(ACCURACIES), help="default: fp64 normwise")
    parser.add_argument("--cpu", action="store_true", help="NumPy chunks, on workers without GPUs")
    options = parser.parse_args()
    library = "numpy" if options.cpu else "cupy"
    found = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.two_gpus",
        **versions(import_module(library)),
        "dask": dask.__version__,
        "distributed": distributed.__version__,
        **measured(options.size, options.gpus, tuple(options.accuracy), library),
    }
    publish(found, options.json)


if __name__ == "__main__":
    main()
