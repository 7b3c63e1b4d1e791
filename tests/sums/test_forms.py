"""The forms of a reduction give the same bits: for a few numbers, block by block, compiled."""

import math
import operator
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import accumulate

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ozaki
from multiword.formats import FORMATS
from ozaki.sums.exact import reduction, rows, vectors
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.summands import Summands
from tests.oracle import nearest, nearest_root
from tests.reductions import ONE_ARRAY

DTYPES = [np.dtype(d) for d in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)]
DTYPES += [np.dtype(d) for d in (np.complex64, np.complex128, np.int8, np.int64, np.uint64, bool)]
FUNCTIONS = {name: getattr(ozaki, name) for name in ONE_ARRAY}
FUNCTIONS["dot"] = lambda x, **options: ozaki.dot(x, x[::-1].copy(), **options)
FUNCTIONS["vdot"] = lambda x, axis: ozaki.vdot(x, x[::-1].copy())
FUNCTIONS["cumsum"] = lambda x, axis: ozaki.cumsum(x, axis=axis)
KINDS = ("normal", "wide", "whole range", "subnormal", "cancelling", "ties", "zeros", "special", "huge")


def drawn(seed: int, kind: str, shape, dtype, order: str) -> np.ndarray:
    """Numbers of a kind, in a layout."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "iub":
        bits = rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8)
        x = np.ascontiguousarray(bits % 2 if dtype.kind == "b" else bits).view(dtype)[..., 0]
    else:
        x = parts(rng, kind, shape)
        if dtype.kind == "c":
            x = np.stack([x, parts(rng, kind, shape)], axis=-1).view(complex)[..., 0]
        with np.errstate(all="ignore"):
            x = x.astype(dtype)
    if order == "F":
        return np.asfortranarray(x)
    if order == "strided":
        wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    return x[::-1].copy()[::-1] if order == "reversed" else x


def parts(rng, kind: str, shape) -> np.ndarray:
    x = rng.standard_normal(shape)
    if kind == "wide":
        return np.ldexp(x, rng.integers(-60, 60, shape))
    if kind == "whole range":
        return np.ldexp(x, rng.integers(-1080, 1020, shape))
    if kind == "subnormal":
        return np.ldexp(x, -rng.integers(1000, 1075, shape))
    if kind == "huge":
        return np.ldexp(x, 1020)
    if kind == "cancelling":
        return np.where(rng.integers(0, 2, shape) > 0, 1, -1) * rng.integers(0, 3, shape) / 4
    if kind == "ties":
        return rng.choice([1.0, -1.0, 2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8, 2.0**-106], shape)
    if kind == "zeros":
        return rng.choice([0.0, -0.0], shape, p=[0.02, 0.98])
    if kind == "special":
        return np.where(rng.random(shape) < 0.02, rng.choice([np.inf, -np.inf, np.nan, 0], shape), x)
    return x


def bits(x) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def call(name, x, axis):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        return bits(FUNCTIONS[name](x, axis=axis))


@given(
    st.integers(0, 2**32),
    st.sampled_from(KINDS),
    st.lists(st.one_of(st.integers(0, 9), st.just(70)), min_size=1, max_size=3),
    st.sampled_from([dtype for dtype in DTYPES if dtype.kind != "c"]),
    st.sampled_from(["C", "F", "strided", "reversed"]),
    st.data(),
)
def test_every_form_that_takes_a_sum_gives_the_bits_of_the_last(seed, kind, shape, dtype, order, data):
    x = drawn(seed, kind, shape, dtype, order)
    reduced = data.draw(st.integers(0, len(shape)))
    fmt = FORMATS[data.draw(st.sampled_from(["fp64", "fp32", "fp16", "bf16"]))]
    sums, products = Summands((x,)), Summands((x, drawn(seed + 1, kind, shape, dtype, "C")), -1)
    squares = Summands((x, x))
    count = max(1, math.prod(shape[:reduced]))
    for summands, rounding in (
        ([sums], Rounding(fmt)),
        ([sums], Rounding(fmt, count)),
        ([products, squares], Rounding(fmt)),
        ([squares], Rounding(fmt, root=True)),
        ([squares], Rounding(fmt, count, root=True)),
    ):
        *others, last = reduction.FORMS
        expected = bits(last(summands, reduced, rounding))
        for form in others:
            result = form(summands, reduced, rounding)
            assert result is None or bits(result) == expected, form


@pytest.fixture
def without_copies(monkeypatch):
    """Few numbers, too, go to the forms for many."""
    pytest.importorskip("numba")
    monkeypatch.setattr(rows, "COPIED_TERMS", 0)


as_many = pytest.mark.usefixtures("without_copies")


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
def test_few_numbers_beyond_the_range_of_out(dtype):
    """The largest float64 would be rounded up beyond float64 itself."""
    out = np.zeros((), dtype)
    for value in (np.finfo(np.float64).max, 1e300, -np.finfo(np.float64).max):
        with np.errstate(over="ignore"):
            assert float(ozaki.sum(np.array([value, 1.0]), out=out)) == np.copysign(np.inf, value)


@as_many
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**32),
    st.sampled_from(KINDS),
    st.lists(st.one_of(st.integers(0, 9), st.just(40)), min_size=1, max_size=3),
    st.sampled_from(DTYPES),
    st.sampled_from(["C", "F", "strided", "reversed"]),
    st.data(),
)
def test_compiled(without_numba, seed, kind, shape, dtype, order, data):
    x = drawn(seed, kind, shape, dtype, order)
    axes = [None, *range(len(shape))]
    axis = data.draw(st.sampled_from(axes))
    for name in FUNCTIONS:
        axis = -1 if name == "dot" and axis is None else axis
        assert call(name, x, axis) == without_numba(call, name, x, axis), name


LARGE = [((50_001,), order, 0) for order in ("C", "strided")]
LARGE += [((33_000, 3), "C", 0), ((901, 301), "C", 0), ((301, 901), "F", 0), ((7, 11, 801), "F", None)]


@as_many
@pytest.mark.parametrize("place", range(len(KINDS)), ids=KINDS)
def test_compiled_large(without_numba, place):
    """Beyond a block in either direction, and odd lengths; every kind of numbers in two of four dtypes."""
    for i in (place, place + 3):
        (shape, order, axis), dtype = (
            LARGE[i % len(LARGE)],
            (np.float64, np.float32, np.complex64, np.int64)[i % 4],
        )
        x = drawn(len(shape), KINDS[place], shape, np.dtype(dtype), order)
        for name in ("sum", "mean") if len(shape) == 2 else ("sum", "norm", "var", "dot"):
            where = -1 if name == "dot" else axis
            assert call(name, x, where) == without_numba(call, name, x, where), (name, shape)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**32),
    st.sampled_from(KINDS),
    st.sampled_from([256, 2000, 5000]),
    st.integers(-1000, 1000),
)
def test_compiled_running_sums(without_numba, seed, kind, n, scale):
    """Also where a vector's numbers grow or get smaller, and in float32, which is not rounded twice."""
    x = drawn(seed, kind, (n,), np.dtype(float), "C")
    with np.errstate(all="ignore"):
        x = np.ldexp(x, (np.arange(n) * scale) // n)
        single = x[:2000].astype(np.float32)
    for values in (x, single):
        assert call("cumsum", values, 0) == without_numba(call, "cumsum", values, 0)
    if np.isfinite(x).all() and n < 3000:
        exact = [nearest(Fraction(v, 1 << 1074)) for v in accumulate(units(x))]
        assert ozaki.cumsum(x).tolist() == exact


def units(x: np.ndarray) -> list[int]:
    """Finite numbers in units of 2**-1074."""
    ratios = (float(v).as_integer_ratio() for v in x)
    return [(numerator << 1074) // denominator for numerator, denominator in ratios]


IN_MEMORY = [(2, 1100), (3, 5, 40), (65, 9), (4, 2, 513), (6, 600), (3, 1030), (1, 70), (2, 9, 8)]


@as_many
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 2**32),
    st.sampled_from(KINDS),
    st.sampled_from(IN_MEMORY),
    st.sampled_from([np.float64, np.float32, np.complex128]),
    st.data(),
)
def test_rows_and_columns_in_memory(without_numba, seed, kind, shape, dtype, data):
    """Axes in any order, so that what is added up lies in rows, in columns, or in between."""
    order = data.draw(st.permutations(range(len(shape))))
    x = drawn(seed, kind, shape, np.dtype(dtype), "C").transpose(order)
    axis = data.draw(st.sampled_from([*range(len(shape)), (0, len(shape) - 1)]))
    for name in ("sum", "mean", "norm", "dot"):
        if name == "dot" and isinstance(axis, tuple):
            continue
        assert call(name, x, axis) == without_numba(call, name, x, axis), name


