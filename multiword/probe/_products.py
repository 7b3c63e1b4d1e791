"""Chosen inner products on any engine: many at once, as the diagonal of one product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from multiword._arrays import import_cupy
from multiword.engines import Engine, get_product

Term = tuple[float, float]
"""The two factors of one product."""

WORDS = ("fp16", "bf16", "tf32")
"""The word formats that can be probed."""


@dataclass(frozen=True)
class Bench:
    """Where chosen inner products run: an engine, a word format and the shape of the product.

    The shape matters on a GPU: the library chooses its kernel by it. At 256 cuBLAS takes, on an
    H200, one that accumulates the whole inner dimension in one chain, in all three formats.
    """

    engine: Engine
    word: str
    size: int = 256

    def __post_init__(self) -> None:
        if self.word not in WORDS:
            raise ValueError(f"unknown word format {self.word!r}; known are {', '.join(WORDS)}")

    def sums(self, rows: Sequence[dict[int, Term]]) -> np.ndarray:
        """Inner products of which each is given as position in k → product; the rest is 0."""
        a, b = np.zeros((2, len(rows), self.size))
        for r, row in enumerate(rows):
            for position, (x, y) in row.items():
                a[r, position], b[r, position] = x, y
        return diagonal(self.engine, self.word, a, b, self.size, self.size)


def as_words(x: np.ndarray, word: str) -> np.ndarray:
    """Float64 `x`, whose values are words already, in the format's dtype."""
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(get_product(word).word)


def multiply(engine: Engine, word: str, a: np.ndarray, bt: np.ndarray) -> np.ndarray:
    """A·Bᵀ of host arrays on the engine, wherever it computes, back on the host in float64."""
    if engine.name != "cublas":
        return np.asarray(engine.multiply(word, a, bt)).astype(np.float64)
    cupy = import_cupy()
    return np.asarray(cupy.asnumpy(engine.multiply(word, _to_device(a), _to_device(bt)))).astype(np.float64)


def _to_device(x: np.ndarray) -> object:
    cupy = import_cupy()
    if x.dtype == ml_dtypes.bfloat16:  # copied as its bits
        return cupy.asarray(np.ascontiguousarray(x).view(np.uint16)).view(ml_dtypes.bfloat16)
    return cupy.asarray(x)


def diagonal(engine: Engine, word: str, a: np.ndarray, bt: np.ndarray, m: int, n: int) -> np.ndarray:
    """Inner products of the rows of `a` with those of `bt`, (count, k) each, as the diagonal of
    as many (m, n) products as it takes."""
    size, k = min(m, n), a.shape[1]
    found = []
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        count = len(a[part])
        left, right = np.zeros((m, k)), np.zeros((n, k))
        left[:count], right[:count] = a[part], bt[part]
        found.append(multiply(engine, word, as_words(left, word), as_words(right, word)).diagonal()[:count])
    return np.concatenate(found) if found else np.zeros(0)


def term(value: float, exponent: int = 0) -> Term:
    """The product value·2**exponent as two factors that share the exponent; either is normal in fp16
    for exponents down to about -27, so no probe of small terms depends on subnormals."""
    half = exponent // 2
    return value * 2.0**half, 2.0 ** (exponent - half)
