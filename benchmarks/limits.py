"""`python -m benchmarks.limits [--json FILE]`: algorithms that exact products do not mend.

Each is run with NumPy's products and with correctly rounded ones, and beside them the algorithm to take
instead. What is measured are errors, not times: relative ones of a solution in the largest norm, and the
largest element of QᵀQ − I where vectors should be orthogonal.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import publish
from ozaki.linalg import verified

Product = Callable[[Any, Any], Any]
exact: Product = partial(ozaki.matmul, accuracy="exact")


def hilbert(n: int) -> np.ndarray:
    return 1 / (np.arange(n)[:, None] + np.arange(n) + 1)


def error(x: np.ndarray, right: np.ndarray) -> float:
    return float(abs(x - right).max() / abs(right).max())


def loss(q: np.ndarray) -> float:
    """How far the columns of q are from being orthonormal."""
    return float(abs(exact(q.T, q) - np.eye(q.shape[1])).max())


def normal_equations(product: Product) -> float:
    """A polynomial of degree 13 fitted to 30 points, by AᵀA·x = Aᵀy."""
    a, y = vandermonde()
    return error(np.linalg.solve(product(a.T, a), product(a.T, y)), verified.lstsq(a, y).value)


def vandermonde() -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(0, 1, 30)
    return np.vander(t, 14), np.exp(t)


def least_squares() -> float:
    a, y = vandermonde()
    return error(np.linalg.lstsq(a, y)[0], verified.lstsq(a, y).value)


def gram_schmidt(product: Product) -> float:
    """Classical Gram–Schmidt of a Hilbert matrix of order 12."""
    q: list[np.ndarray] = []
    for column in hilbert(12).T:
        w = column - sum(product(u, column) * u for u in q)
        q.append(w / np.sqrt(product(w, w)))
    return loss(np.array(q).T)


def lanczos(product: Product, reorthogonalize: bool = False) -> float:
    """Sixty steps of Lanczos with a diagonal matrix of order 200, whose largest eigenvalues are apart."""
    d = 100 * np.linspace(0, 1, 200) ** 4
    q, b = [np.ones(200) / np.sqrt(200)], 0.0
    for j in range(60):
        w = d * q[-1] - (b * q[-2] if j else 0.0)
        w = w - product(q[-1], w) * q[-1]
        for u in [*q, *q] if reorthogonalize else ():
            w = w - product(u, w) * u
        b = np.sqrt(product(w, w))
        q.append(w / b)
    return loss(np.array(q).T)


def refinement(residual: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> float:
    """Three steps of refinement with a Hilbert matrix of order 10."""
    a, b = hilbert(10), np.ones(10)
    x = np.linalg.solve(a, b)
    for _ in range(3):
        x = x + np.linalg.solve(a, residual(a, x, b))
    return error(x, verified.solve(a, b).value)


def rows() -> Iterator[dict[str, Any]]:
    for name, algorithm, instead in (
        ("normal equations", normal_equations, least_squares),
        ("Gram–Schmidt", gram_schmidt, lambda: loss(np.linalg.qr(hilbert(12))[0])),
        ("Lanczos", lanczos, partial(lanczos, np.matmul, reorthogonalize=True)),
    ):
        yield {"row": name, "numpy": algorithm(np.matmul), "exact": algorithm(exact), "instead": instead()}
    yield {
        "row": "refinement",
        "numpy": refinement(lambda a, x, b: b - a @ x),
        "exact": refinement(lambda a, x, b: b - exact(a, x)),
        "instead": refinement(lambda a, x, b: ozaki.residual(a, x, b)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.limits",
        **versions(np),
        "results": list(rows()),
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
