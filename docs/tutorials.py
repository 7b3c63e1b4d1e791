"""Run the examples, and make the rest of the tutorials' pages from what they print and draw.

    python docs/tutorials.py                    # on this machine, every script: pages and pictures
    python docs/tutorials.py 01 05              # these only
    python docs/tutorials.py --text             # run nothing: pages and notebooks from what is there
    python docs/tutorials.py --gpu --json FILE  # what the scripts print with --gpu, for the pages

A page begins with its lesson, which is written by hand, and whose code the tests run. What follows the
line `made by docs/tutorials.py` is generated: what the script prints, its speed on a GPU, the script.
The notebooks are made from the lessons (`docs/notebooks.py`). A test compares all of it.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES, PICTURES = DOCS / "tutorials", DOCS / "images"
ON_GPU = ROOT / "benchmarks" / "results" / "examples_h200.json"
SCRIPTS = sorted((ROOT / "examples").glob("[0-9]*.py"))
BACKGROUND = {
    "01": "exact-products.md",
    "02": "exact-products.md",
    "03": "fp32.md",
    "04": "words.md",
    "05": "tensor-core.md",
    "06": "exact-products.md",
    "07": "exact-products.md#sums-and-dot-products",
    "08": "exact-products.md",
    "09": "batches.md",
    "10": "exact-products.md",
    "11": "exact-products.md#sums-and-dot-products",
    "12": "exact-products.md",
    "13": "exact-products.md",
    "14": "elementary.md",
    "15": "exact-products.md#sums-and-dot-products",
}
"""The page under "How it works" that explains each example's method."""


def run(script: Path, folder: Path, *options: str) -> tuple[str, float]:
    """What a script prints, without the file name of its picture, and how many seconds it takes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "COLUMNS": "80"}
    command = [sys.executable, str(script), "--output", str(folder), *options]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script.name} failed:\n{done.stderr}")
    return printed(done.stdout), time.perf_counter() - start


def printed(output: str) -> str:
    """The lines that are worth showing: all but the name of the picture."""
    lines = [line.rstrip() for line in output.splitlines() if not line.endswith(".png")]
    return "\n".join(lines).strip("\n")


def digest(script: Path) -> str:
    return hashlib.sha256(script.read_bytes()).hexdigest()[:16]


def made_by(script: Path) -> str:
    """The line that separates a page's lesson from what is generated."""
    return f"<!-- from here on made by docs/tutorials.py from examples/{script.name} {digest(script)} -->"


def lesson(script: Path) -> str:
    """What is written by hand on a tutorial's page."""
    return (PAGES / f"{script.stem}.md").read_text().split("<!-- from here on made by")[0].rstrip() + "\n"


def described(script: Path) -> tuple[str, str]:
    """The title and the first sentence of a lesson."""
    paragraphs = lesson(script).split("\n\n")
    return paragraphs[0].removeprefix("# "), " ".join(paragraphs[1].split())


def page(script: Path, output: str) -> str:
    """One tutorial: its lesson, and what is generated."""
    stem, number = script.stem, script.stem[:2]
    parts = [
        lesson(script).rstrip(),
        made_by(script),
        f"## The script\n\nThe picture was drawn by `examples/{script.name}`, which goes further than this "
        f"page. This page is also a [notebook]({stem}.ipynb). The method is explained under "
        f"[how it works](../how-it-works/{BACKGROUND[number]}).",
        f"```sh\npip install '.[examples]'\npython examples/{script.name}\n```",
        f"It prints\n\n```text\n{output}\n```",
    ]
    record = json.loads(ON_GPU.read_text()).get(stem) if ON_GPU.exists() else None
    if record is not None:
        parts += [
            f"With `--gpu`, on an {record['device']} ({record['date']}, CuPy {record['cupy']}, NumPy "
            f"{record['numpy']}; `benchmarks/results/{ON_GPU.name}`), it also prints",
            f"```text\n{speeds(record['output'])}\n```",
            "These are single calls on an idle GPU, whose clock is higher at first. The "
            "[performance pages](../performance.md) queue calls one after another, and have other ratios.",
        ]
    code = "\n".join(
        f"    {line}" for line in ("```{.python .script}", f'--8<-- "examples/{script.name}"', "```")
    )
    return "\n\n".join([*parts, f'??? example "examples/{script.name}"\n\n{code}']) + "\n"


