"""Why two fp16 words on a tensor core are not fp32: the accumulator rounds toward zero.

    python examples/04_rounding_toward_zero.py [--output DIR] [--gpu]

First and second: Fasi, Higham, Lopez, Mary and Mikaitis, "Matrix multiplication in multiword
arithmetic", Figure 4.3: the componentwise error of fp16, double-fp16 and fp32 on two models of a V100,
which differ only in the rounding of terms and sums, toward zero (RZ) or to nearest (RN). Third: Ootomo
and Yokota, "Recovering single precision accuracy from tensor cores", Figure 5: Markidis' four
products, added in one accumulator, with both roundings. The models are exact to the last bit, so no
GPU is needed: some ten seconds on a CPU. With --gpu the first diagram also shows double-fp16 on the
GPU's own tensor cores, and its speed is printed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from multiword import Blocking, TensorCore, matmul

SIZES = [1 << p for p in range(5, 15)]
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
        print(f"n = {n}", end=" \r", file=sys.stderr, flush=True)
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
        print(f"k = {k}", end=" \r", file=sys.stderr, flush=True)
        a, b = (rng.uniform(-1, 1, s).astype(np.float32).astype(np.float64) for s in ((16, k), (k, 16)))
        exact = a @ b
        results = (markidis(core, a, b), markidis(nearest, a, b), core.gemm(a, b, word="fp32"))
        for name, c in zip(residuals, results, strict=True):
            residuals[name].append(float(np.linalg.norm(c - exact) / np.linalg.norm(exact)))
    return residuals


def errors_on_gpu() -> list[float]:
    """Errors of double-fp16 by cuBLAS on this GPU, on the data of Figure 4.3."""
    import cupy

    rng, errors = np.random.default_rng(0), []
    for n in SIZES:
        a, b = (sum(w.astype(np.float64) for w in two_words(1 - rng.random(s))) for s in ((16, n), (n, 16)))
        c = matmul(*(cupy.asarray(x.astype(np.float32)) for x in (a, b)), scheme="double-fp16")
        errors.append(componentwise_error(c.get(), a, b))
    return errors


def print_speed(n: int = 8192) -> None:
    """What is won by words, and lost again to blocks, on this GPU."""
    import cupy
    from cupyx.profiler import benchmark

    a, b = cupy.random.random((2, n, n), dtype=np.float32)
    print(f"speed on the GPU, n = {n}")
    for scheme in ("fp32", "double-fp16", "fabsum-v1", "fabsum-v2"):
        times = benchmark(matmul, (a, b), {"scheme": scheme}, n_repeat=5, n_warmup=2).gpu_times
        print(f"  {scheme:<12} {2 * n**3 / np.median(times) / 1e12:6.1f} Tflop/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also use an NVIDIA GPU, and time it")
    options = parser.parse_args()
    rz, rn, right = figure_4_3(TOWARD_ZERO), figure_4_3(TO_NEAREST), figure_5()
    print(f"n = {SIZES[-1]}: double-fp16 over fp32, componentwise error")
    print(f"  toward zero  {rz['double-fp16'][-1] / rz['fp32'][-1]:8.1f} times")
    print(f"  to nearest   {rn['double-fp16'][-1] / rn['fp32'][-1]:8.1f} times")
    print(f"Markidis over fp32, relative residual at k = {SIZES[-1]}")
    print(f"  toward zero  {right['Markidis, RZ'][-1] / right['fp32'][-1]:8.1f} times")
    print(f"  to nearest   {right['Markidis, RN'][-1] / right['fp32'][-1]:8.1f} times")
    if options.gpu:
        rz["double-fp16, this GPU"] = errors_on_gpu()
        print_speed()

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplots(3, 1, figsize=(7, 12))
    titles = (
        "Toward zero: word two is lost",
        "To nearest: two words suffice",
        "Markidis' four products",
    )
    styles = {"fp16": "C3s:", "double-fp16": "C1o-", "fp32": "k--", "double-fp16, this GPU": "C2D"}
    styles |= {"Markidis, RZ": "C1o-", "Markidis, RN": "C0^-"}
    for axis, title, curves in zip(axes, titles, (rz, rn, right), strict=True):
        for name, values in curves.items():
            axis.loglog(SIZES, values, styles[name], base=2, label=name)
        axis.set(title=title, xlabel="inner dimension")
        axis.set_yscale("log", base=10)
        axis.legend()
    for axis in axes[:2]:
        axis.set_ylabel("largest |C - Ĉ| / |A||B|")
    axes[1].sharey(axes[0])
    axes[2].set_ylabel("‖C - Ĉ‖ / ‖C‖")
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "04_rounding_toward_zero.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
