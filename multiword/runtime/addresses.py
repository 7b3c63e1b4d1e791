"""Numbers at addresses, counters that threads share, and sums in any order: numba's intrinsics.

Addresses are int64. Who passes one to compiled code checks what lies there, and keeps it alive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import extending, float32, float64, int32, int64, types, uint8, uint64, void
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()

DOUBLES, SINGLES = (types.Array(kind, 1, "C", readonly=True, aligned=False) for kind in (float64, float32))
"""The types of `doubles_at` and `singles_at`."""

WRITTEN = types.Array(float64, 1, "C", aligned=False)
"""That of `to_doubles_at`."""

BYTES, LONGS, WORDS = uint8[::1], int64[::1], uint64[::1]
"""Those of `bytes_at`, `longs_at` and `words_at`: memory that is aligned, and may be written."""


def instruction(signature: Any) -> Callable[[Callable[..., ir.Value | None]], Any]:
    """Return a decorator: a function (context, builder, *values), which emits code, becomes that code's."""

    def decorator(emit: Callable[..., ir.Value | None]) -> Any:
        def typed(context: Any, *_: Any) -> Any:
            def codegen(context: Any, builder: ir.IRBuilder, _: Any, values: Any) -> Any:
                value = emit(context, builder, *values)
                return context.get_dummy_value() if value is None else value

            return signature, codegen

        names = ("context", *(f"x{i}" for i in range(len(signature.args))))  # which numba asks for
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return extending.intrinsic(typed)

    return decorator


def prefetched(builder: ir.IRBuilder, pointer: ir.Value, *, written: bool, near: int) -> None:
    """Emit what asks for a line of the cache, to be written or read soon.

    Where no memory is, nothing happens. near : 3 for the first level, 2 for the second.
    """
    byte = I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    data = I32(1)
    builder.call(prefetch, [builder.bitcast(pointer, byte), I32(int(written)), I32(near), data])


