"""FP32 accuracy from fp16 words: why plain words fail on data of one sign, and what helps.

    python examples/03_fp32_from_fp16_words.py [--output DIR] [--gpu]

Above: the error of products against the length k of their sums, for elements uniform on (0, 1]. Two fp16
words hold fp32's significand, but the tensor core truncates its sums, so that the error of plain
double-fp16 grows like k·2⁻²⁴ (Fasi, Higham, Lopez, Mary and Mikaitis, "Matrix multiplication in multiword
arithmetic", 2022, Algorithm 4.1 and Figure 4.2). Sums in blocks lose less: FABsum (Algorithm 4.2)
and halfhalf (Ootomo and Yokota, "Recovering single precision accuracy from tensor cores", 2022). The
default subtracts the means of rows and columns, and compensates beforehand for the mean loss by
truncation. Below: the same for normal elements, where partial sums are of both signs. The tensor core is
a bit-accurate model of an NVIDIA H200's: some ten seconds on a CPU. With --gpu it is the GPU's own, and
its speed is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from multiword import error_bound, matmul, matmul_plan

CURVES = {
    "double-fp16": ("C1o-", "double-fp16"),
    "fabsum-v1": ("C2s-", "FABsum v1, b = 256"),
    "halfhalf": ("C3^-", "halfhalf, blocks of 128"),
    "fp32": ("k--", "fp32, to nearest"),
    None: ("C0D-", "the default"),
}
LENGTHS = [2**e for e in range(7, 15)]


def error(c: Any, a: Any, b: Any) -> float:
    """The largest |C - Ĉ|ᵢⱼ / (|A||B|)ᵢⱼ; float64 is far more than these errors need."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((abs(c - a @ b) / (abs(a) @ abs(b))).max())


def measure(draw: Any, gpu: bool) -> dict[str | None, list[float]]:
    """The error of each scheme for each inner dimension."""
    m, engine = (2048, "cublas") if gpu else (24, "tensorcore")
    found: dict[str | None, list[float]] = {name: [] for name in CURVES}
    for k in LENGTHS:
        print(f"k = {k}", end=" \r", file=sys.stderr, flush=True)
        a, b = draw((m, k)).astype(np.float32), draw((k, m)).astype(np.float32)
        for name in CURVES:
            found[name].append(error(matmul(a, b, scheme=name, engine=engine), a, b))
    print(matmul_plan(a, b, engine=engine))
    return found


def print_speed(n: int = 8192) -> None:
    """The schemes' speed on this GPU."""
    import cupy
    from cupyx.profiler import benchmark

    a, b = cupy.random.standard_normal((2, n, n), dtype=np.float32)
    print(f"speed on the GPU, n = {n}, normal data")
    for name, (_, label) in CURVES.items():
        times = benchmark(matmul, (a, b), {"scheme": name}, n_repeat=5, n_warmup=2).gpu_times
        print(f"  {label:<24} {2 * n**3 / np.median(times) / 1e12:6.1f} Tflop/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="multiply on an NVIDIA GPU, and time it")
    options = parser.parse_args()
    if options.gpu:
        import cupy

        random = cupy.random.default_rng(1)
    else:
        random = np.random.default_rng(1)

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplots(2, 1, figsize=(7, 9), sharey=True)
    draws = {"uniform on (0, 1]": lambda s: 1 - random.random(s), "normal": random.standard_normal}
    titles = ("On (0, 1] truncation drifts, unless cured", "Normal data: sums of both signs drift less")
    for axis, title, (kind, draw) in zip(axes, titles, draws.items(), strict=True):
        print(f"{kind}:")
        for name, errors in measure(draw, options.gpu).items():
            style, label = CURVES[name]
            axis.loglog(LENGTHS, errors, style, base=2, label=label)
            print(f"  {label:<24} {errors[-1]:.1e} at k = {LENGTHS[-1]}")
        axis.set_yscale("log", base=10)
        axis.set(title=title, xlabel="inner dimension k", ylabel="largest |C - Ĉ| / |A||B|")
    bounds = [error_bound(k, "double-fp16", generation="H200") for k in LENGTHS]
    axes[0].plot(LENGTHS, bounds, ":", color="grey")
    axes[0].text(LENGTHS[2], 4 * bounds[2], "double-fp16, worst case", color="grey", ha="center")
    axes[1].legend(loc="upper left")
    if options.gpu:
        print_speed()
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "03_fp32_from_fp16_words.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
