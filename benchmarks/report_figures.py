"""The plots of the performance page, from the results, as SVG files that say what they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report_sections import device, digest, load

ROOT = Path(__file__).resolve().parents[1]
STYLE = mpl.rc_params_from_file(ROOT / "examples" / "figures.mplstyle", use_default_template=False)
mpl.rcParams.update({**STYLE, "svg.hashsalt": "ozaki"})


def mark_sizes(axis: Any, sizes: list[int]) -> None:
    """A logarithmic axis of sizes, with the powers of two among those measured as its ticks."""
    powers = sorted({n for n in sizes if n & (n - 1) == 0})
    axis.set_xscale("log", base=2)
    axis.set_xticks(powers, powers)


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure with the digest of its data, and nothing that changes from run to run."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.svg"
    metadata = {"Date": None, "Description": f"{name}.json {digest(name)}"}
    figure.savefig(path, metadata=metadata, bbox_inches="tight", facecolor="white")
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


STYLES = {"sgemm": "C1x:", "default": "C0o-", "three calls": "C2^-"}


def draw_words(name: str) -> Figure:
    """Speed against n on normal data; error against n on both kinds of data."""
    data = load(name)
    figure = Figure(figsize=(7, 12))
    speed, *errors = figure.subplots(3, 1)
    labels = {"sgemm": "SGEMM", "default": "multiword.matmul", "three calls": "three plain calls"}
    for kind, ax in zip(("normal", "(0, 1]"), errors, strict=True):
        rows = [r for r in data["speed"] if r["data"] == kind]
        n = [r["n"] for r in rows]
        for scheme, label in labels.items():
            if kind == "normal":
                speed.plot(n, [r["results"][scheme]["TF"] for r in rows], STYLES[scheme], label=label)
            ax.semilogy(n, [r["results"][scheme]["max"] for r in rows], STYLES[scheme], label=label)
        mark_sizes(ax, n)
        ax.set(xlabel="n", ylabel="|C - Ĉ| / |A||B|", title=f"Largest error, {kind} data")
    mark_sizes(speed, n)
    speed.set(xlabel="n", ylabel="Tflop/s", title=f"Speed, {device(data)}", ylim=(0, None))
    speed.legend()
    return figure


def draw_words_model(name: str) -> Figure:
    """Error against k of the default and of the papers' schemes, on both kinds of data."""
    data = load(name)
    figure = Figure(figsize=(7, 9))
    axes = figure.subplots(2, 1, sharey=True)
    for ax, kind in zip(axes, ("normal", "(0, 1]"), strict=True):
        schemes = ("default", "double-fp16", "fabsum-v1", "halfhalf", "triple-bf16", "fp32")
        for i, scheme in enumerate(schemes):
            rows = [r for r in data["error against k"] if (r["data"], r["scheme"]) == (kind, scheme)]
            label = "default" if scheme == "default" else f'"{scheme}"'
            style = {"fp32": "k--", "default": "C0o-"}.get(scheme, f"C{i}.-")
            ax.loglog([r["k"] for r in rows], [r["max"] for r in rows], style, base=2, label=label)
        ax.set_yscale("log", base=10)
        ax.set(xlabel="inner dimension k", ylabel="|C - Ĉ| / |A||B|", title=f"Largest error, {kind} data")
    axes[0].legend()
    return figure
