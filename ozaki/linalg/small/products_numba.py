"""Products of small real matrices, compiled: results of eight columns, each in a lane of a vector.

The integers and what is rounded are those of `products.multiply`. What a lane has no simple scale for is
rounded by the text.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import int64, void
from numba.core import cgutils

from multiword.runtime.addresses import I64, instruction, longs_at, on_stack, to_doubles_at
from multiword.runtime.jit import inlined
from ozaki.linalg.small import products
from ozaki.linalg.small.products import DOWN, LEAST_NORMAL, NONFINITE, UP, UP_HALF
from ozaki.linalg.small.reflections_numba import (
    LANES,
    LINE,
    VECTOR,
    line_at,
    number_at,
    write_line,
)

INTEGERS = ir.VectorType(I64, LANES)
DIGITS = 5
"""Integers of a sum of products of slices."""


def _constant(x: float) -> Any:
    return ir.Constant(VECTOR, [x] * LANES)


def _integer(x: int) -> Any:
    return ir.Constant(INTEGERS, [x] * LANES)


def _function(b: Any, name: str, operands: int) -> Any:
    kind = ir.FunctionType(VECTOR, [VECTOR] * operands)
    return cgutils.get_or_insert_function(b.module, kind, f"llvm.{name}.v{LANES}f64")


@instruction(void(*[int64] * 5))
def dots(_: Any, b: Any, row: Any, apart: Any, lines: Any, count: Any, to: Any) -> None:
    """Write what `products.dot` returns, of a row and of a column in each lane.

    The slices of the row are so many bytes apart; the lines of those of the columns follow one another.
    """
    sums = [cgutils.alloca_once_value(b, ir.Constant(VECTOR, None)) for _ in range(DIGITS)]
    fma = _function(b, "fma", 3)
    with cgutils.for_range(b, count) as loop:
        x = [number_at(b, b.add(row, b.mul(apart, I64(s))), loop.index) for s in range(3)]
        of_slice = b.mul(count, I64(LINE))
        here = b.add(lines, b.mul(loop.index, I64(LINE)))
        y = [line_at(b, b.add(here, b.mul(of_slice, I64(s)))) for s in range(3)]
        for i in range(3):
            for j in range(3):
                b.store(b.call(fma, (x[i], y[j], b.load(sums[i + j]))), sums[i + j])
    for i, total in enumerate(sums):
        write_line(b, b.load(total), b.add(to, I64(LINE * i)))


def _two_sum(b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    s = b.fadd(x, y)
    of_y = b.fsub(s, x)
    return s, b.fadd(b.fsub(x, b.fsub(s, of_y)), b.fsub(y, of_y))


@instruction(int64(int64, int64, int64))
def round_lines(_: Any, b: Any, digits: Any, exponents: Any, to: Any) -> Any:
    """Write what `products.rounded` returns of the integers in each lane; return whether some are left out.

    These have exponents, or results, that `products.scaled_once` takes otherwise than by one product.
    """
    c4, c3, c2, c1, c0 = (line_at(b, b.add(digits, I64(LINE * i))) for i in range(DIGITS))
    e = b.load(b.inttoptr(exponents, INTEGERS.as_pointer()))
    e.align = 8
    up, down, up_half, zero = _constant(UP), _constant(DOWN), _constant(UP_HALF), ir.Constant(VECTOR, None)

    def carried(low: Any, high: Any | None) -> tuple[Any, Any]:
        carry = b.call(_function(b, "rint", 1), (b.fmul(low, down),))
        return b.fsub(low, b.fmul(carry, up)), carry if high is None else b.fadd(high, carry)

    c0, c1 = carried(c0, c1)
    c1, c2 = carried(c1, c2)
    c2, c3 = carried(c2, c3)
    c3, c4 = carried(c3, c4)
    c4, carry = carried(c4, None)
    top = b.fmul(b.fadd(b.fmul(carry, up), c4), _constant(UP_HALF * UP_HALF))
    high, low = _two_sum(b, top, b.fmul(b.fadd(b.fmul(c3, up), c2), up_half))
    low, lost = _two_sum(b, low, b.fadd(b.fmul(c1, up), c0))
    bits = b.bitcast(low, INTEGERS)
    same = b.icmp_unsigned("==", b.fcmp_ordered(">", low, zero), b.fcmp_ordered(">", lost, zero))
    odd = b.bitcast(b.add(bits, b.select(same, _integer(1), _integer(-1))), VECTOR)
    even = b.icmp_unsigned("==", b.and_(bits, _integer(1)), _integer(0))
    low = b.select(b.and_(b.fcmp_unordered("!=", lost, zero), even), odd, low)
    high, _low = _two_sum(b, high, low)
    power = b.bitcast(b.shl(b.add(e, _integer(1023)), _integer(52)), VECTOR)
    result = b.fmul(high, power)
    write_line(b, result, to)
    size = b.call(_function(b, "fabs", 1), (result,))
    inside = b.and_(b.icmp_signed("<", e, _integer(1023)), b.icmp_signed(">", e, _integer(-1023)))
    plain = b.or_(b.fcmp_ordered(">", size, _constant(LEAST_NORMAL)), b.fcmp_ordered("==", high, zero))
    decided = b.bitcast(b.and_(inside, plain), ir.IntType(LANES))
    return b.zext(b.icmp_unsigned("!=", decided, ir.Constant(ir.IntType(LANES), (1 << LANES) - 1)), I64)


narrow = inlined(products.multiply)
_digits, _exponents, _results = on_stack(DIGITS * LANES), on_stack(LANES), on_stack(LANES)


def multiply(x, transposed, conjugate, y, turned, out, floats, integers):
    """As `products.multiply`, of real numbers."""
    m, n = out.shape[0], out.shape[1]
    length = x.shape[0] if transposed else x.shape[1]
    rest = floats[4 * (m + n) * length :]
    skipped = (-rest.ctypes.data & (LINE - 1)) // 8
    columns = rest[skipped : skipped + 3 * LANES * length]
    if len(columns) < 3 * LANES * length:
        narrow(x, transposed, conjugate, y, turned, out, floats, integers)
        return
    left = floats[: 4 * m * length].reshape(4 * m, length)
    right = floats[4 * m * length : 4 * (m + n) * length].reshape(4 * n, length)
    scales, others = integers[:m], integers[m:]
    products.load(x, transposed, conjugate, left)
    products.load_right(y, turned, right)
    products.split(left, scales)
    products.split(right, others)
    digits, exponents, results = _digits(), longs_at(_exponents(), LANES), to_doubles_at(_results(), LANES)
    for first in range(0, n, LANES):
        count = min(LANES, n - first)
        for s in range(3):
            for lane in range(LANES):
                row = right[(s + 1) * n + first + min(lane, count - 1)]
                for h in range(length):
                    columns[(s * length + h) * LANES + lane] = row[h]
        for i in range(m):
            if scales[i] != NONFINITE:
                for lane in range(LANES):
                    exponents[lane] = -(scales[i] + others[first + min(lane, count - 1)])
                dots(left[m + i].ctypes.data, 8 * m * length, columns.ctypes.data, length, digits)
                if not round_lines(digits, exponents.ctypes.data, results.ctypes.data):
                    for lane in range(count):
                        out[i, first + lane] = results[lane]
                    continue
            for j in range(first, first + count):
                out[i, j] = products.real_product(left, i, scales[i], right, j, others[j])
