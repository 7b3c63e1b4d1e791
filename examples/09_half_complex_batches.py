"""Detecting symbols on a thousand radio channels with half-complex matrices.

    python examples/09_half_complex_batches.py [--output DIR]

A base station with 64 antennas hears 16 users on 1000 subcarriers at once. On each subcarrier the
channel H is a 64×16 complex matrix, and the users' symbols are recovered from y = Hx + noise by
solving (HᴴH) x = Hᴴy. The Gram matrices HᴴH, one small product with a conjugate transpose for each
subcarrier, are where the arithmetic is. Here they are made from half-complex numbers, a quarter of
complex128's memory: with fp16 sums they are ten times less accurate than with fp32 sums, but the
noise is larger than either, and the symbol error rate is that of complex128. The other picture is
the reason for interleaved pairs: the roofline of Abdelfattah, Tomov and Dongarra, equations (1) and
(2), with times measured on an NVIDIA H200.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import multiword
from multiword.batched import attainable_flops

mpl.use("Agg")
from matplotlib import pyplot as plt

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "batched_h200.json"
CHANNELS, ANTENNAS, USERS = 1000, 64, 16
SUMS = ("fp32", "fp16")


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Complex normal numbers of variance one."""
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)


def grams(h: np.ndarray) -> dict[str, np.ndarray]:
    """HᴴH for every subcarrier: in complex128, and from half-complex with either kind of sums."""
    half = multiword.from_complex(h)
    products = {"complex128": h.conj().swapaxes(-1, -2) @ h}
    for accumulate in SUMS:
        product = multiword.batched_matmul(half, half, trans_a="C", accumulate=accumulate)
        products[f"half-complex, {accumulate} sums"] = multiword.to_complex(product)
    return products


def detected(gram: np.ndarray, h: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The nearest symbols ±1 ± i to the least-squares solution."""
    x = np.linalg.solve(gram.astype(np.complex128), h.conj().swapaxes(-1, -2) @ y)
    return np.sign(x.real) + 1j * np.sign(x.imag)


def error_rates(rng: np.random.Generator, decibels: np.ndarray) -> dict[str, list[float]]:
    """Share of wrong symbols for each way of making the Gram matrices."""
    h = normal(rng, CHANNELS, ANTENNAS, USERS)
    products = grams(h)
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


def draw_roofline(axis: plt.Axes) -> None:
    """What memory allows for half-complex products of either layout, and what was measured."""
    record = json.loads(RESULTS.read_text())
    sizes = np.arange(2, 257)
    for layout, style in (("interleaved", "C0-"), ("planar", "C1-")):
        bound = [attainable_flops(n, n, n, layout, bandwidth=record["bandwidth"], peak=8e14) for n in sizes]
        axis.loglog(sizes, np.array(bound) / 1e12, style, alpha=0.5, label=f"memory bound, {layout}")
    figures = record["figures"]
    rows = [r for name in figures if name.startswith("Fig. 19") for r in figures[name] if r["batch"] == 10**5]
    for key, style, label in (("ours", "C0.", "this library"), ("cublas", "C1.", "cuBLAS, planar")):
        speed = [8 * r["n"] ** 3 * r["batch"] / r[key] / 1e12 for r in rows]
        axis.loglog([r["n"] for r in rows], speed, style, label=f"{label}, batch of 100000")
    axis.set(xlabel="n", ylabel="Tflop/s", title=f"Half-complex n×n products, {record['device']}")
    axis.legend()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "09_half_complex_batches.png"
    decibels = np.arange(0, 13, 1.5)
    rates = error_rates(np.random.default_rng(7), decibels)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    for (name, values), style in zip(rates.items(), ("k-", "C0o", "C3x"), strict=True):
        left.semilogy(decibels, values, style, label=name)
    left.set(xlabel="signal-to-noise ratio of the array [dB]", ylabel="symbol error rate")
    left.set_title(f"{USERS} users, {ANTENNAS} antennas, {CHANNELS} subcarriers")
    left.legend()
    draw_roofline(right)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print("wrote", path)


if __name__ == "__main__":
    main()
