"""Plans: what a product will be, decided before it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from multiword.engines import Engine, get_product
from multiword.engines.machine import bandwidth, device_name, rates
from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.graphs import side_by_side
from ozaki.certificate import decision as certificate
from ozaki.certificate.counting import Evidence, Reading, gather
from ozaki.certificate.pairwise import THOROUGH, Found, look
from ozaki.operand import Operand
from ozaki.residues import products as residue_products
from ozaki.scaling.scales import NORM_LIMITS, norm_limit
from ozaki.schemes import Residues, Scheme, Slices, Task, choose_panels, exact_product, whole_bytes

TARGETS = {"float64": "fp64", "complex128": "fp64", "float32": "fp32", "complex64": "fp32"}
"""The format that results of each dtype are rounded to."""

LOOKED_AT = 50
"""Bits up to which a given width's error is looked for."""

STEPS = {"cublas": (0.8, 5e-5), "host": (0.06, 3e-4)}
"""What element-wise steps make of the memory's bandwidth, and the seconds that any call takes."""

# What suits each engine; an engine of someone else's gets fp64 words.
_DEFAULT_WORDS = {
    ("residues", "host"): "fp64",
    ("residues", "cublas"): "int8",
    ("residues", "tensorcore"): "int8",
    ("slices", "host"): "fp64",
    ("slices", "cublas"): "int8",
    ("slices", "tensorcore"): "fp16",
}


