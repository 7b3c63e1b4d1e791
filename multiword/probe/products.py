"""Chosen inner products on any engine: many at once, as the diagonal of one product. fp16 sums on a GPU."""

from __future__ import annotations

from types import ModuleType
from typing import ClassVar

import ml_dtypes
import numpy as np

import multiword.engines.libcublas as lib
from multiword.engines import Engine
from multiword.engines.cublas import Cublas
from multiword.engines.tensorcore import TensorCore
from multiword.runtime.arrays import Array, import_cupy

Term = tuple[float, float]
"""The two factors of one product."""

WORDS = ("fp16", "bf16", "tf32")
"""The word formats that can be probed."""

MODELLED = 16
"""The size of a model's products, of which only the diagonal is used."""


def array_module(engine: Engine) -> ModuleType:
    """Return CuPy for the engine on the GPU, NumPy for the others; TypeError if it is no engine."""
    if not hasattr(engine, "multiply"):
        raise TypeError(f"engine must be an Engine, such as TensorCore('V100'), got {engine!r}")
    return import_cupy() if engine.name == "cublas" else np


def as_words(x: Array, word: str) -> Array:
    """Return float32 `x`, whose values are words, in the format's dtype, on the same device."""
    if word == "fp16":
        return x.astype(np.float16)
    if word == "tf32":
        return x
    return (x.view(np.uint32) >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)


def diagonal(engine: Engine, word: str, a: Array, bt: Array, m: int, n: int) -> np.ndarray:
    """Return inner products of the rows of `a` and `bt`, (count, k) float32 words each, in float64 on the
    host: the diagonals of (m, n) products."""
    if isinstance(engine, TensorCore):  # which adds alike in every shape
        m = n = min(m, n, MODELLED)
    xp, size, k = array_module(engine), max(1, min(m, n)), a.shape[1]
    parts = [np.zeros(0)]
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        count = len(a[part])
        left, right = xp.zeros((m, k), np.float32), xp.zeros((n, k), np.float32)
        left[:count], right[:count] = a[part], bt[part]
        result = engine.multiply(word, as_words(left, word), as_words(right, word)).diagonal()[:count]
        parts.append((result if xp is np else xp.asnumpy(result)).astype(np.float64))
    return np.concatenate(parts)


def term(value: float, exponent: int = 0) -> Term:
    """Return value·2**exponent as two factors that share the exponent; either is normal in fp16 for
    exponents down to about -27, so no probe of small terms depends on subnormals."""
    half = exponent // 2
    return value * 2.0**half, 2.0 ** (exponent - half)


class HalfCublas(Cublas):
    """cuBLAS with fp16 words, accumulation and results, which come widened to float32."""

    types: ClassVar = {"fp16": (lib.CUDA_R_16F, lib.CUDA_R_16F, lib.COMPUTE_16F, np.float16)}
    products = frozenset(types)

    def _one_call(self, product: str, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        result = out.astype(np.float16)
        super()._one_call(product, a, bt, result, alpha, beta)
        out[...] = result
