"""What it costs, in the lines that a newcomer reads: three of the README, and those where one decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from benchmarks.report_sections import RESULTS, commit, device, error, load, number, seconds, table


def int8_name() -> str:
    """The products of `benchmarks.int8_cpu` that stand for CPUs: with all threads and the BLAS as it is."""
    names = sorted(path.stem for path in RESULTS.glob("int8_cpu*.json"))
    plain = [n for n in names if not re.search(r"CORETYPE|OMP_NUM|--threads", load(n)["command"])]
    return (plain or names or [""])[0]


def linalg_name() -> str:
    """The linear algebra on a CPU."""
    names = sorted(path.stem for path in RESULTS.glob("linalg_*.json"))
    return next((name for name in names if "--gpu" not in load(name)["command"]), "")


def _row(data: dict[str, Any] | None, rows: str = "results", /, **of: Any) -> dict[str, Any] | None:
    """The row of a result with these values."""
    found = (data or {}).get(rows, ())
    return next((r for r in found if all(r.get(key) == value for key, value in of.items())), None)


def product_on_cpu(n: int, dtype: str = "float64") -> tuple[float, float, str] | None:
    """Seconds of NumPy's and our product of normal matrices, and on what."""
    data = load(int8_name())
    if data and data["kernels"] and (row := _row(data, n=n, dtype=dtype)):
        machine = f"CPU with {_UNITS[data['kernels'][0]]}, {data['cores']} cores"
        return row["seconds"]["numpy"], row["seconds"]["ours"], machine
    row = _row(load("dgemm_cpu"), shape=[n, n, n], dtype=dtype, data="normal")
    return (row["native"]["seconds"], row["ours"]["seconds"], "CPU") if row else None


_UNITS = {
    "amx": "AMX",
    "avx512vnni": "AVX-512 VNNI",
    "avxvnni": "AVX-VNNI",
    "i8mm": "i8mm",
    "dotprod": "dot products",
}
"""What multiplies bytes, by kernel, as its makers call it."""


def _at(*names: str) -> str:
    """Return the commits of results, in brackets at the end of a sentence."""
    commits = list(dict.fromkeys(filter(None, map(commit, names))))
    return f" (commit{'s' * (len(commits) > 1)} {', '.join(commits)})." if commits else "."


def headlines() -> str:
    """Three lines for the README: a GPU, a CPU, a solve."""
    return "\n".join(f"- {line}" for line in _headlines())


def _headlines() -> Iterator[str]:
    gpu = _row(load("dgemm_h200"), shape=[8192] * 3, dtype="float64", data="normal")
    if gpu:
        yield (
            "**On an H200**, a product of two float64 matrices of order 8192 takes "
            f"{number(1 / gpu['ratio'], 2)} times as long as "
            f"cuBLAS's, with an error of {error(gpu['ours']['max'])} instead of "
            f"{error(gpu['native']['max'])}{_at('dgemm_h200')}"
        )
    if cpu := product_on_cpu(2048):
        native, ours, machine = cpu
        measured = int8_name() if machine != "CPU" else "dgemm_cpu"
        ratio = number(ours / native, 2)
        text = f"**On a {machine}**, one of order 2048 takes {ratio} times as long as NumPy's"
        if total := _row(load("reductions_cpu"), "seconds", what="sum, normal"):
            ratio = number(total["ours"] / total["native"], 2)
            cores = device(load("reductions_cpu")).split(", ")[-1]
            sum_ = f"on {cores} a sum of 10⁶ numbers {ratio} times"
            yield f"{text}; {sum_}{_at(measured, 'reductions_cpu')}"
        else:
            yield text + _at(measured)
    solve = _row(load(linalg_name()), row="verified.solve", n=1000, digits=3)
    yield "**A solve**: `ozaki.linalg.verified.solve` proves a bound for every component" + (
        f", in {number(solve['ratio'], 2)} times the time of `np.linalg.solve` for 1000 unknowns "
        f"(condition number 10³){_at(linalg_name())}"
        if solve
        else ", or says that it could not (`python -m benchmarks.linalg` times it)."
    )


def costs() -> str:
    """A table of calls beside the native ones, and lines on first calls, where one decides."""
    rows = [
        [call, where, beside, seconds(native), seconds(ours), number(ratio, 2)]
        for call, where, beside, native, ours, ratio in (*_products(), *_sums(), *_solves())
    ]
    calls = table("call | on | beside | takes | ours | times", rows)
    return "\n\n".join([calls, *(f"- {line}" for line in _first_calls())])


Call = tuple[str, str, str, float, float, float]
"""A call, on what, beside whose function, the seconds of that, ours, and their ratio."""


def _call(call: str, where: str, beside: str, native: float, ours: float) -> Call:
    return call, where, beside, native, ours, ours / native


def _products() -> Iterator[Call]:
    measured = (load("products_cpu") or {"results": ()})["results"]
    for call, shape, stack in (
        ("product, 8 × 8", [8] * 3, 1),
        ("product, 64 × 64", [64] * 3, 1),
        ("1000 products in a stack, 8 × 8", [8] * 3, 1000),
        ("10⁶ points by a 3 × 3 matrix", [1_000_000, 3, 3], 1),
    ):
        if row := _row({"results": measured}, shape=shape, stack=stack):
            yield _call(call, "CPU", "NumPy", row["seconds"]["native"], row["seconds"]["ours"])
    if cpu := product_on_cpu(2048):
        native, ours, machine = cpu
        yield _call("product, 2048 × 2048", machine, "NumPy", native, ours)
    for call, name in (("product, 256 × 256", "256²"), ("1000 products in a stack, 16 × 16", "1000 × 16²")):
        if row := _row(load("small_calls_h200"), row=name):
            yield _call(call, "H200", "CuPy", *(1e-6 * row[x]["loop"] for x in ("native", "ours")))


