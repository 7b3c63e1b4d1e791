"""Entries of a sparse row times numbers in several columns, compiled: a sum in each lane of a vector.

What they add up stays in registers. What numba compiles would store it behind every entry.
"""

from typing import Any

from llvmlite import ir
from numba import boolean, extending, float64, int64
from numba.core import cgutils
from numba.np.arrayobj import make_array

from multiword.runtime.addresses import F32, F64, I32, I64
from ozaki.sparse.limits import LOSSLESS, UNDERFLOW
from ozaki.sums.exact.enclosure_numba import RELATIVE


def row_adder(lanes: int) -> Any:
    """Return the function that adds up a row in so many columns, each as `add_quickly` and `ends` do."""
    kind, singles = ir.VectorType(F64, lanes), ir.VectorType(F32, lanes)
    zero, nan = ir.Constant(kind, None), ir.Constant(kind, [float("nan")] * lanes)

    def at(builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, kind.as_pointer())

    def number(builder: Any, array: Any, i: Any) -> Any:
        """Return a number of an array as int64 or float64."""
        x = builder.load(builder.gep(array.data, [i]))
        return builder.fpext(x, F64) if x.type == F32 else builder.sext(x, I64) if x.type == I32 else x

    def in_all(builder: Any, x: Any) -> Any:
        one = builder.insert_element(ir.Constant(ir.VectorType(x.type, lanes), ir.Undefined), x, I32(0))
        return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))

    def called(builder: Any, name: str, *operands: Any) -> Any:
        of = ir.FunctionType(kind, [kind] * len(operands))
        function = cgutils.get_or_insert_function(builder.module, of, f"llvm.{name}.v{lanes}f64")
        return builder.call(function, operands)

    def sums(builder: Any, indices: Any, values: Any, count: Any, x: Any, step: Any, first: Any) -> Any:
        """Return the high and low floats of the sums, and their totals."""
        begin = first, zero, called(builder, "fabs", first)
        places = [cgutils.alloca_once_value(builder, z) for z in begin]
        with cgutils.for_range(builder, count) as loop:
            line = builder.add(x, builder.mul(number(builder, indices, loop.index), step))
            a = in_all(builder, number(builder, values, loop.index))
            b = builder.load(at(builder, line), align=8)
            high, low, total = map(builder.load, places)
            product = builder.fmul(a, b)
            result = builder.fadd(high, product)
            z = builder.fsub(result, high)
            rest = builder.fsub(high, builder.fsub(result, z))
            rest = builder.fadd(rest, called(builder, "fma", a, b, builder.fneg(z)))
            found = result, builder.fadd(low, rest), builder.fadd(total, called(builder, "fabs", product))
            for y, place in zip(found, places, strict=True):
                builder.store(y, place)
        return map(builder.load, places)

    def bounds(builder: Any, total: Any, count: Any, unit: Any) -> Any:
        """Return what the sums have lost at most."""
        n = builder.uitofp(builder.add(count, I64(1)), F64)
        terms = in_all(builder, builder.fmul(n, ir.Constant(F64, 2.0**-52)))
        loss = builder.fmul(total, terms)
        exact = builder.fmul(loss, ir.Constant(kind, [LOSSLESS] * lanes))
        exact = builder.fcmp_ordered("<", exact, in_all(builder, unit))
        bound = called(builder, "fma", loss, terms, ir.Constant(kind, [UNDERFLOW] * lanes))
        return builder.select(exact, zero, bound)

    def rounded(builder: Any, high: Any, low: Any, bound: Any, single: Any) -> tuple[Any, Any]:
        """Return what sums round to, NaN where that is undecided, and where it is decided."""
        single = in_all(builder, builder.icmp_unsigned("!=", single, single.type(0)))
        twice = builder.fmul(called(builder, "fabs", high), ir.Constant(kind, [RELATIVE] * lanes))
        bound = builder.fadd(bound, builder.select(single, twice, zero))

        def end(low: Any) -> Any:
            x = builder.fadd(high, low)
            return builder.select(single, builder.fpext(builder.fptrunc(x, singles), kind), x)

        value, below = end(builder.fadd(low, bound)), end(builder.fsub(low, bound))
        decided = builder.fcmp_ordered("==", value, below)
        return builder.select(decided, builder.fadd(value, zero), nan), decided

    @extending.intrinsic
    def add(
        _: Any,
        indices: Any,
        values: Any,
        count: Any,
        x: Any,
        step: Any,
        begin: Any,
        unit: Any,
        single: Any,
        out: Any,
    ) -> Any:
        """Write what sums round to, NaN where that is undecided; return 0 if it is nowhere.

        indices, values : arrays, of which a row takes so many.
        x, step : the address of these columns in line 0, and the bytes from a line to the next.
        begin : the address of what the sums begin with.
        unit : a power of two that divides this and all products, 0 if none is known.
        single : whether to round to float32. out : the address of the results.
        """

        def codegen(context: Any, builder: Any, of: Any, given: Any) -> Any:
            indices, values, count, x, step, begin, unit, single, out = given
            indices, values = (
                make_array(kind)(context, builder, y) for kind, y in zip(of.args[:2], given[:2], strict=True)
            )
            first = builder.load(at(builder, begin), align=8)
            high, low, total = sums(builder, indices, values, count, x, step, first)
            bound = bounds(builder, total, count, unit)
            result, decided = rounded(builder, high, low, bound, single)
            builder.store(result, at(builder, out), align=8)
            return builder.zext(builder.bitcast(builder.not_(decided), ir.IntType(lanes)), I64)

        return int64(indices, values, *(int64,) * 4, float64, boolean, int64), codegen

    return add
