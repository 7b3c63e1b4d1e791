"""The plots of the performance page, from the results, as SVG files that say what they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report_sections import FACES, device, digest, gemm_names, load

mpl.rcParams.update({"svg.hashsalt": "ozaki", "axes.grid": True, "grid.alpha": 0.3, "font.size": 9})


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure with the digest of its data, and nothing that changes from run to run."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.svg"
    metadata = {"Date": None, "Description": f"{name}.json {digest(name)}"}
    figure.savefig(path, metadata=metadata, bbox_inches="tight", facecolor="white")
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def draw_gemm(name: str) -> Figure:
    """Speed against n on normal data; errors on every kind of data at the largest size."""
    data = load(name)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    square = [r for r in data["results"] if len(set(r["shape"])) == 1]
    shown = []
    for i, (dtype, face) in enumerate(FACES.items()):
        rows = sorted((r for r in square if r["dtype"] == dtype), key=lambda r: r["shape"])
        shown += [r for r in rows if r["shape"] == rows[-1]["shape"]]
        rows = [r for r in rows if r["data"] == "normal"]
        n = [r["shape"][0] for r in rows]
        if rows:
            for x, style, label in (("ours", "o-", face), ("native", "x:", f"native {dtype}")):
                left.plot(n, [r[x]["teraflops"] for r in rows], style, color=f"C{i}", label=label)
    left.set(xscale="log", yscale="log", xlabel="n", ylabel="10¹² flops a second", title=device(data))
    left.legend(fontsize=7)
    precisions = len({r["dtype"] for r in shown}) > 1
    labels = [r["dtype"] if precisions else r["data"] for r in shown]
    for x, label in (("native", "native"), ("ours", "ours")):
        right.semilogy(labels, [r[x]["max"] for r in shown], "o", label=f"{label}, largest")
    right.semilogy(labels, [r["plan"]["bound"] for r in shown], "v", color="0.6", label="certified")
    where = "largest n" if precisions else f"n = {shown[0]['shape'][0]}"
    right.set(xlabel="" if precisions else "data (numbers: φ)", title=f"|C - Ĉ| / |A||B|, {where}")
    right.legend(fontsize=7)
    return figure


def draw_words(name: str) -> Figure:
    """Speed against n on normal data; error against n on both kinds of data."""
    data = load(name)
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    speed, *errors = figure.subplots(1, 3)
    labels = {"sgemm": "SGEMM", "default": "multiword.matmul", "three calls": "three plain calls"}
    for kind, ax in zip(("normal", "(0, 1]"), errors, strict=True):
        rows = [r for r in data["speed"] if r["data"] == kind]
        n = [r["n"] for r in rows]
        for scheme, label in labels.items():
            if kind == "normal":
                speed.loglog(n, [r["results"][scheme]["TF"] for r in rows], "o-", label=label)
            ax.loglog(n, [r["results"][scheme]["max"] for r in rows], "o-", label=label)
        ax.set(xlabel="n", title=f"{kind}: largest |C - Ĉ| / |A||B|")
    speed.set(xlabel="n", ylabel="10¹² flops a second", title=device(data))
    speed.legend(fontsize=7)
    return figure


def draw_words_model(name: str) -> Figure:
    """Error against k of the default and of the papers' schemes, on both kinds of data."""
    data = load(name)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, kind in zip(axes, ("normal", "(0, 1]"), strict=True):
        for scheme in ("fp32", "default", "double-fp16", "fabsum-v1", "halfhalf", "triple-bf16"):
            rows = [r for r in data["error against k"] if (r["data"], r["scheme"]) == (kind, scheme)]
            label = "default" if scheme == "default" else f'"{scheme}"'
            ax.loglog([r["k"] for r in rows], [r["max"] for r in rows], ".-", label=label)
        ax.set(xlabel="k", title=f"{kind}: largest |C - Ĉ| / |A||B|")
    axes[0].legend(fontsize=7)
    return figure


def draw_batched(name: str) -> Figure:
    """How many times faster than cuBLAS, and what share of the bound."""
    data = load(name)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for title, entries in data["figures"].items():
        kind = title[title.index("(") + 1 : -1]
        if "rank" in kind or "small batches" in kind:
            continue
        for batch in sorted({r["batch"] for r in entries}):
            rows = sorted((r for r in entries if r["batch"] == batch), key=lambda r: r["n"])
            n, label = [r["n"] for r in rows], f"{kind.split(',')[0]}, batch {batch}"
            left.loglog(n, [r["cublas"] / r["ours"] for r in rows], ".-", label=label)
            right.semilogx(n, [100 * r["bound"] / r["ours"] for r in rows], ".-", label=label)
    left.axhline(1, color="k", linewidth=0.8)
    left.set(xlabel="n", title=f"times faster than cuBLAS, {device(data)}")
    right.set(xlabel="n", title="% of what memory allows")
    left.legend(fontsize=7)
    return figure


def draw_figures(folder: Path) -> None:
    """Draw what there are results for."""
    drawings = dict.fromkeys(gemm_names(), draw_gemm)
    drawings["multiword_h200"] = draw_words
    drawings["multiword_model"] = draw_words_model
    drawings["batched_h200"] = draw_batched
    for name, draw in drawings.items():
        if load(name):
            save(draw(name), folder, name)
