"""Detecting symbols on a thousand radio channels with half-complex matrices.

    python examples/09_half_complex_batches.py [--output DIR] [--gpu]

A base station with 64 antennas hears 16 users on 1000 subcarriers at once. On each subcarrier the
channel H is a 64×16 complex matrix, and the users' symbols are recovered from y = Hx + noise by
solving (HᴴH) x = Hᴴy. The Gram matrices HᴴH, one small product with a conjugate transpose for each
subcarrier, are where the arithmetic is. Here they are made from half-complex numbers, a quarter of
complex128's memory. With fp16 sums they are less accurate than with fp32 sums: ten times where every
product is added and rounded by itself, as on a CPU, and twice on the tensor cores of an NVIDIA H200,
which add several products before they round. The noise is larger than either error, and the symbol
error rate is that of complex128. The other picture is the reason for interleaved pairs: the roofline
of Abdelfattah, Tomov and Dongarra, equations (1) and (2), with C written but not read, and times
measured on an NVIDIA H200. A few seconds on a CPU; --gpu makes the Gram matrices on an NVIDIA GPU, and
times them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import multiword
from multiword.batched import attainable_flops

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "batched_h200.json"
CHANNELS, ANTENNAS, USERS = 1000, 64, 16
SUMS = ("fp32", "fp16")


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Complex normal numbers of variance one."""
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)


def grams(h: np.ndarray, gpu: bool) -> dict[str, np.ndarray]:
    """HᴴH for every subcarrier: in complex128, and from half-complex with either kind of sums."""
    if gpu:
        import cupy
    half = multiword.from_complex(cupy.asarray(h) if gpu else h)
    products = {"complex128": h.conj().swapaxes(-1, -2) @ h}
    for accumulate in SUMS:
        product = multiword.batched_matmul(half, half, trans_a="C", accumulate=accumulate)
        gram = multiword.to_complex(product)
        products[f"half-complex, {accumulate} sums"] = gram.get() if gpu else gram
    return products


def print_speed(h: np.ndarray) -> None:
    """The time of all Gram matrices on this GPU."""
    import cupy
    from cupyx.profiler import benchmark

    single = cupy.asarray(h, np.complex64)
    half, conjugate = multiword.from_complex(single), single.conj().swapaxes(-1, -2)
    ways = [("complex64, cupy.matmul", cupy.matmul, (conjugate, single), {})]
    for accumulate in SUMS:
        options = {"trans_a": "C", "accumulate": accumulate}
        ways.append((f"half-complex, {accumulate} sums", multiword.batched_matmul, (half, half), options))
    print(f"time of {CHANNELS} Gram matrices on the GPU")
    for name, multiply, factors, options in ways:
        times = benchmark(multiply, factors, options, n_repeat=20, n_warmup=5).gpu_times
        print(f"  {name:<26} {1e6 * np.median(times):7.1f} µs")


def detected(gram: np.ndarray, h: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The nearest symbols ±1 ± i to the least-squares solution."""
    x = np.linalg.solve(gram.astype(np.complex128), h.conj().swapaxes(-1, -2) @ y)
    return np.sign(x.real) + 1j * np.sign(x.imag)


def error_rates(rng: np.random.Generator, decibels: np.ndarray, gpu: bool) -> dict[str, list[float]]:
    """Share of wrong symbols for each way of making the Gram matrices."""
    h = normal(rng, CHANNELS, ANTENNAS, USERS)
    products = grams(h, gpu)
    if gpu:
        print_speed(h)
    exact = products["complex128"]
    for name, gram in products.items():
        print(f"{name:28s} largest error of a Gram matrix: {abs(gram - exact).max() / abs(exact).max():.1e}")
    symbols = rng.choice([-1, 1], (CHANNELS, USERS, 20)) + 1j * rng.choice([-1, 1], (CHANNELS, USERS, 20))
    rates: dict[str, list[float]] = {name: [] for name in products}
    for level in decibels:
        noise = normal(rng, CHANNELS, ANTENNAS, 20) * 10 ** (-level / 20) * np.sqrt(2 * USERS)
        y = h @ symbols + noise
        for name, gram in products.items():
            rates[name].append(float(np.mean(detected(gram, h, y) != symbols)))
    return rates


def draw_rates(axis: plt.Axes, decibels: np.ndarray, rates: dict[str, list[float]]) -> None:
    for (name, values), style in zip(rates.items(), ("k-", "C0o", "C1x"), strict=True):
        shown = np.array(values)
        axis.semilogy(decibels[shown > 0], shown[shown > 0], style, markersize=8, label=name)
    axis.set(title="Half precision detects as well", xlabel="signal-to-noise ratio of the array [dB]")
    axis.set_ylabel("symbol error rate")
    axis.legend()


def draw_roofline(axis: plt.Axes) -> None:
    """What memory allows for half-complex products of either layout, and what was measured."""
    record = json.loads(RESULTS.read_text())
    sizes, limits = np.arange(1, 129), {"bandwidth": record["bandwidth"], "peak": 8e14, "read_c": False}
    for layout, style in (("interleaved", "C0-"), ("planar", "C1--")):
        bound = np.array([attainable_flops(n, n, n, layout, **limits) for n in sizes])
        axis.loglog(sizes, bound / 1e12, style, alpha=0.5, label=f"memory allows, {layout}")
    figures = record["figures"]
    rows = [r for name in figures if name.startswith("Fig. 19") for r in figures[name] if r["batch"] == 10**5]
    for key, style, label in (("ours", "C0o", "this library"), ("cublas", "C1x", "cuBLAS, planar")):
        speed = [8 * r["n"] ** 3 * r["batch"] / r[key] / 1e12 for r in rows]
        axis.loglog([r["n"] for r in rows], speed, style, label=label)
    axis.set(title=f"10⁵ products, {record['device']}", xlabel="n", ylabel="Tflop/s")
    axis.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="multiply on an NVIDIA GPU, and time it")
    options = parser.parse_args()
    decibels = np.arange(0, 10.5, 1.5)
    rates = error_rates(np.random.default_rng(7), decibels, options.gpu)

    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, (left, right) = plt.subplots(2, 1, figsize=(7, 9))
    draw_rates(left, decibels, rates)
    draw_roofline(right)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "09_half_complex_batches.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