@as_many
def test_columns_are_copied_some_at_a_time(monkeypatch, without_numba):
    """Parts of complex numbers lie in no columns: they are copied side by side, and a few added up again."""
    monkeypatch.setattr(rows, "VECTOR_BLOCK", 2000)
    x = drawn(3, "normal", (70, 90), np.dtype(complex), "C")
    x[3, ::30] = np.inf
    columns = []
    enclosed = rows._enclosed
    monkeypatch.setattr(rows, "_enclosed", lambda xs, n, *rest: columns.append(n) or enclosed(xs, n, *rest))
    result = call("dot", x, 0)
    assert len(columns) > 6
    assert all(n >= rows.NARROWEST_COLUMNS for n in columns)
    assert result == without_numba(call, "dot", x, 0)


@as_many
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from(["fp64", "fp32"]), st.integers(0, 950))
def test_columns_near_midpoints(without_numba, seed, n, name, scale):
    """Few numbers of one bit or two, far apart: sums on midpoints, next to them, and zero."""
    fmt, rng = FORMATS[name], np.random.default_rng(seed)
    p = fmt.precision
    exponents = [0, -1, -p, -p - 1, 1 - p, -2 * p, -2 * p - 1, -3 * p, -4 * p, -5 * p]
    exponents = np.array([e for e in exponents if e > fmt.emin - p], float)
    x = rng.choice([1.0, -1.0, 1.0 + 2.0 ** (1 - p), 0.0], (n, 40)) * 2.0 ** rng.choice(exponents, (n, 40))
    x = (x * 2.0 ** -(scale if name == "fp64" else scale // 8)).astype(fmt.dtype)
    columns = [[Fraction(v) for v in column] for column in x.T.tolist()]
    assert ozaki.sum(x, axis=0).tolist() == [nearest(sum(c), fmt) for c in columns]
    assert ozaki.mean(x, axis=0).tolist() == [nearest(sum(c) / n, fmt) for c in columns]
    products = [
        sum(a * b for a, b in zip(c, d, strict=True)) for c, d in zip(columns, columns[::-1], strict=True)
    ]
    assert ozaki.dot(x, x[:, ::-1].copy(), axis=0).tolist() == [nearest(v, fmt) for v in products]
    for function in ("sum", "mean", "dot", "norm"):  # and signs of zeros
        assert call(function, x, 0) == without_numba(call, function, x, 0), function


@pytest.mark.parametrize("kind", ["normal", "wide", "zeros", "cancelling", "above 1"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_and_columns_are_seldom_computed_twice(kind, dtype):
    """Sums, means over a power of two, and roots. Of four numbers above 1 every other sum is a midpoint."""
    for shape in ((4, 1000), (64, 64), (1024, 20)):
        x = 1 + np.random.default_rng(1).random(shape)
        if kind != "above 1":
            x = drawn(1, kind, shape, x.dtype, "C")
        terms = Summands((x.astype(dtype),))
        squares = Summands(terms.factors * 2)
        target = FORMATS["fp64" if dtype == np.float64 else "fp32"]
        cases = [(terms, Rounding(target)), (terms, Rounding(target, shape[0]))]
        for summands, rounding in [
            *cases,
            (squares, Rounding(target)),
            (squares, Rounding(target, root=True)),
        ]:
            xs = [z.reshape(1, -1) for z in summands.factors]
            _, undecided = rows._enclosed(xs, shape[1], rounding)
            assert undecided <= 1 + shape[1] // 50, (shape, rounding)


@as_many
@pytest.mark.parametrize("near", [0, 1, -1])
@pytest.mark.parametrize("n", [2048, 5000])
def test_windows_end_where_they_should(n, near):
    """Numbers at the edges of a window: halves of its units, and as large as it just takes, or does not."""
    rng = np.random.default_rng(n)
    for k in (-1074, -1000, -977, -900, 0, 900, 1009, 1016, 1023):
        top = np.nextafter(math.ldexp(1.0, k), near * math.inf) if near else math.ldexp(1.0, k)
        for below in (0, 44, 45, 46, 52, 53, 90, 91, 92, 98, 99, 150):
            small_one = math.ldexp(1.0, max(k - below, -1074))
            of_top = rng.integers(-1, 2, n)  # the others are small ones
            of_small = np.where(of_top == 0, rng.choice([1, -1], n), 0)
            of_top[0], of_small[0] = 0, 1
            x, both, units = of_top * top + of_small * small_one, (of_top, of_small), (top, small_one)
            counts = [(np.count_nonzero(y), Fraction(unit)) for y, unit in zip(both, units, strict=True)]
            assert float(ozaki.norm(x)) == nearest_root(sum(m * v * v for m, v in counts)), (k, below)
            for shape, axis in (((n,), 0), ((n // 8, 8), 0), ((8, n // 8), 1)):
                sums = [y.reshape(shape).sum(axis=axis).ravel().tolist() for y in both]
                exact = [i * Fraction(top) + j * Fraction(small_one) for i, j in zip(*sums, strict=True)]
                found = ozaki.sum(x.reshape(shape), axis=axis).ravel().tolist()
                assert found == [nearest(v) for v in exact], (shape, k, below)


@as_many
def test_bins_carry(without_numba):
    """More than 2**11 significands of one sign and exponent exceed the 64 bits of a bin."""
    wild = np.array([1e-200, 1e200] * 3000)
    x = np.concatenate([np.full(40_000, np.nextafter(2.0, 1)), wild, np.full(30_000, -1.75), -wild])
    x = np.random.default_rng(0).permutation(x)
    assert ozaki.sum(x) == math.fsum(x)
    assert call("dot", x, -1) == without_numba(call, "dot", x, -1)


@pytest.mark.parametrize("n", [1, 7, 2048, 5000])
@pytest.mark.parametrize("kind", ["just below", "half units", "any"])
def test_enclosures_hold_the_exact_value(n, kind):
    """Of numbers that round as much as they can, all one way, and of their products."""
    rng = np.random.default_rng(n)
    for k in (-1070, -980, -900, -500, 0, 1000):
        top, low = math.ldexp(1.0, k), max(k - 53 - 7, -1074)
        x = {
            "just below": np.full(n, np.nextafter(top, 0)),
            "half units": np.full(n, math.ldexp(1.0, low) * (1 - 2.0**-53)) + top * (np.arange(n) == 0),
            "any": np.ldexp(rng.standard_normal(n), rng.integers(max(k - 100, -1073), k + 1, n)),
        }[kind]
        y = np.ldexp(rng.standard_normal(n), rng.integers(-60, 1, n))
        numbers, others = map(Fraction, x.tolist()), map(Fraction, y.tolist())
        numbers, others = list(numbers), list(others)
        for xs, exact in (([x], sum(numbers)), ([x, y], sum(map(operator.mul, numbers, others)))):
            value, error, _ = vectors._sum_of(xs, 1, False)
            assert abs(value - exact * Fraction(2) ** (vectors.UNIT * len(xs))) <= error, k


@as_many
@pytest.mark.parametrize("bits", range(36, 52))
def test_what_an_exact_level_leaves_adds_up_at_most(bits):
    """Every number leaves nearly half of some last place, of one sign: among these, half of the window's."""
    for sign in (1, -1):
        x = np.full(6000, 1 + sign * (2.0**-bits - 2.0**-52))
        x[::97] = 1
        exact = float(sum(map(Fraction, x.tolist())))
        assert float(ozaki.sum(x)) == float(ozaki.dot(x, np.ones(6000))) == exact


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_spread_numbers(dtype):
    """Most are far below the largest: exact sums put them into bins at once, zeros and subnormal ones too."""
    rng = np.random.default_rng(5)
    n, least, most = (70_000, -1073, 1000) if dtype == np.float64 else (70_000, -148, 120)
    x = np.ldexp(rng.standard_normal(n), rng.integers(least, most, n)).astype(dtype)
    x[rng.random(n) < 0.3] *= dtype(0)
    cancelling = rng.permutation(np.concatenate([x, -x]))
    tiny = np.append(cancelling, np.nextafter(dtype(0), dtype(1)))
    assert ozaki.sum(x) == dtype(math.fsum(x.tolist()))
    assert ozaki.sum(cancelling) == 0
    assert not np.signbit(ozaki.sum(cancelling))
    assert ozaki.sum(tiny) == tiny[-1]
    accumulator = ozaki.ExactSum(dtype)
    accumulator.add(cancelling)
    assert accumulator.round() == 0


@pytest.mark.slow
def test_more_elements_than_an_int_counts():
    pytest.importorskip("numba")  # NumPy's form takes a minute
    many = np.broadcast_to(np.float64(0.1), (2**31 + 1,))
    assert ozaki.sum(many) == nearest((2**31 + 1) * Fraction(0.1))


def test_bins_full_of_infinities():
    """2**12 of one sign fill the 64 bits of a bin, and leave nothing there but the carry."""
    for n in (4096, 8192, 70_000):
        x = np.full(n, np.inf)
        assert ozaki.sum(x) == np.inf
        assert ozaki.sum(-x) == -np.inf
        assert np.isnan(ozaki.sum(np.append(x, -x)))


@as_many
@pytest.mark.parametrize("n", [2500, 40_001])
def test_products_and_zeros_of_any_size(without_numba, n):
    """Products far beyond float64's range are added as integers, zeros and subnormal numbers in bins."""
    rng = np.random.default_rng(n)
    x = np.ldexp(rng.standard_normal(n), rng.integers(-1073, 1000, n))
    x[rng.random(n) < 0.3] = 0
    assert ozaki.sum(x) == math.fsum(x)
    small = np.ldexp(rng.standard_normal(n), rng.integers(-1073, -8, n))
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), small.tolist(), strict=True))
    assert ozaki.dot(x, small) == float(exact)
    for y in (x, x * 1e-300, np.abs(x)):
        for name in ("sum", "dot", "norm", "var"):
            assert call(name, y, -1) == without_numba(call, name, y, -1)


@as_many
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(40_000,), (70, 80), (4000, 2)])
def test_compiled_takes_any_memory(dtype, shape):
    """Read-only, unaligned and broadcast arrays, for all of which numba has other types."""
    x = drawn(0, "wide", shape, np.dtype(dtype), "C")
    readonly = x.copy()
    readonly.setflags(write=False)
    unaligned = np.empty(x.nbytes + 1, np.uint8)[1:].view(dtype).reshape(shape)
    unaligned[...] = x
    for name in ("sum", "norm", "var"):
        for axis in (None, 0, -1):
            expected = call(name, x, axis)
            for other in (readonly, unaligned, np.broadcast_to(x, (1, *shape))[0]):
                assert call(name, other, axis) == expected


def test_compiled_in_many_threads():
    """24 threads at once, none of which finds compiled code: each gets the same bits."""
    pytest.importorskip("numba")
    pytest.importorskip("ozaki.sums.exact.loops_numba").loop.cache_clear()
    x = drawn(0, "wide", (60_000,), np.dtype(float), "C")
    expected, start = math.fsum(x), threading.Barrier(24)

    def work(_):
        start.wait()
        return [float(ozaki.sum(x)) for _ in range(5)]

    with ThreadPoolExecutor(24) as pool:
        assert {v for found in pool.map(work, range(24)) for v in found} == {expected}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("wait", [0, 0.6, pytest.param(4, marks=pytest.mark.slow)])
def test_a_fork_while_another_thread_compiles(wait):
    pytest.importorskip("numba")
    code = """
import math, os, threading, time
import numpy as np
import ozaki

x = np.random.default_rng(0).standard_normal(60_000)
thread = threading.Thread(target=ozaki.sum, args=(x,))
thread.start()
time.sleep({wait})
child = os.fork()
if not child:
    os._exit(int(ozaki.sum(x) != math.fsum(x)))
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code.format(wait=wait)], check=True, timeout=120)


def test_interrupted_sums_leave_nothing_behind():
    """KeyboardInterrupt at any moment of a first call, or of a later one."""
    pytest.importorskip("numba")
    code = """
import math, signal
import numpy as np
import ozaki

def interrupt(*_):
    raise KeyboardInterrupt

x = np.ldexp(np.random.default_rng(0).standard_normal(300_000), np.arange(300_000) % 1500 - 700)
expected = math.fsum(x.tolist())
signal.signal(signal.SIGALRM, interrupt)
for wait in [0.001, 0.1, 0.3, 0.3, 0.3, *np.linspace(1e-5, 2e-3, 100)]:
    try:
        signal.setitimer(signal.ITIMER_REAL, wait, 0.5)  # again: LLVM's callbacks swallow an interrupt
        while True:
            ozaki.sum(x)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
assert ozaki.sum(x) == expected
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)


@pytest.mark.slow
def test_without_numba(tmp_path):
    """Where numba is missing or switched off, results are the same."""
    pytest.importorskip("numba")
    code = """
import hashlib
import numpy as np
import ozaki
from multiword.runtime.compiled import compiled

found, rng = hashlib.sha256(), np.random.default_rng(0)
for dtype in (np.float64, np.float32, np.complex128, np.int64):
    x = np.ldexp(rng.standard_normal((90, 80)), rng.integers(-30, 30, (90, 80))).astype(dtype)
    for function in (ozaki.sum, ozaki.mean, ozaki.norm, ozaki.var, ozaki.nansum):
        for axis in (None, 0, 1):
            found.update(np.asarray(function(x, axis=axis)).tobytes())
    found.update(np.asarray(ozaki.dot(x, x)).tobytes() + np.asarray(ozaki.vdot(x, x)).tobytes())
print(compiled('ozaki.sums.exact.loops_numba') is None, found.hexdigest())
"""

    def printed(error: str, **variables: str) -> list[str]:
        path = tmp_path / error
        path.mkdir(exist_ok=True)
        if error:
            (path / "numba.py").write_text(f"raise {error}")
        environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join([str(path), *sys.path])}
        command = [sys.executable, "-W", "ignore", "-c", code]
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return run.stdout.split()

    installed, expected = printed("")
    assert installed == "False"
    assert printed("ImportError") == ["True", expected]
    assert printed("", NUMBA_DISABLE_JIT="1") == ["True", expected]


