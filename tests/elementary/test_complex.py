"""exp, log, abs and angle of complex numbers: each part rounded once, in every layout."""

import dask.array as da
import numpy as np
import pytest
from ml_dtypes import bfloat16

import ozaki
from ozaki.elementary.api import apply
from ozaki.elementary.record import PARTS
from tests.elementary.references import mp, nearest
from tests.elementary.test_functions import bits
from tests.elementary.test_two_arguments import SPECIAL, plane

NAMES = sorted(PARTS)
EXACT = {"exp": mp.exp, "log": mp.log, "abs": abs, "angle": mp.arg}
DTYPES = (np.complex64, np.complex128)


def numbers(dtype, n=40):
    """Ordinary numbers, and some about the unit circle."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    return np.concatenate([z, np.exp(1j * rng.uniform(-3, 3, n))]).astype(dtype)


def words(z):
    """The bits of an array's parts."""
    return bits(np.ascontiguousarray(z).view(z.real.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_parts_are_correctly_rounded(name, dtype):
    z = numbers(dtype)
    exact = [EXACT[name](mp.mpc(complex(v))) for v in z]
    real = z.real.dtype.type
    parts = [[nearest(mp.re(t), real) for t in exact], [nearest(mp.im(t), real) for t in exact]]
    expected = plane(*map(np.array, parts)) if len(PARTS[name]) == 2 else np.array(parts[0])
    ours = getattr(ozaki, name)(z)
    assert ours.dtype == expected.dtype
    assert (words(ours) == words(expected)).all()


@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_numpys(name):
    with np.errstate(all="ignore"):
        z = plane(*(v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL)))
        theirs = getattr(np, name)(z)
    parts = [np.ascontiguousarray(v).view(float) for v in (getattr(ozaki, name)(z), theirs)]
    fixed = ~np.isfinite(parts[1]) | (parts[1] == 0)
    assert np.array_equal(*(v[fixed] for v in parts), equal_nan=True)
    assert (np.signbit(parts[0]) == np.signbit(parts[1]))[parts[1] == 0].all()


@pytest.mark.parametrize("name", NAMES)
def test_layouts_out_and_where(name):
    z = numbers(np.complex128, 48).reshape(8, 12)
    function, whole = getattr(ozaki, name), apply(name, numbers(np.complex128, 48)).reshape(8, 12)
    for cut in (lambda a: a.T, lambda a: a[::-2, 1::3], lambda a: a[0, 0], np.asfortranarray):
        assert (np.asarray(function(cut(z))) == cut(whole)).all()
    assert type(function(1j)) is type(whole[0, 0])
    out, mask = np.full_like(whole, 7)[:, ::-1], np.arange(12) % 3 == 0
    assert function(z, out=out, where=mask) is out
    assert (out == np.where(mask, whole, 7)).all()
    assert (function(z, where=mask) == np.where(mask, whole, 0)).all()
    if whole.dtype == z.dtype:
        assert (function(z.copy(), out := z.copy()) == whole).all()
        assert (function(out := z.copy(), out) == whole).all()
    with pytest.raises(TypeError, match="out must be"):
        function(z, out=np.empty((8, 12), np.float32))
    with pytest.raises(ValueError, match="broadcast"):
        function(z, where=[True, False])


def test_real_numbers_are_complex_ones_without_an_imaginary_part():
    x = np.array([-2.0, -0.0, 0.0, 3.0, -np.inf, np.nan])
    for name in ("abs", "angle"):
        for dtype in (np.float16, np.float32, np.float64):
            ours = getattr(ozaki, name)(x.astype(dtype))
            assert ours.dtype == dtype
            assert np.array_equal(ours, getattr(np, name)(x).astype(dtype), equal_nan=True)
    assert ozaki.abs(-3) == 3.0
    assert ozaki.angle(-3) == np.pi
    with pytest.raises(TypeError, match="beyond 2"):
        ozaki.abs([2**60 + 1])
    with pytest.raises(TypeError, match="where must be boolean"):
        ozaki.abs(x, where=[1, 0, 1, 0, 1, 0])
    with pytest.raises(TypeError, match="must be real"):
        ozaki.sin(1j)
    with pytest.raises(TypeError, match="longdouble"):
        ozaki.exp(np.clongdouble(1j))


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float32, np.float64])
def test_bits_of_real_numbers_are_those_of_two_arguments(dtype):
    """Of every half, and of some longer numbers; one NaN, whatever NaN came."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    every = np.arange(1 << 16).astype(word) << np.dtype(word).type(8 * word.itemsize - 16)
    x = (every | every >> word.type(3)).view(dtype) if word.itemsize > 2 else every.view(dtype)
    with np.errstate(invalid="ignore"):
        same = ozaki.hypot(x, 0.0), ozaki.atan2(0.0, x)
    for ours, expected in zip((ozaki.abs, ozaki.angle), same, strict=True):
        assert expected.dtype == dtype
        for found, of in ((ours(x), expected), (ours(x[::-3]), expected[::-3]), (ours(x[5]), expected[5])):
            assert found.dtype == dtype
            assert found.tobytes() == of.tobytes()
        out, mask = np.full(x.shape, 7, dtype), np.arange(x.size) % 2 == 0
        assert ours(x, out, where=mask) is out
        assert out.tobytes() == np.where(mask, expected, dtype(7)).tobytes()
        wider = ours(x[:4], where=mask[:4, None])
        assert wider.tobytes() == np.where(mask[:4, None], expected[:4], dtype(0)).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_dask_and_ufuncs_of_arrays_have_these_bits(name):
    z = numbers(np.complex64)
    expected = getattr(ozaki, name)(z)
    lazy = getattr(ozaki, name)(da.from_array(z, chunks=17))
    assert lazy.dtype == expected.dtype
    assert (words(lazy.compute()) == words(expected)).all()
    found = getattr(np, name)(ozaki.array(z))
    assert found.dtype == expected.dtype
    assert (words(np.asarray(found)) == words(expected)).all()
    exact = np.abs(ozaki.array([-3, 4]))
    assert exact.dtype == np.int64
