"""The kernels of exact products of matrices, as C++ on a CPU, beside the forms that they equal.

`tests/gpu/test_sums.py` compares the states of whole sums on a GPU.
"""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from multiword.formats import FORMATS
from multiword.runtime.kernels import expanded
from ozaki.sums.exact import accumulator, matrix_products
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.fixed_point import DigitRange, FixedPoint
from ozaki.sums.exact.matrix_products import Places
from tests.linalg.test_printed import SHIM
from tests.sums.test_matrix_products import wide

MORE = """
#define __forceinline__ inline
#define __ffsll __builtin_ffsll
#define NUMBER double
static float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
template <class T> static T max(T x, T y) { return x < y ? y : x; }
template <class T> static void atomicMax(T *p, T x) { *p = max(*p, x); }
"""

CALLS = """
static void all(long long threads, void (*run)(long long *), long long *a) {
  gridDim.x = 2, blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < 2; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) run(a);
}
"""


def call(name, types):
    given = ", ".join(f"({kind})a[{i}]" for i, kind in enumerate(types.split(", ")))
    return f"""
extern "C" void run_{name}(long long *a) {{ all(3, [](long long *a) {{ {name}({given}); }}, a); }}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns what runs a kernel by name: of two blocks of three threads, one after the other."""
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    text = SHIM + MORE + CALLS
    for module in (matrix_products, accumulator):
        text += expanded(module.FILE)
    text += call("places_of_matrix", "double*, i64, i64, i64, i64, u64*")
    text += call("cut_matrix", "double*, i64, i64, i64, i64, int, int, int, double*, i64, i64, i64")
    of_sums = "i64*, int, int, i64, i64, unsigned char*, i64*, i64, i64, i64*, i64, unsigned char*"
    text += call("add_fixed_point", of_sums)
    path.with_suffix(".cpp").write_text(text)
    flags = ("-std=c++17", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC")
    subprocess.run(["g++", *flags, str(path.with_suffix(".cpp")), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))

    def launch(name, *arguments):
        values = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in arguments]
        getattr(library, f"run_{name}")((ctypes.c_longlong * len(values))(*values))

    return launch


def steps(x):
    return [step // x.itemsize for step in x.strides]


def matrices():
    x = wide(7, 11, dtype=np.float64, seed=4)
    x[2, 3:6] = np.inf, np.nan, -np.finfo(float).max
    return [x, x.T, x[::2, ::-3], np.zeros((2, 3)), np.full((1, 1), 2.0**-1074), np.full((2, 2), np.nan)]


@pytest.mark.parametrize("x", matrices())
def test_places_and_cuts_are_those_of_numpy(run, without_numba, x):
    found = np.zeros(3, np.uint64)
    run("places_of_matrix", x, *x.shape, *steps(x), found)
    places = Places.found(*found.tolist())
    assert places == without_numba(matrix_products._places, x) == matrix_products._places(x)
    for bits in (18, 26):
        forms = np.full((3, places.slices(bits), *x.shape), 7.0)
        run(
            "cut_matrix", x, *x.shape, *steps(x), places.last, bits, len(forms[0]), forms[0], *steps(forms[0])
        )
        without_numba(matrix_products._cut, x, places, bits, forms[1])
        matrix_products._cut(x, places, bits, forms[2])
        np.testing.assert_array_equal(forms[0], forms[1])
        np.testing.assert_array_equal(forms[0], forms[2])
        assert (abs(forms[0]) < 2**bits).all()


@pytest.mark.parametrize("name", ["fp32", "fp64"])
@pytest.mark.parametrize("base", [18, 24, 32])
def test_additions_are_those_of_numpy(run, name, base):
    rng, digits = np.random.default_rng(base), DigitRange.of(FORMATS[name])
    expected = Superaccumulator(digits, 9)
    found, flags = np.zeros((digits.digits + 3, 9), np.int64), np.zeros(9, np.uint8)
    for position, columns in ((0, slice(2, 7)), (37, np.array([8, 0, 3, 1, 2])), (-20, slice(4, 9))):
        values = rng.integers(-(2**53), 2**53, (4, 5))
        values[0] <<= 20  # no bits lie below the range
        more = rng.integers(1, 16, 5, dtype=np.uint8)
        if position < 0:
            values <<= 9 if base == 18 else 0
            values = values[:1]
        expected.add(FixedPoint(values, base, digits.exponent + position, more), columns)
        where = (0, columns.start) if isinstance(columns, slice) else (columns, 0)
        given = len(values), base, position, 0, more, *where, 5
        run("add_fixed_point", np.ascontiguousarray(values), *given, found, 9, flags)
    whole = Superaccumulator.of(digits, 0, found, flags)
    assert whole.first == expected.compacted().first
    assert whole.digits.tolist() == expected.compacted().digits.tolist()
    assert whole.flags.tolist() == expected.flags.tolist()
