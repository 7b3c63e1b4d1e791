"""What a tensor core does to a sum, seen from outside.

    python examples/05_inside_a_tensor_core.py [--output DIR]

Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021), ask the
hardware with products of a few chosen entries. Here the same questions go to the models of four
generations (with a GPU, `python -m multiword.probe` puts them to it): how many bits survive beside a
one, how many products are added at once and in which order, and why a larger term can make the sum
smaller. Prints the report, draws three of its answers; a few seconds on a CPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multiword import Blocking, TensorCore
from multiword.probe import print_report, subtree_sizes, survey

mpl.use("Agg")
from matplotlib import pyplot as plt

CHIPS = ("V100", "T4", "A100", "H200")


def survivors(chip: str, exponents: range) -> list[float]:
    """1 - 1 + 2⁻ᑫ as a fraction of 2⁻ᑫ: one while the term lies within the bits kept."""
    left = np.array([[1.0, -1.0, 2.0**-14]])
    return [
        float(TensorCore(chip).gemm(left, np.array([[1.0], [1.0], [2.0 ** (14 - q)]]))[0, 0]) * 2.0**q
        for q in exponents
    ]


def swallowed(core: TensorCore, k: int) -> np.ndarray:
    """Terms added no later than the later of the first term and the j-th, for each j."""
    return subtree_sizes(core, "fp16", 16, 16, k, [(0, j) for j in range(1, k)])


def not_monotone(core: TensorCore, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """c + 4·2⁻²⁴ in one step, for c rising to 1 and beyond.

    Below 1 the largest exponent is -1 and 2⁻²⁴ is the last bit that a V100 keeps. At 1 it is cut away,
    four times over: the larger c gives the smaller sum.
    """
    c = 1 + np.concatenate([np.arange(-steps, 0) * 2.0**-24, np.arange(steps // 2) * 2.0**-23])
    left, right = np.full((1, 4), 2.0**-12), np.full((4, 1), 2.0**-12)
    return c, np.array([core.gemm(left, right, np.array([[x]]))[0, 0] for x in c], np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    found, notes = survey([TensorCore(chip) for chip in CHIPS])
    print_report(found, notes)

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), constrained_layout=True)
    exponents = range(20, 30)
    for offset, chip in enumerate(CHIPS):
        axes[0].plot(exponents, np.array(survivors(chip, exponents)) + 1.3 * offset, "o-", label=chip)
    axes[0].set(title="Which 2⁻ᑫ survives 1 - 1 + 2⁻ᑫ", xlabel="q", yticks=[])
    axes[0].legend(loc="center left")

    k = 100
    cores = {chip: TensorCore(chip) for chip in ("V100", "A100", "H200")}
    cores["H200, k in parts of 48"] = TensorCore("H200", blocking=Blocking(block_k=48))
    for name, core in cores.items():
        axes[1].step(range(1, k), swallowed(core, k), where="post", label=name)
    axes[1].set(title="Terms added up to the j-th", xlabel="j")
    axes[1].legend()

    volta = TensorCore("V100")
    for name, core in (("V100", volta), ("with 7 bits more", volta.with_arithmetic(fraction_bits=30))):
        c, sums = not_monotone(core, 8)
        axes[2].plot((c - 1) * 2.0**24, (sums - 1) * 2.0**24, "o-", label=name)
    axes[2].set(
        title="c + 4 · 2⁻²⁴: a larger c, a smaller sum", xlabel="(c - 1) · 2²⁴", ylabel="(sum - 1) · 2²⁴"
    )
    axes[2].legend()
    for axis in axes:
        axis.grid(alpha=0.3)
    target = options.output / "05_inside_a_tensor_core.png"
    figure.savefig(target, dpi=150)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
