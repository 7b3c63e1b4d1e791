"""The engine on the CPU: NumPy's BLAS."""

from __future__ import annotations

import numpy as np

from multiword.engines.checks import check_multiply
from multiword.engines.contract import PRODUCTS
from multiword.runtime.arrays import Array


class Host:
    """Low-precision products on the CPU through `numpy.matmul`.

    fp16, bf16 and tf32 words are multiplied as float32, int8 words as float64 (exact): what
    these products compute exactly on a tensor core they compute exactly here.
    """

    name = "host"
    padding = 1
    products = frozenset(PRODUCTS)

    def multiply(
        self,
        product: str,
        a: Array,
        bt: Array,
        *,
        out: Array | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Array:
        """As `Engine.multiply`."""
        kind, out = check_multiply(self, product, a, bt, out, beta)
        carrier = np.float64 if kind.result in (np.int32, np.float64) else np.float32
        left, right = a.astype(carrier, copy=False), bt.astype(carrier, copy=False)
        right = right.swapaxes(-1, -2)
        if out.dtype == carrier and alpha == 1 and beta == 0:
            return np.matmul(left, right, out=out)
        result = np.matmul(left, right)
        if alpha != 1:
            result *= carrier(alpha)
        if beta != 0:
            result += carrier(beta) * out
        np.copyto(out, result, casting="unsafe")
        return out
