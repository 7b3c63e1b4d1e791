"""One policy for `out` in every public function: what is refused stays untouched, all else is filled."""

import inspect

import numpy as np
import pytest

import multiword
import ozaki
from ozaki.public import PUBLIC
from tests.reductions import ONE_ARRAY

A = np.array([[2.0, 1.0, 3.0], [1.0, 4.0, 2.0], [3.0, 2.0, 5.0]])
STACK = np.stack([A, 2 * A])
HALF, SINGLE = A.astype(np.float16), A.astype(np.float32)
PAIRS = multiword.HalfComplex(np.stack([HALF, HALF], axis=-1))

PRODUCTS = {
    "ozaki.accurate_dgemm": lambda out=None, on=np.asarray: ozaki.accurate_dgemm(on(A), on(A), out=out),
    "ozaki.accurate_sgemm": lambda out=None, on=np.asarray: ozaki.accurate_sgemm(on(A), on(A), out=out),
    "ozaki.accurate_zgemm": lambda out=None, on=np.asarray: ozaki.accurate_zgemm(on(A + 1j), on(A), out=out),
    "ozaki.accurate_cgemm": lambda out=None, on=np.asarray: ozaki.accurate_cgemm(on(SINGLE), on(A), out=out),
    "ozaki.matmul": lambda out=None, on=np.asarray: ozaki.matmul(on(A), on(A), out=out),
    "ozaki.matmul of stacks": lambda out=None, on=np.asarray: ozaki.matmul(on(STACK), on(A), out=out),
    "ozaki.matmul of a vector": lambda out=None, on=np.asarray: ozaki.matmul(on(A[0]), on(STACK), out=out),
    "ozaki.matmul of vectors": lambda out=None, on=np.asarray: ozaki.matmul(on(A[0]), on(A[0]), out=out),
    "ozaki.matmul of integers": lambda out=None, on=np.asarray: ozaki.matmul(
        on(STACK.astype(int)), on(A[0].astype(int)), dtype=np.int16, out=out
    ),
    "multiword.matmul": lambda out=None, on=np.asarray: multiword.matmul(on(SINGLE), on(SINGLE), out=out),
    "multiword.batched_matmul": lambda out=None, on=np.asarray: multiword.batched_matmul(
        on(HALF[None]), on(HALF), out=out
    ),
}


def _elementwise(record):
    x = A if record.name == "acosh" else A / 8  # where it has values
    return lambda out=None, on=np.asarray: record.value(*[on(x) for _ in record.arrays], out=out)


def _along_rows(record):
    return lambda out=None, on=np.asarray: record.value(on(A), axis=1, out=out)


PRODUCTS |= {f"ozaki.{n}": _elementwise(r) for n, r in PUBLIC.items() if r.heading == "Elementary functions"}
PRODUCTS |= {f"ozaki.{n}": _along_rows(r) for n, r in PUBLIC.items() if r.heading == "Functions of rows"}
"""Functions whose result is of one dtype, of `out` and of arrays on the host, or on a GPU."""


def _of_rows(name):
    function = getattr(ozaki, name)
    return lambda out=None, on=np.asarray: function(on(A), axis=1, out=out)


SUMS = {
    **{f"ozaki.{name}": _of_rows(name) for name in (*ONE_ARRAY, "cumsum", "moment", "skew", "kurtosis")},
    "ozaki.dot": lambda out=None, on=np.asarray: ozaki.dot(on(A), on(A), axis=-1, out=out),
    "ozaki.vdot": lambda out=None, on=np.asarray: ozaki.vdot(on(A), on(A), out=out),
}
"""Functions that round once to the dtype of `out`."""

CALLS = PRODUCTS | SUMS


def _read_only(x):
    x.setflags(write=False)
    return x


def _repeated(x):
    """Writeable, and one number everywhere along the last axis (or an axis too many)."""
    strides = (*x.strides[:-1], 0) if x.ndim else (0,)
    return np.lib.stride_tricks.as_strided(x, x.shape or (2,), strides)


