"""Softmax and its logarithms on a GPU: the kernels without one.

`tests/gpu/test_rowwise.py` compares their bits on one.
"""

import ctypes
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ozaki
from multiword.runtime.kernels import expanded
from multiword.runtime.machine_code import OPTIONS
from ozaki.rowwise import cuda
from ozaki.rowwise.api import safe_softmax
from ozaki.rowwise.cuda import MOST_THREADS, WARP, quick_source, source, team_of
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel

KINDS = ("log_softmax", "softmax", "logsumexp")
FUNCTIONS = {kind: getattr(ozaki, kind) for kind in KINDS} | {"safe_softmax": safe_softmax}

TEAM = 4
"""Threads of a block of this CPU: they meet as those of a GPU do."""

SHIM = """
#include <cmath>
#include <cstring>
#include <algorithm>
#include <pthread.h>
using std::max;
using std::min;
#define __device__
#define __global__
#define __constant__ static const
#define __forceinline__
#define __noinline__
#define __shared__ static
#define __launch_bounds__(...)
static thread_local struct { long long x; } threadIdx, blockIdx, blockDim, gridDim;
static pthread_barrier_t met;
static int ready = pthread_barrier_init(&met, nullptr, 4);
static void __syncthreads() { pthread_barrier_wait(&met); }
static void __syncwarp() { __syncthreads(); }
extern "C" void be(int thread, int block, int blocks) {
  __syncthreads();  // shared memory is the next block's, too
  threadIdx.x = thread, blockIdx.x = block, blockDim.x = 4, gridDim.x = blocks;
}
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
static int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static int __double2loint(double x) { return (int)__double_as_longlong(x); }
static double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned)low);
}
static float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static double __dsqrt_rn(double x) { return sqrt(x); }
static double rcp(double x) { return 1 / x; }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double upper_half(double x) { return __hiloint2double(__double2hiint(x), 0); }
static unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned __int128)x * y >> 64;
}
static int __clzll(long long x) { return __builtin_clzll(x); }
static int __ffs(unsigned x) { return __builtin_ffs(x); }
static int any_of_block(int mine) {
  static int found;
  __syncthreads();
  found = 0;
  __syncthreads();
  if (mine) found = 1;
  __syncthreads();
  return found;
}
static int __any_sync(unsigned, int mine) { return any_of_block(mine); }
static int __syncthreads_or(int mine) { return any_of_block(mine); }
static float larger_or_nan(float x, float y) { return x != x || x > y ? x : y; }
template <class V> static V __shfl_xor_sync(unsigned, V x, int other) {
  static V of_thread[4];
  of_thread[threadIdx.x] = x;
  __syncwarp();
  x = of_thread[threadIdx.x ^ other];
  __syncwarp();
  return x;
}
template <class V> static V atomicAdd(V* x, V y) { return __atomic_fetch_add(x, y, __ATOMIC_RELAXED); }
"""
"""CUDA's words, for four threads of a CPU that are a block."""

CONVERSION = re.compile(r'asm\("cvt[^"]*" : "=\w"\((\w+)\) : "\w"\((\w+)\)\);')
OPERATION = re.compile(
    r'asm\("(add|sub|mul|div).rn.f32[^"]*" : "=f"\((\w+)\) : "f"\((\w+)\), "f"\((\w+)\)\);'
)
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
MAXIMUM = re.compile(r'asm\("max.NaN[^"]*" : "=f"\((\w+)\) : "f"\((\w+)\), "f"\((\w+)\)\);')
INVERSE = re.compile(r'asm\("(rcp|rsqrt).approx.ftz.f64[^"]*" : "=d"\((\w+)\) : "d"\((\w+)\)\);')
OTHER = re.compile(r'asm\("[^"]*"[^;]*;')


