"""The errors of texts are less than half of what Ziv's test allows, measured in many digits."""

from fractions import Fraction

import numpy as np
import pytest

from ozaki.elementary import values
from ozaki.elementary.cores import Machine
from ozaki.elementary.equations import EQUATIONS
from ozaki.elementary.evaluate import _run
from ozaki.elementary.many import Many
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.rounding import FIRST, LAST, error_of, nearest
from tests.elementary import test_two_arguments as two
from tests.elementary.test_functions import bits, ordinary

WORST_OF_TAN = (
    "0x1.0c1d9d4dfda7fp+12",
    "0x1.5c531067975d7p+12",
    "0x1.91560b0d45b3fp+1",
    "-0x1.6ff5e824d6da8p+10",
)
"""Of some hundred thousand arguments."""


def arguments(name, of_single):
    """Arguments of a text's own range, of which none is special."""
    function = FUNCTIONS[name]
    if function.arguments == 2:
        x = [z[::3] for z in two.pairs(name, 60)]
    else:
        tiny = np.exp2(np.linspace(-54, -5, 30))
        x = [np.concatenate([ordinary(name, 60, seed=6), tiny, -tiny, np.linspace(0.001, 0.009, 30)])]
        if name in ("sin", "cos", "tan", "sinpi", "cospi"):
            x = [np.concatenate([*x, near_zeros(name)])]
        if name == "tan":
            x = [np.concatenate([*x, [float.fromhex(z) for z in WORST_OF_TAN]])]
        if name in ("erf", "erfc", "gelu"):  # between two points of a table, of which the first count most
            step = 1 / EQUATIONS["erf" if name == "erf" else "tail"].steps
            rows = np.array([0, 1, 2, 3, 4, 5, 6, 10, 100, 700, 1090, 1700])
            between = np.concatenate([(rows + share) * step for share in (0.4999, 0.5001, 0.47, 0.49)])
            x = [np.concatenate([*x, between, -between])]
    if of_single:
        x = [z.astype(np.float32).astype(np.float64) for z in x]
    used = (x[0] >= function.low) & (x[0] <= function.high)
    for condition, _ in function.special:
        used &= ~np.asarray(condition(*x), bool)
    return [z[used] for z in x]


def near_zeros(name):
    """Arguments next to those of results of 0 and ±1, as far as a row of the table reaches."""
    unit = 1 / 256 if name.endswith("pi") else np.pi / 256
    rows = np.array([-129, -128, -127, -1, 0, 1, 127, 128, 129, 255, 256, 257, 4223, 178_303])
    return np.concatenate(
        [(rows + share) * unit for share in (-0.4999, -0.497, -0.49, 0.487, 0.498, 0.49995)]
    )


def exact_parts(number, e, count):
    hi, lo, e = (np.broadcast_to(0 if z is None else z, count) for z in (number.hi, number.lo, e))
    return [
        (Fraction(h) + Fraction(low)) * Fraction(2) ** int(k)
        for h, low, k in zip(hi.tolist(), lo.tolist(), e, strict=True)
    ]


@pytest.fixture
def near_inverses(request, monkeypatch):
    """Inverses that are wrong by as much as is allowed, in one direction or the other."""
    off, off_root = (1 + request.param * 2.0**-bits for bits in (values.NEAR, values.NEAR_ROOT))
    monkeypatch.setattr(values, "near_inverse", lambda x: off / x)
    monkeypatch.setattr(values, "near_inverse_root", lambda x: off_root / np.sqrt(x))


