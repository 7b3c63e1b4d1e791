"""The mergeable accumulator: exact, the same bits in any order, of a fixed size."""

import itertools
import operator
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.formats import FORMATS
from ozaki.sums.exact import accumulator
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.partial import PartialSums
from tests.cells import cells
from tests.fuzz.fixed import check_family
from tests.oracle import nearest, same
from tests.threads import in_threads, interrupted

REAL = {np.dtype(f.dtype): f for f in FORMATS.values() if f.name != "tf32"}
any_double = st.floats(allow_nan=True, allow_infinity=True)


def exact(x) -> Fraction:
    return sum(map(Fraction, np.asarray(x, np.float64).ravel().tolist()), Fraction(0))


def whole_range(rng, n):
    """float64 numbers whose exponents cover the whole range."""
    return np.ldexp(rng.standard_normal(n), rng.integers(-1075, 1022, n))


def test_parts_in_any_order_round_to_the_nearest():
    check_family("ExactSum")


@pytest.mark.parametrize("chunk", [1, 7, 1000, 40_000])
def test_chunks_of_any_size(chunk):
    rng = np.random.default_rng(0)
    x = whole_range(rng, 1500 if chunk < 10 else 70_000)
    x[::3] = rng.standard_normal(x[::3].size)
    whole = ExactSum().add(x)
    parts = [ExactSum().add(x[i : i + chunk]) for i in range(0, x.size, chunk)]
    total = ExactSum()
    for i in rng.permutation(len(parts)):
        total.merge(parts[i])
    assert total == whole
    assert total.fractions() == [exact(x)]


def test_products_are_exact_over_the_whole_range():
    rng = np.random.default_rng(1)
    x, y = whole_range(rng, 3000), whole_range(rng, 3000)
    acc = ExactSum().add_products(x, y)
    assert acc.fractions() == [
        sum(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True))
    ]
    reverse = ExactSum()
    for i in range(0, 3000, 17):
        reverse.add_products(y[i : i + 17], x[i : i + 17])
    assert reverse == acc


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_every_format_and_its_documented_size(dtype):
    rng = np.random.default_rng(2)
    f = REAL[dtype]
    extremes = [f.maximum, f.smallest_subnormal, -f.maximum, 1.0, -0.0, f.maximum, f.maximum]
    x = np.concatenate([rng.standard_normal(500), extremes]).astype(dtype)
    acc = ExactSum(dtype).add(x)
    assert acc.fractions() == [exact(x)]
    assert float(acc.round()) == nearest(exact(x), f)
    assert acc.round().dtype == dtype
    sizes = {"float16": 24, "bfloat16": 80, "float32": 84, "float64": 540}
    assert acc.nbytes == len(acc.to_bytes()) == sizes[dtype.name]
    squares = ExactSum(dtype).add_products(x, x)
    assert squares.fractions() == [sum(Fraction(float(v)) ** 2 for v in x)]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("spread", [0, 40, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_vectors_down_to_the_smallest_numbers(dtype, spread, both):
    """These are summed whole, in float64's range of digits, which begins below float32's."""
    rng, smallest = np.random.default_rng(7), int(np.log2(np.finfo(dtype).smallest_subnormal))
    drawn = np.ldexp(rng.integers(-9, 10, (2, 3000)).astype(float), rng.integers(0, spread + 1, (2, 3000)))
    x, y = np.ldexp(drawn, smallest).astype(dtype)
    total = ExactSum(dtype=dtype).add(x[:5])
    (total.add_products(x, y) if both else total.add(x)).add(-x[:5])
    factors = y if both else np.ones_like(y)
    expected = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, factors, strict=True))
    assert total.fractions() == [expected]


def test_documented_form_is_a_twos_complement_integer():
    acc = ExactSum().add(np.array([-1.5, 2.0**-1074, -0.0]))
    words = acc.to_bytes()
    value = int.from_bytes(words[:-4], "little", signed=True)
    assert Fraction(value) * Fraction(2) ** -2148 == Fraction(-3, 2) + Fraction(2) ** -1074
    assert int.from_bytes(words[-4:], "little") == 8


