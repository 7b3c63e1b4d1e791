"""Running sums of Dask arrays: the bits of the whole array's, whatever the chunks."""

from fractions import Fraction
from itertools import accumulate

import ml_dtypes
import numpy as np
import pytest

import ozaki
from tests.cells import cells
from tests.oracle import nearest

da = pytest.importorskip("dask.array")
cumulative = pytest.importorskip("ozaki.dask.cumulative")

pytestmark = pytest.mark.usefixtures("dask_in_this_thread")


def cuts(rng, n):
    """Random sizes of chunks, zeros among them, that are n together."""
    inner = np.sort(rng.integers(0, n + 1, rng.integers(0, 8)))
    return tuple(np.diff([0, *inner, n]).tolist())


def check(x, chunks, axis=None, dtype=None):
    lazy = ozaki.cumsum(da.from_array(x, chunks=chunks), axis=axis, dtype=dtype)
    expected = ozaki.cumsum(x, axis=axis, dtype=dtype)
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    found = lazy.compute()
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert ozaki.fingerprint(found) == ozaki.fingerprint(expected), (chunks, axis)


DTYPES = ["f8", "f4", "f2", ml_dtypes.bfloat16, "c16", "c8"]


@cells(dtype=DTYPES)
def test_any_chunks_and_axis(dtype):
    rng = np.random.default_rng(0)
    octaves = {"f2": 8, "f8": 900, "c16": 900}.get(dtype, 100)
    for shape in ((0,), (1,), (700,), (23, 20), (3, 0, 2), (5, 4, 3)):
        x = np.ldexp(rng.standard_normal(shape), rng.integers(-octaves, octaves, shape))
        if dtype in ("c16", "c8"):
            x = x + 1j * x[::-1]
        x = x.astype(dtype)
        for axis in (None, *range(-1, len(shape))):
            for _ in range(2):
                check(x, tuple(cuts(rng, n) for n in shape), axis)


def test_against_exact_sums():
    rng = np.random.default_rng(1)
    for octaves in (1, 60, 1000):
        x = np.ldexp(rng.standard_normal(300), rng.integers(-octaves, octaves, 300))
        x = np.concatenate([x, -x[::-1]])
        found = ozaki.cumsum(da.from_array(x, chunks=(cuts(rng, 600),))).compute()
        assert found.tolist() == [nearest(s) for s in accumulate(map(Fraction, x.tolist()))]
        assert found[-1] == 0


def test_values_that_are_not_finite_and_zeros():
    rng = np.random.default_rng(2)
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, -0.0, -0.0, 1.0, -1.0, 5e-324])
    for _ in range(30):
        x = rng.choice(special[rng.integers(0, 8) :], 24)
        check(x, (cuts(rng, 24),))
        check(x.reshape(6, 4), (cuts(rng, 6), cuts(rng, 4)), axis=0)
        both = np.empty((2, 12), complex)
        both.real, both.imag = x.reshape(2, 12), np.roll(x, 5).reshape(2, 12)
        check(both, (cuts(rng, 2), cuts(rng, 12)), axis=1)
    check(np.full(9, -0.0), (2, 0, 3, 4))
    check(np.array([1.0, -1.0, -0.0, -0.0]), 1)


def test_sums_far_beyond_the_largest_number_stay_there():
    """Of a chunk whose sum is 2**1052: it has no digit as low as 2**1020."""
    float64 = np.dtype(float)
    total = cumulative._total(np.broadcast_to(2.0**1023, 1 << 29), axis=0, dtype=float64, declared=float64)
    assert np.isposinf(ozaki.sum(total.numbers(3)))


