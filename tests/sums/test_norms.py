"""Norms of any order: 0, 1, ∞ and −∞ exact but for one rounding, p within its bound."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ozaki
from tests.elementary.references import mp, nearest

DTYPES = (np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64, np.int8, np.uint8, bool)
ORDERS = (3, 2.5, 0.5, -1, -2.5, 0.01, -0.01)


def drawn(dtype, shape=(6, 5)):
    x = np.random.default_rng(4).standard_normal(shape) * 9
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_that_are_rounded_once(dtype):
    x = drawn(dtype)
    for axis in (0, -1):
        for row, *found in zip(
            np.moveaxis(x, axis, -1), *(ozaki.norm(x, p, axis) for p in (1, 0, np.inf, -np.inf)), strict=True
        ):
            exact = [abs(Fraction(v)) for v in row.astype(float).tolist()]
            expected = [sum(exact), sum(v != 0 for v in exact), max(exact), min(exact)]
            result = found[0].dtype
            assert result == (dtype if result.itemsize < 8 else np.float64)
            assert [float(v) for v in found] == [
                float(nearest(mp.mpf(t.numerator) / t.denominator, result)) for t in map(Fraction, expected)
            ]


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("octaves", [0, 300, 1000])
def test_other_orders_are_within_their_bound(p, octaves):
    rng = np.random.default_rng(5)
    x = np.ldexp(rng.standard_normal((4, 30)), rng.integers(-octaves, octaves + 1, (4, 1)))
    for row, found in zip(x, ozaki.norm(x, p, axis=1), strict=True):
        a = [abs(mp.mpf(v)) for v in row.tolist()]
        exact = mp.fsum(v**p for v in a) ** (1 / mp.mpf(p))
        if abs(exact) > np.finfo(float).max:
            assert found == np.inf
            continue
        largest = max(a) if p > 0 else min(a)
        scale = mp.mpf(2) ** mp.frexp(largest)[1] if abs(p) >= 1 / 8 else 1
        s = mp.fsum((v / scale) ** p for v in a)
        bound = (2 + (2 + abs(mp.log(s))) / abs(p)) * mp.mpf(2) ** -53
        assert abs(mp.mpf(float(found)) - exact) <= bound * exact + mp.mpf(2) ** -1075


def test_complex_numbers():
    z = drawn(np.float64) + 1j * drawn(np.float64).T[:5, :1].T
    for p in (1, 0, np.inf, -np.inf, 3):
        ours = ozaki.norm(z, p, axis=0)
        assert (ours == ozaki.norm(ozaki.abs(z), p, axis=0)).all()
        assert np.allclose(ours, np.linalg.norm(z, p, axis=0), rtol=1e-14, atol=0)
        assert ozaki.norm(z.astype(np.complex64), p, axis=0).dtype == np.float32


def test_ends():
    """Overflow, subnormal numbers, zeros, NaN, infinities, integers without an opposite, nothing."""
    assert ozaki.norm([1e300, 1e300], 3) == pytest.approx(2 ** (1 / 3) * 1e300, rel=1e-15)
    assert ozaki.norm([5e-324, 5e-324], 0.5) == 4 * 5e-324
    assert ozaki.norm([0.0, 0.0], 3) == ozaki.norm([1.0, 0.0], -2) == 0
    assert ozaki.norm([np.inf, 1.0], 3) == np.inf
    assert ozaki.norm([np.inf, 1.0], -3) == 1
    assert all(np.isnan(ozaki.norm([np.nan, 1.0], p)) for p in (1, 3, -3, np.inf, -np.inf))
    assert ozaki.norm(np.array([-(2**63)]), 1) == ozaki.norm(np.array([-(2**63)]), np.inf) == 2.0**63
    assert ozaki.norm([], 3) == ozaki.norm([], 1) == ozaki.norm([], 0) == 0
    assert ozaki.norm([], -1) == np.inf


def test_arguments():
    x, out = drawn(np.float64), np.empty(5, np.float32)
    assert ozaki.norm(x, 1, 0, out=out) is out
    assert (out == ozaki.norm(x, 1, 0, dtype=np.float32)).all()
    assert ozaki.norm(x, 3, 1, keepdims=True).shape == (6, 1)
    assert ozaki.norm(x, np.float32(2), 0).tolist() == ozaki.norm(x, 2, 0).tolist()
    for order in (3, 1, np.inf):
        assert (np.linalg.norm(ozaki.array(x, strict=True), order, axis=1) == ozaki.norm(x, order, 1)).all()
    for ord, axis in ((1, None), (1, (0, 1)), ("nuc", None), ("fro", 0), (True, 0), (np.nan, 0)):
        with pytest.raises(ValueError, match="ord must be"):
            ozaki.norm(x, ord, axis)
    with pytest.raises(ValueError, match="zero-size"):
        ozaki.norm([], -np.inf)
    assert ozaki.norm([], np.inf) == 0
    with pytest.raises(TypeError, match="2\\*\\*53"):
        ozaki.norm([2**53 + 1], 3)
    with pytest.raises(TypeError, match="a norm is real"):
        ozaki.norm(x, 1, 0, dtype=complex)
