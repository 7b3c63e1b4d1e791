"""`python -m tests.grades.page`: writes `docs/grades.md`, the results of `grades` as a page."""

from pathlib import Path

from tests.grades import ACCURACIES, FACES, INPUTS, SIZES, TARGETS, errors, grade

PAGE = Path(__file__).parents[2] / "docs" / "grades.md"

INTRODUCTION = """\
# Grades

How accurate is a matrix product, for any input? Demmel, Li, Langou, Pereira, Gates and Rubio González
proposed to grade it ([slides][1]): grade A has a componentwise error that grows at most linearly with n, as
that of the classical algorithm in floating point does. NVIDIA grades its own emulation with their inputs
([samples][2]). The tables here are made with such inputs, written anew from their description, and by
comparison with exact rational numbers (`python -m tests.grades.page`).

[1]: https://www.cs.utexas.edu/~flame/BLISRetreat2024/slides/Grading_BLAS.pdf
[2]: https://github.com/NVIDIA/CUDALibrarySamples/tree/main/cuBLAS/Emulation/gemm_grading

| grade | the error of element (i, j) is at most n·u times |
| --- | --- |
| A | (\\|A\\|\\|B\\|)ᵢⱼ |
| B | ‖aᵢ‖₂‖bⱼ‖₂, the norms of row i of A and column j of B |
| C | max ‖aᵢ‖₂ · max ‖bⱼ‖₂, of all rows and columns |

A is the published criterion; B and C are the forms in which this page weakens it.

| accuracy | grade for all data | because the error is at most |
| --- | --- | --- |
| `"fp64"`, `"fp32"` | A | min(12√k, k/2)·u of \\|A\\|\\|B\\|, certified for the data, and u\\|R\\| |
| `"exact"` | A | u\\|R\\|: it is rounded correctly |
| `"normwise"` | B | √k·u of the norms, proved for any data, and u\\|R\\| |
| as many bits as the format has | B | 2√k·u of the norms, and u\\|R\\|, to first order |

"normwise" and a number of bits have one scale for a row; the last two inputs show what that loses.

Each input has a cell for an accuracy: the largest error by criterion A for n = {sizes}, in units of u, and
the grade that these errors deserve. An A proves nothing about other inputs; anything less disproves an A.
"""


def page() -> str:
    """The page: a table for each dtype."""
    parts = [INTRODUCTION.format(sizes=", ".join(map(str, SIZES)))]
    for dtype in FACES:
        accuracies = ACCURACIES[TARGETS[dtype]]
        heads = [f'`"{x}"`' if isinstance(x, str) else f"{x} bits" for x in accuracies]
        lines = [f"| input | shows | {' | '.join(heads)} |", "| --- | --- |" + " --- |" * len(heads)]
        for given in INPUTS:
            cells = [_cell(given, dtype, x) for x in accuracies]
            lines.append(f"| {given.name} | {given.shows} | {' | '.join(cells)} |")
        parts += [f"## {dtype}\n", *lines, ""]
    return "\n".join(parts)


def _cell(given, dtype, accuracy) -> str:
    worst = max(errors(given, n, dtype, accuracy)[0] for n in SIZES)
    return f"{_number(worst)}: {grade(given, dtype, accuracy)}"


def _number(x: float) -> str:
    return f"{x:.2f}" if x < 100 else f"{x:.0e}"


if __name__ == "__main__":
    PAGE.write_text(page())
