"""The performance page's section on batches: the paper's figures as tables and plots, from the results."""

from __future__ import annotations

from statistics import median
from typing import Any

from matplotlib.figure import Figure

from benchmarks.report_figures import mark_sizes
from benchmarks.report_sections import device, figure, folded, load, number, seconds, section, table

SMALL = 32
"""Sizes that the section's summary is about."""


def floor(row: dict[str, Any], data: dict[str, Any]) -> float:
    """What no kernel can beat: memory's bandwidth, or the launch of a kernel that does nothing."""
    return max(row["bound"], data["empty"])


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def kind_of(title: str) -> str:
    """Real or half-complex, from a figure's title."""
    return title[title.index("(") + 1 : -1].split(",")[0]


def batched_section(name: str) -> str:
    """Batches of small matrices: a summary, then every figure of the paper as a table."""
    data = load(name)
    least = min(r["mover"] for rows in data["figures"].values() for r in rows)
    note = (
        "Times of one batch of n×n products (rank-16: k = 16), kernels alone, from the replay of CUDA "
        f"graphs. *Bound*: the bytes of A, B and C over a copy's {data['bandwidth'] / 1e12:.1f} TB/s "
        "(equation (1) of Abdelfattah, Tomov and Dongarra, with C written but not read); cuBLAS "
        "multiplies half-complex matrices as four products of planes, whose bound, equation (2), is "
        "twice as high. Small batches do not come near it: a kernel that does nothing takes "
        f"{seconds(data['empty'])} in a graph, and one that reads and writes anything at all "
        f"{seconds(least)}. *Floor* is the larger of the bound and the empty kernel; *moving* is a "
        "kernel timed beside each batch that reads the same A and B, writes as many bytes as C has, "
        "16 at a time, and computes nothing: the time of launch, latency and bandwidth together. "
        "Operands rotate through more memory than the L2 cache of 60 MB holds; *floor, in L2* is "
        "measured with the same operands again and again, where they fit. From Python a call takes "
        f"{data['python_microseconds_per_call']:.0f} µs; in a CUDA graph that does not count."
    )
    blocks = [folded(title, figure_table(rows, data)) for title, rows in data["figures"].items()]
    return section(
        f"Batches of half and half-complex matrices, {device(data)}",
        name,
        note,
        f"### In short, n ≤ {SMALL}\n\n{summary(data)}",
        "### Every figure of the paper",
        folded("All of them, drawn", figure(name, "speed against n for every figure of the paper")),
        *blocks,
        f"### What a call may ask for, batch 1000\n\n{options_table(data)}",
        f"### Figs. 16 and 17 (use of the tensor cores)\n\n{utilization()}",
    )


def summary(data: dict[str, Any]) -> str:
    """Least and median of what counts, for the small sizes of every kind and batch."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for title, rows in data["figures"].items():
        for row in rows:
            if row["n"] <= SMALL:
                kind = kind_of(title) + (", rank-16" if "rank-16" in title else "")
                groups.setdefault((kind, row["batch"]), []).append(row)
    lines = []
    for (kind, batch), rows in sorted(groups.items()):
        floors = [floor(r, data) / r["ours"] for r in rows]
        movers = [r["mover"] / r["ours"] for r in rows]
        faster = [r["cublas"] / r["ours"] for r in rows]
        ceiling = [r["cublas"] / r["mover"] for r in rows]
        shares = [f"{share(f(x), 1)}" for x in (floors, movers) for f in (min, median)]
        times = [number(f(x)) for x in (faster, ceiling) for f in (min, median)]
        lines.append([kind, f"{batch}", f"{len(rows)}", *shares, *times])
    header = (
        "kind | batch | sizes | floor, least | floor, median | moving, least | moving, median | times "
        "faster, least | median | moving, times faster, least | median"
    )
    text = (
        "Shares of the floor and of moving the bytes; times faster than cuBLAS, and how many times "
        "faster than cuBLAS the kernel that only moves the bytes is, for comparison."
    )
    return f"{text}\n\n{table(header, lines)}"


def figure_table(rows: list[dict[str, Any]], data: dict[str, Any]) -> str:
    lines = []
    for r in rows:
        times = [seconds(r[x]) for x in ("cublas", "ours")]
        warm = share(floor(r, data), r["warm"]) if "warm" in r else "–"
        rest = [seconds(r["bound"]), share(floor(r, data), r["ours"]), warm, share(r["mover"], r["ours"])]
        lines.append(
            [f"{r['n']}", f"{r['batch']}", *times, number(r["cublas"] / r["ours"]), r["kernel"], *rest]
        )
    header = "n | batch | cuBLAS | ours | times faster | kernel | bound | floor | floor, in L2 | moving"
    return table(header, lines)


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


def utilization() -> str:
    """Useful multiplications of the tensor cores: the paper's arrangement, and that of our kernels."""
    lines = []
    for n in (1, 2, 4, 6, 8, 10, 12, 14, 16):
        paper = (16 // n) * n**3 / 16**3
        ours = n**3 / ((8 if n <= 8 else 16) ** 2 * 16)  # for n ≤ 8, two products in two 16×8×8
        lines.append([f"{n}", share(paper, 1), share(ours, 1)])
    text = (
        "Share of the tensor cores' multiplications that is useful in real n×n products. The paper "
        "lays ⌊16/n⌋ products along the diagonal of one 16×16×16; ours are pairs that share the rows "
        "of 16×8×8 up to n = 8. By the vendor's figures an H200's tensor cores are 15 times faster "
        "than its fp32 arithmetic, so below 7 % plain arithmetic is as fast."
    )
    return f"{text}\n\n{table('n | paper | ours', lines)}"


def draw_batched(name: str) -> Figure:
    """Speed against n, cuBLAS's, and what memory allows, for every figure of the paper."""
    data = load(name)
    shown = {title: rows for title, rows in data["figures"].items() if title.startswith("Fig")}
    result = Figure(figsize=(7, 3.2 * len(shown)))
    axes = result.subplots(len(shown), 1)
    curves = (("ours", "C0o-", "ours"), ("cublas", "C1x-", "cuBLAS"), ("bound", "k:", "what memory allows"))
    for axis, (title, rows) in zip(axes, shown.items(), strict=True):
        flops = 8 if "complex" in title else 2
        batches = sorted({r["batch"] for r in rows})
        for batch, alpha in zip(batches, (1.0, 0.5), strict=False):
            part = sorted((r for r in rows if r["batch"] == batch), key=lambda r: r["n"])
            work = [flops * r["n"] ** 2 * r["k"] * batch / 1e12 for r in part]
            for key, style, label in curves:
                rates = [w / r[key] for w, r in zip(work, part, strict=True)]
                axis.plot([r["n"] for r in part], rates, style, alpha=alpha, label=label)
        mark_sizes(axis, [r["n"] for r in rows])
        pale = f" (pale: {batches[1]})" if len(batches) > 1 else ""
        axis.set_title(f"{title}, batch {batches[0]}{pale}", fontsize=12)
        axis.set(xlabel="n", ylabel="Tflop/s", yscale="log")
    axes[0].legend(loc="lower right", fontsize=13)
    return result
