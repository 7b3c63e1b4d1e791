"""The order of summation of a product: its tree, inferred by masking.

A huge number M at position i and -M at position j swallow everything that is added between the
one and the other; of the ones elsewhere, those that are added later survive. So the result counts
the terms outside the smallest subtree that holds both i and j (Xie et al., "Revealing
floating-point accumulation orders", 2025). On a kernel that takes contiguous parts of the inner
dimension in steps, O(k) such counts determine the order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from multiword.engines import Engine
from multiword.engines.generations import Blocking
from multiword.probe.products import WORDS, array_module, diagonal
from multiword.public import public_in
from multiword.runtime.options import check_choice

_TILES = (None, 256, 128, 64, 32, 16)
_MASKS = {"fp32": (2.0**15, 2.0**15, 2.0**-7), "fp16": (2.0**15, 1.0, 2.0**-12)}
"""The factors of M and the square root of a one. In fp32, M = 2**30 and ones of 2**-14: 2**19 of them
are still below half a unit in the last place of M, and no accumulator is 44 bits wide. In fp16,
M = 2**15 and ones of 2**-24, its smallest subnormal."""


@public_in("multiword.probe", "Probes")
def subtree_sizes(
    engine: Engine, word: str, m: int, n: int, k: int, pairs: Iterable[tuple[int, int]]
) -> np.ndarray:
    """Return the number of terms added before or together with the later of the terms i and j.

    Parameters
    ----------
    engine, word : what multiplies; "fp16", "bf16" or "tf32" words.
    m, n, k : the shape of the product, on which a library's choice of kernel depends.
    pairs : of different positions i, j in the inner dimension.

    Returns
    -------
    int array, one for each pair: the size of the smallest subtree of the summation with i and j.

    Raises
    ------
    ValueError : a format that the engine does not multiply, an empty product, or positions that are equal or
        not within k. TypeError : no `Engine`.

    References
    ----------
    Xie et al., "Revealing floating-point accumulation orders in software/hardware
    implementations", USENIX ATC 2025 (FPRev).

    >>> from multiword import TensorCore
    >>> [int(n) for n in subtree_sizes(TensorCore("A100"), "fp16", 16, 16, 32, [(0, 1), (0, 8)])]
    [8, 16]
    """
    check_choice("word format", word, WORDS)
    if min(m, n, k) < 1:
        raise ValueError(f"m, n and k must be at least 1, got {m}, {n}, {k}")
    pairs = np.array(list(pairs), int).reshape(-1, 2)
    if ((pairs < 0) | (pairs >= k)).any() or (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(f"pairs must be of different positions from 0 to {k - 1}, got {pairs.tolist()}")
    x, y, unit = _MASKS["fp16" if accumulates_in_half(engine, word) else "fp32"]
    xp, parts, size = array_module(engine), [np.zeros(0)], max(1, min(m, n))
    for start in range(0, len(pairs), size):
        i, j = (xp.asarray(column) for column in pairs[start : start + size].T)
        a, b = xp.full((2, len(i), k), unit, np.float32)
        rows = xp.arange(len(i))
        a[rows, i], b[rows, i] = x, y
        a[rows, j], b[rows, j] = x, -y
        parts.append(diagonal(engine, word, a, b, m, n))
    survivors = np.concatenate(parts) / unit**2
    return k - np.rint(survivors).astype(int)


def accumulates_in_half(engine: Engine, word: str) -> bool:
    """Return whether results are half precision: 1 + 2**-12 is then 1."""
    a = array_module(engine).asarray([[1.0, 2.0**-6] + [0.0] * 14], np.float32)
    return word == "fp16" and float(diagonal(engine, word, a, a, 16, 16)[0]) == 1


@public_in("multiword.probe", "Probes")
def infer_blocking(engine: Engine, word: str, m: int, n: int, k: int) -> Blocking:
    """Return the blocking by which the engine sums products of this shape; k is at least 2.

    As `multiword.probe.subtree_sizes`; differs in choosing the pairs itself.

    Returns
    -------
    The `Blocking` with which `TensorCore` reproduces that order. Its `step` is the number of
    products added at once; where tiles of several lengths explain all that was seen, the longest
    that does is given, and none where none is needed.

    Raises
    ------
    ValueError : the order is not one of contiguous parts in steps (a matrix-vector kernel, say).

    >>> from multiword import TensorCore
    >>> core = TensorCore("A100", blocking=Blocking(block_k=52, tile_k=32))
    >>> infer_blocking(core, "fp16", 16, 16, 100)
    Blocking(step=8, block_k=52, split_k=None, tile_k=32)
    """
    if k < 2:
        raise ValueError(f"k must be at least 2 to have an order, got {k}")
    sizes = np.concatenate([[1], subtree_sizes(engine, word, m, n, k, [(0, j) for j in range(1, k)])])
    ends = [int(e) for e in np.unique(sizes[1:])]
    if ends[-1] != k or (np.diff(sizes) < 0).any():
        raise ValueError(f"{word} {m}×{n}×{k}: the terms are not added in increasing k")
    length = _first_part(engine, word, (m, n, k), ends)
    # The first term of every part with each other one shows the steps of the part.
    pairs = [(s, j) for s in range(0, k, length) for j in range(s + 1, min(s + length, k))]
    seen = subtree_sizes(engine, word, m, n, k, pairs)
    block_k = length if length < k else None
    pairs += [(0, j) for j in range(1, k)]
    seen = np.concatenate([seen, sizes[1:]])
    for step in _possible_steps([e for e in ends if e <= length]):
        for tile in _TILES:
            blocking = Blocking(step, block_k, None, tile)
            if (predicted_sizes(blocking, k, pairs) == seen).all():
                return blocking
    raise ValueError(f"{word} {m}×{n}×{k}: the order is not one of contiguous parts in steps")


def _possible_steps(ends: list[int]) -> list[int]:
    """Return the widths that the ends of the first part's steps allow: a leading remainder of one term
    appears as one term more in the step after it."""
    widths = np.diff([0, *ends])
    return sorted({int(widths.max()), int(widths[1:].max(initial=1))}, reverse=True)


def _first_part(engine: Engine, word: str, shape: tuple[int, int, int], ends: list[int]) -> int:
    """Return the length of the first part: the first step that begins a sum of its own ends it."""
    starts = [e for e, after in pairwise(ends) if after - e > 1]
    pairs = [(e, ends[ends.index(e) + 1] - 1) for e in starts]
    behind = subtree_sizes(engine, word, *shape, pairs)
    fresh = [e for e, (i, j), size in zip(starts, pairs, behind, strict=True) if size <= j - i + 1]
    return min(fresh, default=shape[2])


def predicted_sizes(blocking: Blocking, k: int, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    """Return what `subtree_sizes` gives for a kernel with that blocking, whose `step` must be set."""
    part_start, part_stop, step_stop = np.zeros((3, k), int)
    for start, stop in blocking.parts(k):
        part_start[start:stop], part_stop[start:stop] = start, stop
        for first, last in blocking.steps(start, stop, blocking.step or k):
            step_stop[first:last] = last
    ordered = np.sort(np.array(list(pairs), int).reshape(-1, 2), axis=1)
    first, last = ordered.T
    inside = first >= part_start[last]
    return np.where(inside, step_stop[last] - part_start[last], part_stop[last])
