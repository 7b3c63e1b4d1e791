"""What functions of rows are: their formulas of one row, with sums in fractions and functions by integers."""

from fractions import Fraction
from math import inf, nan

import numpy as np

from ozaki.elementary.evaluate import by_integers
from ozaki.elementary.rounding import nearest


def rounded(x: Fraction) -> float:
    return float(nearest(x, np.dtype(float))) if x else 0.0


def function(name: str, *x: float) -> float:
    return float(by_integers(name, np.dtype(float), [np.array([v]) for v in x])[0])


def _powers(row):
    largest = max(row)
    powers = [0.0 if x == -inf else 1.0 if x == largest else function("exp_minus", x, largest) for x in row]
    return largest, powers


def softmax(row):
    _, powers = _powers(row)
    total = rounded(sum(map(Fraction, powers)))
    return [e / total for e in powers]


def _log_of_rest(powers):
    rest = rounded(sum(map(Fraction, powers)) - 1)
    return function("log1p", rest) if rest else 0.0


def log_softmax(row):
    largest, powers = _powers(row)
    logarithm = _log_of_rest(powers)
    return [(x - largest) - logarithm for x in row]


def logsumexp(row):
    largest, powers = _powers(row)
    return [largest + _log_of_rest(powers)]


def _times_inverse_root(row, eps):
    square = rounded(sum(Fraction(x) ** 2 for x in row) / len(row)) + eps
    scale = function("rsqrt", square) if square else inf
    with np.errstate(invalid="ignore"):
        return [float(np.float64(x) * scale) for x in row]


def layer_norm(row, eps=1e-5):
    mean = rounded(sum(map(Fraction, row)) / len(row))
    return _times_inverse_root([x - mean for x in row], eps)


def rms_norm(row, eps=1e-5):
    return _times_inverse_root(row, eps)


def gmean(row):
    logarithms = [0.0 if x == 1 else function("log", x) for x in row]
    mean = rounded(sum(map(Fraction, logarithms)) / len(row))
    return [function("exp", mean) if mean else 1.0]


def hmean(row):
    return [1 / rounded(sum(Fraction(1 / x) for x in row) / len(row))]


DEFINITIONS = {f.__name__: f for f in (softmax, log_softmax, logsumexp, layer_norm, rms_norm, gmean, hmean)}
POSITIVE = ("gmean", "hmean")
NOT_FINITE = {
    "softmax": {nan: nan, inf: nan, -inf: 0.0},
    "log_softmax": {nan: nan, inf: nan, -inf: -inf},
    "logsumexp": {nan: nan, inf: inf},
}
"""What a number that is not finite comes to, in its own place."""