def test_sums_beyond_the_largest_number_come_back():
    """Between chunks too, by as many numbers as a chunk has."""
    largest = np.finfo(float).max
    for n in (1, 2, 20):
        x = np.concatenate([np.full(n, largest), [1.0, 2.0**900], np.full(n, -largest), [3.0]])
        for chunk in (1, 2, n, n + 1, len(x)):
            check(x, chunk)
            check(-x, chunk)
            check(np.stack([x, x[::-1], -x, np.ones(len(x))], axis=1), (chunk, 3), axis=0)
    far = np.concatenate([np.full(5000, largest), -np.full(5000, largest)])
    check(far, (5000, 1, 3, 4996))
    check(far, (2500, 7500))
    check(np.full(6, np.finfo(np.float32).max, np.float32), 2)
    check(np.ldexp([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0], 1023), 1)  # no digit below 2**1020


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8", "?"])
def test_integers(dtype):
    rng = np.random.default_rng(3)
    limits = (0, 1) if dtype == "?" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = rng.integers(*limits, (30, 5), dtype="i8" if dtype == "?" else dtype, endpoint=True).astype(dtype)
    for _ in range(4):
        chunks = cuts(rng, 30), cuts(rng, 5)
        check(x, chunks, 0)
        check(x, chunks, 1, np.float64)
        check(x, chunks, None, np.float32)
        check(x, chunks, 0, np.complex64)


def test_fields_and_results_of_another_dtype():
    rng = np.random.default_rng(4)
    field = rng.standard_normal((60, 20, 30))
    check(field, ((7, 20, 0, 33), (20,), (11, 19)), 0)
    check(field.astype("f4"), (7, 20, 30), 0, np.float64)
    check(field, (60, 7, 30), 1, np.float32)
    check(field[:, ::2].transpose(2, 0, 1), (4, 25, 10), 1)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_long_vectors(dtype):
    """Which compiled loops go through, where these are and can hold them."""
    rng = np.random.default_rng(5)
    for octaves in (1, 30) if dtype == "i8" else (1, 60):
        x = np.ldexp(rng.standard_normal(60_000), rng.integers(0, octaves, 60_000)).astype(dtype)
        x[:7000] = -0.0
        for values in (x, -x, np.where(np.arange(len(x)) == 30_000, x.dtype.type(0), x)):
            check(values, ((5000, 20_000, 4000, 31_000),), dtype=np.float64)
            check(values.reshape(-1, 2), ((3000, 27_000), 1), 0, np.float64)
        if dtype != "i8":
            x[9000] = np.inf
            check(x, ((5000, 20_000, 4000, 31_000),), dtype=np.float64)


def test_it_is_lazy_and_bad_arguments_are_refused():
    def fail(block):
        raise AssertionError("computed")

    x = da.map_blocks(fail, da.zeros((4, 4), chunks=2), dtype=float, meta=np.zeros((0, 0)))
    lazy = ozaki.cumsum(x, axis=1)
    assert lazy.name == ozaki.cumsum(x, axis=1).name
    assert lazy.name != ozaki.cumsum(x, axis=0).name
    assert lazy.chunks == x.chunks
    with pytest.raises(AssertionError, match="computed"):
        lazy.compute()
    ones = da.ones((4, 4), chunks=2)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        ozaki.cumsum(ones[ones[:, 0] > 0], axis=0)
    with pytest.raises(ValueError, match="out of bounds"):
        ozaki.cumsum(ones, axis=2)
    with pytest.raises(TypeError, match="out must be None"):
        ozaki.cumsum(ones, axis=0, out=np.ones((4, 4)))
    with pytest.raises(TypeError, match="complex"):
        ozaki.cumsum(ones * 1j, axis=0, dtype=float)
    with pytest.raises(TypeError, match="longdouble"):
        ozaki.cumsum(ones.astype(np.longdouble), axis=0)


def test_merges_are_few_and_in_few_steps():
    n = 100
    lazy = ozaki.cumsum(da.ones(n, chunks=1))
    (starts,) = (layer for name, layer in lazy.dask.layers.items() if name.startswith("ozaki-cumsum-starts"))
    graph = dict(starts)
    depths = {}

    def depth(key):
        if key not in depths:
            parts = graph[key][1] if graph.get(key) else []
            depths[key] = 1 + max(map(depth, parts)) if parts else 0
        return depths[key]

    assert len(graph) <= 2 * n
    assert max(map(depth, graph)) <= 2 * np.log2(n)
