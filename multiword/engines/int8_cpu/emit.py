"""What the vector steps need of LLVM, on any of the kernels' targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import binding, ir

from multiword.engines.int8_cpu.kernels import Kernel
from multiword.engines.words import FLOAT_MAGIC

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32, F64, VOID = ir.FloatType(), ir.DoubleType(), ir.VoidType()

_BYTE_OPERANDS = binding.llvm_version_info[0] >= 21
"""Whether LLVM declares x86's byte products with vectors of bytes; earlier ones have vectors of int32."""


def vector(element: ir.Type, lanes: int) -> ir.VectorType:
    return ir.VectorType(element, lanes)


class Emit:
    """An LLVM builder with the instructions of a kernel. Addresses are int64."""

    def __init__(self, builder: ir.IRBuilder, kernel: Kernel) -> None:
        self.b = builder
        self.kernel = kernel

    def const(self, kind: ir.Type, x: float) -> ir.Constant:
        return ir.Constant(kind, [x] * kind.count if isinstance(kind, ir.VectorType) else x)

    def call(self, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
        module = self.b.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, [x.type for x in arguments]), name)
        return self.b.call(function, arguments)

    def at(self, address: ir.Value, offset: int | ir.Value, step: int = 1) -> ir.Value:
        """The address `offset` steps further."""
        if isinstance(offset, int):
            return self.b.add(address, ir.Constant(I64, offset * step))
        return self.b.add(address, self.b.mul(offset, ir.Constant(I64, step)) if step != 1 else offset)

    def load(self, kind: ir.Type, address: ir.Value, align: int) -> ir.Value:
        x = self.b.load(self.b.inttoptr(address, kind.as_pointer()))
        x.align = align
        return x

    def store(self, x: ir.Value, address: ir.Value, align: int) -> None:
        self.b.store(x, self.b.inttoptr(address, x.type.as_pointer())).align = align

    def prefetch(self, address: ir.Value) -> None:
        """Fetch a cache line to L2."""
        how = (ir.Constant(I32, x) for x in (0, 2, 1))  # to read, locality, data
        self.call("llvm.prefetch.p0", VOID, self.b.inttoptr(address, I8.as_pointer()), *how)

    def pick(self, x: ir.Value, y: ir.Value, lanes: Sequence[int]) -> ir.Value:
        """Lanes of two vectors side by side."""
        return self.b.shuffle_vector(x, y, ir.Constant(vector(I32, len(lanes)), list(lanes)))

    def splat(self, x: ir.Value, lanes: int) -> ir.Value:
        undefined = ir.Constant(vector(x.type, lanes), ir.Undefined)
        return self.pick(self.b.insert_element(undefined, x, ir.Constant(I32, 0)), undefined, [0] * lanes)

    def table(self, kind: ir.Type, address: ir.Value, offset: int, lanes: int) -> ir.Value:
        """A number of a table, in all lanes."""
        return self.splat(self.load(kind, self.at(address, offset), 4), lanes)

    def dot(self, sums: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """sums + the products of the four bytes of each lane; exact while it fits int32."""
        kernel, lanes = self.kernel, sums.type.count
        if lanes > kernel.lanes:
            return self._in_halves(self.dot, sums, left, right)
        operand = vector(I8, 4 * lanes)
        if kernel.triple.startswith("x86") and not _BYTE_OPERANDS:
            operand = vector(I32, lanes)
        return self.call(kernel.dot, sums.type, sums, *(self.b.bitcast(x, operand) for x in (left, right)))

    def pairs(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """x₀y₀ + x₁y₁ of the signed 16-bit halves of each lane."""
        b, lanes = self.b, x.type.count
        if not self.kernel.triple.startswith("x86"):
            sixteen = self.const(x.type, 16)
            upper = b.mul(b.ashr(x, sixteen), b.ashr(y, sixteen))
            lower = (b.ashr(b.shl(z, sixteen), sixteen) for z in (x, y))
            return b.add(upper, b.mul(*lower))
        if lanes > self.kernel.lanes:
            return self._in_halves(self.pairs, x, y)
        name = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"}[lanes]
        operand = vector(I16, 2 * lanes)
        return self.call(name, x.type, b.bitcast(x, operand), b.bitcast(y, operand))

    def _in_halves(self, operation: Callable[..., ir.Value], *operands: ir.Value) -> ir.Value:
        lanes = operands[0].type.count
        lower, upper = range(lanes // 2), range(lanes // 2, lanes)
        parts = [operation(*(self.pick(x, x, half) for x in operands)) for half in (lower, upper)]
        return self.pick(parts[0], parts[1], range(lanes))

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        bits = 32 if x.type.element == F32 else 64
        return self.call(f"llvm.fma.v{x.type.count}f{bits}", x.type, x, y, z)

    def rint(self, x: ir.Value) -> ir.Value:
        return self.call(f"llvm.rint.v{x.type.count}f64", x.type, x)

    def reduce(self, x: ir.Value, middle: ir.Value, inverse: ir.Value, minus_p: ir.Value) -> ir.Value:
        """Return int32 lanes whose low byte is the residue modulo p, least in distance from `middle` - magic.

        x : integers v of magnitude below 2**22, plus magic's bits; as bits of a float32, magic + v.
        inverse : 1/p, or 0 for p = 256, where the low byte of v is its residue.

        Exact. 1/p is rounded, so v/p is wrong by at most 2**22/p·2**-24 = 0.25/p before it is rounded to an
        integer, and for an odd p no v/p is nearer to a half integer than 0.5/p.
        """
        b, lanes = self.b, x.type.count
        magic = self.const(vector(F32, lanes), FLOAT_MAGIC)
        x = b.bitcast(x, vector(F32, lanes))
        quotient = b.fsub(self.fma(b.fsub(x, middle), inverse, magic), magic)
        return b.bitcast(self.fma(quotient, minus_p, x), vector(I32, lanes))

    def loop(
        self, count: ir.Value, state: Sequence[ir.Value], body: Callable[..., Sequence[ir.Value]]
    ) -> list[ir.Value]:
        """state = body(i, *state) for i in range(count), at least once; return the last state."""
        b = self.b
        before, inside, after = b.block, b.append_basic_block(), b.append_basic_block()
        b.branch(inside)
        b.position_at_end(inside)
        first = [ir.Constant(I64, 0), *state]
        variables = [b.phi(x.type) for x in first]
        following = [b.add(variables[0], ir.Constant(I64, 1)), *body(*variables)]
        for variable, x, y in zip(variables, first, following, strict=True):
            variable.add_incoming(x, before)
            variable.add_incoming(y, b.block)
        b.cbranch(b.icmp_signed("<", following[0], count), inside, after)
        b.position_at_end(after)
        return following[1:]
