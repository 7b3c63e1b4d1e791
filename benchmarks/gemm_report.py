"""The performance page's sections on accurate products: tables and plots from the results."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks.report_figures import mark_sizes
from benchmarks.report_sections import (
    RESULTS,
    device,
    error,
    figure,
    folded,
    load,
    number,
    seconds,
    section,
    shape,
    table,
)

FACES = {
    "float64": "accurate_dgemm",
    "float32": "accurate_sgemm",
    "complex128": "accurate_zgemm",
    "complex64": "accurate_cgemm",
}


def gemm_names() -> list[str]:
    """The results of `benchmarks.dgemm`, those of GPUs first."""
    names = sorted(path.stem for path in RESULTS.glob("*.json"))
    found = [n for n in names if load(n).get("command", "").startswith("python -m benchmarks.dgemm ")]
    return sorted(found, key=lambda name: name.endswith("cpu"))


def gemm_section(name: str) -> str:
    """Accurate products against the native routines."""
    data = load(name)
    unit, scale = ("TF", 1) if any(r["native"]["teraflops"] > 1 for r in data["results"]) else ("GF", 1e3)
    header = (
        f"m, k, n | data | native {unit} | ours {unit} | ratio | one side prepared"
        " | native error | our error | certified | products"
    )
    blocks, faces = [], [FACES[t] for t in FACES if any(r["dtype"] == t for r in data["results"])]
    for dtype, face in FACES.items():
        of_dtype = [r for r in data["results"] if r["dtype"] == dtype]
        square, others = (
            [_gemm_row(r, scale) for r in of_dtype if (len(set(r["shape"])) == 1) is equal]
            for equal in (True, False)
        )
        if square:
            title = [f"### `{face}` on {device(data).split(',')[0]}"] * (len(faces) > 1)
            blocks += [*title, table(header, square)]
        if others:
            blocks.append(folded("Matrices that are not square", table(header, others)))
    if exact := [_exact_row(r) for r in data["results"] if "exact" in r]:
        header = (
            "product | m, k, n | native | ours | exact | exact over native | arb_mat | arb_mat over exact"
        )
        text = (
            "Times of a product: native, with the default accuracy, correctly rounded "
            '(`accuracy="exact"`), and of python-flint\'s ball arithmetic at 120 bits (`arb_mat`).'
        )
        blocks += [f"### Correctly rounded, on {device(data).split(',')[0]}", text, table(header, exact)]
    note = (
        "Data: standard normal; uniform on (0, 1]; (rand - ½)·exp(φ·randn) for φ as given, whose "
        "magnitudes spread more for larger φ; normal with half of the elements 0. *One side prepared* is the "
        "ratio when the right operand is split beforehand (`ozaki.prepare`). *Certified* is the bound of the "
        "error relative to |A||B| that `ozaki.plan` gives, without the final rounding. *Products* is the "
        "number of products, and their words. On a GPU calls are queued one after another, and each routine "
        "runs for a while before it is timed, until the clock has settled."
    )
    title = f"Accurate products ({', '.join(faces)}), {device(data)}"
    if all(r["plan"]["word"] == "fp64" for r in data["results"]):
        note += (
            " Here all words are fp64, as on a CPU without byte products; int8 words give the same bits"
            " in less time."
        )
    return section(title, name, note, figure(name, "speed against n, and errors"), *blocks)


def _gemm_row(r: dict[str, Any], scale: float) -> list[str]:
    return [
        shape(r),
        data_name(r),
        number(r["native"]["teraflops"] * scale),
        number(r["ours"]["teraflops"] * scale),
        number(r["ratio"]),
        number(r["native"]["seconds"] / r["prepared"]["seconds"]) if "prepared" in r else "–",
        error(r["native"]["max"]),
        error(r["ours"]["max"]),
        error(r["plan"]["bound"]),
        f"{r['plan']['products']} {r['plan']['word']}",
    ]


def data_name(r: dict[str, Any]) -> str:
    """The kind of data; the results have a number alone for φ."""
    return f"φ = {r['data']}" if r["data"][0].isdigit() else str(r["data"])


def _exact_row(r: dict[str, Any]) -> list[str]:
    exact, native = r["exact"]["seconds"], r["native"]["seconds"]
    peer = r.get("arb_mat", {}).get("seconds")
    times = [seconds(x) for x in (native, r["ours"]["seconds"], exact)]
    rest = [number(exact / native), seconds(peer), number(peer / exact) if peer else "–"]
    return [f"`{FACES[r['dtype']]}`", shape(r), *times, *rest]


def peers_section(name: str) -> str:
    """Speed and largest error beside those of other libraries, double precision."""
    data = load(name)
    rows = [r for r in data["results"] if r["dtype"] == "float64" and r.get("peers")]
    names = list(rows[0]["peers"])
    cells = [
        [shape(r), data_name(r)]
        + [
            f"{number(x['teraflops'])} / {error(x['max'])}"
            for x in (r["native"], r["ours"], *(r["peers"][n] for n in names))
        ]
        for r in rows
    ]
    text = (
        "Speed in TF and largest error of each, all in one run, not in that of "
        "[FP64 products](fp64-gpu.md): ratios of two runs differ by some per cent."
    )
    if any(n.startswith("GEMMul8") for n in names):
        text += (
            " GEMMul8 uses as many moduli as its caller asks for, and gives no bound of its error; its"
            " accurate mode bounds sums by a product of its own, its fast mode by norms."
        )
    if any("no waits" in n for n in names):
        text += " It waits for the device in every call, for its own timings; *no waits* is without that."
    if any(n.startswith("cuBLAS") for n in names):
        text += (
            " cuBLAS emulates FP64 by slices in int8 (Ozaki scheme I). On this GPU it does so only when told "
            "to, with its eager strategy: by default with as many bits as it finds the data to need, or with "
            "55. Its bits are not promised to be the same elsewhere."
        )
    header = " | ".join(["m, k, n", "data", "native", "ours", *names])
    title = f"Beside other libraries, {device(data)}"
    return section(title, name, text, table(header, cells), figure(name, "speed against n, and errors"))


def energy_section(name: str) -> str:
    """Joules a product, native and ours."""
    rows = []
    for r in load(name)["results"]:
        native, ours = r["native"], r["ours"]
        joules = [number(x["joules"]) for x in (native, ours)]
        watts = [number(x["watts"]) for x in (native, ours)]
        rows.append([f"`{FACES[r['dtype']]}`, {r['n']}", *joules, number(r["ratio"]), *watts])
    text = (
        "Joules a product, by the GPU's own counter while a routine is called again and again; the ratio is "
        "native over ours (Ootomo and Yokota, Fig. 16, do this for FP32)."
    )
    header = "routine, n | native, J | ours, J | ratio | native, W | ours, W"
    return section(f"Energy, {device(load(name))}", name, text, table(header, rows))


def steps_section(name: str) -> str:
    """Each step of an ordinary product against the GPU's limits."""
    data = load(name)
    order = list(dict.fromkeys(r["step"] for r in data["results"]))
    rows = []
    for n in dict.fromkeys(r["n"] for r in data["results"]):
        of = {r["step"]: r for r in data["results"] if r["n"] == n}
        rows.append([f"{n}", *(f"{seconds(of[s]['seconds'])}, {100 * of[s]['share']:.0f} %" for s in order)])
    note = (
        "`accurate_dgemm` on normal data, the GPU's time alone, from launches of CUDA graphs. The share of "
        "an element-wise step is that of the bytes which it must move (what it reads and writes, once "
        f"each) at {data['bandwidth'] / 1e12:.2f} TB/s, a copy's bandwidth; above 100 % some of them "
        "were still in the L2 cache. The share of the products is that of "
        f"{data['int8'] / 1e12:.0f}·10¹² operations a second, the fastest int8 product measured on the "
        "device; large ones are limited by its power. *Measure* reads both operands once, for the statistics "
        "of their rows and columns; a chain of short kernels follows, each waiting for the one before, until "
        "the bounds that the certificate needs are in the host's memory."
    )
    title = f"Where the time goes, {device(data)}"
    return section(title, name, note, table(" | ".join(["n", *order]), rows))


