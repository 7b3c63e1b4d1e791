"""Stacks of small matrices: memory for the texts, and threads, or blocks of a GPU, over the stack."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import cached_form, compiled
from multiword.runtime.parallel import over_rows, scratch
from multiword.tuning import REUSED_BYTES
from ozaki.linalg.small import loops_cuda
from ozaki.linalg.small.leaves import LANES

FORM = "ozaki.linalg.small.loops_numba"

SMALL, LONG = 64, 128
"""The shorter side of a small matrix, at most, and the longer one, of `products.LONGEST` real numbers."""

SMALL_ALONE = 24
"""The shorter side of a matrix whose QR factorization one block of a GPU computes, at most: for larger ones
blocks share the panels (H200, order 32: 1.8 ms, and 1.2; order 4: 0.18 and 1.1)."""

SQUARES = {
    "lu": 1,
    "triangular": 1,
    "system": 2,
    "cholesky": 1,
    "qr": 7,
    "projected": 7,
    "eigh": 7,
    "svd": 12,
}
"""Scratch memory of texts, in square matrices of the longest side."""

WITH_PRODUCTS = ("qr", "projected", "eigh", "svd")

ALONE, BLOCK = 1 << 16, 1 << 15
"""Multiplications (n³) that one thread does, and those of a block."""


def takes(*stacks: Array, most: int = SMALL) -> bool:
    """Return whether there is compiled code for such matrices, one of each or a stack, up to an order."""
    for x in stacks:
        m, n = x.shape[-2:]
        if not (0 < min(m, n) <= most and max(m, n) <= LONG):
            return False
    return is_cupy(stacks[0]) or on_cpus()


def on_cpus() -> bool:
    """Return whether there is compiled code for matrices on the host."""
    return compiled(FORM) is not None


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Return the factors of (s, m, n) matrices, (s, min(m, n)) pivots, and (s, m) rows of A that PA has."""
    factors, pivots, rows = _like(a, *a.shape), _integers(a, min(a.shape[1:])), _integers(a, a.shape[1])
    _run("lu", [a, factors, pivots, rows])
    return factors, pivots, rows


def triangular(a: Array, b: Array, lower: bool, unit: bool) -> Array:
    """Return the solutions of (s, n, n) triangular systems."""
    x = _like(b, *b.shape)
    _run("triangular", [a, b, x], lower, unit)
    return x


def system(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the solutions of (s, n, n) systems, and an integer for each, not 0 where one has a pivot 0."""
    x, singular = _like(b, *b.shape), _integers(a, 1)
    _run("system", [a, b, x, singular])
    return x, singular


def cholesky(a: Array) -> tuple[Array, Array]:
    """Return U with UᴴU = A for the upper triangles of A, and an integer for each, not 0 where one failed."""
    upper, failed = _like(a, *a.shape), _integers(a, 1)
    _run("cholesky", [a, upper, failed])
    return upper, failed


def qr(a: Array, rows: int, vectors: bool) -> tuple[Array, Array]:
    """Return Q, of no columns if it is not asked for, and so many rows of R."""
    s, m, n = a.shape
    q, r = _like(a, s, m, rows if vectors else 0), _like(a, s, rows, n)
    _run("qr", [a, q, r])
    return q, r


def projected(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return R, QᴴB, and exponents of the columns of A and of B: as `factor_qr.projected`."""
    s, _, n = a.shape
    r, c, exponents = _like(a, s, n, n), _like(b, *b.shape), _integers(a, n + b.shape[2])
    _run("projected", [a, b, r, c, exponents])
    return r, c, exponents.astype(np.int32)


def eigh(a: Array, vectors: bool) -> tuple[Array, Array]:
    """Return eigenvalues, ascending, and eigenvectors of Hermitian matrices, of the lower triangles."""
    s, n, _ = a.shape
    values, x = _like(a.real, s, n), _like(a, s, n, n if vectors else 0)
    _run("eigh", [a, values, x])
    return values, x


def svd(a: Array, columns: int, vectors: bool) -> tuple[Array, Array, Array]:
    """Return U with so many columns, singular values and Vᴴ of matrices that are not wide."""
    s, m, n = a.shape
    u, values, vh = (
        _like(a, s, m, columns if vectors else 0),
        _like(a.real, s, n),
        _like(a, s, n, n if vectors else 0),
    )
    _run("svd", [a, u, values, vh])
    return u, values, vh


def _like(a: Array, *shape: int) -> Array:
    return namespace(a).empty(shape, a.dtype)


def _integers(a: Array, count: int) -> Array:
    return namespace(a).empty((len(a), count), np.int64)


@lru_cache(1024)
def sizes(name: str, n: int, parts: int) -> tuple[int, int, int]:
    """Return how many numbers, float64 and int64 a text works with for matrices of longest side n."""
    operands, lines = (4 * parts * (1 + parts) + 2, 3 * LANES) if name in WITH_PRODUCTS else (0, 0)
    return SQUARES[name] * n * n + 4 * n, operands * n * n + 8 * n + lines * (n + 1), 4 * n


@lru_cache(1024)
def _needs(name: str, kind: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int, int], int]:
    """Return these for matrices of such shapes, and about how many multiplications the first one takes."""
    first, longest = shapes[0], max(map(max, shapes))
    return sizes(name, longest, 2 if kind == "c" else 1), math.prod(first) * max(first)


def _run(name: str, stacks: list[Array], *options: bool) -> None:
    """Run a text for every matrix of stacks, of which the last are written."""
    a = stacks[0]
    if not len(a):
        return
    of_text, elements = _needs(name, a.dtype.kind, tuple([x.shape[1:] for x in stacks]))
    if is_cupy(a):
        loops_cuda.run(name, stacks, options, of_text)
        return
    loop = _loop(name, a.dtype.char)
    given = [np.array(options, np.int64)] if options else []
    stacks = [x if x.flags.carray else np.require(x, requirements=["C", "A", "W"]) for x in stacks]
    if len(a) * elements <= BLOCK:
        loop(*stacks, *given, *_room(of_text, a.dtype))
        return

    def work(block: slice) -> None:
        loop(*[x[block] for x in stacks], *given, *_room(of_text, a.dtype))

    over_rows(work, len(a), elements, BLOCK, ALONE)


def _room(of_text: tuple[int, int, int], dtype: np.dtype) -> list[np.ndarray]:
    """Return memory for so many numbers, float64 and int64."""
    kinds: tuple[Any, ...] = dtype, np.float64, np.int64
    sizes = zip(of_text, kinds, strict=True)
    if max(of_text) * dtype.itemsize < REUSED_BYTES:  # scratch memory would be NumPy's, too
        return [np.empty(n, kind) for n, kind in sizes]
    return [scratch((n,), kind) for n, kind in sizes]


@cached_form
def _loop(name: str, kind: str) -> Callable[..., None]:
    """Return a loop over stacks, for arrays as `_run` gives them, unchecked."""
    loop: Callable[..., None] = getattr(compiled(FORM), name)(kind).unchecked()
    return loop
