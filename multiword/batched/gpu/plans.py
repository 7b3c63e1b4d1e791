"""The constants and the launch of a kernel, from a call's sizes and layouts: arithmetic that needs no GPU."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import gcd
from typing import Any

from multiword.engines.layouts import Layout
from multiword.runtime.memory import padded

KERNELS = ("plain", "resident", "tiled", "cublas")
"""The kernels of a batch: see `Tuning`."""

BLOCK_BYTES = 227 << 10
"""Shared memory that one block may have (sm_90; smaller devices are asked)."""


@dataclass(frozen=True)
class Tuning:
    """Which kernel computes a batch, and its tuning parameters.

    Attributes
    ----------
    kernel : "plain" (one row of C for each thread) and "resident" (tensor cores) keep whole matrices
        in shared memory; "tiled" passes tiles through it; "cublas" calls the library.
    threads : of a block ("plain", "resident").
    chunk : bytes of operands that a block takes at once ("plain", "resident").
    tile_m, tile_n : tensor-core tiles of a warp ("resident", "tiled").
    warps_m, warps_n : warps of a block ("tiled").
    steps, stages : instructions along k for each stage, and stages in flight ("tiled").
    direct : whether "plain" and "resident" read packed operands from global memory as they need them,
        each warp on its own, rather than through shared memory.
    persistent : blocks on each multiprocessor that take one tile after another and load the next one's
        operands meanwhile; 0: one block for every tile ("tiled").

    References
    ----------
    Abdelfattah, Tomov and Dongarra, section 5.8: the counterparts of their tuning parameters.
    """

    kernel: str
    threads: int = 128
    chunk: int = 8192
    tile_m: int = 1
    tile_n: int = 1
    warps_m: int = 2
    warps_n: int = 2
    steps: int = 2
    stages: int = 3
    direct: bool = False
    persistent: int = 0


@dataclass(frozen=True)
class Case:
    """The sizes, formats and layouts of a call: all that its kernel depends on, but no addresses."""

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

    @property
    def results(self) -> list[Layout]:
        """The result's layout, and C's if it is read."""
        return [x for x in (self.out, self.c) if x is not None]


@dataclass(frozen=True)
class Launch:
    """A kernel's constants, the sizes it is passed, its grid, threads and bytes of shared memory."""

    constants: tuple[tuple[str, int], ...]
    sizes: tuple[int, ...]
    grid: int
    threads: int
    shared: int


@cache
def table() -> dict[str, Any]:
    """Return the measurements that choices are made from, as `benchmarks/batched.py tune` wrote them."""
    return json.loads((resources.files(__package__) / "choices.json").read_text())


def regime(m: int, n: int, k: int, is_complex: bool) -> tuple[str, float, int]:
    """Return the table that a shape belongs to, its size there, and the alignment of its rows.

    A product is a "rank-16" update if its inner dimension is much the smallest, otherwise "square". Rows
    are read 8, 2 or 1 halves at a time: cuBLAS and the kernels are slower in that order.

    >>> regime(100, 100, 16, False)
    ('real rank-16', 100.0, 2)
    """
    kind, aligned = "complex" if is_complex else "real", min(_alignment(n), _alignment(k))
    if 3 * k <= min(m, n):
        return f"{kind} rank-16", math.sqrt(m * n), aligned
    return f"{kind} square", round((m * n * k) ** (1 / 3), 6), aligned


def _alignment(n: int) -> int:
    """Return how many halves of a row of n can be read at a time: 8, 2 or 1."""
    return 8 if n % 8 == 0 else 2 if n % 2 == 0 else 1


def choose(case: Case) -> Tuning:
    """Return the tuning measured fastest, on the table's device, at the nearest size and batch."""
    return _nearest(*regime(case.m, case.n, case.k, case.complex), case.batch)


@cache
def _nearest(name: str, size: float, aligned: int, batch: int) -> Tuning:
    """Return the choice at the table's nearest size of the same alignment, and nearest batch."""
    every = table()["choices"][name]
    rows = [row for row in every if _alignment(row["n"]) == aligned] or every
    row = min(rows, key=lambda x: abs(math.log(x["n"] / size)))
    batches = table()["batches"][: len(row["best"])]
    column = min(range(len(batches)), key=lambda i: abs(math.log(batches[i] / max(1, batch))))
    return Tuning(**table()["tunings"][row["best"][column]])