def for_host(text):
    """CUDA's source as C++, whose own conversions keep subnormal numbers."""
    text = MAXIMUM.sub(r"\1 = larger_or_nan(\2, \3);", CONVERSION.sub(r"\1 = \2;", text))
    text = OPERATION.sub(lambda m: f"{m[2]} = {m[3]} {SIGNS[m[1]]} {m[4]};", text)
    text = INVERSE.sub(r"\2 = upper_half(\1(\3));", text)  # good to 20 bits
    text = OTHER.sub("", text)
    return SHIM + text.replace("extern __shared__ double powers[]", "static double powers[999]")


def all_kernels(kind, dtype, team):
    """The sources of the kernels for rows of a team and for those in parts, as one."""
    parts = Path(cuda.__file__).with_name("parts.cu").read_text()
    return source("rows.cu", kind, dtype, team) + parts.replace('#include "ozaki/rowwise/steps.cuh"', "")


@pytest.mark.parametrize("team", [MOST_THREADS, WARP, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_compiles_without_contraction(kind, dtype, team):
    text = (all_kernels if team == MOST_THREADS else partial(source, "rows.cu"))(kind, dtype, team)
    assert not FLUSHING.findall(compile_kernel(text, (f"--gpu-architecture={ARCHITECTURE}", *OPTIONS)))


@pytest.mark.whole
@pytest.mark.parametrize("architecture", OTHERS)
def test_compiles_for_other_architectures(architecture):
    """One kind is enough: the source has no branches that depend on them."""
    text = all_kernels("softmax", "float32", MOST_THREADS)
    assert not FLUSHING.findall(compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS)))


@pytest.mark.parametrize("kind", KINDS)
def test_enclosures_compile_without_contraction(kind):
    """CUDA's log1p compares halves of numbers as if they were float32; none of them is subnormal."""
    for n in (3, 768, 8192, 9000) if kind == "softmax" else (768, 9000):
        text = quick_source(kind, *team_of(n))
        for architecture in (ARCHITECTURE, *OTHERS) if kind == "softmax" and n == 768 else (ARCHITECTURE,):
            ptx = compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS))
            flushing = set(FLUSHING.findall(ptx))
            assert all(op.startswith(("setp.", "rcp.approx.ftz.f64")) for op in flushing)
            assert not flushing or kind != "softmax"


def compiled(text, folder):
    """The kernels of a source, for this CPU."""
    if not (compiler := shutil.which("g++")):
        pytest.skip("no g++")
    name = folder / f"{abs(hash(text))}"
    name.with_suffix(".cpp").write_text(for_host(text))
    flags = ("-std=c++17", "-O0", "-ffp-contract=off", "-shared", "-fPIC", "-w")
    subprocess.run([compiler, *flags, f"{name}.cpp", "-o", f"{name}.so"], check=True)
    return ctypes.CDLL(f"{name}.so")


def launched(library, name, blocks, arrays, *sizes):
    """Run a kernel, the last of its blocks first."""
    arguments = [a if a is None else ctypes.c_void_p(a.ctypes.data) for a in arrays]
    for n in sizes:
        kind = ctypes.c_double if isinstance(n, float) else ctypes.c_longlong
        arguments.append(n if isinstance(n, ctypes.Structure) else kind(n))

    def of_thread(thread):
        for block in reversed(range(blocks)):
            library.be(thread, block, blocks)
            library[name](*arguments)

    with ThreadPoolExecutor(TEAM) as threads:
        list(threads.map(of_thread, range(TEAM)))


