"""The steps of a product: every way to run one (`ozaki.execution`, `ozaki.dask`) calls these.

scale        which integers A' and B' stand for A and B: a scale for each row and column; where the inner
             dimension is graded, for the A·D and D⁻¹·B that it is equilibrated to
certificate  for "fp64" and "fp32": the proof that they are wide enough, or how many bits are missing
             (`ozaki.certificate.decision`); "normwise" has a bound that holds for any data
split        the integers into words of low precision: residues modulo p_t, or slices
multiply     the words on an engine, every product exact
reconstruct  C' = A'B' from the products, and round C'·2**(-s_i - t_j) once
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from multiword.engines import declared, get_word, multiplies_int8, prefers_residues
from multiword.formats import Format
from multiword.runtime.arrays import Array, is_cupy, namespace, real_parts
from multiword.runtime.graphs import side_by_side
from multiword.runtime.parallel import over_rows
from ozaki.certificate import small
from ozaki.certificate.counting import Bounds, PendingBounds, PendingNumbers, compute_bounds
from ozaki.certificate.decision import log2_product
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import PairwiseBound, pairwise_bound
from ozaki.certificate.small import are_small, scales_and_bounds
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.definition.scales import NormLimit
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.product.by_norms import split_by_norms
from ozaki.product.cost import is_costly
from ozaki.product.limbs import in_limbs
from ozaki.product.pair import Pair
from ozaki.product.panels import STEP_BYTES, choose_panels, fits, in_panels, one_panel_bytes
from ozaki.product.request import Request
from ozaki.residues.scheme import Residues
from ozaki.scaling.equilibration import InnerExponents, column_shifts, is_graded
from ozaki.scaling.equilibration import inner_exponents as exponents_of_parts
from ozaki.scaling.equilibration import is_level as are_level
from ozaki.scaling.scales import norm_limit
from ozaki.schemes import ProductSpecification, Scheme
from ozaki.slices.integer import Slices
from ozaki.tuning import MIRRORED_NUMBERS

Scales = tuple[Array, Array]
"""The scales of the rows of A and of the columns of B."""


@dataclass(frozen=True)
class ScaledProduct:
    """The integers of a product, and the scheme that multiplies them.

    Attributes
    ----------
    scales : those of the rows of A and of the columns of B.
    scheme : multiplies the integers.
    nonfinite : whether some rows or columns have an Inf or NaN, or may have.
    """

    scales: Scales
    scheme: Scheme
    nonfinite: bool = False


# scale ----------------------------------------------------------------------------------------------


def row_limit(pair: Pair) -> NormLimit:
    """Return the norm limit that the rows of A and the columns of B fill."""
    return norm_limit(pair.request.norm_format(pair.a.matrix.dtype), pair.length)


def both_norm_scales(pair: Pair, bits: int = 0) -> Scales:
    """Return the norm scales, widened by some bits."""
    a, b, limit = pair.a, pair.b, row_limit(pair)
    if pair.symmetric:  # statistics are those of magnitudes
        scale = a.norm_scales(limit, bits)
        b.statistics = a.statistics
        return scale, b.cached_norm_scales(limit, bits, scale)
    return side_by_side(lambda: a.norm_scales(limit, bits), lambda: b.norm_scales(limit, bits))


def norm_scaled(pair: Pair, bits: int = 0) -> ScaledProduct:
    """Return the integers of the norm scales, widened by some bits: enough if a certificate says so."""
    return ScaledProduct(both_norm_scales(pair, bits), norm_scheme(pair, bits))


def norm_scheme(pair: Pair, bits: int = 0) -> Scheme:
    """Return the scheme for the integers of the norm scales, widened by some bits: it depends on no data."""
    width, log2_c = norm_widths(row_limit(pair), pair.length, bits)
    return choose_scheme(_specification(pair, (width, width), log2_c), pair.request)


def norm_widths(limit: NormLimit, length: int, bits: int) -> tuple[int, float]:
    """Return the bits of integers of the norm scales, widened by some, and those of their products."""
    log2_square = limit.log2 + 2 * bits
    # Rounding to integers adds at most sqrt(k)/2 to a norm.
    log2_c = log2_square + 2 * math.log2(1 + math.sqrt(length) * 2.0 ** (-1 - log2_square / 2))
    return math.floor(log2_square / 2) + 1, log2_c


def widened_product(pair: Pair, bits: int) -> ScaledProduct:
    """Return the integers of the norm scales, widened by the bits of a certificate."""
    if bits <= WIDENED_IN_ALL:
        return norm_scaled(pair, bits)
    scales = wide_scales(pair, bits)
    return bounded(pair, scales, bounds(pair, scales).wait())


def wide_scales(pair: Pair, bits: int) -> Scales:
    """Return norm scales widened by more than WIDENED_IN_ALL bits, but only until nothing is lost."""
    least, scales = namespace(pair.a.matrix).minimum, both_norm_scales(pair)
    return least(scales[0] + bits, pair.a.exact_scales), least(scales[1] + bits, pair.b.exact_scales)


def given_scales(pair: Pair) -> Scales:
    """Return the scales of an accuracy that fixes the integers: "exact", or a number of bits."""
    accuracy = pair.request.accuracy
    if accuracy == "exact":
        return pair.a.exact_scales, pair.b.exact_scales
    return pair.a.width_scales(int(accuracy)), pair.b.width_scales(int(accuracy))


def bounded(pair: Pair, scales: Scales, bounds: Bounds) -> ScaledProduct:
    """Return the integers of given scales, as wide as their bounds say."""
    # No number exceeds its row's 2-norm; and 127/128 is above 2**-(2**-6).
    left, right = (math.floor(x / 2 + 2.0**-6) + 1 for x in bounds.log2_squares)
    log2_c = float(log2_product(bounds.log2_squares, bounds.length))
    scheme = choose_scheme(_specification(pair, (left, right), log2_c), pair.request)
    return ScaledProduct(scales, scheme, bounds.nonfinite)


def choose_scheme(specification: ProductSpecification, request: Request) -> Scheme:
    """Return the scheme by name, "auto" being residues, on the word that suits the engine."""
    name = "residues" if request.scheme == "auto" else request.scheme
    named = request.word or declared(request.engine, "default_words").get(name, "fp64")
    word = get_word(named, declared(request.engine, "words"))
    if name == "slices":
        return Slices(specification, word)
    converted = declared(request.engine, "carrier")(word) is not None
    if request.word is None and converted:
        sizes = specification.shape, specification.parts, specification.target.precision
        preferred = prefers_residues(request.engine, named, *sizes)
        # Bytes are filled up to whole tiles, for which a small workspace may have no room.
        roomy = request.workspace >= STEP_BYTES or fits(
            Residues(specification, word, request.engine), specification.shape, request.workspace
        )
        word = word if preferred and roomy else get_word("fp64")
    return Residues(specification, word, request.engine)


def _specification(pair: Pair, widths: tuple[int, int], log2_c: float) -> ProductSpecification:
    target = pair.request.target_of(pair.a.matrix.dtype)
    return ProductSpecification(pair.shape, pair.stack, len(pair.a.parts), widths, log2_c, target)


# certificate ----------------------------------------------------------------------------------------


def scales_at_once(pair: Pair, wider: int | None = None) -> tuple[Scales, PendingNumbers | None] | None:
    """Return the norm scales and, if a certificate is wanted, their bounds, by one launch on a GPU.

    Where the lengths of rows allow it, that launch splits the factors, too; scales, bounds and words are then
    kept in the factors. Of small factors only the scales are kept. Return None where neither launch takes the
    product. With `wider` bits of integers, the launch also leaves what a pairwise bound
    needs of the factors, or nothing is launched.
    """
    if pair.symmetric or pair.prepared:
        return None
    a, b, request = pair.a, pair.b, pair.request
    bits, paired = wider or 0, wider is not None
    parts, limit, scheme = (a.parts, b.parts), row_limit(pair), norm_scheme(pair, bits)
    suits = not paired or magnitudes(pair).word.name == "int8"
    if isinstance(scheme, Residues) and pair.stack == 1 and suits and _is_split_once(scheme, request):
        limits, width = request.limits if request.certified else None, scheme.specification.widths[0]
        split = split_by_norms(parts, limit, limits, scheme.system, request.engine.padding, width, wider)
        if split is not None:
            of_a, of_b, of_both = split
            a.keep(of_a, scheme, limit, bits)
            b.keep(of_b, scheme, limit, bits)
            return (of_a.scales, of_b.scales), of_both
    if paired or not request.certified or not are_small(parts, pair.stack):
        return None
    scales, pending = scales_and_bounds(parts, request.limits, pair.stack)
    return tuple(x.cached_norm_scales(limit, 0, s) for x, s in zip((a, b), scales, strict=True)), pending


SPARE_BITS = 22
"""Bits by which integers may be wider than those of norm scales where a GPU decides."""


def may_be_decided(pair: Pair) -> bool:
    """Return whether a GPU itself can decide what such products take."""
    return small.may_be_decided((pair.a.parts, pair.b.parts), pair.stack)


def decided_scales(pair: Pair) -> tuple[Scales, PendingNumbers]:
    """Return norm scales or, of products of which a GPU decides, those that they take; and bounds."""
    return scales_and_bounds((pair.a.parts, pair.b.parts), pair.request.limits, pair.stack, SPARE_BITS)


def bounds(pair: Pair, scales: Scales, stack: int = 1) -> PendingBounds:
    """Return the bounds of scaled factors, of each product of a stack; nothing is waited for."""
    return compute_bounds((pair.a.statistics, pair.b.statistics), scales, pair.request.limits, stack)


def inner_exponents(pair: Pair, scales: Scales) -> InnerExponents:
    """Return the largest exponents along the inner dimension; nothing is waited for."""
    return exponents_of_parts((pair.a.parts, pair.b.parts), scales, pair.stack)


def is_level(pair: Pair, scales: Scales) -> Callable[[], bool]:
    """Return a function that waits, and says whether a few rows prove that nothing gains by equilibration."""
    return are_level((pair.a.parts, pair.b.parts), scales, row_limit(pair))


def equilibrated(pair: Pair, scales: Scales, exponents: InnerExponents) -> tuple[np.ndarray, Pair] | None:
    """Return the rising indices of the products of a stack that gain by equilibration, their A·D and D⁻¹·B.

    None if there are none. The scales, and the exponents with them, are those of the norm limit.
    """
    indices = np.flatnonzero(is_graded(exponents.on_host(), pair.length, row_limit(pair)))
    if not indices.size:
        return None
    which = slice(None) if len(indices) == pair.stack else indices  # a slice is a view on a GPU
    of_a, of_b = (s.reshape(pair.stack, -1)[which].ravel() for s in scales)
    shifts = column_shifts(exponents.of_a, exponents.of_b, exponents.sums)[which]
    a, b = pair.a.part(indices), pair.b.part(indices)
    left, exact_left = a.shifted(of_a, shifts)
    right, exact_right = b.shifted(of_b, -shifts)
    exact = np.flatnonzero(exact_left() & exact_right())
    if not exact.size:
        return None
    return indices[exact], pair.equilibrated_to(left.part(exact), right.part(exact))


def magnitudes(pair: Pair) -> Magnitudes:
    """Return the scheme for the magnitudes of a pairwise bound."""
    word = "int8" if multiplies_int8(pair.request.engine, pair.shape) else "fp32"
    return Magnitudes(len(pair.a.parts), word)


def pairwise(pair: Pair, pending: PendingBounds) -> Callable[[], PairwiseBound]:
    """Launch the pairwise bound, and return a function that waits for it."""
    scheme = magnitudes(pair)

    def multiply(scales: Scales, use: Callable[[Array, slice, slice], None]) -> None:
        in_panels(scheme, pair, scales, use)

    return pairwise_bound(pending.rows, pair.length, multiply)


# split, multiply, reconstruct -----------------------------------------------------------------------


def split_once(pair: Pair, scaled: ScaledProduct, bounds: PendingBounds | None = None) -> None:
    """Split both factors once, not by panels, where that fits the workspace; prepared ones stay split.

    With the bounds of rows, a GPU truncates them to the magnitudes of a pairwise bound by the same launch.
    """
    a, b, request = pair.a, pair.b, pair.request
    scheme, padding = halved(pair, scaled)[0], request.engine.padding
    if not _is_split_once(scheme, request):
        return
    if scheme.shares_words:
        b.split_once(scheme, scaled.scales[1], padding)
        return
    truncate_by: tuple[Array | None, Array | None] = (None, None)
    if bounds is not None and _may_truncate(pair, scheme):
        truncate_by = bounds.rows[0].truncation_scale, bounds.rows[1].truncation_scale
    side_by_side(
        lambda: a.split_once(scheme, scaled.scales[0], padding, truncate_by[0]),
        lambda: b.split_once(scheme, scaled.scales[1], padding, truncate_by[1]),
    )


def _may_truncate(pair: Pair, scheme: Scheme) -> bool:
    """Return whether the launch that splits a factor may leave the magnitudes that `pairwise` multiplies."""
    if not pair.a.on_gpu or not isinstance(scheme, Residues):
        return False
    of_pairs = magnitudes(pair)
    in_bytes = scheme.word.name == of_pairs.word.name == "int8"
    # Complex rows of magnitudes, a part beside the other, cannot be cut along k.
    return in_bytes and not (pair.symmetric or pair.prepared) and pair.a.k <= of_pairs.k_block


def _is_split_once(scheme: Scheme, request: Request) -> bool:
    """Return whether a product is not of limbs, and fits the workspace as one panel."""
    specification = scheme.specification
    whole = specification.stack * one_panel_bytes(scheme, specification.shape)
    return whole <= request.workspace and in_limbs(specification, request) is None


def execute(pair: Pair, scaled: ScaledProduct, out: Array) -> None:
    """Split, multiply and reconstruct into `out`; rows and columns with an Inf or NaN come out as zeros.

    A symmetric product is computed on and below the diagonal, and copied from there.
    """
    scales = scaled.scales
    if (limbs := in_limbs(scaled.scheme.specification, pair.request)) is not None:
        limbs.multiply(pair.a, pair.b, scales, out)
        return
    scheme, by_panels = halved(pair, scaled)

    def reconstruct(y: Array, rows: slice, columns: slice) -> None:
        scheme.reconstruct(y, (scales[0][rows], scales[1][columns]), out[rows, columns])
        if by_panels:
            below = slice(max(rows.start, columns.stop), rows.stop)
            _put_conjugate(out[below, columns], out[columns, below])

    split_once(pair, scaled)
    in_panels(scheme, pair, scales, reconstruct, by_panels)


def halved(pair: Pair, scaled: ScaledProduct) -> tuple[Scheme, bool]:
    """Return the scheme, one that computes half of a symmetric product where its engine does so by itself,
    and whether half of its panels are to be left out instead."""
    scheme = scaled.scheme
    if not (pair.symmetric and _may_be_mirrored(pair.a.matrix, scaled.scales, scheme.specification.target)):
        return scheme, False
    if isinstance(scheme, Residues) and _engine_mirrors(scheme, pair.a.rows, pair.request.workspace):
        return scheme.of_half(), False
    return scheme, True


def is_in_half_its_panels(pair: Pair, scheme: Scheme) -> bool:
    """Return whether `execute` leaves out half of the panels of a product on a GPU."""
    if not pair.symmetric or pair.a.matrix.dtype.kind == "c":
        return False
    by_engine = isinstance(scheme, Residues) and _engine_mirrors(scheme, pair.a.rows, pair.request.workspace)
    return not by_engine


def _may_be_mirrored(x: Array, scales: Scales, target: Format) -> bool:
    """Return whether a product is real, or no number but 0 is rounded to 0; on a GPU that is not asked.

    The conjugate of an imaginary part that is 0 is 0, and of one that underflows to 0 is -0.
    """
    if x.dtype.kind != "c":
        return True
    return not is_cupy(x) and bool(scales[0].max() + scales[1].max() < target.precision - target.emin)


def _engine_mirrors(scheme: Residues, n: int, workspace: int) -> bool:
    """Return whether an engine is given all of a symmetric product at once, and leaves out half by itself."""
    if not scheme.mirrors:
        return False
    panels = choose_panels(scheme, scheme.specification.shape, workspace)
    return (panels.rows, panels.columns) == (n, n)


def _put_conjugate(x: Array, out: Array) -> None:
    """Write the conjugate transpose, or that of real numbers, to `out`; zeros stay positive.

    Square blocks stay in the cache; a GPU's kernels need none.
    """

    def work(rows: slice) -> None:
        for part, target, sign in zip(real_parts(x), real_parts(out), (1, -1), strict=False):
            turned = part[rows].T
            target[:, rows] = turned if sign > 0 else 0.0 - turned

    if is_cupy(x):
        work(slice(None))
    else:
        over_rows(work, x.shape[0], x.shape[1], MIRRORED_NUMBERS)


# Steps that have files of their own.
__all__ = ["Residues", "choose_panels", "in_limbs", "is_costly", "one_panel_bytes", "overwrite_nonfinite"]
