"""Multiword matrix multiplication: Algorithm 2.1, for any number of words and any selection."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.engines.generations import GENERATIONS, Generation
from multiword.fp32.bounds import ALIGNMENT
from multiword.fp32.fabsum import add_product
from multiword.fp32.operand import Operand
from multiword.fp32.schemes import Scheme
from multiword.runtime.arrays import Array, import_cupy, is_cupy

_CAPABILITIES = {7: "V100", 8: "A100", 9: "H200", 10: "B200", 12: "B200"}


def multiply_words(
    engine: Engine,
    scheme: Scheme,
    left: Operand,
    right: Operand,
    total: Array,
    levels: tuple[int, int] = (2, 8),
    *,
    scale: float = 1.0,
    keep: float = 0.0,
) -> None:
    """C = Σ A_i·B_j over the scheme's products, smallest first (Algorithm 2.1; 4.1; 4.4).

    total : (m, n) array, float32 or float64 as the scheme accumulates; what it holds is replaced
        by scale·C + keep·total, C being of the scaled, centred operands.
    levels : the least and the largest i + j of the products that are summed.
    """
    for a_part, b_part, level in _calls(scheme, left.depth):
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


def empty_sums(xp: Any, scheme: Scheme, m: int, n: int) -> Array:
    """An (m, n) array to sum in, its rows beginning at multiples of 64 bytes.

    An odd leading dimension slows the tensor cores.
    """
    return xp.empty((m, -(-n // 16) * 16), np.float32 if scheme.accumulate == "fp32" else np.float64)[:, :n]


@lru_cache(maxsize=256)
def _calls(scheme: Scheme, depth: int) -> tuple[tuple[slice, slice, int], ...]:
    """The columns of A's and of B's words that each call multiplies, and its i + j.

    B's words lie in reverse order, so the pairs of one i + j are neighbours on both sides.
    """
    p, pairs = scheme.words, scheme.pairs
    if not scheme.joined or scheme.products == "pair":
        groups = [[pair] for pair in pairs]
    else:
        levels = sorted({i + j for i, j in pairs}, reverse=True)
        groups = [sorted(pair for pair in pairs if sum(pair) == level) for level in levels]
    calls = []
    for group in groups:
        (i, j), length = group[0], len(group) * depth
        first, second = (i - 1) * depth, (p - j) * depth
        calls.append((slice(first, first + length), slice(second, second + length), i + j))
    return tuple(calls)


def generation_of(engine: Engine) -> Generation | None:
    """The tensor cores behind an engine; None where products are rounded to nearest."""
    if engine.name == "cublas":
        return _device_generation(_current_device())
    return getattr(engine, "generation", None)


def _current_device() -> int:
    return int(import_cupy().cuda.runtime.getDevice())


@cache
def _device_generation(device: int) -> Generation | None:
    major = int(import_cupy().cuda.Device(device).compute_capability[:-1])
    return GENERATIONS.get(_CAPABILITIES.get(major, ""))


def drift_weights(engine: Engine, scheme: Scheme, x: Array) -> Array | None:
    """How much the terms of A_1·B_1 are enlarged beforehand: (k,) float32, or None.

    A tensor core takes w terms at a time and truncates the sum to fp32, F - 23 bits falling off:
    for sums S of no definite sign, the mean loss of a step is (1 - 2^(23-F))/2 units in the last
    place, and fitted linearly to S (least squares over a binade) it is κ·S with
    κ = 2^-23·(1 - 2^(23-F))/3, and `ALIGNMENT` times that with what the truncation of every
    product takes. A term added t steps before the end of its block is truncated t times: it is
    enlarged by κ·t. Nothing is added to the cost, for the second word takes it up.
    """
    generation, k = generation_of(engine), x.shape[1]
    if not scheme.compensated or generation is None or scheme.word not in generation.widths:
        return None
    if generation.rounding != "RZ":
        return None
    arguments = generation.widths[scheme.word], generation.fraction_bits, scheme.block or max(k, 1), k
    if is_cupy(x):
        return _weights_on_device(*arguments, _current_device())
    return _weights(*arguments)


@lru_cache(maxsize=64)
def _weights(width: int, fraction_bits: int, block: int, k: int) -> Array:
    kappa = ALIGNMENT * 2.0**-23 * (1 - 2.0 ** (23 - fraction_bits)) / 3
    h = np.arange(k)
    start = h // block * block
    steps = -(-(np.minimum(start + block, k) - start) // width)
    return (kappa * (steps - (h - start) // width - 0.5)).astype(np.float32)


@cache
def _weights_on_device(width: int, fraction_bits: int, block: int, k: int, device: int) -> Array:
    del device  # part of the key: the array lies there
    weights = import_cupy().asarray(_weights(width, fraction_bits, block, k))
    import_cupy().cuda.get_current_stream().synchronize()  # other streams will read it
    return weights
