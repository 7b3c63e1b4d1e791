"""The contract of the two schemes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from multiword.engines import Engine, Word
from multiword.formats import Format
from multiword.runtime.arrays import Array


@dataclass(frozen=True)
class ProductSpecification:
    """An exact product to be computed: everything but the numbers.

    Attributes
    ----------
    shape : (m, k, n).
    stack : such products, independent of one another.
    parts : 1 for real, 2 for complex operands.
    widths : |A'| <= 127/128·2**widths[0] and |B'| <= 127/128·2**widths[1].
    bits : upper bound of log2 |C'|.
    target : the format to round to.
    """

    shape: tuple[int, int, int]
    stack: int
    parts: int
    widths: tuple[int, int]
    bits: float
    target: Format


class ProductScheme(Protocol):
    """A way to multiply in words of low precision, in panels and blocks of the inner dimension.

    Attributes
    ----------
    name, word : the scheme's name, and the words that it multiplies.
    k_block : the longest inner dimension over which its products are exact.
    system : all that the words of an operand depend on, but for its scales.
    """

    name: str
    word: Word
    k_block: int
    system: Any

    @property
    def tile(self) -> tuple[int, int, int]:
        """Multiples of m, k and n to which operands are filled up in memory, beside an engine's padding."""
        ...

    @property
    def shares_words(self) -> bool:
        """Whether both factors are the right one's words, as of some symmetric products."""
        ...

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        """Return the words of a block of an operand."""
        ...

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """Return the products of words, added to those of earlier blocks of the inner dimension."""
        ...

    def operand_bytes(self) -> int:
        """Return the bytes for each element of an operand."""
        ...

    def product_bytes(self) -> int:
        """Return the bytes for each element of the result, temporaries included."""
        ...


class Scheme(ProductScheme, Protocol):
    """A way to multiply integers exactly: split, multiply, reconstruct and round once."""

    specification: ProductSpecification

    @property
    def pieces(self) -> int:
        """Moduli, or slices of A."""
        ...

    @property
    def products(self) -> int:
        """Low-precision products that one exact product takes."""
        ...

    def reconstruct(self, y: Array, scales: tuple[Array, Array], out: Array) -> None:
        """Round the products to `out`."""
        ...
