"""A product of a part of the inner dimension, as its residues: what workers send one another and add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multiword.runtime.arrays import Array, namespace, real_parts
from ozaki.nonfinite import one_nan
from ozaki.product.steps import ScaledProduct
from ozaki.residues.partial import add_residues, as_products
from ozaki.scaling.statistics import NONFINITE_ROW


@dataclass(frozen=True)
class PartialProduct:
    """Residues of the product of some blocks of the inner dimension.

    Attributes
    ----------
    residues : (images, N, m, n), in as few bytes as hold them.
    scaled : the integers: the scales, and the scheme.
    nonfinite : (m, n), the share of these blocks in rows and columns with an Inf or NaN, if there are any.
    """

    residues: Array
    scaled: ScaledProduct
    nonfinite: Array | None

    def __sizeof__(self) -> int:
        return int(self.residues.nbytes + (0 if self.nonfinite is None else self.nonfinite.nbytes))

    def add(self, other: PartialProduct) -> PartialProduct:
        """The product of both parts of the inner dimension."""
        residues = add_residues(self.residues, other.residues, self.scaled.scheme.system)
        nonfinite = self.nonfinite
        if nonfinite is not None:
            with np.errstate(invalid="ignore"):
                nonfinite = nonfinite + other.nonfinite
        return PartialProduct(residues, self.scaled, nonfinite)

    def rounded(self, dtype: np.dtype) -> Array:
        """Return the product, once all parts are there, rounded once."""
        scheme, scales, xp = self.scaled.scheme, self.scaled.scales, namespace(self.residues)
        out = xp.empty(self.residues.shape[2:], dtype)
        scheme.reconstruct(as_products(self.residues, scheme.system), scales, out)
        if self.nonfinite is not None:
            rows, columns = (s == NONFINITE_ROW for s in scales)
            concerned = rows[:, None] | columns[None, :]
            for part, value in zip(real_parts(out), real_parts(self.nonfinite), strict=True):
                part[...] = xp.where(concerned, one_nan(value), part)
        return out
