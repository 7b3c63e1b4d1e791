"""Equilibration of the inner dimension of a product in pieces: maxima over all blocks decide about it.

The largest exponents of each column of A and row of B merge over blocks by their maximum, and so does the
largest sum of both, which says whether the inner dimension is graded. Nothing is equilibrated unless all
blocks are multiplied exactly. Tasks come to nothing, None, where the counting bound asks for few bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import Array, is_cupy, quietly
from ozaki.arguments import exactly
from ozaki.certificate.decision import certify_by_counting
from ozaki.dask.certificate import counted, decision_of
from ozaki.dask.known import Decision, Known
from ozaki.dask.memory import task
from ozaki.dask.request import Asked
from ozaki.dask.scales import Rows, Shifts, merged_rows
from ozaki.dask.trees import flat
from ozaki.product.factor import Factor
from ozaki.product.steps import row_limit
from ozaki.scaling.equilibration import column_exponents, column_shifts, is_graded, largest_sums


def equilibrated(a: da.Array, b: da.Array, rows: da.Array, columns: da.Array, asked: Asked) -> Known:
    """What the counting bound says of A·D and D⁻¹·B, or of A and B as they are: what the data ask for."""
    decision = counted(rows, columns, asked)
    of_columns, of_rows = (
        task("ozaki.dask.matmul, equilibration", _exponents, side=side, asked=asked) for side in (0, 1)
    )
    of_a = _objects(of_columns, "ih", a, "ih", rows, "i", decision, "")
    of_b = _objects(of_rows, "hj", b, "hj", columns, "j", decision, "")
    shifts = _objects(partial(_shifts, asked=asked), "", of_a, "ih", of_b, "hj")
    of_a = merged_rows(a, 0, asked.dtype, (shifts, rows))
    of_b = merged_rows(b, 1, asked.dtype, (shifts, columns))
    decide = partial(_decided, asked=asked)
    decision = _objects(decide, "", of_a, "i", of_b, "j", decision, "", shifts, "")
    return Known(rows, columns, decision, (of_a, of_b))


def _objects(function: Any, indices: str, *pairs: Any) -> da.Array:
    """An object for each block of these indices; the function gets lists of blocks along others."""
    meta = np.empty((0,) * len(indices), object)
    return da.blockwise(function, indices, *pairs, dtype=object, meta=meta, token="ozaki-equilibration")


def _exponents(x: Array, rows: Rows, decision: Decision, *, side: int, asked: Asked) -> Any:
    """The largest exponents of the columns of a block of A, or the rows of one of B."""
    with quietly(x):
        request = asked.request(x)
        if not certify_by_counting(decision.found, request.limits).wide:
            return None
        whole = rows.factor(side, asked.k, asked.dtype)
        scales = whole.norm_scales(row_limit(whole, request))
        found = column_exponents(Factor(exactly("ab"[side], x, asked.dtype), side).parts, scales)
        return found.get() if is_cupy(found) else found


def _shifts(of_a: list[list[Any]], of_b: list[list[Any]], *, asked: Asked) -> Shifts:
    """The shifts of all blocks of the inner dimension, if that is graded."""
    if of_a[0][0] is None:
        return None
    of_columns = [np.maximum.reduce(blocks) for blocks in zip(*of_a, strict=True)]
    exponents = [(p, np.maximum.reduce(q)) for p, q in zip(of_columns, of_b, strict=True)]
    largest = np.maximum.reduce([largest_sums(p, q) for p, q in exponents])
    whole = Factor(np.empty((0, asked.k), asked.dtype), 0)
    if not is_graded(largest, whole.length, row_limit(whole, asked.request(whole.matrix))).all():
        return None
    return tuple(column_shifts(p, q, largest) for p, q in exponents)


def _decided(
    of_a: list[Rows], of_b: list[Rows], decision: Decision, shifts: Shifts, *, asked: Asked
) -> Decision:
    """The decision about what is equilibrated; the one that there is, if that is not to be or not exact."""
    if shifts is None or not all(rows.lossless for rows in flat([of_a, of_b])):
        return decision
    return decision_of(of_a, of_b, asked, shifts)
