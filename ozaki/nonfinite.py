"""Inf and NaN: the rows and columns concerned get what IEEE arithmetic gives them."""

from __future__ import annotations

from multiword.runtime.arrays import Array, namespace, real_parts
from ozaki.scaling.scales import NONFINITE_ROW


def overwrite_nonfinite(a: list[Array], b: list[Array], scales: tuple[Array, Array], out: Array) -> None:
    """Overwrite the rows and columns of `out` to which an Inf or NaN contributes.

    Every element there is Inf or NaN, and which does not depend on the size of the finite
    elements: a·Inf is NaN for a = 0, else Inf of the product's sign, and a sum is NaN when one
    term is, or when infinities of both signs meet. So finite elements are replaced by their
    signs first, and no finite sum can overflow. NaNs are the canonical one.

    Parameters
    ----------
    a, b : (m, k) and (n, k) real parts.
    scales : those of the rows of `a` and of `b`; NONFINITE_ROW marks the ones concerned.
    out : (m, n) array, real or complex, written to.
    """
    xp = namespace(out)
    rows = xp.flatnonzero(scales[0] == NONFINITE_ROW)
    columns = xp.flatnonzero(scales[1] == NONFINITE_ROW)
    if rows.size:
        for part, value in zip(real_parts(out), _products([x[rows] for x in a], b), strict=True):
            part[rows] = value
    if columns.size:
        for part, value in zip(real_parts(out), _products(a, [x[columns] for x in b]), strict=True):
            part[:, columns] = value


def _products(a: list[Array], b: list[Array]) -> list[Array]:
    """The real parts of A·Bᵀ by the defining formula, for signs, infinities and NaNs."""
    xp = namespace(a[0])
    a, b = ([xp.where(xp.isfinite(x), xp.sign(x), x) for x in parts] for parts in (a, b))
    if len(a) == 1:
        results = [a[0] @ b[0].T]
    else:
        results = [a[0] @ b[0].T - a[1] @ b[1].T, a[0] @ b[1].T + a[1] @ b[0].T]
    return [xp.where(xp.isnan(x), xp.nan, x) for x in results]
