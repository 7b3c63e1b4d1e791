"""Stacks: every product has its own certificate, and those of equal widths are one run of the pipeline.

On a GPU the products that take a pairwise bound, or that only a few others go with, are left to be computed
one by one: those are replayed, in less time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multiword.engines import get_engine
from multiword.runtime.arrays import Array, is_cupy, namespace
from ozaki.certificate.counting import Bounds, RowBounds
from ozaki.certificate.decision import (
    WIDENED_BY_COUNTING,
    WIDENED_IN_ALL,
    certify_stack,
    log2_product,
)
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import PairwiseBound, compare_pairs
from ozaki.cost import warn_of_cost
from ozaki.execution.panels import whole_bytes
from ozaki.factor import Factor, stacked_factors
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.pipeline import (
    NORMWISE,
    Factors,
    Request,
    ScaledProduct,
    bounded,
    bounds,
    execute,
    given_scales,
    norm_scaled,
    norm_scheme,
    product,
    row_limit,
)
from ozaki.scaling.equilibration import equilibrated, inner_exponents
from ozaki.scaling.scales import widened

Scales = tuple[Array, Array]

MODULUS_BITS = 24
"""Bits of an fp64 modulus, about: products of given scales go together if they need as many moduli."""

FEW = 16
"""Fewer products of a width are left alone on a GPU."""


def grouped_products(rows: Array, columns: Array, request: Request) -> tuple[Array, np.ndarray] | None:
    """The (s, m, n) products of (s, m, k) rows and (s, n, k) columns, and which of them are left alone.

    Within the workspace. None if they are in slices, or the memory is not there.
    """
    if request.scheme == "slices":
        return None
    s, m, _ = rows.shape
    a, b = stacked_factors(rows, columns)
    out, alone = namespace(rows).empty((s, m, columns.shape[1]), rows.dtype), np.ones(s, np.bool_)
    try:
        for indices, factors, scales, bits in _groups(a, b, request):
            if not is_cupy(rows) or len(indices) >= FEW:
                group = _group_product(*factors, scales, bits, request)
                out[_all_or(indices, s)] = group
                alone[indices] = False
    except MemoryError:  # one by one they may go in panels
        return None
    return out, alone


def _all_or(indices: np.ndarray, s: int) -> np.ndarray | slice:
    """A slice for all of them, which a GPU copies without a table of indices."""
    return slice(None) if len(indices) == s else indices


Group = tuple[np.ndarray, Factors, Scales, int | None]
"""Products of equal widths: their indices, their factors, equilibrated or as they are, their scales, and the
bits by which norm scales are widened; None where the scales are not of norms."""


def _groups(a: Factor, b: Factor, request: Request) -> Iterator[Group]:
    """The products of a stack by their widths."""
    if not request.of_norms:
        yield from _of_equal_width(a, b, given_scales(a, b, request), request)
        return
    scales = norm_scaled(a, b, request).scales
    if request.accuracy == NORMWISE:
        yield np.arange(a.stack), (a, b), scales, 0
        return
    pending = bounds(a, b, request, scales, a.stack)
    found = pending.wait_for_stack()
    if is_cupy(a.matrix):
        bits = certify_stack(found, a.length, request.limits, None)
        yield from _of_norms(a, b, scales, np.where(bits > WIDENED_BY_COUNTING, WIDENED_IN_ALL + 1, bits))
        return
    equilibration = _equilibrated(a, b, request, scales, found)
    remaining = np.ones(a.stack, np.bool_)
    if equilibration is not None:
        which, left, right = equilibration
        remaining[which] = False
        for indices, factors, of_factors, widening in _groups(left, right, request):
            yield which[indices], factors, of_factors, widening
    indices = np.flatnonzero(remaining)

    def pairwise_bounds(products: np.ndarray) -> list[PairwiseBound]:
        return _pairwise(a, b, pending.rows, request, indices[products])

    bits = np.full(a.stack, -1)  # of those that are done
    bits[indices] = certify_stack(found[indices], a.length, request.limits, pairwise_bounds)
    yield from _of_norms(a, b, scales, bits)
    if (indices := np.flatnonzero(bits > WIDENED_IN_ALL)).size:
        yield from _much_wider(a, b, indices, bits[indices], request)


def _equilibrated(
    a: Factor, b: Factor, request: Request, scales: Scales, found: np.ndarray
) -> tuple[np.ndarray, Factor, Factor] | None:
    """Which products of a stack `equilibrated_factors` would equilibrate, and their factors."""
    if a.equilibrated:
        return None
    wide = np.flatnonzero(certify_stack(found, a.length, request.limits, None) > WIDENED_BY_COUNTING)
    if not wide.size:
        return None
    factors, of_wide = (a.part(wide), b.part(wide)), _scales_of(scales, wide, a.stack)
    exponents = inner_exponents(*factors, of_wide)
    equilibration = equilibrated(*factors, of_wide, row_limit(a, request), exponents)
    return equilibration and (wide[equilibration[0]], *equilibration[1:])


def _of_norms(a: Factor, b: Factor, scales: Scales, bits: np.ndarray) -> Iterator[Group]:
    """The products whose norm scales are widened by 0 to WIDENED_IN_ALL bits."""
    for width in np.unique(bits[(bits >= 0) & (bits <= WIDENED_IN_ALL)]).tolist():
        indices = np.flatnonzero(bits == width)
        left, right = (widened(x, width) for x in _scales_of(scales, indices, a.stack))
        yield indices, (a.part(indices), b.part(indices)), (left, right), width


def _much_wider(
    a: Factor, b: Factor, indices: np.ndarray, bits: np.ndarray, request: Request
) -> Iterator[Group]:
    """Some products whose norm scales are widened by more, each by so many bits."""
    left, right = a.part(indices), b.part(indices)
    # No integer needs to be wider than it takes to lose nothing.
    of_a, of_b = (
        np.minimum(s + np.repeat(bits, x.rows // x.stack), x.exact_scales)
        for s, x in zip(norm_scaled(left, right, request).scales, (left, right), strict=True)
    )
    for part, factors, scales, _ in _of_equal_width(left, right, (of_a, of_b), request):
        yield indices[part], factors, scales, None


def _of_equal_width(a: Factor, b: Factor, scales: Scales, request: Request) -> Iterator[Group]:
    """Products of given scales that take about as many moduli."""
    found = bounds(a, b, request, scales, a.stack).wait_for_stack()
    moduli = np.array([log2_product(Bounds.of(x, a.length)) // MODULUS_BITS for x in found.tolist()])
    for count in np.unique(moduli):
        indices = np.flatnonzero(moduli == count)
        yield indices, (a.part(indices), b.part(indices)), _scales_of(scales, indices, a.stack), None


def _scales_of(scales: Scales, indices: np.ndarray, stack: int) -> Scales:
    """Those of some products of a stack."""
    left, right = (s.reshape(stack, -1)[_all_or(indices, stack)].ravel() for s in scales)
    return left, right


def _pairwise(
    a: Factor,
    b: Factor,
    rows: tuple[RowBounds, RowBounds],
    request: Request,
    products: np.ndarray,
) -> list[PairwiseBound]:
    """The pairwise bounds of some products of a stack."""
    scheme, host = Magnitudes(len(a.parts), "fp64"), get_engine("host")
    bytes_each = whole_bytes(scheme, (a.rows // a.stack, a.k, b.rows // b.stack))
    at_once, found = max(1, request.workspace // bytes_each), list[PairwiseBound]()
    for i in range(0, len(products), at_once):
        indices, words, of_rows = products[i : i + at_once], [], []
        for x, row_bounds in zip((a, b), rows, strict=True):
            part = row_bounds[np.arange(x.rows).reshape(x.stack, -1)[indices]]
            numbers = x.part(indices).parts
            split = scheme.split(numbers, part.truncation_scale.ravel(), x.side, 1)
            words.append(split.reshape(1, 1, len(indices), -1, split.shape[-1]))
            of_rows.append(part)
        y = scheme.multiply(words[0], words[1], host, None)
        of_a, of_b = of_rows
        compared = [compare_pairs(component, of_a, of_b, a.length) for component in y[:, 0]]
        error, ratio = (np.max(x, axis=(0, 2, 3)) for x in zip(*compared, strict=True))
        found += zip(error.tolist(), ratio.tolist(), strict=True)
    return found


def _group_product(a: Factor, b: Factor, scales: Scales, bits: int | None, request: Request) -> Array:
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
            for part in (slice(s // 2), slice(s // 2, s))
        ]
        return namespace(a.matrix).concatenate(parts)
    if isinstance(request.accuracy, str):
        warn_of_cost(scaled.scheme, norm_scheme(a, b, request), request.accuracy)
    out = namespace(a.matrix).empty((s * m, n), a.matrix.dtype)
    execute(scaled, a, b, request, out)
    overwrite_nonfinite(a.parts, b.parts, scales, out, s)
    return out.reshape(s, m, n)
