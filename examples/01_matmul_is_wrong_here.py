"""From a wrong np.matmul result to a certified one: the first tutorial.

    python examples/01_matmul_is_wrong_here.py [--output DIR] [--gpu]

Pascal's triangle times its inverse is the identity. Up to n = 36 double precision holds every sum that
can occur on the way, and np.matmul is exact; from about n = 42 on it is wrong, at n = 56 by 10⁸, and
nothing warns of it. `ozaki.accurate_dgemm` returns the identity, and `ozaki.plan` gives the certified
error before the product is computed. The last picture is the classical one of accurate
products (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005, Figure 6.1), for matrices:
the relative error against the condition number |A||B| / |AB|. It shows what each accuracy is for:
"fp64" loses digits where np.matmul does, only fewer; "exact" never does. The method is that of
Mukunoki, Ozaki, Ogita and Imamura, "DGEMM using tensor cores, and its accurate and reproducible
versions" (2020). A few seconds on a CPU; --gpu multiplies on an NVIDIA GPU and times it.
"""

from __future__ import annotations

import argparse
from math import comb
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage

import ozaki

STYLES = {"np.matmul": "C1o-", "fp64": "C0s-", "exact": "C2^-"}


def pascal(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pascal's triangle and its inverse, the same with alternating signs; integers below 2**53."""
    a = np.array([[comb(i, j) for j in range(n)] for i in range(n)], np.float64)
    i = np.arange(n)
    return a, np.where((i[:, None] + i) % 2 == 0, a, -a)


def ill_conditioned(octaves: int, n: int = 32, k: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A = [tX, R, -tX], B = [Y; Z; Y] with t = 2**octaves, and AB, which is RZ, correctly rounded."""
    rng = np.random.default_rng(octaves)
    x, r = rng.standard_normal((2, n, k))
    y, z = rng.standard_normal((2, k, n))
    a, b = np.hstack([np.ldexp(x, octaves), r, -np.ldexp(x, octaves)]), np.vstack([y, z, y])
    return a, b, ozaki.accurate_dgemm(r, z, accuracy="exact")


def products(a: np.ndarray, b: np.ndarray, gpu: bool) -> dict[str, np.ndarray]:
    """AB by np.matmul (on the GPU: cupy.matmul) and by both of the library's main accuracies."""
    if gpu:
        import cupy

        x, y = cupy.asarray(a), cupy.asarray(b)
        results = {"np.matmul": (x @ y).get()}
        return results | {name: ozaki.accurate_dgemm(x, y, accuracy=name).get() for name in ("fp64", "exact")}
    results = {"np.matmul": a @ b}
    return results | {name: ozaki.accurate_dgemm(a, b, accuracy=name) for name in ("fp64", "exact")}


def report(results: dict[str, np.ndarray], a: np.ndarray, b: np.ndarray, gpu: bool) -> None:
    """The tutorial: a wrong product, the plan, and the right product."""
    if gpu:
        import cupy

        a, b = cupy.asarray(a), cupy.asarray(b)
    print("Pascal's triangle, n = 56, times its inverse: the largest element of C - I")
    for name, c in results.items():
        print(f"  {name:<10} {abs(c - np.eye(len(c))).max():.1e}")
    print("\nwhat ozaki.plan(a, b) says before the product is computed:\n")
    print(ozaki.plan(a, b))
    print(f"\nfingerprint of the exact result, on every machine: {ozaki.fingerprint(results['exact'])}")


def print_speed(n: int = 8192) -> None:
    """What the accuracies cost on this GPU."""
    import cupy
    from cupyx.profiler import benchmark

    x, y = cupy.random.standard_normal((2, n, n))
    print(f"\nspeed on the GPU, n = {n}, normal data")
    for name in STYLES:
        options = {} if name == "np.matmul" else {"accuracy": name}
        multiply = ozaki.accurate_dgemm if options else cupy.matmul
        times = benchmark(multiply, (x, y), options, n_repeat=5, n_warmup=2).gpu_times
        label = f'accuracy="{name}"' if options else "cupy.matmul"
        print(f"  {label:<18} {2 * n**3 / np.median(times) / 1e12:6.1f} Tflop/s")


def draw_identity(axis: plt.Axes, c: np.ndarray, title: str) -> AxesImage:
    """|C - I|, element by element, on a logarithmic scale; green where C is right."""
    error = abs(c - np.eye(len(c)))
    picture = axis.imshow(np.where(error > 0, error, np.nan), norm=LogNorm(1, 1e8), cmap="inferno_r")
    axis.set(title=title, xticks=[], yticks=[], facecolor="#b5e2cf")
    right = np.count_nonzero(error == 0)
    axis.text(
        0.5, 0.75, f"{right / error.size:.0%} of the\nelements right", ha="center", transform=axis.transAxes
    )
    return picture


def draw_conditions(axis: plt.Axes, gpu: bool) -> None:
    conditions, errors = [], {name: [] for name in STYLES}
    for octaves in range(0, 76, 5):
        a, b, right = ill_conditioned(octaves)
        conditions.append(float((abs(a) @ abs(b) / abs(right)).max()))
        for name, c in products(a, b, gpu).items():
            errors[name].append(float((abs(c - right) / abs(right)).max()))
    for name, style in STYLES.items():
        # Errors below u cannot be distinguished: the reference itself is rounded.
        label = name if name == "np.matmul" else f'accuracy="{name}"'
        axis.loglog(conditions, np.maximum(errors[name], 2.0**-53), style, label=label)
    axis.text(conditions[0], 2.0**-52, "u, the best there is", va="bottom", color="C2")
    axis.set(title='"exact" keeps every digit', xlabel="condition number |A||B| / |AB|")
    axis.set_ylabel("largest relative error of AB")
    axis.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="multiply on an NVIDIA GPU, and time it")
    options = parser.parse_args()

    a, b = pascal(56)
    results = products(a, b, options.gpu)
    report(results, a, b, options.gpu)
    if options.gpu:
        print_speed()

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplot_mosaic([["native", "ours"], ["all", "all"]], figsize=(7, 7.6))
    picture = draw_identity(axes["native"], results["np.matmul"], "np.matmul: wrong")
    draw_identity(axes["ours"], results["fp64"], "ozaki: the identity")
    bar = figure.colorbar(picture, ax=[axes["native"], axes["ours"]], shrink=0.9)
    bar.set_label("|C - I|; green: 0")
    axes["native"].set_xlabel("Pascal's triangle × its inverse", loc="left")
    draw_conditions(axes["all"], options.gpu)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "01_matmul_is_wrong_here.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
