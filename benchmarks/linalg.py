"""`python -m benchmarks.linalg [--gpu] [--json FILE]`: linear algebra with proofs, and with the same bits.

A row is a function of matrices of one order and condition number. The native routine (numpy.linalg, or
CuPy's cuSOLVER), ours and, on a CPU, python-flint's balls of 128 bits take turns in one process on the same
data; seconds are the least of some turns, the ratio is the median of the turns' ratios. All is compiled
before. The committed file is of one thread, `OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import date
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.dgemm import versions
from benchmarks.timing import publish
from multiword.runtime.parallel import thread_count
from ozaki import linalg
from ozaki.linalg import verified

TURNS = 5

BALLS = 500
"""The largest order that python-flint is timed for: it takes many seconds beyond."""

CPU_SIZES, GPU_SIZES = (100, 200, 500, 1000, 2000), (1024, 4096, 8192, 1 << 14)


class Row(NamedTuple):
    """What is timed.

    Attributes
    ----------
    name, order, digits : the function, and the matrix's order and decimal digits of condition number.
    definite : whether the matrix is symmetric and positive definite.
    smallest, largest : orders that it is timed for.
    """

    name: str
    digits: float
    native: Callable[[Any, Any, Any], Any]
    ours: Callable[[Any, Any], Any]
    definite: bool = False
    largest: int = 8192
    smallest: int = 0


def _solve(xp: Any, a: Any, b: Any) -> Any:
    return xp.linalg.solve(a, b)


def _scipy(xp: Any) -> Any:
    """SciPy's linear algebra, or that of CuPy."""
    return import_module("scipy.linalg" if xp is np else "cupyx.scipy.linalg")


ROWS = (
    *(Row("verified.solve", digits, _solve, verified.solve) for digits in (3, 10, 13, 14)),
    Row("verified.solve", 30, _solve, verified.solve, largest=1024),
    Row("verified.solve", 70, _solve, partial(verified.solve, max_words=6), False, 200, 200),
    Row("verified.inv", 3, lambda xp, a, b: xp.linalg.inv(a), lambda a, b: verified.inv(a), largest=1024),
    Row(
        *("verified.is_positive_definite", 3, lambda xp, a, b: xp.linalg.cholesky(a)),
        *(lambda a, b: verified.is_positive_definite(a), True),
    ),
    Row(
        *("verified.lstsq", 3, lambda xp, a, b: xp.linalg.lstsq(a, b, rcond=None), verified.lstsq),
        largest=1024,
    ),
    Row(
        *("verified.eigh", 3, lambda xp, a, b: xp.linalg.eigh(a), lambda a, b: verified.eigh(a), True),
        largest=1024,
    ),
    Row("solve", 3, _solve, linalg.solve),
    Row("cholesky", 3, lambda xp, a, b: xp.linalg.cholesky(a), lambda a, b: linalg.cholesky(a), True),
    Row("qr", 3, lambda xp, a, b: xp.linalg.qr(a), lambda a, b: linalg.qr(a)),
    Row(
        "lu_factor",
        3,
        lambda xp, a, b: _scipy(xp).lu_factor(a),
        lambda a, b: linalg.lu_factor(a),
        largest=1 << 14,
    ),
    Row("eigh", 3, lambda xp, a, b: xp.linalg.eigh(a), lambda a, b: linalg.eigh(a), True, largest=1024),
    Row("svd", 3, lambda xp, a, b: xp.linalg.svd(a), lambda a, b: linalg.svd(a), largest=1024),
)


@lru_cache(1)
def conditioned(xp: Any, n: int, digits: float) -> Any:
    """A matrix whose condition number has so many digits, to one or two if they are many."""
    rng = xp.random.default_rng(n)
    if digits > 15:
        return xp.asarray(_integers(n, digits))
    left, right = (xp.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (left * 10.0 ** -xp.linspace(0, digits, n)) @ right


def _integers(n: int, digits: float) -> np.ndarray:
    """Triangular integers between well-conditioned ones: rounding would cut small singular values off."""
    rng = np.random.default_rng(n)
    dense = [rng.choice([-1.0, 1.0], (n, n)) + 4 * np.rint(np.sqrt(n)) * np.eye(n) for _ in range(2)]
    triangles = []
    for _ in range(2):
        triangle, inverse = np.eye(n), np.eye(n)
        for i in range(1, n):
            triangle[i, :i] = rng.integers(-2, 3, i)
            inverse[i, :i] = -triangle[i, :i] @ inverse[:i, :i]
            if abs(inverse[i]).max() > 10.0 ** (digits / 2 - 1):
                break
        triangles.append(triangle)
    return dense[0] @ triangles[0] @ triangles[1].T @ dense[1]  # below 2**53, so exact


def prepared(row: Row, n: int, xp: Any) -> tuple[Any, Any]:
    """A and b of a row."""
    a = conditioned(xp, n, row.digits)
    if row.definite:
        a = a @ a.T + 1e-3 * xp.eye(n)
        a = (a + a.T) / 2
    return a, xp.random.default_rng(n + 1).standard_normal(n)


def balls(a: np.ndarray, b: np.ndarray) -> float:
    """Seconds of python-flint's certified solution in arithmetic of 128 bits."""
    import flint

    with flint.ctx.workprec(128):
        matrix, right = flint.arb_mat(a.tolist()), flint.arb_mat([[x] for x in b.tolist()])
        start = time.perf_counter()
        matrix.solve(right)
        return time.perf_counter() - start


def seconds(work: Callable[[], Any], xp: Any) -> float:
    """Wall-clock seconds of a call, the device's work included."""
    start = time.perf_counter()
    work()
    if xp is not np:
        xp.cuda.get_current_stream().synchronize()
    return time.perf_counter() - start


def measure(row: Row, n: int, xp: Any) -> dict[str, Any]:
    """Time a row in turns."""
    a, b = prepared(row, n, xp)
    native, ours = (lambda: row.native(xp, a, b)), (lambda: row.ours(a, b))
    result = ours()
    native()
    times = [(seconds(native, xp), seconds(ours, xp)) for _ in range(TURNS)]
    record: dict[str, Any] = {"row": row.name, "n": n, "digits": row.digits}
    record |= {"native": min(t[0] for t in times), "ours": min(t[1] for t in times)}
    record["ratio"] = median(t[1] / t[0] for t in times)
    if isinstance(result, verified.Solution | verified.Enclosures):
        record["rounded"] = float(result.rounded.mean())
    if isinstance(result, verified.Solution):
        record |= {"tier": result.stats.tier, "condition": result.stats.condition}
    if row.native is _solve and row.ours is verified.solve and xp is np and n <= BALLS and row.digits < 20:
        record["balls"] = balls(a, b)
    print(record, flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--only", nargs="*", default=[""], help="rows whose names begin so")
    parser.add_argument("--largest", type=int, default=10**9, help="order")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    xp: Any = np
    if arguments.gpu:
        import cupy as xp
    sizes = GPU_SIZES if arguments.gpu else CPU_SIZES
    results = [
        measure(row, n, xp)
        for n in sizes
        for row in ROWS
        if row.smallest <= n <= min(row.largest, arguments.largest)
        and row.name.startswith(tuple(arguments.only))
    ]
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.linalg" + " --gpu" * arguments.gpu,
        "environment": {**versions(xp), "threads": thread_count()},
        "unit": "least seconds of a call of five turns; ratio: ours over native, the median of the turns'",
        "results": results,
    }
    publish(record, arguments.json)


if __name__ == "__main__":
    main()
