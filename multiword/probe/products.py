"""Chosen inner products on any engine: many at once, as the diagonal of one product."""

from __future__ import annotations

from types import ModuleType

import ml_dtypes
import numpy as np

from multiword.engines import Engine
from multiword.engines.tensorcore import TensorCore
from multiword.runtime.arrays import Array, import_cupy

Term = tuple[float, float]
"""The two factors of one product."""

WORDS = ("fp16", "bf16", "tf32")
"""The word formats that can be probed."""

MODELLED = 16
"""The size of the products that a model computes at once: but for their diagonal they are in vain."""


def array_module(engine: Engine) -> ModuleType:
    """CuPy for the engine on the GPU, NumPy for the others; TypeError for what is no engine."""
    if not hasattr(engine, "multiply"):
        raise TypeError(f"engine must be an Engine, such as TensorCore('V100'), got {engine!r}")
    return import_cupy() if engine.name == "cublas" else np


def as_words(x: Array, word: str) -> Array:
    """Float32 `x`, whose values are words already, in the format's dtype, where it is."""
    if word == "fp16":
        return x.astype(np.float16)
    if word == "tf32":
        return x
    return (x.view(np.uint32) >> 16).astype(np.uint16).view(ml_dtypes.bfloat16)


def diagonal(engine: Engine, word: str, a: Array, bt: Array, m: int, n: int) -> np.ndarray:
    """Inner products of the rows of `a` with those of `bt`, (count, k) float32 words each, as the
    diagonals of as many (m, n) products as it takes; float64 on the host."""
    if isinstance(engine, TensorCore):  # which adds alike in every shape
        m = n = min(m, n, MODELLED)
    xp, size, k = array_module(engine), max(1, min(m, n)), a.shape[1]
    found = [np.zeros(0)]
    for start in range(0, len(a), size):
        part = slice(start, start + size)
        count = len(a[part])
        left, right = xp.zeros((m, k), np.float32), xp.zeros((n, k), np.float32)
        left[:count], right[:count] = a[part], bt[part]
        result = engine.multiply(word, as_words(left, word), as_words(right, word)).diagonal()[:count]
        found.append((result if xp is np else xp.asnumpy(result)).astype(np.float64))
    return np.concatenate(found)


def term(value: float, exponent: int = 0) -> Term:
    """The product value·2**exponent as two factors that share the exponent; either is normal in fp16
    for exponents down to about -27, so no probe of small terms depends on subnormals."""
    half = exponent // 2
    return value * 2.0**half, 2.0 ** (exponent - half)
