"""Functions of two numbers: correctly rounded, the same by every road, with NumPy's special values."""

import numpy as np
import pytest

import ozaki
from ozaki.elementary import evaluate
from ozaki.elementary.api import apply
from ozaki.elementary.evaluate import _interpreted, _run, by_integers
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.rounding import decided
from tests.elementary.references import mp, nearest
from tests.elementary.test_functions import bits

EXACT = {
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "atan2": mp.atan2,
    "pow": mp.power,
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "exp_minus": lambda x, y: mp.exp(x - y),
    "exp_cos": lambda x, y: mp.exp(x) * mp.cos(y),
    "exp_sin": lambda x, y: mp.exp(x) * mp.sin(y),
    "log_abs": lambda x, y: mp.log(x * x + y * y) / 2,
}
THEIRS = {"hypot": np.hypot, "atan2": np.arctan2, "pow": np.power, "logaddexp": np.logaddexp}
THEIRS["exp_minus"] = lambda x, y: np.exp(x - y)
THEIRS["exp_cos"] = lambda x, y: np.exp(plane(x, y)).real
THEIRS["exp_sin"] = lambda x, y: np.exp(plane(x, y)).imag
THEIRS["log_abs"] = lambda x, y: np.log(plane(x, y)).real
NAMES = sorted(EXACT)
SPECIAL = [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, -5e-324]
SPECIAL += [2.0**52 + 1, -(2.0**52) - 1, 2.0**53]


def plane(x, y):
    """x + iy, whose parts are these whatever they are."""
    z = np.empty(x.shape, np.result_type(x, np.complex64))
    z.real, z.imag = x, y
    return z


