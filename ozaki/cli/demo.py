"""`python -m ozaki`: products that np.matmul gets wrong, and the bits that every machine must get.

The matrices hold integers, made with integer arithmetic alone, so that they are the same on
every machine and their exact products are known from Python's integers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import comb, lcm

import numpy as np
from rich.console import Console
from rich.table import Table

from ozaki.api import accurate_dgemm
from ozaki.fingerprints import fingerprint

FINGERPRINTS = {"fp64": "24c98a7d276feacb", "exact": "5e51e1a27e4e0ad7"}
"""What every machine must print for the demo's products, by accuracy."""

_TIMED = 512


def integers(seed: int, shape: tuple[int, int], bits: int) -> np.ndarray:
    """Return pseudorandom integers in [-2**bits, 2**bits) as float64 (SplitMix64).

    >>> integers(1, (1, 3), 4)
    array([[  8., -10.,   5.]])
    """
    counter = np.arange(1, 1 + shape[0] * shape[1], dtype=np.uint64)
    z = counter * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed << 32)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(63 - bits)).astype(np.int64) - 2**bits).astype(np.float64).reshape(shape)


def hilbert(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """The Hilbert matrix times L = lcm(1, …, 2n - 1), and its inverse: the product is L·I.

    >>> hilbert(2)[0].tolist(), hilbert(2)[1].tolist()
    ([[6.0, 3.0], [3.0, 2.0]], [[4.0, -6.0], [-6.0, 12.0]])
    """
    multiple = lcm(*range(1, 2 * n))
    a = [[multiple // (i + j + 1) for j in range(n)] for i in range(n)]
    b = [
        [
            (-1) ** (i + j)
            * (i + j + 1)
            * comb(n + i, n - j - 1)
            * comb(n + j, n - i - 1)
            * comb(i + j, i) ** 2
            for j in range(n)
        ]
        for i in range(n)
    ]
    return np.array(a, np.float64), np.array(b, np.float64)


def pascal(n: int = 56) -> tuple[np.ndarray, np.ndarray]:
    """Pascal's triangle and its inverse, which is the same with alternating signs: the product is I.

    >>> pascal(3)[1].tolist()
    [[1.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [1.0, -2.0, 1.0]]
    """
    a = np.array([[comb(i, j) for j in range(n)] for i in range(n)], np.float64)
    i = np.arange(n)
    return a, np.where((i[:, None] + i) % 2 == 0, a, -a) + 0.0


def cancelling(m: int = 60, k: int = 400, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """[X, -X']·[Y; Y] with X' = X + R, R small: the product is -R·Y, far smaller than its terms."""
    x, r = integers(1, (m, k // 2), 51), integers(2, (m, k // 2), 4)
    y = integers(3, (k // 2, n), 52)
    return np.concatenate([x, -(x + r)], axis=1), np.concatenate([y, y])


def hidden(m: int = 60, k: int = 300, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """2**60·X·Y + R·Z - 2**60·X·Y: the product is R·Z, which sums in double precision lose."""
    x, r = integers(7, (m, k // 3), 52), integers(8, (m, k // 3), 52)
    y, z = integers(9, (k // 3, n), 52), integers(10, (k // 3, n), 52)
    return np.concatenate([2.0**60 * x, r, -(2.0**60) * x], axis=1), np.concatenate([y, z, y])


CASES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "Hilbert matrix times its inverse, n = 12": hilbert,
    "Pascal's triangle times its inverse, n = 56": pascal,
    "terms that nearly cancel, k = 400": cancelling,
    "terms that cancel, 60 octaves above the rest": hidden,
}


def error(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return max |C - AB| / max |AB|; A, B hold integers, AB and the difference are exact."""
    exact = _as_integers(a) @ _as_integers(b)
    numerators, denominators = zip(*(float(x).as_integer_ratio() for x in c.ravel()), strict=True)
    scale = max(denominators)  # powers of two, all of them
    found = np.array([p * (scale // q) for p, q in zip(numerators, denominators, strict=True)], object)
    return float(np.abs(found.reshape(c.shape) - scale * exact).max() / (scale * np.abs(exact).max()))


def _as_integers(x: np.ndarray) -> np.ndarray:
    return np.array([int(v) for v in x.ravel()], object).reshape(x.shape)


def results(accuracy: str) -> list[np.ndarray]:
    """The demo's products at one accuracy."""
    return [accurate_dgemm(*matrices(), accuracy=accuracy) for matrices in CASES.values()]


def combined_fingerprint(products: Sequence[np.ndarray]) -> str:
    """One fingerprint for several results."""
    return fingerprint(np.concatenate([x.ravel() for x in products]))


def demo(console: Console) -> bool:
    """Show the errors side by side and the fingerprints; return whether the bits are the right ones."""
    products = {"np.matmul": [a @ b for a, b in (matrices() for matrices in CASES.values())]}
    products |= {accuracy: results(accuracy) for accuracy in FINGERPRINTS}
    table = Table(title="Errors, relative to the largest element of the exact product")
    table.add_column("product")
    for name in products:
        table.add_column(name, justify="right")
    for i, (title, matrices) in enumerate(CASES.items()):
        table.add_row(title, *(f"{error(x[i], *matrices()):.1e}" for x in products.values()))
    table.add_section()
    table.add_row(f"milliseconds, n = {_TIMED}", *(f"{1e3 * _seconds(name):.0f}" for name in products))
    console.print(table)
    console.print(
        "fp64: error certified relative to |A||B|, below a DGEMM's bound; "
        "exact: every element correctly rounded.",
        soft_wrap=True,
    )
    right = True
    for accuracy, expected in FINGERPRINTS.items():
        found = combined_fingerprint(products[accuracy])
        right &= found == expected
        comment = "as on every machine" if found == expected else f"NOT the expected {expected}"
        console.print(f"fingerprint of {accuracy:<6} {found}  ({comment})", highlight=False)
    return right


def _seconds(name: str) -> float:
    """The best of three."""
    a, b = integers(5, (_TIMED, _TIMED), 52), integers(6, (_TIMED, _TIMED), 52)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        if name == "np.matmul":
            np.matmul(a, b)
        else:
            accurate_dgemm(a, b, accuracy=name)
        best = min(best, time.perf_counter() - start)
    return best
