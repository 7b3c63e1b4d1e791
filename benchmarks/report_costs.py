"""What it costs, in the lines that a newcomer reads: three of the README, and those where one decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from benchmarks.report_sections import RESULTS, commit, error, load, number, seconds, table


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
            yield f"{text}; a sum of 10⁶ numbers {ratio} times{_at(measured, 'reductions_cpu')}"
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
    """The lines on costs where one decides whether the library is for one."""
    return "\n".join(f"- {line}" for line in _costs())


def _costs() -> Iterator[str]:
    if cpu := product_on_cpu(2048):
        native, ours, machine = cpu
        yield (
            f"**On a {machine}**, a product of n = 2048 takes {number(ours / native, 2)} times as long as "
            "NumPy's. Where the processor multiplies bytes (VNNI, AMX or their like), the library does so "
            "wherever that is faster; `python -m benchmarks.int8_cpu` times it on yours."
        )
    yield from _small_products()
    yield from _first_calls()
    yield from _solves()
    yield from _sums()


def _small_products() -> Iterator[str]:
    measured = (load("products_cpu") or {"results": ()})["results"]
    rows = {(*r["shape"], r["stack"]): r["seconds"] for r in measured}
    on_gpu = {r["row"]: r for r in (load("small_calls_h200") or {"results": ()})["results"]}
    if rows and on_gpu:
        one, larger, many = rows[8, 8, 8, 1], rows[64, 64, 64, 1], rows[8, 8, 8, 1000]
        points = rows[1_000_000, 3, 3, 1]
        yield (
            f"**Small products**: on a CPU a call takes {seconds(one['ours'])} for 8×8 matrices and "
            f"{seconds(larger['ours'])} for 64×64, where NumPy takes {seconds(one['native'])} and "
            f"{seconds(larger['native'])}. Put many into one call: a stack of 1000 of 8×8 takes "
            f"{seconds(many['ours'])} (NumPy: {seconds(many['native'])}), a million points by a 3×3 matrix "
            f"{seconds(points['ours'])} (NumPy: {seconds(points['native'])}). On an H200 a call takes "
            f"{_microseconds(on_gpu['256²'])} for n = 256, and a stack of 1000 of 16×16 "
            f"{_microseconds(on_gpu['1000 × 16²'])}. For half precision there are "
            "[kernels for batches](how-it-works/batches.md)."
        )


def _microseconds(row: dict[str, Any]) -> str:
    return f"{row['ours']['loop']:.0f} µs (CuPy: {row['native']['loop']:.0f} µs)"


def _first_calls() -> Iterator[str]:
    data, gpu = load("first_calls_cpu"), load("first_calls_h100")
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
            f"On an H100 the first product on a machine takes {number(product['machine'], 2)} s, the first "
            f"solution with a proof {proof['machine']:.0f} s, in a later process "
            f"{number(product['process'], 2)} and {number(proof['process'], 2)} s; the same command compiles "
            "the kernels of usual calls."
        )


def _solves() -> Iterator[str]:
    for data, where, native in (
        (load(linalg_name()), "on a CPU", "np.linalg.solve"),
        (load("linalg_h200"), "on an H200", "cupy.linalg.solve"),
    ):
        rows = [r for r in (data or {"results": ()})["results"] if r["row"] in ("solve", "verified.solve")]
        ratios = {
            (row, digits): [number(r["ratio"], 2) for r in rows if (r["row"], r["digits"]) == (row, digits)]
            for row, digits in (("solve", 3), ("verified.solve", 3), ("verified.solve", 14))
        }
        if all(ratios.values()):
            solve, proved, hard = map(", ".join, ratios.values())
            sizes = ", ".join(str(r["n"]) for r in rows if r["row"] == "solve")
            yield (
                f"**Solves {where}** of {sizes} unknowns: `ozaki.linalg.solve` takes {solve} times as long "
                f"as `{native}`; `verified.solve`, with its proof, {proved} times for condition number 10³ "
                f"and {hard} times for 10¹⁴."
            )


def _sums() -> Iterator[str]:
    gpu = _row(load("reductions_h200"), "seconds", what="sum")
    cpu, axis, few = (
        _row(load("reductions_cpu"), "seconds", what=what)
        for what in ("sum, normal", "sum, 1000×1000, axis 1", "sum of 1_000, normal")
    )
    if gpu and cpu and axis and few:
        ratios = [number(r["ours"] / r["native"], 2) for r in (gpu, cpu, axis, few)]
        yield (
            f"**Sums**: 10⁸ numbers on an H200 take {ratios[0]} times as long as CuPy's sum. On a CPU "
            "10⁶ take "
            f"{ratios[1]} times as long as NumPy's, along an axis {ratios[2]} times, and 1000 take "
            f"{ratios[3]} "
            f"times ({seconds(few['ours'])}). Where numba cannot be imported, many times."
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
