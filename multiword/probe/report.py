"""The report: findings side by side, as a table and as JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from multiword.engines import Engine, get_engine
from multiword.engines.generations import GENERATIONS
from multiword.engines.tensorcore import TensorCore
from multiword.probe.findings import Findings
from multiword.probe.products import WORDS, HalfCublas, array_module
from multiword.probe.tests import describe, probe
from multiword.public import public_in
from multiword.runtime.arrays import import_cupy
from multiword.runtime.options import check_choice

_ROWS = {
    "result": "Result format",
    "width": "Products added in one step",
    "fraction_bits": "Fraction bits kept below the largest exponent",
    "alignment": "Rounding of the aligned terms",
    "rounding": "Rounding of the sum",
    "carry_bits": "Carry bits above the largest exponent",
    "exponent_is_sum": "A product's exponent is the sum of its factors'",
    "products_exact": "Products exact",
    "order_matters": "Order within a step matters",
    "normalised_in_addition": "Normalised in addition",
    "normalised_in_subtraction": "Normalised in subtraction",
    "monotone": "Monotone",
    "subnormal_inputs": "Subnormal inputs kept",
    "subnormal_sums": "Subnormal results from normal inputs",
    "subnormal_accumulator": "Subnormal accumulator kept",
}

LABEL_WIDTH = 24
"""Characters that a row's label has at least; longer ones take several lines."""


@public_in("multiword.probe", "Probes")
def survey(
    engines: Iterable[Engine],
    words: Iterable[str] = WORDS,
    progress: Callable[[str], object] | None = None,
) -> tuple[list[Findings], list[str]]:
    """Probe each engine in each format that it has; return findings, and notes on what could not be.

    Parameters
    ----------
    engines : any `Engine`s.
    words : formats to probe, of "fp16", "bf16" and "tf32".
    progress : called with what is probed next, such as "V100, fp16".

    Returns
    -------
    Findings for each engine and format, and a sentence for each that could not be probed.

    >>> from multiword import TensorCore
    >>> findings, notes = survey([TensorCore("V100"), TensorCore("H100")], ["fp16"])
    >>> [(f.engine, f.width, f.fraction_bits) for f in findings], notes
    ([('V100', 4, 23), ('H100', 16, 25)], [])
    """
    words = [words] if isinstance(words, str) else list(words)
    findings, notes = [], []
    for engine in engines:
        array_module(engine)  # or a TypeError
        name, own = describe(engine), [word for word in words if word in engine.products]
        if not own:
            has = ", ".join(sorted(engine.products))
            notes.append(f"{name} has no {' or '.join(words)} products; it has {has}")
        for word in own:
            if progress:
                progress(f"{name}, {word}")
            try:
                findings.append(probe(engine, word))
            except ValueError as error:
                notes.append(str(error))
    return findings, notes


def named_engine(name: str) -> Engine:
    """Return the engine of that name: "cublas" or a generation of `TensorCore`; with "/fp16" after it, the
    mode whose accumulator is half precision. ValueError, listing them, for any other name."""
    plain, _, accumulate = name.partition("/")
    check_choice("engine", plain, ("cublas", *GENERATIONS))
    check_choice("accumulator", accumulate or "fp32", ("fp16", "fp32"))
    if plain in GENERATIONS:
        return TensorCore(plain, accumulate=accumulate or "fp32")
    return HalfCublas() if accumulate == "fp16" else get_engine("cublas")


def default_names() -> list[str]:
    """Return the GPU's engine, if there is a GPU with its libraries, and the models of the paper."""
    names = ["V100", "V100/fp16", "T4", "A100", "H200"]
    try:
        get_engine("cublas")
        import_cupy().cuda.runtime.getDeviceCount()
    except Exception:  # whatever is missing, there is no GPU to probe
        return names
    return ["cublas", "cublas/fp16", *names]


@public_in("multiword.probe", "Probes")
def print_report(findings: list[Findings], notes: list[str], console: Console | None = None) -> None:
    """Print the findings, one column for each engine and format, in as many tables as the width needs.

    Parameters
    ----------
    findings, notes : from `survey`.
    console : where to print; standard output if None.

    >>> from multiword import TensorCore
    >>> print_report([], ["nothing was there to probe"], Console(width=60))
    Not probed: nothing was there to probe
    """
    console = console or Console()
    title = "How the products of a block are added"
    for columns in _tables(findings, console.width):
        table = Table(title=title, title_justify="left")
        table.add_column("", min_width=LABEL_WIDTH)
        for cells in columns:
            table.add_column(cells[0], justify="right", no_wrap=True)
        for label, *row in zip(_ROWS.values(), *(cells[1:] for cells in columns), strict=True):
            table.add_row(label, *row)
        console.print(table)
        title = ""
    for note in notes:
        console.print(f"Not probed: {note}", highlight=False)


def _tables(findings: list[Findings], width: int) -> Iterator[list[list[str]]]:
    """Yield the columns of each table within the width: a heading and a cell for each of `_ROWS`."""
    table: list[list[str]] = []
    left = room = width - LABEL_WIDTH - 4  # for borders
    for f in findings:
        cells = [f"{f.engine}\n{f.word}", *(_cell(f, field) for field in _ROWS)]
        taken = 3 + max(len(line) for cell in cells for line in cell.split("\n"))
        if table and taken > left:
            yield table
            table, left = [], room
        table.append(cells)
        left -= taken
    if table:
        yield table


def _cell(f: Findings, field: str) -> str:
    value = getattr(f, field)
    if field == "carry_bits" and value is None:
        return f"≥ {f.carry_bits_at_least}"
    return str(value) if type(value) in (int, str) else {None: "—", True: "yes", False: "no"}[value]


@public_in("multiword.probe", "Probes")
def save_report(path: str | Path, findings: list[Findings], notes: list[str], **context: object) -> None:
    """Write findings, notes, the date and versions as JSON.

    Parameters
    ----------
    path : file to write.
    findings, notes : from `survey`.
    **context : what else the file should say, such as the device.

    Raises
    ------
    OSError : the file cannot be written.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "probe.json")
    ...     save_report(path, [], [], device="none")
    ...     json.loads(path.read_text())["device"]
    'none'
    """
    content = {
        "date": datetime.date.today().isoformat(),
        "numpy": np.__version__,
        **context,
        "findings": [f.as_dict() for f in findings],
        "notes": notes,
    }
    Path(path).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
