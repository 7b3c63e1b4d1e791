"""What is computed of a part of the inner dimension, and merges: statistics, magnitudes and residues.

Workers send these one another, and add them up in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from multiword.engines.moduli import ResidueSystem
from multiword.runtime.arrays import Array, namespace, real_parts
from multiword.runtime.readback import anywhere
from ozaki.certificate.pairwise import PartialMagnitudes
from ozaki.nonfinite import one_nan, overwrite_nonfinite
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.panels import in_panels
from ozaki.product.steps import ScaledProduct, both_norm_scales, bounds, magnitudes
from ozaki.residues.partial import add_residues, as_products, no_residues, put_residues
from ozaki.residues.scheme import Residues
from ozaki.scaling.statistics import NONFINITE, NONFINITE_ROW, ZERO, RowStatistics

_NO_SCALE = np.int32(-(1 << 27))
"""The exact scale of a row of zeros, below all others."""


@dataclass(frozen=True)
class FactorStatistics:
    """What scaling and the certificate take from some rows of A, or columns of B.

    Attributes
    ----------
    rows : their statistics.
    exact_scales : (r,) int32, the smallest scales that lose nothing.
    lossless : whether the blocks are as they came, or were equilibrated exactly.
    dtype : of the product.
    """

    rows: RowStatistics
    exact_scales: Array
    lossless: bool
    dtype: np.dtype

    def __sizeof__(self) -> int:
        rows = self.rows
        arrays = rows.exponent, rows.total, rows.square, rows.counts, self.exact_scales
        return object.__sizeof__(self) + sum(int(x.nbytes) for x in arrays)

    @classmethod
    def of(cls, largest: Array, rows: RowStatistics, dtype: np.dtype) -> FactorStatistics:
        """Those of rows with these sums, and with `maxima`."""
        exponent, scale, lost = largest
        xp = namespace(largest)
        exact = xp.where(exponent == NONFINITE, NONFINITE_ROW, xp.where(exponent == ZERO, 0, scale))
        return cls(rows, exact.astype(xp.int32), not anywhere(lost), dtype)

    def merge(self, other: FactorStatistics) -> FactorStatistics:
        """Those of the same rows, with the sums over two parts of the inner dimension."""
        return replace(self, rows=self.rows.merge(other.rows))

    @classmethod
    def concatenate(cls, parts: Sequence[FactorStatistics]) -> FactorStatistics:
        """Those of several blocks of rows."""
        exact = namespace(parts[0].exact_scales).concatenate([part.exact_scales for part in parts])
        rows = RowStatistics.concatenate([part.rows for part in parts])
        return cls(rows, exact, all(part.lossless for part in parts), parts[0].dtype)

    def factor(self, side: int) -> Factor:
        """A factor with these statistics and no numbers, for the steps that need none."""
        r, k = len(self.exact_scales), self.rows.length // (2 if self.dtype.kind == "c" else 1)
        zero = namespace(self.exact_scales).zeros((), self.dtype)
        factor = Factor(namespace(zero).broadcast_to(zero, (k, r) if side else (r, k)), side)
        factor.statistics, factor.exact_scales = self.rows, self.exact_scales
        return factor


def maxima(block: Factor, exponent: Array, lossless: bool) -> Array:
    """Return what blocks of the same rows merge by `larger`: (3, r) int32, exponents, exact scales, losses.

    Parameters
    ----------
    exponent : the largest exponents of the block's rows.
    lossless : whether the block is as it came, or was equilibrated exactly.
    """
    xp = namespace(exponent)
    exact = xp.where(exponent == ZERO, _NO_SCALE, block.exact_scales)
    return xp.stack([exponent, exact, xp.full_like(exponent, not lossless)])


def larger(x: Array, y: Array) -> Array:
    """Return the elementwise maximum."""
    return namespace(x).maximum(x, y)


def partial_magnitudes(whole: Pair, pair: Pair) -> PartialMagnitudes:
    """Return the products of magnitudes of two blocks, `pair`, whose rows and columns go on in `whole`."""
    of_rows = bounds(whole, both_norm_scales(whole)).rows
    scheme = magnitudes(pair)
    truncation = of_rows[0].truncation_scale, of_rows[1].truncation_scale
    out = namespace(pair.a.matrix).zeros((scheme.parts, 1, *pair.result_shape))

    def write(products: Array, rows: slice, columns: slice) -> None:
        part = out[:, :, rows, columns]
        part[...] = products[:, :, : part.shape[2], : part.shape[3]]

    in_panels(scheme, pair, truncation, write)
    return PartialMagnitudes(out, of_rows, whole.length)


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

    @classmethod
    def of(cls, pair: Pair, scaled: ScaledProduct, system: ResidueSystem) -> PartialProduct:
        """Return the product of two blocks, with the scales of whole rows, modulo these moduli."""
        scheme = cast(Residues, scaled.scheme).with_system(system)
        a, b, xp = pair.a, pair.b, namespace(pair.a.matrix)
        residues = no_residues(system, (system.images, len(system.moduli), a.rows, b.rows), a.matrix)

        def write(products: Array, rows: slice, columns: slice) -> None:
            put_residues(products, system, residues[:, :, rows, columns])

        in_panels(scheme, pair, scaled.scales, write)
        nonfinite = None
        if scaled.nonfinite:
            nonfinite = xp.zeros((a.rows, b.rows), a.matrix.dtype)
            overwrite_nonfinite(a.parts, b.parts, scaled.scales, nonfinite)
        return cls(residues, replace(scaled, scheme=scheme), nonfinite)

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
