"""What sums take and give on a GPU: dtypes, empty arrays, `out`, NaN and subnormals."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from tests.gpu.same import same_on_the_gpu
from tests.oracle import nearest
from tests.sums.test_reduction_arguments import BFLOAT16, CALLS, QUIET, bits, nan_results, patterns

pytestmark = pytest.mark.gpu

SUBNORMAL = [np.dtype(np.float32), BFLOAT16, np.dtype(np.float16), np.dtype(np.complex64)]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [(7,), (5000,), (3, 600), (600, 3), (1000, 40), (40, 1000), (1200, 520)])
@pytest.mark.parametrize("dtype", SUBNORMAL, ids=str)
def test_keeps_subnormals(name, shape, dtype):
    rng = np.random.default_rng(0)
    part = np.dtype(np.float32) if dtype.kind == "c" else dtype
    fmt = next(f for f in FORMATS.values() if f.dtype == part and f.name != "tf32")
    smallest = fmt.smallest_subnormal

    def subnormal():
        return rng.integers(-100, 100, shape) * smallest

    x = (subnormal() + 1j * subnormal() if dtype.kind == "c" else subnormal()).astype(dtype)
    large = x.copy()
    large[rng.random(shape) < 0.3] = 2.0**14
    for y in (x, x[::-1], x[..., ::-1], large):
        for axis in (None, *range(len(shape))) if name != "vdot" else (None,):
            if name != "dot" or axis is not None:
                same_on_the_gpu(CALLS[name], y, axis=axis)


def test_keeps_subnormals_of_mixed_dtypes_and_of_results(cupy):
    tiny, huge = np.full(1000, 1e-40, np.float32), np.full(1000, 1e30, np.float32)
    exact = nearest(1000 * Fraction(float(tiny[0])) * Fraction(float(huge[0])), FORMATS["fp32"])
    assert float(ozaki.dot(cupy.asarray(tiny), cupy.asarray(huge))) == exact
    assert float(ozaki.dot(cupy.asarray(tiny), cupy.asarray(huge.astype(float)))) > 0
    for dtype in SUBNORMAL[:3]:
        x = np.array([3.0, -1.0]) * 2.0 ** (-149 if dtype != np.float16 else -24)
        for y in (x, x * 2.0**16, x * 1.25):
            for options in ({"dtype": dtype}, {"out": dtype}):
                host, device = (
                    call(options, y) for call in (_into, lambda o, v: _into(o, cupy.asarray(v), cupy))
                )
                assert bits(device.get()) == bits(host), (dtype, options)
    z = np.array([1e-40 + 2e-41j] * 300, np.complex64)
    for function in (ozaki.dot, ozaki.vdot):
        device = function(cupy.asarray(z), cupy.asarray(z), dtype=np.complex128)
        assert bits(device.get()) == bits(np.asarray(function(z, z, dtype=np.complex128)))
    accumulator = (
        ozaki.ExactSum(np.float32)
        .add(cupy.asarray(tiny))
        .add_products(cupy.asarray(tiny), cupy.asarray(huge))
    )
    assert accumulator == ozaki.ExactSum(np.float32).add(tiny).add_products(tiny, huge)


def _into(options, x, xp=np):
    if "out" in options:
        return ozaki.sum(x, out=xp.zeros((), options["out"]))
    return xp.asarray(ozaki.sum(x, **options))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(0, 100, 16), (7, 0), (16, 0, 1000), (0,), (0, 0), (5, 0, 3), (2, 300, 0)])
def test_reductions_of_empty_arrays(cupy, shape, dtype):
    x = np.zeros(shape, dtype)
    axes = [None, *range(len(shape)), tuple(range(len(shape)))] + [(0, 1)] * (len(shape) > 1)
    for name in CALLS:
        for axis in axes:
            if name == "vdot" or (name == "dot" and axis is None):
                continue
            if isinstance(axis, tuple) and name == "cumsum":
                continue
            options = {} if name == "cumsum" else {"keepdims": True}
            same_on_the_gpu(CALLS[name], x, axis=axis)
            same_on_the_gpu(CALLS[name], x, axis=axis, **options)
    same_on_the_gpu(CALLS["vdot"], x)
    for kept in range(len(shape) + 1):
        host, device = (ozaki.ExactSum(dtype, shape[kept:]) for _ in range(2))
        assert device.add(cupy.asarray(x)).add_products(cupy.asarray(x), cupy.asarray(x)) == host.add(
            x
        ).add_products(x, x)


@pytest.mark.parametrize("dtype", QUIET)
def test_nan_is_one_bit_pattern(cupy, dtype):
    for name, result in nan_results(dtype, cupy.asarray):
        assert patterns(result.get()) == {QUIET[dtype]}, name


def test_out_and_dtypes(cupy):
    x = np.array([1.0, 2.0**-24, 2.0**-60])
    out = cupy.zeros((), np.float32)
    assert ozaki.sum(cupy.asarray(x), out=out) is out
    assert float(out) == np.float32(1 + 2.0**-23)
    running = cupy.zeros(3, np.float32)
    assert ozaki.cumsum(cupy.asarray(x), out=running).tolist()[2] == np.float32(1 + 2.0**-23)
    integers = cupy.asarray(np.array([2**20], np.int32))
    assert int(ozaki.dot(integers, integers, dtype=np.int64)) == 2**40
    for bad, error in (
        ([0.0], TypeError),
        (np.zeros(()), TypeError),
        (cupy.zeros((), np.int64), TypeError),
        (cupy.zeros(1), ValueError),
    ):
        for name, call in CALLS.items():
            if name != "cumsum":
                with pytest.raises(error):
                    call(cupy.asarray(x), out=bad)
    with pytest.raises(TypeError, match="NumPy"):
        ozaki.near_sum(cupy.asarray(x))
