"""Small matrices on a GPU: the texts that are printed in CUDA, without a GPU.

`tests/gpu/test_linalg.py` compares their bits on one.
"""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from multiword.runtime.compiled import compiles
from multiword.runtime.machine_code import OPTIONS
from ozaki.linalg.small import calls, loops_cuda
from ozaki.linalg.small.language import TEXTS
from ozaki.linalg.small.printing import LANGUAGE
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, OTHERS, compile_kernel

KINDS = {
    "lu": "xxii",
    "triangular": "xxx",
    "system": "xxxi",
    "cholesky": "xxi",
    "qr": "xxx",
    "projected": "xxxxi",
    "eigh": "xlx",
    "svd": "xxlx",
}
"""The arrays of each text: stacks of matrices, of lines, and of integers."""

IN_CI = {(name, char, ARCHITECTURE) for name in KINDS for char in "dD"} | {("lu", "d", x) for x in OTHERS}
EVERY = [(name, char, a) for name in KINDS for char in "dD" for a in (ARCHITECTURE, *OTHERS)]


def source(name, char):
    kinds = tuple({"x": (char, 3), "l": ("d", 2), "i": ("l", 2)}[kind] for kind in KINDS[name])
    return loops_cuda.source(name, kinds, 2 if name == "triangular" else 0)


@pytest.mark.parametrize(
    "kernel", [pytest.param(x, marks=() if x in IN_CI else pytest.mark.slow) for x in EVERY], ids="-".join
)
def test_compiles_without_contraction(kernel):
    name, char, architecture = kernel
    ptx = compile_kernel(source(name, char), (f"--gpu-architecture={architecture}", *OPTIONS))
    assert "mul.f64" in ptx or "mul.rn.f64" in ptx
    assert "fma.rn.f64" not in ptx


SHIM = """
#include <cmath>
#include <cstring>
#define __device__
#define __global__
#define __noinline__
#define __shared__ static
#define __launch_bounds__(x)
static struct { long long x; } threadIdx{0}, blockIdx{0}, blockDim{1}, gridDim{1};
static void __syncthreads() {}
static void __syncwarp() {}
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
"""
"""CUDA's words, for one thread of a CPU."""


def compiled_for_host(folder, name, stacks, options):
    kinds = tuple((x.dtype.char, x.ndim) for x in stacks)
    text, library = folder / f"{name}.cpp", folder / f"{name}.so"
    text.write_text(SHIM + loops_cuda.source(name, kinds, len(options)))
    flags = ("-std=c++17", "-O0", "-ffp-contract=off", "-w", "-shared", "-fPIC")
    subprocess.run(["g++", *flags, str(text), "-o", str(library)], check=True)
    return getattr(ctypes.CDLL(str(library)), f"small_{name}")


def run_on_host(folder, name, stacks, options):
    """Run a printed text for stacks, the last of which are written."""
    parts = 2 if stacks[0].dtype.kind == "c" else 1
    sizes = calls.sizes(name, max(max(x.shape[1:]) for x in stacks), parts)
    dtypes = stacks[0].dtype, np.float64, np.int64
    scratch = [np.full(size, 77, dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    arguments = [len(stacks[0])]
    for x in stacks:
        arguments += [x.ctypes.data, *x.shape[1:]]
    arguments += options
    for x in scratch:
        arguments += [x.ctypes.data, x.size]
    compiled_for_host(folder, name, stacks, options)(*map(ctypes.c_longlong, arguments))


@pytest.mark.skipif(not (shutil.which("g++") and compiles()), reason="no C++ compiler, or no numba")
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("svd", lambda a: calls.svd(a, a.shape[2], True)),
        pytest.param("qr", lambda a: calls.qr(a, a.shape[2], True), marks=pytest.mark.slow),
        pytest.param("lu", calls.lu, marks=pytest.mark.slow),
        pytest.param("eigh", lambda a: calls.eigh(np.tril(a[:, :3]), True), marks=pytest.mark.slow),
        ("system", lambda a: calls.system(a[:, :3], a[:, 1:4, :2].copy())),
    ],
)
def test_printed_texts_have_the_bits_of_compiled_ones(monkeypatch, tmp_path, name, call):
    given, run = [], calls._run
    monkeypatch.setattr(calls, "_run", lambda *x: (given.append(x), run(*x)))
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 5, 3)) + 1j * rng.standard_normal((3, 5, 3))
    a[1] = np.round(a[1])
    a[2] *= 2.0**-1060
    call(a)
    ((_, stacks, *options),) = given
    copies = [np.ascontiguousarray(x).copy() for x in stacks]
    for x in copies[1:] if name != "system" else copies[2:]:
        x[...] = 7
    run_on_host(tmp_path, name, copies, options)
    assert [x.tobytes() for x in copies] == [np.ascontiguousarray(x).tobytes() for x in stacks]


def test_what_one_thread_runs_and_what_all_share():
    by_name = {text.__name__: LANGUAGE.printed(text) for text in TEXTS}
    assert "by_one([&] { return bidiagonal_sweep(" in by_name["diagonalize"]
    assert by_name["eliminate"].count("meet();") == 4  # around each of two loops
    assert "threadIdx" not in by_name["rotation"]
    alone = by_name["qr_panel"].partition("auto halves_alone(")[2].partition("template")[0]
    assert "at(low, i) = " in alone
    assert "threadIdx" not in alone
    assert "meet" not in alone
    assert "halves_alone(products, n)" in by_name["qr_panel"]
    assert "halves(squares, " in by_name["qr_panel"]