def resident_launch(case: Case, tuning: Tuning, processors: int, limit: int = BLOCK_BYTES) -> Launch | None:
    """Return the launch of "plain" or "resident", or None if the matrices do not fit."""
    if not _suits_resident(case, tuning, limit):
        return None
    # Full sectors can be written from registers; anything else is gathered first.
    staged = not tuning.direct and (
        case.n * case.entry % 32 != 0 or _result_constants(case, False)["C_VEC"] < 8
    )
    count = _products_of_block(case, tuning, staged, processors)
    fixed = _format_constants(case) | {"M": case.m, "N": case.n, "K": case.k}
    fixed |= {"PLAIN": int(tuning.kernel == "plain"), "DIRECT": int(tuning.direct)}
    fixed |= {"TM": tuning.tile_m, "TN": tuning.tile_n, "THREADS": tuning.threads}
    fixed["SHORT"] = int((2 if case.complex else 1) * case.k <= 8)
    fixed |= _operand_constants(case, case.a, case.m, "A", case.a.by_rows, tuning.direct)
    fixed |= _operand_constants(case, case.b, case.n, "B", not case.b.by_rows, tuning.direct)
    while True:
        constants = fixed | _result_constants(case, staged)
        rooms = [_room(case.entry, constants, name, count) for name in "ABC"]
        shared = 0 if tuning.direct else sum(rooms[: 2 + staged])
        if shared <= limit:
            sizes = (case.batch, count, *rooms[:2])
            grid = -(-case.batch // count)
            return Launch(tuple(sorted(constants.items())), sizes, grid, tuning.threads, shared)
        if count == 1 and not staged:
            return None
        count, staged = max(1, count // 2), staged and count > 1


def _suits_resident(case: Case, tuning: Tuning, limit: int) -> bool:
    m, n, k, parts = case.m, case.n, case.k, 2 if case.complex else 1
    if tuning.kernel == "plain" and (parts * n > 32 or k > 32):
        return False  # a thread keeps a row of A and of C in registers
    if tuning.kernel != "plain" and parts * (m * k + k * n) * 2 > limit:
        return False
    lengths = (k if case.a.by_rows else m, n if case.b.by_rows else k)
    return not tuning.direct or (case.a.leading, case.b.leading) == lengths


def _products_of_block(case: Case, tuning: Tuning, staged: bool, processors: int) -> int:
    """Return the number of products that a block takes at once."""
    m, n, k = case.m, case.n, case.k
    own_a, own_b = (x.stride > 0 or x.listed for x in (case.a, case.b))
    each = case.entry * (m * k * own_a + k * n * own_b + m * n * staged)
    count = min(max(1, tuning.chunk // max(1, each)), -(-case.batch // processors))
    if not tuning.direct:
        return count
    if tuning.kernel == "plain":
        return max(count, tuning.threads // m)
    parts, wide = (2, 8) if case.complex else (1, 16)
    shares = -(-m // (16 * tuning.tile_m)) * -(-n // (wide * tuning.tile_n))
    pairs = 2 if m <= 8 and parts * n <= 8 else 1
    return max(count, tuning.threads // 32 * pairs // shares)


def _format_constants(case: Case) -> dict[str, int]:
    formats = {"COMPLEX": case.complex, "BF16": case.bf16, "ACC16": case.acc16, "SHORT": False}
    scalars = {"CONJ_A": case.conj_a, "CONJ_B": case.conj_b, "ALPHA": case.alpha, "BETA": case.beta}
    layouts = {"A_KMAJOR": case.a.by_rows, "B_KMAJOR": not case.b.by_rows}
    layouts |= {"A_LISTED": case.a.listed, "B_LISTED": case.b.listed}
    return {name: int(value) for name, value in (formats | scalars | layouts).items()}


def _vector_bytes(size: int, *layouts: Layout, length: int = 0) -> int:
    """Return the largest vectors, up to 16 bytes, in which rows of these layouts can be moved."""
    parts = [part * size for x in layouts for part in (x.leading, x.stride)]
    return gcd(16, length * size, *parts, *(x.alignment for x in layouts))


def _packed(x: Layout, rows: int, length: int, batch: int) -> bool:
    """Return whether the stack lies in memory without gaps."""
    return not x.listed and x.leading == length and (x.stride in (0, rows * length) or batch == 1)


def _operand_constants(
    case: Case, x: Layout, outer: int, name: str, k_contiguous: bool, direct: bool
) -> dict[str, int]:
    """Return the constants of one operand's layout in shared memory."""
    size = case.entry
    if direct:
        flat, shared, vector, ld, stride, room = False, False, 2, x.leading, 0, 0
        align = gcd(16, x.alignment, 0 if x.listed else x.stride * size) // size
    else:
        rows, length = (outer, case.k) if k_contiguous else (case.k, outer)
        vector, unit = _vector_bytes(size, x, length=length), 16 // size
        # eight rows then begin in different banks
        ld = length + unit if vector == 16 and length % (2 * unit) == 0 else length
        flat = ld == length and _packed(x, rows, length, case.batch)
        shared = x.stride == 0 and not x.listed
        room = rows * ld if flat else padded(rows * ld, unit)
        align = gcd(16, x.alignment, room * size) // size if flat else unit
        stride = 0 if shared else room
    constants = {"FLAT": int(flat), "SHARED": int(shared), "VEC": vector, "LD": ld}
    constants |= {"ALIGN": align, "STRIDE": stride, "ROOM": room}
    return {f"{name}_{key}": value for key, value in constants.items()}


def _room(size: int, constants: dict[str, int], name: str, count: int) -> int:
    """Return the bytes of shared memory for one operand of `count` products: 32 more, for any phase."""
    copies = 1 if constants.get(f"{name}_SHARED") else count
    return padded(copies * constants[f"{name}_ROOM"] * size, 16) + 32


def _result_constants(case: Case, staged: bool) -> dict[str, int]:
    """Return the constants by which C is read and written."""
    size, (m, n) = case.entry, (case.m, case.n)
    vector = _vector_bytes(size, *case.results, length=n)
    flat = in_vectors = False
    stride, align = 0, vector // size
    if staged:
        flat = case.in_phase and all(
            _packed(x, m, n, case.batch) and (x.stride > 0 or case.batch == 1) for x in case.results
        )
        stride = m * n if flat else padded(m * n, 16 // size)
        align = gcd(16, n * size, stride * size, case.out.alignment if flat else 16) // size
        in_vectors = flat and stride * size % 16 == 0 and case.out.alignment == 16
    constants = {"STAGED": int(staged), "C_FLAT": int(flat), "C_WHOLE": int(in_vectors), "C_VEC": vector}
    return constants | {"C_STRIDE": stride, "C_ROOM": stride, "C_ALIGN": align}


def tiled_launch(
    case: Case, tuning: Tuning, processors: int = 132, limit: int = BLOCK_BYTES
) -> Launch | None:
    """Return the launch of "tiled", or None if its buffers do not fit."""
    wide = step = 8 if case.complex else 16
    rows, columns = 16 * tuning.tile_m * tuning.warps_m, wide * tuning.tile_n * tuning.warps_n
    entries = _tile_entries(case, case.a.by_rows, rows, step * tuning.steps)
    entries += _tile_entries(case, not case.b.by_rows, columns, step * tuning.steps)
    shared = tuning.stages * entries * case.entry
    if shared > limit:
        return None
    constants = _format_constants(case) | {"TM": tuning.tile_m, "TN": tuning.tile_n}
    constants |= {"WARPS_M": tuning.warps_m, "WARPS_N": tuning.warps_n, "STEPS": tuning.steps}
    constants |= {"STAGES": tuning.stages, "PERSISTENT": int(tuning.persistent > 0)}
    constants |= {"A_VEC": _vector_bytes(case.entry, case.a), "B_VEC": _vector_bytes(case.entry, case.b)}
    constants["C_ALIGN"] = _vector_bytes(case.entry, *case.results) // case.entry
    grid = total = case.batch * -(-case.m // rows) * -(-case.n // columns)
    if tuning.persistent:
        grid = min(grid, tuning.persistent * processors)
    sizes, threads = (case.m, case.n, case.k, total), 32 * tuning.warps_m * tuning.warps_n
    return Launch(tuple(sorted(constants.items())), sizes, grid, threads, shared)


def _tile_entries(case: Case, k_contiguous: bool, outer: int, k: int) -> int:
    """Return the entries of one operand's tile in shared memory, with the `padding` of tiled.cu."""
    lines, length = (outer, k) if k_contiguous else (k, outer)
    if case.complex and not k_contiguous:
        return lines * (length + (8 if length % 16 == 0 else 0))
    return lines * (length + 16 // case.entry)
