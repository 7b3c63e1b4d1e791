"""The steps of an exact product on vectors, as LLVM instructions: integers into residues, products of
residues, residues into rounded numbers.

    split     A' as bytes a_i, A' = Σ a_i·256**i:  A' mod p = Σ a_i·(256**i mod p) mod p
    multiply  Y = A'B' mod p, as sums of a tile in registers, reduced to a byte at the end
    round     C' = Σ_t Y_t·(P/p_t) - q·P, from two bounds that round to the same number, or undecided

The instructions are those of a `Kernel`; vectors of 16 lanes are cut into as many registers as it takes.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite.ir import Value

from multiword.engines.int8_cpu.emit import F32, F64, I8, I32, I64, VOID, Emit, vector
from multiword.engines.int8_cpu.kernels import INNER
from multiword.engines.words import FLOAT_MAGIC, FLOAT_MAGIC_BITS

GROUP = 16
"""Numbers in a group; of a block of INNER, number 16 g + c is byte g of the lane c, on both sides."""

LANES, HALF, LONGS = vector(I32, GROUP), vector(F64, GROUP // 2), vector(I64, GROUP // 2)
WORD_BYTES = 4 * INNER
"""Bytes of one 32-bit word of so many numbers."""


def write_words(
    e: Emit, x: Value, step: Value, factors: Value, flip: Value, out: Value, single: bool = False
) -> None:
    """Write the low and the high words of INNER integers RN(x·2**scale), below 2**63 in magnitude.

    x : four groups of float64 numbers, or of float32 ones if `single`, `step` bytes apart.
    factors : (2, 16) float64, two powers of two for each lane: one alone might overflow.
    flip : the bits are written xor this.
    out : (2, 4, 16) uint32, aligned.
    """
    _write(e, x, step, factors, flip, out, lambda integer: e.b.fptosi(integer, LONGS), single)


def write_limb(e: Emit, x: Value, step: Value, factors: Value, shift: Value, flip: Value, out: Value) -> None:
    """As `write_words`, of integers of any width: 64 of their bits, from bit `shift` on."""
    b = e.b
    largest, none = e.const(LONGS, 63), e.const(LONGS, 0)
    lowest = e.splat(b.add(shift, I64(1075)), GROUP // 2)

    def clamped(n: Value) -> Value:
        n = b.select(b.icmp_signed("<", n, none), none, n)
        return b.select(b.icmp_signed(">", n, largest), largest, n)

    def limb(integer: Value) -> Value:
        bits = b.bitcast(b.fadd(integer, e.const(HALF, 0.0)), LONGS)  # -0 would be -2**52 far below
        sign = b.ashr(bits, largest)
        mantissa = b.or_(b.and_(bits, e.const(LONGS, (1 << 52) - 1)), e.const(LONGS, 1 << 52))
        mantissa = b.sub(b.xor(mantissa, sign), sign)
        up = b.sub(b.and_(b.lshr(bits, e.const(LONGS, 52)), e.const(LONGS, 0x7FF)), lowest)
        above = b.select(b.icmp_signed(">", up, largest), none, b.shl(mantissa, clamped(up)))
        below = b.ashr(mantissa, clamped(b.sub(none, up)))
        return b.select(b.icmp_signed("<", up, none), below, above)

    _write(e, x, step, factors, flip, out, limb)


def _write(
    e: Emit,
    x: Value,
    step: Value,
    factors: Value,
    flip: Value,
    out: Value,
    bits_of: Callable[[Value], Value],
    single: bool = False,
) -> None:
    b, kind = e.b, vector(F32, GROUP // 2) if single else HALF

    def numbers(address: Value) -> Value:
        values = e.load(kind, address, 1)
        return b.fpext(values, HALF) if single else values

    one, other = ([e.load(HALF, e.at(factors, 128 * i + 64 * h), 8) for h in range(2)] for i in range(2))
    for g in range(INNER // GROUP):
        row, halves = e.at(x, b.mul(step, I64(g))), []
        for h in range(2):
            x_half = numbers(e.at(row, (32 if single else 64) * h))
            integer = e.rint(b.fmul(b.fmul(x_half, one[h]), other[h]))
            halves.append(b.bitcast(b.xor(bits_of(integer), e.splat(flip, GROUP // 2)), LANES))
        for i in range(2):
            words = e.pick(halves[0], halves[1], range(i, 2 * GROUP, 2))
            e.store(words, e.at(out, WORD_BYTES * i + 4 * GROUP * g), 64)


SPLIT_HEADER = 16
"""Bytes of a modulus in the table of `split` before its weights: start (int32), middle, 1/p, -p (float32)."""


def split(e: Emit, words: Value, limbs: Value, table: Value, count: Value, out: Value, step: Value) -> None:
    """Write the residues of INNER integers, one byte for each and each of `count` moduli, `step` bytes apart.

    words : (limbs, 2, 4, 16) uint32, of `write_words`; aligned.
    table : for each modulus a header, and a word of byte weights for each word.
    """
    b = e.b
    groups = range(INNER // GROUP)
    row_bytes = e.at(I64(SPLIT_HEADER), limbs, 8)

    def of_modulus(t: Value) -> list[Value]:
        row = e.at(table, b.mul(t, row_bytes))
        start = e.table(I32, row, 0, GROUP)

        def of_limb(i: Value, *sums: Value) -> list[Value]:
            found = list(sums)
            at, weights = e.at(words, i, 2 * WORD_BYTES), e.at(row, i, 8)
            for half in range(2):
                weight = e.table(I32, weights, SPLIT_HEADER + 4 * half, GROUP)
                for g in groups:
                    x = e.load(LANES, e.at(at, WORD_BYTES * half + 4 * GROUP * g), 64)
                    found[g] = e.dot(found[g], x, weight)
            return found

        sums = e.loop(limbs, [start] * len(groups), of_limb)
        middle, inverse, minus_p = (e.table(F32, row, 4 * i, GROUP) for i in (1, 2, 3))
        low = e.const(LANES, 255)
        total = e.const(LANES, 0)
        for g, x in enumerate(sums):
            byte = b.and_(e.reduce(x, middle, inverse, minus_p), low)
            total = b.or_(total, b.shl(byte, e.const(LANES, 8 * g)))
        e.store(total, e.at(out, b.mul(t, step)), 64)
        return []

    e.loop(count, [], of_modulus)


PRODUCT_TABLE = 16
"""Bytes of a modulus in the table of `multiply_…`: weights of 16-bit halves (int16), 1/p, -p (float32)."""


def _residues_of_sums(e: Emit, sums: list[Value], table: Value) -> list[Value]:
    """Bytes of the symmetric residues of int32 lanes: their halves times weights, and one quotient."""
    b, kind = e.b, sums[0].type
    flip, start = e.const(kind, 0x8000), e.const(kind, FLOAT_MAGIC_BITS + 0x8000)
    weights = e.table(I32, table, 0, kind.count)
    inverse, minus_p = (e.table(F32, table, 4 * i, kind.count) for i in (1, 2))
    magic = e.const(vector(F32, kind.count), FLOAT_MAGIC)
    small = [b.add(e.pairs(b.xor(x, flip), weights), start) for x in sums]
    return [b.trunc(e.reduce(x, magic, inverse, minus_p), vector(I8, kind.count)) for x in small]


def multiply_in_registers(
    e: Emit, a: Value, bt: Value, out: Value, blocks: Value, table: Value, soon: Value, *_: Value
) -> None:
    """Write one tile of A·Bᵀ modulo p: (rows, columns) int8.

    a : (blocks, rows, INNER) bytes; bt : (blocks, columns/16, 16, 16, 4) bytes, both as `split` writes them.
    soon : what is read next, of which four cache lines are fetched for every block.
    """
    b, kernel = e.b, e.kernel
    kind, vectors, width = vector(I32, kernel.lanes), kernel.columns // kernel.lanes, 4 * kernel.lanes

    def body(i: Value, *sums: Value) -> list[Value]:
        found = list(sums)
        e.prefetch(e.at(soon, i, INNER))
        block, quads = b.lshr(i, I64(2)), b.and_(i, I64(3))
        left = e.at(e.at(a, block, kernel.rows * INNER), quads, 16)
        right = e.at(e.at(bt, block, kernel.columns * INNER), quads, 4 * INNER)
        for q in range(4):
            columns = [
                e.load(kind, e.at(right, q * INNER + at // INNER * GROUP * INNER + at % INNER), width)
                for at in range(0, vectors * width, width)
            ]
            for r in range(kernel.rows):
                four = e.splat(e.load(I32, e.at(left, r * INNER + 4 * q), 4), kernel.lanes)
                for j in range(vectors):
                    found[r * vectors + j] = e.dot(found[r * vectors + j], four, columns[j])
        return found

    sums = e.loop(b.shl(blocks, I64(2)), [e.const(kind, 0)] * (kernel.rows * vectors), body)
    for i, x in enumerate(_residues_of_sums(e, sums, table)):
        e.store(x, e.at(out, i * kernel.lanes), kernel.lanes)


TILE_BYTES = 1024


def multiply_in_tiles(
    e: Emit,
    a: Value,
    bt: Value,
    out: Value,
    blocks: Value,
    table: Value,
    soon: Value,
    then: Value,
    sums: Value,
    begins: bool = True,
    ends: bool = True,
) -> None:
    """As `multiply_in_registers`, on AMX: two by two tile registers.

    sums : 4096 bytes, from which it goes on unless it begins with zeros; it leaves its own there, and writes
    their residues if it ends.
    """
    b, kernel = e.b, e.kernel

    def load(t: int, address: Value) -> None:
        e.call("llvm.x86.tileloadd64", VOID, I8(t), b.inttoptr(address, I8.as_pointer()), I64(INNER))

    def add_product(t: int, left: int, right: int) -> None:
        e.call("llvm.x86.tdpbusd", VOID, I8(t), I8(left), I8(right))

    def body(i: Value) -> list[Value]:
        left, right = e.at(a, i, 2 * TILE_BYTES), e.at(bt, i, 2 * TILE_BYTES)
        for x in (soon, then):
            for line in range(4):
                e.prefetch(e.at(e.at(x, i, 4 * INNER), line * INNER))
        load(4, left)
        load(6, right)
        add_product(0, 4, 6)
        load(7, e.at(right, TILE_BYTES))
        add_product(1, 4, 7)
        load(5, e.at(left, TILE_BYTES))
        add_product(2, 5, 6)
        add_product(3, 5, 7)
        return []

    stride = I64(4 * kernel.columns)
    places = [
        b.inttoptr(e.at(sums, 4 * (t // 2 * 16 * kernel.columns + t % 2 * 16)), I8.as_pointer())
        for t in range(4)
    ]
    for t, at in enumerate(places):
        if begins:
            e.call("llvm.x86.tilezero", VOID, I8(t))
        else:
            e.call("llvm.x86.tileloadd64", VOID, I8(t), at, stride)
    e.loop(blocks, [], body)
    for t, at in enumerate(places):
        e.call("llvm.x86.tilestored64", VOID, I8(t), at, stride)
    if not ends:
        return

    def reduce_rows(i: Value) -> list[Value]:
        rows = [e.load(LANES, e.at(e.at(sums, i, 256), 64 * j), 64) for j in range(4)]
        for j, x in enumerate(_residues_of_sums(e, rows, table)):
            e.store(x, e.at(e.at(out, i, 64), 16 * j), 16)
        return []

    e.loop(I64(kernel.rows * kernel.columns // 64), [], reduce_rows)


def configure_tiles(e: Emit, configuration: Value) -> None:
    e.call("llvm.x86.ldtilecfg", VOID, e.b.inttoptr(configuration, I8.as_pointer()))


def release_tiles(e: Emit) -> None:
    e.call("llvm.x86.tilerelease", VOID)


ROUND_TABLE = 40
"""Bytes of a pair of moduli p, p' in the table of `round_group`: 1/(p·p'), an upper, a middle, a lower part
of P/(p·p') (float64), and the weights p', p (int16)."""

RELATIVE_MARGIN = 2.0**-90
"""More than what adding the parts of C' up is rounded by, 2**-106 a few times, relative to it."""


def round_group(
    e: Emit,
    y: Value,
    step: Value,
    table: Value,
    pairs: Value,
    exponent: Value,
    columns: Value,
    limits: Value,
    out: Value,
) -> Value:
    """Write GROUP rounded integers times powers of two; return which of them are undecided, as bits.

    y : bytes, residues modulo the first of the moduli; those modulo the others `step` bytes apart.
    table : of the pairs, and after them 0, the parts of -P, and the margin of the lower sum's error.
    exponent, columns : the powers are 2**(exponent - columns[j]), int32 columns.
    limits : what exponents must reach, and stay below (int32); the bits that the target lacks, and which of
        them are half way between two of its numbers (int64); its least normal number.
    """
    b, zero = e.b, e.const(HALF, 0.0)

    def of_pair(t: Value, seen: Value, *sums: Value) -> list[Value]:
        row, at = e.at(table, t, ROUND_TABLE), e.at(y, b.mul(t, b.shl(step, I64(1))))
        one, other = (b.sext(e.load(vector(I8, GROUP), x, 16), LANES) for x in (at, e.at(at, step)))
        both = b.or_(b.and_(one, e.const(LANES, 0xFFFF)), b.shl(other, e.const(LANES, 16)))
        z = e.pairs(both, e.table(I32, row, 32, GROUP))
        factors = [e.table(F64, row, 8 * i, GROUP // 2) for i in range(4)]
        found = []
        for h in range(2):
            half = b.sitofp(e.pick(z, z, range(8 * h, 8 * h + 8)), HALF)
            found += [e.fma(half, f, x) for f, x in zip(factors, sums[4 * h : 4 * h + 4], strict=True)]
        return [b.or_(seen, both), *found]

    seen, *sums = e.loop(pairs, [e.const(LANES, 0), *[zero] * 8], of_pair)
    last = e.at(table, b.mul(pairs, I64(ROUND_TABLE)))
    *of_p, margin = (e.table(F64, last, 8 * i, GROUP // 2) for i in range(1, 5))
    lowest, highest = (e.table(I32, limits, 4 * i, GROUP) for i in range(2))
    mask, half_way = (e.table(I64, limits, 8 * i, GROUP // 2) for i in (1, 2))
    least = e.table(F64, limits, 24, GROUP // 2)
    half = b.and_(half_way, mask)  # 0 where the target is float64
    nothing = b.icmp_signed("==", seen, e.const(LANES, 0))
    power = b.sub(e.splat(b.trunc(exponent, I32), GROUP), e.load(LANES, columns, 4))
    outside = b.or_(b.icmp_signed("<", power, lowest), b.icmp_signed(">=", power, highest))
    found = I64(0)
    for h in range(2):
        of_half = range(8 * h, 8 * h + 8)
        quotient = e.rint(sums[4 * h])
        high, middle, low = (
            e.fma(quotient, p, x) for p, x in zip(of_p, sums[4 * h + 1 : 4 * h + 4], strict=True)
        )
        # Its error is exact: `high` is a multiple of the last place of `middle`.
        total = b.fadd(high, middle)
        low = b.fadd(low, b.fsub(middle, b.fsub(total, high)))
        size = e.call("llvm.fabs.v8f64", HALF, total)
        bound = e.fma(size, e.const(HALF, RELATIVE_MARGIN), margin)
        value, above = b.fadd(total, b.fsub(low, bound)), b.fadd(total, b.fadd(low, bound))
        undecided, rounded = e.pick(outside, outside, of_half), []
        for x in (b.bitcast(value, LONGS), b.bitcast(above, LONGS)):
            undecided = b.or_(undecided, b.icmp_signed("==", b.and_(x, mask), half_way))
            rounded.append(b.and_(b.add(x, half_way), b.not_(mask)))
        undecided = b.or_(undecided, b.icmp_signed("!=", *rounded))
        bits = b.add(b.sext(e.pick(power, power, of_half), LONGS), e.const(LONGS, 1023))
        value = b.bitcast(b.and_(b.add(b.bitcast(value, LONGS), half), b.not_(mask)), HALF)
        value = b.fmul(value, b.bitcast(b.shl(bits, e.const(LONGS, 52)), HALF))
        size = e.call("llvm.fabs.v8f64", HALF, value)
        zeros = e.pick(nothing, nothing, of_half)
        undecided = b.or_(undecided, b.fcmp_ordered("<", size, least))
        undecided = b.and_(undecided, b.not_(zeros))
        e.store(b.select(zeros, zero, value), e.at(out, 64 * h), 8)
        of_lanes = b.zext(b.bitcast(undecided, I8), I64)
        found = b.or_(found, b.shl(of_lanes, I64(8 * h)))
    return found


def narrow_group(e: Emit, doubles: Value, out: Value) -> None:
    """Write GROUP float64 numbers as float32 ones."""
    for h in range(2):
        half = e.load(HALF, e.at(doubles, 64 * h), 8)
        e.store(e.b.fptrunc(half, vector(F32, GROUP // 2)), e.at(out, 32 * h), 4)


COMBINE_TABLE = 32
"""Bytes of a modulus in the table of `combine`: three factors for each sum (int32), 1/p, -p (float32)."""


def combine(
    e: Emit, x: Value, y: Value, z: Value, out: Value, other: Value, groups: Value, table: Value
) -> None:
    """Write two sums of multiples of x, y and z modulo p, in place or not; so many groups of bytes."""
    b = e.b
    factors = [e.table(I32, table, 4 * i, GROUP) for i in range(6)]
    inverse, minus_p = (e.table(F32, table, 4 * i, GROUP) for i in (6, 7))
    magic = e.const(vector(F32, GROUP), FLOAT_MAGIC)

    def of_group(i: Value) -> list[Value]:
        bytes_ = [b.sext(e.load(vector(I8, GROUP), e.at(at, i, GROUP), 1), LANES) for at in (x, y, z)]
        for at, of_sum in ((out, factors[:3]), (other, factors[3:])):
            total = e.const(LANES, FLOAT_MAGIC_BITS)
            for number, factor in zip(bytes_, of_sum, strict=True):
                total = b.add(total, b.mul(number, factor))
            residue = b.trunc(e.reduce(total, magic, inverse, minus_p), vector(I8, GROUP))
            e.store(residue, e.at(at, i, GROUP), 1)
        return []

    e.loop(groups, [], of_group)