@pytest.mark.parametrize(
    ("of_single", "last", "near_inverses"),
    [(True, False, 1), (True, True, -1), (False, False, 1), (False, False, -1), (False, True, -1)],
    indirect=["near_inverses"],
)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.usefixtures("near_inverses")
def test_errors(name, of_single, last):
    function, x = FUNCTIONS[name], arguments(name, of_single)
    m = Machine(LAST if last else FIRST[of_single], of_single)
    with np.errstate(all="ignore"):
        number = function.text(m, *x)
        number, e = number if isinstance(number, tuple) else (number, None)
        doubtful = np.logical_or.reduce([np.zeros(len(x[0]), bool), *m.doubts])
    allowed = error_of(function, m, of_single) / 2
    beside = None if m.beside is None or not m.pairs else np.broadcast_to(m.beside, len(x[0])).tolist()
    for i, found in enumerate(exact_parts(number, e, len(x[0]))):
        if not doubtful[i]:
            many = Many(240)
            value = function.text(many, *(float(z[i]) for z in x))
            value, k = value if isinstance(value, tuple) else (value, 0)
            exact = Fraction(value.m) * Fraction(2) ** (value.e + int(k))
            largest, smallest = (2**129, Fraction(1, 2**160)) if of_single else (2**1025, 0)
            if abs(exact) >= largest or abs(exact) < smallest:  # infinite, or 0, whatever it is
                continue
            size = abs(exact) if beside is None else Fraction(beside[i])
            error = abs(found - exact) / size if exact else abs(found)
            assert many.lost < 100
            if name != "sqrt":  # whose first word is the result
                assert error < allowed, (name, [float(z[i]) for z in x], float(error))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_short_and_long_texts_decide_alike(name):
    """Ziv's test of the short text, on a hundred thousand arguments."""
    arguments = (
        two.pairs(name, 30_000) if FUNCTIONS[name].arguments == 2 else (ordinary(name, 40_000, seed=9),)
    )
    for dtype in (np.float32, np.float64):
        x = [z.astype(dtype) for z in arguments]
        outs, doubts = (
            [np.empty_like(x[0]) for _ in range(2)],
            [np.empty(len(x[0]), np.uint8) for _ in range(2)],
        )
        for last, out, doubt in zip((False, True), outs, doubts, strict=True):
            _run(name, dtype == np.float32, last)(*x, out, doubt)
        both = (doubts[0] | doubts[1]) == 0
        assert both.mean() > 0.5
        assert (bits(outs[0][both]) == bits(outs[1][both])).all()


@pytest.mark.parametrize("of_single", [True, False])
@pytest.mark.parametrize("name", sorted(n for n, f in FUNCTIONS.items() if f.arguments == 1))
def test_no_magnitude_is_in_doubt(name, of_single):
    """Few numbers of each power of two are left to the longer text, which takes ten times as long."""
    function, rng, shares = FUNCTIONS[name], np.random.default_rng(10), {}
    for k in range(-52, 10):
        x = rng.uniform(1.0, 1.2, 3000) * 2.0**k * rng.choice([-1, 1], 3000)
        x = x[(x >= function.low) & (x <= function.high)].astype(np.float32 if of_single else np.float64)
        if len(x):
            undecided = np.empty(len(x), np.uint8)
            shares[k] = _run(name, of_single)(x, np.empty_like(x), undecided) / len(x)
    assert max(shares.values()) < 0.1, shares


def left(name, dtype, *x):
    """Return how many values a function's short text leaves, and how many of them the longer one does."""
    found = []
    for last in (False, True):
        undecided = np.empty(len(x[0]), np.uint8)
        run = _run(name, dtype == np.float32, last)
        found.append(run(*(z.astype(dtype) for z in x), np.empty(len(x[0]), dtype), undecided))
        x = [z[undecided.view(bool)] for z in x]
    return tuple(found)


def test_half_way_roots_of_float32_squares_are_decided_by_the_longer_text():
    """(3, 4, 5)·k, 5k an odd number of 25 bits."""
    k = np.arange((1 << 24) // 5 + 2 | 1, (1 << 24) // 3, 20_002).astype(np.float64)
    assert left("hypot", np.float32, 3 * k, 4 * k) == (len(k), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_of_axes_are_not_in_doubt(dtype):
    zeros, ones, endless = np.zeros(64), np.ones(64), np.full(64, np.inf)
    for one in (zeros, endless):
        for other in (zeros, ones, -ones, endless):
            assert left("atan2", dtype, one, other) == left("atan2", dtype, other, one) == (0, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_integers_are_rounded_to_zero_and_to_the_smallest_number(dtype):
    """A fraction below half the smallest number keeps its sign, as zero."""
    least = Fraction(float(np.finfo(dtype).smallest_subnormal))
    for share, units in ((Fraction(1, 10**400), 0), (Fraction(49, 100), 0), (Fraction(51, 100), 1)):
        for sign in (1, -1):
            expected = dtype(units) * np.finfo(dtype).smallest_subnormal * dtype(sign)
            assert nearest(sign * share * least, np.dtype(dtype)).tobytes() == expected.tobytes()