def test_shapes_complex_and_pickling():
    rng = np.random.default_rng(3)
    z = (rng.standard_normal((50, 3, 4)) + 1j * whole_range(rng, 600).reshape(50, 3, 4)).astype(np.complex128)
    acc = ExactSum(np.complex128, (3, 4)).add(z[:20]).add(z[20:])
    back = pickle.loads(pickle.dumps(acc))
    assert back == acc
    back.add(z)
    for (i, j), total in np.ndenumerate(acc.round()):
        assert total.real == nearest(exact(z[:, i, j].real))
        assert total.imag == nearest(exact(z[:, i, j].imag))
    assert back.fractions()[5] == tuple(2 * v for v in acc.fractions()[5])
    squares = ExactSum(np.complex128, (3, 4)).add_products(z, z.conj())
    assert squares.fractions()[0][1] == 0


def test_special_values():
    inf, nan = np.inf, np.nan
    cases = [([1, inf], inf), ([-inf, 1e308], -inf), ([inf, -inf], nan), ([nan, 1], nan), ([], 0.0)]
    cases += [([-0.0, -0.0], -0.0), ([-0.0, 0.0], 0.0), ([1, -1], 0.0), ([-0.0], -0.0)]
    for values, expected in cases:
        assert same(ExactSum().add(np.array(values, float)).round(), np.float64(expected)), values
    with pytest.raises(ValueError, match="Inf or NaN"):
        ExactSum().add(np.array([inf])).fractions()
    overflow = ExactSum().add(np.array([1e308, 1e308]))
    assert overflow.round() == inf
    assert overflow.add(np.array([-1e308])).round() == 1e308


def test_the_round_to_another_dtype_is_one_rounding():
    x = np.array([1 + 2.0**-24, 2.0**-60])  # float64 first would fall on float32's tie
    assert ExactSum().add(x).round(np.float32) == np.float32(1 + 2.0**-23)
    assert ExactSum().add(np.array([1.0, 2.0**-11, 2.0**-70])).round(np.float16) == np.float16(1 + 2.0**-10)


def test_integers_are_exact():
    x = np.array([2**63 - 1, -(2**53) - 1, 1], np.int64)
    assert ExactSum().add(x).fractions() == [Fraction(sum(x.tolist()))]
    u = np.array([2**64 - 1] * 3, np.uint64)
    assert ExactSum().add(u).fractions() == [Fraction(3 * (2**64 - 1))]


def test_many_carries():
    x = np.full(1 << 16, np.finfo(np.float64).max)
    acc = ExactSum()
    for _ in range(8):
        acc.add(x)
    assert acc.fractions() == [Fraction(2**19) * Fraction(float(x[0]))]
    acc._sums._pending = (1 << 28) - 5
    acc.add(-x)
    assert acc.fractions() == [Fraction(2**19 - 2**16) * Fraction(float(x[0]))]


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="int64"):
        ExactSum(np.int64)
    with pytest.raises(TypeError, match="object"):
        ExactSum().add(np.array([1, None]))
    with pytest.raises(TypeError, match="complex128"):
        ExactSum().add(np.ones(3, complex))
    with pytest.raises(TypeError, match="float64"):
        ExactSum(np.float32).add(np.ones(3))
    with pytest.raises(ValueError, match="shape"):
        ExactSum(np.float64, (3,)).add(np.ones((2, 4)))
    with pytest.raises(ValueError, match="one shape"):
        ExactSum().add_products(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="merge"):
        ExactSum().merge(ExactSum(np.float32))
    with pytest.raises(TypeError, match="ExactSum"):
        ExactSum().merge(3)
    with pytest.raises(ValueError, match="540"):
        ExactSum.from_bytes(b"abc")
    assert ExactSum() != 3
    assert ExactSum(ml_dtypes.bfloat16).add(np.ones(3, ml_dtypes.bfloat16)).round() == 3
    assert "ExactSum(float64" in repr(ExactSum())