@dataclass(frozen=True)
class Plan:
    """What a product will be: the integers, the scheme, the cost and the certified error.

    Print it to see it as a table, with the time that it should take on this machine.

    Attributes
    ----------
    shape : (m, k, n).
    dtype : of the result.
    accuracy : as asked for.
    width : bits of the widest integer of A' and of B'.
    scheme, word, engine : how the integers are multiplied.
    pieces : moduli, or slices of A.
    products : low-precision products in all, but for the one (or six, if some rows and columns have few
        numbers in common) that the certificate itself takes on data with many zeros or of wide spread.
    panels : how many panels of rows and columns the product is cut into.
    workspace : bytes beyond inputs and output.
    bound : certified max |C - AB| / |A||B|, the final rounding u·|C| apart.

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
    steps: Scheme = field(repr=False, compare=False)
    scales: tuple[Array, Array] = field(repr=False, compare=False)
    nonfinite: bool = field(repr=False, compare=False)

    def __str__(self) -> str:
        m, k, n = self.shape
        unit = FORMATS[TARGETS[self.dtype]].unit_roundoff
        pieces = {"residues": ("modulus", "moduli"), "slices": ("slice", "slices")}[self.scheme]
        named = f"{self.pieces} {pieces[self.pieces != 1]}"
        products = f"{self.products} {self.word} product{'s'[: self.products != 1]}"
        rows = [
            ("product", f"{m} x {k} times {k} x {n}, {self.dtype}"),
            ("accuracy", f"{self.accuracy}"),
            ("integers", f"{self.width[0]} and {self.width[1]} bits"),
            ("scheme", f"{self.scheme}: {named}, {products}"),
            ("engine", self.engine),
            (
                "workspace",
                f"{self.workspace / 2**20:.1f} MiB in {self.panels} panel{'s'[: self.panels != 1]}",
            ),
            ("certified error", f"{self.bound:.2g} |A||B| ({self.bound / unit:.3g} u), then one rounding"),
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
        result = get_product(self.word).result.itemsize
        operands = (m + n) * k * (2 * item + self.steps.operand_bytes())  # measured, split, written
        results = m * n * (self.products * result + item)
        share, overhead = STEPS[self.engine]
        return overhead + products + (operands + results) / (share * copied)


@dataclass(frozen=True)
class Options:
    """How a product is asked for.

    Attributes
    ----------
    accuracy : "fp64" or "fp32", "exact", or a number of bits.
    scheme, word : as named by the caller; "auto" and None leave the choice to `choose_scheme`.
    engine : where the products run.
    workspace : bytes.
    """

    accuracy: str | int
    scheme: str
    word: str | None
    engine: Engine
    workspace: int


def make_plan(a: Operand, b: Operand, options: Options, computed: bool = False) -> Plan:
    """Return the plan for a product of operands, neither of them empty.

    If it is to be `computed`, operands on a GPU are split while the certificate is on its way from
    there (it rarely asks for more bits), and no error is looked for that nobody will see.
    """
    with np.errstate(all="ignore"):  # divisions by empty sums are looked at, and meant
        if options.accuracy not in NORM_LIMITS:
            return _fixed_plan(a, b, options, certify=not computed)
        reading, plan = measured(a, b, options), norm_plan(a, b, options)
        # A prepared operand that is split for other scales will probably need those again.
        at_hand = (not x.nbytes or x.held(plan.steps, plan.scales[x.side]) is not None for x in (a, b))
        if computed and is_cupy(a.matrix) and all(at_hand):
            split_whole(plan, a, b, options)
        evidence, limits = reading.wait(), FORMATS[str(options.accuracy)]
        told = certificate.verdict(
            evidence, limits, lambda depths: looked_at(a, b, reading, depths, options)()
        )
        if told.bits <= certificate.WIDEST:
            plan = norm_plan(a, b, options, told.bits) if told.bits else plan
            bound = told.bound if computed or not _lossless(a, b, plan.scales) else 0.0
            return replace(plan, bound=bound, nonfinite=evidence.nonfinite)
        least = namespace(a.matrix).minimum
        scales = (
            least(plan.scales[0] + told.bits, a.exact_scales),
            least(plan.scales[1] + told.bits, b.exact_scales),
        )
        return _plan_for(a, b, options, scales, _reading(a, b, scales, limits).wait(), None, told.bound)


def _fixed_plan(a: Operand, b: Operand, options: Options, certify: bool) -> Plan:
    """The plan for an accuracy that fixes the integers; its error is looked for where asked."""
    limits = FORMATS["fp64"]
    if options.accuracy == "exact":
        scales = a.exact_scales, b.exact_scales
        return _plan_for(a, b, options, scales, _reading(a, b, scales, limits).wait(), None, 0.0)
    bits = int(options.accuracy)
    scales = a.width(bits), b.width(bits)
    reading = _reading(a, b, scales, limits)
    evidence = reading.wait()
    plan = _plan_for(a, b, options, scales, evidence, None, math.nan)
    if not certify:
        return plan
    if _lossless(a, b, scales):
        return replace(plan, bound=0.0)
    # Looked at with no more bits than magnitudes are counted to, and each bit beyond halves the error.
    excess = max(0, bits - LOOKED_AT)
    if excess:
        scales = a.width(LOOKED_AT), b.width(LOOKED_AT)
        reading = _reading(a, b, scales, limits)
        evidence = reading.wait()
    bound = certificate.first_stage(evidence, limits)
    if bound == math.inf:
        bound, _ = looked_at(a, b, reading, THOROUGH, options)()
    smallest = float(np.finfo(np.float64).smallest_subnormal)
    return replace(plan, bound=bound and max(math.ldexp(bound, -excess), smallest))


def _lossless(a: Operand, b: Operand, scales: tuple[Array, Array]) -> bool:
    """Whether no element of either is rounded."""
    return all(bool((s >= x.exact_scales).all()) for s, x in zip(scales, (a, b), strict=True))


def _reading(a: Operand, b: Operand, scales: tuple[Array, Array], limits: Format) -> Reading:
    """What the certificate needs to know of given scales."""
    return gather((a.profile, b.profile), limits, scales)


def measured(a: Operand, b: Operand, options: Options) -> Reading:
    """What the certificate needs to know of the norm scales; on a GPU, nothing is waited for."""
    return gather((a.profile, b.profile), FORMATS[str(options.accuracy)])


def looked_at(
    a: Operand, b: Operand, reading: Reading, depths: tuple[int, ...], options: Options
) -> Callable[[], Found]:
    """What a look at all pairs finds, when it is asked for; on a GPU, nothing is waited for until then."""
    return look(a, b, reading.sides, depths, options.engine, options.workspace)


def norm_plan(a: Operand, b: Operand, options: Options, bits: int = 0) -> Plan:
    """The plan with the norm scales, widened by some bits: it depends on no number of the data.

    Whether it will do is for the certificate to say.
    """
    name = str(options.accuracy)
    scales = a.norm_scales(name, bits), b.norm_scales(name, bits)
    log2_square = norm_limit(FORMATS[name], a.length).log2 + 2 * bits
    return _plan_for(a, b, options, scales, None, log2_square, math.nan)


def carry_out(plan: Plan, a: Operand, b: Operand, options: Options, out: Array) -> None:
    """Write the product to `out`, an (m, n) array; rows and columns with an Inf or NaN come out as zeros."""
    split_whole(plan, a, b, options)
    exact_product(plan.steps, a, b, plan.scales, options.engine, options.workspace, out)


def split_whole(plan: Plan, a: Operand, b: Operand, options: Options) -> None:
    """Split both operands as a whole, where that fits the workspace; prepared ones stay so."""
    if whole_bytes(plan.steps, plan.shape) <= options.workspace:
        padding = options.engine.padding
        side_by_side(
            lambda: a.split_whole(plan.steps, plan.scales[0], padding),
            lambda: b.split_whole(plan.steps, plan.scales[1], padding),
        )


def _plan_for(
    a: Operand,
    b: Operand,
    options: Options,
    scales: tuple[Array, Array],
    evidence: Evidence | None,
    log2_square: float | None,
    bound: float,
) -> Plan:
    """The plan for given scales: sized by the evidence, or by a norm limit that holds for any data."""
    target = FORMATS[TARGETS[a.matrix.dtype.name]]
    if evidence is None:
        assert log2_square is not None
        # Rounding to integers adds at most sqrt(k)/2 to a norm.
        bits = log2_square + 2 * math.log2(1 + math.sqrt(a.length) * 2.0 ** (-1 - log2_square / 2))
        widths = (math.floor(log2_square / 2) + 1,) * 2
    else:
        bits = certificate.log2_norms(evidence)
        widths = (_width(evidence.log2_squares[0]), _width(evidence.log2_squares[1]))
    task = Task((a.rows, a.depth, b.rows), len(a.parts), widths, bits, target)
    steps = choose_scheme(task, options.scheme, options.word, options.engine)
    panels = choose_panels(steps, task.shape, options.workspace)
    return Plan(
        shape=task.shape,
        dtype=a.matrix.dtype.name,
        accuracy=options.accuracy,
        width=widths,
        scheme=steps.name,
        word=steps.word,
        engine=options.engine.name,
        pieces=steps.pieces,
        products=steps.products,
        panels=-(-task.shape[0] // panels.rows) * -(-task.shape[2] // panels.columns),
        workspace=panels.bytes,
        bound=bound,
        steps=steps,
        scales=scales,
        nonfinite=evidence is not None and evidence.nonfinite,
    )


def choose_scheme(task: Task, scheme: str, word: str | None, engine: Engine) -> Scheme:
    """Return the scheme by name, "auto" being residues, on the word that suits the engine."""
    name = "residues" if scheme == "auto" else scheme
    word = word or _DEFAULT_WORDS.get((name, engine.name), "fp64")
    if name == "residues" and word == "int8" and task.bits > residue_products.INT8_BITS:
        word = "fp64"
    if name == "residues" and word not in ("int8", "fp64"):
        raise ValueError(f"residues are carried by int8 or fp64 words, not {word!r}")
    return Residues(task, word, engine.name == "host") if name == "residues" else Slices(task, word)


def _width(log2_square: float) -> int:
    """Bits of the widest integer: no element exceeds its row's 2-norm."""
    return math.floor(log2_square / 2 + 2.0**-10) + 1