def run(kind, library, x, size=0):
    """The results of rows that a block has, or of parts of so many numbers."""
    (count, n), out = x.shape, results(kind, x)
    if not size:
        launched(library, "rows", 3, (x, out, None), count, n, "softmax" in kind)
    else:
        sizes = count, n, -(-n // size), size
        largest, sums = found(sizes[2] * count)
        launched(library, "largest_of_parts", 3, (x, largest), *sizes)
        launched(library, "sums_of_parts", 3, (x, largest, sums), *sizes)
        launched(library, "results_of_parts", 3, (x, largest, sums, out), *sizes)
    return out


def results(kind, x):
    return np.full((len(x), 1 if kind == "logsumexp" else x.shape[1]), -1, x.dtype)


def found(parts):
    """Memory for the largest numbers, and for the words of the sums."""
    return np.zeros((parts, 3)), np.zeros((parts, 4), np.uint64)


def rows(rng, dtype):
    """Rows of all kinds."""
    x = rng.standard_normal((400, 60)) * 2.0 ** rng.integers(-40, 11, (400, 1))
    x[:20] = rng.integers(-2, 3, (20, 60))
    x[20:40, ::2] = -1e9
    x[40:60, 1:] = -np.inf
    x[60] = -np.inf
    x[61, 3], x[62, 3], x[63, 3:5] = np.inf, np.nan, (np.inf, -np.inf)
    x[64:80, 0] += 10.0 ** rng.integers(0, 4, 16)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_the_bits_of_a_cpu(kind, dtype, tmp_path):
    """Of rows at once, with room for their powers and without, and in parts, whose last is shorter."""
    library = compiled(all_kernels(kind, dtype, TEAM), tmp_path)
    for n in (1, 2, 60):
        x = np.ascontiguousarray(rows(np.random.default_rng(5), dtype)[:, :n])
        expected = FUNCTIONS[kind](x, 1)
        for count, size in ((len(x), 0), (120, 23), (120, n)):
            assert run(kind, library, x[:count], size).tobytes() == expected[:count].tobytes()
    for n in (2**32 - 1, 2**32, 2**33 + 1, 2**63 - 1):
        check_sum_of_ones(kind, library, n, dtype)


def check_sum_of_ones(kind, library, n, dtype):
    """The longest rows: n equal numbers, of which there are four, and their sum is multiplied."""
    x = np.zeros((1, 4), dtype)
    out, (largest, sums) = results(kind, x), found(1)
    sizes = 1, n, 1, 4
    launched(library, "largest_of_parts", 1, (x, largest), *sizes)
    launched(library, "sums_of_parts", 1, (x, largest, sums), *sizes)
    total = int.from_bytes(sums[:, :3].tobytes(), "little") // 4 * n
    sums[:, :3] = np.frombuffer(total.to_bytes(24, "little", signed=True), np.uint64)
    launched(library, "results_of_parts", 1, (x, largest, sums, out), *sizes)
    logarithm = ozaki.log1p(float(n - 1))
    values = {"softmax": 1 / n, "log_softmax": -logarithm, "logsumexp": logarithm}
    expected = values[kind.removeprefix("safe_")]
    assert (out == np.array(expected, dtype)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_integers_decide_what_texts_and_words_of_sums_leave_open(kind, tmp_path):
    """With all in doubt: every power and logarithm; and with units so large that most sums lose bits."""
    text, x = all_kernels(kind, "float64", TEAM), rows(np.random.default_rng(9), "float64")[::13, :20]
    x = np.ascontiguousarray(x)
    expected = getattr(ozaki, kind)(x, 1)
    for change, times in (
        (("UNIT = 158", "UNIT = 60"), 1),
        (("longer_exp(x, largest, e) ?", "(longer_exp(x, largest, e), true) ?"), 1),
        (("quick_exp(x, largest, e) &&", "(quick_exp(x, largest, e), true) &&"), 1),
        (("longer_log(sum, l) ?", "(longer_log(sum, l), true) ?"), kind != "softmax"),
        (("quick_log(sum, l) &&", "(quick_log(sum, l), true) &&"), kind != "softmax"),
        (("sum.lost) return false", "sum.lost) return true"), 1),
    ):
        assert text.count(change[0]) >= times
        text = text.replace(*change)
    library = compiled(text, tmp_path)
    for size in (0, 8):
        assert run(kind, library, x, size).tobytes() == expected.tobytes()


def test_sums_that_lose_bits_are_in_doubt_or_right(tmp_path):
    """With units so large that most rows lose some: where rounding may depend on these, it is said."""
    text, decided = all_kernels("softmax", "float64", TEAM), "rest = exact_sum(x, n, lane)"
    assert text.count("UNIT = 158") == text.count(decided) == 1
    text = text.replace("UNIT = 158", "UNIT = 60").replace(decided, "rest = -rest")
    x = np.random.default_rng(9).standard_normal((300, 40)) * 9
    expected, library = ozaki.softmax(x, 1), compiled(text, tmp_path)
    for size in (0, 15):
        out = run("softmax", library, x, size)
        doubt = out[:, 0] < 0
        assert 30 < doubt.sum() < 290
        assert out[~doubt].tobytes() == expected[~doubt].tobytes()
        assert out[doubt].tobytes() != (-expected[doubt]).tobytes()


def enclosed(kind, library, x):
    """Results by enclosures, the rows that they list, and results with these computed again."""
    count, n = x.shape
    first, listed = results(kind, x), np.zeros(1 + count, np.uint64)
    launched(library, "quick_rows", 3, (x, first, listed), count, n)
    doubt, found = np.zeros(count, bool), int(listed[0])
    doubt[listed[1 : 1 + found].astype(int)] = True
    assert doubt.sum() == found
    out = first.copy()
    out[doubt] = -1
    launched(library, "rows", 3, (x, out, listed), count, n, "softmax" in kind)
    listed[0] = cuda._LISTED + 1  # as if more had been in doubt than are listed
    again = np.full_like(out, -1)
    launched(library, "rows", 3, (x, again, listed), count, n, "softmax" in kind)
    assert again.tobytes() == out.tobytes()
    return first, doubt, out


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_enclosures_have_the_bits_of_a_cpu_or_doubts(kind, again, tmp_path):
    """Few rows are in doubt, which are computed again; many, where margins are wide.

    Rows that are kept, and rows that are read again for every step.
    """
    exact, error = source("rows.cu", kind, "float32", TEAM), "#define MARGIN (20 + ADDED)"
    for n, wider, most in ((2, False, 80), (60, True, 400)):
        quick = quick_source(kind, TEAM, 0 if again else -(-n // TEAM))
        assert quick.count(error) == 1
        quick = quick.replace(error, "#define MARGIN (1 << 27)" if wider else error)
        library = compiled(joined(exact, quick), tmp_path)
        x = np.ascontiguousarray(rows(np.random.default_rng(6), "float32")[:, :n])
        expected = FUNCTIONS[kind](x, 1)
        first, doubt, out = enclosed(kind, library, x)
        assert out.tobytes() == expected.tobytes()
        assert first[~doubt].tobytes() == expected[~doubt].tobytes()
        assert doubt.sum() <= most
        assert not wider or doubt.sum() > 10


def joined(exact, quick):
    """The kernels for rows and for their enclosures as one source: what both have, once."""
    definition = re.compile(r"#define (TEAM|KIND|OF_NOTHING|SOFTMAX|LOG_SOFTMAX|LOGSUMEXP) .*\n")
    header = expanded(Path(cuda.__file__).with_name("team.cuh"))
    assert header.count("#define LISTED (1 << 16)") == (cuda._LISTED == 1 << 16)
    assert quick.count(header[:-1]) == 1
    return exact + definition.sub("", quick.replace(header[:-1], ""))


def test_powers_are_as_near_as_the_bound_says(tmp_path):
    text = quick_source("softmax", TEAM, 1) + 'extern "C" double power_of(double d) { return power(d); }'
    power = compiled(text, tmp_path).power_of
    power.argtypes, power.restype = [ctypes.c_double], ctypes.c_double
    rng = np.random.default_rng(7)
    for least in (-1.0, -110.0, -350.0):
        d = np.concatenate(
            [rng.uniform(least, 0, 3000), np.log(2) * (np.arange(-505, 0) + 0.5), [0.0, least]]
        )
        d = d[d >= least]
        values, exact = np.array([power(v) for v in d], np.longdouble), np.exp(d.astype(np.longdouble))
        error = np.abs(values - exact) / exact * 2.0**53
        assert 5 / 3 <= error.max() <= 5
    assert power(0.0) == 1.0
    assert max(power(v) for v in (-350.1, -1e9, -np.inf)) < 2.0**-504


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
def test_results_are_as_near_as_the_margin_says(kind, tmp_path):
    """To the definition's in float64, before either is rounded to float32."""
    noted = """
static double values[1 << 15];
static float* from;
extern "C" double* values_of(float* out) { from = out; return values; }
"""
    write = "void write(double value, float* out) {"
    text, margin = quick_source(kind, TEAM, 15), 'extern "C" unsigned margin() { return MARGIN; }'
    assert text.count(write) == 1
    library = compiled(noted + text.replace(write, write + " values[out - from] = value;") + margin, tmp_path)
    x = (np.random.default_rng(4).standard_normal((400, 60)) * 3).astype(np.float32)
    expected, out, listed = FUNCTIONS[kind](x.astype(float), 1), results(kind, x), np.zeros(401, np.uint64)
    library.values_of.restype = ctypes.POINTER(ctypes.c_double)
    values = library.values_of(ctypes.c_void_p(out.ctypes.data))
    launched(library, "quick_rows", 3, (x, out, listed), *x.shape)
    found = np.ctypeslib.as_array(values, x.shape)
    error = (abs(found - expected) / abs(expected) * 2.0**53).max()
    assert 1 < error < library.margin() < 64


def test_differences_of_numbers_that_are_not_tiny_are_exact(tmp_path):
    text = quick_source("softmax", TEAM, 1) + 'extern "C" int is_tiny(float x) { return tiny(x); }'
    tiny = compiled(text, tmp_path).is_tiny
    tiny.argtypes = [ctypes.c_float]
    rng, bound = np.random.default_rng(8), np.float32(2.0**-21)
    below = np.nextafter(bound, np.float32(0))
    x = (rng.standard_normal(3000) * 2.0 ** rng.integers(-45, 9, 3000)).astype(np.float32)
    x = np.concatenate([x, [0.0, -0.0, bound, -bound, below, -below, 2.0**-149, np.inf, -np.inf]]).astype("f")
    flags = np.array([tiny(v) for v in x], bool)
    assert (flags == ((x != 0) & (np.abs(x) < bound))).all()
    assert not tiny(np.nan)
    rounded = set()
    largest = np.array([349.99997, 255.99998, 2.0**-21 * (1 + 2.0**-23), 0], np.float32).tolist()
    for v, flag in zip(x[:-2].tolist(), flags[:-2].tolist(), strict=True):
        for m in largest:
            if m - 350 < v < m and Fraction(v) - Fraction(m) != Fraction(v - m):
                rounded.add(flag)
    assert rounded == {True}


def test_threads_have_all_of_a_row():
    for n in range(2, 8193):
        team, numbers = team_of(n)
        assert team * numbers >= n > team * (numbers - 4)
        assert team & (team - 1) == 0
        assert numbers <= 32
    assert team_of(8193) == (512, 0)


def test_parts_are_rows(monkeypatch):
    """All of a row is in its parts, none of which is empty; they are no more than a GPU takes at once."""
    monkeypatch.setattr(cuda, "multiprocessors", lambda: 132)
    for count in (1, 3, 132, 600):
        for n in (1, 4096, 4097, 5000, 100_000, 300_001, 10**7, 2**40):
            parts, size = cuda._division(count, n)
            assert (parts - 1) * size < n <= parts * size
            assert parts == 1 or (count * parts <= 4 * 132 and size >= 1024)
    assert cuda._division(1, 10**7)[0] > 400
