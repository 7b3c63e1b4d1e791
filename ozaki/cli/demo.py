"""`python -m ozaki`: results that depend on the order of additions, and the same ones that do not.

The data are made from integers with integer arithmetic alone, so that they are the same on every
machine, and exact products are known from Python's integers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from math import comb, lcm

import numpy as np
from rich.console import Console
from rich.table import Table

from ozaki.api import accurate_dgemm, matmul
from ozaki.fingerprints import fingerprint
from ozaki.sums.api import sum as exact_sum
from ozaki.sums.exactsum import ExactSum

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


def shown(x: float | np.ndarray) -> str:
    """A number with all its digits, an array by its fingerprint."""
    return fingerprint(x) if isinstance(x, np.ndarray) else repr(float(x))


def sums(x: np.ndarray) -> dict[str, tuple[float, float]]:
    """One sum in several ways, by np.sum and by ozaki.sum."""
    parts = np.array_split(x, 7)
    return {
        "as they come": (np.sum(x), exact_sum(x)),
        "in reverse order": (np.sum(x[::-1]), exact_sum(x[::-1])),
        "the smallest first": (np.sum(np.sort(x)), exact_sum(np.sort(x))),
        "in 7 chunks": (sum(np.sum(p) for p in parts), _chunked(parts)),
        "by 4 threads": _threaded(np.array_split(x, 64)),
    }


def _chunked(parts: Sequence[np.ndarray]) -> float:
    total = ExactSum()
    for part in parts:
        total.add(part)
    return float(total.round())


def _threaded(parts: Sequence[np.ndarray]) -> tuple[float, float]:
    """Sums of parts, added in the order in which threads finish them."""
    native, exact = 0.0, ExactSum()
    with ThreadPoolExecutor(4) as pool:
        for done in as_completed([pool.submit(lambda p: (np.sum(p), ExactSum().add(p)), p) for p in parts]):
            native += done.result()[0]
            exact.merge(done.result()[1])
    return native, float(exact.round())


def products(a: np.ndarray, b: np.ndarray) -> dict[str, tuple[np.ndarray | None, np.ndarray]]:
    """One product in several ways, by np.matmul and by ozaki.matmul."""
    order = np.argsort(integers(11, (1, a.shape[1]), 52)[0])
    left, right = a[:, order], b[order]
    few_rows = np.concatenate([a[i : i + 3] @ b for i in range(0, len(a), 3)])
    return {
        "as it is": (a @ b, matmul(a, b)),
        "terms in reverse order": (a[:, ::-1] @ b[::-1], matmul(a[:, ::-1], b[::-1])),
        "terms in random order": (left @ right, matmul(left, right)),
        "transposed": ((b.T.copy() @ a.T.copy()).T, matmul(b.T, a.T).T),
        "a few rows at a time": (few_rows, matmul(a, b, workspace=1 << 18)),
        "on a tensor core (a model)": (None, matmul(a, b, engine="tensorcore")),
    }


def show_ways(console: Console, title: str, names: tuple[str, str], ways: Mapping[str, tuple]) -> bool:
    """A table of one result in several ways; return whether ours are all equal."""
    table = Table(title=title, title_justify="left", min_width=min(72, console.width))
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    columns = [
        ["-" if x is None else shown(x) for x in column] for column in zip(*ways.values(), strict=True)
    ]
    for way, native, ours in zip(ways, *columns, strict=True):
        marked = native if native in ("-", columns[0][0]) else f"[bold red]{native}[/]"
        table.add_row(way, marked, ours if ours == columns[1][0] else f"[bold red]{ours}[/]")
    different = [len(set(column) - {"-"}) for column in columns]
    table.add_section()
    table.add_row("different results", *map(str, different))
    console.print(table)
    return different[1] == 1


def show_wrong_result(console: Console) -> None:
    """A product that np.matmul gets wrong, and what the right one costs."""
    a, b = pascal()
    native, ours = error(a @ b, a, b), error(matmul(a, b), a, b)
    console.print(
        f"Pascal's triangle of {len(a)} rows times its inverse is the identity. Largest error of an element:",
        f"  np.matmul {native:.0e}, ozaki.matmul {ours:.0f}.",
        f"What that costs on this CPU, for matrices of {_TIMED} rows and columns:",
        f"  np.matmul {1e3 * _seconds('np.matmul'):.0f} ms, ozaki.matmul {1e3 * _seconds('fp64'):.0f} ms,"
        f" correctly rounded {1e3 * _seconds('exact'):.0f} ms.",
        sep="\n",
        highlight=False,
        soft_wrap=True,
    )


def demo(console: Console) -> bool:
    """Show what depends on the order and what does not, one wrong result, and the fingerprints.

    Returns whether the bits are those that every machine must get.
    """
    x = integers(12, (1, 10**6), 52)[0] * 2.0**-52
    a, b = (x[i : i + 60_000].reshape(shape) for i, shape in ((0, (200, 300)), (60_000, (300, 200))))
    right = show_ways(console, "One sum of a million numbers", ("np.sum", "ozaki.sum"), sums(x))
    title = "One product, 200 x 300 times 300 x 200 (fingerprints)"
    right &= show_ways(console, title, ("np.matmul", "ozaki.matmul"), products(a, b))
    show_wrong_result(console)
    for accuracy, expected in FINGERPRINTS.items():
        found = combined_fingerprint(results(accuracy))
        right &= found == expected
        comment = "as on every machine" if found == expected else f"NOT the expected {expected}"
        console.print(
            f"fingerprint of four products, {accuracy:<6} {found}  ({comment})",
            highlight=False,
            soft_wrap=True,
        )
    return right


def _seconds(name: str) -> float:
    """The best of three, after one that may compile."""
    a, b = integers(5, (_TIMED, _TIMED), 52), integers(6, (_TIMED, _TIMED), 52)
    product = np.matmul if name == "np.matmul" else partial(matmul, accuracy=name)
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        product(a, b)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
