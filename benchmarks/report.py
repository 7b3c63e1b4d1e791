"""`python -m benchmarks.report`: the performance pages, their plots and the summaries, from the results.

Reads the JSON files in `benchmarks/results`, and writes `docs/performance.md`, the parts in
`docs/performance/`, the figures that they show, and the lines of `README.md`, `docs/is-this-for-me.md`,
`docs/pytorch-mode.md`, `docs/unmodified-code.md` and `docs/how-it-works/elementary.md` between markers such
as `results:begin` and `results:end`. All figures are generated from the result files: what has no file has no
section. Commit results first: the pages name the commit of each.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.batched_report import batched_section, draw_batched
from benchmarks.cliffs_report import cliffs_picture, cliffs_section, draw_cliffs
from benchmarks.dask_report import dask_section, two_gpus_section
from benchmarks.elementary_report import functions_text
from benchmarks.gemm_report import (
    draw_gemm,
    energy_section,
    gemm_names,
    gemm_section,
    peers_section,
    steps_section,
)
from benchmarks.gpu_report import (
    against_section,
    normwise_section,
    program_section,
    small_calls_section,
)
from benchmarks.int8_report import int8_section
from benchmarks.linalg_report import linalg_section
from benchmarks.report_costs import alone, costs, headlines, limits_table, sum_ratio
from benchmarks.report_figures import draw_words, draw_words_model, save
from benchmarks.report_sections import (
    COMMITS,
    RESULTS,
    everyday_section,
    findings_section,
    first_calls_section,
    load,
    model_section,
    number,
    products_section,
    reductions_section,
    torch_section,
    training_section,
    two_networks_section,
    words_model_section,
    words_section,
)
from benchmarks.report_summary import summary
from benchmarks.sparse_report import sparse_gpu_section, sparse_section
from benchmarks.suites_report import suites_table
from benchmarks.torch_report import operators_section, operators_summary, rows_section

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
FOR_WHOM = ROOT / "docs" / "is-this-for-me.md"
PYTORCH = ROOT / "docs" / "pytorch-mode.md"
PROGRAMS = ROOT / "docs" / "unmodified-code.md"
FUNCTIONS = ROOT / "docs" / "how-it-works" / "elementary.md"


class Part(NamedTuple):
    """A page of the performance chapter: its title, what it tells, and the results with what shows each.

    A name that ends in * stands for all results that begin so. Pages of a group stand below its name.
    """

    stem: str
    title: str
    about: str
    contents: tuple[tuple[str, Callable[[str], str]], ...]
    group: str = ""

    def sections(self) -> list[str]:
        """The sections of the results that there are."""
        return [make(name) for pattern, make in self.contents for name in _matching(pattern)]


def _matching(pattern: str) -> list[str]:
    return sorted(path.stem for path in RESULTS.glob(f"{pattern}.json"))


PRODUCTS = "Products"
CORES = "Tensor cores"
LINEAR = "Linear algebra"
FRAMEWORKS = "Dask and PyTorch"

PARTS = (
    Part(
        "cliffs",
        "Every function",
        "All public functions beside NumPy's and CuPy's, over shapes and dtypes: where they are slow.",
        (("cliffs_*", cliffs_section),),
    ),
    Part(
        "fp64-gpu",
        "Large products on a GPU",
        "`accurate_dgemm` beside cuBLAS: square and other shapes, several kinds of data.",
        (("dgemm_h200", gemm_section), ("dgemm_h100", gemm_section)),
        PRODUCTS,
    ),
    Part(
        "small-gpu",
        "Small calls on a GPU",
        "Products of small matrices, stacks of them and short sums beside CuPy's; calls in a CUDA graph.",
        (
            ("small_calls_h200", small_calls_section),
            ("small_calls_h100", small_calls_section),
            ("normwise_h200", normwise_section),
        ),
        PRODUCTS,
    ),
    Part(
        "precisions",
        "Single precision and complex products on a GPU",
        "`accurate_sgemm`, `accurate_zgemm` and `accurate_cgemm` beside cuBLAS.",
        (("precisions_h200", gemm_section),),
        PRODUCTS,
    ),
    Part(
        "int8-cpu",
        "Products on a CPU with int8 instructions",
        "Square products on int8 words beside the native routines, on three machines.",
        (("int8_cpu*", int8_section),),
        PRODUCTS,
    ),
    Part(
        "cpu",
        "Products on any CPU",
        "Products of every size from 1 × 1 on, stacks, correct rounding.",
        (("dgemm_cpu", gemm_section), ("products_cpu", products_section)),
        PRODUCTS,
    ),
    Part(
        "peers",
        "Other libraries, energy, steps of a product",
        "GEMMul8 and cuBLAS's own emulation in the same run; joules; where the time goes.",
        (("peers_h200", peers_section), ("energy_h200", energy_section), ("steps_h200", steps_section)),
        PRODUCTS,
    ),
    Part(
        "words",
        "FP32 products from fp16 words",
        "`multiword.matmul` beside SGEMM, and the schemes of the papers on the model of the tensor core.",
        (("multiword_h200", words_section), ("multiword_model", words_model_section)),
        CORES,
    ),
    Part(
        "batches",
        "Batches of small half-precision matrices",
        "`multiword.batched_matmul` beside cuBLAS, by size and by what a call asks for.",
        (("batched_h200", batched_section),),
        CORES,
    ),
    Part(
        "tensor-core",
        "The model of the tensor core, and the probes",
        "How many results of a GPU it predicts bit for bit, how fast it is, and what probes find.",
        (("tensorcore_h200", model_section), ("probe_h200", findings_section)),
        CORES,
    ),
    Part(
        "sums",
        "Sums",
        "Sums, means, variances, dot products and norms beside CuPy's and NumPy's, `math.fsum` and xsum.",
        (("reductions_h200", reductions_section), ("reductions_cpu", reductions_section)),
    ),
    Part(
        "linalg",
        "Dense matrices",
        "Solutions and eigenvalues with proved bounds, factorizations with the same bits, beside LAPACK.",
        (("linalg_*", linalg_section),),
        LINEAR,
    ),
    Part(
        "sparse",
        "Sparse matrices",
        "Products, iterations and proofs beside SciPy's and CuPy's.",
        (("sparse_cpu", sparse_section), ("sparse_h200", sparse_gpu_section)),
        LINEAR,
    ),
    Part(
        "everyday",
        "Integers, groups, windows",
        "Exact integers, covariances, sums by group and of moving windows beside NumPy, CuPy, SciPy, pandas, "
        "Polars and flox; a program on CuPy.",
        (("everyday_*", everyday_section), ("cupy_program_h200", program_section)),
    ),
    Part(
        "dask",
        "Dask arrays, two GPUs",
        "Sums and products in chunks, what workers send one another, products on two GPUs.",
        (("dask_cpu", dask_section), ("two_gpus_h200", two_gpus_section)),
        FRAMEWORKS,
    ),
    Part(
        "torch",
        "PyTorch",
        "What `ozaki.torch.reproducible()` costs: operators, training steps, two networks.",
        (
            ("torch_h200", torch_section),
            ("torch_cpu", torch_section),
            ("torch_rows_h200", rows_section),
            ("training_h200", training_section),
            ("training_cpu", training_section),
            ("two_networks_*", two_networks_section),
            ("torch_operators_cpu", operators_section),
        ),
        FRAMEWORKS,
    ),
    Part(
        "first-calls",
        "First calls, and the first version",
        "What compilation takes, on a machine and in a process; version 0.1 and a later one in turns.",
        (
            ("first_calls_cpu", first_calls_section),
            ("first_calls_h200", first_calls_section),
            ("against_h200", against_section),
            ("against_cpu", against_section),
        ),
    ),
)

INTRODUCTION = """\
# Performance

