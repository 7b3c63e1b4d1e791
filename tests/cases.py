"""Test matrices, made from integers and powers of two alone, so that every machine makes the same."""

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
