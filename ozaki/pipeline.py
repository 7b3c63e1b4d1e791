"""A product as its steps: scale, split, multiply, reconstruct; the certificate beside them.

    scale        which integers A' and B' stand for A and B: a scale for each row and column; where the inner
                 dimension is graded, for the A·D and D⁻¹·B that it is equilibrated to
    certificate  for "fp64" and "fp32": the proof that they are wide enough, or how many bits are missing;
                 "normwise" has none, and a bound that holds for any data
    split        the integers into words of low precision: residues modulo p_t, or slices
    multiply     the words on an engine, every product exact
    reconstruct  C' = A'B' from the products, and round C'·2**(-s_i - t_j) once

Single products, captured graphs, panels and stacks (`ozaki.execution`) are ways to run these steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from multiword.engines import Engine, reduces_residues
from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.graphs import side_by_side
from multiword.runtime.memory import empty_result
from ozaki.certificate.counted import counted_scales, worth_compiling
from ozaki.certificate.counting import Bounds, PendingBounds, compute_bounds
from ozaki.certificate.decision import (
    WIDENED_IN_ALL,
    Certificate,
    certify_by_counting,
    certify_by_pairs,
    log2_product,
)
from ozaki.certificate.magnitudes import Magnitudes, UnwrittenMagnitudes
from ozaki.certificate.pairwise import PairwiseBound, pairwise_bound
from ozaki.cost import is_costly, warn_of_cost
from ozaki.execution.panels import choose_panels, in_panels, whole_bytes
from ozaki.factor import Factor
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.residues.scheme import Residues
from ozaki.residues.system import INT8_BITS
from ozaki.scaling.equilibration import InnerExponents, equilibrated, inner_exponents
from ozaki.scaling.scales import NORM_LIMITS, NormLimit, norm_limit
from ozaki.schemes import ProductSpecification, Scheme
from ozaki.slices.integer import Slices

TARGETS = {"float64": "fp64", "complex128": "fp64", "float32": "fp32", "complex64": "fp32"}
"""The format that results of each dtype are rounded to."""

SCHEMES = (Residues.name, Slices.name)
"""The schemes that can be asked for."""

CERTIFIED = tuple(NORM_LIMITS)
"""Accuracies that a certificate proves from the data."""

NORMWISE = "normwise"
"""The accuracy whose integers depend on nothing but their own row: nothing is read back from a device."""

# What suits each engine; an engine of someone else's gets fp64 words.
_DEFAULT_WORDS = {
    ("residues", "host"): "fp64",
    ("residues", "cublas"): "int8",
    ("residues", "tensorcore"): "int8",
    ("slices", "host"): "fp64",
    ("slices", "cublas"): "int8",
    ("slices", "tensorcore"): "fp16",
}


class Request(NamedTuple):
    """How a product is asked for.

    Attributes
    ----------
    accuracy : "fp64" or "fp32", "normwise", "exact", or a number of bits.
    scheme, word : as named by the caller; "auto" and None leave the choice to `choose_scheme`.
    engine : where the products run.
    workspace : bytes.
    """

    accuracy: str | int
    scheme: str
    word: str | None
    engine: Engine
    workspace: int

    @property
    def certified(self) -> bool:
        """Whether it is an error that was asked for, which the data decide about."""
        return self.accuracy in CERTIFIED

    @property
    def of_norms(self) -> bool:
        """Whether the integers are those of norm scales, which no other row has a say in, unless widened."""
        return self.certified or self.accuracy == NORMWISE

    @property
    def limits(self) -> Format:
        """The format below whose norm limit magnitudes are counted."""
        return FORMATS[str(self.accuracy) if self.certified else "fp64"]


@dataclass(frozen=True)
class ScaledProduct:
    """A product of integers.

    Attributes
    ----------
    scales : those of the rows of A and of the columns of B.
    scheme : what multiplies the integers.
    nonfinite : whether some rows or columns have an Inf or NaN, or may have.
    """

    scales: tuple[Array, Array]
    scheme: Scheme
    nonfinite: bool = False


Factors = tuple[Factor, Factor]


def product(a: Factor, b: Factor, request: Request) -> Array:
    """RN(AB), to the accuracy asked for, in a new (m, n) array; of a stack, one below the other."""
    scaled = scaled_by_counting(a, b, request)
    if scaled is None:
        (a, b), scaled, _ = scale(a, b, request)
        if isinstance(request.accuracy, str):
            warn_of_cost(scaled.scheme, norm_scheme(a, b, request), request.accuracy)
    out = empty_result(a.matrix, (a.rows, b.rows // b.stack), a.matrix.dtype)
    execute(scaled, a, b, request, out)
    if scaled.nonfinite:
        overwrite_nonfinite(a.parts, b.parts, scaled.scales, out)
    return out


def scaled_by_counting(a: Factor, b: Factor, request: Request) -> ScaledProduct | None:
    """The integers that `scale` returns, compiled: on a CPU, where the counting bound decides about them."""
    single = request.certified and a.stack == 1 and not is_cupy(a.matrix)
    if not single or not worth_compiling(a.rows + b.rows):
        return None
    found = [(x.exponent, x.total, x.square, x.counts) for x in (a.statistics, b.statistics)]
    sums = [np.concatenate(pair, axis=-1) for pair in zip(*found, strict=True)]
    scales, _, (bits,) = counted_scales(sums, a.length, 1, b.rows, str(request.accuracy))
    if bits < 0:
        return None
    limit, bits = row_limit(a, request), int(bits)
    of_a, of_b = scales[: a.rows], scales[a.rows :]
    known = a.known_scales(limit, bits, of_a), b.known_scales(limit, bits, of_b)
    return ScaledProduct(known, norm_scheme(a, b, request, bits))


def scale(a: Factor, b: Factor, request: Request) -> tuple[Factors, ScaledProduct, Certificate | None]:
    """Return the factors, equilibrated or as they are, their integers, and the certificate if that decides.

    A device is waited for, unless the accuracy is "normwise".
    """
    if request.accuracy == NORMWISE:
        return (a, b), replace(norm_scaled(a, b, request), nonfinite=True), None
    if not request.certified:
        return *_scale_given(a, b, request), None
    scales = norm_scaled(a, b, request).scales
    pending = bounds(a, b, request, scales)
    found = pending.wait()
    decided = decide(
        *(a, b, request, scales, found),
        lambda: inner_exponents(a, b, scales),
        lambda: pairwise(a, b, request, pending)(),
    )
    if not isinstance(decided, Certificate):
        return scale(*decided, request)
    scaled = replace(widened_product(a, b, request, decided.bits), nonfinite=found.nonfinite)
    return (a, b), scaled, decided


def decide(
    a: Factor,
    b: Factor,
    request: Request,
    scales: tuple[Array, Array],
    found: Bounds,
    exponents: Callable[[], InnerExponents],
    pairwise_bound: Callable[[], PairwiseBound],
) -> Certificate | Factors:
    """What "fp64" and "fp32" take, from the bounds of norm scales; or A·D and D⁻¹·B, which are to be
    multiplied instead. The rest is asked for where the bounds say that it may save much."""
    counted = certify_by_counting(found, request.limits)
    if not counted.wide:
        return counted
    if not a.equilibrated:
        equilibration = equilibrated(a, b, scales, row_limit(a, request), exponents())
        if equilibration is not None:
            return equilibration[1:]
    return certify_by_pairs(counted, pairwise_bound(), found.length, request.limits)


def _scale_given(a: Factor, b: Factor, request: Request) -> tuple[Factors, ScaledProduct]:
    """The factors and their integers for an accuracy that fixes these.

    "exact" is the same of any factors that have the product: equilibrated ones, where that takes much less.
    """
    scales = given_scales(a, b, request)
    scaled = bounded(a, b, request, scales, bounds(a, b, request, scales).wait())
    exact = request.accuracy == "exact" and not a.equilibrated
    if exact and is_costly(scaled.scheme, norm_scheme(a, b, request)):
        norms = norm_scaled(a, b, request).scales
        equilibration = equilibrated(a, b, norms, row_limit(a, request), inner_exponents(a, b, norms))
        if equilibration is not None:
            factors, other = _scale_given(*equilibration[1:], request)
            if other.scheme.products < scaled.scheme.products:
                return factors, other
    return (a, b), scaled


def widened_product(a: Factor, b: Factor, request: Request, bits: int) -> ScaledProduct:
    """The integers of the norm scales, widened by what a certificate says."""
    if bits <= WIDENED_IN_ALL:
        return norm_scaled(a, b, request, bits)
    scales = wide_scales(a, b, request, bits)
    return bounded(a, b, request, scales, bounds(a, b, request, scales).wait())


def wide_scales(a: Factor, b: Factor, request: Request, bits: int) -> tuple[Array, Array]:
    """The norm scales, widened by more than WIDENED_IN_ALL bits: by no more than it takes to lose nothing."""
    least, scales = namespace(a.matrix).minimum, norm_scaled(a, b, request).scales
    return least(scales[0] + bits, a.exact_scales), least(scales[1] + bits, b.exact_scales)


def execute(scaled: ScaledProduct, a: Factor, b: Factor, request: Request, out: Array) -> None:
    """Split, multiply and reconstruct into `out`; rows and columns with an Inf or NaN come out as zeros."""
    scheme, scales = scaled.scheme, scaled.scales

    def reconstruct(y: Array, rows: slice, columns: slice) -> None:
        scheme.reconstruct(y, (scales[0][rows], scales[1][columns]), out[rows, columns])

    split_whole(scaled, a, b, request)
    in_panels(scheme, a, b, scales, request.engine, request.workspace, reconstruct)


def split_whole(scaled: ScaledProduct, a: Factor, b: Factor, request: Request) -> None:
    """Split both factors as a whole, where that fits the workspace; prepared ones stay so."""
    scheme, padding = scaled.scheme, request.engine.padding
    if a.stack * whole_bytes(scheme, scheme.specification.shape) <= request.workspace:
        side_by_side(
            lambda: a.split_whole(scheme, scaled.scales[0], padding),
            lambda: b.split_whole(scheme, scaled.scales[1], padding),
        )


def norm_scaled(a: Factor, b: Factor, request: Request, bits: int = 0) -> ScaledProduct:
    """The integers of the norm scales, widened by some bits.

    For "fp64" and "fp32", whether they will do is for the certificate to say.
    """
    limit = row_limit(a, request)
    scales = side_by_side(lambda: a.norm_scales(limit, bits), lambda: b.norm_scales(limit, bits))
    return ScaledProduct(scales, norm_scheme(a, b, request, bits))


def row_limit(a: Factor, request: Request) -> NormLimit:
    """The norm limit that the rows of A and the columns of B fill."""
    normwise = request.accuracy == NORMWISE
    return norm_limit(FORMATS[TARGETS[a.matrix.dtype.name]] if normwise else request.limits, a.length)


def norm_scheme(a: Factor, b: Factor, request: Request, bits: int = 0) -> Scheme:
    """What multiplies the integers of the norm scales, widened by some bits: it depends on no number."""
    log2_square = row_limit(a, request).log2 + 2 * bits
    # Rounding to integers adds at most sqrt(k)/2 to a norm.
    log2_c = log2_square + 2 * math.log2(1 + math.sqrt(a.length) * 2.0 ** (-1 - log2_square / 2))
    width = math.floor(log2_square / 2) + 1
    return choose_scheme(_specification(a, b, (width, width), log2_c), request)


def given_scales(a: Factor, b: Factor, request: Request) -> tuple[Array, Array]:
    """The scales of an accuracy that fixes the integers: "exact", or a number of bits."""
    if request.accuracy == "exact":
        return a.exact_scales, b.exact_scales
    return a.width_scales(int(request.accuracy)), b.width_scales(int(request.accuracy))


def bounded(
    a: Factor, b: Factor, request: Request, scales: tuple[Array, Array], found: Bounds
) -> ScaledProduct:
    """The integers of given scales, which are as wide as their bounds say."""
    # No number exceeds its row's 2-norm.
    left, right = (math.floor(x / 2 + 2.0**-10) + 1 for x in found.log2_squares)
    scheme = choose_scheme(_specification(a, b, (left, right), log2_product(found)), request)
    return ScaledProduct(scales, scheme, found.nonfinite)


def bounds(
    a: Factor, b: Factor, request: Request, scales: tuple[Array, Array], stack: int = 1
) -> PendingBounds:
    """What the row statistics say of scaled factors, of each product of a stack; nothing is waited for."""
    return compute_bounds((a.statistics, b.statistics), scales, request.limits, stack)


def pairwise(a: Factor, b: Factor, request: Request, pending: PendingBounds) -> Callable[[], PairwiseBound]:
    """The pairwise bound, when it is asked for; on a GPU, nothing is waited for until then."""
    scheme = magnitudes(a, request)
    shape = a.rows, a.k, b.rows
    if is_cupy(a.matrix) and scheme.word == "int8" and reduces_residues(request.engine, shape):
        unwritten = UnwrittenMagnitudes(len(a.parts), "int8")
        if choose_panels(unwritten, shape, request.workspace).k_block >= a.k:
            scheme = unwritten

    def multiply(scales: tuple[Array, Array], use: Callable[[Array, slice, slice], None]) -> None:
        in_panels(scheme, a, b, scales, request.engine, request.workspace, use)

    return pairwise_bound(pending.rows, a.length, multiply)


def magnitudes(a: Factor, request: Request) -> Magnitudes:
    """What multiplies the magnitudes of a pairwise bound, and writes the products."""
    engine = request.engine
    word = "fp64" if engine.name == "host" or "int8" not in engine.products else "int8"
    return Magnitudes(len(a.parts), word)


def choose_scheme(specification: ProductSpecification, request: Request) -> Scheme:
    """Return the scheme by name, "auto" being residues, on the word that suits the engine."""
    name = "residues" if request.scheme == "auto" else request.scheme
    engine = request.engine.name
    word = request.word or _DEFAULT_WORDS.get((name, engine), "fp64")
    if name == "slices":
        return Slices(specification, word)
    if word == "int8" and specification.bits > INT8_BITS:
        word = "fp64"
    if word not in ("int8", "fp64"):
        raise ValueError(f"residues are carried by int8 or fp64 words, not {word!r}")
    reduced = word == "int8" and reduces_residues(request.engine, specification.shape)
    return Residues(specification, word, engine == "host", reduced)


def _specification(a: Factor, b: Factor, widths: tuple[int, int], log2_c: float) -> ProductSpecification:
    shape = a.rows // a.stack, a.k, b.rows // b.stack
    target = FORMATS[TARGETS[a.matrix.dtype.name]]
    return ProductSpecification(shape, a.stack, len(a.parts), widths, log2_c, target)
