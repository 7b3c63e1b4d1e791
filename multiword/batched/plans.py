"""From a choice of blocking to the constants of a kernel and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from multiword.batched.storage import Layout
from multiword.runtime.memory import padded

BLOCK_BYTES = 227 << 10
"""Shared memory that one block may have (sm_90; smaller devices are asked)."""

PARAMETERS = np.dtype(
    [("strides", np.int64, 4), ("leading", np.int32, 4), ("sizes", np.int32, 4), ("scalars", np.float32, 4)]
)
"""What a kernel is passed by value: of A, B, C and the result; the plan's sizes; alpha and beta."""


@dataclass(frozen=True)
class Blocking:
    """How a batch is computed, and the parameters of that way.

    Attributes
    ----------
    way : "plain" (one row of C for each thread) and "whole" (tensor cores) keep whole matrices
        in shared memory; "tiled" passes tiles through it; "cublas" calls the library.
    threads : of a block ("plain", "whole").
    chunk : bytes of operands that a block takes at once ("plain", "whole").
    direct : whether "plain" and "whole" read their operands from global memory as they need them,
        each warp on its own, rather than through shared memory; rows must follow one another.
    tile_m, tile_n : tensor-core tiles of a warp ("whole", "tiled").
    warps_m, warps_n : warps of a block ("tiled").
    steps, stages : instructions along k for each stage, and stages in flight ("tiled").
    resident : blocks on each multiprocessor that take one tile after another, so that the next
        one's operands are under way while one is finished; 0: one block for every tile ("tiled").

    References
    ----------
    Abdelfattah, Tomov and Dongarra, section 5.8: the counterparts of their tuning parameters.
    """

    way: str
    threads: int = 128
    chunk: int = 8192
    tile_m: int = 1
    tile_n: int = 1
    warps_m: int = 2
    warps_n: int = 2
    steps: int = 2
    stages: int = 3
    direct: bool = False
    resident: int = 0


@dataclass(frozen=True)
class Case:
    """All of a call that its kernel depends on: sizes, formats and layouts, but no addresses."""

    m: int
    n: int
    k: int
    batch: int
    complex: bool
    bf16: bool
    acc16: bool
    conj_a: bool
    conj_b: bool
    alpha: int  # 0: one, 1: real, 2: complex
    beta: int  # 0: zero, 1: real, 2: complex
    a: Layout
    b: Layout
    c: Layout | None
    out: Layout
    in_phase: bool  # C and the result have the same address modulo 16

    @property
    def entry(self) -> int:
        """Bytes of an entry."""
        return 4 if self.complex else 2


@dataclass(frozen=True)
class Plan:
    """A launch: constants, sizes passed as arguments, grid, threads and bytes of shared memory."""

    constants: tuple[tuple[str, int], ...]
    sizes: tuple[int, ...]
    grid: int
    threads: int
    shared: int


def _formats(case: Case) -> dict[str, int]:
    return {
        "COMPLEX": int(case.complex),
        "BF16": int(case.bf16),
        "ACC16": int(case.acc16),
        "CONJ_A": int(case.conj_a),
        "CONJ_B": int(case.conj_b),
        "ALPHA": case.alpha,
        "BETA": case.beta,
        "SHORT": 0,
        "A_KMAJOR": int(case.a.by_rows),
        "B_KMAJOR": int(not case.b.by_rows),
        "A_LISTED": int(case.a.listed),
        "B_LISTED": int(case.b.listed),
    }


def _piece(size: int, *layouts: Layout, length: int = 0) -> int:
    """The widest piece, up to 16 bytes, in which rows of these layouts can be moved."""
    parts = [part * size for x in layouts for part in (x.leading, x.stride)]
    return gcd(16, length * size, *parts, *(x.alignment for x in layouts))


def _packed(x: Layout, rows: int, length: int, batch: int) -> bool:
    """Whether the stack is one stretch of memory without gaps."""
    return not x.listed and x.leading == length and (x.stride in (0, rows * length) or batch == 1)


