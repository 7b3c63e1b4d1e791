"""`python -m benchmarks.report`: the performance page, its plots and the summaries, from the results.

Reads the JSON files in `benchmarks/results`, and writes `docs/performance.md`, the figures that it
shows, and the lines of `README.md` and `docs/is-this-for-me.md` between the markers `results:begin`
and `results:end`.
All figures are generated from the result files: what has no file has no section.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.batched_report import batched_section, draw_batched
from benchmarks.dask_report import dask_section, two_gpus_section
from benchmarks.gemm_report import draw_gemm, energy_section, gemm_names, gemm_section, steps_section
from benchmarks.gpu_report import against_section, normwise_section
from benchmarks.linalg_report import linalg_section
from benchmarks.report_figures import draw_words, draw_words_model, save
from benchmarks.report_sections import (
    findings_section,
    load,
    model_section,
    products_section,
    reductions_section,
    torch_section,
    words_model_section,
    words_section,
)
from benchmarks.report_summary import headline, summary

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
FOR_WHOM = ROOT / "docs" / "is-this-for-me.md"
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

SUMMARY = """\
The speed of each product divided by that of the native routine (cuBLAS on a GPU, NumPy's BLAS on a CPU) for
square matrices: above 1 ours is faster. φ = 2 and φ = 4 are data whose magnitudes spread over several orders
of magnitude.
"""


def sections() -> list[tuple[str, Callable[[str], str]]]:
    """The result files that there are, in the page's order, and what shows each."""
    others: list[tuple[str, Callable[[str], str]]] = [
        ("against_h200", against_section),
        ("against_cpu", against_section),
        ("normwise_h200", normwise_section),
        ("energy_h200", energy_section),
        ("steps_h200", steps_section),
        ("multiword_h200", words_section),
        ("multiword_model", words_model_section),
        ("batched_h200", batched_section),
        ("reductions_h200", reductions_section),
        ("products_cpu", products_section),
        ("reductions_cpu", reductions_section),
        ("dask_cpu", dask_section),
        ("linalg_h200", linalg_section),
        ("linalg_cpu", linalg_section),
        ("two_gpus_h200", two_gpus_section),
        ("torch_h200", torch_section),
        ("torch_cpu", torch_section),
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
    """The performance page: the summary, then a section for each result file."""
    first = [INTRODUCTION.strip(), "## Summary", SUMMARY.strip(), summary()]
    return "\n\n".join([*first, *(make(name) for name, make in sections())]) + "\n"


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
    for path, text in ((README, headline()), (FOR_WHOM, summary())):
        path.write_text(in_readme(path.read_text(), text))


if __name__ == "__main__":
    main()
