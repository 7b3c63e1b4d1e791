"""Loops over lines of LANES numbers, compiled: a sum, or a maximum, in each lane of a vector.

What they add up stays in registers. What numba compiles would ask before every line whether lanes overlap
lines, and store them behind it.
"""

from typing import Any

from llvmlite import ir
from numba import boolean, int64, void
from numba.core import cgutils

from multiword.runtime.addresses import F32, F64, I8, I32, I64, instruction, prefetched
from multiword.runtime.compiled import BIAS
from ozaki.definition.statistics import BITS
from ozaki.execution.small_products import LANES
from ozaki.execution.thin import LEVELS_AT_FIRST
from ozaki.scaling.statistics_numba import MAGNITUDE

VECTOR, INTEGERS = ir.VectorType(F64, LANES), ir.VectorType(I64, LANES)

CACHE_LINE = 64

LINE_BYTES, FIRST = 8 * LANES, I64(0)


def _at(builder: Any, address: Any, i: Any, kind: Any = VECTOR) -> Any:
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [i])


def _read(builder: Any, address: Any, i: Any = FIRST, kind: Any = VECTOR) -> Any:
    x = builder.load(_at(builder, address, i, kind))
    x.align = 1
    return x


def _write(builder: Any, x: Any, address: Any, i: Any = FIRST) -> None:
    builder.store(x, _at(builder, address, i, x.type)).align = 8


def _function(builder: Any, name: str, operands: int) -> Any:
    kind = ir.FunctionType(VECTOR, [VECTOR] * operands)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")


def _all(x: Any, kind: Any = INTEGERS) -> Any:
    return ir.Constant(kind, [x] * LANES)


def _splat(builder: Any, x: Any, kind: Any) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), x, I32(0))
    return builder.shuffle_vector(one, one, _zeros)


_zeros = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)


def _least(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.icmp_signed("<", x, y), x, y)


def _add(builder: Any, x: Any, y: Any, sums: Any) -> None:
    """Add x·y to high and low floats, as `add_product_quickly` does."""
    fma = _function(builder, "fma", 3)
    high, low = map(builder.load, sums)
    total = builder.call(fma, (x, y, high))
    rest = builder.call(fma, (x, y, builder.fsub(high, total)))
    builder.store(total, sums[0])
    builder.store(builder.fadd(low, rest), sums[1])


@instruction(void(*[int64] * 7))
def add_quickly(
    _: Any,
    builder: Any,
    row: Any,
    row_step: Any,
    column: Any,
    column_step: Any,
    count: Any,
    begin: Any,
    to: Any,
) -> None:
    """Add products of a row and a column to lanes.

    All are addresses, of lines: `count` of a row and of a column, which are so many apart; and two, high and
    low floats, to begin with, and two to write.
    """
    sums = [cgutils.alloca_once_value(builder, _read(builder, begin, I64(i))) for i in range(2)]
    with cgutils.for_range(builder, count) as loop:
        x = _read(builder, row, builder.mul(row_step, loop.index))
        y = _read(builder, column, builder.mul(column_step, loop.index))
        _add(builder, x, y, sums)
    for i, z in enumerate(sums):
        _write(builder, builder.load(z), to, I64(i))


@instruction(void(*[int64] * 5))
def add_lines_quickly(_: Any, builder: Any, lines: Any, column: Any, count: Any, begin: Any, to: Any) -> None:
    """Add products of so many lines, a row in each lane, and as many numbers of a column to lanes."""
    sums = [cgutils.alloca_once_value(builder, _read(builder, begin, I64(i))) for i in range(2)]
    with cgutils.for_range(builder, count) as loop:
        y = builder.load(builder.gep(builder.inttoptr(column, F64.as_pointer()), [loop.index]))
        _add(builder, _read(builder, lines, loop.index), _splat(builder, y, VECTOR), sums)
    for i, z in enumerate(sums):
        _write(builder, builder.load(z), to, I64(i))


@instruction(void(int64))
def fetch(_: Any, builder: Any, address: Any) -> None:
    """Have a line of the cache fetched; where no memory is, nothing happens."""
    _fetch(builder, address)


def _fetch(builder: Any, address: Any) -> None:
    prefetched(builder, builder.inttoptr(address, I8.as_pointer()), written=False, near=2)


