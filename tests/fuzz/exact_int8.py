"""int8 words on a CPU against fp64 words, bit for bit, and small products against fractions."""

import numpy as np

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from tests.fuzz.draw import Draw, check_one_nan, check_same, plain
from tests.fuzz.exact_products import GEMMS, call, op, operands
from tests.oracle import fixed_product, parts, rounded_product

ENGINES = tuple(f"int8_cpu:{kernel.name}" for kernel in available_kernels())


def shape(draw: Draw) -> tuple[int, int, int]:
    """(m, k, n) around the sizes of tiles and blocks: mostly small, so that many products can be had."""
    m, k, n = (draw.size(name, 1, int(draw.rng.choice([4, 20, 40, 70]))) for name in "mkn")
    if draw.chance(0.05):
        m, k, n = (draw.size(name, 1, 300) for name in "mkn")
    if draw.chance(0.001):
        m, k, n = min(m, 3), draw.size("long k", 64_900, 66_000), min(n, 3)  # sums fill int32
    return m, k, n


def moved(draw: Draw, given: dict) -> None:
    """Multiply the operands by 2**±1000 now and then: what over- or underflows is rounded before."""
    for name in ("a", "b"):
        x = given[name]
        if draw.chance(0.15) and x.dtype.kind in "fc" and x.flags.writeable:
            exponent = draw.pick(f"{name} times 2**", 1000, -1000)
            with np.errstate(all="ignore"):
                for part in parts(x):
                    part[...] = np.ldexp(part, exponent)


def int8_words(draw: Draw) -> None:
    """One product on a kernel of int8 words, of any dtype, accuracy, layout and kind of numbers."""
    dtype, engine = draw.pick("dtype", *GEMMS), draw.pick("engine", *ENGINES)
    m, k, n = shape(draw)
    given = operands(draw, dtype, m, k, n)
    moved(draw, given)
    accuracy = draw.pick("accuracy", "fp64", "fp32", "normwise", "exact", 7, 40, 53, 60, 63, 100)
    options = {"workspace": draw.pick("workspace", 20_000, 200_000)} if draw.chance(0.1) else {}
    got = call(GEMMS[dtype], given, accuracy=accuracy, engine=engine, **options)
    if got is None:
        return
    check_same("int8 words and fp64 words", got, GEMMS[dtype](**given, accuracy=accuracy, engine="host"))
    check_same("int8 words and the choice by default", got, GEMMS[dtype](**given, accuracy=accuracy))
    check_one_nan("NaN", got)
    if m * k * n < 2000 and accuracy not in ("fp64", "fp32", "normwise"):
        a, b = (op(given[x], given[f"trans_{x}"], dtype) for x in "ab")
        fixed = accuracy != "exact"
        want = fixed_product(a, b, accuracy, dtype) if fixed else rounded_product(a, b, dtype)
        check_same("int8 words and fractions", got, want)


def int8_stacks(draw: Draw) -> None:
    """A stack of products, a prepared operand and a Gram matrix on a kernel of int8 words."""
    dtype, engine = draw.pick("dtype", *GEMMS), draw.pick("engine", *ENGINES)
    m, k, n = (draw.size(name, 1, 40) for name in "mkn")
    stack, kind = draw.size("stack", 1, 4), draw.kind()
    a, b = (draw.array(x, (stack, *s), (dtype,), kind) for x, s in (("a", (m, k)), ("b", (k, n))))
    accuracy = draw.pick("accuracy", "fp64", "normwise", "exact", 53)
    want = ozaki.matmul(a, b, accuracy=accuracy, engine="host")
    check_same("stack", ozaki.matmul(a, b, accuracy=accuracy, engine=engine), want)
    check_same("stack by default", ozaki.matmul(a, b, accuracy=accuracy), want)
    x, y = plain(a)[0], ozaki.prepare(plain(b)[0], "right")
    for _ in range(2):
        check_same("prepared", GEMMS[dtype](x, y, accuracy=accuracy, engine=engine), want[0])
    gram, other = (ozaki.gram(a[0], accuracy=accuracy, engine=e) for e in (engine, "host"))
    check_same("gram", gram, other)


CHECKS = {"gemm, int8 words": int8_words, "gemm, int8 words in stacks": int8_stacks} if ENGINES else {}
