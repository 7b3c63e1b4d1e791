"""Products of many small matrices at once: measured, split and put together as if they were one.

The rows of all left matrices lie one after another, and so do the columns of all right ones. A row's
integers depend on that row alone, so they are those of the single products, as long as no product
asks for wider ones: what holds for all rows and all columns of a stack holds for those of each product.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from multiword.engines import get_product
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, device_of, is_cupy, namespace
from multiword.runtime.memory import padded
from ozaki.certificate import decision as certificate
from ozaki.operand import Operand
from ozaki.plans import Options, Plan, make_plan, measured, norm_plan
from ozaki.residues.products import reconstruct
from ozaki.scaling.scales import NORM_LIMITS
from ozaki.schemes import Residues, whole_bytes

SMALL = 1 << 24
"""Multiplications in a product; larger ones keep a machine busy one by one."""

FEW = 16
"""On a GPU, stacks of fewer products are computed one by one: those are replayed, in less time."""

COLUMNS = 4
"""Columns of a product are padded to a multiple of this, which cuBLAS asks of int8 operands."""


def stacked_products(left: Array, right: Array, dtype: Any, options: Options) -> Array | None:
    """Return the (..., m, n) products of (..., m, k) and (..., k, n) stacks of one shape, in a dtype.

    None if they are computed one by one: they are large or few, or in slices, or there is an Inf or NaN,
    or one of the products may need wider integers than the others.
    """
    (*batch, m, k), n = left.shape, right.shape[-1]
    if math.prod(batch) < (FEW if is_cupy(left) else 2) or not 0 < m * n * k <= SMALL:
        return None
    xp, width = namespace(left), padded(n, COLUMNS)
    columns = xp.zeros((*batch, width, k), dtype)
    columns[..., :n, :] = right.swapaxes(-1, -2)
    rows = xp.ascontiguousarray(left, dtype).reshape(-1, m, k)
    with device_of(left), np.errstate(all="ignore"):
        out = _together(rows, columns.reshape(-1, width, k), options)
    return None if out is None else out[..., :n].reshape(*batch, m, n)


def _together(rows: Array, columns: Array, options: Options) -> Array | None:
    """The (s, m, n) products of (s, m, k) rows and (s, n, k) columns, within the workspace."""
    (s, m, k), n = rows.shape, columns.shape[1]
    a, b = Operand(rows.reshape(s * m, k), 0), Operand(columns.reshape(s * n, k).T, 1)
    try:
        plan = _plan(a, b, options)
        if plan is None:
            return None
        if s * whole_bytes(plan.steps, (m, k, n)) <= options.workspace:
            return _products(plan, a, b, s, options).reshape(s, m, n)
    except MemoryError:  # one by one they may go in panels
        return None
    if s == 1:
        return None
    halves = slice(s // 2), slice(s // 2, None)
    parts = [_together(rows[half], columns[half], options) for half in halves]
    return None if any(part is None for part in parts) else namespace(rows).concatenate(parts)


def _plan(a: Operand, b: Operand, options: Options) -> Plan | None:
    """The plan whose scales are those of every single product, if there is one."""
    if options.accuracy in NORM_LIMITS:
        evidence = measured(a, b, options).wait()
        told = certificate.first_verdict(evidence, FORMATS[str(options.accuracy)])
        certified = told.bits == 0 and not evidence.nonfinite
        plan = norm_plan(a, b, options) if certified else None
    else:
        plan = make_plan(a, b, options, computed=True)
        plan = None if plan.nonfinite else plan
    usable = plan is not None and isinstance(plan.steps, Residues) and a.depth <= plan.steps.depth
    return plan if usable else None


def _products(plan: Plan, a: Operand, b: Operand, s: int, options: Options) -> Array:
    """The (s·m, n) products, one below the other."""
    xp, steps, engine = namespace(a.matrix), plan.steps, options.engine
    assert isinstance(steps, Residues)
    # Rows that pad the whole are left away; what pads the inner dimension stays.
    words = [
        steps.split(x.parts, plan.scales[x.side], x.side, engine.padding)[:, :, : x.rows] for x in (a, b)
    ]
    shape = *words[0].shape[:2], a.rows, b.rows // s
    y = xp.empty(shape, get_product(steps.word).result)
    for image in range(shape[0]):
        for t in range(shape[1]):
            *operands, target = (v[image, t].reshape(s, -1, v.shape[3]) for v in (*words, y))
            engine.multiply(steps.word, *operands, out=target)
    out = xp.empty(shape[2:], a.matrix.dtype)
    scales = plan.scales[0], plan.scales[1].reshape(s, -1)
    reconstruct(y, steps.system, scales, steps.task.target, out)
    return out