All figures on these pages are generated from the files in
[`benchmarks/results`](testing.md#benchmarks) by `python -m benchmarks.report`. Native and ours are timed
in one run, on the same data. Every page has the same shape: for each machine a picture where there is
one, a table with what its columns say, and the command, file and commit of the measurement.
"""

CLIFFS = """\
Every dot is a call of one function with one shape and dtype: how long it takes, divided by the time of
NumPy's or CuPy's own function. [The slowest calls by name](performance/cliffs.md).
"""

SUMMARY = """\
The speed of each product divided by that of the native routine (cuBLAS on a GPU, NumPy's BLAS on a CPU) for
square matrices: above 1 ours is faster. φ = 2 and φ = 4 are data whose magnitudes spread over several orders
of magnitude.
"""

MEASURED = """\
Flops are counted as 2mnk for real and 8mnk for complex products, whatever is computed inside; the ratio is
that of speeds, and above 1 where ours is faster than the native routine. Errors are the largest componentwise
ones, |C - Ĉ| / (|A||B|), against a reference of higher precision.

**Figures of two runs differ.** Absolute speeds differ from machine to machine, and those of a CPU from run
to run. A GPU at its power limit is slower after a tenth of a second than at first. Here calls on a GPU are
queued one after another, once its clock has settled, unless a section says otherwise. The tutorials' scripts
time single calls on an idle GPU: there the native routine has a faster clock, and ours shows the time of its
launches: a sum of 10⁸ numbers is then {alone} times as fast as CuPy's, and {queued} times when queued.
"""


def parts() -> dict[Part, list[str]]:
    """The parts for which there are results, each with its sections."""
    made = {part: part.sections() for part in PARTS}
    return {part: sections for part, sections in made.items() if sections}


def draw_figures(folder: Path) -> None:
    """Draw what there are results for."""
    drawings = dict.fromkeys(gemm_names(), draw_gemm)
    drawings["multiword_h200"] = draw_words
    drawings["multiword_model"] = draw_words_model
    drawings["batched_h200"] = draw_batched
    drawings |= dict.fromkeys(_matching("cliffs_*"), draw_cliffs)
    for name, draw in drawings.items():
        if load(name):
            save(draw(name), folder, name)


def said_once(sections: list[str]) -> list[str]:
    """Return sections without the long paragraphs that an earlier one has.

    >>> said_once(["## A\\n\\n" + 40 * "Data. ", "## B\\n\\n" + 40 * "Data. "])[1]
    '## B\\n\\nMeasured as above.'
    """
    seen: set[str] = set()
    texts = []
    for text in sections:
        blocks = text.split("\n\n")
        again = [block in seen and len(block) > 150 and block[0] not in "#|!<*" for block in blocks]
        seen.update(blocks)
        kept = ["Measured as above." if said else block for block, said in zip(blocks, again, strict=True)]
        texts.append("\n\n".join(dict.fromkeys(kept)))
    return texts


def index(listed: Iterable[Part]) -> str:
    """Return a list of links to the pages, those of a group under its name."""
    lines = []
    for group, members in groupby(listed, key=lambda part: part.group):
        lines += [f"- {group}:"] * bool(group)
        indent = "    " * bool(group)
        lines += [f"{indent}- [{p.title}](performance/{p.stem}.md): {p.about}" for p in members]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """The text of each page: the map of all functions, a summary and an index, and the parts."""
    made = parts()
    maps = [text for name in _matching("cliffs_*") for text in cliffs_picture(name)]
    measured = MEASURED.format(alone=alone(), queued=number(sum_ratio()))
    first = [INTRODUCTION, CLIFFS, *maps, "## Products of square matrices", SUMMARY, summary()]
    first += ["## Pages", index(made), "## How it is measured", measured]
    texts = {PAGE: first} | {
        PAGE.with_suffix("") / f"{part.stem}.md": [
            f"# {part.title}",
            f"{part.about} How it is measured: [Performance](../performance.md#how-it-is-measured).",
            *said_once(sections),
        ]
        for part, sections in made.items()
    }
    return {path: "\n\n".join(block.strip() for block in text) + "\n" for path, text in texts.items()}


def between(text: str, name: str, results: str) -> str:
    """A page with the lines between the markers of a name replaced.

    >>> print(between("a\\n<!-- x:begin -->\\nold\\n<!-- x:end -->\\nb", "x", "new"))
    a
    <!-- x:begin -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- x:end -->
    b

    Raises ValueError if there is not one pair of markers.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the page must have one line {begin} and one line {end} after it")
    head, rest = text.split(begin)
    return f"{head}{begin}\n\n{results}\n\n{end}{rest.split(end)[1]}"


def summaries() -> dict[Path, str]:
    """The pages that are written by hand, with their generated lines as they should be."""
    readme, for_whom = README.read_text(), FOR_WHOM.read_text()
    readme = between(readme, "figures", headlines())
    for name, text in (("results", summary(normal=True)), ("costs", costs()), ("limits", limits_table())):
        for_whom = between(for_whom, name, text)
    pytorch = between(PYTORCH.read_text(), "operators", operators_summary())
    programs = between(PROGRAMS.read_text(), "suites", suites_table())
    functions = between(FUNCTIONS.read_text(), "functions", functions_text())
    texts = {README: readme, FOR_WHOM: for_whom, PYTORCH: pytorch, PROGRAMS: programs}
    return texts | {FUNCTIONS: functions}


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=RESULTS, capture_output=True, text=True, check=False
    ).stdout.strip()


def record_commits() -> None:
    """Write down which commit has added each result file as it is, for those that git knows."""
    lines = []
    for path in sorted(RESULTS.glob("*.json")):
        content = _git("hash-object", path.name)
        added = _git("log", "--format=%h", "--abbrev=7", f"--find-object={content}", "--", path.name)
        lines += [
            f"{path.stem} {commit}\n" for commit in added.splitlines()[-1:]
        ]  # a later one may restore it
    if lines:
        COMMITS.write_text("".join(lines))


def main() -> None:
    """Draw, write and print."""
    record_commits()
    draw_figures(PAGE.parent / "figures")
    PAGE.with_suffix("").mkdir(exist_ok=True)
    for path, text in {**pages(), **summaries()}.items():
        path.write_text(text)
    print(headlines())


if __name__ == "__main__":
    main()
