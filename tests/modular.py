"""An engine of a word that the packages do not have: integers modulo numbers below 2**11, in fp16.

`ENGINES["modular"] = "tests.modular:Modular"` registers it.
"""

from typing import ClassVar

import numpy as np

from multiword.engines.cublas import Cublas
from multiword.engines.host import Host
from multiword.engines.words import WORDS, Moduli, Word

M11 = Word(
    *("m11", np.dtype(np.float16), np.dtype(np.float32), 11, 24),
    Moduli(largest=1 << 11, k_block=64, residue=np.dtype(np.int16), capacity=1400.0),
)


class Modular(Host):
    """The host with such residues: sums of 64 products are exact in float32."""

    name = "modular"
    words: ClassVar = WORDS | {M11.name: M11}
    products = frozenset(words)
    default_words: ClassVar = {"residues": M11.name}
    residue_block = None


class ModularOnGpu(Cublas):
    """The same on a GPU."""

    name = "modular on a GPU"
    words: ClassVar = Modular.words
    products = Cublas.products | {M11.name}
    default_words: ClassVar = Modular.default_words

    def _compute(self, kind, *arguments):
        super()._compute(WORDS["fp16"] if kind == M11 else kind, *arguments)
