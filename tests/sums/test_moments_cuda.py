"""The kernel of moments and of weighted sums without a GPU: a block's threads are threads of this CPU.

`tests/gpu/test_weighted.py` compares its bits on one.
"""

import ctypes
import re
import shutil
import subprocess
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from ozaki.sums.exact import moments
from ozaki.sums.exact.fixed_point import Rounding
from tests.standin import DeviceArray

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")]

SHIM = """
#include <cmath>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <vector>
#define __device__
#define __global__
#define __noinline__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define finite finite_number
using std::fma; using std::frexp; using std::floor; using std::scalbn;
struct Index { unsigned x; };
static thread_local Index threadIdx, blockDim;
static Index blockIdx, gridDim;
static pthread_barrier_t barrier;
static void __syncthreads() { pthread_barrier_wait(&barrier); }
static void __threadfence() {}
template <class T, class S> static T same_bits(S x) { T y; memcpy(&y, &x, sizeof y); return y; }
static long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static double __longlong_as_double(long long x) { return same_bits<double>(x); }
static int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
static int __double2loint(double x) { return (int)__double_as_longlong(x); }
static double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)high << 32 | (unsigned)low);
}
static float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static float __int_as_float(int x) { return same_bits<float>(x); }
static unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned __int128)x * y >> 64;
}
static int __clzll(long long x) { return __builtin_clzll(x); }
static int __ffs(int x) { return __builtin_ffs(x); }
static double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
template <class T> static T min(T x, T y) { return y < x ? y : x; }
template <class T> static T max(T x, T y) { return x < y ? y : x; }
static unsigned max(int x, unsigned y) { return max((unsigned)x, y); }
static void atomicMax(int *p, int x) { *p = max(*p, x); }
template <class T, class U> static void atomicOr(T *p, U x) { *p |= x; }
template <class T, class U> static T atomicAdd(T *p, U x) { T before = *p; *p += x; return before; }
"""
"""CUDA's words. One thread of a block at most adds to an output's memory."""

LAUNCHER = """
extern "C" void run(unsigned blocks, unsigned threads, const Variances *r) {
  for (gridDim.x = blocks, blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
    pthread_barrier_init(&barrier, 0, threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; t++) all.emplace_back([=] { threadIdx.x = t; variances(*r); });
    for (auto &thread : all) thread.join();
  }
}
"""
LAUNCHER_OF_STARTS = """
extern "C" void run(unsigned blocks, unsigned threads, void **a) {
  for (gridDim.x = blocks, blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
    pthread_barrier_init(&barrier, 0, threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; t++) all.emplace_back([=] {
      threadIdx.x = t, blockDim.x = threads;
      starts_of_groups((int *)a[0], (i64 *)a[1], (i64)a[2], (i64)a[3], (i64 *)a[4], (u64 *)a[5], (i64 *)a[6]);
    });
    for (auto &thread : all) thread.join();
  }
}
"""
ATOMIC = """
template <class T> static T atomicMax(T *p, T x) {
  T before = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (before < x && !__atomic_compare_exchange_n(p, &before, x, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return before;
}
"""
CONVERSION = re.compile(r'asm\("cvt[^"]*" : "=\w"\((\w+)\) : "\w"\((\w+)\)\);')
OTHER = re.compile(r'asm\("[^"]*"[^;]*;')
RNG = np.random.default_rng(0)
FP64 = FORMATS["fp64"]


class Emulated:
    """The kernel, compiled for this CPU with its constants."""

    def __init__(self, kernel, folder):
        self.source, self.folder, self.libraries = kernel.source, folder, {}

    def __call__(self, grid, block, arguments, **constants):
        key = tuple(sorted(constants.items()))
        if key not in self.libraries:
            name = self.folder / str(len(self.libraries))
            text = "".join(f"#define {macro} {value}\n" for macro, value in key)
            text += OTHER.sub("", CONVERSION.sub(r"\1 = \2;", self.source)) + LAUNCHER
            name.with_suffix(".cpp").write_text(SHIM + text)
            flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-pthread")
            subprocess.run(["g++", *flags, f"{name}.cpp", "-o", f"{name}.so"], check=True)
            self.libraries[key] = ctypes.CDLL(f"{name}.so")
        self.libraries[key].run(*grid, *block, ctypes.byref(arguments[0]))


