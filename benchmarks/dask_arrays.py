"""Sums and products of Dask arrays: how fast beside Dask's own, how large the state, how much is sent.

    python -m benchmarks.dask_arrays --json benchmarks/results/dask_cpu.json

Reductions and products of chunks in memory, in one thread and by 1, 2 and 4 worker processes, or threads of
one; ours and Dask's in turns, the fastest of several. The state is what a task of a reduction hands on, in
memory and as it is sent (pickled); bytes sent are those between workers, as they count them. What 8 and 64
workers would take is a model, from the measured rates of one: the work divided by the workers, then a tree of
merges in which every step sends one state at `NETWORK` bytes a second after `LATENCY` seconds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import time
from collections.abc import Callable
from datetime import date
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

import ozaki
from benchmarks.timing import publish
from ozaki.sums.partial import PartialSums
from ozaki.sums.table import elements

ELEMENTS, CHUNK = 16_000_000, 1_000_000
FIELD = 200, 400
SIZE, BLOCK = 768, 384
NETWORK, LATENCY = 1e9, 1e-3
MODELLED = 8, 64


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int = 10) -> dict[str, float]:
    """Seconds of the fastest run of each."""
    found: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            elapsed = time.perf_counter() - start
            found[name] = min(elapsed, found.get(name, elapsed))
    return found


def vectors() -> tuple[da.Array, da.Array]:
    """Two vectors whose chunks lie in memory."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, ELEMENTS))
    return da.from_array(x, chunks=CHUNK), da.from_array(y, chunks=CHUNK)


def reductions() -> list[dict[str, Any]]:
    """Reductions in one thread."""
    x, y = vectors()
    field = x.reshape(-1, *FIELD).rechunk((25, *FIELD)).persist(scheduler="synchronous")
    pairs: dict[str, tuple[da.Array, da.Array]] = {
        "sum": (ozaki.sum(x), da.sum(x)),
        "mean": (ozaki.mean(x), da.mean(x)),
        "std": (ozaki.std(x), da.std(x)),
        "dot": (ozaki.dot(x, y), da.dot(x, y)),
        f"sum over time of a {FIELD[0]} × {FIELD[1]} field": (
            ozaki.sum(field, axis=0),
            da.sum(field, axis=0),
        ),
    }
    rows = []
    with dask.config.set(scheduler="synchronous"):
        for name, (ours, native) in pairs.items():
            times = in_turns({"ours": ours.compute, "native": native.compute})
            rows.append({"what": name, **times, "ratio": times["ours"] / times["native"]})
    return rows


def states() -> list[dict[str, Any]]:
    """Bytes an output element that a task of a reduction hands on."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((25, *FIELD))
    cases = {
        "normal": x,
        "temperatures, 250 to 310": 280 + 10 * x,
        "lognormal, exp(4·normal)": np.exp(4 * x),
        "exponents of the whole range": np.ldexp(x, rng.integers(-1000, 1000, x.shape)),
    }
    rows = []
    for name, data in cases.items():
        total = PartialSums.of(elements(data), data.dtype, FIELD)
        rows.append(
            {
                "what": name,
                "held": total.__sizeof__() / data[0].size,
                "sent": len(pickle.dumps(total)) / data[0].size,
            }
        )
    return rows


def workers() -> list[dict[str, Any]]:
    """Sums and products by worker processes, and by threads of one, that have the chunks."""
    rows = []
    for threads, count in ((False, 1), (False, 2), (False, 4), (True, 2), (True, 4)):
        many, each = (1, count) if threads else (count, 1)
        with (
            distributed.LocalCluster(
                n_workers=many, threads_per_worker=each, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.run(import_module, "ozaki.dask")
            kind = f"{count} {'threads' if threads else 'processes' if count > 1 else 'process'}"
            rows += [{"workers": kind, **row} for row in by_workers(client)]
    return rows


def by_workers(client: distributed.Client) -> list[dict[str, Any]]:
    """Seconds, and bytes that workers send one another, for each function."""
    rng = da.random.default_rng(1)
    x = client.persist(rng.standard_normal(ELEMENTS, chunks=CHUNK))
    field = client.persist(rng.standard_normal((ELEMENTS // prod(FIELD), *FIELD), chunks=(25, *FIELD)))
    a = client.persist(rng.standard_normal((SIZE, SIZE), chunks=BLOCK))
    distributed.wait([x, field, a])
    arrays = {
        "sum": (ozaki.sum(x), da.sum(x)),
        "sum over time": (ozaki.sum(field, axis=0), da.sum(field, axis=0)),
        "matmul, exact": (ozaki.matmul(a, a, accuracy="exact"), da.matmul(a, a)),
        "matmul, fp64": (ozaki.matmul(a, a), da.matmul(a, a)),
    }
    rows = []
    for name, (ours, native) in arrays.items():
        sent = {f"{who} sent": bytes_sent(client, x) for who, x in (("ours", ours), ("native", native))}
        times = in_turns({"ours": ours.compute, "native": native.compute}, 4)
        rows.append({"what": name, **times, **sent})
    return rows


def bytes_sent(client: distributed.Client, lazy: da.Array) -> int:
    """What workers give one another while they compute an array."""

    def given(dask_worker: Any) -> int:
        return int(dask_worker.transfer_outgoing_bytes_total)

    before = sum(client.run(given).values())
    distributed.wait(client.persist(lazy))
    return sum(client.run(given).values()) - before


def modelled(one: float, state: float) -> list[dict[str, Any]]:
    """The time of a sum by many workers, and the bytes sent, of the time of one and the bytes of a state."""
    rows = []
    for count in MODELLED:
        steps = int(np.ceil(np.log2(count)))
        seconds = one / count + steps * (LATENCY + state / NETWORK)
        rows.append(
            {"workers": count, "ours": seconds, "speedup": one / seconds, "sent": (count - 1) * state}
        )
    return rows


def measured() -> dict[str, Any]:
    """All of it."""
    one_field = reductions()
    of_field = next(row["ours"] for row in one_field if "field" in row["what"])
    state = states()
    return {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.dask_arrays",
        "environment": {
            "numpy": np.__version__,
            "python": platform.python_version(),
            "dask": dask.__version__,
            "machine": platform.machine(),
            "cores": str(os.cpu_count()),
        },
        "elements": ELEMENTS,
        "chunk": CHUNK,
        "reductions": one_field,
        "states": state,
        "workers": workers(),
        "network": NETWORK,
        "latency": LATENCY,
        "model": modelled(of_field * 1000, state[0]["sent"] * FIELD[0] * FIELD[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    options = parser.parse_args()
    publish(measured(), options.json)


if __name__ == "__main__":
    main()
