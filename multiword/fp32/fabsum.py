"""FABsum: long inner products in blocks, the sum over blocks outside the tensor core."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multiword.engines import Engine
from multiword.runtime.arrays import Array


def blocks(k: int, b: int | None) -> Iterator[slice]:
    """The blocks of at most b indices that make up 0 … k - 1.

    >>> list(blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    b = b or max(k, 1)
    return (slice(start, min(start + b, k)) for start in range(0, k, b))


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
    """total = keep·total + weight·A·Bᵀ, in blocks of the inner dimension.

    With `total` in float32 this is FABsum v1 (Algorithm 4.2): each block's product is added by
    beta, outside the tensor core, in fp32 to nearest. With float64 it is FABsum v2
    (Algorithm 4.3). keep = 0: `total` holds nothing yet.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, Algorithms 4.2 and 4.3; Blanchard, Higham and Mary,
    "A class of fast and accurate summation algorithms" (2020).
    """
    for part in blocks(a.shape[-1], block):
        left, right = a[:, part], bt[:, part]
        if total.dtype == np.float32:
            engine.multiply(word, left, right, out=total, alpha=weight, beta=keep)
        elif keep == 0:
            total[...] = engine.multiply(word, left, right, alpha=weight)
        else:
            total *= keep
            total += engine.multiply(word, left, right, alpha=weight)
        keep = 1.0
