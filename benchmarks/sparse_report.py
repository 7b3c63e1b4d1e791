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
        "least seconds of one thread, of turns in one process. Some 70 µs of a call of ours are "
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


def _proof(row: dict) -> tuple[str, str]:
    if "proof" not in row:
        return "–", "–"
    return number(row["proof"] / row["factor"]), f"{row['rounded']:.1%}"
