"""The performance page of all functions over all shapes: quantiles, the slowest rows, a dot for each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from benchmarks.report_sections import device, figure, load, number, seconds, section, table
from ozaki.public import PUBLIC

SLOWEST = 20
"""Rows of the table."""

FAMILIES = {
    "proofs": (),
    "linear algebra": (),
    "sparse matrices": (),
    "groups and windows": ("Sums by group", "Moving windows"),
    "products": ("Matrix products", "Contractions", "Covariances and distances"),
    "sums": ("Sums", "Moments"),
    "functions of rows": ("Functions of rows",),
    "elementary functions": ("Elementary functions",),
}
"""What functions are told apart by, with the headings under which the reference has those of `ozaki`."""

MODULES = {"linalg.verified.": "proofs", "linalg.": "linear algebra", "sparse.": "sparse matrices"}
"""The families of other modules."""


def family(name: str) -> str:
    """Return the family of a function.

    >>> family("rolling_sum, window 100"), family("linalg.verified.solve"), family("softmax")
    ('groups and windows', 'proofs', 'functions of rows')
    """
    of = name.partition(",")[0]  # without what it is called with
    if module := next((m for m in MODULES if of.startswith(m)), ""):
        return MODULES[module]
    return next(title for title, headings in FAMILIES.items() if PUBLIC[of].heading in headings)


def quantiles(ratios: Sequence[float]) -> list[str]:
    """Return how many ratios there are, their median, nine in ten, and the largest."""
    return [str(len(ratios)), *(number(float(np.quantile(ratios, q))) for q in (0.5, 0.9, 1.0))]


def what_is_timed(data: dict) -> str:
    """Return what a file has rows of: every function, or the one or two families that there are."""
    titles = list(dict.fromkeys(family(row["function"]) for row in data["results"]))
    return "every function" if len(titles) > 2 else " and ".join(titles)


def cliffs_picture(name: str) -> tuple[str, str]:
    """Return the picture for a page above those of the parts, and a sentence about all rows."""
    data = load(name)
    count, median, most, worst = quantiles([row["ratio"] for row in data["results"]])
    picture = figure(name, "ratio of times against size").replace("../", "")
    titles = dict.fromkeys(family(row["function"]) for row in data["results"])
    sentence = (
        f"Of {count} calls ({', '.join(titles)}; {device(data)}) half take less than {median} times as long, "
        f"nine in ten less than {most} times, the slowest {worst} times."
    )
    return picture, sentence


def cliffs_section(name: str) -> str:
    """Quantiles of each family, and the slowest rows."""
    data = load(name)
    rows = data["results"]
    by_family: dict[str, list[float]] = {title: [] for title in FAMILIES}
    for row in rows:
        by_family[family(row["function"])].append(row["ratio"])
    summary = [["all", *quantiles([row["ratio"] for row in rows])]]
    summary += [[title, *quantiles(ratios)] for title, ratios in by_family.items() if ratios]
    slowest = sorted(rows, key=lambda row: -row["ratio"])[:SLOWEST]
    tail = [
        [
            f"`{r['function']}`",
            r["call"],
            r["dtype"],
            seconds(r["native"]),
            seconds(r["ours"]),
            number(r["ratio"]),
        ]
        for r in slowest
    ]
    return section(
        f"{what_is_timed(data).capitalize()}, {device(data)}",
        name,
        figure(name, "ratio of times against size"),
        "Our time over that of NumPy's or CuPy's own function: a call at a time, waited for, medians of five "
        "turns. Functions come from the table of what is public, so that none is left out. A proof, or a "
        "correctly rounded result, is beside a routine that offers neither.",
        table("functions | rows | median | nine in ten | worst", summary),
        "The slowest:",
        table("function | call | dtype | native | ours | ratio", tail),
    )


def draw_cliffs(name: str) -> Figure:
    """Ratio against size, a dot for each row."""
    data = load(name)
    drawing = Figure(figsize=(7, 6))
    ax = drawing.subplots()
    for i, title in enumerate(FAMILIES):
        rows = [r for r in data["results"] if family(r["function"]) == title]
        if rows:
            aside = 10 ** (0.05 * (i - len(FAMILIES) / 2))  # families of one size stand side by side
            numbers, ratios = [aside * r["numbers"] for r in rows], [r["ratio"] for r in rows]
            mark = "pos^Dv<>"[i]  # in the dark, where colours are inverted, some are alike
            colour = f"C{i}" if i < 7 else "0.55"  # there are seven
            ax.loglog(numbers, ratios, mark, color=colour, ms=3.5, mew=0, alpha=0.7, label=title)
    ax.axhline(1, color="k", lw=0.8)
    title = f"{what_is_timed(data).capitalize()}, {device(data)}"
    ax.set(xlabel="numbers", ylabel="our time over the native one", title=title)
    ax.legend(markerscale=2, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return drawing
