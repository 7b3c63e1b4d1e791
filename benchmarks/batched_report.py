"""The performance page's section on batches: what a user of them asks, from the results."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks.report_figures import mark_sizes
from benchmarks.report_sections import device, figure, load, number, seconds, section, table

SQUARE = (
    ("real", ("Figs. 10a", "Fig. 14", "Fig. 18")),
    ("half-complex", ("Figs. 12a", "Fig. 15", "Fig. 19")),
)
"""The kinds of matrices, and how the titles of the paper's figures of their square products begin."""

SIZES = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 100, 128, 192, 256)
"""Those of the table, of many more that were measured."""

BATCHES = (100, 1000, 10000)


def squares(data: dict[str, Any], beginnings: tuple[str, ...]) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the rows of square products of one kind, by size and batch."""
    of_kind = [rows for title, rows in data["figures"].items() if title.startswith(beginnings)]
    return {(r["n"], r["batch"]): r for rows in of_kind for r in rows}


def batched_section(name: str) -> str:
    """Batches of small matrices: speed against size, times by size and batch, what a call may ask for."""
    data = load(name)
    note = (
        "The GPU's time of one batch of n×n products, and how many times faster than cuBLAS "
        "it is. cuBLAS multiplies half-complex matrices as four products of planes. The dotted line is what "
        "memory allows: the bytes of A, B and C over a copy's "
        f"{data['bandwidth'] / 1e12:.1f} TB/s (equation (1) of Abdelfattah, Tomov and Dongarra). Small "
        "batches stay below it, because the launch of a kernel takes "
        f"{seconds(data['empty'])} however little there is to do; the largest real matrices are left to "
        f"cuBLAS. A call takes Python {data['python_microseconds_per_call']:.0f} µs, which CUDA graphs save. "
        "Rank-16 products and every other size and batch of the paper are in the result file."
    )
    return section(
        f"Batches of half and half-complex matrices, {device(data)}",
        name,
        figure(name, "speed against n, of real and half-complex matrices"),
        note,
        sizes_table(data),
        f"### What a call may ask for, batch 1000\n\n{options_table(data)}",
    )


def sizes_table(data: dict[str, Any]) -> str:
    """Our time and the times faster than cuBLAS, for each size, kind and batch."""
    found = {kind: squares(data, beginnings) for kind, beginnings in SQUARE}
    columns = [(kind, batch) for kind in found for batch in BATCHES]
    lines = []
    for n in SIZES:
        rows = [found[kind].get((n, batch)) for kind, batch in columns]
        cells = [f"{number(r['cublas'] / r['ours'])} ({seconds(r['ours'])})" if r else "–" for r in rows]
        lines.append([f"{n}", *cells])
    titles = [f"{kind}, {batch} of them" for kind, batch in columns]
    return table(" | ".join(["n", *titles]), lines)


def options_table(data: dict[str, Any]) -> str:
    """Times faster than cuBLAS with the same option, and ours."""
    sizes = sorted({r["n"] for r in data["options"]})
    found: dict[tuple[str, str], dict[int, str]] = {}
    for r in data["options"]:
        kind = {"complex": "half-complex"}.get(r["kind"], r["kind"])
        cell = f"{number(r['cublas'] / r['ours'])} ({seconds(r['ours'])})"
        found.setdefault((kind, r["option"]), {})[r["n"]] = cell
    lines = [[*key, *(cells.get(n, "–") for n in sizes)] for key, cells in found.items()]
    text = (
        "Times faster than cuBLAS asked for the same (half-complex: of four planar products), and our time. "
        "β = 1 reads C as well; ᴴ is the conjugate transpose."
    )
    return f"{text}\n\n{table(' | '.join(['kind', 'option', *(f'n = {n}' for n in sizes)]), lines)}"


def draw_batched(name: str) -> Figure:
    """Speed against n, cuBLAS's, and what memory allows, for real and half-complex square matrices."""
    data = load(name)
    result = Figure(figsize=(7, 7))
    axes = result.subplots(2, 1)
    curves = (("ours", "C0o-", "ours"), ("cublas", "C1x-", "cuBLAS"), ("bound", "k:", "what memory allows"))
    for axis, (kind, beginnings) in zip(axes, SQUARE, strict=True):
        found, flops = squares(data, beginnings), 8 if "complex" in kind else 2
        for batch, alpha in zip(BATCHES[:0:-1], (1.0, 0.5), strict=True):
            part = [found[n, batch] for n in SIZES if (n, batch) in found]
            work = [flops * r["n"] ** 2 * r["k"] * batch / 1e12 for r in part]
            for key, style, label in curves:
                rates = [w / r[key] for w, r in zip(work, part, strict=True)]
                axis.plot([r["n"] for r in part], rates, style, alpha=alpha, label=label)
        mark_sizes(axis, SIZES)
        axis.set_title(f"{kind}, {BATCHES[-1]} matrices (pale: {BATCHES[-2]})", fontsize=12)
        axis.set(xlabel="n", ylabel="Tflop/s", yscale="log")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].legend(handles[:3], labels[:3], loc="lower right", fontsize=13)
    return result
