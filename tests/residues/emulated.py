"""Kernels of scheme "residues" on a CPU: the CUDA text, compiled by g++, in place of a GPU's.

All threads of a block run at once, block after block. Instructions written in PTX are functions here.
"""

import ctypes
import re
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from multiword.runtime.kernels import Instance, Struct
from tests.standin import Gpu

SHIM = """
#include <algorithm>
#include <cmath>
#include <cstring>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>
using std::isfinite; using std::max; using std::min;
#define __device__
#define __global__
#define __constant__ static
#define __forceinline__
#define __noinline__
#define finite is_finite /* a function of some C libraries */
#define __restrict__
#define __shared__ static
#define __launch_bounds__(...)
struct Index { int x, y; };
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;
struct double2 { double x, y; };
static pthread_barrier_t met;
static void __syncthreads() { pthread_barrier_wait(&met); }
template <class T, class U> static T bits_of(U x) { T y; memcpy(&y, &x, sizeof y); return y; }
static long long __double_as_longlong(double x) { return bits_of<long long>(x); }
static double __longlong_as_double(long long x) { return bits_of<double>(x); }
static int __float_as_int(float x) { return bits_of<int>(x); }
static float __int_as_float(int x) { return bits_of<float>(x); }
static int __double2hiint(double x) { return __double_as_longlong(x) >> 32; }
static int __double2loint(double x) { return __double_as_longlong(x); }
static double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)high << 32 | (unsigned)low);
}
static long long __double2ll_rn(double x) { return llrint(x); }
static unsigned __float_as_uint(float x) { return bits_of<unsigned>(x); }
static float __uint_as_float(unsigned x) { return bits_of<float>(x); }
static float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static double __dadd_rn(double x, double y) { return x + y; }
static double __dmul_rn(double x, double y) { return x * y; }
static void __threadfence() {}
static unsigned atomicInc(unsigned *x, unsigned limit) { return *x < limit ? (*x)++ : std::exchange(*x, 0); }
static double exchanged[1024]; /* by threads of a block, all of which take part */
template <class Find> static auto exchange(double x, Find find) {
    exchanged[threadIdx.x] = x;
    __syncthreads();
    const auto found = find(exchanged + threadIdx.x / 32 * 32, (int)threadIdx.x % 32);
    __syncthreads();
    return found;
}
static double __shfl_down_sync(unsigned, double x, int o, int width) {
    return exchange(x, [=](double *of, int me) { return of[me + (me % width + o < width ? o : 0)]; });
}
static int __shfl_sync(unsigned, int x, int from, int width) {
    return exchange(x, [=](double *of, int me) { return (int)of[me / width * width + from]; });
}
static int __any_sync(unsigned, int x) {
    return exchange(x, [](double *of, int) { return (int)(std::count(of, of + 32, 0) < 32); });
}
static int __syncthreads_or(int x) {
    exchanged[threadIdx.x] = x;
    __syncthreads();
    const int some = std::count(exchanged, exchanged + blockDim.x, 0) < blockDim.x;
    __syncthreads();
    return some;
}
template <class T, class U> static T atomicAdd(T *x, U y) { return __atomic_fetch_add(x, (T)y, 0); }
template <class T, class U> static T atomicOr(T *x, U y) { return __atomic_fetch_or(x, (T)y, 0); }
static unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned __int128)x * y >> 64;
}
static int __clzll(unsigned long long x) { return __builtin_clzll(x); }
static unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned z = 0;
    for (int i = 0; i < 4; i++) z |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return z;
}
static int dp4a_u32_s32(unsigned x, int y, int sum) {
    for (int i = 0; i < 4; i++) sum += (int)(x >> 8 * i & 255) * (signed char)(y >> 8 * i);
    return sum;
}
static int dp2a_lo_s32_s32(int x, int y, int sum) {
    return sum + (short)x * (signed char)y + (short)(x >> 16) * (signed char)(y >> 8);
}
template <class... T, size_t... I>
static void call(void (*kernel)(T...), void **arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_const_t<T> *)arguments[I]...);
}
template <class... T> static void launch(void (*kernel)(T...), const int *sizes, void **arguments) {
    const Index grid{sizes[0], sizes[1]}, block{sizes[2], sizes[3]};
    const auto team = [&](auto use) {
        std::vector<std::thread> threads;
        for (int y = 0; y < block.y; y++)
            for (int x = 0; x < block.x; x++) threads.emplace_back([=] {
                gridDim = grid, blockDim = block, threadIdx = {x, y};
                use();
            });
        for (auto &thread : threads) thread.join();
    };
    pthread_barrier_init(&met, nullptr, block.x * block.y);
    team([&] {
        for (int y = 0; y < grid.y; y++)
            for (int x = 0; x < grid.x; x++) {
                blockIdx = {x, y};
                call(kernel, arguments, std::index_sequence_for<T...>());
                __syncthreads();
            }
    });
}
"""
"""CUDA's words, and what launches a kernel on threads of a CPU."""

