"""`python -m ozaki`: results that depend on the order of additions, and the same ones that do not.

The data are made from integers with integer arithmetic alone, so that they are the same on every
machine, and exact products are known from Python's integers.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from fractions import Fraction
from math import comb, lcm
from typing import Any

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
    """Return the Hilbert matrix times L = lcm(1, …, 2n - 1), and its inverse: the product is L·I.

    >>> hilbert(2)[0].tolist(), hilbert(2)[1].tolist()
    ([[6.0, 3.0], [3.0, 2.0]], [[4.0, -6.0], [-6.0, 12.0]])
    """

    def inverse(i: int, j: int) -> int:
        chosen = comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(i + j, i) ** 2
        return (-1) ** (i + j) * (i + j + 1) * chosen

    multiple = lcm(*range(1, 2 * n))
    a = [[multiple // (i + j + 1) for j in range(n)] for i in range(n)]
    b = [[inverse(i, j) for j in range(n)] for i in range(n)]
    return np.array(a, np.float64), np.array(b, np.float64)


def pascal(n: int = 56) -> tuple[np.ndarray, np.ndarray]:
    """Return Pascal's triangle and its inverse, which is the same with alternating signs: the product is I.

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
    exact = _of_objects(int, a) @ _of_objects(int, b)
    return float(np.abs(_of_objects(Fraction, c) - exact).max() / np.abs(exact).max())


def _of_objects(kind: Callable[[float], Any], x: np.ndarray) -> np.ndarray:
    return np.array([kind(v) for v in x.ravel().tolist()], object).reshape(x.shape)


def results(accuracy: str) -> list[np.ndarray]:
    """Return the demo's products at one accuracy."""
    return [accurate_dgemm(*matrices(), accuracy=accuracy) for matrices in CASES.values()]


def combined_fingerprint(products: Sequence[np.ndarray]) -> str:
    """Return one fingerprint for several results."""
    return fingerprint(np.concatenate([x.ravel() for x in products]))


def shown(x: float | np.ndarray) -> str:
    """Return a number with all its digits, an array by its fingerprint."""
    return fingerprint(x) if isinstance(x, np.ndarray) else repr(float(x))


def sums(x: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return one sum in several ways, by np.sum and by ozaki.sum."""
    ways = {"as they come": x, "in reverse order": x[::-1], "the smallest first": np.sort(x)}
    with ThreadPoolExecutor(4) as pool:
        by_threads = as_completed([pool.submit(_part, part) for part in np.array_split(x, 64)])
        return {
            **{way: (np.sum(y), exact_sum(y)) for way, y in ways.items()},
            "in 7 chunks": _added(map(_part, np.array_split(x, 7))),
            "by 4 threads": _added(done.result() for done in by_threads),  # as they finish
        }


def _part(x: np.ndarray) -> tuple[float, ExactSum]:
    return np.sum(x), ExactSum().add(x)


def _added(parts: Iterable[tuple[float, ExactSum]]) -> tuple[float, float]:
    native, exact = 0.0, ExactSum()
    for one, other in parts:
        native += one
        exact.merge(other)
    return native, float(exact.round())


def products(a: np.ndarray, b: np.ndarray) -> dict[str, tuple[np.ndarray | None, np.ndarray]]:
    """Return one product in several ways, by np.matmul and by ozaki.matmul."""
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
    """Print a table of one result in several ways; return whether ours are all equal."""
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
    """Show a product that np.matmul gets wrong, and what the right one costs."""
    a, b = pascal()
    native, ours = error(a @ b, a, b), error(matmul(a, b), a, b)
    x, y = integers(5, (_TIMED, _TIMED), 52), integers(6, (_TIMED, _TIMED), 52)

    def milliseconds(product: Callable[..., Any], **options: str) -> str:
        """The best of three, after one that may compile."""
        return f"{1e3 * min(timeit.repeat(lambda: product(x, y, **options), number=1, repeat=4)[1:]):.0f} ms"

    console.print(
        f"Pascal's triangle of {len(a)} rows times its inverse is the identity. Largest error of an element:",
        f"  np.matmul {native:.0e}, ozaki.matmul {ours:.0f}.",
        f"What that costs on this CPU, for matrices of {_TIMED} rows and columns:",
        f"  np.matmul {milliseconds(np.matmul)}, ozaki.matmul {milliseconds(matmul)},"
        f" correctly rounded {milliseconds(matmul, accuracy='exact')}.",
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
        text = f"fingerprint of four products, {accuracy:<6} {found}  ({comment})"
        console.print(text, highlight=False, soft_wrap=True)
    return right
