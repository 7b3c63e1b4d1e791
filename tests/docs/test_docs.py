"""The documentation is true: its examples run, its figures are the results', its links lead somewhere."""

import dataclasses
import doctest
import importlib.util
import inspect
import json
import pydoc
import re
import shlex
import sys
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import multiword
import multiword.batched
import multiword.probe
import ozaki
import ozaki.linalg.verified
from benchmarks import report, report_sections
from multiword.public import RECORDS
from tests.docs.reference import loaded, with_records

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FIGURES = DOCS / "figures"
PAGES = sorted(DOCS.rglob("*.md"))
NAMES = {path: str(path.relative_to(DOCS)) for path in PAGES}
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
OPTIONAL = {
    name: importlib.util.find_spec(name.split(".")[1]) is not None
    for name in ("ozaki.torch", "ozaki.jax", "ozaki.cupy")
}
MODULES = (ozaki, ozaki.linalg, ozaki.linalg.verified, multiword, multiword.probe, multiword.batched) + tuple(
    importlib.import_module(name) for name, installed in OPTIONAL.items() if installed
)
PUBLIC = {f"{m.__name__}.{name}": getattr(m, name) for m in MODULES for name in m.__all__}
FUNCTIONS = {name: f for name, f in PUBLIC.items() if inspect.isfunction(f)}
CLASSES = {name: c for name, c in PUBLIC.items() if inspect.isclass(c)}

CANNOT_FAIL = {"two_sum", "two_product", "extract_vector", "bound_table", "survey", "print_report"}
"""Functions that raise nothing of their own."""

OF_NO_PAPER = {
    "fingerprint",
    "group_count",
    "prepare",
    "plan",
    "matmul_plan",
    "from_complex",
    "from_planes",
    "to_complex",
} | {"get_engine", "get_format", "get_generation", "get_scheme", "survey", "print_report", "save_report"}
"""Functions that do what no paper had to say."""


NEEDED = {
    "clusters.md": ("dask.array", "distributed", "xarray", "flox"),
    "data.md": ("pandas", "xarray", "flox"),
    "physics.md": ("scipy.sparse",),
    "unmodified-code.md": ("dask.array",),
    "sparse.md": ("scipy.sparse",),
    "10_any_chunks_any_cluster.md": ("dask.array",),
}
"""Optional packages that a page's examples use."""

REFERENCE = [
    p for p in (DOCS / "reference").glob("*.md") if p.stem != "dask" or importlib.util.find_spec("dask")
]


def examples(path, *languages):
    """The code of a page's blocks in these languages, in their order."""
    blocks = BLOCK.finditer(path.read_text())
    return [b["code"] for b in blocks if b["info"].strip() in languages]


def run_examples(path, codes, name):
    test = doctest.DocTestParser().get_doctest("\n".join(codes), {}, name, str(path), 0)
    said = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


ABOUT = re.compile(r"≈\s*(-?\d+(?:\.\d+)?(?:e[-+]\d+)?)")


def agrees(want, got):
    """As doctest compares, but a number after ≈ may be up to ten times another machine's."""
    numbers = [[float(x) for x in ABOUT.findall(text)] for text in (want, got)]
    near = len(numbers[0]) == len(numbers[1]) and all(
        abs(w) / 10 <= abs(g) <= 10 * abs(w) for w, g in zip(*numbers, strict=True)
    )
    return near and doctest.OutputChecker().check_output(ABOUT.sub("≈", want), ABOUT.sub("≈", got), FLAGS)


def test_only_numbers_said_to_be_approximate_may_differ():
    assert agrees("error ≈ 2e-08, n = 3\n", "error ≈ 9e-09, n = 3\n")
    assert not agrees("error ≈ 2e-08\n", "error ≈ 2e-06\n")
    assert not agrees("error ≈ 2e-08\n", "error ≈ 0e+00\n")
    assert not agrees("error ≈ 2e-08, n = 3\n", "error ≈ 2e-08, n = 4\n")


TUTORIALS = sorted((DOCS / "tutorials").glob("[0-9]*.md"))


@pytest.mark.parametrize(
    "path", [p for p in PAGES if examples(p, "python") and p not in TUTORIALS], ids=NAMES.get
)
def test_examples_run(path):
    for package in NEEDED.get(path.name, ()):
        pytest.importorskip(package)
    assert all(">>> " in code for code in examples(path, "python"))
    run_examples(path, examples(path, "python"), path.stem)


def test_every_block_says_what_it_is():
    known = {f"{{.python .{package}}}" for package in ("gpu", "torch", "jax", "polars", "pyarrow")}
    known |= {"python", "sh", "text", "math"}
    for path in PAGES:
        for block in BLOCK.finditer(path.read_text()):
            info = block["info"].strip()
            assert info in known or info.startswith("{.python .script title="), path


