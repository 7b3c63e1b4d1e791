"""The plan of a product: its integers and scheme, its cost, and the error that it certifies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from multiword.engines.machine import bandwidth, device_name, rates
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array
from ozaki.certificate.counting import PendingBounds
from ozaki.certificate.decision import counting_error
from ozaki.execution.eager import scale
from ozaki.product import steps
from ozaki.product.factor import Factor
from ozaki.product.request import NORMWISE, TARGETS, Request
from ozaki.scaling.scales import normwise_error
from ozaki.schemes import Scheme
from ozaki.tuning import ELEMENT_WISE

LONGEST_COUNTED = 50
"""Bits up to which the error of a given width is counted: no octave is counted further down."""


@dataclass(frozen=True)
class Plan:
    """What a product will be: the integers, the scheme, the cost and the certified error.

    Print it to see it as a table, with the time that it should take on machines that were measured.

    Attributes
    ----------
    shape : (m, k, n).
    dtype : of the result.
    accuracy : as requested.
    width : bits of the widest integer of A' and of B'.
    scheme, word, engine : how the integers are multiplied.
    pieces : moduli, or slices of A.
    products : low-precision products in all, but for the one that the certificate itself takes on data with
        many zeros or of wide spread.
    panels : how many panels of rows and columns the product is cut into.
    workspace : bytes beyond inputs and output.
    bound : certified max |C - AB| / |A||B|, the final rounding u·|C| apart; for accuracy "normwise", of
        |C - AB|_ij / (‖a_i‖₂‖b_j‖₂), with a_i the rows of A and b_j the columns of B.

    >>> import ozaki
    >>> p = ozaki.plan(np.eye(100), np.eye(100))
    >>> p.scheme, p.engine, p.bound
    ('residues', 'host', 0.0)
    """

    shape: tuple[int, int, int]
    dtype: str
    accuracy: str | int
    width: tuple[int, int]
    scheme: str
    word: str
    engine: str
    pieces: int
    products: int
    panels: int
    workspace: int
    bound: float
    operand_bytes: int = field(repr=False, compare=False)
    product_bytes: int = field(repr=False, compare=False)

    @classmethod
    def of(cls, scheme: Scheme, dtype: str, request: Request, bound: float) -> Plan:
        """Return the plan of a product by a scheme, with this certified error."""
        specification = scheme.specification
        panels = steps.choose_panels(scheme, specification.shape, request.workspace)
        m, _, n = specification.shape
        unsplit = steps.one_panel_bytes(scheme, specification.shape)
        return cls(
            shape=specification.shape,
            dtype=dtype,
            accuracy=request.accuracy,
            width=specification.widths,
            scheme=scheme.name,
            word=str(scheme.word),
            engine=request.engine.name,
            pieces=scheme.pieces,
            products=scheme.products,
            panels=-(-m // panels.rows) * -(-n // panels.columns),
            workspace=unsplit if unsplit <= request.workspace else panels.bytes,
            bound=bound,
            operand_bytes=scheme.operand_bytes(),
            product_bytes=scheme.product_bytes(),
        )

    def __str__(self) -> str:
        m, k, n = self.shape
        unit = FORMATS[TARGETS[self.dtype]].unit_roundoff
        pieces = {"residues": ("modulus", "moduli"), "slices": ("slice", "slices")}[self.scheme]
        named = f"{self.pieces} {pieces[self.pieces != 1]}"
        products = f"{self.products} {self.word} product{'s'[: self.products != 1]}"
        size = "|a_i||b_j|" if self.accuracy == NORMWISE else "|A||B|"
        panels = f"{self.panels} panel{'s'[: self.panels != 1]}"
        rows = [
            ("product", f"{m} x {k} times {k} x {n}, {self.dtype}"),
            ("accuracy", f"{self.accuracy}"),
            ("integers", f"{self.width[0]} and {self.width[1]} bits"),
            ("scheme", f"{self.scheme}: {named}, {products}"),
            ("engine", self.engine),
            ("workspace", f"{self.workspace / 2**20:.1f} MiB in {panels}"),
            ("certified error", f"{self.bound:.2g} {size} ({self.bound / unit:.3g} u), then one rounding"),
        ]
        if (seconds := self.predicted_seconds) is not None:
            rows.append(("predicted time", f"{seconds * 1e3:.3g} ms on this {device_name(self.engine)}"))
        return "\n".join(f"{name:<16} {value}" for name, value in rows)

    @property
    def predicted_seconds(self) -> float | None:
        """What the product should take: None for a model, and for devices without measurements."""
        speed, copied = rates(self.engine, self.word), bandwidth(self.engine)
        if self.engine not in ELEMENT_WISE or speed is None or copied is None:
            return None
        (m, k, n), item = self.shape, np.dtype(self.dtype).itemsize
        products = speed.seconds(m * k * n, self.products)
        operands = (m + n) * k * (2 * item + self.operand_bytes)  # read for statistics, split, written
        results = m * n * (self.product_bytes + item)
        share, overhead = ELEMENT_WISE[self.engine]
        return overhead + products + (operands + results) / (share * copied)


def plan_product(a: Factor, b: Factor, request: Request) -> Plan:
    """Return the plan for a product of factors, neither of them empty, with its certified error."""
    dtype = a.matrix.dtype.name
    if request.accuracy == NORMWISE:
        error = normwise_error(steps.row_limit(a, request), a.length)
        return Plan.of(steps.norm_scheme(a, b, request), dtype, request, error)
    with np.errstate(all="ignore"):  # quotients of empty sums
        if request.certified or request.accuracy == "exact":
            factors, scaled, certificate = scale(a, b, request)
            lossless = certificate is None or _lossless(*factors, scaled.scales)
            certified = 0.0 if certificate is None or lossless else certificate.bound
            return Plan.of(scaled.scheme, dtype, request, certified)
        scales = steps.given_scales(a, b, request)
        pending = steps.bounds(a, b, request, scales)
        scheme = steps.bounded(a, b, request, scales, pending.wait()).scheme
        error = 0.0 if _lossless(a, b, scales) else _error_of_width(a, b, request, pending)
        return Plan.of(scheme, dtype, request, error)


def _error_of_width(a: Factor, b: Factor, request: Request, pending: PendingBounds) -> float:
    """Return the certified error of rows of a requested number of bits."""
    excess = max(0, int(request.accuracy) - LONGEST_COUNTED)  # each bit beyond halves the error
    if excess:
        scales = a.width_scales(LONGEST_COUNTED), b.width_scales(LONGEST_COUNTED)
        pending = steps.bounds(a, b, request, scales)
    error = counting_error(pending.wait(), FORMATS["fp64"])
    if error == math.inf:
        error, _ = steps.pairwise(a, b, request, pending)()
    smallest = float(np.finfo(np.float64).smallest_subnormal)
    return error and max(math.ldexp(error, -excess), smallest)


def _lossless(a: Factor, b: Factor, scales: tuple[Array, Array]) -> bool:
    """Return whether no number of either factor is rounded."""
    return all(bool((s >= x.exact_scales).all()) for s, x in zip(scales, (a, b), strict=True))
