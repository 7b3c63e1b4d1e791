"""Schemes, by which an fp32 product is made from products of words, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from multiword.formats import get_format
from multiword.public import public_in
from multiword.rounding import ROUNDINGS
from multiword.runtime.options import check_choice, integer

SELECTIONS = ("triangle", "all", "pair")
"""Products A_i·B_j with i + j ≤ p + 1; all p²; and A_1·B_1 with A_2·B_1 only (two words)."""


@public_in("multiword", "Products from words")
@dataclass(frozen=True)
class Scheme:
    """How a product of float32 matrices is made from products of words.

    Attributes
    ----------
    word : format of the words, "fp16", "bf16" or "tf32"; "fp32" and "fp64" with words=1 are one
        plain product in that format.
    words : p, the number of words for each element.
    products : which A_i·B_j are computed, one of `SELECTIONS`. They are added from the smallest
        (largest i + j) to the largest.
    joined : products of the same i + j in one call, with the words side by side.
    scaled_words : store word i times 2^(precision·(i - 1)), so that none underflows.
    scaled_lines : scale each row of A and column of B by a power of two into the words' range.
    centred : subtract each line's mean where both operands' means stand out, and put the
        rank-two part back in fp64; not for products in which that would cancel.
    compensated : enlarge the terms of A_1·B_1 by what truncation in the tensor core takes, on average,
        from a sum of no definite sign.
    block : b, the inner length of one tensor-core product (FABsum); None for all of k.
    blocked : "first" (A_1·B_1 only, Algorithm 4.4) or "all".
    accumulate : "fp32" or "fp64", the arithmetic of the sums over blocks (FABsum v1, v2).
    rounding : of the words, "RN", "RZ" or "RNA".

    Raises
    ------
    ValueError : an option out of its range. TypeError : words or block no integer.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, Algorithms 2.1 and 4.1 to 4.4. Ootomo and Yokota,
    sections 3.2 and 3.3. Markidis et al. for "all" with two words.

    >>> Scheme(words=3, word="bf16").pairs
    ((3, 1), (2, 2), (1, 3), (2, 1), (1, 2), (1, 1))
    """

    word: str = "fp16"
    words: int = 2
    products: str = "triangle"
    joined: bool = True
    scaled_words: bool = True
    scaled_lines: bool = True
    centred: bool = False
    compensated: bool = False
    block: int | None = None
    blocked: str = "first"
    accumulate: str = "fp32"
    rounding: str = "RN"

    def __post_init__(self) -> None:
        get_format(self.word)
        check_choice("rounding", self.rounding, ROUNDINGS)
        integer("words", self.words)
        if self.block is not None:
            integer("block", self.block)
        if not 1 <= self.words <= 4:
            raise ValueError(f"words must be between 1 and 4, got {self.words}")
        if self.plain and self.words != 1:
            raise ValueError(f"{self.word} needs no second word, got words={self.words}")
        choices = {"products": SELECTIONS, "blocked": ("first", "all"), "accumulate": ("fp32", "fp64")}
        for name, values in choices.items():
            check_choice(name, getattr(self, name), values)
        if self.block is not None and self.block < 16:
            raise ValueError(f"block must be None or at least 16, got {self.block}")

    @property
    def plain(self) -> bool:
        """Whether this is one product of unsplit float32 or float64 matrices."""
        return self.word in ("fp32", "fp64")

    @property
    def step(self) -> float:
        """The factor of each further word: 2¹¹ for fp16."""
        return 2.0 ** get_format(self.word).precision if self.scaled_words else 1.0

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The (i, j) of the products A_i·B_j, smallest first."""
        p = self.words
        every = [(i, j) for i in range(p, 0, -1) for j in range(1, p + 1)]
        if self.products == "pair":
            every = [(i, 1) for i in range(p, 0, -1)]
        elif self.products == "triangle":
            every = [(i, j) for i, j in every if i + j <= p + 1]
        return tuple(sorted(every, key=lambda pair: -sum(pair)))


_PLAIN_WORDS = Scheme(scaled_words=False, scaled_lines=False, joined=False)

SCHEMES: dict[str, Scheme] = {
    "fp32": Scheme("fp32", 1),
    "fp64": Scheme("fp64", 1),
    "fast-fp16": Scheme(centred=True, compensated=True, block=2048),
    "short-block-fp16": Scheme(centred=True, compensated=True, block=512),
    "short-block-tf32": Scheme("tf32", rounding="RNA", centred=True, compensated=True, block=512),
    "double-fp16": _PLAIN_WORDS,
    "markidis": replace(_PLAIN_WORDS, products="all"),
    "triple-bf16": replace(_PLAIN_WORDS, word="bf16", words=3),
    "fabsum-v1": replace(_PLAIN_WORDS, block=256),
    "fabsum-v2": replace(_PLAIN_WORDS, block=256, accumulate="fp64"),
    "halfhalf": Scheme(scaled_lines=False, block=128),
    "tf32tf32": Scheme("tf32", scaled_lines=False, block=128, rounding="RNA"),
}
"""Schemes by name.

"fp32" and "fp64": one plain product. "fast-fp16", "short-block-fp16", "short-block-tf32": what
accuracy="fp32" tries; short blocks are for rows and columns in which a few elements outweigh the others.
"double-fp16": Algorithm 4.1 of Fasi et al.; "fabsum-v1", "fabsum-v2": Algorithm 4.4 with
Algorithms 4.2 and 4.3. "triple-bf16": Henry, Tang and Heinecke. "markidis": Markidis et al.
"halfhalf", "tf32tf32": Ootomo and Yokota; where they add outside the tensor core after every
instruction, these do so after every 128 terms.
"""
public_in("multiword", "Products from words", "SCHEMES")(SCHEMES)

_FORMER_NAMES = {"steady-fp16": "short-block-fp16", "steady-tf32": "short-block-tf32"}


@public_in("multiword", "Products from words")
def get_scheme(scheme: str | Scheme) -> Scheme:
    """Return the scheme of that name; a `Scheme` passes through.

    As `multiword.get_format`; differs in the table.

    Parameters
    ----------
    scheme : a name in `SCHEMES`, or a `Scheme`.

    >>> get_scheme("double-fp16").step
    1.0
    """
    if isinstance(scheme, Scheme):
        return scheme
    name = _FORMER_NAMES.get(str(scheme), scheme)
    check_choice("scheme", name, SCHEMES)
    return SCHEMES[name]