class Written:
    """Numbers that the kernel writes to the host's memory."""

    def __init__(self, count, dtype):
        self.numbers = np.zeros(count, dtype)
        self.address = self.numbers.ctypes.data

    def send(self):
        """Nothing is waited for."""

    def look(self):
        return self.numbers


class Numpy:
    """NumPy, of which new arrays are taken for those of a GPU."""

    def __getattr__(self, name):
        return lambda *arguments, **options: there(getattr(np, name)(*arguments, **options))


def there(x):
    return np.asarray(x).view(DeviceArray)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    return Emulated(moments._KERNEL, tmp_path_factory.mktemp("moments"))


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """The kernel that finds where groups begin, on this CPU."""
    name = tmp_path_factory.mktemp("starts") / "starts"
    name.with_suffix(".cpp").write_text(SHIM + ATOMIC + moments._STARTS.source + LAUNCHER_OF_STARTS)
    flags = ("-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-pthread")
    subprocess.run(["g++", *flags, f"{name}.cpp", "-o", f"{name}.so"], check=True)
    library = ctypes.CDLL(f"{name}.so")

    def launch(grid, _block, arguments):
        values = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in arguments]
        library.run(grid[0], 8, (ctypes.c_void_p * len(values))(*values))

    return launch


@pytest.fixture(autouse=True)
def emulated(monkeypatch, kernel, starts):
    monkeypatch.setattr(moments, "_STARTS", starts)
    monkeypatch.setattr(moments, "import_cupy", Numpy)
    monkeypatch.setattr(moments, "Readback", Written)
    monkeypatch.setattr(moments, "multiprocessors", lambda: 4)
    monkeypatch.setattr(moments, "capturing", lambda: False)
    monkeypatch.setattr(moments, "_KERNEL", kernel)


def same(found, expected, open_=()):
    """Assert equal bits, but for a few results that are undecided."""
    found, expected = np.asarray(found), np.asarray(expected).reshape(-1)
    assert (found.dtype, len(found)) == (expected.dtype, len(expected))
    kept = np.delete(np.arange(len(found)), np.asarray(open_, int))
    assert found[kept].tobytes() == expected[kept].tobytes()


def ordinary(shape):
    """Numbers and weights, none undecided: equal ones, Inf and NaN, near the ends of float64's range."""
    x, w = RNG.standard_normal(shape), RNG.random(shape)
    some = RNG.random(shape) < 0.1
    yield from ((x, w), (np.round(4 * x), w), (1e8 + x, w), (0 * x + 7, w), (x, 0 * w + 2))
    yield from ((x * 2.0**-1060, w), (x * 2.0**500, w), (x, w * 2.0**-1040), (x + 1j * w, w))
    for special in (np.nan, np.inf):
        yield from ((np.where(some, special, x), w), (x, np.where(some, special, w)))