def merged_by_addition(parts):
    """What an all-reduce does: a maximum of windows, then a sum of digits."""
    window = np.max([part.window for part in parts], axis=0)
    digits = sum(part.to_digits(window) for part in parts)
    return ExactSum.from_digits(digits, window, parts[0].dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_terms_wider_than_the_digits_are_refused(dtype):
    """Products of squares, say, which as float64 numbers have more digits than those of float32 do."""
    squares = np.full(4096, 3e-40)
    wide = [[Summands((squares, squares))]] * (2 if dtype is np.complex64 else 1)
    for add in (ExactSum(dtype).merge_terms, partial(PartialSums.of, dtype=np.dtype(dtype), shape=())):
        with pytest.raises(
            TypeError, match=r"float64 cannot be added exactly to ExactSum\((float32|complex64)"
        ):
            add(wide)
    narrow = np.full(3, 2.0**-149, np.float32), np.full(3, 7, np.int16)
    assert ExactSum(np.float32).merge_terms([[Summands(narrow)]]).round() == 21 * 2.0**-149


@given(st.lists(st.lists(any_double, max_size=6), min_size=1, max_size=5))
def test_digits_add_up_to_the_merge(values):
    parts = [ExactSum().add(np.array(v, float)) for v in values]
    whole = ExactSum().add(np.array([x for v in values for x in v], float))
    total = merged_by_addition(parts)
    assert total == whole
    assert total.to_bytes() == whole.to_bytes()
    assert same(total.round(), whole.round())


@pytest.mark.parametrize("dtype", [*REAL, np.dtype(np.complex64), np.dtype(np.complex128)], ids=str)
def test_digits_of_every_dtype_and_any_window(dtype):
    rng = np.random.default_rng(5)
    spread = 900 if dtype.itemsize >= 8 and dtype != np.complex64 else 5
    x = np.ldexp(rng.standard_normal((60, 2, 3)), rng.integers(-spread, spread, (60, 2, 3)))
    x = (x + (1j * x[::-1] if dtype.kind == "c" else 0)).astype(dtype)
    x[7, 0, 1], x[8, 1, 2], x[20, 1, 2], x[:, 0, 0] = np.inf, -np.inf, np.nan, -0.0
    parts = [ExactSum(dtype, (2, 3)).add(x[i : i + 13]) for i in range(0, 60, 13)]
    parts += [ExactSum(dtype, (2, 3)), ExactSum(dtype, (2, 3)).add_products(x, x)]
    whole = ExactSum(dtype, (2, 3)).add(x).add_products(x, x)
    assert merged_by_addition(parts) == whole
    everything = [0, whole._sums.range.digits]
    assert whole.to_digits(everything).shape[1:] == ((2, 2, 3) if dtype.kind == "c" else (2, 3))
    assert ExactSum.from_digits(whole.to_digits(everything), everything, dtype) == whole
    for shape in ((2, 3), (0,), (2, 0)):
        empty = ExactSum(dtype, shape)
        assert ExactSum.from_digits(empty.to_digits(), empty.window, dtype) == empty


@pytest.mark.parametrize("values", [[1.5, -3e300], [-1e-320], [2.0**900, -(2.0**-900), 5.0], [-1.0], [-0.0]])
def test_digits_of_very_many_accumulators_add_without_overflow(values):
    one = ExactSum().add(np.array(values))
    for window in (one.window, [0, 134]):
        total = ExactSum.from_digits(one.to_digits(window) * (2**31 - 1), window)
        assert total.fractions() == [(2**31 - 1) * one.fractions()[0]]
        assert same(total.round() == 0, one.round() == 0)
        assert total.merge(total).fractions() == [2 * (2**31 - 1) * one.fractions()[0]]


def test_counts_of_very_many_flags_do_not_overflow():
    for values in ([np.inf], [-np.inf], [np.nan], [-0.0], [0.0], []):
        one = ExactSum().add(np.array(values, float))
        assert ExactSum.from_digits(one.to_digits() * (2**31 - 1), one.window) == one


def test_the_state_is_as_large_as_its_numbers_ask_for():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1000, 721))
    total = ExactSum(shape=721).add(x).compact()
    assert total.__sizeof__() <= 64 * 721
    assert len(pickle.dumps(total)) <= 32 * 721
    assert pickle.loads(pickle.dumps(total)) == total
    wide = ExactSum().add(np.array([1e300, 1e-300]))
    assert np.diff(np.abs(wide.window)) > 60
    assert wide.add(np.array([-1e300, -1e-300])).compact()._sums.digits.size == 0
    assert wide == ExactSum().add(np.zeros(1))
    lost = ExactSum(shape=2).add(np.array([[1e300, 1.0], [np.nan, 1.0]]))
    assert np.diff(np.abs(lost.window)) == 1  # the digits of what is NaN are given up


