"""The performance page's section on sparse matrices."""

from __future__ import annotations

from benchmarks.report_sections import device, load, number, seconds, section, table


def sparse_section(name: str) -> str:
    """Each matrix: products beside SciPy's, iterations of both, the proof beside the factorization."""
    data = load(name)
    rows = [
        [
            *(r["row"], str(r["n"]), str(r["entries"]), seconds(r["native"]), seconds(r["ours"])),
            *(number(r["ratio"]), f"`{r['method']}`", str(r["iterations"]), str(r["of scipy"])),
            *("yes" if r["same bits"] else "no", *_proof(r)),
        ]
        for r in data["results"]
    ]
    return section(
        f"Sparse matrices, {device(data)}",
        name,
        "Products of CSR matrices with vectors, every element correctly rounded, beside SciPy's: the "
        "least seconds of one thread, of turns in one process. Some 4 µs of a call of ours are "
        "Python's. Then the iterations, at most 1000 (of `lsqr` 200), that a method takes with a "
        "tolerance of 10⁻⁸, ours and SciPy's; whether solutions have the same bits for one thread and "
        "two, and for CSR, CSC and COO; and `verified.solve` beside SuperLU's factorization, with the "
        "share of components that are proved to be correctly rounded.",
        table(
            "matrix | n | entries | SciPy's | ours | ours over SciPy's | method | iterations | SciPy's own | "
            "same bits | proof over factorization | rounded",
            rows,
        ),
    )


def sparse_gpu_section(name: str) -> str:
    """Products and iterations of CG beside CuPy's, and whether solutions have the CPU's bits."""
    data = load(name)
    solved, multiplied, stepped = (
        [r for r in data["results"] if column in r] for column in ("same bits", "ours, 1", "ours")
    )
    count, equal = len(solved), sum(r["same bits"] for r in solved)
    products = [
        [r["row"], str(r["entries"])]
        + [x for n in (1, 32) for x in (seconds(r[f"native, {n}"]), seconds(r[f"ours, {n}"]))]
        for r in multiplied
    ]
    steps = [[r["row"], str(r["entries"]), seconds(r["native"]), seconds(r["ours"])] for r in stepped]
    return section(
        f"Sparse matrices, {device(data)}",
        name,
        f"Of the ten matrices above {equal} of {count} have solutions of the same bits, after as many "
        "iterations, on the GPU, on one thread of a CPU and on all. Below are products with one vector and "
        "with 32, beside CuPy's (cuSPARSE), of many that are queued. A call waits for the device if it is "
        "the first with a matrix's indices. What takes some 60 µs is bounded by Python, which takes as long "
        "for a call of any size.",
        table("matrix | entries | CuPy, 1 | ours, 1 | CuPy, 32 | ours, 32", products),
        "An iteration of CG:",
        table("system | entries | CuPy's | ours", steps),
    )


def _proof(row: dict) -> tuple[str, str]:
    if "proof" not in row:
        return "–", "–"
    return number(row["proof"] / row["factor"]), f"{row['rounded']:.1%}"
