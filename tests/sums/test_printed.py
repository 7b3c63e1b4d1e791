"""Rolling sums on a GPU: the texts that are printed in CUDA, without a GPU.

`tests/gpu/test_sums.py` compares their bits on one.
"""

import ctypes
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import compiles
from multiword.runtime.machine_code import OPTIONS
from ozaki.sums import rolling
from ozaki.sums.exact import windows_cuda
from tests.linalg.test_printed import SHIM
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, OTHERS, compile_kernel

pytestmark = pytest.mark.skipif(not compiles(), reason="no numba")


@pytest.mark.parametrize(
    ("local", "architecture"), [(0, ARCHITECTURE), *((windows_cuda._LOCAL, other) for other in OTHERS)]
)
def test_compiles_without_contraction(local, architecture):
    text = windows_cuda.source(local)
    ptx = compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS))
    assert ptx.count("fma.rn.f64") == 2 * 3  # quotients, and roots, of sums and of squares


@pytest.mark.parametrize("architecture", [ARCHITECTURE, *OTHERS])
def test_enclosures_compile_without_contraction(architecture):
    text = windows_cuda.enclosing_source()
    ptx = compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS))
    assert ptx.count("fma.rn.f64") == 3 + 4 + 2 + 1  # of three squares, a difference, a quotient and a root


MORE = """
#define __double2hiint(x) (int)(__double_as_longlong(x) >> 32)
template <class T> static T max(T x, T y) { return x < y ? y : x; }
static void atomicMax(int *p, int x) { *p = max(*p, x); }
using std::fma;
"""


class Emulated:
    """A kernel of a library, whose threads run one after another."""

    def __init__(self, library, name):
        self.library, self.name = library, name

    def __call__(self, grid, block, arguments):
        values = [x.ctypes.data if isinstance(x, np.ndarray) else int(x or 0) for x in arguments]
        function = getattr(self.library, f"run_{self.name}")
        function(grid[0], block[0], (ctypes.c_longlong * len(values))(*values))


class Written:
    """Numbers that a kernel writes to the host's memory."""

    def __init__(self, count, dtype):
        self.address = np.zeros(count, dtype)

    def send(self):
        """Nothing is waited for."""

    def look(self):
        return self.address


def launcher(name, types):
    given = ", ".join(f"({kind})a[{i}]" for i, kind in enumerate(types.split(", ")))
    return f"""
extern "C" void run_{name}(long long blocks, long long threads, long long *a) {{
  gridDim.x = blocks; blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) {name}({given});
}}
"""


LAUNCHERS = "".join(
    launcher(*kernel)
    for kernel in (
        ("windows_of_chunks", f"double*{', i64' * 7}, i64*"),
        ("windows_of_parts", f"double*{', i64' * 8}, i64*{', i64' * 8}, i64*, double*, bool*, int*"),
    )
)


TOGETHER = """
#include <pthread.h>
#include <thread>
#include <vector>
#undef __launch_bounds__
#define __launch_bounds__(...)
static pthread_barrier_t met;
static void __syncthreads() { pthread_barrier_wait(&met); }
static int __syncthreads_or(int x) {
  static int any;
  __syncthreads();
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
  if (x) __atomic_store_n(&any, 1, __ATOMIC_RELAXED);
  __syncthreads();
  return any;
}
template <class T> static T of_lane(T x, long long thread) {
  static T all[1024];
  __syncthreads();
  all[threadIdx.x] = x;
  __syncthreads();
  return all[thread];
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int d) { return of_lane(x, threadIdx.x ^ d); }
template <class T> static T __shfl_up_sync(unsigned, T x, int d) {
  return of_lane(x, threadIdx.x % 32 < d ? threadIdx.x : threadIdx.x - d);
}
"""
"""CUDA's words for threads of a CPU that are a block."""


def of_blocks(name, types):
    """A launcher of a kernel whose threads meet."""
    given = ", ".join(f"({kind})a[{i}]" for i, kind in enumerate(types.split(", ")))
    return f"""
extern "C" void run_{name}(long long blocks, long long threads, long long *a) {{
  pthread_barrier_init(&met, nullptr, threads);
  for (long long block = 0; block < blocks; block++) {{
    std::vector<std::thread> all;
    for (long long thread = 0; thread < threads; thread++) all.emplace_back([=] {{
      threadIdx.x = thread, blockIdx.x = block, blockDim.x = threads, gridDim.x = blocks;
      {name}({given});
    }});
    for (auto &thread : all) thread.join();
  }}
}}
"""


ENCLOSING = of_blocks("windows_enclosed", f"double*{', i64' * 12}, double*, bool*, int*")


