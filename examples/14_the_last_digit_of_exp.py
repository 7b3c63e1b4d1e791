"""The last digit of exp and its like: how often NumPy's and PyTorch's results are not the nearest number.

    python examples/14_the_last_digit_of_exp.py [--output DIR] [--gpu]

The value of exp at a number lies between two floating-point numbers, and one of these is nearer. Libraries
return one of the two nearly always, but not always the nearer one, and which of them depends on the processor
(Sibidanov, Zimmermann and Glondu, "The CORE-MATH project", 2022). The shares come from a file that
`benchmarks/elementary.py` has written; --gpu measures those of CuPy's functions on an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import ozaki

SHARES = Path(__file__).parents[1] / "benchmarks" / "results" / "elementary_cpu.json"
LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch"}


def print_gpu(names: list[str], count: int = 10**6) -> None:
    """The share of CuPy's results that are not the nearest numbers, between 0.1 and 0.9."""
    import cupy

    print("wrong last digits of CuPy on the GPU, 10⁶ numbers from 0.1 to 0.9")
    for name in names:
        if (theirs := getattr(cupy, name, None)) is not None and len(ozaki.public.PUBLIC[name].arrays) == 1:
            wrong = []
            for dtype in (np.float32, np.float64):
                x = cupy.asarray(np.random.default_rng(0).uniform(0.1, 0.9, count).astype(dtype))
                wrong.append(float((theirs(x) != getattr(ozaki, name)(x)).mean()))
            print(f"  {name:<12}{wrong[0]:9.3%}{wrong[1]:9.3%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also measure CuPy's functions on an NVIDIA GPU")
    options = parser.parse_args()

    record = json.loads(SHARES.read_text())
    rows = {(row["function"], row["dtype"]): row for row in record["results"]}
    names = list(dict.fromkeys(name for name, _ in rows))
    columns = [(dtype, library) for dtype in ("float32", "float64") for library in LIBRARIES]
    print("wrong last digits    " + "".join(f"{LIBRARIES[lib]:>9} {dtype}" for dtype, lib in columns))
    for name in names:
        shares = [rows[name, dtype].get(f"{library} wrong") for dtype, library in columns]
        print(f"{name:<21}" + "".join(f"{'-' if s is None else format(s, '.3%'):>17}" for s in shares))

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, panels = plt.subplots(1, 2, figsize=(10, 12), sharey=True)
    places = np.arange(len(names))[::-1]
    for panel, dtype in zip(panels, ("float32", "float64"), strict=True):
        for shift, (library, label) in zip((0.2, -0.2), LIBRARIES.items(), strict=True):
            shares = [100 * rows[name, dtype].get(f"{library} wrong", np.nan) for name in names]
            panel.barh(places + shift, shares, 0.4, label=label)
        panel.set(title=dtype, xlabel="results that are not the nearest number, %")
    panels[0].set_yticks(places, names, fontsize=11)
    panels[0].set_ylim(-0.6, len(names) - 0.4)
    panels[1].legend(loc="lower right")
    if options.gpu:
        print_gpu(names)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "14_the_last_digit_of_exp.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
