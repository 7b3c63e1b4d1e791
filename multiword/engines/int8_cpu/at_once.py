"""What compiled code takes to split, multiply and round a product itself: records without addresses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from multiword import tuning
from multiword.engines.int8_cpu import loops
from multiword.engines.int8_cpu.kernels import INNER, LONGEST, Kernel
from multiword.engines.int8_cpu.packed import aligned, spaced
from multiword.engines.int8_cpu.product import (
    TILES,
    Cut,
    as_records,
    product_tables,
    rounding_fields,
    rounding_limits,
    split_tables,
)
from multiword.engines.int8_cpu.scalars import LINES
from multiword.engines.moduli import ResidueSystem
from multiword.formats import Format

OPERANDS, PANELS = loops.operand[::1], loops.panel[::1]
"""The types of the records, for signatures."""


class CompiledSteps(NamedTuple):
    """The steps of products of one kind, for the compiled code of one kernel.

    Attributes
    ----------
    kernel : its name.
    split_units, multiply_units : functions that compiled code calls, as in `loops`.
    operands, panels : records of both operands and of the product. Their addresses are missing: those of
        numbers, scales and results; of what lies in shared memory they are offsets.
    right_words : where the words of the right operand begin in the memory that threads share.
    units : of the split, which is done when as many are.
    shared, own : bytes of that memory, and of one of a thread's own.
    step : bytes from the residues modulo one number to the next in the latter.
    digits : of an integer that is rounded alone.
    threads : of which each has memory of its own.
    alive : what the records have addresses of.
    """

    kernel: str
    split_units: Any
    multiply_units: Any
    operands: bytes
    panels: bytes
    right_words: int
    units: int
    shared: int
    own: int
    step: int
    digits: int
    threads: int
    alive: tuple[object, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all memory."""
        return self.shared + self.threads * (self.own + 8 * loops.SCRATCH)

    def records(self) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the records, not field by field, as NumPy copies them, in ten times the time."""
        kinds = (loops.Operand, self.operands), (loops.Panels, self.panels)
        return tuple(np.ndarray(len(x) // k.itemsize, k, bytearray(x)) for k, x in kinds)  # type: ignore[return-value]

    def memory(self) -> np.ndarray:
        """Return memory that all threads share, and behind it that of each."""
        return aligned(self.shared + self.threads * self.own)

    def scratch(self) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        """Return what else `multiply_units` and `split_units` take: step, digits, tiles, block."""
        return self.step, np.empty(self.digits, np.int64), TILES, np.empty(loops.SCRATCH)


def compiled_steps(
    kernel: Kernel,
    system: ResidueSystem,
    shape: tuple[int, int, int],
    parts: int,
    single: bool,
    width: int,
    target: Format,
    threads: int,
    symmetric: bool,
) -> CompiledSteps:
    """Return the steps of a product (m, k, n) of matrices of 1 or 2 parts, float32 if `single`.

    Integers have at most `width` bits; results are rounded to the target, in float32 unless that is fp64,
    or its complex. Of a `symmetric` product, real and square, half is computed.
    """
    (m, k, n), limbs = shape, (width + 65) // 64
    if not 0 < k <= LONGEST or limbs * parts > loops.MOST_LIMBS:
        raise ValueError(f"no product of bytes has k = {k} and integers of {width} bits")
    cut, of, limits = Cut.of(kernel, m, n, threads), product_tables(system), rounding_limits(system, target)
    blocks, start, alive = -(-k // INNER), 0, [of, limits]
    fields = of.fields | cut.fields | {"rows": m, "columns": n, "blocks": blocks, "finish": True}
    records = []
    for side, (name, rows, tile) in enumerate((("left", m, kernel.rows), ("right", n, kernel.columns))):
        of_side = split_tables(system, side, limbs, kernel.signed)
        step, unit = spaced(-(-rows // tile) * tile * blocks * INNER), tuning.INT8_CPU_UNIT_BLOCKS * INNER
        of_rows = {"parts": parts, "rows": rows, "inner": k, "out": start, "step": step, "single": single}
        of_rows |= {"unit_rows": LINES, "unit_inner": unit}
        of_rows["units"] = -(-rows // LINES) * -(-k // unit)
        records.append(as_records(loops.Operand, 1, of_side.fields | of_rows, {}))
        fields |= {name: start, f"{name}_step": step, f"{name}_blocks": blocks}
        alive.append(of_side)
        start += system.products * step
    fields |= rounding_fields(target) | {"limits": limits.ctypes.data, "symmetric": symmetric}
    step = spaced(cut.unit_bytes)
    panels = as_records(loops.Panels, 1, fields, {}).tobytes()
    operands, units = b"".join(x.tobytes() for x in records), sum(int(x["units"][0]) for x in records)
    own, digits = step * (system.products + 1) + spaced(cut.scratch_bytes(blocks)), len(system.moduli) + 8
    steps = loops.compile_loops(kernel)
    functions = kernel.name, steps.split_units, steps.multiply_units
    right = int(records[1]["out"][0])
    sizes = right, units, start, own, step, digits, threads
    return CompiledSteps(*functions, operands, panels, *sizes, tuple(alive))
