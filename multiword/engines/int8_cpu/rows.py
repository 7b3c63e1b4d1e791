"""Small products of rows: split, multiplied and rounded by one call, one after the other, in one thread."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from multiword.engines.int8_cpu import loops
from multiword.engines.int8_cpu.kernels import INNER, Kernel
from multiword.engines.int8_cpu.packed import buffer, spaced
from multiword.engines.int8_cpu.product import (
    LONGEST,
    TILES,
    Cut,
    ModularSystem,
    as_records,
    product_tables,
    rounding_limits,
    split_tables,
)
from multiword.engines.int8_cpu.steps import GROUP
from multiword.formats import Format


class _Plan(NamedTuple):
    """The records of one product, without its addresses, and what they point to beside it.

    Attributes
    ----------
    size, step : bytes of the scratch memory, and from the residues modulo one number to the next in it.
    digits : of an integer that is rounded alone.
    alive : what the records have addresses of.
    """

    left: bytes
    right: bytes
    panels: bytes
    size: int
    step: int
    digits: int
    alive: tuple[object, ...]


def multiply_rows(
    kernel: Kernel,
    system: ModularSystem,
    x: np.ndarray,
    scale: np.ndarray,
    shape: tuple[int, int, int],
    width: int,
    target: Format,
    out: np.ndarray,
) -> None:
    """Write RN(C'·2**(-s_i - t_j)) of every product of a stack to `out`.

    Parameters
    ----------
    x : (stack·(m + n), k) float64, the rows of all left matrices, then the columns of all right ones.
    scale : (stack·(m + n),) int32: their integers are RN(x·2**scale), at most 2**width in magnitude; rows
        with the scale NONFINITE_ROW are taken as zero.
    shape : m, k and n.
    out : (stack·m, n) of the target's dtype, contiguous.
    """
    m, k, n = shape
    stack = len(x) // (m + n)
    good = x.shape == (stack * (m + n), k) and x.dtype == np.float64 and x.flags.carray
    if not good or not 0 < k <= LONGEST:
        raise ValueError(f"rows must be float64, {m + n} of {k} each, got {x.dtype} {x.shape}")
    if scale.shape != (len(x),) or scale.dtype != np.int32:
        raise ValueError(f"scales must be int32, one for each row, got {scale.dtype} {scale.shape}")
    if out.shape != (stack * m, n) or out.dtype != target.dtype or not out.flags.carray:
        raise ValueError(
            f"out must be contiguous, {(stack * m, n)}, {target.name}, got {out.dtype} {out.shape}"
        )
    plan = _plan(kernel, system, shape, width, target)
    compiled = loops.compile_loops(kernel).multiply_rows()
    records = (
        _copy(loops.Operand, plan.left),
        _copy(loops.Operand, plan.right),
        _copy(loops.Panels, plan.panels),
    )
    memory = np.zeros(8, np.int64), buffer(plan.size), plan.step, np.empty(loops.SCRATCH)
    compiled(x, scale, out.ctypes.data, *records, *memory, np.empty(plan.digits, np.int64), TILES)


def _copy(kind: np.dtype, record: bytes) -> np.ndarray:
    """An array of that record; copying one field by field, as NumPy does, would take ten times as long."""
    return np.ndarray(1, kind, bytearray(record))


@lru_cache(512)
def _plan(
    kernel: Kernel, system: ModularSystem, shape: tuple[int, int, int], width: int, target: Format
) -> _Plan:
    (m, k, n), limbs = shape, (width + 65) // 64
    cut, of, limits = Cut.of(kernel, m, n, 1), product_tables(system), rounding_limits(system, target)
    blocks, start = -(-k // INNER), 0
    alive: list[object] = [of, limits]
    records: list[np.ndarray] = []
    for side, (rows, tile) in enumerate(((m, kernel.rows), (n, kernel.columns))):
        of_side = split_tables(system, side, limbs, kernel.signed)
        step = spaced(-(-rows // tile) * tile * blocks * INNER)
        fields = {"row_step": 8 * k, "inner_step": 8, "parts": 1, "rows": rows, "inner": k, "out": start}
        fields |= {"step": step, "unit_rows": loops.LINES, "unit_inner": blocks * INNER}
        fields["units"] = -(-rows // loops.LINES)
        records.append(as_records(loops.Operand, 1, of_side.fields | fields, {}))
        alive.append(of_side)
        start += system.products * step
    fields = of.fields | cut.fields | {"rows": m, "columns": n, "blocks": blocks, "finish": True}
    fields |= {"left_step": int(records[0]["step"][0]), "left_blocks": blocks}
    fields |= {"right_step": int(records[1]["step"][0]), "right_blocks": blocks}
    itemsize = target.dtype.itemsize
    fields |= {"row_step": n * itemsize, "column_step": itemsize, "single": target.precision == 24}
    fields |= {"limits": limits.ctypes.data, "column_scales": start}
    start += 4 * spaced(n + GROUP)
    fields["kept"], step = start, spaced(cut.unit_bytes)
    size = start + step * (system.products + 1) + cut.scratch_bytes(blocks)
    panels = as_records(loops.Panels, 1, fields, {})
    left, right = (x.tobytes() for x in records)
    return _Plan(left, right, panels.tobytes(), size, step, len(system.moduli) + 8, tuple(alive))