REFUSED = {
    "a list": (lambda x: x.tolist(), TypeError),
    "a number": (lambda x: 0.0, TypeError),
    "a buffer": (lambda x: memoryview(bytearray(x.nbytes)), TypeError),
    "masked": (lambda x: np.ma.array(x), TypeError),
    "integers": (lambda x: x.real.astype(np.int64), TypeError),
    "booleans": (lambda x: x.real.astype(bool), TypeError),
    "longdouble": (lambda x: x.real.astype(np.longdouble), TypeError),
    "objects": (lambda x: x.astype(object), TypeError),
    "strings": (lambda x: x.astype("U40"), TypeError),
    "another shape": (lambda x: np.concatenate([x.reshape(-1)] * 2), ValueError),
    "an axis more": (lambda x: x[..., None], ValueError),
    "read-only": (_read_only, ValueError),
    "broadcast": (_repeated, ValueError),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_hold_the_result_is_refused_and_untouched(name, kind):
    make, error = REFUSED[kind]
    out = make(np.full_like(np.asarray(CALLS[name]()), 7))
    before = np.array(out, copy=True).tobytes()
    with pytest.raises(error, match="out"):
        CALLS[name](out)
    assert np.array(out).tobytes() == before


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_not_rounded_a_second_time(name):
    dtype = np.asarray(PRODUCTS[name]()).dtype
    for other in {np.dtype(x) for x in ("f2", "f4", "f8", "c8", "c16")} - {dtype}:
        with pytest.raises(TypeError, match="out must be"):
            PRODUCTS[name](np.zeros(PRODUCTS[name]().shape, other))


@pytest.mark.parametrize("layout", ["plain", "Fortran", "strided", "reversed", "byte-swapped", "subclass"])
@pytest.mark.parametrize("name", CALLS)
def test_any_layout_is_filled_and_returned(name, layout):
    expected = np.asarray(CALLS[name]())
    shape, dtype = expected.shape, expected.dtype
    out = {
        "plain": lambda: np.empty(shape, dtype),
        "Fortran": lambda: np.empty(shape, dtype, order="F"),
        "strided": lambda: np.empty((*shape, 2), dtype)[..., 1],
        "reversed": lambda: np.empty(shape, dtype)[..., ::-1] if shape else np.empty(shape, dtype),
        "byte-swapped": lambda: np.empty(shape, dtype.newbyteorder()),
        "subclass": lambda: np.empty(shape, dtype).view(type("Labelled", (np.ndarray,), {})),
    }[layout]()
    assert CALLS[name](out) is out
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("name", SUMS)
def test_real_results_go_into_complex_arrays(name):
    expected = SUMS[name]()
    out = np.full(np.shape(expected), np.nan + 1j)
    assert SUMS[name](out) is out
    assert np.array_equal(out, expected)


def test_integers_are_written_when_all_of_them_fit():
    x, out = np.array([[2**40, 3], [1, 1]]), np.zeros((2, 2), np.int64)
    assert ozaki.matmul(x, x, mod=7, out=out) is out
    assert out.tolist() == (x.astype(object) @ x % 7).tolist()
    with pytest.raises(OverflowError):
        ozaki.matmul(x, x, dtype=np.int64, out=out)
    assert out.tolist() == (x.astype(object) @ x % 7).tolist()
    with pytest.raises(TypeError, match="out must be int64"):
        ozaki.matmul(x, x, mod=7, out=out.astype(np.int32))


def test_half_complex_results():
    expected = multiword.batched_matmul(PAIRS, PAIRS)
    out = multiword.HalfComplex(np.zeros((3, 3, 2), np.float16))
    assert multiword.batched_matmul(PAIRS, PAIRS, out=out) is out
    assert np.array_equal(out.pairs, expected.pairs)
    for bad, error in (
        (PAIRS.pairs, TypeError),
        (A + 0j, TypeError),
        (multiword.HalfComplex(np.zeros((3, 2), np.float16)), ValueError),
        (multiword.HalfComplex(_read_only(np.zeros((3, 3, 2), np.float16))), ValueError),
    ):
        with pytest.raises(error, match="out"):
            multiword.batched_matmul(PAIRS, PAIRS, out=bad)


def test_every_function_with_an_out_is_here():
    found = set()
    for package in (ozaki, multiword):
        for name in package.__all__:
            thing = getattr(package, name)
            if inspect.isfunction(thing) and "out" in inspect.signature(thing).parameters:
                found.add(f"{package.__name__}.{name}")
    assert found == {name.partition(" ")[0] for name in CALLS}
