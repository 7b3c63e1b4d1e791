"""The performance page's section on linear algebra."""

from __future__ import annotations

from benchmarks.report_sections import device, load, number, seconds, section, table


def linalg_section(name: str) -> str:
    """Every function beside the native routine, by order and condition number."""
    data = load(name)
    rows = [
        [
            *(f"`{r['row']}`", str(r["n"]), f"10{_exponent(r['digits'])}", seconds(r["native"])),
            *(seconds(r["ours"]), number(r["ratio"]), r.get("tier", "–")),
            *(f"{r['rounded']:.1%}" if "rounded" in r else "–", seconds(r.get("balls"))),
        ]
        for r in data["results"]
    ]
    return section(
        f"Linear algebra, {device(data)}",
        name,
        "Functions of `ozaki.linalg`, whose results are the same bits everywhere, and of "
        "`ozaki.linalg.verified`, which prove a bound for each element, beside the native routine for the "
        "same matrix: the least of five turns, and the median of their ratios. The last column is "
        "python-flint's `arb_mat.solve` at 128 bits.",
        table("function | n | condition | native | ours | ours over native | tier | rounded | balls", rows),
    )


def _exponent(digits: float) -> str:
    return f"{digits:.0f}".translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
