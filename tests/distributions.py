"""The matrices of the papers' experiments, from their definitions."""

import numpy as np


def normal(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def unit(rng, shape):
    """Uniform on (0, 1]."""
    return (1 - rng.random(shape)).astype(np.float32)


def symmetric(rng, shape):
    """Uniform on (-1/2, 1/2]."""
    return (0.5 - rng.random(shape)).astype(np.float32)


def exp_rand(low, high):
    """Ootomo and Yokota, eq. (25): exponents uniform in [low, high], significands in [1, 2)."""

    def draw(rng, shape):
        exponent, sign = rng.integers(low, high + 1, shape), rng.integers(0, 2, shape) * 2 - 1
        return (sign * np.ldexp(1 + rng.random(shape), exponent)).astype(np.float32)

    return draw


def _points(rng, count):
    """A jittered grid in the unit square, as STARS-H's spatial problems have."""
    side = int(np.ceil(np.sqrt(count)))
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)[:count]
    return (grid + 0.4 * rng.random((count, 2))) / side


def spatial(rng, shape, beta=0.1):
    """Exponential kernel exp(-distance/beta) between points."""
    x, y = _points(rng, shape[0]), _points(rng, shape[1])
    return np.exp(-np.linalg.norm(x[:, None] - y[None], axis=-1) / beta).astype(np.float32)


def cauchy(rng, shape):
    """1/(x_i - y_j) with interlaced points."""
    x, y = np.sort(rng.random(shape[0])), np.sort(rng.random(shape[1])) + 1e-5
    return (1 / (x[:, None] - y[None])).astype(np.float32)


def randtlr(rng, shape, rank=16, decay=0.5):
    """Synthetic tile low rank: one dense low-rank matrix with singular values decay^i."""
    u = np.linalg.qr(rng.standard_normal((shape[0], rank)))[0]
    v = np.linalg.qr(rng.standard_normal((shape[1], rank)))[0]
    return ((u * decay ** np.arange(rank)) @ v.T).astype(np.float32)


def lognormal(spread):
    """(rand - 1/2)·exp(spread·randn): the exponents of one line range widely."""

    def draw(rng, shape):
        return ((rng.random(shape) - 0.5) * np.exp(spread * rng.standard_normal(shape))).astype(np.float32)

    return draw


def disjoint(rng, shape, start=0, small=2.0**-8):
    """An eighth of each row, from `start` on, in (1, 2], the rest smaller.

    Means stand out, but of two such matrices with their own eighths hardly anything but the rank-two
    part of the means is left to cancel.
    """
    x = (1 + unit(rng, shape)) * np.float32(small)
    x[:, start : start + int(0.12 * shape[1])] /= np.float32(small)
    return x


PAIRS = {
    "normal": (normal, normal),
    "unit": (unit, unit),
    "symmetric": (symmetric, symmetric),
    "positive by normal": (unit, normal),
    "exp_rand type 1": (exp_rand(-15, 14), exp_rand(-15, 14)),
    "exp_rand type 2": (exp_rand(-15, 14), exp_rand(-100, -35)),
    "exp_rand type 3": (exp_rand(-35, -15), exp_rand(-35, -15)),
    "exp_rand type 4": (exp_rand(-100, -35), exp_rand(-35, -15)),
    "randtlr": (randtlr, symmetric),
    "spatial": (spatial, symmetric),
    "cauchy": (cauchy, symmetric),
    "spatial by exp_rand": (spatial, exp_rand(-15, 0)),
    "lognormal 1": (lognormal(1), lognormal(1)),
    "lognormal 4": (lognormal(4), lognormal(4)),
}
"""Pairs of distributions for A and B, by name."""


def errors(c, a, b):
    """The largest and the root mean square componentwise error |C - Ĉ|_ij / (|A||B|)_ij.

    The reference is an fp64 product: its own error is below k·2^-53.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(a) @ np.abs(b)
    e = np.abs(c - a @ b) / np.where(scale == 0, 1, scale)
    return float(e.max()), float(np.sqrt((e * e).mean()))
