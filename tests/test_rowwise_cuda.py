"""Softmax and its logarithms on a GPU: the kernel without one.

`tests/gpu/test_families.py` compares its bits on one.
"""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

import ozaki
from multiword.runtime.kernels import OPTIONS
from ozaki.rowwise_cuda import MOST_THREADS, WARP, source
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel

SHIM = """
#include <cmath>
#include <cstring>
#include <algorithm>
using std::max;
using std::min;
#define __device__
#define __global__
#define __forceinline__
#define __shared__ static
#define __launch_bounds__(x)
static struct { long long x; } threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
static void __syncthreads() {}
static void __syncwarp() {}
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
static int __clzll(long long x) { return __builtin_clzll(x); }
static void atomicAdd(unsigned* x, unsigned y) { *x += y; }
static void atomicOr(unsigned* x, unsigned y) { *x |= y; }
"""
"""CUDA's words, for one thread of a CPU."""

CONVERSION = re.compile(r'asm\("cvt[^"]*" : "=\w"\((\w+)\) : "\w"\((\w+)\)\);')
OTHER = re.compile(r'asm\("[^"]*"[^;]*;')


def for_host(text):
    """CUDA's source as C++, whose own conversions keep subnormal numbers."""
    text = OTHER.sub("", CONVERSION.sub(r"\1 = \2;", text))
    return SHIM + text.replace("extern __shared__ double kept[]", "static double kept[99]")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize(
    "team", [WARP, *(pytest.param(t, marks=pytest.mark.slow) for t in (1, MOST_THREADS))]
)
def test_compiles_without_contraction(team, softmax, dtype):
    text = source(dtype, team, softmax)
    for architecture in (ARCHITECTURE, *OTHERS) if dtype == "float32" and softmax else (ARCHITECTURE,):
        ptx = compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS, "-ftz=true"))
        assert not FLUSHING.findall(ptx)


@pytest.fixture(scope="module", params=["float32", "float64"])
def kernels(request, tmp_path_factory):
    """The dtype, and its kernels for sums and for softmax, compiled for one thread of this CPU."""
    folder = tmp_path_factory.mktemp("rows")
    return request.param, *(compiled(source(request.param, 1, softmax), folder) for softmax in (False, True))


def compiled(text, folder):
    """The kernel `rows` of a source, for one thread of this CPU."""
    if not (compiler := shutil.which("g++")):
        pytest.skip("no g++")
    name = folder / f"{abs(hash(text))}"
    name.with_suffix(".cpp").write_text(for_host(text))
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-w")
    subprocess.run([compiler, *flags, f"{name}.cpp", "-o", f"{name}.so"], check=True)
    return ctypes.CDLL(f"{name}.so").rows


def run(kernel, x):
    """Softmax, the largest numbers, the sums and the state."""
    out, largest, sums = np.full_like(x, -1), *np.full((2, len(x)), -1.0)
    state = np.zeros(1 + (len(x) + 31) // 32, np.uint32)
    arrays = (ctypes.c_void_p(a.ctypes.data) for a in (x, out, largest, sums, state))
    kernel(*arrays, *map(ctypes.c_longlong, x.shape))
    return out, largest, sums, state


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


@pytest.mark.parametrize("n", [1, 2, 60])
def test_the_bits_of_a_cpu(kernels, n):
    dtype, sums_of, softmax = kernels
    x = np.ascontiguousarray(rows(np.random.default_rng(5), dtype)[:, :n])
    out, *_, state = run(softmax, x)
    assert not state.any()
    assert out.tobytes() == ozaki.softmax(x, 1).tobytes()
    _, largest, sums, state = run(sums_of, x)
    assert not state.any()
    assert np.array_equal(largest, x.max(axis=1), equal_nan=True)
    finite = np.isfinite(largest)
    result = largest[finite] + ozaki.log1p(sums[finite])
    assert result.astype(dtype).tobytes() == ozaki.logsumexp(x[finite], 1).tobytes()
    assert np.isnan(sums[~finite]).all()


def test_sums_that_lose_bits_are_in_doubt_or_right(tmp_path):
    """With units so large that most rows lose some: where rounding may depend on these, it is said."""
    text = source("float64", 1, False)
    assert text.count("UNIT = 158") == 1
    x = np.random.default_rng(9).standard_normal((3000, 40)) * 9
    expected = run(compiled(text, tmp_path), x)[2]
    _, _, sums, state = run(compiled(text.replace("UNIT = 158", "UNIT = 60"), tmp_path), x)
    doubt = np.unpackbits(state[1:].view(np.uint8), bitorder="little")[: len(x)].astype(bool)
    assert 300 < doubt.sum() < 2900
    assert sums[~doubt].tobytes() == expected[~doubt].tobytes()
    assert sums[doubt].tobytes() != expected[doubt].tobytes()
