"""Elementary functions on a GPU have the CPU's bits."""

import ml_dtypes
import numpy as np
import pytest

import ozaki
from multiword.runtime.kernels import from_text
from ozaki.elementary import cuda
from ozaki.elementary.api import apply
from ozaki.elementary.derivatives import derivative
from ozaki.elementary.record import FUNCTIONS, PARTS
from ozaki.elementary.slopes import SLOPES
from ozaki.elementary.values import NEAR, NEAR_ROOT
from tests.elementary import test_two_arguments as two_arguments
from tests.elementary.test_complex import numbers as complex_numbers
from tests.elementary.test_functions import HARD, OTHERS, SPECIAL, ordinary
from tests.exhaustive import compare
from tests.gpu.same import same_on_the_gpu

pytestmark = pytest.mark.gpu

SPECIAL_PAIRS = [z.ravel() for z in np.meshgrid(two_arguments.SPECIAL, two_arguments.SPECIAL)]
UNARY = sorted(name for name, f in FUNCTIONS.items() if f.arguments == 1)


def of(name):
    return lambda x, **options: np.asarray(y) if isinstance(y := apply(name, x, **options), np.generic) else y


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ordinary_special_and_hard_arguments(name, dtype):
    hard = [float.fromhex(h) for h in HARD.get(name, [])]
    x = np.concatenate([ordinary(name, 200_000, seed=7), SPECIAL, hard, [k for k, _ in OTHERS.get(name, [])]])
    with np.errstate(over="ignore"):
        same_on_the_gpu(of(name), x.astype(dtype))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_patterns(name, dtype):
    """Of the whole range: every exponent, subnormal numbers, NaN of either sign."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    x = np.random.default_rng(8).integers(0, np.iinfo(word).max, 300_001, word, endpoint=True).view(dtype)
    same_on_the_gpu(of(name), x)


INVERSES_OF = """extern "C" __global__
void inverses(const double* x, double* of_number, double* of_root, long long n) {
  for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
    of_number[i] = near_inverse(x[i]);
    of_root[i] = near_inverse_root(x[i]);
  }
}
"""


def test_near_inverses_are_as_near_as_texts_count_on():
    """Of all upper halves of significands, with an even and an odd exponent, and of exponents far apart."""
    cupy, rng = pytest.importorskip("cupy"), np.random.default_rng(9)
    upper = np.arange(1 << 20, dtype=np.uint64) << np.uint64(32)
    lower = rng.integers(0, 1 << 32, (4, 1 << 20), np.uint64)
    lower[0], lower[1] = 0, (1 << 32) - 1
    exponents = np.array([1023, 1024, 1023 - 948, 1023 + 1000], np.uint64)[:, None, None] << np.uint64(52)
    x = (exponents | upper | lower).reshape(-1).view(np.float64)
    given = cupy.asarray(x)
    y, z = cupy.empty_like(given), cupy.empty_like(given)
    kernel = from_text(cuda.INVERSES + INVERSES_OF, "inverses", 0)
    kernel((1024,), (256,), (given, y, z, np.int64(x.size)))
    wide, y, z = x.astype(np.longdouble), y.get(), z.get()
    assert abs(y * wide - 1).max() < 2.0**-NEAR
    assert abs(z * wide * z - 1).max() / 2 < 2.0**-NEAR_ROOT


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", UNARY)
def test_all_halves(name, dtype):
    if dtype is ml_dtypes.bfloat16 and not _cupy_has_bfloat16():
        pytest.skip("this CuPy has no bfloat16")
    same_on_the_gpu(of(name), np.arange(1 << 16, dtype=np.uint16).view(dtype))


def _cupy_has_bfloat16():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.asarray(np.zeros(1, ml_dtypes.bfloat16))
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 4097])
def test_lengths(n):
    same_on_the_gpu(of("exp"), np.linspace(-745, 700, n))


def test_undecided_by_the_longer_text():
    """Ties, which only integers decide, and subnormal results, which the first text leaves."""
    same_on_the_gpu(of("exp10"), np.tile([23.0, -320.0, 1.0], 1000))


def test_layouts_out_and_where():
    cupy = pytest.importorskip("cupy")
    x = np.random.default_rng(0).standard_normal((30, 40))
    for make in (lambda a: a, lambda a: a.T, lambda a: a[::-1, ::3], lambda a: a[3, 5]):
        expected = np.asarray(apply("tanh", make(x)))
        assert (
            apply("tanh", make(cupy.asarray(x))).get().tobytes() == np.ascontiguousarray(expected).tobytes()
        )
    expected, device = apply("tanh", x), cupy.asarray(x)
    out = cupy.empty_like(device)
    assert apply("tanh", device, out=out) is out
    assert (out.get() == expected).all()
    kept = cupy.full_like(device, 7)
    apply("tanh", device, out=kept, where=device > 0)
    assert (kept.get() == np.where(x > 0, expected, 7)).all()
    assert apply("tanh", device, out=device) is device
    assert (device.get() == expected).all()
    shifted = cupy.asarray(np.concatenate([x.ravel(), [0]]))
    apply("tanh", shifted[:-1], out=shifted[1:])
    assert (shifted[1:].get() == expected.ravel()).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_every_float32(name):
    cupy = pytest.importorskip("cupy")
    tally = compare(name, cupy, step=1, block=1 << 26)
    assert tally.total == 1 << 32
    assert tally.wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name, (slope, *_) in SLOPES.items() if slope.decided))
def test_no_float32_derivative_is_left_undecided(cupy, name, monkeypatch):
    """Nothing waits to learn that. `test_every_float32` shows it of the functions themselves."""
    evaluated, left = cuda.evaluate, []

    def noted(text, x, out, otherwise):
        assert otherwise is None
        left.append(0)
        evaluated(text, x, out, count)

    def count(text, dtype, x):
        left[-1] += len(x[0])
        return x[0]

    monkeypatch.setattr(cuda, "evaluate", noted)
    for start in range(0, 1 << 32, 1 << 28):
        x = cupy.arange(start, start + (1 << 28), dtype=cupy.uint32).view(cupy.float32)
        derivative(name, (1,), x)
    assert len(left) == 16
    assert not any(left)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", two_arguments.NAMES)
def test_two_arguments(name, dtype):
    with np.errstate(all="ignore"):
        special = [z.ravel().astype(dtype) for z in np.meshgrid(two_arguments.SPECIAL, two_arguments.SPECIAL)]
    x, y = two_arguments.pairs(name, 50_000, dtype)
    same_on_the_gpu(lambda x, y: apply(name, x, y), x, y)
    same_on_the_gpu(lambda x, y: apply(name, x, y), *special)
    same_on_the_gpu(lambda x, y: apply(name, x, y), x[:90, None], y[:80])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", PARTS)
def test_complex_numbers(name, dtype):
    z = np.concatenate([complex_numbers(dtype, 5000), two_arguments.plane(*SPECIAL_PAIRS).astype(dtype)])
    same_on_the_gpu(of(name), z)
    same_on_the_gpu(lambda z: apply(name, z, where=z.real > 0), z[:90].reshape(9, 10).T)
    same_on_the_gpu(lambda z: apply("abs", z.real), z)


def test_a_number_beside_an_array():
    x = np.linspace(0.5, 3, 100)
    same_on_the_gpu(lambda x: apply("pow", x, 2.5), x)
    same_on_the_gpu(lambda x: apply("hypot", 3, x), x.astype(np.float32))


@pytest.mark.parametrize("p", [0, 1, np.inf, -np.inf, 3, -0.5])
def test_norms_of_any_order(p):
    x = np.random.default_rng(9).standard_normal((70, 50))
    for values in (x, x.astype(np.float32), x + 1j * x[::-1], (x * 9).astype(np.int64)):
        same_on_the_gpu(lambda v: ozaki.norm(v, p, axis=0), values)
        same_on_the_gpu(lambda v: ozaki.norm(v, p, axis=1, keepdims=True), values)