def test_compiled_sums_take_no_memory():
    pytest.importorskip("numba")
    x = np.random.default_rng(5).standard_normal((2000, 1500))
    for function in (ozaki.sum, ozaki.norm):
        for axis in (None, 0, 1):
            function(x, axis=axis)
            tracemalloc.start()
            function(x, axis=axis)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 8e6  # of 24e6


@pytest.mark.parametrize("name", ["fp64", "fp32", "fp16", "bf16"])
def test_fsum_is_not_rounded_twice(name):
    """A sum next to a midpoint of the narrow format, nearer than float64 tells."""
    fmt = FORMATS[name]
    ulp = 2.0 ** (1 - fmt.precision)
    for scale in (1.0, 2.0**-100 if fmt.emin < -100 else 2.0**-10, 2.0**fmt.emin):
        for tail in (0, 2.0**-90, -(2.0**-90)):
            for one in (1.0, 1 + ulp, 2 - ulp):
                x = np.array([one, ulp / 2, tail]) * scale
                exact = sum(map(Fraction, x.tolist()))
                assert float(ozaki.sum(x, dtype=fmt.dtype)) == nearest(exact, fmt)
                assert float(ozaki.sum(-x, dtype=fmt.dtype)) == -nearest(exact, fmt)


def test_fsum_overflows_between():
    x = np.array([1e308, 1e308, -1e308, -1e308, 1.0])
    with pytest.raises(OverflowError):
        math.fsum(x)
    assert ozaki.sum(x) == 1
    assert ozaki.sum(np.array([1e308] * 2)) == np.inf
