"""Words: the low-precision numbers that engines multiply, as data that engines declare and schemes read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from multiword.public import public_in
from multiword.runtime.options import check_choice

C_TYPES = {
    "int8": "signed char",
    "int32": "int",
    "float16": "Half",
    "float32": "float",
    "float64": "double",
}
"""What CUDA calls the dtypes of words and results, by their names; `Half` is that of `split.cu`."""

FLOAT64_EXACT = (1 << 53) - (1 << 27)
"""Integers up to this have a multiple of any modulus below 2**27 nearby that float64 holds, too."""


@dataclass(frozen=True)
class Moduli:
    """The moduli whose residues a word carries.

    Attributes
    ----------
    largest : the largest modulus.
    k_block : the longest inner dimension for which moduli are chosen; a longer one is cut in blocks.
    residue : dtype, the narrowest that holds the residues of least magnitude.
    excess : how far beyond p/2 residues may be, where the quotient of a large number is rounded to the wrong
        side of one half: 0 where none is that large.
    images : how many residues may stand for a complex number, as in `multiword.engines.moduli.ResidueSystem`.
    capacity : bits of the widest integers that there are moduli for; wider ones take fp64 words.
    """

    largest: int
    k_block: int
    residue: np.dtype
    excess: int = 0
    images: tuple[int, ...] = (2, 3)
    capacity: float = math.inf


@public_in("multiword", "Engines", "Product")
@dataclass(frozen=True)
class Word:
    """A kind of low-precision number: what goes into a product, what comes out, what is exact.

    Attributes
    ----------
    name : as the caller names it.
    dtype : of the operands.
    result : dtype of the accumulator and of the result.
    bits : integers of magnitude at most 2**bits are words
        (for int8, magnitudes up to 127 and the number -128).
    exact_bits : a sum of integer products is exact while the sum of the magnitudes of its
        terms is at most 2**exact_bits (for int32, below it).
    moduli : whose residues it carries; None if scheme "residues" has no use for it.

    >>> WORDS["fp16"].result, WORDS["fp16"].exact_bits
    (dtype('float32'), 24)
    """

    name: str
    dtype: np.dtype
    result: np.dtype
    bits: int
    exact_bits: int
    moduli: Moduli | None = None

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)  # every product uses it to find its residue system

    @property
    def word(self) -> np.dtype:
        """The `dtype`, by its former name."""
        return self.dtype

    @property
    def word_bits(self) -> int:
        """The `bits`, by their former name."""
        return self.bits

    @property
    def floating(self) -> bool:
        """Whether it is a floating-point number."""
        return self.dtype.kind != "i"

    @property
    def residue_moduli(self) -> Moduli:
        """The `moduli`; ValueError, listing the words that have some, where there are none."""
        if self.moduli is None:
            names = " or ".join(x.name for x in WORDS.values() if x.moduli is not None)
            raise ValueError(f"residues are carried by {names} words, not {self.name!r}")
        return self.moduli

    def residue_limits(self, k: int, images: int) -> tuple[int, int]:
        """Return the longest block of k over which products of residues are exact, and the largest modulus.

        k_block·(p/2 + excess)² is at most 2**exact_bits, and its sum over the images exact in float64, where
        complex numbers are put together again.

        >>> WORDS["int8"].residue_limits(1000, 1), WORDS["fp64"].residue_limits(1000, 1)
        ((1024, 256), (1024, 5931636))
        """
        moduli = self.residue_moduli
        k_block = min(1 << (k - 1).bit_length(), moduli.k_block)  # so that many k share a system
        exact = min((1 << self.exact_bits) - 1, FLOAT64_EXACT // images)
        return k_block, min(2 * (math.isqrt(exact // k_block) - moduli.excess), moduli.largest)


INT8_K_BLOCK = (1 << 17) - 16
"""The longest inner dimension, of round length, over which products of int8 residues fit int32."""

_FP16, _BF16, _FP32, _FP64 = map(np.dtype, (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
_INT8, _INT32 = np.dtype(np.int8), np.dtype(np.int32)

WORDS: dict[str, Word] = {
    word.name: word
    for word in (
        Word("fp16", _FP16, _FP32, 11, 24),
        Word("bf16", _BF16, _FP32, 8, 24),
        Word("tf32", _FP32, _FP32, 11, 24),
        Word("fp32", _FP32, _FP32, 24, 24),
        # The 49 coprime moduli up to 256 have a product of 341 bits.
        Word("int8", _INT8, _INT32, 7, 31, Moduli(256, INT8_K_BLOCK, _INT8, capacity=330.0)),
        # There is no end of moduli below 2**26.
        Word("fp64", _FP64, _FP64, 53, 53, Moduli(1 << 26, 1 << 20, _INT32, excess=2, images=(2,))),
    )
}
"""The words that more than one engine has, by name."""
public_in("multiword", "Engines", "PRODUCTS")(WORDS)


FLOAT_MAGIC, FLOAT_MAGIC_BITS = 12582912.0, 0x4B400000
"""1.5·2**23, and its bits as float32: the low bits of its sum with a small integer are that integer."""


def symmetric(x: int, p: int) -> int:
    """Return the residue of x modulo p of least magnitude; of 128 and -128, one modulo 256, the latter."""
    return (x + p // 2) % p - p // 2


def get_word(name: str | Word, words: Mapping[str, Word] = WORDS) -> Word:
    """Return the word of that name; ValueError, listing the known ones, for others."""
    if isinstance(name, Word):
        return name
    check_choice("product", name, words)
    return words[name]