def pairs(name, n, dtype=np.float64):
    """Ordinary pairs, wide ones, ones whose results are ties or nearly cancel."""
    rng = np.random.default_rng(2)
    x = [rng.standard_normal(n), np.exp2(rng.uniform(-60, 60, n)), rng.integers(1, 2000, n)]
    y = [rng.standard_normal(n), np.exp2(rng.uniform(-4, 4, n)), rng.choice([2, 3, 0.5, 1.5, -1], n)]
    if name == "pow":
        x[0] = np.abs(x[0])
        x.append(-rng.integers(1, 100, n)), y.append(rng.integers(-9, 9, n))
    elif name == "logaddexp":
        z = -np.log(2) + rng.uniform(-1e-9, 1e-9, n)
        x[1], y[1] = z, np.log1p(-np.exp(z))
        y.append(np.concatenate([rng.uniform(*ends, n // 4) for ends in ((-695, -0.7), (-691, -600))]))
        lost = np.exp2(-rng.uniform(3, 30, len(y[-1])))  # bits, where the two cancel
        x.append(np.log1p(-np.exp(y[-1])) * (1 + rng.choice([-1, 1], len(lost)) * lost))
    elif name == "exp_minus":
        x[1], y[1] = rng.uniform(-700, 700, n), np.exp2(rng.uniform(-60, 8, n))
    elif name.startswith("exp_"):
        x[1], y[1] = rng.uniform(-700, 700, n), np.exp2(rng.uniform(-60, 60, n))
        x[2] = x[2] % 700
        x.append(rng.uniform(0, 1400, n)), y.append(np.exp2(rng.uniform(-1060, -100, n)))
        x.append(rng.uniform(-760, -600, n)), y.append(np.pi / 2 * rng.integers(1, 9, n))
    elif name == "log_abs":
        wide, turn = np.exp2(rng.uniform(-1060, 1020, (2, n))), rng.uniform(-4, 4, n)
        x[1], y[1] = wide if dtype is np.float64 else wide**0.1
        x[2], y[2] = np.cos(turn), np.sin(turn)
        x.append(np.ones(n)), y.append(np.exp2(rng.uniform(-1000, -1, n)))
        x.append(np.full(n, np.sqrt(0.5))), y.append(np.sqrt(0.5) + rng.integers(-3, 4, n) * 2.0**-53)
    else:
        wide = np.exp2(rng.uniform(-1000, 1000, (2, n)))
        x.append(wide[0]), y.append(-wide[1])
    with np.errstate(all="ignore"):
        x, y = np.concatenate(x).astype(dtype), np.concatenate(y).astype(dtype)
    ordinary = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    return x[ordinary], y[ordinary]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_one_and_an_exponential_that_is_nothing_beside_it(monkeypatch, zero, dtype):
    """Weights of masks: 60 µs each if integers had to decide them."""
    monkeypatch.setattr(evaluate, "by_integers", None)
    x, y = np.full(5, zero, dtype), np.array([-746.5, -1000, -1e30, -np.inf, -3e38], dtype)
    for values in (ozaki.logaddexp(x, y), ozaki.logaddexp(y, x)):
        assert values.tobytes() == np.zeros(5, dtype).tobytes()


def test_one_and_an_exponential_down_to_the_smallest_number():
    """log(1 + e**y) is e**y there, but for far fewer digits than half of that number's last one."""
    y = -np.concatenate([np.linspace(690, 746.5, 40), [744.4400719213812, 745.1332191019412, 746.0]])
    zero = np.zeros_like(y)
    for values in (ozaki.logaddexp(zero, y), ozaki.logaddexp(y, -zero)):
        assert values.tobytes() == ozaki.exp(y).tobytes()
    assert 0 < np.count_nonzero(values) < len(y)


def test_a_sum_of_exponentials_of_which_only_a_subnormal_word_would_be_left():
    """The two cancel but for 17 bits, and the lower word of e**y is a multiple of 2**-1074."""
    x, y = float.fromhex("-0x1.43f02d1056cecp-993"), float.fromhex("-0x1.5807a6a18a18dp+9")
    assert float(ozaki.logaddexp(x, y)).hex() == "0x1.8e97037286fb7p-1012"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_against_mpmath(name, dtype):
    x, y = pairs(name, 60, dtype)
    with mp.workprec(3000 if name in ("atan2", "log_abs", "logaddexp") else 700):
        exact = [
            nearest(EXACT[name](mp.mpf(float(a)), mp.mpf(float(b))), dtype) for a, b in zip(x, y, strict=True)
        ]
    assert (bits(apply(name, x, y)) == bits(np.array(exact))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_numpys(name, dtype):
    with np.errstate(all="ignore"):
        x, y = (z.astype(dtype) for z in np.meshgrid(SPECIAL, SPECIAL))
        theirs = THEIRS[name](x, y)
    ours = apply(name, x, y)
    fixed = np.isnan(theirs) | np.isinf(theirs) | (theirs == 0) | (theirs == 1)
    assert (bits(ours[fixed]) == bits(np.where(np.isnan(theirs), dtype(np.nan), theirs)[fixed])).all()
    assert np.isfinite(ours[~fixed]).all()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_numpy_runs_a_text_with_the_bits_of_the_compiled_loop(name, last):
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            special = [z.ravel().astype(dtype) for z in np.meshgrid(SPECIAL, SPECIAL)]
        x, y = (np.concatenate(z) for z in zip(pairs(name, 40, dtype), special, strict=True))
        outs, doubts = [np.empty_like(x) for _ in range(2)], [np.empty(len(x), np.uint8) for _ in range(2)]
        for run, out, doubt in zip((_run, _interpreted), outs, doubts, strict=True):
            run(name, dtype == np.float32, last)(x, y, out, doubt)
        assert (bits(outs[0]) == bits(outs[1])).all()
        assert (doubts[0] == doubts[1]).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_integers_decide_is_what_texts_do(name):
    x, y = (z[::9] for z in pairs(name, 40))
    values = [decided(FUNCTIONS[name], x.dtype, *map(float, one)) for one in zip(x, y, strict=True)]
    assert values == apply(name, x, y).tolist()


@pytest.mark.parametrize(("name", "x", "y"), [("pow", 1e30, 20), ("exp_minus", 900, 1), ("exp_cos", 900, 1)])
def test_overflow_of_float32_is_decided_at_once(name, x, y):
    x, y = (np.full(3, z, np.float32) for z in (x, y))
    out, doubt = np.empty(3, np.float32), np.empty(3, np.uint8)
    assert _run(name, True, False)(x, y, out, doubt) == 0
    assert (out == np.inf).all()


@pytest.mark.parametrize("largest", [-1060, -960, -450, -250, -90, 0, 500])
def test_angles_of_tiny_numbers(largest):
    """What a quotient of subnormal numbers, or of some that are far apart, leaves is not lost."""
    rng = np.random.default_rng(abs(largest))
    x = np.exp2(largest + rng.uniform(-10, 10, 300))
    y = np.exp2(rng.uniform(-1074, max(largest, -1000), 300))
    for first, second in ((y, x), (y, -x), (x, y)):
        assert (
            bits(ozaki.atan2(first, second)) == bits(by_integers("atan2", x.dtype, [first, second]))
        ).all()


def test_ties():
    """Powers and hypotenuses that are half way between two numbers go to the even one."""
    for x in (2**27 + 1.0, 2**27 + 3.0):
        assert int(ozaki.pow(x, 2.0)) == int(float(int(x) ** 2))
        assert int(x) ** 2 != int(ozaki.pow(x, 2.0))
    assert ozaki.pow(np.float32(4097), 2) == np.float32(4097.0**2)
    assert ozaki.hypot(3 * 2.0**53, 4 * 2.0**53) == 5 * 2.0**53


def test_broadcasting_and_dtypes():
    x, y = np.arange(1, 4.0)[:, None], np.arange(1, 3.0)
    assert ozaki.hypot(x, y).shape == (3, 2)
    assert (ozaki.hypot(x, y) == [[ozaki.hypot(a, b) for b in y] for a in x[:, 0]]).all()
    single = y.astype(np.float32)
    assert ozaki.pow(single, 2.0).dtype == ozaki.pow(2, single).dtype == np.float32
    assert ozaki.pow(single, x).dtype == np.float64
    assert ozaki.pow(np.float16(3), np.float16(2)).dtype == np.float16
    assert ozaki.pow([2, 3], 2).tolist() == [4.0, 9.0]
    with pytest.raises(ValueError, match="broadcast"):
        ozaki.hypot(np.ones(2), np.ones(3))
    with pytest.raises(TypeError, match="y must be real"):
        ozaki.hypot(1.0, 1j)


@pytest.mark.parametrize("name", NAMES)
def test_out_may_be_either_argument(name):
    x, y = pairs(name, 50)
    expected = apply(name, x, y)
    for first in (True, False):
        a, b = x.copy(), y.copy()
        apply(name, a, b, out=a if first else b)
        assert (bits(a if first else b) == bits(expected)).all()
