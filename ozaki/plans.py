"""Plans: what a product will be. Data alone, of which nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from multiword.engines.machine import bandwidth, device_name, rates
from multiword.formats import FORMATS
from ozaki.execution.panels import choose_panels
from ozaki.pipeline import NORMWISE, TARGETS, Request
from ozaki.schemes import Scheme

STEPS = {"cublas": (0.8, 5e-5)}
"""What element-wise steps make of the memory's bandwidth, and the seconds that any call takes."""


@dataclass(frozen=True)
class Plan:
    """What a product will be: the integers, the scheme, the cost and the certified error.

    Print it to see it as a table, with the time that it should take where that is known.

    Attributes
    ----------
    shape : (m, k, n).
    dtype : of the result.
    accuracy : as asked for.
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
        """The plan of a product by a scheme, with this certified error."""
        specification = scheme.specification
        panels = choose_panels(scheme, specification.shape, request.workspace)
        m, _, n = specification.shape
        return cls(
            shape=specification.shape,
            dtype=dtype,
            accuracy=request.accuracy,
            width=specification.widths,
            scheme=scheme.name,
            word=scheme.word,
            engine=request.engine.name,
            pieces=scheme.pieces,
            products=scheme.products,
            panels=-(-m // panels.rows) * -(-n // panels.columns),
            workspace=panels.bytes,
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
        if self.engine not in STEPS or speed is None or copied is None:
            return None
        (m, k, n), item = self.shape, np.dtype(self.dtype).itemsize
        products = speed.seconds(m * k * n, self.products)
        operands = (m + n) * k * (2 * item + self.operand_bytes)  # read for statistics, split, written
        results = m * n * (self.product_bytes + item)
        share, overhead = STEPS[self.engine]
        return overhead + products + (operands + results) / (share * copied)
