"""FP32 accuracy from fp16 words: why plain words fail on (0, 1], and what cures it.

Runs on a CPU in less than a minute: the tensor core of an NVIDIA H200 is a bit-accurate model.
Left: the error of one dot product against its length, for elements uniform on (0, 1]. Two fp16
words carry fp32's significand, yet the tensor core truncates its sums, so that plain double-fp16
drifts by k·2⁻²⁴ (Fasi et al., Fig. 4.2). Blocks (FABsum) make the drift shorter. The default
removes the means of rows and columns, and gives back in advance what truncation will take.
Right: the same for normal elements, where partial sums are of both signs.

    python examples/03_fp32_from_fp16_words.py [--output DIR]
"""

import argparse
import sys
from pathlib import Path

import matplotlib
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
matplotlib.use("Agg")
import matplotlib.pyplot as plt

from multiword import error_bound, matmul, matmul_plan

CURVES = {
    "fp32": "fp32, to nearest",
    "double-fp16": "double-fp16 (Algorithm 4.1)",
    "fabsum-v1": "FABsum v1, b = 256",
    "halfhalf": "halfhalf, blocks of 128",
    None: "default",
}


def error(c, a, b):
    """The largest |C - Ĉ|_ij / (|A||B|)_ij."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (np.abs(c - a @ b) / (np.abs(a) @ np.abs(b))).max()


def measure(draw, lengths, m=24):
    """The error of each scheme for each inner dimension."""
    found = {name: [] for name in CURVES}
    for k in lengths:
        a, b = draw((m, k)).astype(np.float32), draw((k, m)).astype(np.float32)
        for name in CURVES:
            found[name].append(error(matmul(a, b, scheme=name, engine="tensorcore"), a, b))
    print(matmul_plan(a, b, engine="tensorcore"), end="\n\n")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    lengths = [2**e for e in range(7, 16)]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    draws = {"uniform on (0, 1]": lambda s: 1 - rng.random(s), "normal": rng.standard_normal}
    for axis, (title, draw) in zip(axes, draws.items(), strict=True):
        for name, errors in measure(draw, lengths).items():
            style = {None: "k-o", "fp32": "k--"}.get(name, "-o")
            axis.loglog(lengths, errors, style, base=2, markersize=4, label=CURVES[name])
            print(f"{title:18s} {CURVES[name]:30s} {errors[-1]:.1e} at k = {lengths[-1]}")
        bounds = [error_bound(k, "double-fp16", generation="H200") for k in lengths]
        axis.loglog(lengths, bounds, "r:", base=2, label="worst-case bound of double-fp16")
        axis.set_yscale("log", base=10)
        axis.set(title=title, xlabel="inner dimension k")
        print()
    axes[0].set_ylabel("largest componentwise error")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    target = options.output / "03_fp32_from_fp16_words.png"
    figure.savefig(target, dpi=110)
    print(f"saved {target}")


if __name__ == "__main__":
    main()