COMMANDS = re.compile(r"(?:^|&& |/)(python3?|pip) (?P<rest>[^#&\n]+)", re.MULTILINE)


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.name)
def test_commands_name_what_there_is(path):
    """Modules, scripts, options and extras in the shell commands of a page."""
    text = path.read_text()
    indented = re.findall(r"^    (.*)$", text, re.MULTILINE) if path.name == "README.md" else []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for command in COMMANDS.finditer("\n".join([*examples(path, "sh"), *indented])):
        words = [word for word in shlex.split(command["rest"]) if word != "-P"]
        if command[1] == "pip":
            assert set(re.findall(r"\[(\w+)\]", command["rest"])) <= set(extras), command[0]
            continue
        module = words[1] if words[0] == "-m" else None
        assert importlib.util.find_spec(module) if module else (ROOT / words[0]).exists(), command[0]
        if module and module.split(".")[0] not in ("ozaki", "multiword", "benchmarks"):
            continue
        source = importlib.util.find_spec(module).origin if module else str(ROOT / words[0])
        if source.endswith("__init__.py"):
            source = source.replace("__init__.py", "__main__.py")
        text = Path(source).read_text() + (ROOT / "ozaki/cli/command.py").read_text() * (module == "ozaki")
        for option in (w.split("=")[0] for w in words if w.startswith("--")):
            assert f'"{option}"' in text, command[0]


def test_layout_names_what_there_is():
    """Every path on the pages for developers exists, and every folder of the packages is named."""
    text = (DOCS / "development.md").read_text()
    pages = text + "".join((DOCS / name).read_text() for name in ("inside.md", "testing.md"))
    named = set(re.findall(r"\b(?:ozaki|multiword|tests|benchmarks|examples|docs)/[\w./]*", pages))
    assert {name for name in named if not (ROOT / name).exists()} == set()
    for package in ("ozaki", "multiword"):
        for folder in (ROOT / package).glob("*/__init__.py"):
            assert f"| `{package}/{folder.parent.name}/` |" in text


def test_performance_pages_are_what_the_results_say():
    pages = report.pages()
    assert {*(DOCS / "performance").glob("*.md"), report.PAGE} == set(pages)
    for path, text in {**pages, **report.summaries()}.items():
        assert path.read_text() == text, "run python -m benchmarks.report"


def test_performance_pages_take_five_screens():
    """At 30 pixels a row and 900 a screen; what a reader must open does not count, a figure is 20 rows."""
    for path, text in report.pages().items():
        seen = re.sub(r"<details.*?</details>", "folded", text, flags=re.DOTALL)
        rows = sum(1 + line.startswith("![") * 20 + len(line) // 400 for line in seen.splitlines() if line)
        assert rows <= 150, (path.name, rows)


def test_readme_is_short():
    assert report.headlines().count("- **") == report.headlines().count("(commit") == 3
    assert len(report.README.read_text().splitlines()) <= 84


def test_readme_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)]+)\)", report.README.read_text()):
        parts = urlsplit(link)
        if not parts.scheme:
            assert (ROOT / unquote(parts.path)).exists(), link


def test_figures_are_made_from_the_results():
    shown = set(re.findall(r"\(\.\./figures/(\w+)\.svg\)", "".join(report.pages().values())))
    assert shown == {path.stem for path in FIGURES.glob("*.svg")}
    for name in shown:
        said = f"{name}.json {report_sections.digest(name)}"
        assert said in (FIGURES / f"{name}.svg").read_text(), "run python -m benchmarks.report"


def test_pictures_are_drawn_by_the_code_and_shown():
    pages = "".join(path.read_text() for path in PAGES)
    drawn = loaded("pictures")
    assert {path.stem for path in drawn.FOLDER.glob("*.svg")} == set(drawn.PICTURES)
    for name in drawn.PICTURES:
        assert f"pictures/{name}.svg)" in pages, name
        assert drawn.digest() in (drawn.FOLDER / f"{name}.svg").read_text(), "run python docs/pictures.py"


def test_pictures_of_steps_name_files_that_are_there():
    for name, rows in loaded("pictures").FLOWS.items():
        for _, file, *_ in rows:
            assert any((folder / file).exists() for folder in (ROOT, ROOT / "ozaki")), (name, file)


def test_every_result_file_is_shown():
    pages = "".join(path.read_text() for path in PAGES)
    for path in report_sections.RESULTS.glob("*.json"):
        assert f"benchmarks/results/{path.name}" in pages, path.name


