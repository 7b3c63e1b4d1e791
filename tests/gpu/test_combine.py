"""alpha·R + beta·C on a GPU: the bits of NumPy's operations, one after another."""

import numpy as np
import pytest

from ozaki.combine import combine

pytestmark = pytest.mark.gpu


def numbers(shape, dtype, seed):
    """Some of them subnormal or without a number."""
    rng = np.random.default_rng(seed)
    real = np.dtype(dtype).type(0).real.dtype
    exponents = rng.integers(-20, 20, (2, *shape)) + np.finfo(real).minexp * rng.integers(0, 2, (2, *shape))
    x = np.ldexp(rng.standard_normal((2, *shape)), exponents)
    for value in (np.nan, -np.nan, np.inf, -np.inf, -0.0):
        x[rng.random(x.shape) < 0.04] = value
    with np.errstate(all="ignore"):
        return (x[0] + 1j * x[1] if np.dtype(dtype).kind == "c" else x[0]).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.3, -1.7), (-2, None), (1, 0.1), (1e30, 1e-30)])
@pytest.mark.parametrize(
    ("shape", "of_addend"),
    [
        ((50, 70), (50, 70)),
        ((50, 70), (70,)),
        ((50, 70), (50, 1)),
        ((50, 70), ()),
        ((6, 50, 70), (6, 50, 70)),
        ((6, 50, 70), (50, 70)),
        ((6, 50, 70), (6, 1, 70)),
        ((300,), (300,)),
        ((0, 5), (0, 5)),
    ],
)
def test_the_bits_of_a_cpu(cupy, shape, of_addend, alpha, beta, dtype):
    result, addend = numbers(shape, dtype, 1), numbers(of_addend, dtype, 2)
    kind = result.dtype.type
    factor = kind(alpha + 0.7j) if result.dtype.kind == "c" and alpha != 1 else kind(alpha)
    for layout in ("C", "F"):
        expected, found = result.copy(), cupy.asarray(np.array(result, order=layout), order=layout)
        more = cupy.asarray(np.array(addend, order=layout), order=layout)
        more, other = (None, None) if beta is None else (more, addend)
        with np.errstate(all="ignore"):
            combine(expected, factor, other, kind(beta or 0))
        combine(found, factor, more, kind(beta or 0))
        assert np.ascontiguousarray(found.get()).tobytes() == expected.tobytes()
