"""The plan of a product: its integers and scheme, its cost, and the error that it certifies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multiword.engines.machine import bandwidth, device_name, rates
from multiword.formats import FORMATS
from multiword.runtime.arrays import as_array, on_device_of_arrays, on_host
from multiword.runtime.options import exactly
from ozaki.certificate.decision import counting_error
from ozaki.certificate.error_times import ErrorBound, RowErrors
from ozaki.execution.executors import foreseen
from ozaki.product import steps
from ozaki.product.pair import Pair
from ozaki.product.request import NORMWISE
from ozaki.product.scale import bits_of_level_factors, scale
from ozaki.public import public
from ozaki.scaling.scales import normwise_error
from ozaki.schemes import Scheme
from ozaki.tuning import ELEMENT_WISE

LONGEST_COUNTED = 50
"""Bits up to which the error of a given width is counted: no octave is counted further down."""


@public("Plans and prepared operands")
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
    scheme, word, engine : how the integers are multiplied: in "residues" or "slices"; on a GPU, where factors
        are small or have few rows or columns, in "limbs" of 32 bits or of a byte.
    executor : what runs the product, by the names of `ozaki.executor`; where a sum is too near the middle of
        two numbers to be rounded so, the next one does. The scheme is that of "steps", with the same bits.
        Empty where one is asked for by name and declines these numbers.
    others : why each of the others does not, by name.
    pieces : moduli, slices of A, or limbs.
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
    >>> ozaki.plan(np.ones((4096, 3)), np.eye(3)).others["graph"]
    'it computes on a GPU'
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
    executor: str
    others: dict[str, str] = field(repr=False, compare=False)
    operand_bytes: int = field(repr=False, compare=False)
    product_bytes: int = field(repr=False, compare=False)
    _errors: ErrorBound = field(repr=False, compare=False)

    @classmethod
    def of(cls, scheme: Scheme, pair: Pair, bound: float, errors: ErrorBound) -> Plan:
        """Return the plan of a product by a scheme, with this certified error."""
        specification, request = scheme.specification, pair.request
        executor, others = foreseen(pair)
        common: dict[str, Any] = {
            "shape": specification.shape,
            "dtype": pair.a.matrix.dtype.name,
            "executor": executor,
            "others": others,
            "accuracy": request.accuracy,
            "width": specification.widths,
            "engine": request.engine.name,
            "bound": bound,
            "_errors": errors,
        }
        if (limbs := steps.in_limbs(specification, request)) is not None:
            return cls(
                **common,
                scheme="limbs",
                word=limbs.word,
                pieces=limbs.number,
                products=(limbs.number * specification.parts) ** 2,
                panels=1,
                workspace=limbs.workspace,
                operand_bytes=0,
                product_bytes=0,
            )
        panels = steps.choose_panels(scheme, specification.shape, request.workspace)
        m, _, n = specification.shape
        unsplit = steps.one_panel_bytes(scheme, specification.shape)
        return cls(
            **common,
            scheme=scheme.name,
            word=str(scheme.word),
            pieces=scheme.pieces,
            products=scheme.products,
            panels=-(-m // panels.rows) * -(-n // panels.columns),
            workspace=unsplit if unsplit <= request.workspace else panels.bytes,
            operand_bytes=scheme.operand_bytes(),
            product_bytes=scheme.product_bytes(),
        )

    @on_device_of_arrays
    def error_times(self, v: Any, *, rounding: bool = True) -> np.ndarray:
        """Return an upper bound of |C - AB|·|v|, the sums of the errors of C's rows, each times |v_j|.

        It comes from the scales and the norms of the rows of A and the columns of B: m + n steps, not m·n.

        Parameters
        ----------
        v : (n,) array of finite real numbers.
        rounding : whether the last rounding of C is counted, by u·‖a_i‖₂‖b_j‖₂. Without it, C is the exact
            product of the integers, for those who have the product and bound its rounding by u·|C||v|.

        Returns
        -------
        (m,) NumPy array of float64, rounded upwards; Inf for a row of C that may have an Inf or NaN.

        Raises
        ------
        TypeError : v is not real numbers. ValueError : v of another shape, or not finite.

        References
        ----------
        Rump, Verification methods: rigorous results using floating-point arithmetic, section 10 (what such
        bounds are for).

        >>> import numpy as np, ozaki
        >>> a = np.array([[0.1, 0.2], [0.0, 1.0]])
        >>> bool((ozaki.plan(a, a).error_times([1, 1]) < 2e-16).all())
        True
        """
        x = exactly("v", as_array(v, "v"), np.float64)
        if x.shape != (self.shape[2],):
            raise ValueError(f"v must be of shape {(self.shape[2],)}, got {x.shape}")
        weights = np.abs(on_host(x))
        if not np.isfinite(weights).all():
            raise ValueError("v must be finite")
        return self._errors.times(weights, rounding)

    def __str__(self) -> str:
        m, k, n = self.shape
        unit = self._errors.target.unit_roundoff
        pieces = {
            "residues": ("modulus", "moduli"),
            "slices": ("slice", "slices"),
            "limbs": ("limb", "limbs"),
        }[self.scheme]
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
            ("executor", f"{self.executor}{', with the bits of this scheme' * (self.executor == 'floats')}"),
            ("workspace", f"{self.workspace / 2**20:.1f} MiB in {panels}"),
            ("certified error", f"{self.bound:.2g} {size} ({self.bound / unit:.3g} u), then one rounding"),
        ]
        if (seconds := self.predicted_seconds) is not None:
            rows.append(("predicted time", f"{seconds * 1e3:.3g} ms on this {device_name(self.engine)}"))
        return "\n".join(f"{name:<16} {value}" for name, value in rows)

    @property
    def predicted_seconds(self) -> float | None:
        """What the product should take: None for a model, and for devices without measurements."""
        reads = self.word == "int32"  # limbs whose multiplications take no longer than the numbers' reading
        speed, copied = rates(self.engine, "int8" if reads else self.word), bandwidth(self.engine)
        if self.engine not in ELEMENT_WISE or speed is None or copied is None:
            return None
        (m, k, n), item = self.shape, np.dtype(self.dtype).itemsize
        products = 0.0 if reads else speed.seconds(m * k * n, self.products)
        operands = (m + n) * k * (2 * item + self.operand_bytes)  # read for statistics, split, written
        results = m * n * (self.product_bytes + item)
        share, overhead = ELEMENT_WISE[self.engine]
        return overhead + products + (operands + results) / (share * copied)


def plan_product(pair: Pair) -> Plan:
    """Return the plan for a product of factors, neither of them empty, with its certified error."""
    with np.errstate(all="ignore"):  # quotients of empty sums
        multiplied, scaled, certificate = scale(pair)
        request, factors = pair.request, (multiplied.a, multiplied.b)
        rows, columns = (
            RowErrors.of(x.statistics, s, x.exact_scales) for s, x in zip(scaled.scales, factors, strict=True)
        )
        errors = ErrorBound(rows, columns, len(pair.a.parts), pair.request.target_of(pair.a.matrix.dtype))
        if request.accuracy == NORMWISE:
            bound = normwise_error(steps.row_limit(pair), pair.length)
        elif not (rows.error.any() or columns.error.any()):
            bound = 0.0
        else:
            bound = certificate.bound if certificate else _error_of_width(pair)
        if request.certified and not pair.a.on_gpu:
            pair = pair._replace(bits=bits_of_level_factors(pair))
        return Plan.of(scaled.scheme, pair, bound, errors)


def _error_of_width(pair: Pair) -> float:
    """Return the certified error of rows of a requested number of bits."""
    width = int(pair.request.accuracy)
    counted = min(width, LONGEST_COUNTED)  # each bit beyond halves the error
    pending = steps.bounds(pair, (pair.a.width_scales(counted), pair.b.width_scales(counted)))
    error = counting_error(pending.wait(), FORMATS["fp64"])
    if error == math.inf:
        error, _ = steps.pairwise(pair, pending)()
    smallest = float(np.finfo(np.float64).smallest_subnormal)
    return error and max(math.ldexp(error, counted - width), smallest)
