"""Sums by group: the rows of a table may come in any order.

    python examples/11_sums_by_group.py [--output DIR] [--gpu]

A table of values and keys is summed by key, as it comes, sorted in two ways, shuffled and in parts:
`numpy.bincount` has other last digits for most orders, `ozaki.group_sum` the same bits for all. Then forces
between pairs of particles (Lennard-Jones, a cluster of 36) are summed by particle. The order of a list of
pairs means nothing in physics, and changes whenever the list is made anew. With `numpy.bincount` two
orders of the list end in two different clusters; with exact sums all orders have one trajectory, bit for
bit. The sums are Kulisch's ("Computer Arithmetic and Validity", chapter 8), as Rump, Ogita and Oishi,
"Accurate floating-point summation" (2008), compute them. Some ten seconds on a CPU; --gpu also sums on an
NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

import ozaki

GROUPS, ORDERS, STEPS, TIME_STEP = 1000, 4, 1500, 0.01
GroupSum = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def bincount(values: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    """NumPy's sums by group, of each row of values."""
    return np.stack([np.bincount(labels, row, groups) for row in np.atleast_2d(values)])


def in_parts(values: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    """Seven workers, whose exact sums are merged from the last to the first."""
    total = ozaki.ExactSum(shape=groups)
    for i in reversed(range(7)):
        total.merge(ozaki.ExactSum(shape=groups).add_groups(values[i::7], labels[i::7]))
    return total.round()


def native_in_parts(values: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    """Seven workers, whose rounded sums are added."""
    return sum(bincount(values[i::7], labels[i::7], groups)[0] for i in reversed(range(7)))


def on_gpu(values: np.ndarray, labels: np.ndarray, groups: int) -> np.ndarray:
    import cupy

    return ozaki.group_sum(cupy.asarray(values), cupy.asarray(labels), groups).get()


def print_table(gpu: bool) -> None:
    """Fingerprints of the sums of one table in several orders."""
    rng = np.random.default_rng(11)
    values = np.ldexp(rng.standard_normal(100_000), rng.integers(-10, 10, 100_000))
    keys = rng.integers(0, GROUPS, values.size)
    orders = {
        "as it comes": np.arange(values.size),
        "sorted by key": np.argsort(keys, kind="stable"),
        "sorted by value": np.argsort(values, kind="stable"),
        "shuffled": rng.permutation(values.size),
    }
    print(f"{'order of the rows':<20} {'np.bincount':<18} ozaki.group_sum")
    for name, order in orders.items():
        rows = values[order], keys[order], GROUPS
        marks = ozaki.fingerprint(bincount(*rows)[0]), ozaki.fingerprint(ozaki.group_sum(*rows))
        print(f"{name:<20} {marks[0]:<18} {marks[1]}")
    marks = [ozaki.fingerprint(total(values, keys, GROUPS)) for total in (native_in_parts, in_parts)]
    print(f"{'in seven parts':<20} {marks[0]:<18} {marks[1]}")
    if gpu:
        print(f"{'on the GPU':<20} {'':<18} {ozaki.fingerprint(on_gpu(values, keys, GROUPS))}")


def forces(x: np.ndarray, pairs: np.ndarray, group_sum: GroupSum) -> np.ndarray:
    """The force on each particle: those of its pairs, and a spring that keeps the cluster together."""
    first, second = pairs
    distance = x[:, first] - x[:, second]
    s = 1 / (distance[0] * distance[0] + distance[1] * distance[1])
    s3 = s * s * s
    force = 24 * s * s3 * (2 * s3 - 1) * distance
    both = np.concatenate([force, -force], axis=1)  # action and reaction
    return group_sum(both, np.concatenate([first, second]), x.shape[1]) - 0.3 * x


def trajectory(group_sum: GroupSum, order: int) -> np.ndarray:
    """The positions after each step of Störmer and Verlet's method: (steps, 2, particles)."""
    rng = np.random.default_rng(3)
    x = 1.1 * np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0))).reshape(2, -1)
    x, v = x - x.mean(axis=1, keepdims=True), rng.standard_normal(x.shape)
    pairs = np.array(np.triu_indices(x.shape[1], 1))
    pairs = pairs[:, np.random.default_rng(order).permutation(pairs.shape[1])]
    f, steps = forces(x, pairs, group_sum), []
    for _ in range(STEPS):
        v = v + TIME_STEP / 2 * f
        x = x + TIME_STEP * v
        f = forces(x, pairs, group_sum)
        v = v + TIME_STEP / 2 * f
        steps.append(x)
    return np.array(steps)


def draw_clusters(axis: plt.Axes, runs: list[np.ndarray], title: str) -> None:
    """The last positions of all runs; where runs agree, their marks are one."""
    for i, (run, marker) in enumerate(zip(runs, "os^D", strict=True)):
        axis.plot(*run[-1], marker, color=f"C{i}", markersize=9 - i, mfc="none", mew=1.5)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal", xlim=(-7, 7), ylim=(-7, 7))


def draw_distances(axis: plt.Axes, families: dict[str, list[np.ndarray]]) -> None:
    """How far the runs are from the first one, after each step: the farthest of them."""
    for (name, (first, *others)), style in zip(families.items(), ("C1-", "C0--"), strict=True):
        distance = np.max([abs(run - first).max(axis=(1, 2)) for run in others], axis=0)
        axis.semilogy(np.maximum(distance, 1e-18), style, label=name)
        print(f"  {name:<16} {distance[-1]:.1e}")
    ticks = range(-15, 1, 3)
    axis.set_yticks([1e-18, *(10.0**e for e in ticks)], ["0", *(f"$10^{{{e}}}$" for e in ticks)])
    axis.set(title="Four orders of one list of pairs", xlabel="step", ylim=(2e-19, 1e2))
    axis.set_ylabel("difference of positions")
    axis.legend(loc="center right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also sum on an NVIDIA GPU")
    options = parser.parse_args()
    print_table(options.gpu)
    print("trajectories", end=" \r", file=sys.stderr, flush=True)
    families = {
        name: [trajectory(group_sum, order) for order in range(ORDERS)]
        for name, group_sum in (("np.bincount", bincount), ("ozaki.group_sum", ozaki.group_sum))
    }
    print(f"\nparticles after {STEPS} steps: positions of {ORDERS} orders of the pairs differ by up to")
    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    layout = [list(families), ["distances", "distances"]]
    figure, axes = plt.subplot_mosaic(layout, figsize=(7, 8))
    for name, runs in families.items():
        draw_clusters(axes[name], runs, name)
    draw_distances(axes["distances"], families)
    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "11_sums_by_group.png"
    figure.savefig(target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
