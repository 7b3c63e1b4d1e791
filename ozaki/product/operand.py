"""Prepared operands: what `prepare` returns."""

from __future__ import annotations

from typing import Any

from ozaki.product.factor import Factor
from ozaki.public import public

SIDES = ("left", "right")


@public("Plans and prepared operands")
class Operand:
    """A matrix as one factor of exact products, split once and multiplied many times.

    `prepare` makes it. Results are those of the matrix itself, bit for bit.

    Attributes
    ----------
    shape, dtype : of the matrix.
    side : "left" or "right".
    nbytes : bytes of the split, 0 before the first product.

    >>> import numpy as np, ozaki
    >>> left = ozaki.prepare(np.eye(200))
    >>> c = ozaki.accurate_dgemm(left, np.ones((200, 2)), word="fp64")
    >>> left
    Operand(left, 200 x 200, float64, 1600000 bytes split)
    """

    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        m, n = self.factor.matrix.shape
        return m, n

    @property
    def dtype(self) -> str:
        """The name of the matrix's dtype."""
        return str(self.factor.matrix.dtype.name)

    @property
    def side(self) -> str:
        """Which factor it is, "left" or "right"."""
        return SIDES[self.factor.side]

    @property
    def nbytes(self) -> int:
        """Bytes of the split, 0 before the first product."""
        return self.factor.nbytes

    __array_ufunc__ = None  # NumPy leaves `@` to this class

    def __matmul__(self, other: Any) -> Any:
        raise TypeError("operands of ozaki.prepare are multiplied by ozaki.matmul(a, b), not by @")

    __rmatmul__ = __matmul__

    def __repr__(self) -> str:
        (m, n), split = self.shape, f"{self.nbytes} bytes split" if self.nbytes else "not split yet"
        return f"Operand({self.side}, {m} x {n}, {self.dtype}, {split})"


def matrix_of(x: Any) -> Any:
    """Return the matrix of an operand, and anything else unchanged."""
    return x.factor.matrix if isinstance(x, Operand) else x
