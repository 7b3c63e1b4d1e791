"""The engine of int8 words on CPUs: its kernels against Python's integers, and what they leave behind."""

import ctypes
import math
import mmap
import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword import get_engine
from multiword.engines.int8_cpu import kernels, loops, packed, product, steps
from multiword.engines.int8_cpu.emit import I64, VOID, Emit
from multiword.engines.int8_cpu.engine import Int8Cpu
from multiword.engines.int8_cpu.kernels import KERNELS, available_kernels, kernels_of
from multiword.engines.moduli import ResidueSystem, residue_system
from multiword.engines.words import WORDS
from multiword.formats import FORMATS
from multiword.runtime import parallel
from multiword.runtime.compiled import compiled
from ozaki.arguments import request_of
from ozaki.definition.decision import OCTAVES
from ozaki.execution import in_bytes
from ozaki.execution.in_bytes import Bytes
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.scaling.statistics import NONFINITE_ROW
from tests.cells import cells
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import same

llvmlite = pytest.importorskip("llvmlite", reason="kernels are compiled by numba's LLVM")
binding, ir = llvmlite.binding, llvmlite.ir

FP64 = FORMATS["fp64"]
HERE = [kernel.name for kernel in available_kernels()]
each_kernel = pytest.mark.parametrize(
    "kernel", HERE or [pytest.param(None, marks=pytest.mark.skip("none here"))]
)
the_best_kernel = pytest.mark.parametrize(
    "kernel",
    [pytest.param(kernel, marks=[pytest.mark.slow] if i else []) for i, kernel in enumerate(HERE)]
    or [pytest.param(None, marks=pytest.mark.skip("none here"))],
)
"""Others are slow: whoever takes them waits seconds for code that `python -m ozaki compile` leaves out."""

INSTRUCTIONS = {
    "amx": ("tdpbusd", "tileloadd", "vpdpbusd"),
    "avx512vnni": ("vpdpbusd", "vpmovdb"),
    "avxvnni": ("{vex} vpdpbusd",),
    "i8mm": ("usdot",),
    "dotprod": ("sdot",),
}
ARGUMENTS = {
    "write_words": 5,
    "write_limb": 6,
    "split": 6,
    "multiply_in_tiles": 8,
    "multiply_in_registers": 6,
    "combine": 7,
    "round_group": 8,
    "narrow_group": 2,
}