LAUNCHER = 'extern "C" void run(const int *sizes, void **arguments) { launch(%s, sizes, arguments); }'

DOT = re.compile(r'asm\("(dp[24]a)\.([\w.]*) [^"]*" : "\+r"\((\w+)\) : "r"\((.*?)\), "r"\((.*?)\)\);')
CONVERSION = re.compile(r'asm\("cvt[^"]*" : "=\w"\((\w+)\) : "\w"\((\w+)\)\);')
OTHER = re.compile(r'asm\("[^"]*"[^;]*;')


def for_host(text: str) -> str:
    """CUDA's source as C++."""

    def dot(found):
        name, kind, target, x, y = found.groups()
        return f"{target} = {name}_{kind.replace('.', '_')}({x}, {y}, {target});"

    text = CONVERSION.sub(r"\1 = \2;", DOT.sub(dot, text))
    return SHIM + OTHER.sub("", text)


class Module(SimpleNamespace):
    """A module, as far as caches ask."""

    __hash__ = object.__hash__


class Emulation:
    """What runs instances of kernels; their libraries are compiled once."""

    def __init__(self, folder):
        if not shutil.which("g++"):
            pytest.skip("no g++")
        self.folder, self.libraries, self.launched = folder, {}, []

    def library(self, instance: Instance) -> ctypes.CDLL:
        kernel = instance.kernel
        key = kernel.name, instance.constants
        if key not in self.libraries:
            path = self.folder / f"{kernel.name}{len(self.libraries)}.so"
            text = for_host(kernel.source) + LAUNCHER % kernel.name
            flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-mfma", "-w", "-shared", "-fPIC", "-pthread")
            options = (*flags, *(f"-D{key}={value}" for key, value in instance.constants))
            command = ["g++", *options, "-x", "c++", "-", "-o", str(path)]
            done = subprocess.run(command, input=text, text=True, stderr=subprocess.PIPE, check=False)
            assert done.returncode == 0, done.stderr
            self.libraries[key] = ctypes.CDLL(str(path))
        return self.libraries[key]

    def run(self, instance: Instance, grid, block, arguments) -> None:
        """Stand in for the launch of an instance."""
        values = [_value(x) for x in arguments]
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        sizes = (ctypes.c_int * 4)(*(*grid, 1)[:2], *(*block, 1)[:2])
        self.library(instance).run(sizes, addresses)
        self.launched.append(instance.kernel.name)

    def install(self, monkeypatch) -> Gpu:
        """Take the place of a GPU; its arrays are those of the stand-in that is returned."""
        gpu = Gpu()
        gpu.cupy = Module(**vars(gpu.cupy), asarray=gpu.asarray)
        gpu.install(monkeypatch)
        monkeypatch.setattr(Instance, "__call__", lambda instance, *launch: self.run(instance, *launch))
        return gpu


def _value(x):
    """The bytes of an argument, as they are passed to a kernel."""
    if isinstance(x, Struct):
        return x
    if isinstance(x, np.generic) or type(x) is np.ndarray:  # a struct's bytes are an array
        return ctypes.create_string_buffer(x.tobytes(), x.nbytes)
    return ctypes.c_void_p(x.data.ptr)
