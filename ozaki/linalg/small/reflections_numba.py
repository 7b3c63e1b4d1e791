"""Householder's reflections of a real panel, compiled: a column in each lane of a vector.

The sums by halves of `leaves.qr_panel` are of one column each, and those of T of one row each: eight are
added up side by side, every number by the same operations in the same order.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import float64, int64, void
from numba.core import cgutils

from multiword.runtime.addresses import F64, I64, doubles_at, instruction
from multiword.runtime.jit import inlined
from ozaki.linalg.small import leaves
from ozaki.linalg.small.leaves import LANES

LINE = 8 * LANES
"""Bytes of a line, a number in each lane."""

VECTOR = ir.VectorType(F64, LANES)
_STEPS = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))


def line_at(b: Any, address: Any) -> Any:
    line = b.load(b.inttoptr(address, VECTOR.as_pointer()))
    line.align = 8
    return line


def write_line(b: Any, x: Any, address: Any) -> None:
    b.store(x, b.inttoptr(address, VECTOR.as_pointer())).align = 8


def _next(b: Any, address: Any, step: Any, i: Any) -> Any:
    return b.add(address, b.mul(step, i))


def all_lanes(b: Any, x: Any) -> Any:
    """A vector of a number, or an integer, in each lane."""
    kind = ir.VectorType(x.type, LANES)
    one = b.insert_element(ir.Constant(kind, ir.Undefined), x, I64(0))
    return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def number_at(b: Any, address: Any, i: Any) -> Any:
    return all_lanes(b, b.load(b.gep(b.inttoptr(address, F64.as_pointer()), [i])))


@instruction(void(*[int64] * 5))
def times_numbers(_: Any, b: Any, lines: Any, numbers: Any, half: Any, apart: Any, to: Any) -> None:
    """Write lines i times numbers i, i < half, plus those of i + apart."""
    with cgutils.for_range(b, half) as loop:
        terms = []
        for i in (loop.index, b.add(loop.index, apart)):
            terms.append(b.fmul(line_at(b, _next(b, lines, I64(LINE), i)), number_at(b, numbers, i)))
        write_line(b, b.fadd(*terms), _next(b, to, I64(LINE), loop.index))


@instruction(void(*[int64] * 6))
def times_lines(_: Any, b: Any, x: Any, y: Any, step: Any, half: Any, apart: Any, to: Any) -> None:
    """Write lines i of x times lines i of y, i < half, plus those of i + apart.

    Bytes from a line of x to the next are `step`; lines of y go backwards, and one number further each.
    """
    back = b.sub(I64(8), step)
    with cgutils.for_range(b, half) as loop:
        terms = []
        for i in (loop.index, b.add(loop.index, apart)):
            terms.append(b.fmul(line_at(b, _next(b, x, step, i)), line_at(b, _next(b, y, back, i))))
        write_line(b, b.fadd(*terms), _next(b, to, I64(LINE), loop.index))


@instruction(void(*[int64] * 3))
def product(_: Any, b: Any, x: Any, y: Any, to: Any) -> None:
    """Write a line times another."""
    write_line(b, b.fmul(line_at(b, x), line_at(b, y)), to)


@instruction(void(int64, float64, int64))
def times_number(_: Any, b: Any, line: Any, number: Any, to: Any) -> None:
    """Write a line times a number."""
    write_line(b, b.fmul(line_at(b, line), all_lanes(b, number)), to)


@instruction(void(*[int64] * 3))
def add_lines(_: Any, b: Any, lines: Any, half: Any, apart: Any) -> None:
    """Add lines i + apart to lines i < half."""
    with cgutils.for_range(b, half) as loop:
        x, y = (_next(b, lines, I64(LINE), i) for i in (loop.index, b.add(loop.index, apart)))
        write_line(b, b.fadd(line_at(b, x), line_at(b, y)), x)


@instruction(void(*[int64] * 5))
def subtract(_: Any, b: Any, lines: Any, numbers: Any, count: Any, weights: Any, first: Any) -> None:
    """Subtract a line of weights times numbers i from lines i, in the lanes from the first one on."""
    changed, line = b.icmp_signed(">=", _STEPS, all_lanes(b, first)), line_at(b, weights)
    with cgutils.for_range(b, count) as loop:
        at = _next(b, lines, I64(LINE), loop.index)
        x = line_at(b, at)
        y = b.fsub(x, b.fmul(line, number_at(b, numbers, loop.index)))
        write_line(b, b.select(changed, y, x), at)


@instruction(void(*[int64] * 4))
def minus_product(_: Any, b: Any, line: Any, taus: Any, there: Any, to: Any) -> None:
    """Write minus a line times τ, and 0 where there is no reflection."""
    x = b.fneg(b.fmul(line_at(b, line), line_at(b, taus)))
    reflected = b.fcmp_ordered("!=", line_at(b, there), ir.Constant(VECTOR, None))
    write_line(b, b.select(reflected, x, ir.Constant(VECTOR, None)), to)


@inlined
def _halves(lines, n):
    """As `leaves.halves`, of lines at an address."""
    while n > 1:
        add_lines(lines, n // 2, n - n // 2)
        n -= n // 2


room = inlined(leaves.room)
narrow = inlined(leaves.qr_panel)


def qr_panel(columns, y, t, terms, squares):
    """As `leaves.qr_panel`, of real numbers: blocks of LANES columns lie in memory row by row."""
    w, m = columns.shape[0], columns.shape[1]
    if w < LANES or len(terms) < room(m, w):
        narrow(columns, y, t, terms, squares)
        return
    blocks = -(-w // LANES)
    skipped = (-terms.ctypes.data & (LINE - 1)) // 8
    aligned = terms[skipped:]
    a = aligned[: blocks * m * LANES].reshape(blocks, m, LANES)
    rest, step = aligned[blocks * m * LANES :], (blocks + 1) * LANES
    diagonals = rest[: 2 * w * step].reshape(2 * w, step)
    t_of, overlaps, there = diagonals[:w], diagonals[w:], rest[2 * w * step : (2 * w + 1) * step]
    sums = rest[(2 * w + 1) * step : (2 * w + 1) * step + m * LANES].reshape(m, LANES)
    for c in range(blocks * LANES):
        for i in range(m):
            a[c // LANES, i, c % LANES] = columns[c, i] if c < w else 0.0
    for j in range(w):
        column, v, n, own, lane = columns[j], y[j, j:], m - j, a[j // LANES], j % LANES
        for i in range(j):
            column[i] = own[i, lane]
        for i in range(n):
            v[i], column[j + i] = own[j + i, lane], 0
        column[j], tau = leaves.reflect(v, squares)
        t[j, j] = t_of[0, j] = tau
        there[j] = v[0]
        for i in range(n):
            own[j + i, lane] = v[i]
        if v[0] == 0:
            for k in range(j):
                overlaps[j - k, k] = 0.0
            continue
        for block in range(blocks):
            lines = a[block, j:]
            _dots(lines.ctypes.data, v.ctypes.data, n, sums.ctypes.data)
            for k in range(LANES * block, min(LANES * (block + 1), j)):
                overlaps[j - k, k] = sums[0, k % LANES]
            if block >= j // LANES:
                first = lane + 1 if block == j // LANES else 0
                times_number(sums.ctypes.data, tau, sums.ctypes.data)
                subtract(lines.ctypes.data, v.ctypes.data, n, sums.ctypes.data, first)
    _triangle(t_of, overlaps, there, sums.ctypes.data)
    for k in range(w):
        for j in range(k + 1, w):
            t[k, j] = t_of[j - k, k]


@inlined
def _dots(lines, v, n, to):
    """Write a line of products of columns with v, summed by halves."""
    half = n // 2
    times_numbers(lines, v, half, n - half, to)
    if n % 2:
        times_number(lines + LINE * half, doubles_at(v + 8 * half, 1)[0], to + LINE * half)
    _halves(to, n - half)


@inlined
def _triangle(t, overlaps, there, to):
    """Write T by diagonals: number k of t[d] is that of row k and column k + d, and so it is of overlaps."""
    w, step = len(t), 8 * t.shape[1]
    for d in range(1, w):
        half = d // 2
        for k in range(0, w - d, LANES):
            x, y = t.ctypes.data + 8 * k, overlaps.ctypes.data + step * d + 8 * k
            times_lines(x, y, step, half, d - half, to)
            if d % 2:
                product(x + step * half, y + (8 - step) * half, to + LINE * half)
            _halves(to, d - half)
            minus_product(to, x + 8 * d, there.ctypes.data + 8 * (k + d), x + step * d)
