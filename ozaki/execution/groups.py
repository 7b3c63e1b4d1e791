"""Executor "groups": products of a stack that take integers of equal widths are one run of the steps.

Every product has its own certificate. On a GPU every group costs some twenty launches, whatever its size.
"""

from __future__ import annotations

import math
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
from ozaki.execution.contract import DONE, MUCH, NO_ROOM, Declined, Executor, Outcome, goes_together
from ozaki.execution.step_by_step import step_by_step
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.product import steps
from ozaki.product.cost import warn_of_cost
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair, Signature
from ozaki.product.panels import one_panel_bytes
from ozaki.product.request import NORMWISE
from ozaki.product.steps import ScaledProduct, Scales
from ozaki.scaling.scales import widened
from ozaki.tuning import BITS_OF_A_GROUP, SMALLEST_GROUP


class Groups(Executor):
    """Stacks of one signature, in groups."""

    name = "groups"
    about = "the products of a stack that take integers of equal widths, together"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if signature.stack == 1:
            return "it takes stacks"
        return "slices are multiplied one by one" if signature.request.scheme == "slices" else None

    @property
    def cost(self) -> float:
        enough = not self.signature.on_gpu or self.signature.stack >= SMALLEST_GROUP
        return MUCH if enough and goes_together(self.signature) else math.inf

    def run(self, pair: Pair, out: Array) -> Outcome:
        try:
            for indices, part, scales, bits in _groups(_side_by_side(pair)):
                out[_all_or(indices, pair.stack)] = _group_product(part, scales, bits)
        except MemoryError:  # one by one they may go in panels
            return Declined(pair, NO_ROOM)
        return DONE


def _side_by_side(pair: Pair) -> Pair:
    """Return the stack with one matrix below the other, so that any of them are a stack, too."""
    left, right = pair.a.matrix, pair.b.matrix.swapaxes(-1, -2)
    xp, (s, m, k), n = namespace(left), left.shape, right.shape[1]
    a = Factor(xp.ascontiguousarray(left).reshape(s * m, k), 0, stack=s)
    b = Factor(xp.ascontiguousarray(right).reshape(s * n, k).T, 1, stack=s)
    return pair._replace(a=a, b=b)


def _all_or(indices: np.ndarray, s: int) -> np.ndarray | slice:
    """Return indices, or a slice for all of them: a GPU takes that without a table."""
    return slice(None) if len(indices) == s else indices


def _part(pair: Pair, scales: Scales, indices: np.ndarray) -> tuple[Pair, Scales]:
    """Return the factors and scales of some products of a stack."""
    which = _all_or(indices, pair.stack)
    left, right = (s.reshape(pair.stack, -1)[which].ravel() for s in scales)
    return pair.part(indices), (left, right)


Group = tuple[np.ndarray, Pair, Scales, int | None]
"""Products of equal widths: their indices, their factors, equilibrated or as they are, their scales, and the
bits by which norm scales are widened; None where the scales are not of norms."""


def _groups(pair: Pair) -> Iterator[Group]:
    """Yield the products of a stack by their widths."""
    request, count = pair.request, pair.stack
    if not request.of_norms:
        yield from _of_equal_width(pair, steps.given_scales(pair))
    elif request.accuracy == NORMWISE:
        yield np.arange(count), pair, steps.both_norm_scales(pair), 0
    else:
        left = np.arange(count)
        if pair.a.on_gpu and steps.may_be_decided(pair):
            scales, pending = steps.decided_scales(pair)
            states = pending.wait_for_stack()[:, 0]
            done, left = np.flatnonzero(states < OPEN), np.flatnonzero(states >= OPEN)
            if done.size:
                spare = steps.SPARE_BITS if (states == DECIDED).any() else 0
                yield done, *_part(pair, scales, done), spare
        if left.size:
            data = _StackData(pair.part(left))
            bounds = data.versions[0].bounds.wait_for_stack()
            bits = decide_stack(bounds, pair.length, request.limits, data.answer)
            for number, version in enumerate(data.versions):
                some = np.flatnonzero(data.version == number)
                yield from version.groups(left[some], bits[some], data.position[some])


