"""Derivatives are those of mpmath, of the first two orders, and one for every argument of every function."""

import numpy as np
import pytest

from ozaki.elementary.derivatives import SLOPES, derivative
from ozaki.elementary.record import FUNCTIONS
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
