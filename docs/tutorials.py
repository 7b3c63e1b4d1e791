"""Run the examples and make the tutorials' pages from what they print and draw.

    python docs/tutorials.py                    # on this machine, every script: pages and pictures
    python docs/tutorials.py 01 05              # these only
    python docs/tutorials.py --gpu --json FILE  # what the scripts print with --gpu, for the pages

A page has its script's docstring, picture, output and text, and what it printed on a GPU. All of it
is generated, and a test compares: the script's digest, and the form of what it prints.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
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


def described(script: Path) -> tuple[str, str]:
    """The title and the text of a script's docstring, without its command line."""
    title, text = script.read_text().split('"""')[1].split("\n", 1)
    lines = [line for line in text.splitlines() if not line.startswith("    python ")]
    escaped = "\n".join(lines).strip().replace("*", r"\*").replace("<", r"\<")
    return re.sub(r"([][])", r"\\\1", title.rstrip(".")), escaped


def page(script: Path, output: str) -> str:
    """One tutorial in Markdown."""
    title, text = described(script)
    stem, number = script.stem, script.stem[:2]
    parts = [
        f"# {int(number)}. {title}",
        f"<!-- made by docs/tutorials.py from examples/{script.name} {digest(script)}; do not edit -->",
        f"![{title}](../images/{stem}.png)",
        text,
        f"The method is explained under [how it works](../how-it-works/{BACKGROUND[number]}).",
        f"## Run it\n\n```sh\npip install '.[examples]'\npython examples/{script.name}\n```",
        f"It prints\n\n```text\n{output}\n```",
    ]
    if ON_GPU.exists():
        record = json.loads(ON_GPU.read_text()).get(stem)
        if record is not None:
            parts += [
                f"## On a GPU\n\n```sh\npython examples/{script.name} --gpu\n```",
                f"printed on an {record['device']} ({record['date']}, CuPy {record['cupy']}, NumPy "
                f"{record['numpy']}; `benchmarks/results/{ON_GPU.name}`)",
                f"```text\n{record['output']}\n```",
            ]
    fence = f'```{{.python .script title="examples/{script.name}"}}\n--8<-- "examples/{script.name}"\n```'
    return "\n\n".join([*parts, f"## The script\n\n{fence}"]) + "\n"


def index() -> str:
    """The overview: every title with its picture."""
    parts = [
        "# Tutorials",
        "<!-- made by docs/tutorials.py; do not edit -->",
        "Nine short scripts, each on one of the [papers](../how-it-works/index.md): what goes wrong, why, "
        "and what helps. Each saves its picture; most run in seconds on a CPU, the longest in about a "
        "minute. Where there is an NVIDIA GPU, `--gpu` uses it and shows its speed. Pictures and outputs on "
        "these pages are made by the scripts as they are.",
    ]
    for script in SCRIPTS:
        title, _ = described(script)
        stem = script.stem
        parts.append(
            f"## [{int(stem[:2])}. {title}]({stem}.md)\n\n[![{title}](../images/{stem}.png)]({stem}.md)"
        )
    return "\n\n".join(parts) + "\n"


def shown(script: Path) -> str:
    """The output that the page of a script shows now."""
    return (PAGES / f"{script.stem}.md").read_text().split("```text\n")[1].split("\n```")[0]


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
    parser.add_argument("--text", action="store_true", help="run nothing, write the pages anew")
    options = parser.parse_args()
    scripts = [s for s in SCRIPTS if not options.numbers or s.stem[:2] in options.numbers]
    if options.gpu:
        record_gpu(scripts, options.json)
        return
    PAGES.mkdir(exist_ok=True)
    for script in scripts:
        output, seconds = (shown(script), 0.0) if options.text else run(script, PICTURES)
        (PAGES / f"{script.stem}.md").write_text(page(script, output))
        print(f"{script.stem}: {seconds:.1f} s")
    (PAGES / "index.md").write_text(index())


if __name__ == "__main__":
    main()