def built(text, name):
    """A library of C++."""
    name.with_suffix(".cpp").write_text(text)
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-mfma", "-w", "-shared", "-fPIC", "-pthread")
    subprocess.run(["g++", *flags, f"{name}.cpp", "-o", f"{name}.so"], check=True)
    return ctypes.CDLL(f"{name}.so")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """By how many words a thread has of its own; -1 of enclosures."""
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    folder, shim = tmp_path_factory.mktemp("printed"), SHIM
    for alone, together in (
        ("static struct", "static thread_local struct"),
        ("static void __syncthreads() {}", ""),
    ):
        shim = shim.replace(alone, together)
    shim = shim.replace(
        "static void __syncwarp() {}", TOGETHER + "static void __syncwarp() { __syncthreads(); }"
    )
    found = {-1: built(shim + MORE + windows_cuda.enclosing_source() + ENCLOSING, folder / "enclosed")}
    for local in (0, windows_cuda._LOCAL):
        text = SHIM + MORE + windows_cuda.source(local) + LAUNCHERS
        found[local] = built(text, folder / f"windows{local}")
    return found


@pytest.fixture
def emulated(monkeypatch, libraries):
    """What puts NumPy's arrays in CuPy's place, for rolling sums."""
    device = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0))
    numpy = SimpleNamespace(**{n: getattr(np, n) for n in ("empty", "zeros", "ones", "cumsum")}, cuda=device)

    def octaves(_grid, _block, arguments):
        x, _, found = arguments
        fields = np.maximum(x.view(np.int64) >> 52 & 2047, 1)[(x != 0) & np.isfinite(x)]
        found[:] = (2048 - fields.min(), fields.max()) if fields.size else 0

    monkeypatch.setattr(windows_cuda, "import_cupy", lambda: numpy)
    monkeypatch.setattr(windows_cuda, "Readback", Written)
    monkeypatch.setattr(windows_cuda, "refuse_captures", lambda _: None)
    monkeypatch.setattr(windows_cuda, "multiprocessors", lambda: 1)
    monkeypatch.setattr(windows_cuda, "_OCTAVES", octaves)
    monkeypatch.setattr(windows_cuda, "_kernel", lambda name, local, _: Emulated(libraries[local], name))
    monkeypatch.setattr(
        windows_cuda, "_enclosing_kernel", lambda _: Emulated(libraries[-1], "windows_enclosed")
    )
    monkeypatch.setattr(windows_cuda, "_MOST_THREADS", 64)
    monkeypatch.setattr(windows_cuda, "_SHORTEST", 5)
    return lambda: monkeypatch.setattr(rolling, "_rolled", windows_cuda.rolled)


RNG = np.random.default_rng(3)
NUMBERS = {
    "normal": RNG.standard_normal((3, 70)),
    "long": RNG.standard_normal((2, 700)),
    "far from zero, and missing": np.where(
        RNG.random((2, 61)) < 0.2, np.nan, RNG.standard_normal((2, 61)) + 1e9
    ),
    "all sizes": RNG.standard_normal((2, 40)) * 2.0 ** RNG.integers(-1060, 900, (2, 40)),
    "zeros": np.where(RNG.random((2, 40)) < 0.7, -0.0, np.round(RNG.standard_normal((2, 40)))),
    "Inf": np.where(RNG.random((2, 40)) < 0.1, RNG.choice([-np.inf, np.inf], (2, 40)), 1.0),
    "float32": RNG.standard_normal((2, 50)).astype(np.float32),
}


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std"])
@pytest.mark.parametrize("x", NUMBERS.values(), ids=NUMBERS)
def test_printed_texts_have_the_bits_of_compiled_ones(emulated, name, x):
    function, calls = getattr(ozaki, f"rolling_{name}"), []
    for window, least, center in (
        (1, 1, False),
        (4, 0, True),
        (9, 9, False),
        (333, 2, True),
        (1000, 1, False),
    ):
        calls.append(lambda f=function, a=(window, -1, least, center): f(x, *a))
    expected = [call() for call in calls]
    emulated()
    for call, other in zip(calls, expected, strict=True):
        assert call().tobytes() == other.tobytes()


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std"])
def test_enclosures_decide_ordinary_windows(emulated, monkeypatch, name):
    """Near and far from zero, with NaN among them, of both dtypes; numbers of all sizes need digits.

    Of two numbers a deviation is half their difference, which may be a tie that its root does not show.
    """
    left, in_digits = [], windows_cuda._in_digits

    def counted(x, asked, result, certain):
        left.append(certain.size - np.count_nonzero(certain))
        return in_digits(x, asked, result, certain)

    monkeypatch.setattr(windows_cuda, "_in_digits", counted)
    ordinary = RNG.standard_normal((1, 250))
    missing = np.where(RNG.random((1, 250)) < 0.1, np.nan, ordinary - 1e9)
    cases = [
        ordinary,
        missing,
        ordinary.astype(np.float32),
        np.round(ordinary * 100) + 0.0,
        1e100 + 1e90 * ordinary,
    ]
    function, all_sizes = (
        getattr(ozaki, f"rolling_{name}"),
        np.ldexp(ordinary, RNG.integers(-500, 500, (1, 250))),
    )
    expected = [function(x, 20, min_count=5) for x in (*cases, all_sizes)]
    emulated()
    for x, of_x in zip(cases, expected, strict=False):
        assert function(x, 20, min_count=5).tobytes() == of_x.tobytes()
    assert not left
    assert function(all_sizes, 20, min_count=5).tobytes() == expected[-1].tobytes()
    assert left[-1] > 20
