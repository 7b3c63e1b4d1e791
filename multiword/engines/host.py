"""The engine on the CPU: NumPy's BLAS."""

from __future__ import annotations

import numpy as np

from multiword.engines.contract import CheckedEngine
from multiword.engines.words import WORDS, Word
from multiword.runtime.arrays import Array


class Host(CheckedEngine):
    """Low-precision products on the CPU through `numpy.matmul`.

    fp16, bf16 and tf32 words are multiplied as float32, int8 words as float64 (exact): what
    these products compute exactly on a tensor core they compute exactly here.
    """

    name = "host"
    padding = 1
    products = frozenset(WORDS)
    residue_block = 1024  # five fp64 moduli hold what six hold at 2048

    @staticmethod
    def carrier(word: Word) -> np.dtype:
        """Return the floating-point numbers that the BLAS multiplies."""
        return np.dtype(np.float64 if word.result in (np.int32, np.float64) else np.float32)

    def _compute(self, kind: Word, a: Array, bt: Array, out: Array, alpha: float, beta: float) -> None:
        carrier = self.carrier(kind)
        left, right = a.astype(carrier, copy=False), bt.astype(carrier, copy=False).swapaxes(-1, -2)
        if out.dtype == carrier and alpha == 1 and beta == 0:
            np.matmul(left, right, out=out)
            return
        result = np.matmul(left, right)
        if alpha != 1:
            result *= carrier.type(alpha)
        if beta != 0:
            result += carrier.type(beta) * out
        np.copyto(out, result, casting="unsafe")
