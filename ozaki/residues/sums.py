"""Sums of residues: numbers of several words have those of their sum, and of what a rounding leaves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines.moduli import ResidueSystem, residue_system
from multiword.runtime.arrays import Array, import_cupy, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.memory import padded
from multiword.runtime.tiles import THREADS, StridedParts, extent, strided_parts, tile_count
from ozaki.residues.reduction import reduce
from ozaki.residues.split import SplitTables, residues, tiled_constants


def residues_of_sums(
    high: list[Array],
    low: list[Array],
    scale: Array,
    system: ResidueSystem,
    padding: int,
    weighted: bool,
    width: int,
) -> Array:
    """Return the residues of the integers RN(high·2**scale) + RN(low·2**scale) of an operand of two words.

    The arguments are those of `ozaki.residues.split.residues`. No low word exceeds half of the last place of
    its high one, or of 2**(width - scale); on a GPU both lie alike.
    """
    if is_cupy(high[0]) and not system.word.floating:
        return _in_one_split(high, low, scale, system, padding, weighted, width)
    x, y = (residues(parts, scale, system, padding, weighted, width) for parts in (high, low))
    return sum_of_residues(x, [1] * len(system.moduli), y, system.moduli)


def _constants(system: ResidueSystem, weighted: bool, width: int, parts: int, columns: int) -> dict[str, Any]:
    """Return the constants of a split of sums but for the layout.

    High words are integers up to 2**width, half of whose last place is at most 2**(width - 53).
    """
    constants = tiled_constants(system, weighted, width, parts, columns)
    return {**constants, "LOW_IN_64_BITS": int(width - 53 < 63)}


_SPLIT_SUMS = Kernel(
    "split_sums",
    Path(__file__).with_name("split_sums.cu"),
    tuple(
        {
            **_constants(residue_system("int8", bits, 4096, parts), True, width, parts, columns),
            "ALONG_K": along,
            "UNIT": along,
            "REAL": "double",
        }
        for bits, parts, width, columns, along in (
            (218.0, 1, 110, 4096, 1),
            (218.0, 1, 110, 4097, 0),
            (300.0, 2, 150, 64, 0),
            (120.0, 2, 61, 64, 1),
        )
    ),
    (StridedParts, SplitTables),
    equals="ozaki.definition.remainders.symmetric_residue",
)


def _in_one_split(
    high: list[Array],
    low: list[Array],
    scale: Array,
    system: ResidueSystem,
    padding: int,
    weighted: bool,
    width: int,
) -> Array:
    """The same by one launch, in int8: both words are read once."""
    (first, layout), (second, _) = strided_parts(high), strided_parts(low)
    rows, columns = (padded(size, padding) for size in extent(high))
    out = namespace(high[0]).empty((system.images, len(system.moduli), rows, columns), system.word.dtype)
    constants = {**_constants(system, weighted, width, len(high), columns), **layout}
    tables = SplitTables(scales=scale, factors=scale, powers=scale, wide=0)
    arguments = first, second, tables, out, np.int32(rows), np.int32(columns)
    _SPLIT_SUMS((tile_count(constants, rows, columns),), (THREADS,), arguments, **constants)
    return out


def sum_of_residues(x: Array, factors: Sequence[int], y: Array, moduli: Sequence[int]) -> Array:
    """Return (x·f_t + y) mod p_t of (images, N, m, n) residues, in the dtype of x.

    They are of least magnitude, and of 128 and -128, which are one modulo 256, the latter.

    Parameters
    ----------
    x : residues, or products of residues, which only int8 holds reduced.
    factors : f_t, from 0 to p_t - 1, for each modulus.
    y : residues.

    >>> x = np.array([100.0, -3.0]).reshape(1, 2, 1, 1)
    >>> sum_of_residues(x, (2, 1), x, (256, 7)).ravel()
    array([44.,  1.])
    """
    if is_cupy(x):
        f, p = (import_cupy().array(z, np.float64)[:, None, None] for z in (factors, moduli))
        return _in_one_launch()(x, f, y, p)
    out, short = np.empty(x.shape, x.dtype), x.itemsize == 1  # what float32 multiplies exactly
    for t, (f, p) in enumerate(zip(factors, moduli, strict=True)):
        residues = x[:, t].astype(np.float32 if short else np.float64)
        if not short:
            residues = reduce(residues, p, 1 / p)
        residues *= f
        if not short:
            residues = reduce(residues, p, 1 / p)
        residues += y[:, t]
        residues = reduce(residues, p, 1 / p)
        out[:, t] = np.where(residues == 128, -128, residues) if p == 256 else residues
    return out


@cache
def _in_one_launch() -> Any:
    """The same on a GPU: every number is read and written once."""
    steps = "z = {}; z -= rint(z / p) * p;"
    code = "double z;" + "".join(map(steps.format, ("x", "z * f", "z + y")))
    return import_cupy().ElementwiseKernel(
        "T x, float64 f, U y, float64 p", "T sum", code + "sum = z == 128 && p == 256 ? -128 : z", "residues"
    )
