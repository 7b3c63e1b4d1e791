"""The summaries: the README's six rows, and how much faster or slower than native at each size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.gemm_report import FACES, data_name, gemm_names
from benchmarks.report_costs import int8_result, product_on_cpu
from benchmarks.report_sections import device, error, load, number, seconds, table


def headline() -> str:
    """The README's table: at most six rows, each the answer to one question that a reader has."""
    rows = [row for row in _headline_rows() if row]
    blocks = []
    if rows:
        blocks.append(table("work | on | native | ours | ratio | native error | our error", rows))
        names = ("dgemm_h200", "multiword_h200", "batched_h200", "reductions_h200", "dgemm_cpu")
        dates = sorted({data["date"] for data in (*map(load, names), int8_result()) if data})
        blocks.append(
            f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; commands, versions, data and"
            " other sizes are on the [performance page](docs/performance.md)."
        )
    return "\n\n".join(blocks)


def _headline_rows() -> Iterator[list[str] | None]:
    """A large and a small FP64 product, FP32, a batch, a sum; and a CPU."""
    yield _gemm_headline("dgemm_h200", 8192)
    yield _gemm_headline("dgemm_h200", 1024)
    yield _words_headline(8192)
    yield _batched_headline(n=16, batch=10000)
    yield _sum_headline("reductions_h200")
    yield _cpu_headline(2048)


def _gemm_headline(name: str, n: int) -> list[str] | None:
    """`accurate_dgemm` on normal data."""
    data = load(name) or {"results": ()}
    for r in data["results"]:
        if r["dtype"] == "float64" and r["data"] == "normal" and r["shape"] == [n, n, n]:
            unit, scale = ("Tflop/s", 1) if r["native"]["teraflops"] > 1 else ("Gflop/s", 1e3)
            speeds = [f"{number(r[x]['teraflops'] * scale)} {unit}" for x in ("native", "ours")]
            errors = [error(r[x]["max"]) for x in ("native", "ours")]
            where = device(data).split(",")[0]
            return [f"FP64 product, n = {n}", where, *speeds, number(r["ratio"]), *errors]
    return None


def _cpu_headline(n: int) -> list[str] | None:
    """A product on a CPU; its errors are those of `dgemm_cpu`, for the bits depend on no words."""
    cpu, row = product_on_cpu(n), _gemm_headline("dgemm_cpu", n)
    if cpu is None or row is None:
        return row
    native, ours, machine = cpu
    speeds = [f"{number(2 * n**3 / x / 1e9)} Gflop/s" for x in (native, ours)]
    return [row[0], machine, *speeds, number(native / ours), *row[-2:]]


def _words_headline(n: int) -> list[str] | None:
    """`multiword.matmul` on normal data."""
    data = load("multiword_h200") or {"speed": ()}
    for r in data["speed"]:
        if r["data"] == "normal" and r["n"] == n:
            native, ours = r["results"]["sgemm"], r["results"]["default"]
            speeds = [f"{number(x['TF'])} Tflop/s" for x in (native, ours)]
            rest = [number(ours["TF"] / native["TF"]), error(native["max"]), error(ours["max"])]
            return [f"FP32 product, n = {n} (`multiword.matmul`)", device(data), *speeds, *rest]
    return None


def _batched_headline(n: int, batch: int) -> list[str] | None:
    """`batched_matmul` on half-complex matrices."""
    data = load("batched_h200") or {"figures": {}}
    for title, entries in data["figures"].items():
        for r in entries:
            if "half-complex, extremely small" in title and (r["n"], r["batch"]) == (n, batch):
                times = [seconds(r["cublas"]), seconds(r["ours"])]
                what = f"{batch} half-complex products, {n}×{n}"
                return [what, device(data), *times, number(r["cublas"] / r["ours"]), "–", "–"]
    return None


def _sum_headline(name: str) -> list[str] | None:
    """`ozaki.sum` of all the numbers of an array."""
    data = load(name) or {"seconds": ()}
    for r in data["seconds"]:
        if r["what"] == "sum":
            what = f"sum of {data['elements']:.0e} numbers, correctly rounded".replace("1e+08", "10⁸")
            times = [seconds(r["native"]), seconds(r["ours"])]
            where = device(data).split(",")[0]
            return [what, where, *times, number(r["native"] / r["ours"]), "–", "–"]
    return None


def summary() -> str:
    """The ratio to the native routine for each kind of product and data, against n."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for function, data, where, n, ratio in [*_gemm_ratios(), *_int8_ratios(), *_words_ratios()]:
        found.setdefault((function, data, where), {})[n] = ratio
    sizes = sorted({n for row in found.values() for n in row})
    rows = [
        [f"`{function}`", data, where, *(number(row.get(n)) for n in sizes)]
        for (function, data, where), row in found.items()
    ]
    return table(" | ".join(["product, for n =", "data", "on", *map(str, sizes)]), rows)


def _gemm_ratios() -> Iterator[tuple[str, str, str, int, float]]:
    for name in gemm_names():
        where = device(load(name)).split(",")[0]
        where += ", fp64 words" if where == "CPU" else ""
        for r in load(name)["results"]:
            beside_others = bool(r.get("peers"))  # which is measured once more, for that table
            square = len(set(r["shape"])) == 1
            if square and not beside_others and r["data"] in ("normal", "2", "4", "half zeros"):
                yield FACES[r["dtype"]], data_name(r), where, r["shape"][0], r["ratio"]


def _int8_ratios() -> Iterator[tuple[str, str, str, int, float]]:
    """Products on a CPU that computes with int8 words."""
    data = int8_result()
    for r in data["results"] if data and data["kernels"] else ():
        if "threads" not in r and r.get("n", 0) >= 512:
            yield FACES[r["dtype"]], "normal", "CPU, int8 words", r["n"], 1 / r["to_numpy"]["ours"]


def _words_ratios() -> Iterator[tuple[str, str, str, int, float]]:
    data: Any = load("multiword_h200") or {"speed": ()}
    for r in data["speed"]:
        if r["data"] == "normal":
            ratio = r["results"]["default"]["TF"] / r["results"]["sgemm"]["TF"]
            yield "multiword.matmul", "normal", device(data), r["n"], ratio
