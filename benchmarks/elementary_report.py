"""What elementary functions take, in the lines of the page that says how they work."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.report_sections import load, number, table

_ON_CPU, _ON_GPU = "elementary_cpu", "functions_h200"

_SHOWN = (
    *("exp", "log", "tanh", "expm1", "log1p", "sin", "tan", "asin", "atan", "asinh", "logit", "cbrt", "sqrt"),
    *("erf", "erfc", "hypot", "atan2", "logaddexp", "pow"),
)
"""The functions of the tables; the results have all."""


def functions_text() -> str:
    """Return both tables, and what they say of all functions."""
    cpu, gpu = load(_ON_CPU), load(_ON_GPU)
    on_cpu, on_gpu = _ratios(cpu, "ozaki ns", "numpy ns"), _ratios(gpu, *_ON_DEVICE)
    processor = cpu["environment"]["cpu"]
    device = gpu["environment"]["device"].removeprefix("NVIDIA ")
    beside = f", while {gpu['beside']}" if "beside" in gpu else ""
    of_cpu = (
        f"On one core of an {processor} with AVX-512 float64 functions take {_range(on_cpu['float64'])} as "
        "long as NumPy's, which are not correctly rounded, and float32 ones, which NumPy computes sixteen at "
        f"once, {_range(on_cpu['float32'])}. Processor time of one thread, 10⁶ numbers, ns each (measured "
        f"{cpu['date']}, `{cpu['command']}`, with PyTorch installed; `benchmarks/results/{_ON_CPU}.json` has "
        "all functions, and PyTorch's times):"
    )
    of_gpu = (
        f"On an {device} calls with 10⁸ float32 numbers take {_range(on_gpu['float32'])} as long as CuPy's, "
        f"and float64 ones, which wait for their kernel, {_range(on_gpu['float64'])}. µs (measured "
        f"{gpu['date']}, `{gpu['command']}`{beside}; `benchmarks/results/{_ON_GPU}.json`):"
    )
    tables = _table(cpu, "ozaki ns", "numpy ns", "NumPy"), _table(gpu, *_ON_DEVICE, "CuPy")
    return "\n\n".join([of_cpu, tables[0], of_gpu, tables[1]])


_ON_DEVICE = "ozaki µs", "cupy µs"


def _ratios(data: dict[str, Any], ours: str, theirs: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"float32": [], "float64": []}
    for row in data["results"]:
        if row.get(theirs):
            found[row["dtype"]].append(row[ours] / row[theirs])
    return found


def _range(ratios: list[float]) -> str:
    low, high = min(ratios), max(ratios)
    return f"{number(low, 2)} to {number(high, 2)} times ({number(median(ratios), 2)} in the middle)"


def _table(data: dict[str, Any], ours: str, theirs: str, library: str) -> str:
    times = {(row["function"], row["dtype"]): row for row in data["results"]}
    rows = []
    for name in _SHOWN:
        cells = [f"`{name}`"]
        for dtype in ("float32", "float64"):
            row = times[name, dtype]
            a, b = row[ours], row.get(theirs)
            cells += [number(a), number(b), number(a / b if b else None)]
        rows.append(cells)
    header = f"function | float32: ozaki | {library} | ratio | float64: ozaki | {library} | ratio"
    return table(header, rows)