def assembly(kernel, name):
    """What LLVM makes of a vector step for a kernel's oldest processor, which need not be this one."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = ir.Module()
    module.triple = kernel.triple
    result = I64 if name == "round_group" else VOID
    function = ir.Function(module, ir.FunctionType(result, [I64] * ARGUMENTS[name]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    value = getattr(steps, name)(Emit(builder, kernel), *function.args)
    builder.ret_void() if value is None else builder.ret(value)
    features = ",".join(f"+{x}" for x in kernel.features)
    target = binding.Target.from_triple(kernel.triple)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    return target.create_target_machine(cpu=kernel.cpu, features=features, opt=3).emit_assembly(parsed)


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_every_step_compiles_for_its_target(kernel, name):
    if name.startswith("multiply") and kernel.tiles != name.endswith("tiles"):
        pytest.skip("another kernel's")
    text = assembly(kernel, name).replace("\t", " ")
    calls = [line for line in text.splitlines() if line.split()[:1] in (["bl"], ["call"], ["callq"])]
    assert not calls
    products = INSTRUCTIONS[kernel.name]
    if name.startswith("multiply"):
        assert all(x in text for x in products[:2])
    elif name == "split":
        assert products[-1] in text or products[0] in text


def system_of(bits, k, parts=1):
    return residue_system("int8", bits, k, parts)


def integers(rng, shape, width):
    """Float64 integers of up to that many bits, 0 and the extremes among them."""
    x = np.ldexp(
        rng.integers(-(2**52), 2**52, shape).astype(np.float64), rng.integers(-60, width - 52, shape)
    )
    x = np.rint(x)
    x.flat[:4] = (0.0, -0.0, 2.0**width, -(2.0**width))[: x.size]
    return x


@each_kernel
@pytest.mark.parametrize("width", [7, 53, 62, 63, 110, 126, 127, 300])
@pytest.mark.parametrize("side", [0, 1])
def test_residues_are_those_of_the_integers(kernel, side, width):
    rng, kernel = np.random.default_rng(width), KERNELS[kernel]
    system = system_of(109.2, 100)
    for height, inner in ((1, 1), (17, 64), (33, 130)):
        x = integers(rng, (height, inner), width)
        scale = (
            rng.integers(-900, 900, height).astype(np.int32) if width < 100 else np.zeros(height, np.int32)
        )
        words = product.split(kernel, system, [np.ldexp(x, -scale[:, None])[None]], scale, side, width)
        exact = np.array([[int(v) for v in row] for row in x], object)
        weights = [pow(int(np.prod(np.array(system.moduli, object))) // p, -1, p) for p in system.moduli]
        for p, w, y in zip(
            system.moduli, weights, words.bytes().view(np.int8 if side else np.uint8), strict=True
        ):
            assert not np.any((exact * (w if side == 0 else 1) - y) % p)
            assert side == 0 or p == 256 or np.abs(y.astype(int)).max() <= p // 2
            assert side == 1 or y.max() < p or kernel.signed


@each_kernel
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["rows", "columns", "reversed", "spread"])
def test_layouts_scales_and_rows_taken_as_zero(kernel, layout, dtype):
    rng, kernel = np.random.default_rng(3), KERNELS[kernel]
    system = system_of(54.6, 100)
    x = rng.integers(-(2**23), 2**23, (37, 77)).astype(dtype)
    scale = rng.integers(-5, 3, 37).astype(np.int32)
    scale[5], x[5, 3] = NONFINITE_ROW, np.inf
    laid = {
        "rows": x,
        "columns": np.asfortranarray(x),
        "reversed": x[::-1, ::-1].copy()[::-1, ::-1],
        "spread": np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    }[layout]
    values = np.rint(
        np.ldexp(np.where(np.isfinite(x), x, 0), np.where(scale == NONFINITE_ROW, 0, scale)[:, None])
    )
    values[5] = 0
    words = product.split(kernel, system, [laid[None]], scale, 1, 30)
    for p, y in zip(system.moduli, words.bytes().view(np.int8), strict=True):
        assert not np.any((values.astype(np.int64) - y) % p)


def operand(rng, kernel, system, side, stack, rows, inner):
    """Packed random integers, and they themselves."""
    parts = [rng.integers(-(2**40), 2**40, (stack, rows, inner)).astype(np.float64) for _ in range(2)]
    parts = parts[: 1 if system.images == 1 else 2]
    words = product.split(kernel, system, parts, np.zeros(stack * rows, np.int32), side, 40)
    exact = [np.array([[[int(v) for v in row] for row in m] for m in x], object) for x in parts]
    return words, exact


@each_kernel
@pytest.mark.parametrize("images", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 1, 1), (31, 5, 17), (33, 193, 70), (16, 64, 16)])
def test_products_are_those_of_the_integers(kernel, images, shape):
    rng, kernel, (m, k, n) = np.random.default_rng(9), KERNELS[kernel], shape
    moduli = {1: (256, 255, 253), 2: (241, 233, 5), 3: (256, 251, 3)}[images]
    system = ResidueSystem(WORDS["int8"], 1024, moduli, images)
    assert all((j * j + 1) % p == 0 for j, p in zip(system.roots, moduli, strict=False))
    a, x = operand(rng, kernel, system, 0, 2, m, k)
    b, y = operand(rng, kernel, system, 1, 2, n, k)
    once = product.Product(a, b, system).first(len(moduli))
    twice = product.Product(a, b, system).add(a, b).first(len(moduli))
    for t, p in enumerate(moduli):
        weight = pow(int(np.prod(moduli, dtype=object)) // p, -1, p)
        for s in range(2):
            of_s = slice(s * m, (s + 1) * m)
            left, right = [z[s] for z in x], [z[s].T for z in y]
            if images == 1:
                exact = [left[0] @ right[0]]
            elif images == 3:
                exact = [left[0] @ right[0], left[1] @ right[1], (left[0] + left[1]) @ (right[0] + right[1])]
            else:
                half = pow(2, -1, p)
                signs = (system.roots[t], -system.roots[t])
                exact = [half * ((left[0] + j * left[1]) @ (right[0] + j * right[1])) for j in signs]
            for image, c in enumerate(exact):
                assert not np.any((weight * c - once[image, t, of_s]) % p)
                assert not np.any((2 * weight * c - twice[image, t, of_s]) % p)


@each_kernel
def test_the_longest_inner_dimension_does_not_overflow(kernel):
    """Residues of the largest magnitude, all along it."""
    kernel, system = KERNELS[kernel], ResidueSystem(WORDS["int8"], product.LONGEST, (256, 255, 253))
    k, total = product.LONGEST, int(np.prod(system.moduli, dtype=object))
    weights = [pow(total // p, -1, p) for p in system.moduli]
    for left, right in ((255, -128), (254, 127), (128, -128)):
        of_a = sum(
            left * pow(w, -1, p) * (total // p) * w for p, w in zip(system.moduli, weights, strict=True)
        )
        of_b = sum((right % p) * (total // p) * w for p, w in zip(system.moduli, weights, strict=True))
        x, y = float(of_a % total), float(of_b % total)
        zero = np.zeros(1, np.int32)
        a, b = (
            product.split(kernel, system, [np.full((1, 1, k), v)], zero, i, 24) for i, v in enumerate((x, y))
        )
        got = product.Product(a, b, system).first(len(system.moduli))[0, :, 0, 0]
        for p, w, c in zip(system.moduli, weights, got.tolist(), strict=True):
            assert (int(x) * int(y) * k * w - c) % p == 0
    longer = [product.split(kernel, system, [np.ones((1, 1, k + 1))], zero, i, 1) for i in (0, 1)]
    with pytest.raises(ValueError, match="do not fit"):
        product.Product(*longer, system)


@each_kernel
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 70, 5), (40, 1000, 33), (90, product.LONGEST, 2)], ids=str)
def test_products_of_bytes_alone_are_exact(kernel, shape):
    """Those that the pairwise bound takes: int8 numbers, int32 sums, matrices and batches."""
    rng, engine, (m, k, n) = np.random.default_rng(2), Int8Cpu(kernel), shape
    for batch in ((), (2,)):
        a, b = (rng.integers(-128, 128, (*batch, rows, k)).astype(np.int8) for rows in (m, n))
        a[..., 0, :] = b[..., 0, :] = -128
        found = engine.multiply("int8", a, b)
        assert found.dtype == np.int32
        assert (found == a.astype(np.int64) @ b.astype(np.int64).swapaxes(-1, -2)).all()


def rounded(x):
    """RN(x) of a fraction in float64."""
    return float(x) if abs(x) < 2**1024 - 2**970 else math.inf if x > 0 else -math.inf


@each_kernel
@pytest.mark.parametrize(
    "kind", ["uniform", "wide40", "wide200", "cancelling", "integers", "graded", "tiny", "huge"]
)
def test_bits_of_results(kernel, kind):
    """Those of fp64 words, for every accuracy and dtype; against fractions where these are quick."""
    try:
        a, b = matrices(kind, 37, 66, 35)
    except ValueError:
        scale = {"graded": 2.0 ** np.arange(-33, 33), "tiny": 2.0**-1060, "huge": 2.0**990}[kind]
        a, b = matrices("uniform", 37, 66, 35)
        a, b = (a * scale, (b.T / scale).T) if kind == "graded" else (a * scale, b)
    engine = f"int8_cpu:{kernel}"
    for dtype in ("float64", "complex128", "float32", "complex64"):
        with np.errstate(all="ignore"):
            x, y = (z.astype(dtype) for z in (a, b))
        if dtype.startswith("complex"):
            with np.errstate(all="ignore"):
                x, y = x + 1j * np.flip(x), y - 1j * np.flip(y)
        for accuracy in (None, "normwise", "exact", 40):
            of = {} if accuracy is None else {"accuracy": accuracy}
            with np.errstate(all="ignore"):
                got, want = (ozaki.matmul(x, y, engine=e, **of) for e in (engine, "host"))
            assert got.tobytes() == want.tobytes()
    exact = ozaki.matmul(a[:3], b[:, :3], accuracy="exact", engine=engine)
    terms = [
        [sum(Fraction(p) * Fraction(q) for p, q in zip(r, c, strict=True)) for c in b.T[:3]] for r in a[:3]
    ]
    assert [[rounded(v) for v in row] for row in terms] == exact.tolist()


@each_kernel
@pytest.mark.parametrize(("dtype", "bits"), [("float32", 24), ("float64", 53)])
def test_sums_half_way_between_two_numbers_and_beside(kernel, dtype, bits):
    """Numbers of that many bits and a half, more or less by very little, where a spacing is 1."""
    rng, half = np.random.default_rng(6), bits // 2
    m = rng.integers(1 << bits - 1, 1 << bits, 200)
    little = rng.choice([0, *(sign * 2.0**-e for sign in (1, -1) for e in (2, 20, 30, 40))], m.shape)
    sign = rng.choice([-1, 1], m.shape)
    a = (sign * np.array([m >> half, m % (1 << half) + 0.5, little])).T.astype(dtype)
    b = np.array([[2.0**half] * 3, [1.0] * 3, [1.0] * 3], dtype)
    expected = [
        int(s) * round(int(x) + Fraction(1, 2) + Fraction(float(t)))
        for s, x, t in zip(sign, m, little, strict=True)
    ]
    found = ozaki.matmul(a, b, accuracy="exact", engine=f"int8_cpu:{kernel}")
    assert found.tolist() == np.array([expected] * 3).T.astype(dtype).tolist()


@each_kernel
def test_panels_stacks_prepared_operands_and_nonfinite_numbers(kernel):
    engine, rng = f"int8_cpu:{kernel}", np.random.default_rng(4)
    a, b = rng.standard_normal((3, 90, 150)), rng.standard_normal((3, 150, 70))
    want = ozaki.matmul(a, b, engine="host")
    assert ozaki.matmul(a, b, engine=engine).tobytes() == want.tobytes()
    for workspace in (1 << 17, 1 << 19, 1 << 21):
        got = ozaki.matmul(a[0], b[0], engine=engine, workspace=workspace)
        assert got.tobytes() == want[0].tobytes()
    prepared = ozaki.prepare(b[0], "right")
    for _ in range(2):
        assert ozaki.accurate_dgemm(a[0], prepared, engine=engine).tobytes() == want[0].tobytes()
    few = ozaki.accurate_dgemm(a[0, 5:20], prepared, engine=engine, workspace=1 << 17)
    assert few.tobytes() == want[0, 5:20].tobytes()
    a[1, 3, 4], b[2, 0, 1] = np.nan, -np.inf
    got, want = (ozaki.matmul(a, b, engine=e) for e in (engine, "host"))
    assert got.tobytes() == want.tobytes()


@each_kernel
@pytest.mark.parametrize("shape", [(1, 1), (35, 18)])
def test_stacks_with_a_long_inner_dimension(kernel, shape):
    """Their blocks are cut out of words that are split once."""
    (m, n), k, rng = shape, product.LONGEST + 90, np.random.default_rng(6)
    a, b = rng.standard_normal((3, m, k)), rng.standard_normal((3, k, n))
    got, want = (ozaki.matmul(a, b, engine=e) for e in (f"int8_cpu:{kernel}", "host"))
    assert got.tobytes() == want.tobytes()


@the_best_kernel
@cells(kind=KINDS, dtype=FACES)
def test_small_products_by_one_call(kernel, kind, dtype):
    """Single ones, and stacks of which some are left to the pipeline, have its bits."""
    engine = Int8Cpu(kernel, automatic=True)
    shape = ((50, 46, 48), (33, 130, 70), (17, 500, 16))[KINDS.index(kind) % 3]
    pairs = [in_dtype(*matrices(kind, *shape, seed), dtype) for seed in range(2)]
    pairs[1][1][3, 4] = np.nan
    a, b = (np.array(x) for x in zip(*pairs, strict=True))
    for accuracy in ("fp64", "fp32", "normwise"):
        request = request_of(a, accuracy, "auto", None, engine, None)
        pair = Pair(Factor(a, 0, stack=2), Factor(b, 1, stack=2), request)
        found, undecided = np.empty(pair.result_shape, a.dtype), np.zeros(2, np.bool_)
        undecided[Bytes(pair.signature).run(pair, found).left] = True
        assert undecided[1]
        assert kind != "uniform" or not undecided[0]
        for i, (x, y) in enumerate(pairs):
            expected = FACES[dtype](x, y, accuracy=accuracy, word="fp64")
            assert undecided[i] or same(found[i], expected)
            assert same(FACES[dtype](x, y, accuracy=accuracy, engine=engine), expected)


def at_once(a, b, out, engine, threads=1):
    """Multiply stacks by one compiled call, and check all products whose integers do not grow."""
    request = request_of(a, "normwise", "auto", None, engine, None)
    kind = Bytes(Pair(Factor(a, 0, stack=len(a)), Factor(b, 1, stack=len(a)), request).signature)
    stack = in_bytes._Stack(kind, a, b, out, threads)
    stack.multiply(np.arange(len(a)), 0, in_bytes._Numbers(kind))
    assert not stack.bits.any()
    for x, y, found in zip(a, b, out, strict=True):
        assert same(found, ozaki.matmul(x, y, accuracy="normwise", engine="host"))


@each_kernel
@cells(shape=[(1, 1, 1), (33, 130, 70), (200, 64, 3), (5, 9000, 40)], dtype=FACES)
def test_threads_that_meet_after_each_step(kernel, shape, dtype):
    """Of any layout; more threads than cores, too."""
    a, b = (x[None] for x in in_dtype(*matrices("uniform", *shape), dtype))
    for x, y in ((a, b), (np.asfortranarray(a[0])[None], np.repeat(b, 2, 2)[:, :, ::-2])):
        for threads in (1, 2, 3):
            for _ in range(4):
                at_once(x, y, np.empty((1, shape[0], shape[2]), dtype), Int8Cpu(kernel), threads)


@each_kernel
def test_a_thread_whose_others_do_not_finish_returns(kernel):
    """As if one had taken the first unit of a step, and been stopped; what is left can be done later."""
    x = np.random.default_rng(0).standard_normal((1, 70, 70))
    request = request_of(x, "fp64", "auto", None, Int8Cpu(kernel), None)
    kind = Bytes(Pair(Factor(x[0], 0), Factor(x[0], 1), request).signature)
    steps, form, out = kind.steps(0, 1), compiled(in_bytes.FORM), np.empty_like(x)
    products = form.compiled_products(steps.kernel, steps.split_units, steps.multiply_units)
    stack, numbers = in_bytes._Stack(kind, x, x, out, 1), in_bytes._Numbers(kind)
    sync, index = np.zeros(form.COUNTER * form.FINISHED, np.int64), np.zeros(1, np.int64)
    call = np.array([*stack._fields, steps.right_words, steps.units], np.int64).view(form.Call)
    memory = steps.memory()
    addresses = memory.ctypes.data, memory.ctypes.data + steps.shared
    scratch = *steps.scratch(), *compiled(in_bytes.STATISTICS).work_arrays(70), np.empty((2, OCTAVES))
    given = index, 0, call, sync, stack.bits, numbers.wide, numbers.narrow, kind.limits, *steps.records()
    begin = form.STATISTICS
    for step in (form.STATISTICS, form.SCALES, form.SPLIT):
        sync[form.COUNTER * step] = 1
        assert products(begin, *given, *addresses, *scratch) == step
        sync[form.COUNTER * step :][:2] = 0
        begin = step
    assert products(begin, *given, *addresses, *scratch) == form.FINISHED
    assert same(out[0], ozaki.matmul(x[0], x[0], engine="host"))


class Guarded:
    """Memory between two pages that nobody may touch: flush with the one before or the one behind it."""

    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, at_end):
        self.at_end, self.maps = at_end, []

    def empty(self, size):
        page = mmap.PAGESIZE
        length = -(-size // page) * page
        memory = mmap.mmap(-1, length + 2 * page)
        view = np.frombuffer(memory, np.uint8)
        self.maps.append((memory, view))
        for start in (0, length + page):
            address = ctypes.c_void_p(view.ctypes.data + start)
            assert self.libc.mprotect(address, ctypes.c_size_t(page), 0) == 0
        start = page + (length - size if self.at_end else 0)
        return view[start : start + size]

    def copy(self, x):
        out = self.empty(x.nbytes).view(x.dtype).reshape(x.shape)
        out[...] = x
        return out

    def release(self):
        for _, view in self.maps:
            page = mmap.PAGESIZE
            for start in (0, view.nbytes - page):
                self.libc.mprotect(ctypes.c_void_p(view.ctypes.data + start), ctypes.c_size_t(page), 3)


@each_kernel
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_around_the_memory_is_touched(kernel, at_end, monkeypatch):
    """Operands, packed residues, tables of a thread and results between guard pages."""
    guarded = Guarded(at_end)

    def scratch(shape, _):
        return guarded.empty(shape[0] - (1 if at_end else 0))

    monkeypatch.setattr(packed, "scratch", scratch)
    rng, kernel, system = np.random.default_rng(1), KERNELS[kernel], system_of(109.2, 100, 1)
    try:
        for m, k, n in ((1, 1, 1), (15, 70, 33), (40, 128, 64)):
            for order in "CF":
                x, y = rng.standard_normal((m, k)), rng.standard_normal((n, k))
                left, right = (
                    guarded.copy(np.asarray(z.T if order == "F" else z, order="C")) for z in (x, y)
                )
                left, right = (z.T if order == "F" else z for z in (left, right))
                scales = np.full(m, 50, np.int32), np.full(n, 50, np.int32)
                a = product.split(kernel, system, [left[None]], scales[0], 0, 60)
                b = product.split(kernel, system, [right[None]], scales[1], 1, 60)
                out = guarded.copy(np.zeros((m, n)))
                product.Product(a, b, system).add(a, b).round(scales, FP64, out)
                assert np.allclose(out, 2 * x @ y.T)
                both = [np.broadcast_to(z, (2, *z.shape)) for z in (left, right.T)]
                at_once(*both, guarded.copy(np.zeros((2, m, n))), Int8Cpu(kernel.name))
    finally:
        guarded.release()


@pytest.mark.skipif("amx" not in HERE, reason="no AMX here")
def test_tiles_are_released():
    """XINUSE says whether any tile register has another state than its initial one."""

    def in_use(e):
        return e.call("llvm.x86.xgetbv", I64, ir.Constant(ir.IntType(32), 1))

    from numba import int64, njit

    registers = loops.emitted(KERNELS["amx"], in_use, 0, int64)
    states = njit(lambda: registers())
    states()
    engine = Int8Cpu("amx")
    a = np.ones((100, 100))
    for _ in range(20):
        ozaki.matmul(a, a, engine=engine)
        assert states() >> 17 & 3 == 0


def test_a_kernel_that_the_system_denies_is_passed_over():
    every = dict.fromkeys((name for kernel in KERNELS.values() for name in kernel.features), True)

    def found(machine, features, permitted):
        return [kernel.name for kernel in kernels_of(machine, features, permitted)]

    def unasked():
        raise AssertionError("the system was asked for what the processor has not")

    assert found("x86_64", every, lambda: True) == ["amx", "avx512vnni", "avxvnni"]
    assert found("x86_64", every, lambda: False) == ["avx512vnni", "avxvnni"]
    assert found("x86_64", every | {"amx-int8": False}, unasked) == ["avx512vnni", "avxvnni"]
    assert found("aarch64", every, unasked) == ["i8mm", "dotprod"]
    assert found("x86_64", {"avx2": True}, unasked) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(1 << 1, 0, []), (1 << 1 | 1 << 20, 0, ["dotprod"]), (1 << 1 | 1 << 20, 1 << 13, ["i8mm", "dotprod"])],
)
def test_linux_is_asked_for_what_llvm_does_not_say_of_arm(first, second, expected, monkeypatch):
    """What LLVM says there of a Neoverse V1 names neither instruction, though the processor has both."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(binding, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"neon": True, "sve": True, "lse": True})
    monkeypatch.setattr(kernels, "_auxiliary_value", {16: first, 26: second}.get)
    assert [kernel.name for kernel in kernels._available_kernels()] == expected


