"""Multiword matrix multiplication: Algorithm 2.1, its long inner products in blocks (FABsum)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.engines.generations import Generation
from multiword.fp32.bounds import drift_per_step
from multiword.fp32.schemes import Scheme
from multiword.fp32.split import Words
from multiword.runtime.arrays import Array, import_cupy, is_cupy
from multiword.runtime.memory import padded


def multiply_words(
    engine: Engine,
    scheme: Scheme,
    left: Words,
    right: Words,
    total: Array,
    levels: tuple[int, int] = (2, 8),
    *,
    scale: float = 1.0,
    keep: float = 0.0,
) -> None:
    """Compute C = Σ A_i·B_j over the scheme's products, smallest first (Algorithm 2.1; 4.1; 4.4).

    total : (m, n) array, float32 or float64 as the scheme accumulates, replaced by
        scale·C + keep·total, C being of the scaled, centred operands.
    levels : the least and the largest i + j of the products that are summed.
    """
    for a_part, b_part, level in _calls(scheme, left.padded_k):
        if levels[0] <= level <= levels[1]:
            add_product(
                engine,
                scheme.word,
                left.words[:, a_part],
                right.words[:, b_part],
                total,
                weight=scale * scheme.step ** (2 - level),
                block=scheme.block if level == 2 or scheme.blocked == "all" else None,
                keep=keep,
            )
            keep = 1.0


def add_product(
    engine: Engine,
    word: str,
    a: Array,
    bt: Array,
    total: Array,
    *,
    weight: float,
    block: int | None,
    keep: float,
) -> None:
    """Compute total = keep·total + weight·A·Bᵀ, in blocks of the inner dimension (FABsum).

    With `total` in float32 this is FABsum v1 (Algorithm 4.2): each block's product is added by
    beta, outside the tensor core, in fp32 to nearest. With float64 it is FABsum v2
    (Algorithm 4.3). With keep = 0, `total` is not read.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, Algorithms 4.2 and 4.3; Blanchard, Higham and Mary,
    "A class of fast and accurate summation algorithms" (2020).
    """
    k = a.shape[-1]
    for start in range(0, k, block or max(k, 1)):
        part = slice(start, start + (block or k))
        left, right = a[:, part], bt[:, part]
        if total.dtype == np.float32:
            engine.multiply(word, left, right, out=total, alpha=weight, beta=keep)
        elif keep == 0:
            total[...] = engine.multiply(word, left, right, alpha=weight)
        else:
            total *= keep
            total += engine.multiply(word, left, right, alpha=weight)
        keep = 1.0


def empty_sums(xp: Any, scheme: Scheme, m: int, n: int) -> Array:
    """Return an (m, n) array to sum in, its rows beginning at multiples of 64 bytes.

    An odd leading dimension slows the tensor cores.
    """
    return xp.empty((m, padded(n, 16)), np.float32 if scheme.accumulate == "fp32" else np.float64)[:, :n]


@lru_cache(maxsize=256)
def _calls(scheme: Scheme, padded_k: int) -> tuple[tuple[slice, slice, int], ...]:
    """Return the columns of A's and of B's words that each call multiplies, and its level i + j.

    B's words lie in reverse order, so the pairs of one level are neighbours on both sides.
    """
    p, pairs = scheme.words, scheme.pairs
    if not scheme.joined or scheme.products == "pair":
        groups = [[pair] for pair in pairs]
    else:
        levels = sorted({i + j for i, j in pairs}, reverse=True)
        groups = [sorted(pair for pair in pairs if sum(pair) == level) for level in levels]
    calls = []
    for group in groups:
        (i, j), length = group[0], len(group) * padded_k
        first, second = (i - 1) * padded_k, (p - j) * padded_k
        calls.append((slice(first, first + length), slice(second, second + length), i + j))
    return tuple(calls)


def drift_weights(generation: Generation | None, scheme: Scheme, x: Array) -> Array | None:
    """Return the relative enlargement of the terms of A_1·B_1: (k,) float32, or None.

    A term added t steps before the end of its block is truncated t times: it is enlarged by t times
    `drift_per_step`. That costs nothing, for the second word takes it up.
    """
    if not scheme.compensated or generation is None or scheme.word not in generation.widths:
        return None
    if generation.rounding != "RZ":
        return None
    k = x.shape[1]
    arguments = generation.widths[scheme.word], drift_per_step(generation), scheme.block or max(k, 1), k
    return _weights_on_device(*arguments, x.device.id) if is_cupy(x) else _weights(*arguments)


@lru_cache(maxsize=64)
def _weights(width: int, kappa: float, block: int, k: int) -> Array:
    h = np.arange(k)
    start = h // block * block
    steps = -(-(np.minimum(start + block, k) - start) // width)
    return (kappa * (steps - (h - start) // width - 0.5)).astype(np.float32)


@lru_cache(maxsize=64)
def _weights_on_device(width: int, kappa: float, block: int, k: int, device: int) -> Array:
    del device  # part of the key: the array lies there
    weights = import_cupy().asarray(_weights(width, kappa, block, k))
    import_cupy().cuda.get_current_stream().synchronize()  # other streams will read it
    return weights
