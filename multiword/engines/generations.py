"""Generations of tensor cores as data, and the GPUs that have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from multiword.public import public_in
from multiword.runtime.options import check_choice

ROUNDINGS = ("RZ", "RN", "RD", "RU")
"""Toward zero, to nearest even, downward, upward."""

TENSOR_FORMATS = ("fp16", "bf16", "tf32")
"""The formats that the block FMA multiplies."""


@public_in("multiword", "The tensor core model")
@dataclass(frozen=True)
class Generation:
    """The arithmetic of one generation of tensor cores, whose steps `multiword.engines.blockfma` defines.

    Attributes
    ----------
    name : such as "A100".
    widths : products added in one step, for each word format that the hardware has.
    fraction_bits : F, the bits kept below the largest exponent of a step.
    carry_bits : bits above the leading one of the largest term that the adder holds beyond
        the integer bit; a larger sum loses its top (modulo 2**(1 + carry_bits) in units of the
        largest exponent). None: as many as are needed, so nothing is ever lost.
    alignment : rounding of each term to `fraction_bits`, one of `ROUNDINGS`.
    rounding : rounding of the normalised sum to fp32, one of `ROUNDINGS`. A sum delivered in
        fp16 is always rounded to nearest.

    Raises
    ------
    ValueError : a format, a width, a number of bits or a rounding out of range.

    References
    ----------
    Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021),
    conclusions. Xie et al., "MMA-Sim" (arXiv:2511.10909); Khattak and Mikaitis, "Accurate models
    of NVIDIA tensor cores" (arXiv:2512.07004).

    >>> get_generation("A100").fraction_bits
    24
    """

    name: str
    widths: Mapping[str, int] = field(hash=False)
    fraction_bits: int
    carry_bits: int | None = None
    alignment: str = "RZ"
    rounding: str = "RZ"

    def __post_init__(self) -> None:
        for word, width in self.widths.items():
            check_choice("word format", word, TENSOR_FORMATS)
            if not _within(width, 1, 256):
                raise ValueError(f"width of {word} must be an integer from 1 to 256, got {width!r}")
        # 2**(42 + 8) still adds exactly in float64; fewer than 23 bits could not hold fp32's c.
        if not _within(self.fraction_bits, 10, 40):
            raise ValueError(f"fraction_bits must be an integer from 10 to 40, got {self.fraction_bits!r}")
        if self.carry_bits is not None and not _within(self.carry_bits, 0, 12):
            raise ValueError(f"carry_bits must be None or an integer from 0 to 12, got {self.carry_bits!r}")
        for name in ("alignment", "rounding"):
            check_choice(name, getattr(self, name), ROUNDINGS)


def _within(value: object, low: int, high: float) -> bool:
    return isinstance(value, int | np.integer) and bool(low <= value <= high)


_EIGHT = {"fp16": 8, "bf16": 8, "tf32": 4}
_SIXTEEN = {"fp16": 16, "bf16": 16, "tf32": 8}

GENERATIONS: dict[str, Generation] = {
    g.name: g
    for g in (
        Generation("V100", {"fp16": 4}, 23),
        # Published models give the T4 blocks of 4 or of 8; 8 is what was validated bit for bit.
        Generation("T4", {"fp16": 8}, 24),
        Generation("A100", _EIGHT, 24),
        Generation("L40S", _EIGHT, 24),
        Generation("H100", _SIXTEEN, 25),
        Generation("H200", _SIXTEEN, 25),
        Generation("B200", _SIXTEEN, 25),
        Generation("B300", _SIXTEEN, 25),
        Generation("RTX 5090", _SIXTEEN, 25),
    )
}
"""The generations that this library knows, by the name of a chip: Volta, Turing, Ampere, Ada,
Hopper (twice) and Blackwell (three times). The H200's is measured by this library's own probes, the B300's is
taken to be the B200's, and the others' are the literature's. For more, make a `Generation` or
`dataclasses.replace` one."""
public_in("multiword", "The tensor core model", "GENERATIONS")(GENERATIONS)

CHIPS = {(7, 0): "V100", (7, 5): "T4", (8, 0): "A100", (9, 0): "H200", (10, 0): "B200"}
CHIPS |= dict.fromkeys(((8, 6), (8, 7), (8, 9)), "L40S")
CHIPS |= dict.fromkeys(((10, 3), (11, 0)), "B300") | dict.fromkeys(((12, 0), (12, 1)), "RTX 5090")
"""Compute capability: the chip in `GENERATIONS` with the same tensor cores and the same share of fp64 units.
GPUs that are not in it multiply in plain fp32."""

FULL_RATE_FP64 = frozenset({"V100", "A100", "H100", "H200", "B200"})
"""Chips that multiply half as fast in fp64 as in fp32 or faster; the others take 32 or 64 times as long."""


@public_in("multiword", "The tensor core model")
def get_generation(generation: str | Generation) -> Generation:
    """Return the generation of that name; a `Generation` passes through.

    As `multiword.get_format`; differs in the table.

    Parameters
    ----------
    generation : a name in `GENERATIONS`, or a `Generation`.

    >>> get_generation("H200").widths["tf32"]
    8
    """
    if isinstance(generation, Generation):
        return generation
    check_choice("generation", generation, GENERATIONS)
    return GENERATIONS[generation]


@public_in("multiword", "The tensor core model")
@dataclass(frozen=True)
class Blocking:
    """How a kernel walks along the inner dimension: what a library adds to the hardware.

    Attributes
    ----------
    step : products that one instruction adds, at most the hardware's width; None for that width.
    block_k : length of the contiguous parts that are accumulated each from zero; the parts
        are then added in increasing k, in the accumulator's format, to nearest. None: one part.
    split_k : the number of such parts instead, of equal length (the last may be shorter).
    tile_k : a part whose length is no multiple of this begins with the remainder, in steps of
        its own, instead of ending with it.

    Raises
    ------
    ValueError : a length that is no integer or below 1, or both block_k and split_k.

    >>> Blocking(block_k=1408).parts(4096)
    [(0, 1408), (1408, 2816), (2816, 4096)]
    >>> Blocking(tile_k=64).steps(0, 100, width=16)
    [(0, 16), (16, 32), (32, 36), (36, 52), (52, 68), (68, 84), (84, 100)]
    """

    step: int | None = None
    block_k: int | None = None
    split_k: int | None = None
    tile_k: int | None = None

    def __post_init__(self) -> None:
        for name in ("step", "block_k", "split_k", "tile_k"):
            value = getattr(self, name)
            if value is not None and not _within(value, 1, math.inf):
                raise ValueError(f"{name} must be None or an integer of at least 1, got {value!r}")
        if self.block_k is not None and self.split_k is not None:
            raise ValueError("block_k and split_k both say how long a part is: give one of them")

    def parts(self, k: int) -> list[tuple[int, int]]:
        """Return the parts of an inner dimension of k, as (start, stop), in the order of their addition."""
        length = self.block_k or -(-k // (self.split_k or 1)) or 1
        return [(start, min(start + length, k)) for start in range(0, k, length)]

    def steps(self, start: int, stop: int, width: int) -> list[tuple[int, int]]:
        """Return the steps of one part, as (start, stop), for hardware that adds `width` products."""
        step = min(self.step or width, width)
        head = (stop - start) % self.tile_k if self.tile_k else 0
        ranges = ((start, start + head), (start + head, stop))
        return [(h, min(h + step, last)) for first, last in ranges for h in range(first, last, step)]
