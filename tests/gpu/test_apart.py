"""Products of which no bound proves anything, decided by a GPU."""

import numpy as np
import pytest

import ozaki
from multiword.runtime.arrays import real_parts
from ozaki.certificate.apart import proves_nothing, scales_that_lose_nothing
from ozaki.execution import stacks
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.statistics import NONFINITE_ROW
from tests.cases import FACES, in_dtype
from tests.exact import same
from tests.test_small_products import blocks, transforms

pytestmark = pytest.mark.gpu


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def sparse(rng, shape, dtype, zeros, spread):
    """Numbers of all sizes, many zeros, an Inf and a NaN."""
    x, y = rng.standard_normal((2, *shape)) * 2.0 ** rng.integers(-spread, spread + 1, (2, *shape))
    for z in (x, y):
        z[rng.random(shape) < zeros] = 0
    x[0, 0, 0], y[1, 0, 0] = np.inf, np.nan
    return in_dtype(x, y, dtype)


def real_pairs(a, b):
    """Rows and columns of the real products that real and imaginary parts are."""
    if a.dtype.kind != "c":
        return [(a, b)]
    rows = np.concatenate([a.real, a.imag], axis=-1)
    return [(rows, np.concatenate(parts, axis=-1)) for parts in ((b.real, -b.imag), (b.imag, b.real))]


@pytest.mark.parametrize(("zeros", "spread"), [(0.3, 3), (0.6, 3), (0.6, 30), (0.95, 8)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (17, 33, 6), (40, 70, 64)], ids=str)
@pytest.mark.parametrize("dtype", FACES)
def test_scales_that_lose_nothing(cupy, dtype, shape, zeros, spread):
    """As the host finds them; products with an Inf or NaN, and wide ones, keep the scales they have."""
    rng, stack, (m, k, n) = np.random.default_rng(len(dtype)), 50, shape
    a, _ = sparse(rng, (stack, m, k), dtype, zeros, spread)
    b, _ = sparse(rng, (stack, n, k), dtype, zeros, spread)
    expected = np.any([proves_nothing(*pair) for pair in real_pairs(a, b)], axis=0)
    lossless, fits, given = [], np.ones(stack, bool), []
    norm, length = 170, k * len(real_pairs(a, b))
    for x, count in ((a, m), (b, n)):
        parts = real_parts(x)
        scale = exact_scales([p.reshape(-1, k).astype(np.float64) for p in parts])
        largest = np.frexp(np.max([np.abs(p) for p in parts], axis=(0, 3)))[1].ravel()
        zero = (x == 0).all(axis=2).ravel()
        wide = ~zero & (2 * (largest + scale) > norm - np.ceil(np.log2(length)))
        fits &= ~(wide | (scale == NONFINITE_ROW)).reshape(stack, count).any(axis=1)
        lossless.append(scale)
        given.append(rng.integers(-9, 9, stack * count).astype(np.int32))
    parts = [real_parts(cupy.asarray(x)) for x in (a, b)]
    found = scales_that_lose_nothing(tuple(parts), tuple(map(cupy.asarray, given)), stack, norm)
    scales, which = found
    expected &= fits
    assert same(which.wait() != 0, expected)
    assert expected.any() or zeros < 0.9
    for scale, exact, kept, count in zip(scales, lossless, given, (m, n), strict=True):
        assert same(scale.get(), np.where(np.repeat(expected, count), exact, kept))


@pytest.mark.parametrize("n", [4, 6, 40])
@pytest.mark.parametrize("make", [transforms, blocks])
@pytest.mark.parametrize("dtype", FACES)
def test_stacks_that_lose_nothing_are_replayed(cupy, monkeypatch, dtype, make, n):
    rng = np.random.default_rng(n)
    for call in range(4):
        x, y = make(rng, n, dtype), make(rng, n, dtype)
        expected = ozaki.matmul(x, y)
        if call == 3 and (
            n < 40 or make is blocks
        ):  # translations and 1600 numbers: wider than there is room
            monkeypatch.setattr(stacks, "grouped_products", None)
            monkeypatch.setattr(stacks, "computed", None)
        assert same(ozaki.matmul(cupy.asarray(x), cupy.asarray(y)).get(), expected)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", FACES)
def test_all_kinds_in_a_stack(cupy, dtype):
    """Ordinary products, some that lose nothing, some of which pairs prove more, some with an Inf or NaN."""
    rng = np.random.default_rng(1)
    for call in range(8):
        x, y = np.array(sparse(rng, (60, 12, 12), dtype, 0.5 if call % 3 else 0.0, 40 if call == 4 else 2))
        x[:20] = blocks(rng, 12, dtype)[:20] if call % 4 else 1
        expected = ozaki.matmul(x, y)
        assert same(ozaki.matmul(cupy.asarray(x), cupy.asarray(y)).get(), expected), call