def _reader(kind: ir.Type) -> Any:
    """A function that reads a number, as float64 or int64."""

    @instruction((float64 if kind in (F32, F64) else int64)(int64))
    def read(_: Any, builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
        x = builder.load(builder.inttoptr(address, kind.as_pointer()))
        x.align = 1
        if kind is F32:
            return builder.fpext(x, F64)
        return builder.sext(x, I64) if kind in (I8, I32) else x

    return read


def _writer(kind: ir.Type) -> Any:
    """A function that writes a float64 as a number of that kind."""

    @instruction(void(int64, float64))
    def write(_: Any, builder: ir.IRBuilder, address: ir.Value, x: ir.Value) -> None:
        x = builder.fptrunc(x, kind) if kind is F32 else x
        builder.store(x, builder.inttoptr(address, kind.as_pointer())).align = 1

    return write


read_byte, read_int, read_long, read_single, read_double = map(_reader, (I8, I32, I64, F32, F64))
write_single, write_double = map(_writer, (F32, F64))


def _array(kind: Any, number: ir.Type, size: int) -> Any:
    """A function that returns so many numbers from an address on as an array: loops over it become vector
    instructions."""

    @instruction(kind(int64, int64))
    def numbers_at(context: Any, builder: ir.IRBuilder, address: ir.Value, count: ir.Value) -> ir.Value:
        array = make_array(kind)(context, builder)
        data, itemsize = builder.inttoptr(address, number.as_pointer()), ir.Constant(I64, size)
        populate_array(array, data, [count], [itemsize], itemsize, None)
        return array._getvalue()

    return numbers_at


doubles_at, singles_at = _array(DOUBLES, F64, 8), _array(SINGLES, F32, 4)
to_doubles_at = _array(WRITTEN, F64, 8)
bytes_at, longs_at, words_at = _array(BYTES, I8, 1), _array(LONGS, I64, 8), _array(WORDS, I64, 8)


def _matrix(kind: Any, number: ir.Type, size: int) -> Any:
    """A function that returns as many numbers from an address on as rows of so many columns have."""

    @instruction(kind[:, ::1](int64, int64, int64))
    def matrix_at(context: Any, builder: ir.IRBuilder, address: Any, rows: Any, columns: Any) -> ir.Value:
        array = make_array(kind[:, ::1])(context, builder)
        data, itemsize = builder.inttoptr(address, number.as_pointer()), ir.Constant(I64, size)
        strides = [builder.mul(columns, itemsize), itemsize]
        populate_array(array, data, [rows, columns], strides, itemsize, None)
        return array._getvalue()

    return matrix_at


matrix_at, matrix_of_longs_at, matrix_of_ints_at = (
    _matrix(*one) for one in ((float64, F64, 8), (int64, I64, 8), (int32, I32, 4))
)
"""Scratch memory as matrices: numba takes several times as long to compile a `reshape`, and a `view`."""


def on_stack(count: int) -> Any:
    """A function that returns the address of so many float64 numbers, its caller's until that returns."""

    @instruction(int64())
    def address(_: Any, builder: ir.IRBuilder) -> ir.Value:
        return builder.ptrtoint(cgutils.alloca_once(builder, F64, size=ir.Constant(I64, count)), I64)

    return address


@instruction(float64(float64, float64))
def plus(_: Any, builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """x + y, where the compiler may add up in any order: of integers the same, or within a bound."""
    return builder.fadd(x, y, flags=("reassoc", "nsz"))


BLOCK = 8
"""Rows and columns that `transpose` takes."""


def _transposer(kind: ir.Type) -> Any:
    """A function that writes BLOCK rows of as many numbers of that kind as columns, in vectors of float64."""
    wide = ir.VectorType(F64, BLOCK)
    pointer, result = ir.VectorType(kind, BLOCK).as_pointer(), wide.as_pointer()

    @instruction(void(int64, int64, int64, int64))
    def transpose(_: Any, builder: ir.IRBuilder, at: Any, step: Any, to: Any, apart: Any) -> None:
        """Bytes from a row to the next are `step` where they are read, and `apart` where they are written."""

        def row(first: ir.Value, bytes_: ir.Value, i: int, kind: ir.Type) -> ir.Value:
            return builder.inttoptr(builder.add(first, builder.mul(bytes_, I64(i))), kind)

        rows = [builder.load(row(at, step, i, pointer), align=1) for i in range(BLOCK)]
        if kind is F32:
            rows = [builder.fpext(x, wide) for x in rows]
        for d in (1, 2, 4):  # blocks of d × d change places across the diagonal of one of 2d × 2d
            upper = [e if not e & d else BLOCK + e - d for e in range(BLOCK)]
            lower = [e + d if not e & d else BLOCK + e for e in range(BLOCK)]
            for i in range(BLOCK):
                if not i & d:
                    pair = rows[i], rows[i + d]
                    rows[i], rows[i + d] = (
                        builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(I32, BLOCK), mask))
                        for mask in (upper, lower)
                    )
        for i, x in enumerate(rows):
            builder.store(x, row(to, apart, i, result), align=1)

    return transpose


transpose, transpose_singles = map(_transposer, (F64, F32))


@instruction(int64(int64))
def take(_: Any, builder: ir.IRBuilder, counter: ir.Value) -> ir.Value:
    """Add 1 to a counter that other threads may add to as well; what it was before."""
    return builder.atomic_rmw("add", builder.inttoptr(counter, I64.as_pointer()), I64(1), "seq_cst")


@instruction(int64(int64))
def count_now(_: Any, builder: ir.IRBuilder, counter: ir.Value) -> ir.Value:
    """What a counter is now; what other threads wrote before they added to it is seen from then on."""
    return builder.load_atomic(builder.inttoptr(counter, I64.as_pointer()), "acquire", 8)


@instruction(void())
def pause(_: Any, builder: ir.IRBuilder) -> None:
    """Tell an x86 processor that this thread waits in a loop."""
    if binding.get_process_triple().startswith("x86"):
        hint = ir.FunctionType(ir.VoidType(), [])
        builder.call(cgutils.get_or_insert_function(builder.module, hint, "llvm.x86.sse2.pause"), [])
