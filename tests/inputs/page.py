"""`python -m tests.inputs.page`: writes `docs/inputs.md`, the table of `inputs` as a page."""

from pathlib import Path

from tests.inputs import GROUPS, SAME, TYPE, VALUE, WIDE_INTEGERS
from tests.inputs.classes import classes, grouped, outcome
from tests.inputs.kinds import LAYOUTS, REFUSED, Kind
from tests.inputs.tables import Function
from tests.reductions import ONE_ARRAY

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"

CELLS = {SAME: "✓", TYPE: "`TypeError`", VALUE: "`ValueError`", None: "–"}

INTRODUCTION = """\
# What functions accept

One policy holds for every public function: what can be read as numbers without loss or doubt counts as the
plain NumPy array of these numbers; everything else is refused. The tables have a row for each kind of input
and a column for each argument; kinds, and arguments, with the same outcomes share one. The tests go through
every cell (`python -m tests.inputs.page` makes this page of the table that they use).

The outcomes:

- **✓** The result is that of the plain array, bit for bit.
- **`TypeError`** The argument is refused; the message names it and says what came, or what to do.
- **`ValueError`** The numbers would do, but not the shape; the message names the argument.
- **–** The combination does not occur.

Kinds that go together:

{short}
**reductions** are the functions of one array that reduce axes and take `out`: sums, means, norms, variances
and deviations, those without NaN included ([reference](reference/sums.md)).
CuPy arrays are accepted wherever NumPy arrays are. Results are of the kind of the arrays: CuPy arrays, Dask
arrays, tensors or JAX arrays. Kinds are never mixed in one call, but for NumPy's and Dask's.
"""

NOTES = {
    "PyTorch": """\
These functions take tensors of float32, float64 and their complex dtypes, and nothing else. Those of `ozaki`
take tensors, too, but have no gradients.
""",
    "JAX": """\
With `jax_enable_x64`: without it JAX rounds float64 numbers to float32.
""",
    "Batches of half precision": """\
The factors and the addend of a batch are of one dtype, float16 or bfloat16; here the others are float16.
""",
}

SHORT = {
    "any layout": LAYOUTS,
    "what is no array of numbers": tuple(kind for kind in REFUSED if kind.name != "None"),
}
"""Kinds that the tables name together."""

INTEGERS = """\
## Integers beyond 2⁵³

No int64 or uint64 number is rounded silently: functions that cannot compute with the integers themselves
raise a `TypeError`.
"""


def page() -> str:
    """The page: a table for each group of functions, and one for wide integers."""
    short = [f"- **{name}**: {', '.join(kind.name for kind in kinds)}.\n" for name, kinds in SHORT.items()]
    parts = [INTRODUCTION.format(short="".join(short))]
    for title, functions in GROUPS.items():
        package = functions[0].name.rpartition(".")[0]
        parts += [
            f"## {title}: `{package}`\n",
            *([NOTES[title]] if title in NOTES else []),
            _table(functions),
        ]
    rows = grouped(WIDE_INTEGERS, lambda name: WIDE_INTEGERS[name][0])
    lines = [f"| {_listed({n: f'`{n}`' for n in names})} | {CELLS[result]} |" for result, names in rows]
    return "\n".join([*parts, INTEGERS, "| functions | outcome |", "| --- | --- |", *lines, ""])


def _table(functions: tuple[Function, ...]) -> str:
    columns, rows = classes(functions)
    lines = [f"| input | {' | '.join(map(_heading, columns))} |", f"| --- |{' --- |' * len(columns)}"]
    for kinds in rows:
        cells = [CELLS[outcome(column[0], kinds[0])] for column in columns]
        lines.append(f"| {_named(kinds)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _heading(functions: list[Function]) -> str:
    """Names without their package, each with its arguments."""
    named = grouped(functions, lambda f: f.name)
    return _listed(
        {
            name: f"`{name.rpartition('.')[2]}({', '.join(f.argument for f in alike)})`"
            for name, alike in named
        }
    )


def _listed(heads: dict[str, str]) -> str:
    """Headings of functions by name, those of all reductions of a package as one."""
    shown = []
    for name, head in heads.items():
        package, _, function = name.rpartition(".")
        whole = function in ONE_ARRAY and all(f"{package}.{x}" in heads for x in ONE_ARRAY)
        shown.append(f"reductions of `{package}`" if whole else head)
    return ", ".join(dict.fromkeys(shown))


def _named(kinds: list[Kind]) -> str:
    """The names of kinds with one outcome."""
    together = {name: alike for name, alike in SHORT.items() if set(alike) <= set(kinds)}
    known = {kind for alike in together.values() for kind in alike}
    return ", ".join([*together, *(kind.name for kind in kinds if kind not in known)])


if __name__ == "__main__":
    PAGE.write_text(page())