def _operand(case: Case, x: Layout, outer: int, name: str, by_depth: bool, direct: bool) -> dict[str, int]:
    """The constants that place one operand in shared memory."""
    size = case.entry
    if direct:
        stride = 0 if x.listed else x.stride * size
        return {
            f"{name}_FLAT": 0,
            f"{name}_SHARED": 0,
            f"{name}_VEC": 2,
            f"{name}_LD": x.leading,
            f"{name}_ALIGN": gcd(16, x.alignment, stride) // size,
            f"{name}_STRIDE": 0,
            f"{name}_ROOM": 0,
        }
    rows, length = (outer, case.k) if by_depth else (case.k, outer)
    shared = x.stride == 0 and not x.listed
    piece = _piece(size, x, length=length)
    unit = 16 // size
    ld = length
    if piece == 16 and length % (2 * unit) == 0:
        ld += unit  # eight rows then begin in different banks
    flat = ld == length and _packed(x, rows, length, case.batch)
    stride = rows * ld if flat else padded(rows * ld, unit)
    align = gcd(16, x.alignment, stride * size) // size if flat else unit
    return {
        f"{name}_FLAT": int(flat),
        f"{name}_SHARED": int(shared),
        f"{name}_VEC": piece,
        f"{name}_LD": ld,
        f"{name}_ALIGN": align,
        f"{name}_STRIDE": 0 if shared else stride,
        f"{name}_ROOM": stride,
    }


def _room(size: int, constants: dict[str, int], name: str, count: int) -> int:
    """Bytes of shared memory for one operand of `count` products: 32 more, for any phase."""
    copies = 1 if constants.get(f"{name}_SHARED") else count
    return padded(copies * constants[f"{name}_ROOM"] * size, 16) + 32


