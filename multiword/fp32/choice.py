"""The automatic choice of accuracy="fp32": what shape and machine are worth, and what data rule out."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from multiword.engines import Engine
from multiword.engines.generations import CHIPS, FULL_RATE_FP64, GENERATIONS, Generation
from multiword.engines.machine import compute_capability
from multiword.fp32.measure import Flags
from multiword.fp32.schemes import SCHEMES, Scheme
from multiword.tuning import (
    BYTES_A_SECOND,
    FP32_FLOPS,
    LAUNCH_SECONDS,
    RESULTS_OF_A_WAVE,
    WORD_FLOPS_LONG,
    WORD_FLOPS_SHORT,
)

LONG_BLOCKS = "fast-fp16"
"""The scheme whose blocks are too long for rows and columns of a few large elements."""

AUTOMATIC = (LONG_BLOCKS, "short-block-fp16", "short-block-tf32")
"""What accuracy="fp32" tries on tensor cores, fastest first, before a plain product."""

FEWEST_TERMS = 64
"""Of sums that words are for. In shorter ones the errors of words and of truncation outweigh those of an fp32
sum: up to 3.6 and 1.7 times at k = 2 and 8, 1.1 at 64 (on the model, 64×k by k×64 matrices)."""

_BLOCK = {25: 1.0, 24: 0.25, 23: 0.0625}
"""Factors of the blocks for tensor cores of F fraction bits: with fewer they lose more in each step."""


def words_pay(m: int, n: int, k: int) -> bool:
    """Return whether three products of words are faster than one in fp32, by a model of the time."""
    rate = WORD_FLOPS_SHORT if library_splits_k(m, n) else WORD_FLOPS_LONG
    words = 6.0 * m * n * k / rate + (8.0 * (m + n) * k + 20.0 * m * n) / BYTES_A_SECOND + LAUNCH_SECONDS
    return words < 2.0 * m * n * k / FP32_FLOPS


def library_splits_k(m: int, n: int) -> bool:
    """Return whether a library splits k among idle multiprocessors: the words then take short blocks.

    The compensation of long sums would be too much for the short ones that they become.
    """
    return m * n < 2 * RESULTS_OF_A_WAVE


def block_length(k: int, factor: int, least: int, most: int) -> int:
    """Return the largest power of two up to factor·√k, between two limits.

    For sums of no definite sign the remaining drift, relative to |A||B|, grows as b/√k, while the
    rounding errors of an fp32 sum do not grow; a factor of 64 keeps the former at two thirds of the latter
    in its largest element, and at half on average (benchmarks/notes-multiword.md).

    >>> [block_length(k, *LONG) for k in (100, 2048, 4096, 16384, 10**6)]
    [512, 2048, 4096, 8192, 8192]
    >>> [block_length(k, *SHORT) for k in (64, 2048, 4096, 10**6)]
    [64, 256, 512, 512]
    """
    return min(most, max(least, 1 << int(math.log2(factor * math.sqrt(max(k, 1))))))


LONG, SHORT = (64, 512, 8192), (8, 64, 512)
"""The factors and limits of "fast-fp16" and of the short-block schemes."""


def candidates(m: int, n: int, k: int, engine: Engine) -> tuple[tuple[str, Scheme], ...]:
    """Return the schemes that accuracy="fp32" tries for this shape, fastest first, with their names.

    Where there are no tensor cores the native fp32 product is the fastest of fp32's accuracy.
    """
    generation = generation_of(engine)
    if generation is None or (engine.name == "cublas" and not words_pay(m, n, k)):
        return (("fp32", SCHEMES["fp32"]),)
    library = engine.name == "cublas"
    # An fp32 product whose k is split has half the error.
    schemes = _candidates(k, generation, halved=library and m * n < 4 * RESULTS_OF_A_WAVE)
    if k < FEWEST_TERMS:
        return schemes[-1:]
    return schemes[1:] if library and library_splits_k(m, n) and len(schemes) > 2 else schemes


@lru_cache(maxsize=256)
def _candidates(k: int, generation: Generation, halved: bool) -> tuple[tuple[str, Scheme], ...]:
    shorter, tuned = _BLOCK.get(generation.fraction_bits, 1.0), []
    for name in AUTOMATIC:
        scheme, (factor, *limits) = SCHEMES[name], LONG if name == LONG_BLOCKS else SHORT
        if scheme.word in generation.widths:
            block = block_length(k, factor // 2 if halved and name == LONG_BLOCKS else factor, *limits)
            tuned.append((name, replace(scheme, block=max(64, int(block * shorter)))))
    plain = "fp64" if generation.name in FULL_RATE_FP64 else "fp32"
    return (*tuned, (plain, SCHEMES[plain]))


def generation_of(engine: Engine) -> Generation | None:
    """Return the tensor cores behind an engine; None if there are none, or none that `CHIPS` lists."""
    if engine.name == "cublas":
        return GENERATIONS.get(CHIPS.get(compute_capability(), ""))
    return getattr(engine, "generation", None)


SHARE = 250
"""Long blocks are used only if (Σ|y|)² reaches this many thousandths of k·Σy² in every vector: 637
for normal, 750 for uniform elements, 1000·r/k if only r of k elements matter. A sum of a few
terms stays as large as they are, and is truncated in every further step."""

_EXPONENTS = {"fp16": (-math.inf, 15), "bf16": (-60, 50), "tf32": (-60, 50)}
"""Exponents that the scaled elements may have. (Below fp16's there is a finer condition.)"""


def rejection(flags: Flags, scheme: Scheme, k: int, *, long_blocks: bool) -> str | None:
    """Return why the words do not carry the operands to fp32 accuracy; None if they surely do.

    long_blocks : whether blocks are too long for vectors of a few large elements.

    fp16: an element below 2^-12 after scaling loses up to 2^-36. At most z elements of a row or
    column are so small and all are below 2^15; at least N (of a row) and M (of a column) reach
    2^2, so that N + M - k indices have both factors there: then (|A'||B'|)_ij ≥ 2^4·(N + M - k),
    and the loss, at most 2^-36·2^15·(z_A + z_B), is below 2^-25 of it if
    z_A + z_B ≤ N + M - k. That is required, unless no element is small.
    """
    low, high = _EXPONENTS[scheme.word]
    a, b = flags.a, flags.b
    if a["bad"] or b["bad"]:
        return "infinities or NaNs"
    for name, side in (("A", a), ("B", b)):
        if side["top"] and side["top"] - 300 > high:
            return f"the samples missed the largest elements of {name}"
        if side["low"] and 300 - side["low"] < low:
            one = "row" if name == "A" else "column"
            return f"the exponents within a {one} of {name} range too far for {scheme.word} words"
    if long_blocks and max(a["spread"], b["spread"]) > 1000 - SHARE:
        return "a few elements of a row or column outweigh the others: blocks must be shorter"
    small, deficit = a["small"] + b["small"], a["deficit"] + b["deficit"]
    if scheme.word == "fp16" and small > max(0, k - deficit):
        return "small elements of rows and columns cannot be shown to be harmless in fp16 words"
    return None


def coherence_limit(k: int) -> float:
    """Return the largest |P_ij| over the norms of row and column for which truncation is harmless.

    Sums of one sign drift: up to this limit by less than the rounding errors of an fp32 sum
    (measured on the model and on an H200, benchmarks/notes-multiword.md). Independent random
    elements stay below 6.5/√k, and 8/√k with guessed centres.
    """
    return max(8.0 / math.sqrt(max(k, 1)), 0.125)
