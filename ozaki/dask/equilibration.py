"""Equilibration of the inner dimension of a product in pieces: maxima over all blocks decide about it.

The largest exponents of each column of A and row of B merge over blocks by their maximum, and so does the
largest sum of both, which says whether the inner dimension is graded. Nothing is equilibrated unless all
blocks are multiplied exactly. Tasks come to nothing, None, where the counting bound asks for few bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import Array, device_of, is_cupy
from ozaki.arguments import exactly
from ozaki.certificate.decision import certify_by_counting
from ozaki.dask.certificate import Decision, counted
from ozaki.dask.memory import naming_the_task
from ozaki.dask.request import Asked
from ozaki.dask.scales import Rows, Shifts, merged_rows
from ozaki.dask.trees import flat
from ozaki.factor import Factor
from ozaki.pipeline import row_limit
from ozaki.scaling.equilibration import column_exponents, column_shifts, is_graded, largest_sums, shifted

Exponents = tuple[np.ndarray, np.ndarray] | None
"""The largest exponents of columns of A and of rows of B."""


@dataclass(frozen=True)
class Sides:
    """A and B, and the `Rows` of both: Dask arrays."""

    a: da.Array
    b: da.Array
    rows: da.Array
    columns: da.Array


def equilibrated(sides: Sides, asked: Asked) -> Sides:
    """A·D and D⁻¹·B, or A and B as they are: what the data ask for."""
    shifts = _common_shifts(sides, asked)
    both = []
    for side, x in enumerate((sides.a, sides.b)):
        indices = ("ih", "hj")[side]
        work = partial(_equilibrated, side=side, asked=asked, task=_TASK)
        pairs = x, indices, (sides.rows, sides.columns)[side], "ij"[side], shifts, "h"
        of_x = da.blockwise(work, indices, *pairs, dtype=x.dtype, meta=x._meta, token="ozaki-equilibrated")
        both.append((of_x, merged_rows(of_x, side, asked.dtype, shifts)))
    (a, rows), (b, columns) = both
    rows = _objects(_either, "i", (rows, "i"), (sides.rows, "i"))
    return Sides(a, b, rows, _objects(_either, "j", (columns, "j"), (sides.columns, "j")))


_TASK = "ozaki.dask.matmul, equilibration"


@naming_the_task
def _equilibrated(x: Array, rows: Rows, shifts: Shifts, *, side: int, asked: Asked, task: str) -> Array:
    del task
    return x if shifts is None else _shifted(x, rows, shifts, side, asked)[0].matrix


def _shifted(
    x: Array, rows: Rows, shifts: np.ndarray, side: int, asked: Asked
) -> tuple[Factor, Callable[[], np.ndarray]]:
    """A block of A·D or D⁻¹·B, and, when asked, whether it is multiplied exactly."""
    with device_of(x), np.errstate(all="ignore"):
        scale = rows.factor(side, asked.k, asked.dtype).exact_scales  # these say which rows are not finite
        block = Factor(exactly("ab"[side], x, asked.dtype), side)
        return shifted(block, scale, shifts if side == 0 else -shifts)


def _either(rows: Rows | None, known: Rows) -> Rows:
    return known if rows is None else rows


def _common_shifts(sides: Sides, asked: Asked) -> da.Array:
    """The shifts, an object for each block of the inner dimension; None in all of them if there are none."""
    options: dict[str, Any] = {"asked": asked, "task": _TASK}
    a, b, decision = sides.a, sides.b, counted(sides.rows, sides.columns, asked)
    of_a = _objects(
        partial(_exponents, side=0, **options), "ih", (a, "ih"), (sides.rows, "i"), (decision, "")
    )
    of_b = _objects(
        partial(_exponents, side=1, **options), "hj", (b, "hj"), (sides.columns, "j"), (decision, "")
    )
    exponents = _objects(_largest, "h", (of_a, "ih"), (of_b, "hj"))
    largest = _objects(_largest_sum, "", (exponents, "h"))
    shifts = _objects(partial(_shifts, asked=asked), "h", (exponents, "h"), (largest, ""))
    exact_a = _objects(partial(_exact, side=0, **options), "ih", (a, "ih"), (sides.rows, "i"), (shifts, "h"))
    exact_b = _objects(
        partial(_exact, side=1, **options), "hj", (b, "hj"), (sides.columns, "j"), (shifts, "h")
    )
    exact = _objects(_all, "", (exact_a, "ih"), (exact_b, "hj"))
    return _objects(_if_exact, "h", (shifts, "h"), (exact, ""))


def _objects(function: Any, indices: str, *arrays: tuple[da.Array, str]) -> da.Array:
    """An object for each block of these indices; the function gets lists of blocks along others."""
    pairs = [x for pair in arrays for x in pair]
    meta = np.empty((0,) * len(indices), object)
    return da.blockwise(function, indices, *pairs, dtype=object, meta=meta, token="ozaki-equilibration")


@naming_the_task
def _exponents(x: Array, rows: Rows, decision: Decision, *, side: int, asked: Asked, task: str) -> Any:
    """The largest exponents of the columns of a block of A, or the rows of one of B."""
    del task
    with device_of(x), np.errstate(all="ignore"):
        request = asked.request(x)
        if not certify_by_counting(decision.found, request.limits).wide:
            return None
        whole = rows.factor(side, asked.k, asked.dtype)
        scales = whole.norm_scales(row_limit(whole, request))
        found = column_exponents(Factor(exactly("ab"[side], x, asked.dtype), side).parts, scales)
        return found.get() if is_cupy(found) else found


def _largest(of_a: list[Any], of_b: list[Any]) -> Exponents:
    return None if of_a[0] is None else (np.maximum.reduce(of_a), np.maximum.reduce(of_b))


def _largest_sum(exponents: list[Exponents]) -> np.ndarray | None:
    sums = [largest_sums(*found) for found in exponents if found is not None]
    return np.maximum.reduce(sums) if sums else None


def _shifts(exponents: Exponents, largest: np.ndarray | None, *, asked: Asked) -> Shifts:
    """The shifts of a block of the inner dimension, if that is graded."""
    if exponents is None or largest is None:
        return None
    whole = Factor(np.empty((0, asked.k), asked.dtype), 0)
    limit = row_limit(whole, asked.request(whole.matrix))
    return column_shifts(*exponents, largest) if is_graded(largest, whole.length, limit).all() else None


@naming_the_task
def _exact(x: Array, rows: Rows, shifts: Shifts, *, side: int, asked: Asked, task: str) -> bool | None:
    """Whether a block is multiplied exactly."""
    del task
    return None if shifts is None else bool(_shifted(x, rows, shifts, side, asked)[1]().all())


def _all(*exact: Any) -> bool:
    return all(flat(list(exact)))


def _if_exact(shifts: Shifts, exact: bool) -> Shifts:
    return shifts if exact else None