def test_sums_of_either_sign_carry_beyond_the_window():
    for sign in (1, -1):
        total = ExactSum().add(np.array([sign * 3.0]))
        expected = Fraction(3 * sign)
        for _ in range(100):
            total.merge(ExactSum().merge(total)).compact()
            expected *= 2
            assert total.fractions() == [expected]
            assert pickle.loads(pickle.dumps(total)).to_bytes() == total.to_bytes()


def test_digits_that_do_not_fit_are_refused():
    acc = ExactSum().add(np.array([1e100, 1e-100]))
    with pytest.raises(ValueError, match="window must hold"):
        acc.to_digits([-60, 70])
    with pytest.raises(ValueError, match="window must lie"):
        acc.to_digits([0, 135])
    with pytest.raises(TypeError, match="int64"):
        ExactSum.from_digits(acc.to_digits().astype(float), acc.window)
    with pytest.raises(ValueError, match="digits must have shape"):
        ExactSum.from_digits(acc.to_digits()[1:], acc.window)
    with pytest.raises(ValueError, match="digits must have shape"):
        ExactSum.from_digits(acc.to_digits(), acc.window, np.complex128)


READERS = {
    "to_bytes": ExactSum.to_bytes,
    "pickle": pickle.dumps,
    "window": lambda total: total.window.tolist(),
    "to_digits": lambda total: total.to_digits().tolist(),
    "==": lambda total: operator.eq(total, total),
    "round": lambda total: total.round().tolist(),
    "fractions": ExactSum.fractions,
    "compact": lambda total: total.compact().to_bytes(),
}
CHANGES = {
    "add": lambda total, x: total.add(x),
    "add_products": lambda total, x: total.add_products(x, x[::-1]),
    "merge": lambda total, x: total.merge(ExactSum(shape=total.shape).add(x)),
    "merge with itself": lambda total, x: total.merge(total),
}


def carrying(columns=3):
    """An accumulator whose digits have carries waiting, of either sign, and numbers that go with it."""
    rng = np.random.default_rng(8)
    x = np.ldexp(rng.standard_normal((40, columns)), rng.integers(-90, 90, (40, columns)))
    total = ExactSum(shape=columns)
    for sign in (1, -1, -1):
        total.add(sign * x).add(sign * np.full(columns, 2.0**120 - 2.0**70))
    return total, x * 2.0**60


class Interrupted(Exception):
    """What a signal's handler, or a lack of memory, may raise anywhere."""


def interrupt():
    raise Interrupted


@cells(name=[*READERS, *CHANGES])
def test_an_exception_on_any_line_leaves_the_sums_of_before_or_of_after(name):
    def change(total, x):
        return READERS[name](total) if name in READERS else CHANGES[name](total, x)

    state = pickle.dumps(carrying()[0])
    after, x = carrying()
    change(after, x)
    allowed = {state, pickle.dumps(after)}
    for line in itertools.count():
        total = carrying()[0] if name in READERS else pickle.loads(state)
        try:
            interrupted(line, interrupt, partial(change, total, x))
        except Interrupted:
            assert pickle.dumps(total) in allowed, line
        else:
            break
    assert line > 5


@pytest.mark.parametrize("name", READERS)
def test_threads_read_one_accumulator(name):
    total, _ = carrying(1000)
    expected, state = READERS[name](copy_of(total)), total.to_bytes()
    with taking_turns():
        for _ in range(8):
            total, _ = carrying(1000)
            assert in_threads(READERS[name], [total] * 4) == [expected] * 4
    assert total.to_bytes() == state