def draw_gemm(name: str) -> Figure:
    """Speed against n on normal data; errors on every kind of data at one size."""
    data = load(name)
    figure = Figure(figsize=(7, 9))
    above, below = figure.subplots(2, 1)
    square = [r for r in data["results"] if len(set(r["shape"])) == 1]
    unit, scale = ("Tflop/s", 1) if data.get("cublas") else ("Gflop/s", 1000)
    shown = []
    for i, (dtype, face) in enumerate(FACES.items()):
        rows = sorted((r for r in square if r["dtype"] == dtype), key=lambda r: r["shape"])
        shapes = [r["shape"] for r in rows]
        # the largest of the sizes with the most kinds of data
        best = max(shapes, key=lambda x: (shapes.count(x), x), default=None)
        shown += [r for r in rows if r["shape"] == best]
        rows = [r for r in rows if r["data"] == "normal"]
        n = [r["shape"][0] for r in rows]
        if rows:
            for x, style, label in (("ours", "o-", face), ("native", "x:", f"native {dtype}")):
                above.plot(n, [scale * r[x]["teraflops"] for r in rows], style, color=f"C{i}", label=label)
        beside = [r for r in rows if r.get("peers")]
        if beside and dtype == "float64":
            peer = next(iter(beside[0]["peers"]))
            speeds = [r["peers"][peer]["teraflops"] for r in beside]
            above.plot([r["shape"][0] for r in beside], speeds, "s--", color="0.5", label=peer)
    mark_sizes(above, [r["shape"][0] for r in square])
    above.set(xlabel="n", ylabel=unit, title=f"Speed, normal data, {device(data)}", ylim=(0, None))
    above.set_ylim(top=1.4 * above.get_ylim()[1])  # room for the legend above the data
    above.legend(loc="upper left", ncols=2)
    precisions = len({r["dtype"] for r in shown}) > 1
    labels = [r["dtype"] if precisions else r["data"] for r in shown]
    for x, style in (("native", "C1x"), ("ours", "C0o")):
        below.semilogy(labels, [r[x]["max"] for r in shown], style, markersize=8, label=x)
    below.semilogy(labels, [r["plan"]["bound"] for r in shown], "v", color="0.6", label="certified")
    where = "largest n" if precisions else f"n = {shown[0]['shape'][0]}"
    below.set(xlabel="" if precisions else "data (numbers: φ)", title=f"Largest error, {where}")
    below.set_ylabel("|C - Ĉ| / |A||B|")
    low, high = below.get_ylim()
    below.set_ylim(top=high * (high / low) ** 0.25)  # room again; the axis is logarithmic
    below.legend(loc="upper left", ncols=3)
    return figure
