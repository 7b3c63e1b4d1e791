"""Derivatives are those of mpmath, of the first two orders, and one for every argument of every function.

First ones, of a formula's trace, have the bits of the formula computed with arrays.
"""

import numpy as np
import pytest

from ozaki.elementary import derivatives, evaluate
from ozaki.elementary.derivatives import derivative
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.slopes import SLOPES, slope_name
from tests.elementary.references import REFERENCES, mp

TWO = {
    "pow": lambda x, y: x**y,
    "atan2": mp.atan2,
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "exp_cos": lambda x, y: mp.exp(x) * mp.cos(y),
    "exp_sin": lambda x, y: mp.exp(x) * mp.sin(y),
    "log_abs": lambda x, y: mp.log(x * x + y * y) / 2,
    "exp_minus": lambda x, y: mp.exp(x - y),
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
}
POINTS = {"acosh": (1.125, 1.5, 40.0), "log": (0.25, 3.0, 700.0)}
POINTS |= dict.fromkeys(("log2", "log10", "sqrt", "rsqrt"), POINTS["log"])
POINTS |= dict.fromkeys(("asin", "acos", "atanh"), (-0.875, 0.25, 0.5))
POINTS |= {"logit": (0.125, 0.5, 0.75), "log1p": (-0.5, 1e-5, 9.0), "cbrt": (-8.0, 0.5, 20.0)}


def test_every_argument_has_one():
    arguments = {name: f.arguments for name, f in FUNCTIONS.items()}
    assert {name: len(s) for name, s in SLOPES.items()} == arguments


def near(found, exact, dtype=np.float64):
    return abs(found - float(exact)) <= 64 * np.finfo(dtype).eps * abs(float(exact)) + 1e-300


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_of_one_argument(name):
    for v in POINTS.get(name, (-3.5, 0.25, 1.5)):
        for order in (1, 2):
            with mp.workprec(600):
                exact = mp.diff(REFERENCES[name].exact, mp.mpf(v), order)
            found = derivative(name, (order,), np.array([v]))
            assert near(found[0], exact), (name, v, order)
            short = derivative(name, (order,), np.array([v], np.float32))
            assert short.dtype == np.float32
            assert near(short[0], exact, np.float32)


@pytest.mark.parametrize("name", sorted(TWO))
def test_of_two_arguments(name):
    for x, y in ((1.5, -0.75), (3.0, 2.0)):
        for orders in ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2)):
            with mp.workprec(600):
                exact = mp.diff(TWO[name], (mp.mpf(x), mp.mpf(y)), orders)
            found = derivative(name, orders, np.array([x]), np.array([y]))
            assert near(found[0], exact), (name, x, y, orders)


@pytest.mark.parametrize(
    "name", ["silu", "gelu", "gelu_tanh", "mish", "tanh", "sigmoid", "softplus", "elu", "erf"]
)
def test_ends(name):
    left, right = {"tanh": (0, 0), "sigmoid": (0, 0), "erf": (0, 0)}.get(name, (0, 1))
    ends = np.array([-np.inf, -1e300, 1e300, np.inf])
    assert derivative(name, (1,), ends).tolist() == [left, left, right, right]


ENDS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-300, -1e-300, 1e300, -1e300, 2.0**-1074, 0.5, 2.0]
BROAD = [
    (name, i, dtype)
    for name in SLOPES
    for i in range(len(SLOPES[name]))
    for dtype in (np.float32, np.float64)
]
FEW = {("gelu", 0, np.float32), ("pow", 1, np.float64), ("log", 0, np.float32)}


def arguments(name, dtype):
    rng = np.random.default_rng(len(name))
    ends = np.array(np.meshgrid(*[ENDS] * len(SLOPES[name]))).reshape(len(SLOPES[name]), -1)
    drawn = rng.standard_normal((len(SLOPES[name]), 1000)) * np.exp(2 * rng.standard_normal(1000))
    with np.errstate(all="ignore"):
        return list(np.concatenate([ends, drawn], axis=1).astype(dtype))


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("name", "argument", "dtype"),
    [pytest.param(*k, marks=() if k in FEW else pytest.mark.slow) for k in BROAD],
)
def test_traces(without_numba, name, argument, dtype, interpreted):
    x = arguments(name, dtype)
    orders = [int(i == argument) for i in range(len(x))]
    compute = (lambda: derivative(name, orders, *x), without_numba(derivative, name, orders, *x))
    found = compute[1] if interpreted else compute[0]()
    expected = derivatives._of(name, orders, x, x[0].shape, np.dtype(dtype))
    assert found.dtype == dtype
    assert found.tobytes() == expected.tobytes()


def test_what_a_trace_leaves_undecided(monkeypatch):
    """Is computed by the formula: of ties some."""
    left, real = [], derivatives._of
    monkeypatch.setattr(derivatives, "_of", lambda *a: (left.append(len(a[2][0])), real(*a))[1])
    x = np.linspace(-3, 3, 20_001)
    found = derivative("tanh", (1,), x)
    undecided = np.empty(len(x), np.uint8)
    count = evaluate._run(slope_name("tanh", 0), False, False)(x, np.empty_like(x), undecided)
    assert 0 < count < 100
    assert left == [count]
    assert found.tobytes() == real("tanh", (1,), [x], x.shape, x.dtype).tobytes()