def _result(case: Case, staged: bool) -> dict[str, int]:
    """The constants that say how C is read and written."""
    size = case.entry
    layouts = [x for x in (case.out, case.c) if x is not None]
    piece = _piece(size, *layouts, length=case.n)
    if not staged:
        return {
            "STAGED": 0,
            "C_FLAT": 0,
            "C_WHOLE": 0,
            "C_VEC": piece,
            "C_STRIDE": 0,
            "C_ROOM": 0,
            "C_ALIGN": piece // size,
        }
    packed = all(
        _packed(x, case.m, case.n, case.batch) and (x.stride > 0 or case.batch == 1) for x in layouts
    )
    flat = packed and case.in_phase
    stride = case.m * case.n if flat else padded(case.m * case.n, 16 // size)
    align = gcd(16, case.n * size, stride * size, case.out.alignment if flat else 16) // size
    return {
        "STAGED": 1,
        "C_FLAT": int(flat),
        "C_WHOLE": int(flat and stride * size % 16 == 0 and case.out.alignment == 16),
        "C_VEC": piece,
        "C_STRIDE": stride,
        "C_ROOM": stride,
        "C_ALIGN": align,
    }


def plan_whole(case: Case, blocking: Blocking, processors: int, limit: int = BLOCK_BYTES) -> Plan | None:
    """Plan the kernel of whole matrices, or return None if it does not suit the case."""
    m, n, k, size = case.m, case.n, case.k, case.entry
    plain = blocking.way == "plain"
    parts = 2 if case.complex else 1
    if plain and (parts * n > 32 or k > 32):
        return None  # a thread keeps a row of A and of C in registers
    if not plain and parts * (m * k + k * n) * 2 > limit:
        return None
    each = size * (
        m * k * (case.a.stride > 0 or case.a.listed) + k * n * (case.b.stride > 0 or case.b.listed)
    )
    # Full sectors can be written from registers; anything else is gathered first.
    staged = not blocking.direct and (n * size % 32 != 0 or _result(case, False)["C_VEC"] < 8)
    count = max(1, blocking.chunk // max(1, each + size * m * n * staged))
    count = min(count, -(-case.batch // processors))
    if blocking.direct:
        lengths = (k if case.a.by_rows else m, n if case.b.by_rows else k)
        if (case.a.leading, case.b.leading) != lengths:
            return None
        wide = 8 if case.complex else 16
        shares = -(-m // (16 * blocking.tile_m)) * -(-n // (wide * blocking.tile_n))
        pairs = 2 if m <= 8 and parts * n <= 8 else 1
        count = max(count, blocking.threads // m if plain else blocking.threads // 32 * pairs // shares)
    while True:
        constants = _formats(case) | {
            "M": m,
            "N": n,
            "K": k,
            "PLAIN": int(plain),
            "DIRECT": int(blocking.direct),
            "SHORT": int(parts * k <= 8),
        }
        constants |= {"THREADS": blocking.threads, "TM": blocking.tile_m, "TN": blocking.tile_n}
        constants |= _operand(case, case.a, m, "A", case.a.by_rows, blocking.direct)
        constants |= _operand(case, case.b, n, "B", not case.b.by_rows, blocking.direct)
        constants |= _result(case, staged)
        rooms = [_room(size, constants, name, count) for name in "ABC"]
        shared = 0 if blocking.direct else sum(rooms[: 2 + staged])
        if shared <= limit:
            grid = -(-case.batch // count)
            sizes = (case.batch, count, *rooms[:2])
            return Plan(tuple(sorted(constants.items())), sizes, grid, blocking.threads, shared)
        if count == 1 and not staged:
            return None
        count, staged = max(1, count // 2), staged and count > 1


def plan_tiled(
    case: Case, blocking: Blocking, processors: int = 132, limit: int = BLOCK_BYTES
) -> Plan | None:
    """Plan the kernel of tiles, or return None if its buffers do not fit."""
    size = case.entry
    wide = step = 8 if case.complex else 16
    rows = 16 * blocking.tile_m * blocking.warps_m
    columns = wide * blocking.tile_n * blocking.warps_n
    depth = step * blocking.steps

    def padding(by_depth: bool, length: int) -> int:
        return (0 if length % 16 else 8) if case.complex and not by_depth else 16 // size

    def room(by_depth: bool, outer: int) -> int:
        lines, length = (outer, depth) if by_depth else (depth, outer)
        return lines * (length + padding(by_depth, length))

    room_a, room_b = room(case.a.by_rows, rows), room(not case.b.by_rows, columns)
    shared = blocking.stages * (room_a + room_b) * size
    if shared > limit:
        return None
    layouts = [x for x in (case.out, case.c) if x is not None]
    constants = _formats(case) | {
        "TM": blocking.tile_m,
        "TN": blocking.tile_n,
        "WARPS_M": blocking.warps_m,
        "WARPS_N": blocking.warps_n,
        "STEPS": blocking.steps,
        "STAGES": blocking.stages,
        "RESIDENT": int(blocking.resident > 0),
        "A_VEC": _piece(size, case.a),
        "B_VEC": _piece(size, case.b),
        "C_ALIGN": _piece(size, *layouts) // size,
    }
    grid = total = case.batch * -(-case.m // rows) * -(-case.n // columns)
    if blocking.resident:
        grid = min(grid, blocking.resident * processors)
    return Plan(
        tuple(sorted(constants.items())),
        (case.m, case.n, case.k, total),
        grid,
        32 * blocking.warps_m * blocking.warps_n,
        shared,
    )


def sample_case(m: int, n: int, k: int, **changes: Any) -> Case:
    """A case with packed, aligned stacks and every option off, but for the changes."""
    stacks = {
        "a": Layout(m * k, k, True, False, 16),
        "b": Layout(k * n, n, True, False, 16),
        "out": Layout(m * n, n, True, False, 16),
    }
    options = dict.fromkeys(("complex", "bf16", "acc16", "conj_a", "conj_b"), False)
    return Case(
        m, n, k, 1000, **{**options, "alpha": 0, "beta": 0, "c": None, "in_phase": True, **stacks, **changes}
    )
