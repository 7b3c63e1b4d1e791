"""The performance page's section on linear algebra."""

from __future__ import annotations

from typing import Any

from benchmarks.report_sections import device, folded, load, number, seconds, section, table

SMALL = 500
"""Smaller orders are in a table that a reader opens."""


def linalg_section(name: str) -> str:
    """Every function beside the native routine, by order and condition number."""
    data = load(name)
    header = "function | n | condition | native | ours | ours over native | tier | rounded | balls"
    rows = {small: [_row(r) for r in data["results"] if (r["n"] < SMALL) is small] for small in (True, False)}
    return section(
        f"Linear algebra, {device(data)}",
        name,
        "Functions of `ozaki.linalg`, whose results are the same bits everywhere, and of "
        "`ozaki.linalg.verified`, which prove a bound for each element, beside the native routine for the "
        "same matrix: the least of five turns, and the median of their ratios. The last column is "
        "python-flint's `arb_mat.solve` at 128 bits.",
        folded(f"Orders below {SMALL}", table(header, rows[True])) if rows[True] else "",
        table(header, rows[False]),
    )


def _row(r: dict[str, Any]) -> list[str]:
    return [
        *(f"`{r['row']}`", str(r["n"]), f"10{_exponent(r['digits'])}", seconds(r["native"])),
        *(seconds(r["ours"]), number(r["ratio"]), r.get("tier", "–")),
        *(f"{r['rounded']:.1%}" if "rounded" in r else "–", seconds(r.get("balls"))),
    ]


def _exponent(digits: float) -> str:
    return f"{digits:.0f}".translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