class _Version:
    """Products of a stack as they came, or equilibrated: their factors, norm scales and bounds."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.scales = steps.both_norm_scales(pair)
        self.bounds: PendingBounds = steps.bounds(pair, self.scales, pair.stack)

    def part(self, positions: np.ndarray) -> tuple[Pair, Scales]:
        """Return the factors and scales of some of the products."""
        return _part(self.pair, self.scales, positions)

    def groups(self, indices: np.ndarray, bits: np.ndarray, positions: np.ndarray) -> Iterator[Group]:
        """Yield the products by the bits that their integers grow by."""
        for width in np.unique(bits[bits <= WIDENED_IN_ALL]).tolist():
            some = bits == width
            pair, (left, right) = self.part(positions[some])
            yield indices[some], pair, (widened(left, width), widened(right, width)), width
        if (much := bits > WIDENED_IN_ALL).any():
            pair, scales = self.part(positions[much])
            xp, more = namespace(pair.a.matrix), bits[much].astype(np.int32)
            # No integer needs to be wider than it takes to lose nothing.
            of_a, of_b = (
                xp.minimum(s + xp.asarray(np.repeat(more, x.rows // x.stack)), x.exact_scales)
                for s, x in zip(scales, (pair.a, pair.b), strict=True)
            )
            for part, factors, of_factors, _ in _of_equal_width(pair, (of_a, of_b)):
                yield indices[much][part], factors, of_factors, None


class _StackData:
    """The products of a stack, which answer their decisions' questions together.

    Attributes
    ----------
    versions : the products as they came and, once some have been equilibrated, those.
    version, position : of each product, its latest version, and its index there.
    """

    def __init__(self, pair: Pair) -> None:
        self.versions = [_Version(pair)]
        self.version, self.position = np.zeros(pair.stack, np.int64), np.arange(pair.stack)

    def answer(self, question: Ask, products: np.ndarray) -> Sequence[Any]:
        """Answer a question that all these products ask."""
        if question is Ask.EQUILIBRATE:
            return self._equilibrate(products)
        answers: dict[int, Any] = {}
        for number, version in enumerate(self.versions):
            some = products[self.version[products] == number]
            positions = self.position[some]
            if question is Ask.PAIRS:
                of_version: Sequence[Any] = _pairwise(version, positions)
            else:
                numbers, length = version.bounds.wait_for_stack(), version.pair.length
                of_version = [Bounds.of(x, length) for x in numbers[positions].tolist()]
            answers.update(zip(some.tolist(), of_version, strict=True))
        return [answers[i] for i in products.tolist()]

    def _equilibrate(self, products: np.ndarray) -> Sequence[bool]:
        """Equilibrate those that gain by it, and return which they are."""
        pair, scales = self.versions[0].part(products)
        equilibration = steps.equilibrated(pair, scales, steps.inner_exponents(pair, scales))
        if equilibration is None:
            return [False] * len(products)
        indices, equilibrated = equilibration
        self.versions.append(_Version(equilibrated))
        self.version[products[indices]] = 1
        self.position[products[indices]] = np.arange(len(indices))
        return (self.version[products] == 1).tolist()


def _of_equal_width(pair: Pair, scales: Scales) -> Iterator[Group]:
    """Yield the products of given scales in groups that take about as many moduli."""
    bounds = steps.bounds(pair, scales, pair.stack).wait_for_stack()
    moduli = log2_product(bounds[:, 3:5], pair.length) // BITS_OF_A_GROUP
    for count in np.unique(moduli):
        indices = np.flatnonzero(moduli == count)
        yield indices, *_part(pair, scales, indices), None


def _pairwise(version: _Version, positions: np.ndarray) -> list[PairwiseBound]:
    """Return the pairwise bounds of some products of a stack."""
    pair = version.pair
    a, b = pair.a, pair.b
    # Not by the request's engine, which may have no fp64 words.
    scheme, engine = Magnitudes(len(a.parts), "fp64"), get_engine("auto", a.matrix)
    bytes_each = one_panel_bytes(scheme, pair.shape)
    at_once, bounds = max(1, pair.request.workspace // bytes_each), list[PairwiseBound]()
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
        compared = [compare_pairs(component, of_a, of_b, pair.length) for component in y[:, 0]]
        error, ratio = (
            namespace(y).max(namespace(y).stack(x), axis=(0, 2, 3)) for x in zip(*compared, strict=True)
        )
        bounds += zip(error.tolist(), ratio.tolist(), strict=True)
    return bounds


def _group_product(pair: Pair, scales: Scales, bits: int | None) -> Array:
    """Return the (s, m, n) products of a group, in parts that fit the workspace, or else in panels."""
    s, (m, k, n), request = pair.stack, pair.shape, pair.request
    dtype, xp = pair.a.matrix.dtype, namespace(pair.a.matrix)
    if bits is None:
        scaled = steps.bounded(pair, scales, steps.bounds(pair, scales).wait())
    else:
        scaled = ScaledProduct(scales, steps.norm_scheme(pair, bits))
    if s * one_panel_bytes(scaled.scheme, (m, k, n)) > request.workspace:
        if s == 1:
            out = xp.empty((m, n), dtype)
            step_by_step(pair, out)
            return out[None]
        left, right = (x.reshape(s, -1) for x in scales)
        parts = [
            _group_product(pair.part(part), (left[part].ravel(), right[part].ravel()), bits)
            for part in (slice(s // 2), slice(s // 2, s))
        ]
        return xp.concatenate(parts)
    if isinstance(request.accuracy, str):
        warn_of_cost(scaled.scheme, steps.norm_scheme(pair), request.accuracy)
    out = xp.empty((s * m, n), dtype)
    steps.execute(pair, scaled, out)
    overwrite_nonfinite(pair.a.parts, pair.b.parts, scales, out, s)
    return out.reshape(s, m, n)
