"""Plans: what a product will be, decided before it is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multiword._arrays import Array, namespace
from multiword.engines import Engine
from multiword.formats import FORMATS, Format
from ozaki import _certificate as certificate
from ozaki import _residues
from ozaki._profile import Profile, profile
from ozaki._scales import exact_scales, norm_scales, width_scales
from ozaki._schemes import SCHEMES, Scheme, Task, choose_panels, exact_product

TARGETS = {"float64": "fp64", "complex128": "fp64", "float32": "fp32", "complex64": "fp32"}
"""The format that results of each dtype are rounded to."""

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

    Print it to see it as a table.

    Attributes
    ----------
    shape : (m, k, n).
    dtype : of the result.
    accuracy : as asked for.
    width : bits of the widest integer of A' and of B'.
    scheme, word, engine : how the integers are multiplied.
    pieces : moduli, or slices of A.
    products : low-precision products in all.
    panels : how many panels of rows and columns the product is cut into.
    workspace : bytes beyond inputs and output.
    bound : certified max |C - AB| / |A||B|, the final rounding u·|C| apart.
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
        pieces = {"residues": "moduli", "slices": "slices"}[self.scheme]
        rows = [
            ("product", f"{m} x {k} times {k} x {n}, {self.dtype}"),
            ("accuracy", f"{self.accuracy}"),
            ("integers", f"{self.width[0]} and {self.width[1]} bits"),
            ("scheme", f"{self.scheme}: {self.pieces} {pieces}, {self.products} {self.word} products"),
            ("engine", self.engine),
            (
                "workspace",
                f"{self.workspace / 2**20:.1f} MiB in {self.panels} panel{'s'[: self.panels != 1]}",
            ),
            ("certified error", f"{self.bound:.2g} of |A||B| ({self.bound / unit:.3g} u), and u/1 of |C|"),
        ]
        return "\n".join(f"{name:<16} {value}" for name, value in rows)


def make_plan(
    a: list[Array],
    b: list[Array],
    dtype: Any,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: Engine,
    workspace: int,
) -> Plan:
    """Return the plan for operands given as (m, k) and (n, k) real parts, none of them empty."""
    with np.errstate(all="ignore"):  # divisions by empty sums are looked at, and meant
        return _make_plan(a, b, dtype, accuracy, scheme, word, engine, workspace)


def _make_plan(
    a: list[Array],
    b: list[Array],
    dtype: Any,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: Engine,
    workspace: int,
) -> Plan:
    target = FORMATS[TARGETS[dtype.name]]
    profiles = profile(a), profile(b)

    def product(left: list[Array], right: list[Array]) -> Array:
        return _integer_product(left, right, engine, workspace)

    scales, bound = _scales(a, b, profiles, accuracy, target, product)
    summaries = [certificate.summarize(p, s, target) for p, s in zip(profiles, scales, strict=True)]
    task = Task(
        shape=(a[0].shape[0], a[0].shape[1], b[0].shape[0]),
        parts=len(a),
        widths=(_width(summaries[0]), _width(summaries[1])),
        bits=certificate.log2_norms(*summaries),
        target=target,
    )
    steps = choose_scheme(task, scheme, word, engine)
    panels = choose_panels(steps, task.shape, workspace)
    return Plan(
        shape=task.shape,
        dtype=dtype.name,
        accuracy=accuracy,
        width=task.widths,
        scheme=steps.name,
        word=steps.word,
        engine=engine.name,
        pieces=steps.pieces,
        products=steps.products,
        panels=-(-task.shape[0] // panels.rows) * -(-task.shape[2] // panels.columns),
        workspace=panels.bytes,
        bound=bound,
        steps=steps,
        scales=scales,
        nonfinite=any(s.nonfinite for s in summaries),
    )


def choose_scheme(task: Task, scheme: str, word: str | None, engine: Engine) -> Scheme:
    """Return the scheme by name, "auto" being residues, on the word that suits the engine."""
    name = "residues" if scheme == "auto" else scheme
    word = word or _DEFAULT_WORDS[name, engine.name]
    if name == "residues" and word == "int8" and task.bits > _residues.INT8_BITS:
        word = "fp64"
    if name == "residues" and word not in ("int8", "fp64"):
        raise ValueError(f"residues are carried by int8 or fp64 words, not {word!r}")
    return SCHEMES[name](task, word)


def _scales(
    a: list[Array],
    b: list[Array],
    profiles: tuple[Profile, Profile],
    accuracy: str | int,
    target: Format,
    product: certificate.ExactProduct,
) -> tuple[tuple[Array, Array], float]:
    """The scales that an accuracy asks for, and the certified error."""
    if accuracy == "exact":
        return (exact_scales(a), exact_scales(b)), 0.0
    if isinstance(accuracy, int):
        scales = width_scales(profiles[0], accuracy), width_scales(profiles[1], accuracy)
    else:
        scales = norm_scales(profiles[0], target), norm_scales(profiles[1], target)
    summary_a, summary_b = (
        certificate.summarize(p, s, target) for p, s in zip(profiles, scales, strict=True)
    )
    bound = certificate.first_stage(summary_a, summary_b, target)
    tolerance = certificate.first_tolerance(profiles[0].length, target)
    if isinstance(accuracy, int) or bound <= tolerance:
        return scales, bound
    return certificate.second_stage(a, b, scales, profiles, target, product)


def _width(summary: certificate.Summary) -> int:
    """Bits of the widest integer: no element exceeds its row's 2-norm."""
    return math.floor(summary.log2_square / 2 + 2.0**-10) + 1


def _integer_product(a: list[Array], b: list[Array], engine: Engine, workspace: int) -> Array:
    """The exact sums Σ a·b over all parts of nonnegative integers, rounded to float64."""
    xp = namespace(a[0])
    left, right = (parts[0] if len(parts) == 1 else xp.concatenate(parts, axis=1) for parts in (a, b))
    m, k = left.shape
    n = len(right)
    bits = max(1, *(math.frexp(float(x.max()))[1] for x in (left, right)))
    task = Task((m, k, n), 1, (bits, bits), 2 * bits + math.log2(k), FORMATS["fp64"])
    zero = xp.zeros(m, xp.int32), xp.zeros(n, xp.int32)
    out = xp.empty((m, n), xp.float64)
    exact_product(
        choose_scheme(task, "residues", None, engine), [left], [right], zero, engine, workspace, out
    )
    return out