def test_guarantees_page_is_true_of_the_results():
    """ "At most that of cuBLAS's DGEMM for every square size and every kind of data"."""
    results = json.loads((report_sections.RESULTS / "dgemm_h200.json").read_text())["results"]
    results = [r for r in results if len(set(r["shape"])) == 1]
    assert len({tuple(r["shape"]) for r in results}) > 3
    assert len({r["data"] for r in results}) > 3
    assert all(r["ours"]["max"] <= r["native"]["max"] for r in results)


def test_sizes_that_pay_are_true_of_the_results():
    """ "Products pay from about n = 2048, of float32 from about 1024, of complex64 from there"."""
    for name in ("dgemm_h200", "precisions_h200"):
        for r in json.loads((report_sections.RESULTS / f"{name}.json").read_text())["results"]:
            if r["data"] == "normal" and len(set(r["shape"])) == 1:
                n, least = r["shape"][0], 2048 if r["dtype"] in ("float64", "complex128") else 1024
                about = 0.9 if (r["dtype"], n) == ("float32", 1024) else 1
                assert (r["ratio"] > about) == (n >= least), (r["dtype"], n)


def test_results_say_where_they_come_from():
    for path in report_sections.RESULTS.glob("*.json"):
        result = json.loads(path.read_text())
        for run in [result] if "date" in result else result.values():
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
            assert re.match(r"([A-Z_]+=\S+ )*python ", run["command"])


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    """Every cell of the notebook, and so every example of the page from which it is made."""
    for package in NEEDED.get(path.name, ()):
        pytest.importorskip(package)
    assert all(">>> " in code for code in examples(path, "python"))
    made = path.with_suffix(".ipynb").read_text()
    folded = [
        c["source"] for c in json.loads(made)["cells"] if c["metadata"].get("jp-MarkdownHeadingCollapsed")
    ]
    assert folded == [["### Solution 1"], ["### Solution 2"]]
    ran = loaded("notebooks").execute(made)
    assert len(ran) > 5
    for source, recorded, got in ran:
        assert agrees(recorded, got), f"{source}\nwant:\n{recorded}\ngot:\n{got}"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_ends_in_two_exercises_with_solutions(path):
    text = path.read_text()
    exercises, solutions = text.split("## Exercises")[1].split("## Solutions")
    assert re.findall(r"^(\d)\. ", exercises, re.MULTILINE) == ["1", "2"]
    assert re.findall(r"<summary>Solution (\d)</summary>", solutions) == ["1", "2"]


def test_tutorials_are_made_from_the_scripts():
    tutorials = loaded("tutorials")
    assert {p.stem for p in tutorials.PAGES.glob("[0-9]*.md")} == {p.stem for p in tutorials.SCRIPTS}
    assert (tutorials.PAGES / "index.md").read_text() == tutorials.index()
    for script in tutorials.SCRIPTS:
        text = (tutorials.PAGES / f"{script.stem}.md").read_text()
        again = f"run python docs/tutorials.py {script.stem[:2]}"
        assert text == tutorials.page(script, tutorials.shown(script)), again
        assert (tutorials.PICTURES / f"{script.stem}.png").exists(), again
        made = (tutorials.PAGES / f"{script.stem}.ipynb").read_text()
        assert made == tutorials.notebook(script), "run python docs/tutorials.py --text"


def test_gpus_printed_the_bits_that_cpus_print():
    """The fingerprints of ozaki's results in the record of a GPU are those in the pages' CPU output."""
    tutorials = loaded("tutorials")
    outputs = {stem: run["output"] for stem, run in json.loads(tutorials.ON_GPU.read_text()).items()}
    compared = 0
    for script in tutorials.SCRIPTS:
        texts = (tutorials.shown(script), outputs.get(script.stem, ""))
        marks = [re.findall(r"\b[0-9a-f]{16}\b", t.split("ozaki.accurate_dgemm:")[-1]) for t in texts]
        if script.stem in outputs and marks[0]:
            assert set(marks[0]) == set(marks[1]), script.stem
            compared += 1
    assert compared


def test_docstrings_become_markdown():
    pytest.importorskip("griffe")
    assert doctest.testmod(loaded("formulas")).failed == 0
    assert doctest.testmod(loaded("notebooks")).failed == 0
    assert doctest.testmod(loaded("pages")).failed == 0
    module = loaded("docstrings")
    assert doctest.testmod(module) == (0, 1)
    text = module.markdown("A.\n\nNotes\n-----\n`2**x` < 3*y\n\n>>> 1\n1\n\n== ==\na  b\n== ==\n")
    assert "`2**x` &lt; 3\\*y" in text
    assert "```pycon\n>>> 1\n1\n```" in text
    assert "```text\n== ==\na  b\n== ==\n```" in text