def _reader(kind: Any, apart: int) -> Any:
    """A function that writes lines of numbers of that kind, so many apart, as float64.

    Behind each lies one of the next lines that are read so, which are fetched meanwhile.
    """
    numbers, bytes_ = ir.VectorType(kind, apart * (LANES - 1) + 1), apart * LANES * (8 if kind is F64 else 4)
    places = ir.Constant(ir.VectorType(I32, LANES), [apart * r for r in range(LANES)])

    @instruction(void(*[int64] * 5))
    def read(_: Any, builder: Any, at: Any, step: Any, count: Any, to: Any, to_step: Any) -> None:
        """Bytes from a line to the next are `step` where it is read, and `to_step` where it is written."""
        with cgutils.for_range(builder, count) as loop:
            here = builder.add(at, builder.mul(step, loop.index))
            x = builder.load(builder.inttoptr(here, numbers.as_pointer()))
            x.align = 1
            x = x if apart == 1 else builder.shuffle_vector(x, x, places)
            x = x if kind is F64 else builder.fpext(x, VECTOR)
            for ahead in range(bytes_, 2 * bytes_, CACHE_LINE):
                _fetch(builder, builder.add(here, I64(ahead)))
            _write(builder, x, builder.add(to, builder.mul(to_step, loop.index)))

    return read


read_doubles, read_singles = (_reader(kind, 1) for kind in (F64, F32))
every_second_double, every_second_single = (_reader(kind, 2) for kind in (F64, F32))


@instruction(void(int64, int64, int64))
def raise_largest(_: Any, builder: Any, lines: Any, count: Any, largest: Any) -> None:
    """Raise the bits of the largest magnitude in each lane, at an address, to those of so many lines."""
    found = cgutils.alloca_once_value(builder, _read(builder, largest, kind=INTEGERS))
    with cgutils.for_range(builder, count) as loop:
        x = builder.and_(_read(builder, lines, loop.index, INTEGERS), _all(MAGNITUDE))
        before = builder.load(found)
        builder.store(builder.select(builder.icmp_signed(">", x, before), x, before), found)
    _write(builder, builder.load(found), largest)


@instruction(void(int64, int64, int64, int64))
def add_statistics(_: Any, builder: Any, lines: Any, count: Any, up: Any, to: Any) -> None:
    """Write Σt, Σt² and octaves of so many lines, at most 255: t = ⌊|x|·2**(BITS - e)⌋, as in `Statistics`.

    Byte i has how many numbers lie in octave i below 2**BITS; beyond LEVELS_AT_FIRST, all others. up : the
    address of what brings each lane below 2**BITS. to : of three lines.
    """
    factor, zero = _read(builder, up), ir.Constant(VECTOR, None)
    total, square = (cgutils.alloca_once_value(builder, zero) for _ in range(2))
    octaves = cgutils.alloca_once_value(builder, ir.Constant(INTEGERS, None))
    with cgutils.for_range(builder, count) as loop:
        x = builder.call(_function(builder, "fabs", 1), (_read(builder, lines, loop.index),))
        x = builder.fmul(x, factor)
        t = builder.call(_function(builder, "floor", 1), (x,))
        builder.store(builder.fadd(builder.load(total), t), total)
        squared = builder.call(_function(builder, "fma", 3), (t, t, builder.load(square)))
        builder.store(squared, square)  # integers, exact as they are
        exponent = builder.lshr(builder.bitcast(x, INTEGERS), _all(52))
        octave = _least(builder, builder.sub(_all(BIAS + BITS), exponent), _all(LEVELS_AT_FIRST))
        one = builder.shl(_all(1), builder.shl(octave, _all(3)))
        builder.store(builder.add(builder.load(octaves), one), octaves)
    for i, found in enumerate((total, square, octaves)):
        _write(builder, builder.load(found), to, I64(i))


@instruction(void(int64, int64, int64, boolean, int64))
def scale_lines(_: Any, builder: Any, lines: Any, count: Any, up: Any, whole: Any, to: Any) -> None:
    """Write so many lines times what is at the address `up`, rounded to integers if `whole`."""
    factor, whole = _read(builder, up), builder.icmp_unsigned("!=", whole, whole.type(0))
    with cgutils.for_range(builder, count) as loop:
        x = builder.fmul(_read(builder, lines, loop.index), factor)
        y = builder.select(whole, builder.call(_function(builder, "rint", 1), (x,)), x)
        _write(builder, y, to, loop.index)
