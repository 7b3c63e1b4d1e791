"""Numbers at addresses, and counters that threads share, for compiled code: numba's intrinsics.

Addresses are int64. Who passes one to compiled code checks what lies there, and keeps it alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import extending, float32, float64, int64, types, void
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()

intrinsic: Any = extending.intrinsic
"""A decorator whose functions are called without the context that they are written with."""

DOUBLES, SINGLES = (types.Array(kind, 1, "C", readonly=True, aligned=False) for kind in (float64, float32))
"""The types of `doubles_at` and `singles_at`."""


def _reader(kind: ir.Type) -> Any:
    """A function that reads a number, as float64 or int64."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        x = builder.load(builder.inttoptr(values[0], kind.as_pointer()))
        x.align = 1
        if kind is F32:
            return builder.fpext(x, F64)
        return builder.sext(x, I64) if kind in (I8, I32) else x

    def read(context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
        return (float64 if kind in (F32, F64) else int64)(int64), codegen

    return intrinsic(read)


def _writer(kind: ir.Type) -> Any:
    """A function that writes a float64 as a number of that kind."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, x = values
        x = builder.fptrunc(x, kind) if kind is F32 else x
        builder.store(x, builder.inttoptr(address, kind.as_pointer())).align = 1
        return context.get_dummy_value()

    def write(context: Any, address: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
        return void(int64, float64), codegen

    return intrinsic(write)


read_byte, read_int, read_long, read_single, read_double = map(_reader, (I8, I32, I64, F32, F64))
write_single, write_double = map(_writer, (F32, F64))


def _array(kind: Any) -> Any:
    """A function that returns so many numbers from an address on as an array: loops over it become vector
    instructions."""
    number, size = {DOUBLES: (F64, 8), SINGLES: (F32, 4)}[kind]

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        array = make_array(kind)(context, builder)
        data, itemsize = builder.inttoptr(values[0], number.as_pointer()), ir.Constant(I64, size)
        populate_array(array, data, [values[1]], [itemsize], itemsize, None)
        return array._getvalue()

    def numbers_at(context: Any, address: Any, count: Any) -> tuple[Any, Callable[..., Any]]:
        return kind(int64, int64), codegen

    return intrinsic(numbers_at)


doubles_at, singles_at = map(_array, (DOUBLES, SINGLES))


@intrinsic
def take(context: Any, counter: Any) -> tuple[Any, Callable[..., Any]]:
    """Add 1 to a counter that other threads may add to as well; what it was before."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = builder.inttoptr(values[0], I64.as_pointer())
        return builder.atomic_rmw("add", pointer, ir.Constant(I64, 1), "seq_cst")

    return int64(int64), codegen


@intrinsic
def count_now(context: Any, counter: Any) -> tuple[Any, Callable[..., Any]]:
    """What a counter is now; what other threads wrote before they added to it is seen from then on."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(values[0], I64.as_pointer()), "acquire", 8)

    return int64(int64), codegen


@intrinsic
def pause(context: Any) -> tuple[Any, Callable[..., Any]]:
    """Tell an x86 processor that this thread waits in a loop."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if binding.get_process_triple().startswith("x86"):
            hint = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, hint, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return void(), codegen