def test_readme_needs_its_markers():
    with pytest.raises(ValueError, match="results:begin"):
        report.between("no table here", "results", "table")
    text = "a\n<!-- results:begin -->\nold\n<!-- results:end -->\nb\n"
    once = report.between(text, "results", "new")
    assert report.between(once, "results", "new") == once
    assert once.count("new") == 1
    assert "old" not in once


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0528, "0.0528"), (1.0, "1.00"), (55.04, "55.0"), (1100.4, "1100"), (None, "–")]
)
def test_numbers_have_the_digits_that_matter(value, shown):
    assert report_sections.number(value) == shown


def sections(text):
    """The sections of a docstring by their headings; what comes before the first one under ""."""
    parts = re.split(r"^(\w+)\n-{3,}\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(text):
    """The names that a section describes, `a, b : what they are`."""
    lines = re.findall(r"^([\w*, ]+) : .+", text, re.MULTILINE)
    return {name.strip(" *") for line in lines for name in line.split(",")}


def whole_sections(text):
    """The sections of a docstring, with those of the function that it says it is like, "As `ozaki.sum`"."""
    own, base = sections(text), re.search(r"^\s*As `([\w.]+)`; differs", text, re.M)
    if base is None:
        return own
    others = whole_sections(pydoc.locate(base[1]).__doc__)
    return {**others, **own, "Parameters": f"{others.get('Parameters', '')}\n{own.get('Parameters', '')}"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_function_is_documented(name):
    function, plain = FUNCTIONS[name], name.rsplit(".", 1)[1]
    text = whole_sections(function.__doc__)
    signature = inspect.signature(function)
    assert text[""].splitlines()[0].endswith((".", ","))
    assert set(signature.parameters) <= entries(text.get("Parameters", ""))
    assert set(signature.parameters) >= entries(sections(function.__doc__).get("Parameters", ""))
    assert signature.return_annotation == "None" or "Returns" in text
    assert plain in CANNOT_FAIL or "Raises" in text
    assert plain in OF_NO_PAPER or "References" in text
    assert ">>> " in function.__doc__


@pytest.mark.parametrize("name", CLASSES)
def test_public_class_is_documented(name):
    thing = CLASSES[name]
    text = sections(vars(thing)["__doc__"])
    described = entries(text.get("Parameters", "")) | entries(text.get("Attributes", ""))
    fields = [f.name for f in dataclasses.fields(thing) if f.repr] if dataclasses.is_dataclass(thing) else []
    assert not text[""].startswith(f"{name}("), "that is what a dataclass writes for itself"
    assert described
    assert described >= set(fields)
    assert ">>> " in vars(thing)["__doc__"]
    for member, value in vars(thing).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), member


@pytest.mark.parametrize("entry", RECORDS.values(), ids=RECORDS)
def test_public_names_are_the_things_that_their_modules_define(entry):
    """So `help()` and an editor's "go to definition" find the source."""
    assert getattr(sys.modules[entry.module], entry.name) is entry.value
    if callable(entry.value):
        own = entry.value.__qualname__
        assert getattr(sys.modules[entry.value.__module__], own) is entry.value
        assert Path(inspect.getsourcefile(inspect.unwrap(entry.value))) == Path(
            sys.modules[entry.value.__module__].__file__
        )


def test_dir_shows_public_names():
    assert set(dir(ozaki)) == {*ozaki.__all__, "linalg"}
    assert set(dir(ozaki.linalg)) == {*ozaki.linalg.__all__, "verified"}
    assert set(dir(multiword)) == {*multiword.__all__, "probe"}
    needed = OPTIONAL | {f"ozaki.{name}": importlib.util.find_spec("flox") for name in ("dask", "dask.flox")}
    modules = [importlib.import_module(name) for name, there in needed.items() if there]
    for module in (ozaki.linalg.verified, multiword.probe, *modules):
        assert dir(module) == sorted(module.__all__), module


def references():
    """The modules and names in the reference, but those of packages that are not installed."""
    for path in (DOCS / "reference").glob("*.md"):
        for target in re.findall(r"^::: (\S+)$", with_records(path.read_text()), re.MULTILINE):
            module, name = target.rsplit(".", 1)
            if OPTIONAL.get(module, True):
                yield importlib.import_module(module), name


def test_everything_public_is_in_the_reference():
    things = [getattr(module, name) for module, name in references()]
    for name, thing in PUBLIC.items():
        assert any(thing is other for other in things), name


def test_reference_has_nothing_else():
    for module, name in references():
        assert name in module.__all__, name


def test_citation_names_the_version_and_the_papers():
    text = (ROOT / "CITATION.cff").read_text()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in text
    papers = (DOCS / "how-it-works" / "index.md").read_text().split("Sums follow")[0]
    assert set(re.findall(r"\[doi:(\S+)\]", papers)) == set(re.findall(r"^ +doi: (\S+)$", text, re.M))
