"""Why two fp16 words on a tensor core are not fp32: the accumulator rounds toward zero.

    python examples/04_rounding_toward_zero.py [--output DIR]

Left and middle: Fasi, Higham, Lopez, Mary and Mikaitis, "Matrix multiplication in multiword
arithmetic", Figure 4.3: the componentwise error of fp16, double-fp16 and fp32 on a V100 whose
rounding of terms and sums, toward zero (RZ) or to nearest (RN), is all that changes. Right: Ootomo
and Yokota, "Recovering single precision accuracy from tensor cores", Figure 5: Markidis' four
products, all into one accumulator, with both roundings. The tensor cores are models, exact to the
last bit, so no GPU is needed: about half a minute on two cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multiword import Blocking, TensorCore

mpl.use("Agg")
from matplotlib import pyplot as plt

SIZES = [1 << p for p in range(5, 17)]
PARTS = Blocking(split_k=16)  # the paper's sixteen blocks of the inner dimension, added in fp32
TOWARD_ZERO = TensorCore("V100", blocking=PARTS)
TO_NEAREST = TOWARD_ZERO.with_arithmetic(rounding="RN", alignment="RN")


def two_words(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A₁ = fl16(A), A₂ = fl16(A - A₁)."""
    first = x.astype(np.float16)
    return first, (x - first.astype(np.float64)).astype(np.float16)


def double_fp16(core: TensorCore, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Algorithm 4.1: three products, the smallest terms first, added in fp32."""
    (a1, a2), (b1, b2) = two_words(a), two_words(b)
    return core.gemm(a2, b1) + core.gemm(a1, b2) + core.gemm(a1, b1)


def componentwise_error(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """max |C - Ĉ|ᵢⱼ / (|A||B|)ᵢⱼ; float64 is far more than these errors need."""
    return float((np.abs(c - a @ b) / (np.abs(a) @ np.abs(b))).max())


def figure_4_3(core: TensorCore) -> dict[str, list[float]]:
    """Errors of the three arithmetics on (16 × n)·(n × 16), entries uniform on (0, 1]."""
    errors: dict[str, list[float]] = {"fp16": [], "double-fp16": [], "fp32": []}
    rng = np.random.default_rng(0)
    for n in SIZES:
        a, b = (sum(w.astype(np.float64) for w in two_words(1 - rng.random(s))) for s in ((16, n), (n, 16)))
        errors["fp16"].append(componentwise_error(core.gemm(a, b), a, b))
        errors["double-fp16"].append(componentwise_error(double_fp16(core, a, b), a, b))
        errors["fp32"].append(componentwise_error(core.gemm(a, b, word="fp32"), a, b))
    return errors


def markidis(core: TensorCore, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ΔA·ΔB + ΔA·B + A·ΔB + A·B, each fragment of 8 into the one accumulator in turn."""
    (a1, a2), (b1, b2) = two_words(a), two_words(b)
    left = np.stack([x.reshape(len(a), -1, 8) for x in (a2, a2, a1, a1)], axis=2)
    right = np.stack([x.T.reshape(b.shape[1], -1, 8) for x in (b2, b1, b2, b1)], axis=2)
    return core.gemm(left.reshape(len(a), -1), right.reshape(b.shape[1], -1).T)


def figure_5() -> dict[str, list[float]]:
    """Relative residuals ‖C - Ĉ‖ / ‖C‖ on (16 × k)·(k × 16), entries uniform on (-1, 1)."""
    core = TensorCore("A100")
    nearest = core.with_arithmetic(rounding="RN")
    residuals: dict[str, list[float]] = {"Markidis, RZ": [], "Markidis, RN": [], "fp32": []}
    rng = np.random.default_rng(1)
    for k in SIZES:
        a, b = (rng.uniform(-1, 1, s).astype(np.float32).astype(np.float64) for s in ((16, k), (k, 16)))
        exact = a @ b
        results = (markidis(core, a, b), markidis(nearest, a, b), core.gemm(a, b, word="fp32"))
        for name, c in zip(residuals, results, strict=True):
            residuals[name].append(float(np.linalg.norm(c - exact) / np.linalg.norm(exact)))
    return residuals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rz, rn, right = figure_4_3(TOWARD_ZERO), figure_4_3(TO_NEAREST), figure_5()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), constrained_layout=True)
    titles = ("V100, rounding toward zero", "the same, rounding to nearest", "Markidis' products, A100")
    styles = {"fp16": "s:", "double-fp16": "o-", "fp32": "k--", "Markidis, RZ": "o-", "Markidis, RN": "^-"}
    for axis, title, curves in zip(axes, titles, (rz, rn, right), strict=True):
        for name, values in curves.items():
            axis.loglog(SIZES, values, styles[name], base=2, label=name, markersize=4)
        axis.set(title=title, xlabel="inner dimension")
        axis.set_yscale("log", base=10)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set_ylabel("componentwise error")
    axes[1].sharey(axes[0])
    axes[2].set_ylabel("relative residual")
    target = options.output / "04_rounding_toward_zero.png"
    figure.savefig(target, dpi=150)
    print(f"n = {SIZES[-1]}: double-fp16 over fp32, componentwise error")
    print(f"  toward zero  {rz['double-fp16'][-1] / rz['fp32'][-1]:8.1f} times")
    print(f"  to nearest   {rn['double-fp16'][-1] / rn['fp32'][-1]:8.1f} times")
    print(f"Markidis over fp32, relative residual at k = {SIZES[-1]}")
    print(f"  toward zero  {right['Markidis, RZ'][-1] / right['fp32'][-1]:8.1f} times")
    print(f"  to nearest   {right['Markidis, RN'][-1] / right['fp32'][-1]:8.1f} times")
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
