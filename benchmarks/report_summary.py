"""How much faster or slower than native each product is, at each size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.gemm_report import FACES, data_name, gemm_names
from benchmarks.report_costs import int8_name
from benchmarks.report_sections import device, load, number, table


def summary(normal: bool = False) -> str:
    """The ratio to the native routine for each kind of product and data, or normal ones, against n."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for function, data, where, n, ratio in [*_gemm_ratios(), *_int8_ratios(), *_words_ratios()]:
        if data == "normal" or not normal:
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
    data = load(int8_name())
    for r in data["results"] if data and data["kernels"] else ():
        if "threads" not in r and r.get("n", 0) >= 512:
            yield FACES[r["dtype"]], "normal", "CPU, int8 words", r["n"], 1 / r["to_numpy"]["ours"]


def _words_ratios() -> Iterator[tuple[str, str, str, int, float]]:
    data: Any = load("multiword_h200") or {"speed": ()}
    for r in data["speed"]:
        if r["data"] == "normal":
            ratio = r["results"]["default"]["TF"] / r["results"]["sgemm"]["TF"]
            yield "multiword.matmul", "normal", device(data), r["n"], ratio
