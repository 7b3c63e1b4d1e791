"""`python -m benchmarks.report`: the performance page, its plots and the README's table, from the results.

Reads the JSON files in `benchmarks/results`, and writes `docs/performance.md`, the figures that
it shows, and the lines of `README.md` between the markers `results:begin` and `results:end`.
All figures are generated from the result files: what has no file has no section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.batched_report import batched_section, draw_batched
from benchmarks.gemm_report import FACES, draw_gemm, gemm_names, gemm_section, steps_section
from benchmarks.report_figures import draw_words, draw_words_model, save
from benchmarks.report_sections import (
    device,
    error,
    findings_section,
    load,
    model_section,
    number,
    products_section,
    reductions_section,
    seconds,
    shape,
    table,
    words_model_section,
    words_section,
)

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"

INTRODUCTION = """\
# Performance

All figures on this page are generated from the files in [`benchmarks/results`](development.md#benchmarks) by
`python -m benchmarks.report`. Native and ours are timed in one run, on the same data. Flops are counted
as 2mnk for real and 8mnk for complex products, whatever is computed inside; the ratio is that of speeds, and
above 1 where ours is faster than the native routine. Errors are the largest componentwise ones,
|C - Ĉ| / (|A||B|), against a reference of higher precision. Absolute speeds differ from machine to machine,
and those of a CPU from run to run.
"""


def sections() -> list[tuple[str, Callable[[str], str]]]:
    """The result files that there are, in the page's order, and what shows each."""
    others: list[tuple[str, Callable[[str], str]]] = [
        ("steps_h200", steps_section),
        ("multiword_h200", words_section),
        ("multiword_model", words_model_section),
        ("batched_h200", batched_section),
        ("reductions_h200", reductions_section),
        ("products_cpu", products_section),
        ("reductions_cpu", reductions_section),
        ("tensorcore_h200", model_section),
        ("probe_h200", findings_section),
    ]
    return [*((name, gemm_section) for name in gemm_names()), *(x for x in others if load(x[0]))]


def draw_figures(folder: Path) -> None:
    """Draw what there are results for."""
    drawings = dict.fromkeys(gemm_names(), draw_gemm)
    drawings["multiword_h200"] = draw_words
    drawings["multiword_model"] = draw_words_model
    drawings["batched_h200"] = draw_batched
    for name, draw in drawings.items():
        if load(name):
            save(draw(name), folder, name)


def page() -> str:
    """The performance page."""
    return "\n\n".join([INTRODUCTION.strip(), *(make(name) for name, make in sections())]) + "\n"


def headline() -> str:
    """The README's table: one line for each thing that one would look up first."""
    rows = [*(row for name in gemm_names() for row in _gemm_headline(name)), *_words_headline()]
    blocks = (
        [table("product | on | m = k = n | native | ours | ratio | native error | our error", rows)]
        if rows
        else []
    )
    others = [*_batched_headline(), *_reductions_headline()]
    if others:
        blocks.append(table("also | on | native | ours | ratio", others))
    if blocks:
        dates = sorted({load(name)["date"] for name, _ in sections()})
        blocks.append(
            f"Measured {' and '.join(dates)}. Commands, versions, data and other sizes are on the"
            " [performance page](docs/performance.md)."
        )
        since = {name: load(name)["since"] for name, _ in sections() if "since" in load(name)}
        blocks += [f"`{name}.json`: {text}" for name, text in since.items()]
    return "\n\n".join(blocks)


def _gemm_headline(name: str) -> Iterator[list[str]]:
    """Double precision at every size, the others at the largest."""
    data = load(name)
    rows = [r for r in data["results"] if r["data"] == "normal" and len(set(r["shape"])) == 1]
    largest = {r["dtype"]: r for r in sorted(rows, key=lambda r: r["shape"])}
    for r in rows:
        if r["dtype"] == "float64" or r is largest[r["dtype"]]:
            unit, scale = ("TF", 1) if r["native"]["teraflops"] > 1 else ("GF", 1e3)
            speeds = [f"{number(r[x]['teraflops'] * scale)} {unit}" for x in ("native", "ours")]
            errors = [error(r[x]["max"]) for x in ("native", "ours")]
            where = device(data).split(",")[0]
            yield [f"`{FACES[r['dtype']]}`", where, shape(r), *speeds, number(r["ratio"]), *errors]


def _words_headline() -> Iterator[list[str]]:
    for r in (load("multiword_h200") or {"speed": ()})["speed"]:
        if r["data"] == "normal" and r["choice"] != "fp32":
            native, ours = r["results"]["sgemm"], r["results"]["default"]
            speeds = [f"{number(x['TF'])} TF" for x in (native, ours)]
            rest = [number(ours["TF"] / native["TF"]), error(native["max"]), error(ours["max"])]
            yield ["`multiword.matmul`", device(load("multiword_h200")), f"{r['n']}", *speeds, *rest]


def _batched_headline() -> Iterator[list[str]]:
    data = load("batched_h200") or {"figures": {}}
    for title, entries in data["figures"].items():
        for r in entries:
            if "extremely small" in title and r["n"] == 16 and r["batch"] == 10000:
                kind = title[title.index("(") + 1 :].split(",")[0]
                what = f"`batched_matmul`, {kind}, {r['batch']} of {r['n']}×{r['n']}"
                times = [seconds(r["cublas"]), seconds(r["ours"])]
                yield [what, device(data), *times, number(r["cublas"] / r["ours"])]


def _reductions_headline() -> Iterator[list[str]]:
    for name in ("reductions_h200", "reductions_cpu"):
        data = load(name)
        for r in data["seconds"] if data else ():
            if r["what"] in ("sum", "dot", "sum, normal") and r.get("native"):
                what = (
                    f"`ozaki.{r['what'].split(',')[0]}`, correctly rounded, {data['elements']:.0e} elements"
                )
                times = [seconds(r["native"]), seconds(r["ours"])]
                where = device(data).split(",")[0]
                yield [what.replace("e+0", "e"), where, *times, number(r["native"] / r["ours"])]


def in_readme(text: str, results: str) -> str:
    """The README with the lines between the markers replaced.

    >>> print(in_readme("a\\n<!-- results:begin -->\\nold\\n<!-- results:end -->\\nb", "new"))
    a
    <!-- results:begin -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- results:end -->
    b

    Raises ValueError if there is not one pair of markers.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the README must have one line {BEGIN} and one line {END} after it")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n\n{results}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Draw, write and print."""
    draw_figures(PAGE.parent / "figures")
    PAGE.write_text(page())
    print(headline())
    if README.exists():
        README.write_text(in_readme(README.read_text(), headline()))


if __name__ == "__main__":
    main()