def speeds(output: str) -> str:
    """What a script prints with --gpu only: the lines from its times on."""
    lines = output.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(("speed on the GPU", "time of ")))
    return "\n".join(lines[first:])


def notebook(script: Path) -> str:
    """The notebook of a tutorial."""
    specification = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    assert specification is not None
    assert specification.loader is not None
    notebooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(notebooks)
    return notebooks.notebook(lesson(script))


def index() -> str:
    """The overview: every title with its first sentence and picture."""
    parts = [
        "# Tutorials",
        "<!-- made by docs/tutorials.py; do not edit -->",
        "Lessons on the methods of the [papers](../how-it-works/index.md#the-papers): what goes wrong, "
        "why, and what helps. Each builds up step by step with code to type into Python, and ends "
        "with two exercises and their solutions. No GPU is needed. A lesson runs in seconds, and takes a "
        "quarter of an hour to read. Each is also a notebook, and comes with the script that drew its "
        "picture. "
        "[A lecture of one hour](../teaching.md) uses four of them.",
        '<div class="lessons" markdown>',
    ]
    for script in SCRIPTS:
        title, sentence = described(script)
        stem = script.stem
        parts.append(
            f"## [{title}]({stem}.md)\n\n[![{title}](../images/{stem}.png)]({stem}.md)\n\n"
            f"{sentence} [Notebook]({stem}.ipynb)."
        )
    return "\n\n".join([*parts, "</div>"]) + "\n"


def shown(script: Path) -> str:
    """The output that the page of a script shows now."""
    return (PAGES / f"{script.stem}.md").read_text().split("It prints\n\n```text\n")[1].split("\n```")[0]


def record_gpu(scripts: list[Path], target: Path) -> None:
    """Run the scripts with --gpu, and keep what they print, beside what is kept of the others."""
    import cupy

    content = json.loads(target.read_text()) if target.exists() else {}
    for script in scripts:
        try:
            output, seconds = run(script, target.parent, "--gpu")
        except RuntimeError as error:  # the others are worth having
            print(error, file=sys.stderr)
            continue
        print(f"{script.stem}: {seconds:.1f} s\n{output}\n", flush=True)
        content[script.stem] = {
            "date": datetime.date.today().isoformat(),
            "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
            "command": f"python docs/tutorials.py {script.stem[:2]} --gpu",
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cupy": cupy.__version__,
            "seconds": round(seconds, 1),
            "output": output,
        }
        target.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", help="which examples, as 01; all by default")
    parser.add_argument("--gpu", action="store_true", help="only record what the scripts print with --gpu")
    parser.add_argument("--json", type=Path, default=ON_GPU, help="where to record that")
    parser.add_argument("--text", action="store_true", help="run nothing, write pages and notebooks anew")
    options = parser.parse_args()
    scripts = [s for s in SCRIPTS if not options.numbers or s.stem[:2] in options.numbers]
    if options.gpu:
        record_gpu(scripts, options.json)
        return
    PAGES.mkdir(exist_ok=True)
    for script in scripts:
        output, seconds = (shown(script), 0.0) if options.text else run(script, PICTURES)
        (PAGES / f"{script.stem}.md").write_text(page(script, output))
        (PAGES / f"{script.stem}.ipynb").write_text(notebook(script))
        print(f"{script.stem}: {seconds:.1f} s")
    (PAGES / "index.md").write_text(index())


if __name__ == "__main__":
    main()
