"""Reductions of Dask arrays: lazy, and the bits of the function on the whole array for any chunks."""

import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ozaki
from ozaki.public import PUBLIC
from tests.cells import cells
from tests.fuzz.draw import difference
from tests.oracle import nearest
from tests.reductions import ONE_ARRAY

da = pytest.importorskip("dask.array")

import dask  # noqa: E402

import ozaki.dask  # noqa: E402

pytestmark = pytest.mark.usefixtures("dask_in_this_thread")

DTYPES = [np.dtype(t) for t in ("f2", ml_dtypes.bfloat16, "f4", "f8", "c8", "c16", ">f8", "i4", "u8", "?")]
SHAPE = 14, 4, 3
CHUNKS = [(9, 1, 1), (5, 3, 2), ((13, 1), (1, 3), (3,)), ((0, 14), (2, 0, 2), (2, 1, 0))]


def numbers(dtype, shape=SHAPE, seed=0):
    """Numbers whose sum depends on the order, with an Inf, a NaN and a column of −0."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "iub":
        low, high = (0, 2) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return rng.integers(low, high, shape, "u8" if low == 0 else "i8", endpoint=dtype.kind != "b").astype(
            dtype
        )
    spread = 400 if dtype.itemsize == 8 * (1 + (dtype.kind == "c")) else 8
    x = np.ldexp(rng.standard_normal(shape), rng.integers(-spread, spread, shape))
    x = (x * (1 + 2j) * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)
    x[..., 2, 1], x[..., 3, 2] = np.nan, -0.0
    if len(shape) == 3:
        x[1, 2, 0], x[2, 2, 2], x[3, 2, 2], x[4, 0, 0] = np.nan, np.inf, -np.inf, np.inf
    return x


def check(lazy, expected):
    """A Dask array computes to the bits of `expected`, and knew the dtype and the shape."""
    assert isinstance(lazy, da.Array)
    assert (lazy.dtype, lazy.shape) == (expected.dtype, expected.shape)
    assert lazy._meta.dtype == expected.dtype
    assert lazy._meta.ndim == expected.ndim
    found = lazy.compute()
    assert (np.asarray(found).dtype, np.shape(found)) == (expected.dtype, expected.shape)
    assert difference(np.asarray(found), np.asarray(expected)) is None


@cells(share=3, name=ONE_ARRAY, dtype=DTYPES)
def test_the_bits_of_the_whole(name, dtype):
    x, function = numbers(dtype), getattr(ozaki, name)
    axes = (None, 0, (0, 2), -1, (2, 1), ())
    for i, chunks in enumerate(CHUNKS, start=len(str(dtype) + name)):
        lazy, axis, keepdims = da.from_array(x, chunks=chunks), axes[i % 6], bool(i % 2)
        check(function(lazy, axis=axis, keepdims=keepdims), function(x, axis=axis, keepdims=keepdims))
    check(getattr(ozaki.dask, name)(lazy, axis=0, split_every=2), function(x, axis=0))


@pytest.mark.parametrize(
    ("one", "other"), [("f8", "f8"), ("f4", "f8"), ("c8", "f2"), ("c16", "c16"), ("i4", "f4"), ("i4", "u8")]
)
def test_dot_products(one, other):
    x, y = numbers(np.dtype(one)), numbers(np.dtype(other), SHAPE[1:], 1)
    for chunks in CHUNKS[1:3]:
        for axis in (0, 1, -1):
            lazy = ozaki.dot(da.from_array(x, chunks=chunks), da.from_array(y, chunks=(2, 3)), axis=axis)
            check(lazy, ozaki.dot(x, y, axis=axis))
    check(ozaki.dot(da.from_array(x, chunks=3), y, keepdims=True), ozaki.dot(x, y, keepdims=True))
    check(ozaki.dot(y, da.from_array(x, chunks=3)), ozaki.dot(y, x))
    z = numbers(np.dtype(other), SHAPE, 2).reshape(SHAPE[::-1])
    for chunks in CHUNKS[:2]:
        check(ozaki.vdot(da.from_array(x, chunks=chunks), z), np.asarray(ozaki.vdot(x, z)))
        check(
            ozaki.vdot(x, da.from_array(x, chunks=chunks), dtype="c8"),
            np.asarray(ozaki.vdot(x, x, dtype="c8")),
        )


@cells(dtype=["f8", "f4", "c16", "i4"])
def test_weighted_means(dtype):
    x, like = numbers(np.dtype(dtype)), np.random.default_rng(1).random(SHAPE)
    for chunks in CHUNKS:
        lazy = da.from_array(x, chunks=chunks)
        for axis in (None, 1, (0, 2)):
            check(ozaki.average(lazy, axis, like), ozaki.average(x, axis, like))
        check(
            ozaki.average(lazy, 2, like[0, 0], keepdims=True), ozaki.average(x, 2, like[0, 0], keepdims=True)
        )
    check(ozaki.average(x, 0, da.from_array(like, chunks=2)), ozaki.average(x, 0, like))
    with pytest.raises(
        ValueError, match="Shape of weights must be consistent with shape of a along specified axis"
    ):
        ozaki.average(lazy, 0, like[0])


def test_sums_are_nearest_the_exact_ones():
    x = np.ldexp(
        *(np.random.default_rng(2).standard_normal(3000), np.random.default_rng(3).integers(-900, 900, 3000))
    )
    exact = sum(map(Fraction, x.tolist()), Fraction(0))
    squares = sum((Fraction(v) ** 2 for v in x[:300].tolist()), Fraction(0))
    for chunks in (1000, 7, (1, 2999)):
        lazy = da.from_array(x, chunks=chunks if isinstance(chunks, int) else (chunks,))
        assert ozaki.sum(lazy).compute() == nearest(exact)
        assert ozaki.mean(lazy).compute() == nearest(exact / 3000)
        assert ozaki.dot(lazy[:300], lazy[:300]).compute() == nearest(squares)


@pytest.mark.parametrize("dtype", ["f4", "f2", "c8"])
def test_results_are_rounded_once_to_another_dtype(dtype):
    x = np.array([[1.0, 2.0**-24, 2.0**-60], [1.0, 2.0**-11, 2.0**-70]])
    for name in ("sum", "mean", "nansum", "nanmean") + (() if dtype == "c8" else ("var", "norm")):
        function = getattr(ozaki, name)
        check(function(da.from_array(x, chunks=1), axis=1, dtype=dtype), function(x, axis=1, dtype=dtype))


def test_ddof_and_empty_arrays():
    zeros = np.array([np.nan, -0.0])
    check(ozaki.nanmean(da.from_array(zeros, chunks=1)), ozaki.nanmean(zeros))
    x = numbers(np.dtype("f8"))[:3]
    for ddof in (1, 2.5, 3, 4):
        for name in ("var", "std", "nanvar", "nanstd"):
            function = getattr(ozaki, name)
            check(function(da.from_array(x, chunks=2), axis=0, ddof=ddof), function(x, axis=0, ddof=ddof))
    for shape in ((0,), (0, 3), (3, 0), ()):
        for dtype in ("f8", "c8"):
            empty = np.zeros(shape, dtype)
            for name in ONE_ARRAY:
                function = getattr(ozaki, name)
                for axis in (None, *range(len(shape))):
                    check(function(da.from_array(empty), axis=axis), np.asarray(function(empty, axis=axis)))


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise AssertionError("computed")

    lazy = da.map_blocks(fail, da.zeros((4, 4), chunks=2), dtype=float, meta=np.zeros((0, 0)))
    for name in ONE_ARRAY:
        result = getattr(ozaki, name)(lazy, axis=0)
        assert any(key.startswith(f"ozaki-{name}") for key in result.dask.layers)
        again = getattr(ozaki, name)(lazy, axis=0)
        assert again.name == result.name  # as Dask's own, so that work is shared
    with pytest.raises(AssertionError, match="computed"):
        ozaki.sum(lazy).compute()


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("c16"), np.dtype("i4")])
def test_chunks_of_unknown_sizes_along_reduced_axes(dtype):
    """As boolean indexing leaves them, some of them empty."""
    x, chosen = numbers(dtype), np.array([1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1], bool)
    lazy = da.from_array(x, chunks=(3, 2, 2))[da.from_array(chosen, chunks=3)]
    for name in (n for n in ONE_ARRAY if n != "norm"):
        for axis in (0, None, (0, 2)):
            check(getattr(ozaki, name)(lazy, axis=axis), getattr(ozaki, name)(x[chosen], axis=axis))
    assert ozaki.norm(lazy, axis=0).compute().tobytes() == ozaki.norm(x[chosen], axis=0).tobytes()


def test_bad_arguments_are_refused_at_once():
    x = da.ones((6, 4), chunks=2)
    unknown = x[x[:, 0] > 0]
    for options in ({"axis": 1}, {"where": np.ones((6, 1), bool)}):
        with pytest.raises(ValueError, match=r"x has chunks of unknown sizes; call x.compute_chunk_sizes"):
            ozaki.sum(unknown, **options)
    with pytest.raises(ValueError, match=r"y.compute_chunk_sizes"):
        ozaki.dot(x, unknown)
    check(ozaki.sum(unknown.compute_chunk_sizes()), np.float64(24))
    for name in ONE_ARRAY:
        function = getattr(ozaki, name)
        with pytest.raises(TypeError, match="out must be None"):
            function(x, out=np.zeros(()))
        with pytest.raises(ValueError, match="axis 2"):
            function(x, axis=2)
        with pytest.raises(TypeError, match="numeric"):
            function(da.from_array(np.array(["a"])))
        with pytest.raises(TypeError, match="longdouble"):
            function(x.astype(np.longdouble))
    with pytest.raises(TypeError, match="complex"):
        ozaki.sum(x.astype(complex), dtype=float)
    with pytest.raises(TypeError, match="real"):
        ozaki.norm(x, dtype=complex)
    with pytest.raises(TypeError, match="ddof"):
        ozaki.var(x, ddof="1")
    with pytest.raises(ValueError, match="broadcast"):
        ozaki.dot(x, da.ones(3))
    with pytest.raises(ValueError, match="as many elements, got 24 and 3"):
        ozaki.vdot(x, da.ones(3))
    with pytest.raises(ValueError, match=r"y.compute_chunk_sizes"):
        ozaki.vdot(x, x[x[:, 0] > 0])
    with pytest.raises(TypeError, match="lazy"):
        ozaki.near_sum(x)


def test_split_every_of_any_size():
    x = da.ones((6, 4), chunks=1)
    for split_every in (2, 2**70, {0: 2**70, 1: 3}):
        assert ozaki.dask.sum(x, split_every=split_every).compute() == 24
    assert ozaki.dask.matmul(x, x.T, split_every=2**70).compute().sum() == 144
    for split_every, error in ((1, ValueError), ({0: 0}, ValueError), (2.5, TypeError), ("2", TypeError)):
        for call in (ozaki.dask.var, lambda x, **options: ozaki.dask.matmul(x, x.T, **options)):
            with pytest.raises(error, match="split_every"):
                call(x, split_every=split_every)


def sparse(block):
    return pytest.importorskip("scipy.sparse").csr_array(np.atleast_2d(block))


CHUNK_KINDS = {
    "masked": lambda block: np.ma.masked_equal(block, block.flat[0]),
    "lazy": lambda block: da.ones(block.shape),
    "sparse": sparse,
    "longdouble": lambda block: block.astype(np.longdouble),
    "says": lambda block: block.astype(np.complex128),
}
"""What turns chunks into some that are not what their Dask array says, by a word of the error."""

FUNCTIONS = {
    **{name: getattr(ozaki, name) for name in (*ONE_ARRAY, "cumsum")},
    "dot": lambda x: ozaki.dot(np.ones((4, 6)), x),
    "vdot": lambda x: ozaki.vdot(x, np.ones((4, 6))),
    "matmul": lambda x: ozaki.matmul(x.T, da.ones((4, 3), chunks=3)),
    "exact product": lambda x: ozaki.matmul(np.ones((3, 4)), x, accuracy="exact"),
}


@pytest.mark.parametrize("kind", CHUNK_KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_chunks_are_checked_as_whole_arrays_are(kind, dtype):
    x = da.ones((4, 6), chunks=(2, 3), dtype=dtype)
    lazy = x.map_blocks(CHUNK_KINDS[kind], dtype=dtype, meta=np.ones((0, 0), dtype))
    for function in FUNCTIONS.values():
        with pytest.raises(TypeError, match=kind):
            function(lazy).compute()


def test_wider_chunks_are_not_rounded_and_narrower_ones_are_computed():
    x = np.arange(24.0).reshape(4, 6)
    for made, said, fits in (
        ("f8", "f4", False),
        ("i8", "i4", False),
        ("f4", "f8", True),
        ("i2", "f4", True),
    ):
        lazy = da.from_array(x.astype(made), chunks=(2, 3))
        lazy = lazy.map_blocks(np.copy, dtype=said, meta=np.ones((0, 0), said))
        for name, function in FUNCTIONS.items():
            if fits:
                assert function(lazy).compute().tobytes() == np.asarray(function(x.astype(said))).tobytes(), (
                    name
                )
            else:
                with pytest.raises(TypeError, match=f"{np.dtype(made)}.*says {np.dtype(said)}"):
                    function(lazy).compute()


@pytest.mark.filterwarnings("error::dask.array.PerformanceWarning")
def test_empty_chunks_everywhere():
    x = np.random.default_rng(4).standard_normal((4, 6))
    for chunks in (((0, 4), (6, 0)), ((1, 0, 3), (0, 2, 0, 4)), ((4,), (0, 1, 5))):
        for function in FUNCTIONS.values():
            check(function(da.from_array(x, chunks=chunks)), np.asarray(function(x)))
    column = da.from_array(x[:, :1], chunks=((0, 4), (0, 1)))
    for axis in (0, 1):
        check(ozaki.dot(column, da.from_array(x, chunks=1), axis=axis), ozaki.dot(x[:, :1], x, axis=axis))


def test_a_task_without_memory_is_named():
    """As no machine has memory for so many means."""
    columns = 2**45
    chunk = np.broadcast_to(1.0, (3, columns))
    x = da.Array({("x", i, 0): chunk for i in range(2)}, "x", ((3, 3), (columns,)), meta=np.empty((0, 0)))
    with pytest.raises(MemoryError, match=rf"ozaki.dask.mean .*\(3, {columns}\).*smaller chunks.* TiB"):
        ozaki.mean(x, axis=0).compute()


def test_the_state_between_tasks_is_small():
    x = da.random.default_rng(0).standard_normal((64, 50, 50), chunks=(8, 50, 50))
    lazy = ozaki.sum(x, axis=0)
    ((totals, count),) = dask.get(
        lazy.dask, [next(k for k in lazy.dask if str(k[0]).startswith("ozaki-sum-"))]
    )
    assert count == 8
    assert totals[0].__sizeof__() <= 64 * 2500


def test_dask_is_imported_only_for_its_arrays():
    code = "import sys, ozaki; ozaki.sum([1.0]); assert not {'dask', 'dask.array'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_functions_of_arrays_know_those_of_dask_arrays():
    assert set(ozaki.dask.__all__) == {name for name, record in PUBLIC.items() if record.dask}
    assert all(getattr(ozaki.dask, name).__name__ == name for name in ozaki.dask.__all__)


def test_chunks_of_real_numbers_in_an_array_of_complex_ones():
    x = np.ones((6, 4), complex)
    x[3:] += 1j
    real = lambda chunk: chunk if chunk.imag.any() else chunk.real.copy()  # noqa: E731
    lazy = da.from_array(x, chunks=(3, 2)).map_blocks(real, dtype=complex, meta=np.empty((0, 0), complex))
    for name in ("sum", "mean", "var", "nansum", "cumsum", "norm"):
        function = getattr(ozaki, name)
        assert np.array_equal(function(lazy, axis=0).compute(), function(x, axis=0)), name


def test_what_sums_of_dask_arrays_do_not_take_is_said_to_be_for_others():
    x = da.ones(6, chunks=3)
    with pytest.raises(TypeError, match=r"sum takes initial for dense arrays in memory alone.* x, axis"):
        ozaki.sum(x, initial=1.0)
    for option in ("words", "out"):
        with pytest.raises(
            TypeError, match=f"matmul takes {option} for dense arrays in memory alone.* a, b, acc"
        ):
            ozaki.matmul(x, x, **{option: 7})
    with pytest.raises(TypeError, match="axis must be an integer"):
        ozaki.cumsum(x, axis=1.0)
