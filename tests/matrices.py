"""Test matrices by name, and those of the papers' experiments.

The first are made from integers and powers of two alone, so that every machine makes the same.
"""

import numpy as np

import ozaki
from ozaki.product import request

FACES = {
    "float64": ozaki.accurate_dgemm,
    "complex128": ozaki.accurate_zgemm,
    "float32": ozaki.accurate_sgemm,
    "complex64": ozaki.accurate_cgemm,
}
"""The product of matrices of a dtype, and of no other."""

TARGETS = {dtype.name: target.name for dtype, target in request.TARGETS.items()}
"""The format that results of a dtype are rounded to."""


def uniform(rng, shape):
    """Uniform on (-1/2, 1/2), 53 bits."""
    return np.ldexp(rng.integers(-(2**52), 2**52, shape).astype(np.float64), -53)


def wide(rng, shape, octaves):
    """Uniform significands times 2**e, with e binomial around 0 and of standard deviation `octaves`."""
    trials = 4 * octaves * octaves
    exponent = np.zeros(shape, np.int64)
    for _ in range(8):
        exponent += rng.integers(-octaves, octaves + 1, shape)
    exponent = (
        (exponent * octaves * 10) // max(1, int(10 * (8 * octaves * (octaves + 1) / 3) ** 0.5))
        if trials
        else exponent
    )
    return np.ldexp(uniform(rng, shape), exponent)


def cancelling(rng, m, k, n):
    """Products whose terms cancel to far below their size: [X, -X']·[Y; Y] with X' close to X."""
    x, y = uniform(rng, (m, k // 2)), uniform(rng, (k // 2, n))
    near = x + np.ldexp(uniform(rng, x.shape), -30)
    return np.concatenate([x, -near], axis=1), np.concatenate([y, y])


def long_rows():
    """More terms than an int8 product has room for; those of one element have the largest residues."""
    rng = np.random.default_rng(5)
    k = (1 << 17) + 1000
    a, b = rng.standard_normal((2, k)), rng.standard_normal((k, 3))
    a[0] = b[:, 0] = 1 - 2.0**-53
    return a, b


def matrices(name: str, m: int, k: int, n: int, seed: int = 1):
    """Return (A, B) of the named kind."""
    rng = np.random.Generator(np.random.PCG64(seed))
    if name == "uniform":
        return uniform(rng, (m, k)), uniform(rng, (k, n))
    if name == "positive":
        return np.abs(uniform(rng, (m, k))), np.abs(uniform(rng, (k, n)))
    if name.startswith("wide"):
        return wide(rng, (m, k), int(name[4:])), wide(rng, (k, n), int(name[4:]))
    if name == "cancelling":
        return cancelling(rng, m, k, n)
    if name == "graded":
        grade = -(np.arange(k) * 60) // max(1, k)
        return np.ldexp(uniform(rng, (m, k)), grade), np.ldexp(uniform(rng, (k, n)), -grade[:, None])
    if name == "rows":
        scale = rng.integers(-300, 300, (m, 1)), rng.integers(-300, 300, (1, n))
        return np.ldexp(uniform(rng, (m, k)), scale[0]), np.ldexp(uniform(rng, (k, n)), scale[1])
    if name == "subnormal":
        return np.ldexp(uniform(rng, (m, k)), -1040), np.ldexp(uniform(rng, (k, n)), 3)
    if name == "underflow":
        return np.ldexp(uniform(rng, (m, k)), -520), np.ldexp(uniform(rng, (k, n)), -525)
    if name == "huge":
        return np.ldexp(uniform(rng, (m, k)), 1020), np.ldexp(uniform(rng, (k, n)), 4)
    if name == "sparse":
        a, b = uniform(rng, (m, k)), uniform(rng, (k, n))
        return a * (rng.integers(0, 10, a.shape) == 0), b * (rng.integers(0, 10, b.shape) == 0)
    if name == "integers":
        return rng.integers(-1000, 1000, (m, k)).astype(float), rng.integers(-1000, 1000, (k, n)).astype(
            float
        )
    raise ValueError(name)


def in_dtype(a, b, dtype: str):
    """Both in a dtype; of complex matrices they are the real parts, and give the imaginary ones, too."""
    if dtype.startswith("c"):
        a, b = a + 1j * a[::-1], b - 1j * b[:, ::-1]
    with np.errstate(over="ignore"):
        return a.astype(dtype), b.astype(dtype)


KINDS = (
    "uniform",
    "positive",
    "wide2",
    "wide6",
    "wide20",
    "cancelling",
    "graded",
    "rows",
    "subnormal",
    "underflow",
    "huge",
    "sparse",
    "integers",
)

GOLDEN = {
    f"{kind} {m}x{k}x{n} {accuracy}": (kind, (m, k, n), accuracy)
    for kind in KINDS
    for (m, k, n), accuracy in (
        ((7, 68, 61), "fp64"),
        ((7, 68, 61), "exact"),
        ((33, 100, 20), 40),
        ((33, 100, 20), "normwise"),
        ((64, 300, 48), "fp64"),
    )
}
"""Cases whose results' fingerprints are kept in golden.json."""


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
