"""What speaks against a scheme of words, and how large a product may be for its truncation to be harmless."""

from __future__ import annotations

import math

from multiword.fp32.measure import Flags
from multiword.fp32.schemes import Scheme

SHARE = 250
"""Long blocks are used only if (Σ|y|)² reaches this many thousandths of k·Σy² in every vector: 637
for normal, 750 for uniform elements, 1000·r/k if only r of k elements matter. A sum of a few
terms stays as large as they are, and is truncated in every further step."""

_EXPONENTS = {"fp16": (-math.inf, 15), "bf16": (-60, 50), "tf32": (-60, 50)}
"""Exponents that the scaled elements may have. (Below fp16's there is a finer condition.)"""


def rejection(flags: Flags, scheme: Scheme, k: int, *, long_blocks: bool) -> str | None:
    """Why the words do not carry the operands to fp32 accuracy, or None if they surely do.

    long_blocks : whether blocks are too long for vectors of a few large elements.

    fp16: an element below 2^-12 after scaling loses up to 2^-36. At most z elements of a row or
    column are so small and all are below 2^15; at least N (of a row) and M (of a column) reach
    2^2, so that N + M - k indices have both factors there: then (|A'||B'|)_ij ≥ 2^4·(N + M - k),
    and the loss, at most 2^-36·2^15·(z_A + z_B), is below 2^-25 of it if
    z_A + z_B ≤ N + M - k. That is asked for, unless no element is small.
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
    """The largest |P_ij| over the norms of row and column that truncation is harmless for.

    Sums of one sign drift: up to this limit by less than the rounding errors of an fp32 sum
    (measured on the model and on an H200, benchmarks/notes-multiword.md). Independent random
    elements stay below 6.5/√k, and 8/√k with guessed centres.
    """
    return max(8.0 / math.sqrt(max(k, 1)), 0.125)
