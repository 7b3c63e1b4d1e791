"""The kernels of functions without a GPU: the CUDA text, compiled by g++, has the bits of the compiled loops.

Of special values, which a branch takes, of what the longer text decides, and of what it leaves.
"""

import ctypes
import shutil
import subprocess
from itertools import product

import numpy as np
import pytest

from ozaki.elementary import cuda, values
from ozaki.elementary.evaluate import _run
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.slopes import arguments_of
from tests.elementary.test_functions import HARD, SPECIAL

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")

SHIM = """
#include <cmath>
#include <cstring>
#define __device__ static
#define __constant__ static const
#define __global__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __shared__ static
#define __align__(x)
static void __syncthreads() {}
struct Index { int x; };
static Index threadIdx, blockIdx, gridDim, blockDim = {1};  // each thread copies the rest of a table
template <class T, class S> static T same_bits(S x) { T y; memcpy(&y, &x, sizeof y); return y; }
static long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static double __longlong_as_double(long long x) { return same_bits<double>(x); }
static double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
static double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
static unsigned atomicOr(unsigned* p, unsigned x) { unsigned before = *p; *p |= x; return before; }
static double widened(double x) { return x; }
static float narrowed(double x) { return x != x ? same_bits<float>(0x7fffffff) : (float)x; }  // as a GPU does
template <class T> static T canonical(double x) { return x != x ? same_bits<T>(0x7fc00000) : narrowed(x); }
static double single(double x) { return narrowed(x); }
static double near_inverse(double x) { return (1 + OFF) / x; }
static double near_inverse_root(double x) { return (1 + OFF_ROOT) / __builtin_sqrt(x); }
"""
"""CUDA's words, and what `cuda.HEADER` has. Inverses are wrong by as much as they may be."""

LAUNCHER = """
extern "C" void run(void** a, long long n) {
  gridDim.x = 2;
  for (blockIdx.x = 0; blockIdx.x < 2; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < THREADS; threadIdx.x++) elementary(ARGUMENTS);
}
"""
SOME = [("tanh", False), ("elu", True), ("log", True), ("exp10", False), ("pow", False), ("erfc", False)]


def launched(name, of_single, folder):
    """Return what a kernel does with arguments, results, flags and a word for whether any is set."""
    kind, count, folder = "float" if of_single else "double", arguments_of(name), folder / "kernel"
    given = [*(f"({kind}*)a[{i}]" for i in range(count + 1)), "n"]
    given += [f"(unsigned*)a[{i}]" for i in (count + 1, count + 2)]
    macros = {"OFF": 2.0**-values.NEAR, "OFF_ROOT": 2.0**-values.NEAR_ROOT, "THREADS": cuda.THREADS}
    text = "".join(f"#define {macro} {value!r}\n" for macro, value in macros.items()) + SHIM
    text += cuda.source(name, of_single, False).removeprefix(cuda.HEADER)
    folder.with_suffix(".cpp").write_text(text + LAUNCHER.replace("ARGUMENTS", ", ".join(given)))
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-march=native", "-w", "-shared", "-fPIC")
    subprocess.run(["g++", *flags, f"{folder}.cpp", "-o", f"{folder}.so"], check=True)
    library = ctypes.CDLL(f"{folder}.so")

    def run(*arrays):
        addresses = [0 if a is None else a.ctypes.data for a in arrays]
        library.run((ctypes.c_void_p * len(addresses))(*addresses), ctypes.c_longlong(len(arrays[0])))

    return run


def arguments(name, dtype):
    rng, hard = np.random.default_rng(4), [float.fromhex(h) for h in HARD.get(name, [])]
    ends = [x for x in (FUNCTIONS[name].low, FUNCTIONS[name].high) if np.isfinite(x)]
    x = np.array([*SPECIAL, *hard, *ends, *np.nextafter(ends, -np.inf), *np.nextafter(ends, np.inf), 23.0])
    together = [z.ravel() for z in np.meshgrid(*[x] * arguments_of(name))]
    with np.errstate(over="ignore"):
        return [np.concatenate([z, rng.uniform(-5, 5, 2000)]).astype(dtype) for z in together]


@pytest.mark.parametrize(
    ("name", "of_single"),
    [
        pytest.param(*k, marks=() if k in SOME else pytest.mark.slow)
        for k in product(sorted(FUNCTIONS), (False, True))
    ],
)
def test_kernels_have_the_bits_of_loops(name, of_single, tmp_path):
    x, run = arguments(name, np.float32 if of_single else np.float64), launched(name, of_single, tmp_path)
    expected, doubt = np.empty_like(x[0]), np.empty(len(x[0]), np.uint8)
    _run(name, of_single, False)(*x, expected, doubt)
    (again,) = np.nonzero(doubt)
    longer, still = np.empty(len(again), x[0].dtype), np.empty(len(again), np.uint8)
    _run(name, of_single, True)(*(a[again] for a in x), longer, still)
    expected[again], left = longer, np.isin(np.arange(len(doubt)), again[still.astype(bool)])
    out, any_left = np.empty_like(x[0]), np.zeros(1, np.uint32)
    run(*x, out, None, any_left)
    assert out.tobytes() == expected.tobytes()
    assert any_left[0] == left.any()
    in_place, flags = x[0].copy(), np.zeros(-(-len(left) // 32), np.uint32)
    run(in_place, *x[1:], in_place, flags, any_left)
    assert in_place.tobytes() == expected.tobytes()
    assert (np.unpackbits(flags.view(np.uint8), bitorder="little")[: len(left)] == left).all()
