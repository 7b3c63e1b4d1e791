"""Running sums, every one against exact rationals."""

from fractions import Fraction
from itertools import accumulate

import ml_dtypes
import numpy as np
import pytest

from multiword.formats import FORMATS
from ozaki.sums.api import sum as exact_sum
from ozaki.sums.cumulative import cumsum
from tests.fuzz.fixed import check_family
from tests.oracle import nearest

FORMAT = {np.dtype(f.dtype): f for f in FORMATS.values() if f.name != "tf32"}


def reference(x, fmt=FORMATS["fp64"]):
    return [nearest(s, fmt) for s in accumulate(Fraction(float(v)) for v in x)]


def test_every_running_sum_is_the_nearest():
    check_family("cumsum")


@pytest.mark.parametrize("octaves", [1, 40, 1000])
def test_long_vectors(octaves):
    rng = np.random.default_rng(octaves)
    x = np.ldexp(rng.standard_normal(20_000), rng.integers(-octaves, octaves, 20_000))
    assert cumsum(x).tolist() == reference(x)
    y = np.concatenate([x[:5000], -x[:5000][::-1]])
    assert cumsum(y)[-1] == 0
    assert cumsum(y).tolist() == reference(y)


@pytest.mark.parametrize("dtype", FORMAT, ids=str)
def test_dtypes_and_axes(dtype):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((13, 700, 2)).astype(dtype)
    result = cumsum(x, axis=1)
    assert result.dtype == dtype
    for i in (0, 12):
        assert result[i, :, 1].astype(float).tolist() == reference(x[i, :, 1], FORMAT[dtype])
    assert np.array_equal(cumsum(x, axis=-2)[:, -1], exact_sum(x, axis=1))
    assert cumsum(x)[-1] == exact_sum(x)
    assert (
        cumsum(x.astype(np.float32) * 1j, axis=0)[-1, 3, 1].imag
        == exact_sum(x.astype(np.float32), axis=0)[3, 1]
    )


def test_special_values():
    inf, nan = np.inf, np.nan
    x = np.array([-0.0, -0.0, 0.0, 1e308, 1e308, -1e308, inf, 1, -inf, 2, nan])
    expected = np.array([-0.0, -0.0, 0.0, 1e308, inf, 1e308, inf, inf, nan, nan, nan])
    assert cumsum(x).tobytes()[:-32] == expected.tobytes()[:-32]
    assert np.array_equal(cumsum(x), expected, equal_nan=True)


def test_integers_out_and_refusals():
    big = np.array([2**62, 2**62, 1, -3], np.int64)
    assert cumsum(np.arange(4)).dtype == np.cumsum(np.arange(4)).dtype
    assert cumsum(big, dtype=np.float64).tolist() == [float(s) for s in accumulate(big.tolist())]
    out = np.empty(3)
    assert cumsum(np.ones(3), out=out) is out
    assert cumsum(np.zeros((0, 3)), axis=0).shape == (0, 3)
    assert cumsum(np.zeros((3, 0)), axis=0).shape == (3, 0)
    assert cumsum(np.ones(3, ml_dtypes.bfloat16), dtype=np.float32).dtype == np.float32
    for bad in (np.array([1, None]), np.ones(2, np.longdouble)):
        with pytest.raises(TypeError):
            cumsum(bad)
    with pytest.raises(ValueError, match="out"):
        cumsum(np.ones(4), out=out)


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16"])
def test_sums_beside_midpoints_are_rounded_once(without_numba, name):
    """What decides lies beyond float64's last bit, and once more beyond that."""
    fmt = FORMATS[name]
    half = 2.0**-fmt.precision
    for one in (1.0, 1 + 2 * half, 2 - 2 * half, -1.0):
        for tail in (0.0, 2.0**-70, -(2.0**-70)):
            x = np.array([tail, one, np.copysign(half, one), 2.0**-200])
            expected = reference(x, fmt)
            assert cumsum(x, dtype=fmt.dtype).astype(float).tolist() == expected
            assert without_numba(cumsum, x, dtype=fmt.dtype).astype(float).tolist() == expected
