"""Panels: a product cut into parts whose words and sums fit a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multiword.formats import FORMATS
from multiword.fp32.schemes import Scheme
from multiword.runtime.arrays import Array
from multiword.runtime.memory import SMALLEST_PANEL, WorkspaceTooSmall, halved

_LINE_BYTES = 128
"""More than what is known of a line while it is split."""

_HOST_BYTES = (32, 40)
"""Temporary bytes for each element of an operand, and for each result, where NumPy computes them."""


@dataclass(frozen=True)
class Panels:
    """How a product is cut: rows and columns of a panel, and the bytes that it takes."""

    rows: int
    columns: int
    bytes: int

    def __call__(self, m: int, n: int) -> Iterator[tuple[slice, slice]]:
        """The panels of an (m, n) result, all rows of some columns after one another.

        >>> list(Panels(2, 4, 0)(3, 4))
        [(slice(0, 2, None), slice(0, 4, None)), (slice(2, 3, None), slice(0, 4, None))]
        """
        for j in range(0, n, self.columns):
            for i in range(0, m, self.rows):
                yield slice(i, min(i + self.rows, m)), slice(j, min(j + self.columns, n))


def choose_panels(m: int, n: int, k: int, scheme: Scheme, limit: int, on_host: bool) -> Panels:
    """The largest panels of an (m, k) by (k, n) product within a limit in bytes.

    Raises WorkspaceTooSmall, with the sizes, if the smallest panels do not fit.
    """
    element = scheme.words * FORMATS[scheme.word].dtype.itemsize
    per_line = element * k + _LINE_BYTES + (_HOST_BYTES[0] * k if on_host else 0)
    wide = scheme.accumulate == "fp64" or scheme.word == "fp64"
    per_result = (16 if wide else 4) + (_HOST_BYTES[1] if on_host else 0)
    if scheme.word == "fp32":
        per_line, per_result = 4 * k, 8
    rows, columns = m, n
    while (needed := per_line * (rows + columns) + per_result * rows * columns) > limit:
        if max(rows, columns) <= SMALLEST_PANEL:
            raise WorkspaceTooSmall(
                f"the smallest panel of this {m} x {k} x {n} product ({rows} x {columns} results, "
                f"{scheme.words} {scheme.word} words) needs {needed} bytes of workspace, "
                f"and the limit is {limit}"
            )
        rows, columns = (halved(rows), columns) if rows >= columns else (rows, halved(columns))
    return Panels(rows, columns, needed)


def fits(result: Array) -> bool:
    """Whether sums may be formed where the result is to be: rows begin at multiples of 64 bytes."""
    return result.dtype == np.float32 and result.shape[1] % 16 == 0
