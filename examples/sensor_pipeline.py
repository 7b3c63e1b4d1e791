"""A sensor pipeline: rolling means and deviations, outliers, hourly means by station, in any order of rows.

    python examples/sensor_pipeline.py

Readings of a few stations come with gaps, and with one broken value of 1e17, which differences of running
sums never get rid of. Windows are `ozaki.rolling_mean` and `rolling_std`, hours `ozaki.group_nanmean` and
`group_average`: each result is the exact one rounded once, whatever has gone by, and in whatever order the
rows of the table come. Beside them stand running sums and `np.bincount`. It takes a second.
"""

from __future__ import annotations

import numpy as np

import ozaki

STATIONS, MINUTES, WINDOW = 4, 24 * 60, 30
HOURS = MINUTES // 60


def readings(rng: np.random.Generator) -> np.ndarray:
    """Temperatures of a day, (stations, minutes), some missing, one broken."""
    time = np.arange(MINUTES) * (2 * np.pi / MINUTES)
    x = 12 + 5 * np.sin(time) + rng.standard_normal((STATIONS, 1))
    x += 0.2 * rng.standard_normal(x.shape)
    x[rng.random(x.shape) < 0.02] = np.nan
    x[1, 100] = 1e17
    return x


def by_differences(x: np.ndarray) -> np.ndarray:
    """Rolling means as differences of running sums: what the broken value leaves behind."""
    sums = np.cumsum(np.nan_to_num(x))
    return np.concatenate([np.full(WINDOW, np.nan), sums[WINDOW:] - sums[:-WINDOW]]) / WINDOW


def cleaned(x: np.ndarray) -> np.ndarray:
    """Readings, NaN where they are more than four deviations of the hour before from its mean."""
    before = np.concatenate([np.full((len(x), 1), np.nan), x[:, :-1]], axis=1)
    mean = ozaki.rolling_mean(before, WINDOW, min_count=10)
    spread = ozaki.rolling_std(before, WINDOW, min_count=10, ddof=1)
    return np.where(np.abs(x - mean) > 4 * spread, np.nan, x)


def hourly(station: np.ndarray, minute: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Means by station and hour of a table of rows, NaN left out: (stations, hours)."""
    labels = station * HOURS + minute // 60
    return ozaki.group_nanmean(value, labels, STATIONS * HOURS, min_count=20).reshape(STATIONS, HOURS)


def by_bincount(labels: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The same means with NumPy alone, which adds the rows as they come."""
    there = np.isfinite(value)
    return np.bincount(labels[there], value[there]) / np.bincount(labels[there])


def main() -> None:
    """Print what windows and groups give, and that the order of rows changes no bit, but NumPy's."""
    rng = np.random.default_rng(5)
    x = readings(rng)
    exact, differences = ozaki.rolling_mean(x[1], WINDOW, min_count=1), by_differences(x[1])
    print(f"an hour after the broken value: {exact[160]:.3f}, by running sums {differences[160]:.3f}")
    clean = cleaned(x)
    found = np.isnan(clean).sum() - np.isnan(x).sum()
    print(f"outliers: {found}, the broken value among them: {np.isnan(clean[1, 100])}")
    station, minute = np.repeat(np.arange(STATIONS), MINUTES), np.tile(np.arange(MINUTES), STATIONS)
    order = rng.permutation(clean.size)
    means = hourly(station, minute, clean.ravel())
    again = hourly(station[order], minute[order], clean.ravel()[order])
    print(f"rows in another order, the same bits: {means.tobytes() == again.tobytes()}")
    labels = station * HOURS + minute // 60
    native = [by_bincount(labels[rows], clean.ravel()[rows]) for rows in (slice(None), order)]
    print(f"by np.bincount, means with other bits: {np.sum(native[0] != native[1])} of {STATIONS * HOURS}")
    weights = np.where(np.isnan(means), 0.0, 1.0) * np.array([[1.0], [2.0], [2.0], [1.0]])
    region = ozaki.group_average(np.nan_to_num(means), np.arange(HOURS) // 6, 4, weights)
    print(
        "quarter of the day   " + "  ".join(f"{name:>8}" for name in ("first", "second", "third", "fourth"))
    )
    for i, row in enumerate(region):
        print(f"station {i}            " + "  ".join(f"{value:8.3f}" for value in row))


if __name__ == "__main__":
    main()