@contextmanager
def taking_turns():
    """Threads give way to one another all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def copy_of(total):
    return pickle.loads(pickle.dumps(total))


def test_readers_beside_an_add_meet_the_sums_of_before_or_of_after():
    total, x = carrying(1000)
    states = [total.to_bytes()]
    states += [total.add(x).to_bytes() for _ in range(5)]
    total = carrying(1000)[0]
    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(lambda: [total.to_bytes() for _ in range(10)]) for _ in range(4)]
        for _ in range(5):
            total.add(x)
    assert {state for reader in readers for state in reader.result()} <= set(states)
    assert total.to_bytes() == states[-1]


def test_loaded_accumulators_own_their_memory():
    """Frameworks hand out-of-band buffers over as read-only memory, the same for several objects."""
    buffers = []
    state = pickle.dumps(carrying()[0], protocol=5, buffer_callback=buffers.append)
    one, other = (pickle.loads(state, buffers=[bytes(b) for b in buffers]) for _ in range(2))
    shared = [bytearray(b) for b in buffers]
    three, four = (pickle.loads(state, buffers=shared) for _ in range(2))
    expected = other.to_bytes()
    for total in (one, three):
        total.add(np.full(3, np.nan))
        assert np.isnan(total.round()).all()
    assert other.to_bytes() == four.to_bytes() == expected


def test_arrays_that_came_out_are_no_views_of_the_state():
    total, x = carrying()
    before, exact = total.to_bytes(), total.fixed_point()
    digits = exact.digits.copy()
    total.add(x)
    assert np.array_equal(exact.digits, digits)
    total = carrying()[0]
    exact = total.fixed_point()
    exact.digits[...] = exact.flags[...] = 4
    assert total.to_bytes() == before


def test_operators_signs_and_words():
    left, right = ExactSum().add(np.array([1e100, 1.0, 2.0**-1074])), ExactSum().add(np.array([-1e100]))
    before = left.to_bytes()
    total = left + right
    assert left.to_bytes() == before
    assert total.fractions() == [1 + Fraction(2) ** -1074]
    assert float(total) == 1.0
    assert total.words().tolist() == [1.0, 2.0**-1074]
    tiny = ExactSum(shape=5).add_products(np.array([1e-200, -1e-200, 0, np.inf, np.nan]), np.full(5, 1e-200))
    assert tiny.round()[:3].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(tiny.sign(), [1, -1, 0, 1, np.nan])
    assert (total + ExactSum().add(np.array([-1.0, -(2.0**-1074)]))).sign() == 0
    assert ExactSum().sign() == 0
    assert ExactSum(shape=2).words().tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="below"):
        ExactSum().add_products(np.array([1e-200]), np.array([1e-200])).words()
    with pytest.raises(TypeError, match="real part"):
        ExactSum(complex).sign()
    summed = sum([left, right])
    assert summed == total
    assert sum([left]) == left
    assert sum([left]) is not left
    for call in (lambda: left + 1.0, lambda: 1 + left, lambda: 0.0 + left):
        with pytest.raises(TypeError, match="unsupported operand"):
            call()
    for several in (ExactSum(shape=2), ExactSum(shape=1), ExactSum(complex)):
        with pytest.raises(TypeError, match=r"float\(\) takes one real sum.*shape"):
            float(several)


class OnDevice(np.ndarray):
    """An array that an accumulator takes for one on a GPU."""

    def get(self):
        return np.array(self)


PARTS = {
    "empty": [],
    "cancelled": [1.0, -1.0],
    "minus zero": [-0.0],
    "ordinary": [1.0, 2.0**-60],
    "infinite": [np.inf],
    "undefined": [np.inf, -np.inf],
    "nan": [np.nan],
}
"""What is added on one side or the other: nothing, numbers, and what leaves flags but no digits."""


@pytest.mark.parametrize("first", PARTS)
@pytest.mark.parametrize("second", PARTS)
def test_flags_are_kept_between_devices(monkeypatch, first, second):
    """An accumulator on the host takes what one on a GPU holds, whatever it held itself."""
    monkeypatch.setattr(accumulator, "is_cupy", lambda x: isinstance(x, OnDevice))
    here, there = (ExactSum().add(np.array(PARTS[name], float)) for name in (first, second))
    for name in ("digits", "flags"):
        setattr(there._sums, name, getattr(there._sums, name).view(OnDevice))
    assert same(here.merge(there).round(), ExactSum().add(np.array(PARTS[first] + PARTS[second])).round())
