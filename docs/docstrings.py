"""Docstrings as Markdown, for the reference pages: sections, entries and examples.

The project's docstrings have NumPy's sections, but an entry is one running text, `name : what
it is, in as many lines as it takes`, where NumPy's form would take the first line as a type.
"""

import re
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

import griffe

sys.path.insert(0, str(Path(__file__).parents[1]))

from ozaki import elementary
from ozaki.dask.covariances import LAZY as COVARIANCES
from ozaki.dask.groups import LAZY as BY_GROUP
from ozaki.dask.rolling import LAZY as ROLLING
from ozaki.elementary.derivatives import SLOPES
from ozaki.sums.table import REDUCTIONS

SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "References", "Examples", "Attributes")
ENTRY = re.compile(r"(?P<names>[\w., ]+) : (?P<text>.*)")
ENTRIES = ("Parameters", "Raises", "Attributes")

LAZILY = (
    (REDUCTIONS, "with `split_every`."),
    (BY_GROUP, "with `split_every`."),
    (COVARIANCES, "by one product, of exact means."),
    (ROLLING, "each chunk with what windows need of its neighbours."),
    (elementary.ALL, "chunk by chunk."),
)
"""Functions of `ozaki.dask` that are made of those of `ozaki`, and in which they differ."""


class Markdown(griffe.Extension):
    """Rewrites every docstring that is loaded."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_function_instance(self, *, func, **_):
        """Show what a Krylov method takes; its text gets a system that is made of that."""
        if any(decorator.callable_path.endswith("krylov_method") for decorator in func.decorators):
            public = getattr(import_module(func.module.path), func.name)
            shown = [
                griffe.Parameter(p.name, kind=griffe.ParameterKind(p.kind.description), default=_default(p))
                for p in signature(public).parameters.values()
            ]
            func.parameters = griffe.Parameters(*shown)

    def on_module_members(self, *, mod, **_):
        """Document functions that are made of those of `ozaki`, and have no source."""
        if mod.path in ("ozaki.torch", "ozaki.jax"):
            for name in elementary.NAMES:
                slopes = "; ".join(f"`{slope.formula}`" for slope in SLOPES[name])
                text = f"As [`ozaki.{name}`][], differentiable. Its derivatives, in this order: {slopes}."
                mod.set_member(name, griffe.Attribute(name, docstring=griffe.Docstring(text), lineno=1))
        if mod.path != "ozaki.dask":
            return
        for names, text in LAZILY:
            for name in names:
                text_of = f"As [`ozaki.{name}`][], lazily, {text}"
                mod.set_member(name, griffe.Attribute(name, docstring=griffe.Docstring(text_of), lineno=1))


def _default(parameter):
    return None if parameter.default is parameter.empty else repr(parameter.default)


def markdown(docstring: str) -> str:
    """Return a docstring in Markdown.

    >>> print(markdown('Add 2**x.\\n\\nRaises\\n------\\nValueError : x is\\n    negative.'))
    Add 2\\*\\*x.
    <BLANKLINE>
    <BLANKLINE>
    **Raises**
    <BLANKLINE>
    - `ValueError`: x is negative.
    """
    lines = docstring.splitlines()
    out: list[str] = []
    section = ""
    i = 0
    while i < len(lines):
        line = lines[i]
        if line in SECTIONS and i + 1 < len(lines) and re.fullmatch("-{3,}", lines[i + 1]):
            section = line
            out += ["", f"**{section}**", ""]
            i += 2
        elif line.startswith(">>>"):
            if section not in ("Examples", ""):  # else they would seem to belong to the section above
                out += ["", "**Examples**", ""]
                section = "Examples"
            i = _block(lines, i, "pycon", out)
        elif re.fullmatch("=+( =+)+", line):
            i = _block(lines, i, "text", out)
        elif section in ENTRIES and (entry := ENTRY.fullmatch(line)):
            i = _entry(lines, i, entry, out)
        elif line.startswith("    "):
            out.append(line)
            i += 1
        else:
            out.append(_escaped(line))
            i += 1
    return "\n".join(out)


def _block(lines: list[str], i: int, language: str, out: list[str]) -> int:
    """An example or a table, as it stands, up to the next empty line."""
    out += ["", f"```{language}"]
    while i < len(lines) and lines[i].strip():
        out.append(lines[i].replace("<BLANKLINE>", ""))
        i += 1
    out += ["```", ""]
    return i


def _entry(lines: list[str], i: int, entry: re.Match[str], out: list[str]) -> int:
    texts = [entry["text"]]
    i += 1
    while i < len(lines) and lines[i].startswith("    "):
        texts.append(lines[i].strip())
        i += 1
    names = ", ".join(f"`{name.strip()}`" for name in entry["names"].split(","))
    out.append(f"- {names}: {_escaped(' '.join(texts))}")
    return i


def _escaped(text: str) -> str:
    """Stars and angle brackets as they are, outside of code."""
    parts = text.split("`")
    plain = [part.replace("*", r"\*").replace("<", "&lt;") for part in parts[::2]]
    parts[::2] = plain
    return "`".join(parts)
