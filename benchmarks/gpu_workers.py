"""Worker processes with a GPU each, started by Dask itself, and chunks that lie where one wants them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import dask
import dask.array as da
import distributed

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


def until_idle(library: str) -> None:
    """Wait for a worker's GPU."""
    if library == "cupy":
        import_module(library).cuda.Device().synchronize()


def normal(library: str, seed: int, shape: tuple[int, int]) -> Any:
    """Standard normal numbers."""
    return import_module(library).random.default_rng(seed).standard_normal(shape)


def in_chunks(
    client: distributed.Client,
    name: str,
    chunks: tuple[tuple[int, ...], tuple[int, ...]],
    where: dict[tuple[int, int], list[str]],
    library: str,
    seed: int,
) -> da.Array:
    """A Dask array of normal numbers; each chunk is made at every address that is given for it.

    It is what `persist` and `replicate` leave behind, without sending anything: chunks under their own keys.
    An array of delayed futures would give each of them one more key, on one worker.
    """
    futures = {}
    for number, ((i, j), addresses) in enumerate(sorted(where.items())):
        arguments = library, seed + number, (chunks[0][i], chunks[1][j])
        future = client.submit(normal, *arguments, workers=addresses[:1], key=(name, i, j))
        distributed.wait(future)
        for address in addresses[1:]:
            client.run(_put, future.key, *arguments, workers=[address])
            client.run_on_scheduler(_known_at, future.key, address)
        assert set(client.who_has([future])[future.key]) == set(addresses)
        futures[future.key] = future
    return da.Array(futures, name, chunks, meta=import_module(library).empty((0, 0)))


def _put(key: Any, library: str, seed: int, shape: tuple[int, int], dask_worker: Any) -> None:
    """Make the chunk of this key on one more worker."""
    dask_worker.update_data({key: normal(library, seed, shape)})


def _known_at(key: Any, address: str, dask_scheduler: Any) -> None:
    """Tell the scheduler of it."""
    dask_scheduler.add_keys(address, [key])


def bytes_sent(client: distributed.Client) -> int:
    """What workers have given one another so far."""
    return sum(client.run(_given).values())


def _given(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def computed(
    client: distributed.Client, lazy: Callable[[], da.Array], where: list[str], library: str
) -> tuple[float, int, da.Array]:
    """Seconds until a lazy array is made and computed and GPUs are idle, bytes that workers sent, and it."""
    before, start = bytes_sent(client), time.perf_counter()
    found = client.persist(lazy(), workers=where)
    distributed.wait(found)
    client.run(until_idle, library, workers=where)
    seconds = time.perf_counter() - start
    return seconds, bytes_sent(client) - before, found


def until_forgotten(client: distributed.Client, name: str) -> None:
    """Wait until no worker has a chunk of that name, which nothing holds any more."""
    while any(client.run(_has, name).values()):
        time.sleep(0.01)


def _has(name: str, dask_worker: Any) -> bool:
    return any(key[0] == name for key in dask_worker.data if isinstance(key, tuple))


def device_memory(library: str) -> int:
    """Bytes of a worker's GPU, and 0 without one."""
    return int(import_module(library).cuda.Device().mem_info[1]) if library == "cupy" else 0