COMPILED = """
from numba import int64, njit, void
from multiword.engines.int8_cpu import kernels, loops, steps
for kernel in kernels.available_kernels():
    multiply = steps.multiply_in_tiles if kernel.tiles else steps.multiply_in_registers
    step = loops.emitted(kernel, multiply, 8)
    njit(void(*[int64] * 8))(lambda a, b, c, d, e, f, g, h: step(a, b, c, d, e, f, g, h))
"""


@pytest.mark.skipif(not HERE, reason="no kernel here")
def test_kernels_compile_where_numba_is_told_of_an_older_processor():
    """LLVM would end the process at the first instruction that it may not use."""
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run([sys.executable, "-c", COMPILED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]


def test_unknown_kernels_are_refused():
    with pytest.raises(ValueError, match="no byte products of kernel"):
        Int8Cpu("i8mm" if "amx" in HERE or "avxvnni" in HERE else "amx")


@pytest.mark.skipif(not HERE, reason="no kernel here")
def test_the_choice_of_words():
    small, large = np.ones((64, 64)), np.ones((400, 400))
    assert ozaki.plan(small, small).word == "fp64"
    assert ozaki.plan(large, large).word == "int8"
    assert ozaki.plan(large, large, word="fp64").word == "fp64"
    assert ozaki.plan(large, large, engine="host").word == "fp64"
    tall, wide = np.ones((1000, 1000)), np.ones((8, 100_000))
    assert ozaki.plan(tall, tall[:, :4]).word == "int8"  # padded, and still faster
    thin = np.ones((16, 1000)), np.ones((1000, 16))
    assert [ozaki.plan(*(x.astype(t) for x in thin)).word for t in (float, complex)] == ["fp64", "int8"]
    assert ozaki.plan(wide[:, :8], wide).word == "fp64"  # an inner dimension of 8 would be padded to 64
    assert get_engine("auto").name == "host"


@pytest.mark.skipif(not HERE, reason="no kernel here")
def test_limits_of_threads(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    monkeypatch.setattr(parallel, "_limit", sys.maxsize)  # whatever the environment of the tests
    with threadpoolctl.threadpool_limits(1):
        assert parallel.thread_count() == 1
    assert parallel.thread_count() > 1 or parallel.cores() == 1


@pytest.mark.skipif(not HERE or not hasattr(os, "fork"), reason="no kernel, or no forks, here")
def test_forks_and_signals_in_the_middle_leave_nothing_behind():
    a, b = np.random.default_rng(0).standard_normal((2, 1, 400, 400))
    kernel, system, scale = KERNELS[HERE[0]], system_of(109.2, 400), np.full(400, 50, np.int32)

    def multiply():
        words = (product.split(kernel, system, [x], scale, i, 60) for i, x in enumerate((a, b)))
        out = np.empty((400, 400))
        product.Product(*words, system).round((scale, scale), FP64, out)
        return out

    want, stop = multiply(), threading.Event()

    def busy():
        while not stop.is_set():
            multiply()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if multiply().tobytes() == want.tobytes() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()

    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in np.linspace(1e-4, 2e-2, 15):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                for _ in range(20):  # a destructor may swallow it
                    multiply()
            except Interrupted:
                pass
            assert multiply().tobytes() == want.tobytes()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
