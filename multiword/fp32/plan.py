"""What `matmul` would do, without doing it: panels, cost, bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from multiword.engines import Engine
from multiword.formats import FORMATS
from multiword.fp32.bounds import error_bound
from multiword.fp32.choice import generation_of
from multiword.fp32.schemes import Scheme
from multiword.public import public_in
from multiword.runtime.memory import SMALLEST_PANEL, WorkspaceTooSmall, halved

_VECTOR_BYTES = 128
"""More than the records of a vector while it is split."""

_HOST_BYTES = (32, 40)
"""Temporary bytes for each element of an operand, and for each result, where NumPy computes them."""


@dataclass(frozen=True)
class Panels:
    """The rows and columns of a product's panels, and the bytes that one takes."""

    rows: int
    columns: int
    bytes: int

    def __call__(self, m: int, n: int) -> Iterator[tuple[slice, slice]]:
        """Yield the panels of an (m, n) result, all rows of some columns after one another.

        >>> list(Panels(2, 4, 0)(3, 4))
        [(slice(0, 2, None), slice(0, 4, None)), (slice(2, 3, None), slice(0, 4, None))]
        """
        for j in range(0, n, self.columns):
            for i in range(0, m, self.rows):
                yield slice(i, min(i + self.rows, m)), slice(j, min(j + self.columns, n))


def choose_panels(m: int, n: int, k: int, scheme: Scheme, limit: int, on_host: bool) -> Panels:
    """Return the largest panels of an (m, k) by (k, n) product within a limit in bytes.

    Raises WorkspaceTooSmall, with the sizes, if the smallest panels do not fit.
    """
    element = scheme.words * FORMATS[scheme.word].dtype.itemsize
    per_vector = element * k + _VECTOR_BYTES + (_HOST_BYTES[0] * k if on_host else 0)
    wide = scheme.accumulate == "fp64" or scheme.word == "fp64"
    per_result = (16 if wide else 4) + (_HOST_BYTES[1] if on_host else 0)
    if scheme.word == "fp32":
        per_vector, per_result = 4 * k, 8
    rows, columns = m, n
    while (needed := per_vector * (rows + columns) + per_result * rows * columns) > limit:
        if max(rows, columns) <= SMALLEST_PANEL:
            raise WorkspaceTooSmall(
                f"the smallest panel of this {m} x {k} x {n} product ({rows} x {columns} results, "
                f"{scheme.words} {scheme.word} words) needs {needed} bytes of workspace, "
                f"and the limit is {limit}"
            )
        rows, columns = (halved(rows), columns) if rows >= columns else (rows, halved(columns))
    return Panels(rows, columns, needed)


@public_in("multiword", "Products from words")
@dataclass(frozen=True)
class Plan:
    """A report of what a call of `matmul` would do.

    Attributes
    ----------
    m, n, k : the product is (m, k) by (k, n).
    engine, choice : names of the engine and the scheme; "given" for a scheme that is no name.
    scheme : the scheme itself.
    rejected : the faster schemes that were tried first, each with the reason against it.
    products, calls : matrix products of words, and calls of the engine for each panel.
    panels, workspace : number of panels of rows and columns, and bytes for words and sums.
    bound : worst-case bound of the componentwise error |C - Ĉ|_ij / (|A||B|)_ij.

    A chosen scheme of words is checked once more on its product (sums of one sign, cancellation by
    centring); if a check fails, the product is computed again in fp64.

    >>> import numpy as np
    >>> from multiword import matmul_plan
    >>> x = np.ones((64, 64), np.float32)
    >>> matmul_plan(x, x, scheme="double-fp16").products
    3
    """

    m: int
    n: int
    k: int
    engine: str
    choice: str
    scheme: Scheme
    rejected: tuple[tuple[str, str], ...]
    products: int
    calls: int
    panels: int
    workspace: int
    bound: float

    def __str__(self) -> str:
        s = self.scheme
        lines = [
            f"product     ({self.m}, {self.k}) by ({self.k}, {self.n}), float32, engine {self.engine}",
            f"scheme      {self.choice}: {s.words} {s.word} word{'s' * (s.words > 1)}, "
            f"{self.products} product{'s' * (self.products > 1)} "
            f"in {self.calls} call{'s' * (self.calls > 1)}",
            f"block       {s.block or 'all of k'}, summed in {s.accumulate}",
            f"workspace   {self.workspace / 2**20:.1f} MiB in {self.panels} panel{'s' * (self.panels > 1)}",
            f"bound       {self.bound:.1e} of |A||B|",
        ]
        return "\n".join(lines + [f"rejected    {name}: {reason}" for name, reason in self.rejected])


def make_plan(
    shape: tuple[int, int, int],
    engine: Engine,
    choice: str,
    scheme: Scheme,
    limit: int,
    rejected: tuple[tuple[str, str], ...] = (),
) -> Plan:
    """Return the plan of a scheme for a product of shape m, n, k within a limit in bytes."""
    m, n, k = shape
    pairs = scheme.pairs
    levels = len({i + j for i, j in pairs}) if scheme.joined else len(pairs)
    blocks = -(-k // scheme.block) if scheme.block else 1
    blocked = 1 if scheme.blocked == "first" else levels
    native = scheme.word == "fp32" and engine.name in ("host", "cublas")
    panels = Panels(m, n, 0) if native else choose_panels(m, n, k, scheme, limit, engine.name != "cublas")
    return Plan(
        *(m, n, k, engine.name, choice, scheme, rejected, len(pairs)),
        calls=levels + blocked * (max(blocks, 1) - 1),
        panels=-(-m // max(panels.rows, 1)) * -(-n // max(panels.columns, 1)),
        workspace=panels.bytes,
        bound=error_bound(k, scheme, generation=generation_of(engine)),
    )
