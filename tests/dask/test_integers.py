"""Products of integers of Dask arrays against Python's integers, for any chunks."""

import re

import numpy as np
import pytest

import ozaki
from tests.cells import cells
from tests.dask.test_products import CHUNKS
from tests.test_integers import exact, integers

da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("dask_in_this_thread")

PAIRS = [(np.int64, np.int64), (np.uint64, np.int64), (np.uint64, np.uint64), (np.int8, bool)]


def check(a, b, chunks, want, **options):
    """In chunks, with the dtype, the shape and the chunks that are said."""
    x, y = da.from_array(a, chunks=chunks[0]), da.from_array(b, chunks=chunks[1])
    lazy = ozaki.matmul(x, y, **options)
    whole = ozaki.matmul(a, b, **options)
    assert (lazy.dtype, lazy.shape) == (whole.dtype, np.shape(whole))
    found = lazy.compute()
    assert found.dtype == whole.dtype
    assert np.array_equal(np.asarray(found, object), np.asarray(want, object))
    return lazy


@cells(share=4, of=PAIRS, chunks=CHUNKS)
def test_products_are_those_of_integers(of, chunks):
    a, b = integers(of[0], (9, 20), 1), integers(of[1], (20, 7), 2)
    want = exact(a, b)
    for p in (2, 2**31 - 1, 2**63 - 1):
        lazy = check(a, b, chunks, want % p, mod=p)
        assert lazy.chunks == (da.from_array(a, chunks[0]).chunks[0], da.from_array(b, chunks[1]).chunks[1])
    for dtype in (np.int64, np.uint64, np.int16):
        low, modulus = int(np.iinfo(dtype).min), 1 << 8 * np.dtype(dtype).itemsize
        check(a, b, chunks, (want - low) % modulus + low, dtype=dtype, overflow="wrap")
    a, b = integers(of[0], (9, 20), 3, 0.4), integers(of[1], (20, 7), 4, 0.4)
    check(a, b, chunks, exact(a, b), dtype=np.int64)
    x, y = (da.from_array(z, chunks=2) for z in (a, b))
    assert (ozaki.matmul(x, y, dtype=np.int64, split_every=2).compute() == exact(a, b)).all()


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("beyond", [-1, 0, 1, 2**64, -(2**64), *(p * 2**64 for p in (2**63 - 1, 2**63 - 3))])
def test_the_last_integer_that_fits(dtype, beyond):
    """Sums of chunks far larger than their own, which is an end of the range, or next to it, or far away."""
    for end in (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)):
        value, big = end + beyond, 2**62 - 1
        high, low = divmod(value, 1 << 60)
        a, b = [big, -big, low, *[1 << 60] * 64], [big, big, 1, *[high // 64] * 63, high - 63 * (high // 64)]
        a, b = np.array([a]), np.array([b]).T
        assert exact(a, b)[0, 0] == value
        for chunk in (3, 67):
            lazy = ozaki.matmul(da.from_array(a, (1, chunk)), da.from_array(b, (chunk, 1)), dtype=dtype)
            if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                assert int(lazy.compute()[0, 0]) == value
            else:
                with pytest.raises(OverflowError, match=rf"\(0, 0\) of the product is {value}, which"):
                    lazy.compute()


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [((5,), (2, 5, 6)), ((3, 1, 4, 5), (2, 5, 6)), ((2, 6, 5), (5,)), ((5,), (5,)), ((4, 5), (5, 3))],
)
def test_stacks_vectors_and_the_index_of_what_does_not_fit(of_a, of_b):
    a, b = np.ones(of_a, np.int64), np.ones(of_b, np.int64)
    check(a, b, (2, 2), exact(a, b), dtype=np.int32)
    check(a, b, (3, 1), exact(a, b) % 3, mod=3)
    a[(*[-1] * (a.ndim - 1), 2)] = b[(*[-1] * (b.ndim - 2), 2, -1) if b.ndim > 1 else 2] = 2**40
    want = np.asarray(exact(a, b))
    (index,) = np.argwhere(want >= 2**63).tolist()
    message = f"element {tuple(index)} of the product is {want[tuple(index)]}, which int64"
    with pytest.raises(OverflowError, match=re.escape(message)):
        ozaki.matmul(da.from_array(a, chunks=2), da.from_array(b, chunks=3), dtype=np.int64).compute()


def test_nothing_and_narrow_results():
    empty = da.ones((2, 0), dtype=int, chunks=1), da.ones((0, 3), dtype=int, chunks=2)
    assert ozaki.matmul(*empty, dtype=np.int32).compute().tolist() == [[0] * 3] * 2
    assert ozaki.matmul(da.ones((0, 2), dtype=int), da.ones((2, 3), dtype=int), mod=5).compute().shape == (
        0,
        3,
    )
    x = da.from_array(np.array([[100, 27]]), chunks=1)
    ones = da.from_array(np.array([[1], [1]]), chunks=1)
    assert ozaki.matmul(x, ones, dtype=np.int8).compute() == 127
    with pytest.raises(OverflowError, match="is 128, which int8"):
        ozaki.matmul(x + [[0, 1]], ones, dtype=np.int8).compute()
    with pytest.raises(OverflowError, match="is -127, which uint64"):
        ozaki.matmul(-x, ones, dtype=np.uint64).compute()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": float}, TypeError, "integer dtype"),
        ({"dtype": np.int64, "mod": 5}, ValueError, "exclude"),
        ({"dtype": np.int64, "accuracy": "exact"}, ValueError, "exact"),
        ({"dtype": np.int64, "overflow": "ignore"}, ValueError, "overflow"),
        ({"overflow": "wrap"}, ValueError, "overflow"),
        ({"mod": 1}, ValueError, "mod must be at least 2"),
        ({"mod": 5, "scheme": "no"}, ValueError, "scheme"),
    ],
)
def test_options(options, error, message):
    x = da.ones((2, 2), dtype=int, chunks=1)
    with pytest.raises(error, match=message):
        ozaki.matmul(x, x, **options)


def test_only_integers_in_dense_chunks():
    x = da.ones((2, 2), dtype=int, chunks=1)
    with pytest.raises(TypeError, match=r"a must be an array of integers.*astype"):
        ozaki.matmul(da.ones((2, 2)), x, mod=5)
    with pytest.raises(ValueError, match="inner dimensions differ"):
        ozaki.matmul(x, da.ones((3, 2), dtype=int), mod=5)
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match="dense chunks"):
        ozaki.matmul(x.map_blocks(sparse.csr_matrix), x, dtype=np.int64)
