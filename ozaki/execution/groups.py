"""Stacks: every product has its own certificate, and those of equal widths are one run of the pipeline.

On a GPU every group costs some twenty launches, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from multiword.engines import get_engine
from multiword.runtime.arrays import Array, namespace
from ozaki.certificate.counting import DECIDED, OPEN, Bounds, PendingBounds
from ozaki.certificate.decision import Ask, decide_stack, log2_product
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import PairwiseBound, compare_pairs
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.execution.eager import Factors, product
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.product import steps
from ozaki.product.cost import warn_of_cost
from ozaki.product.factor import Factor
from ozaki.product.panels import one_panel_bytes
from ozaki.product.request import NORMWISE, Request
from ozaki.product.steps import ScaledProduct, Scales
from ozaki.scaling.scales import widened
from ozaki.tuning import BITS_OF_A_GROUP


def grouped_products(rows: Array, columns: Array, request: Request) -> Array | None:
    """Return the (s, m, n) products of (s, m, k) rows and (s, n, k) columns.

    None if they are in slices, or do not fit the memory.
    """
    if request.scheme == "slices":
        return None
    (s, m, k), n, xp = rows.shape, columns.shape[1], namespace(rows)
    # One matrix below the other, so that any of them are a stack, too.
    a = Factor(xp.ascontiguousarray(rows).reshape(s * m, k), 0, stack=s)
    b = Factor(xp.ascontiguousarray(columns).reshape(s * n, k).T, 1, stack=s)
    out = xp.empty((s, m, n), rows.dtype)
    try:
        for indices, factors, scales, bits in _groups(a, b, request):
            out[_all_or(indices, s)] = _group_product(*factors, scales, bits, request)
    except MemoryError:  # one by one they may go in panels
        return None
    return out


def _all_or(indices: np.ndarray, s: int) -> np.ndarray | slice:
    """Return indices, or a slice for all of them: a GPU takes that without a table."""
    return slice(None) if len(indices) == s else indices


def _part(factors: Factors, scales: Scales, indices: np.ndarray) -> tuple[Factors, Scales]:
    """Return the factors and scales of some products of a stack."""
    a, b = factors
    which = _all_or(indices, a.stack)
    left, right = (s.reshape(a.stack, -1)[which].ravel() for s in scales)
    return (a.part(indices), b.part(indices)), (left, right)


Group = tuple[np.ndarray, Factors, Scales, int | None]
"""Products of equal widths: their indices, their factors, equilibrated or as they are, their scales, and the
bits by which norm scales are widened; None where the scales are not of norms."""


def _groups(a: Factor, b: Factor, request: Request) -> Iterator[Group]:
    """Yield the products of a stack by their widths."""
    if not request.of_norms:
        yield from _of_equal_width(a, b, steps.given_scales(a, b, request), request)
    elif request.accuracy == NORMWISE:
        yield np.arange(a.stack), (a, b), steps.both_norm_scales(a, b, request), 0
    else:
        left = np.arange(a.stack)
        if a.on_gpu and steps.may_be_decided(a, b):
            scales, pending = steps.decided_scales(a, b, request)
            states = pending.wait_for_stack()[:, 0]
            done, left = np.flatnonzero(states < OPEN), np.flatnonzero(states >= OPEN)
            if done.size:
                spare = steps.SPARE_BITS if (states == DECIDED).any() else 0
                yield done, *_part((a, b), scales, done), spare
        if left.size:
            data = _StackData(a.part(left), b.part(left), request)
            bounds = data.versions[0].bounds.wait_for_stack()
            bits = decide_stack(bounds, a.length, request.limits, data.answer)
            for number, version in enumerate(data.versions):
                some = np.flatnonzero(data.version == number)
                yield from version.groups(left[some], bits[some], data.position[some], request)


class _Version:
    """Products of a stack as they came, or equilibrated: their factors, norm scales and bounds."""

    def __init__(self, a: Factor, b: Factor, request: Request) -> None:
        self.factors: Factors = a, b
        self.scales = steps.both_norm_scales(a, b, request)
        self.bounds: PendingBounds = steps.bounds(a, b, request, self.scales, a.stack)

    def part(self, positions: np.ndarray) -> tuple[Factors, Scales]:
        """Return the factors and scales of some of the products."""
        return _part(self.factors, self.scales, positions)

    def groups(
        self, indices: np.ndarray, bits: np.ndarray, positions: np.ndarray, request: Request
    ) -> Iterator[Group]:
        """Yield the products by the bits that their integers grow by."""
        for width in np.unique(bits[bits <= WIDENED_IN_ALL]).tolist():
            some = bits == width
            factors, (left, right) = self.part(positions[some])
            yield indices[some], factors, (widened(left, width), widened(right, width)), width
        if (much := bits > WIDENED_IN_ALL).any():
            (a, b), scales = self.part(positions[much])
            xp, more = namespace(a.matrix), bits[much].astype(np.int32)
            # No integer needs to be wider than it takes to lose nothing.
            of_a, of_b = (
                xp.minimum(s + xp.asarray(np.repeat(more, x.rows // x.stack)), x.exact_scales)
                for s, x in zip(scales, (a, b), strict=True)
            )
            for part, factors, of_factors, _ in _of_equal_width(a, b, (of_a, of_b), request):
                yield indices[much][part], factors, of_factors, None


class _StackData:
    """The products of a stack, which answer their decisions' questions together.

    Attributes
    ----------
    versions : the products as they came and, once some have been equilibrated, those.
    version, position : of each product, its latest version, and its index there.
    """

    def __init__(self, a: Factor, b: Factor, request: Request) -> None:
        self._request = request
        self.versions = [_Version(a, b, request)]
        self.version, self.position = np.zeros(a.stack, np.int64), np.arange(a.stack)

    def answer(self, question: Ask, products: np.ndarray) -> Sequence[Any]:
        """Answer a question that all these products ask."""
        if question is Ask.EQUILIBRATE:
            return self._equilibrate(products)
        answers: dict[int, Any] = {}
        for number, version in enumerate(self.versions):
            some = products[self.version[products] == number]
            positions = self.position[some]
            if question is Ask.PAIRS:
                of_version: Sequence[Any] = _pairwise(version, positions, self._request)
            else:
                numbers, length = version.bounds.wait_for_stack(), version.factors[0].length
                of_version = [Bounds.of(x, length) for x in numbers[positions].tolist()]
            answers.update(zip(some.tolist(), of_version, strict=True))
        return [answers[i] for i in products.tolist()]

    def _equilibrate(self, products: np.ndarray) -> Sequence[bool]:
        """Equilibrate those that gain by it, and return which they are."""
        (a, b), scales = self.versions[0].part(products)
        exponents = steps.inner_exponents(a, b, scales)
        equilibration = steps.equilibrated(a, b, self._request, scales, exponents)
        if equilibration is None:
            return [False] * len(products)
        indices, left, right = equilibration
        self.versions.append(_Version(left, right, self._request))
        self.version[products[indices]] = 1
        self.position[products[indices]] = np.arange(len(indices))
        return (self.version[products] == 1).tolist()


def _of_equal_width(a: Factor, b: Factor, scales: Scales, request: Request) -> Iterator[Group]:
    """Yield the products of given scales in groups that take about as many moduli."""
    bounds = steps.bounds(a, b, request, scales, a.stack).wait_for_stack()
    moduli = log2_product(bounds[:, 3:5], a.length) // BITS_OF_A_GROUP
    for count in np.unique(moduli):
        indices = np.flatnonzero(moduli == count)
        yield indices, *_part((a, b), scales, indices), None


def _pairwise(version: _Version, positions: np.ndarray, request: Request) -> list[PairwiseBound]:
    """Return the pairwise bounds of some products of a stack."""
    a, b = version.factors
    # Not by the request's engine, which may have no fp64 words.
    scheme, engine = Magnitudes(len(a.parts), "fp64"), get_engine("auto", a.matrix)
    bytes_each = one_panel_bytes(scheme, (a.rows // a.stack, a.k, b.rows // b.stack))
    at_once, bounds = max(1, request.workspace // bytes_each), list[PairwiseBound]()
    for i in range(0, len(positions), at_once):
        indices, words, of_rows = positions[i : i + at_once], [], []
        for x, row_bounds in zip((a, b), version.bounds.rows, strict=True):
            part = row_bounds[np.arange(x.rows).reshape(x.stack, -1)[indices]]
            numbers = x.part(indices).parts
            split = scheme.split(numbers, part.truncation_scale.ravel(), x.side, 1)
            words.append(split.reshape(1, 1, len(indices), -1, split.shape[-1]))
            of_rows.append(part)
        y = scheme.multiply(words[0], words[1], engine, None)
        of_a, of_b = of_rows
        compared = [compare_pairs(component, of_a, of_b, a.length) for component in y[:, 0]]
        error, ratio = (
            namespace(y).max(namespace(y).stack(x), axis=(0, 2, 3)) for x in zip(*compared, strict=True)
        )
        bounds += zip(error.tolist(), ratio.tolist(), strict=True)
    return bounds


def _group_product(a: Factor, b: Factor, scales: Scales, bits: int | None, request: Request) -> Array:
    """Return the (s, m, n) products of a group, in parts that fit the workspace, or else in panels."""
    s, m, n = a.stack, a.rows // a.stack, b.rows // b.stack
    if bits is None:
        scaled = steps.bounded(a, b, request, scales, steps.bounds(a, b, request, scales).wait())
    else:
        scaled = ScaledProduct(scales, steps.norm_scheme(a, b, request, bits))
    if s * one_panel_bytes(scaled.scheme, (m, a.k, n)) > request.workspace:
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
        warn_of_cost(scaled.scheme, steps.norm_scheme(a, b, request), request.accuracy)
    out = namespace(a.matrix).empty((s * m, n), a.matrix.dtype)
    steps.execute(scaled, a, b, request, out)
    overwrite_nonfinite(a.parts, b.parts, scales, out, s)
    return out.reshape(s, m, n)