def _sums() -> Iterator[Call]:
    for call, what in (
        ("sum of 1000 numbers", "sum of 1_000, normal"),
        ("sum of 10⁶ numbers", "sum, normal"),
        ("sums of 1000 rows of 1000", "sum, 1000×1000, axis 1"),
    ):
        if row := _row(load("reductions_cpu"), "seconds", what=what):
            yield _call(call, "CPU", "NumPy", row["native"], row["ours"])
    if row := _row(load("reductions_h200"), "seconds", what="sum"):
        yield _call("sum of 10⁸ numbers", "H200", "CuPy", row["native"], row["ours"])
    for call, name in (
        ("sums of 10⁷ numbers in 1000 groups", "group_sum, 10⁷ numbers, 1000 groups"),
        ("means of windows of 100, 10⁶ numbers", "rolling_mean, 10⁶ numbers, windows of 100"),
    ):
        if row := _row(load("everyday_cpu"), row=name):
            yield _call(call, "CPU", "pandas", row["seconds"]["pandas"], row["seconds"]["ozaki"])


def _solves() -> Iterator[Call]:
    for name, where, beside, sizes in (
        (linalg_name(), "CPU", "NumPy", (100, 1000)),
        ("linalg_h200", "H200", "CuPy", (4096,)),
    ):
        for n in sizes:
            for call, function, digits in (
                (f"`linalg.solve`, {n} unknowns", "solve", 3),
                (f"`verified.solve`, {n} unknowns, condition number 10³", "verified.solve", 3),
                (f"`verified.solve`, {n} unknowns, condition number 10¹⁴", "verified.solve", 14),
            ):
                if row := _row(load(name), row=function, n=n, digits=digits):
                    yield call, where, beside, row["native"], row["ours"], row["ratio"]  # the median of turns


def _first_calls() -> Iterator[str]:
    data, gpu = load("first_calls_cpu"), load("first_calls_h200")
    if data and gpu:
        of_gpu = {r["row"]: r for r in gpu["results"]}
        product, proof = of_gpu["product of 1024 × 1024"], of_gpu["verified solution of 1024 unknowns"]
        slowest = max(r["machine"] for r in data["results"])
        process = [r["process"] for r in data["results"]]
        yield (
            "**First calls** are slower. On a CPU numba compiles loops at their first use on a machine: "
            "up to "
            f"{number(slowest, 2)} s for a call, and {data['compile']:.0f} s for all of them, which "
            "`python -m ozaki compile` spends beforehand. A later process loads them: its first call takes "
            f"{number(min(process), 2)} to {number(max(process), 2)} s, `import ozaki` included. "
            f"On an H200 the first product on a machine takes {number(product['machine'], 2)} s, the first "
            f"solution with a proof {proof['machine']:.0f} s, in a later process "
            f"{number(product['process'], 2)} and {number(proof['process'], 2)} s; the same command compiles "
            "the kernels of usual calls."
        )


def sum_ratio() -> float:
    """How many times as fast as CuPy's a sum of 10⁸ numbers is, when calls are queued."""
    row = _row(load("reductions_h200"), "seconds", what="sum")
    return row["native"] / row["ours"] if row else 0.0


def alone() -> str:
    """How many times as fast as CuPy's a sum is when it is called alone, in a tutorial's script."""
    record = (load("examples_h200") or {}).get("07_reproducible_reductions", {"output": ""})
    native, ours = (re.search(rf"{name}\.sum +([\d.]+)", record["output"]) for name in ("cupy", "ozaki"))
    return number(float(ours[1]) / float(native[1]), 2) if native and ours else "–"


_LIMITS = {
    "normal equations": (
        "normal equations of a Vandermonde matrix, κ = 5·10⁹",
        "AᵀA has κ² = 2·10¹⁹: rounding its elements once is enough to lose all digits",
        "`np.linalg.lstsq`; `verified.lstsq` with a proof",
    ),
    "Gram–Schmidt": (
        "classical Gram–Schmidt of a Hilbert matrix",
        "the vectors are rounded; what is left after the subtraction is rounding error",
        "Householder: `np.linalg.qr`",
    ),
    "Lanczos": (
        "Lanczos without reorthogonalization",
        "orthogonality is lost when an eigenvalue converges (Paige)",
        "reorthogonalize",
    ),
    "refinement": (
        "refinement with b - Ax in two roundings, A a Hilbert matrix",
        "Ax is rounded before it is subtracted from b",
        "`ozaki.residual(a, x, b)`, one rounding",
    ),
}
"""What each algorithm of `benchmarks.limits` is, what goes wrong, and what to do instead."""


def limits_table() -> str:
    """Algorithms that exact products do not mend."""
    data = load("limits_cpu")
    rows = [
        [what, why, f"{r['numpy']:.2g}", f"{r['exact']:.2g}", instead, f"{r['instead']:.2g}"]
        for r in data["results"]
        for what, why, instead in [_LIMITS[r["row"]]]
    ]
    header = "algorithm | what goes wrong | with NumPy's products | with exact products | instead | its error"
    where = "benchmarks/results/limits_cpu.json"
    note = f"Measured {data['date']} with NumPy {data['numpy']}, by `{data['command']}` (`{where}`)."
    return f"{table(header, rows)}\n\n{note}"