SHAPES = [(2, 50), (300, 3), (20_000, 1)]
"""Of a thread, of eight and of several blocks that have a column."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weighted_means(shape):
    zeros, w = np.where(RNG.random(shape) < 0.3, 0.0, -0.0), RNG.random(shape)
    cases = [*ordinary(shape), *((x, w - 0.3) for x, w in ordinary(shape))]
    cases += [(x * 2.0**k, 0 * w + 0.3) for x in (zeros - w, w) for k in (0, -1060)]  # ties
    cases += [(zeros, w - 0.5), (-abs(zeros), w), (zeros.astype(int), -RNG.integers(1, 4, shape))]
    for x, weights in cases:
        with np.errstate(all="ignore"):
            expected = ozaki.average(x, 0, weights)
        found, undecided = moments.averages(there(x), there(weights), 1, Rounding(FP64))
        assert not len(undecided)
        same(found, expected)
    x = np.ldexp(RNG.standard_normal(shape), RNG.integers(-60, 60, shape))
    found, undecided = moments.averages(there(x), there(np.ones(shape)), 1, Rounding(FP64))
    assert len(undecided) > 0
    same(found, ozaki.average(x, 0, np.ones(shape)), undecided)
    for y in (x, x * np.nan):  # weights that sum to zero are an error, whatever the numbers are
        assert len(moments.averages(there(y), there(x * 0), 1, Rounding(FP64))[1]) == shape[1]


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weighted_variances(shape, root):
    for x, w in ordinary(shape):
        for name, weights in (
            ("aweights", w),
            ("fweights", np.floor(4 * np.where(np.isfinite(w), w, 0)) + 1),
        ):
            for ddof in (0, 1, -2, 10**6):
                rounding, wide = Rounding(FP64, root=root), complex if x.dtype.kind == "c" else float
                given = there(x.astype(wide)), there(weights), name == "aweights", Fraction(ddof), rounding
                found, undecided = moments.weighted_variances(*given)
                assert (
                    len(undecided) <= root * shape[1] // 2
                )  # roots that are ties: of two numbers of equal weights
                with np.errstate(all="ignore"):
                    expected = (ozaki.std if root else ozaki.var)(x, 0, ddof=ddof, **{name: weights})
                same(found, expected, undecided)


@pytest.mark.parametrize(("n", "groups"), [(500, 7), (60, 100), (3000, 1)])
def test_groups(n, groups):
    labels, rounding = RNG.integers(0, groups, n), Rounding(FP64)
    for x, w in ordinary((n,)):
        if x.dtype.kind == "c":
            continue
        with np.errstate(all="ignore"):
            for weights in (w, w - 0.3):
                given = there(x), there(weights), there(labels), groups, rounding
                same(moments.group_averages(*given), ozaki.group_average(x, labels, groups, weights))
                same(moments.group_totals(*given), ozaki.group_dot(x, weights, labels, groups))
            for skip, function in ((False, ozaki.group_var), (True, ozaki.group_nanvar)):
                same(
                    moments.group_variances(there(x), there(labels), groups, rounding, Fraction(1), skip),
                    function(x, labels, groups, ddof=1),
                )
            for y, ddof in ((w, 1), (-w[::-1], 0), (x + w, 70), (x * 2.0**500, -3), (0 * x - 3, 1)):
                given = there(x), there(y), there(labels), groups, rounding, Fraction(ddof)
                same(
                    moments.group_covariances(*given),
                    ozaki.group_cov(np.stack([x, y]), labels, groups, ddof=ddof)[:, 0, 1],
                )
            if not np.isinf(x).any():
                for skip in (True,) if np.isnan(x).any() else (False, True):
                    same(
                        moments.group_means(there(x), there(labels), groups, rounding, skip),
                        (ozaki.group_nanmean if skip else ozaki.group_mean)(x, labels, groups),
                    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_moments_without_weights(shape):
    for x, _ in ordinary(shape):
        with np.errstate(all="ignore"):
            for skip, function in ((False, ozaki.var), (True, ozaki.nanvar)):
                found, undecided = moments.variances(there(x), 1, Rounding(FP64), Fraction(1), skip)
                assert not len(undecided)
                same(found, function(x, 0, ddof=1))
            for order, function in ((3, ozaki.skew), (4, partial(ozaki.kurtosis, fisher=False))):
                if x.dtype.kind != "c":
                    found, undecided = moments.standardized(there(x), order, (1, 0, 1), Rounding(FP64))
                    same(found, function(x), undecided)
