"""Stacks on a CPU: every product has its own certificate, and those of equal widths are one pipeline run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multiword.engines import get_engine
from ozaki.certificate.counting import RowBounds, bounds_of_stack
from ozaki.certificate.decision import WIDENED_IN_ALL, certify_each, log2_product
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import PairwiseBound, compare_pairs
from ozaki.cost import warn_of_cost
from ozaki.execution.panels import whole_bytes
from ozaki.factor import Factor
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.pipeline import (
    NORMWISE,
    Request,
    ScaledProduct,
    bounded,
    bounds,
    execute,
    given_scales,
    norm_scaled,
    norm_scheme,
    product,
)
from ozaki.scaling.scales import NONFINITE_ROW

Scales = tuple[np.ndarray, np.ndarray]

MODULUS_BITS = 24
"""Bits of an fp64 modulus, about: products of given scales go together if they need as many moduli."""


def grouped_products(rows: np.ndarray, columns: np.ndarray, request: Request) -> np.ndarray | None:
    """The (s, m, n) products of (s, m, k) rows and (s, n, k) columns, within the workspace.

    None if they are in slices, or the memory is not there.
    """
    (s, m, k), n = rows.shape, columns.shape[1]
    a = Factor(rows.reshape(s * m, k), 0, stack=s)
    b = Factor(columns.reshape(s * n, k).T, 1, stack=s)
    if request.scheme == "slices":
        return None
    out = np.empty((s, m, n), rows.dtype)
    try:
        for indices, scales, bits in _groups(a, b, request):
            out[indices] = _group_product(a.part(indices), b.part(indices), scales, bits, request)
    except MemoryError:  # one by one they may go in panels
        return None
    return out


def _groups(a: Factor, b: Factor, request: Request) -> Iterator[tuple[np.ndarray, Scales, int | None]]:
    """Products of equal widths: their indices, their scales, and the bits by which norm scales are widened.

    Where those scales are not of norms, the bits are None.
    """
    if not request.certified and request.accuracy != NORMWISE:
        for indices, scales in _of_equal_width(a, b, given_scales(a, b, request), request):
            yield indices, scales, None
        return
    scales = norm_scaled(a, b, request).scales
    if request.accuracy == NORMWISE:
        yield np.arange(a.stack), scales, 0
        return
    found, rows = bounds_of_stack((a.statistics, b.statistics), scales, request.limits, a.stack)
    certificates = certify_each(
        found, request.limits, lambda levels, indices: _pairwise(a, b, rows, request, levels, indices)
    )
    bits = np.array([x.bits for x in certificates], np.int32)
    for width in np.unique(bits[bits <= WIDENED_IN_ALL]).tolist():
        indices = np.flatnonzero(bits == width)
        yield indices, norm_scaled(a.part(indices), b.part(indices), request, width).scales, width
    if (indices := np.flatnonzero(bits > WIDENED_IN_ALL)).size:
        left, right = a.part(indices), b.part(indices)
        norms = norm_scaled(left, right, request).scales
        # No integer needs to be wider than it takes to lose nothing.
        of_a, of_b = (
            np.minimum(s + np.repeat(bits[indices], x.rows // x.stack), x.exact_scales)
            for s, x in zip(norms, (left, right), strict=True)
        )
        for part, wide in _of_equal_width(left, right, (of_a, of_b), request):
            yield indices[part], wide, None


def _of_equal_width(
    a: Factor, b: Factor, scales: Scales, request: Request
) -> Iterator[tuple[np.ndarray, Scales]]:
    """Products of given scales that take about as many moduli: their indices, and their scales."""
    found, _ = bounds_of_stack((a.statistics, b.statistics), scales, request.limits, a.stack)
    moduli = np.array([log2_product(x) // MODULUS_BITS for x in found])
    left, right = (s.reshape(a.stack, -1) for s in scales)
    for count in np.unique(moduli):
        indices = np.flatnonzero(moduli == count)
        yield indices, (left[indices].ravel(), right[indices].ravel())


def _pairwise(
    a: Factor,
    b: Factor,
    rows: tuple[RowBounds, RowBounds],
    request: Request,
    levels: tuple[int, ...],
    products: list[int],
) -> list[PairwiseBound]:
    """The pairwise bounds of some products of a stack."""
    scheme, host = Magnitudes(levels, len(a.parts), "fp64"), get_engine("host")
    bytes_each = whole_bytes(scheme, (a.rows // a.stack, a.k, b.rows // b.stack))
    at_once, found = max(1, request.workspace // bytes_each), list[PairwiseBound]()
    for i in range(0, len(products), at_once):
        indices, words, of_rows = np.array(products[i : i + at_once]), [], []
        for x, row_bounds in zip((a, b), rows, strict=True):
            part = row_bounds[np.arange(x.rows).reshape(x.stack, -1)[indices]]
            numbers = x.part(indices).parts
            split = scheme.split(numbers, part.truncation_scale.ravel(), x.side, 1)
            words.append(split.reshape(*split.shape[:2], len(indices), -1, x.k))
            of_rows.append(part)
        y = scheme.multiply(words[0], words[1], host, None)
        compared = [compare_pairs(component, of_rows[0], of_rows[1], levels, a.length) for component in y]
        error, ratio = (np.max(x, axis=(0, 2, 3)) for x in zip(*compared, strict=True))
        found += zip(error.tolist(), ratio.tolist(), strict=True)
    return found


def _group_product(a: Factor, b: Factor, scales: Scales, bits: int | None, request: Request) -> np.ndarray:
    """The (s, m, n) products of one group, in parts that fit the workspace; one that does not, in panels."""
    s, m, n = a.stack, a.rows // a.stack, b.rows // b.stack
    if bits is None:
        scaled = bounded(a, b, request, scales, bounds(a, b, request, scales).wait())
    else:
        scaled = ScaledProduct(scales, norm_scheme(a, b, request, bits))
    if s * whole_bytes(scaled.scheme, (m, a.k, n)) > request.workspace:
        if s == 1:
            return product(a, b, request)[None]
        left, right = (x.reshape(s, -1) for x in scales)
        parts = [
            _group_product(
                a.part(part), b.part(part), (left[part].ravel(), right[part].ravel()), bits, request
            )
            for part in np.array_split(np.arange(s), 2)
        ]
        return np.concatenate(parts)
    if isinstance(request.accuracy, str):
        warn_of_cost(scaled.scheme, norm_scheme(a, b, request), request.accuracy)
    out = np.empty((s * m, n), a.matrix.dtype)
    execute(scaled, a, b, request, out)
    products = out.reshape(s, m, n)
    _overwrite_nonfinite(a, b, scales, products)
    return products


def _overwrite_nonfinite(a: Factor, b: Factor, scales: Scales, out: np.ndarray) -> None:
    """Overwrite the rows and columns of each product to which an Inf or NaN of its own contributes."""
    left, right = (s.reshape(a.stack, -1) for s in scales)
    for i in np.flatnonzero(((left == NONFINITE_ROW).any(axis=1)) | (right == NONFINITE_ROW).any(axis=1)):
        one = np.array([i])
        overwrite_nonfinite(a.part(one).parts, b.part(one).parts, (left[i], right[i]), out[i])
