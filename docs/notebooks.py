"""Notebooks from the tutorials' pages: the same text, the same code, the same output.

A page's lesson is Markdown with `python` blocks in doctest's form. A cell of code ends where output
follows, because a notebook shows the value of a cell's last line only. A solution is folded until its
heading is opened. Nothing of Jupyter is needed to make a notebook, or to test it: `execute` runs its cells.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import re
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SOLUTION = re.compile(r'^<details markdown="1"><summary>(.*?)</summary>$', re.MULTILINE)


def notebook(lesson: str) -> str:
    """The notebook of a lesson, as JSON.

    >>> made = json.loads(notebook("# One\\n\\n```python\\n>>> x = 1\\n>>> x + 1\\n2\\n```\\n"))
    >>> [(c["cell_type"], c["source"]) for c in made["cells"]]
    [('markdown', ['# One']), ('code', ['x = 1\\n', 'x + 1'])]
    """
    cells: list[dict[str, Any]] = []
    for i, part in enumerate(BLOCK.split(lesson)):
        cells += _code(part) if i % 2 else _text(part)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _text(part: str) -> list[dict[str, Any]]:
    """Cells of text; the heading of a solution is a cell of its own, folded with all that follows it."""
    plain = re.sub(r"\n{3,}", "\n\n", part.replace("</details>", ""))
    cells: list[dict[str, Any]] = []
    for i, text in enumerate(SOLUTION.split(plain)):
        metadata = {"jp-MarkdownHeadingCollapsed": True} if i % 2 else {}
        source = _lines(f"### {text}" if i % 2 else text.strip())
        if source:
            cells.append({"cell_type": "markdown", "metadata": metadata, "source": source})
    return cells


def _code(block: str) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = []
    source = ""
    examples = doctest.DocTestParser().get_examples(block)
    for i, example in enumerate(examples):
        source += example.source
        if example.want or i == len(examples) - 1:
            outputs = [_output(example)] if example.want else []
            cells.append(
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "metadata": {},
                    "outputs": outputs,
                    "source": _lines(source.strip()),
                }
            )
            source = ""
    return cells


def _output(example: doctest.Example) -> dict[str, Any]:
    """What is printed is a stream, the value of an expression is a result."""
    last = ast.parse(example.source).body[-1]
    prints = isinstance(last, ast.Expr) and ast.unparse(last).startswith("print(")
    if isinstance(last, ast.Expr) and not prints:
        data = {"text/plain": _lines(example.want.rstrip())}
        return {"output_type": "execute_result", "execution_count": None, "data": data, "metadata": {}}
    return {"output_type": "stream", "name": "stdout", "text": _lines(example.want)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def execute(made: str) -> list[tuple[str, str, str]]:
    """Run a notebook's cells as Jupyter would: source, recorded output and output of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    results = []
    for cell in json.loads(made)["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            recorded = "".join("".join(o.get("text") or o["data"]["text/plain"]) for o in cell["outputs"])
            results.append((source, recorded, _run(source, names)))
    return results


def _run(source: str, names: dict[str, Any]) -> str:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()
