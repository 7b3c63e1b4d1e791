"""The certificate of a product in pieces: one decision for the whole, from bounds that merge.

The counting bound follows from the statistics of all rows. Where that is not enough, the products of
magnitudes of blocks add over the inner dimension, and the largest ratio of all pairs of a row and a column is
a maximum over blocks. Dask's graph is made before anything is known, so the tasks of the pairwise bound are
in it, and come to nothing where the decision has been made without it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.runtime.arrays import Array, quietly
from ozaki.certificate.pairwise import pairwise_bound
from ozaki.dask.known import Decision, Known, factors
from ozaki.dask.memory import task
from ozaki.dask.request import Asked
from ozaki.dask.scales import Rows, Shifts
from ozaki.dask.trees import as_it_is, flat, merged
from ozaki.product.panels import in_panels
from ozaki.product.steps import bounds, magnitudes, norm_scaled

_TASK = "ozaki.dask.matmul, certificate"
_FEW = 16
"""Blocks of the result whose bounds one task compares; a tree would take more rounds."""


def counted(rows: da.Array, columns: da.Array, asked: Asked) -> da.Array:
    """Return the `Decision` of the counting bound as the one block of a Dask array."""
    return da.blockwise(
        partial(decision_of, asked=asked),
        "",
        *(rows, "i", columns, "j"),
        dtype=object,
        meta=np.empty((), object),
        token="ozaki-counting-bound",
    )


def widening(a: da.Array, b: da.Array, known: Known, asked: Asked, split_every: int | None) -> da.Array:
    """Return the `Decision` of all bounds as the one block of a Dask array."""
    whole = a.numblocks[1] == 1
    found = da.blockwise(
        task(_TASK, _bound if whole else _magnitudes, asked=asked),
        "ihj",
        *(a, "ih", b, "hj", *known.pairs(a)),
        align_arrays=False,
        adjust_chunks={"h": lambda _: 1},
        dtype=object,
        meta=np.empty((0, 0, 0), object),
        token=f"ozaki-{'pairwise-bound' if whole else 'magnitudes'}",
    )
    objects: dict[str, Any] = {"dtype": object, "concatenate": False}
    if not whole:
        compare, meta = task(_TASK, _compared, asked=asked), np.empty((0, 0), object)
        tree: dict[str, Any] = {"combine": _added, "name": "ozaki-pairwise-bound", "split_every": split_every}
        found = da.reduction(found, as_it_is, compare, axis=1, meta=meta, **tree, **objects)
    decide, objects["meta"] = partial(_decided, asked=asked), np.empty((), object)
    if found.npartitions <= _FEW:
        return da.blockwise(decide, "", found, "ihj"[: found.ndim], token="ozaki-decision", **objects)
    return da.reduction(found, as_it_is, decide, combine=_largest, name="ozaki-decision", **objects)


def decision_of(of_a: list[Rows], of_b: list[Rows], asked: Asked, shifts: Shifts = None) -> Decision:
    """The decision of the counting bound, from the statistics of all rows."""
    rows, columns = Rows.side_by_side(of_a), Rows.side_by_side(of_b)
    with quietly(rows.exponent):
        request = asked.request(rows.exponent)
        a, b = rows.factor(0, asked.k, asked.dtype), columns.factor(1, asked.k, asked.dtype)
        found = bounds(a, b, request, norm_scaled(a, b, request).scales).wait()
        return Decision(found, shifts=shifts).decided(request.limits)


def _magnitudes(
    x: Array, y: Array, rows: Rows, columns: Rows, decision: Decision, *known: Any, asked: Asked
) -> Any:
    """The decision, the products of magnitudes of two blocks, and what they are compared with.

    Where they are not wanted, the decision alone: so it is with all that follows.
    """
    if not decision.wanted:
        return decision
    with quietly(x):
        request = asked.request(x)
        a, b, left, right = factors(x, y, asked, rows, columns, decision, *known)
        of_rows = bounds(left, right, request, norm_scaled(left, right, request).scales).rows
        scheme = magnitudes(a, request)
        parts: list[Array] = []
        scales = of_rows[0].truncation_scale, of_rows[1].truncation_scale

        def keep(products: Array, panel: slice, panel_columns: slice) -> None:
            if not parts:
                shape = (*products.shape[:2], a.rows, b.rows)
                parts.append(np.zeros_like(products, np.float64, shape=shape))
            part = parts[0][:, :, panel, panel_columns]
            part[...] = products[:, :, : part.shape[2], : part.shape[3]]

        in_panels(scheme, a, b, scales, request.engine, request.workspace, keep)
        return decision, parts[0], of_rows


def _add(one: Any, other: Any) -> Any:
    """The sum of products of magnitudes, with what goes along."""
    return one if isinstance(one, Decision) else (one[0], one[1] + other[1], one[2])


_added = partial(merged, merge=_add)


def _bound(*blocks: Any, asked: Asked) -> Any:
    """The decision, and the pairwise bound of two blocks with all of the inner dimension."""
    return _compared([_magnitudes(*blocks, asked=asked)], asked=asked)


def _compared(parts: Any, *, asked: Asked, **_: Any) -> Any:
    """The decision, and the pairwise bound of a block of rows and one of columns."""
    total = merged(parts, merge=_add)
    if isinstance(total, Decision):
        return total
    decision, products, rows = total
    length = asked.k * (2 if asked.dtype.kind == "c" else 1)
    with quietly(products):
        everything = slice(0, products.shape[2]), slice(0, products.shape[3])
        return decision, pairwise_bound(rows, length, lambda _, use: use(products, *everything))()


def _largest(parts: Any, **_: Any) -> Any:
    """The decision, and the pairwise bound of some blocks."""
    found = list(flat(parts))
    if isinstance(found[0], Decision):
        return found[0]
    decision = found[0][0]
    errors, ratios = zip(*(bound for _, bound in found), strict=True)
    return decision, (max(errors), max(ratios))


def _decided(parts: Any, *, asked: Asked, **_: Any) -> Any:
    """The decision with the pairwise bound."""
    found = _largest(parts)
    if isinstance(found, Decision):
        return found
    decision, largest = found
    return decision.decided(asked.request(np.empty(0)).limits, largest)
