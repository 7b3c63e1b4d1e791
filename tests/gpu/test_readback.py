"""What kernels tell the host: whether a mask holds anywhere, and whether there is a NaN."""

import numpy as np
import pytest

from multiword.runtime.arrays import put_one_nan, real_parts
from multiword.runtime.readback import all_finite, anywhere, everywhere, has_nan

pytestmark = pytest.mark.gpu

FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("n", [0, 1, 4095, 4097, 9_000_001])
def test_a_true_anywhere(cupy, n):
    mask = cupy.zeros(n, bool)
    assert not anywhere(mask)
    for place in {0, n // 2, n - 1} if n else ():
        mask[place] = True
        assert anywhere(mask)
        assert anywhere(mask.reshape(1, n).T)
        mask[place] = False
    square = cupy.zeros((30, 40), bool)
    square[::2] = True
    assert not anywhere(square[1::2, ::3])
    assert anywhere(square[::2, ::3])


@pytest.mark.parametrize("n", [0, 1, 4097])
def test_a_mask_that_holds_everywhere(cupy, n):
    mask = cupy.ones(n, bool)
    assert everywhere(mask)
    for place in {0, n // 2, n - 1} if n else ():
        mask[place] = False
        assert not everywhere(mask)
        mask[place] = True
    square = cupy.ones((30, 40), bool)
    square[::2] = False
    assert everywhere(square[1::2, ::3])
    assert not everywhere(square[::2, ::3])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float64", "complex128"])
def test_a_number_anywhere(cupy, dtype):
    """Other than 0, of either sign: NaN and subnormal numbers are some, too."""
    x = cupy.zeros(5000, dtype)
    assert not anywhere(x)
    x[7] = -x[7]
    assert not anywhere(x)
    numbers = {"u": [1], "i": [1, -1], "f": [5e-324, np.inf, np.nan], "c": [5e-324j, np.nan]}
    for number in numbers[x.dtype.kind]:
        x[4321] = number
        assert anywhere(x)
        assert anywhere(x[1::2])
        assert not anywhere(x[::2])


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_of_any_pattern(cupy, dtype):
    """Inf and subnormal numbers are none; one in an imaginary part is."""
    x = np.zeros(5000, dtype)
    for part in real_parts(x):
        word = np.dtype(f"u{part.itemsize}")
        words, infinite = part.view(word), np.array(np.inf, part.dtype).view(word)
        sign = word.type(1 << (8 * part.itemsize - 1))
        words[:4] = infinite, infinite | sign, 1, sign
        assert not has_nan(cupy.asarray(x))
        for pattern in (infinite + word.type(1), infinite | sign | word.type(1), ~word.type(0)):
            words[4321] = pattern
            assert has_nan(cupy.asarray(x))
            assert not has_nan(cupy.asarray(x)[::2])
            assert not all_finite(cupy.asarray(x)[1::2])
        words[4321] = 0
    assert not has_nan(cupy.asarray(x.real).astype(np.int32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_finite_numbers(cupy, dtype):
    """The largest and the smallest are; Inf of either sign is none, nor in an imaginary part."""
    x = np.zeros(5000, dtype)
    for part in real_parts(x):
        limits = np.finfo(part.dtype)
        part[:4] = limits.max, -limits.max, limits.smallest_subnormal, -0.0
        assert all_finite(cupy.asarray(x))
        for value in (np.inf, -np.inf, np.nan):
            part[4321] = value
            assert not all_finite(cupy.asarray(x))
            assert all_finite(cupy.asarray(x)[::2])
        part[4321] = 0
    assert all_finite(cupy.zeros(0, dtype))
    assert all_finite(cupy.arange(10))


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_nan(cupy, dtype):
    """Of strided arrays, too; other numbers stay, and so do zeros' signs."""
    kind = np.zeros(0, dtype).real.dtype
    word = np.dtype(f"u{kind.itemsize}")
    rng = np.random.default_rng(0)
    words = rng.integers(0, np.iinfo(word).max, (60, 2 * 70), word, endpoint=True)
    words[::5] |= np.array(np.inf, kind).view(word)
    words[1, :2] = 1, 1 << (8 * word.itemsize - 1)
    host = words.view(dtype)
    device = cupy.asarray(host)
    for choose in (lambda x: x, lambda x: x[::3, ::-2], lambda x: x.T):
        put_one_nan(choose(host))
        put_one_nan(choose(device))
        assert device.get().tobytes() == host.tobytes()
