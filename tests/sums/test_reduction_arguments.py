"""What sums take and give: dtypes, byte order, empty arrays, `out`, NaN and subnormals, on CPU and GPU."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from tests.oracle import nearest

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
QUIET = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}
"""The canonical NaN."""

REDUCTIONS = {
    "sum": ozaki.sum,
    "mean": ozaki.mean,
    "norm": ozaki.norm,
    "dot": lambda x, **options: ozaki.dot(x, x, **options),
}
CALLS = REDUCTIONS | {
    "vdot": lambda x, axis=None, **options: ozaki.vdot(x, x, **options),
    "cumsum": ozaki.cumsum,
}


def bits(x) -> bytes:
    return np.asarray(x).tobytes()


def patterns(x) -> set[int]:
    """The bit patterns of the real and imaginary parts."""
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    unsigned = np.dtype(f"u{parts[0].dtype.itemsize}")
    return {int(v) for part in parts for v in np.ascontiguousarray(part).view(unsigned).ravel()}


# out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16], ids=str)
def test_out_is_rounded_to_once(dtype):
    """1 + u + u² lies above a midpoint of the narrow format, and falls on it in float64."""
    u = np.finfo(dtype).eps / 2 if dtype != BFLOAT16 else 2.0**-8
    x = np.array([1.0, u, 2.0**-60])
    above = np.asarray(1 + 2 * u).astype(dtype)
    out = np.zeros((), dtype)
    assert ozaki.sum(x, out=out) is out
    assert bits(out) == bits(above)
    for name, given in (("mean", 3 * x), ("dot", x)):
        out[...] = 0
        arguments = (given,) if name == "mean" else (given, np.ones(3))
        getattr(ozaki, name)(*arguments, out=out)
        assert bits(out) == bits(above), name
    running = np.zeros(3, dtype)
    ozaki.cumsum(x, out=running)
    assert bits(running[2]) == bits(above)
    ozaki.sum(x, dtype=np.float64, out=out)
    assert bits(out) == bits(above)


def test_out_of_integers_is_their_exact_sum_rounded():
    x = np.array([2**62, 2**62, 2**62, 1], np.int64)
    out = np.zeros(())
    ozaki.sum(x, out=out)
    assert out == nearest(Fraction(3 * 2**62 + 1))
    wide = np.zeros((), np.int64)
    ozaki.sum(np.full(300, 100, np.int8), out=wide)
    assert wide == 30_000


def test_wider_out_holds_more():
    x = np.array([1, 2.0**-24, 2.0**-30], np.float32)
    out = np.zeros(())
    assert ozaki.sum(x, out=out) == 1 + 2.0**-24 + 2.0**-30
    z = np.zeros((), np.complex128)
    ozaki.sum(x, out=z)
    assert z == 1 + 2.0**-24 + 2.0**-30


BAD_OUT = {
    "a list": (lambda shape: [0.0], TypeError),
    "a number": (lambda shape: 0.0, TypeError),
    "integers": (lambda shape: np.full(shape, 7), TypeError),
    "booleans": (lambda shape: np.full(shape, True), TypeError),
    "longdouble": (lambda shape: np.full(shape, 7, np.longdouble), TypeError),
    "text": (lambda shape: np.full(shape, "7"), TypeError),
    "masked": (lambda shape: np.ma.masked_all(shape), TypeError),
    "another shape": (lambda shape: np.full((*shape, 1), 7.0), ValueError),
    "a broadcast shape": (lambda shape: np.full((2, *shape), 7.0), ValueError),
    "read-only": (lambda shape: np.broadcast_to(7.0, shape), ValueError),
}


@pytest.mark.parametrize("kind", BAD_OUT)
@pytest.mark.parametrize("name", CALLS)
def test_out_that_does_not_fit_is_refused_and_untouched(name, kind):
    make, error = BAD_OUT[kind]
    for x in (np.ones(3), np.ones((4, 3)), np.ones(0), np.ones((0, 3)), np.ones(3, np.float32)):
        shape = x.shape if name == "cumsum" else () if name == "vdot" else x.shape[:-1]
        out = make(shape)
        before = np.asarray(out).copy()
        with pytest.raises(error, match="out"):
            CALLS[name](x, axis=-1, out=out)
        assert bits(out) == bits(before)


@pytest.mark.parametrize("name", ["sum", "dot", "vdot", "cumsum"])
def test_out_of_integer_sums_is_checked_as_well(name):
    x = np.arange(6).reshape(2, 3)
    shape = x.shape if name == "cumsum" else () if name == "vdot" else (2,)
    for out, error in (
        ([0], TypeError),
        (np.zeros(shape, np.uint64), TypeError),
        (np.zeros(shape, bool), TypeError),
        (np.zeros((3, *shape), np.int64), ValueError),
    ):
        with pytest.raises(error, match="out"):
            CALLS[name](x, axis=1, out=out)
    out = np.zeros(shape, np.int64)
    assert CALLS[name](x, axis=1, out=out) is out
    assert np.array_equal(out, CALLS[name](x, axis=1))


def test_complex_results_need_complex_out():
    z = np.ones(3, complex)
    for name, call in CALLS.items():
        out = np.zeros(3 if name == "cumsum" else ())
        if name == "norm":
            assert call(z, out=out) == np.sqrt(3)
            wide = np.full((), np.nan + 1j)
            assert call(z, out=wide) is wide
            assert wide == np.sqrt(3)
            continue
        with pytest.raises(TypeError, match="out"):
            call(z, out=out)
    with pytest.raises(TypeError, match="complex"):
        ozaki.cumsum(z, dtype=float)
    with pytest.raises(TypeError, match="complex"):
        ozaki.ExactSum(complex).add(z).round(float)


def test_out_of_foreign_byte_order_and_of_any_layout():
    x = np.arange(12.0).reshape(3, 4)
    out = np.zeros(3, ">f8")
    assert ozaki.sum(x, axis=1, out=out).tolist() == [6, 22, 38]
    strided = np.zeros(6)[::2]
    assert ozaki.sum(x, axis=1, out=strided).tolist() == [6, 22, 38]
    running = np.zeros((4, 3)).T
    assert np.array_equal(ozaki.cumsum(x, axis=1, out=running), np.cumsum(x, axis=1))
    assert np.array_equal(ozaki.cumsum(x, axis=1, out=x), np.cumsum(np.arange(12.0).reshape(3, 4), axis=1))


# dtypes ---------------------------------------------------------------------------------------------


def test_integer_products_are_computed_in_the_dtype_asked_for():
    x = np.array([2**20, 3], np.int32)
    for function in (ozaki.dot, ozaki.vdot):
        assert function(x, x, dtype=np.int64) == 2**40 + 9
        assert function(x, x, dtype=np.int64).dtype == np.int64
        assert function(x, x).dtype == np.int32
        assert function(x, x, out=np.zeros((), np.int64)) == 2**40 + 9
    assert ozaki.dot(np.array([200], np.uint8), np.array([200], np.uint8), dtype=np.uint16) == 40_000


@pytest.mark.parametrize("name", CALLS)
def test_floating_point_has_no_integer_sum(name):
    with pytest.raises(TypeError, match="dtype"):
        CALLS[name](np.array([1.5, 2.5]), dtype=np.int64)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [">f8", ">f4", ">f2", ">c16", ">c8", ">i8"])
def test_byte_swapped_input_counts_as_native(name, dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    native = x.astype(x.dtype.newbyteorder("="))
    swapped, expected = CALLS[name](x, axis=1), CALLS[name](native, axis=1)
    assert swapped.dtype == expected.dtype
    assert swapped.dtype.isnative
    assert bits(swapped) == bits(expected)


def test_byte_swapped_input_of_the_rest():
    x = np.array([1e16, 1.0, -1e16], ">f8")
    assert ozaki.ExactSum().add(x).add_products(x, x).fractions() == [1 + 2 * 10**32 + 1]
    assert ozaki.near_sum(x) == ozaki.acc_sum(x) == ozaki.sum_k(x, 2) == 1
    assert ozaki.ExactSum(">f8").add(x) == ozaki.ExactSum().add(x)
    assert ozaki.ExactSum().add(x).round(">f4") == 1
    assert ozaki.sum(x, dtype=">f4") == 1


@pytest.mark.parametrize("name", [*CALLS, "near_sum", "acc_sum", "sum_k", "ExactSum"])
def test_longdouble_is_refused_with_what_to_do(name):
    if np.finfo(np.longdouble).nmant == 52:
        pytest.skip("longdouble is float64 here")
    x = np.ones(3, np.longdouble)
    call = CALLS.get(name) or (ozaki.ExactSum().add if name == "ExactSum" else getattr(ozaki, name))
    with pytest.raises(TypeError, match=r"astype\("):
        call(x)
    with pytest.raises(TypeError, match=r"astype\("):
        ozaki.sum(np.ones(3), dtype=np.longdouble)


@pytest.mark.parametrize("name", ["near_sum", "acc_sum", "sum_k"])
def test_textbook_sums_drop_nothing_in_silence(name):
    function = getattr(ozaki, name)
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for bad in (np.array([1 + 2j]), masked, np.array([2**53 + 1, 1]), np.array(["1"]), [1, None]):
        with pytest.raises(TypeError, match="p"):
            function(bad)
    assert function(np.array([2**53, -(2**53), 3])) == 3
    assert function([1.5, 2]) == 3.5
    assert function(np.array([1, 2], np.float32)) == 3


def test_negative_zero_of_the_textbook_sums():
    for values in ([-0.0], [-0.0, -0.0], [-0.0, 0.0], [1.0, -1.0], [0.0], []):
        p = np.array(values)
        assert bits(ozaki.near_sum(p)) == bits(ozaki.acc_sum(p)) == bits(float(ozaki.sum(p))), values


def test_shapes_of_an_accumulator():
    for shape in (np.int64(3), (np.int32(3),), [3], 3):
        total = ozaki.ExactSum(shape=shape).add(np.ones((2, 3)))
        assert total.shape == (3,)
        assert total.round().tolist() == [2, 2, 2]
        assert ozaki.ExactSum.from_bytes(total.to_bytes(), shape=shape) == total
    with pytest.raises(TypeError):
        ozaki.ExactSum(shape=2.5)


# NaN ------------------------------------------------------------------------------------------------


def payloads(dtype) -> np.ndarray:
    """NaNs of either sign, with payloads, quiet and signalling."""
    dtype = np.dtype(dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    quiet, sign = QUIET[dtype.name], 1 << (8 * dtype.itemsize - 1)
    infinity = quiet & ~(quiet & -quiet)
    found = [quiet, quiet | sign, quiet + 3, infinity + 1, infinity + 1 + sign]
    return np.array(found, unsigned).view(dtype)


def nan_results(dtype, array=np.asarray):
    """The results of every function that NaNs enter, or Inf − Inf makes."""
    for values in (*payloads(dtype)[:, None], np.array([np.inf, -np.inf], dtype)):
        x = array(np.concatenate([values, np.ones(2, dtype)]))
        for name, call in CALLS.items():
            if name in ("sum", "mean", "cumsum") or np.isnan(values[0]):
                yield name, call(x)[-1:] if name == "cumsum" else call(x)
        y = array(np.tile(np.asarray(values.tolist() + [1.0], dtype)[:, None], (1, 700)))
        yield "sum over axis 0", ozaki.sum(y, axis=0)
    yield "mean of nothing", ozaki.mean(array(np.zeros(0, dtype)))


@pytest.mark.parametrize("dtype", QUIET)
def test_nan_is_one_bit_pattern(dtype):
    with np.errstate(invalid="ignore"):
        for name, result in nan_results(dtype):
            assert patterns(np.asarray(result)) == {QUIET[dtype]}, name
    if dtype == "float64":
        assert patterns(np.float64(ozaki.sum_k(np.array([np.inf, -np.inf])))) == {QUIET[dtype]}
        assert patterns(ozaki.mean(np.zeros(0, complex))) == {QUIET[dtype]}
        assert patterns(ozaki.ExactSum().add(payloads(dtype)).round()) == {QUIET[dtype]}


# fingerprints ---------------------------------------------------------------------------------------


def test_fingerprints_tell_shapes_apart():
    shapes = [(), (1,), (1, 1), (0,), (0, 1), (1, 0)]
    found = {ozaki.fingerprint(np.ones(shape)) for shape in shapes}
    assert len(found) == len(shapes)


def test_fingerprints_and_nan():
    nan = np.nan
    assert ozaki.fingerprint(np.array([complex(nan, 1)])) != ozaki.fingerprint(np.array([complex(nan, 2)]))
    assert ozaki.fingerprint(np.array([complex(nan, 1)])) != ozaki.fingerprint(np.array([complex(1, nan)]))
    assert ozaki.fingerprint(np.array([0.0])) != ozaki.fingerprint(np.array([-0.0]))
    for dtype in QUIET:
        assert len({ozaki.fingerprint(payloads(dtype)[i : i + 1]) for i in range(5)}) == 1, dtype
    parts = [complex(a, b) for a in (nan, -nan) for b in (nan, -nan)]
    assert len({ozaki.fingerprint(np.array([z])) for z in parts}) == 1


def test_fingerprints_of_ordinary_arrays_stay():
    """As version 0.1 printed them."""
    x = np.arange(6.0).reshape(2, 3)
    known = {
        "float64": "617179d9af610191",
        "float32": "b4390a726c525473",
        "float16": "cbffaef8c8f0a2b2",
        "bfloat16": "57f473c35c973c8d",
        "complex128": "a818a5147779285f",
        "int64": "654fa5fc52a039d7",
        "bool": "ea5e4c7852dce6da",
    }
    for dtype, expected in known.items():
        values = (x - 1j * x).astype(dtype) if dtype == "complex128" else x.astype(dtype)
        assert ozaki.fingerprint(values) == expected, dtype
        assert ozaki.fingerprint(np.asfortranarray(values)) == expected
        assert ozaki.fingerprint(values.astype(values.dtype.newbyteorder(">"))) == expected
    assert ozaki.fingerprint(np.array([1, np.nan])) == "3a47d7fd74386fc8"


def test_fingerprints_of_longdouble_are_refused():
    with pytest.raises(TypeError, match="longdouble"):
        ozaki.fingerprint(np.ones(2, np.longdouble))


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp32"])
def test_short_sums_are_rounded_once(name):
    """Not by way of float32: 1 + 2**-8 + 2**-40 is next to a tie of bfloat16, and no tie."""
    rng, fmt = np.random.default_rng(4), FORMATS[name]
    ulp = 2.0 ** (1 - fmt.precision)
    for _ in range(300):
        tie = 1 + ulp * rng.integers(2 ** (fmt.precision - 1)), ulp / 2
        low = rng.integers(26, 60) if name == "bf16" else rng.integers(12, 24)
        x = np.array([*tie, rng.choice([-1, 1]) * 2.0**-low]).astype(fmt.dtype)
        exact = sum(Fraction(float(v)) for v in x)
        assert float(ozaki.sum(x)) == nearest(exact, fmt)


@pytest.mark.parametrize("of_out", [BFLOAT16, np.float16, np.float32, np.complex64], ids=str)
@pytest.mark.parametrize("of_x", [BFLOAT16, np.float16, np.complex64, np.int8], ids=str)
@pytest.mark.parametrize("name", [*CALLS, "var", "nansum", "nanmean"])
def test_out_and_dtype_follow_one_rule(name, of_x, of_out):
    """NumPy itself says that bfloat16 holds complex numbers, and that float16 does not hold bfloat16."""
    call = CALLS.get(name) or getattr(ozaki, name)
    x = np.array([1, 2 + 5j]).astype(of_x) if of_x == np.complex64 else np.array([1, 2]).astype(of_x)
    out, is_real = np.zeros(2 if name == "cumsum" else (), of_out), name in ("norm", "var")
    if x.dtype.kind == "c" and out.dtype.kind != "c" and not is_real:
        for options in ({"dtype": of_out}, {"out": out}):
            with pytest.raises(TypeError, match="dtype must be complex for a complex result"):
                call(x, **options)
        assert not out.any()
        return
    assert call(x, out=out) is out
    expected = call(x, dtype=out.real.dtype if is_real else of_out)
    assert bits(out.real if is_real else out) == bits(expected)


def test_dots_and_norms_that_numpy_means_otherwise_are_refused():
    x = np.arange(12.0).reshape(3, 4)
    da = pytest.importorskip("dask.array")
    for a in (x, da.from_array(x)):
        for one, other in ((a, a.T), (a[0], a.T), (a[:, 0], a), (a[None], a.T), (2.0, a[0]), (a[0], a[0, 0])):
            with pytest.raises(ValueError, match=r"use ozaki\.matmul"):
                ozaki.dot(one, other)
        with pytest.raises(ValueError, match="axis=1"):
            ozaki.norm(a, 1)
        with pytest.raises(ValueError, match="got 2 over 2"):
            ozaki.norm(a, 2)
        with pytest.raises(ValueError, match="got 'fro' over 1"):
            ozaki.norm(a, "fro", axis=0)
    assert ozaki.dot(x, x).tolist() == ozaki.dot(x, x, axis=-1).tolist() == np.vecdot(x, x).tolist()
    assert ozaki.dot(x, x[0]).tolist() == np.dot(x, x[0]).tolist()
    assert ozaki.dot(x @ x.T, x @ x.T, axis=-1).shape == (3,)
    assert ozaki.norm(x, "fro") == ozaki.norm(x) == ozaki.norm(x.ravel(), 2)
    assert ozaki.norm(x, 2, axis=1).tolist() == ozaki.norm(x, axis=1).tolist()
