"""The section of the performance page on Dask arrays."""

from __future__ import annotations

from benchmarks.report_sections import device, load, number, seconds, section, table


def dask_section(name: str) -> str:
    """Sums and products of Dask arrays: speed, state, scaling, and a model of many workers."""
    data = load(name)
    speed = [
        [r["what"], seconds(r["native"]), seconds(r["ours"]), number(r["ratio"])] for r in data["reductions"]
    ]
    states = [[r["what"], number(r["held"]), number(r["sent"])] for r in data["states"]]
    many = [
        [
            r["what"],
            str(r["workers"]),
            seconds(r["native"]),
            seconds(r["ours"]),
            number(r["ours"] / r["native"]),
            size(r["native sent"]),
            size(r["ours sent"]),
        ]
        for r in data["workers"]
    ]
    model = [
        [str(r["workers"]), seconds(r["ours"]), number(r["speedup"]), size(r["sent"])] for r in data["model"]
    ]
    elements, chunks = f"{data['elements']:_}".replace("_", " "), f"{data['chunk']:_}".replace("_", " ")
    return section(
        f"Dask arrays, {device(data)}",
        name,
        data.get("note", ""),
        f"{elements} float64 numbers in chunks of {chunks}, in one thread, beside Dask's own functions.",
        table("what | da | ours | ours over da", speed),
        "What a task of a reduction hands on, in bytes an output element, in memory and as it is sent:",
        table("data | held | sent", states),
        "Worker processes, or threads of one, that have the chunks, the scheduler's time included, and what "
        "workers send one another:",
        table("what | workers | da | ours | ours over da | da sent | ours sent", many),
        "A model, not a measurement: the sum over time of a field, of 1 000 times as many numbers, by "
        "workers as fast as one here, then a tree of merges that sends one state a step at "
        f"{data['network'] / 1e9:.0f} GB/s after {data['latency'] * 1e3:.0f} ms:",
        table("workers | ours | speed-up | sent", model),
    )


def two_gpus_section(name: str) -> str:
    """A product on two GPUs beside one, and one that is larger than a GPU."""
    data, larger = load(name), name.replace("gpus", "gpus_larger")
    n, ways = data["n"], ("2 GPUs", "one GPU", "without Dask")
    rows = [
        [
            r["accuracy"],
            *(seconds(min(r["seconds"][way])) for way in ways),
            *(number(r["times one"][way]) for way in ways[1:]),
            size(r["sent"]["2 GPUs"]),
            "yes" if r["same bits"] else "no",
        ]
        for r in data["results"]
    ]
    return section(
        f"Two GPUs, {device(data)}",
        name,
        f"n = {n}, the fastest of three calls: both GPUs by Dask, one of them by Dask, and `ozaki.matmul` "
        f"without Dask; what workers send one another, while B has {size(8 * n * n)}.",
        table("accuracy | two | one | without Dask | times one | times it | sent | same bits", rows),
        *(_larger_than_a_gpu(larger) if load(larger) else ()),
    )


def _larger_than_a_gpu(name: str) -> tuple[str, str]:
    data = load(name)
    n, memory = data["n"], data["memory"]
    rows = [
        [
            r["accuracy"],
            seconds(min(r["seconds"])),
            number(r["Tflop/s"]),
            size(r["sent"]),
            "yes" if r["same bits"] else "no",
        ]
        for r in data["results"]
    ]
    return (
        f"n = {n}, {size(memory['bytes'])} of matrices, {size(memory['bytes on each'])} used on each GPU of "
        f"{size(memory['bytes of a GPU'])} (`{data['command']} --size {n}`, "
        f"`benchmarks/results/{name}.json`); bits "
        "compared with `ozaki.matmul` for 256 rows of each chunk:",
        table("accuracy | two | Tflop/s, both | sent | same bits", rows),
    )


def size(count: float) -> str:
    """Bytes, in kB, MB or GB."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{number(count / 1e6)} MB" if count < 1e9 else f"{number(count / 1e9)} GB"
