"""The parts of exp and log of a complex number x + iy, functions of x and y: rounded once, as all others."""

from __future__ import annotations

from math import inf, nan

from ozaki.elementary.record import LARGEST, function, lifted, limited
from ozaki.elementary.two_arguments import by_size, even_scale, infinite, minus
from ozaki.elementary.values import where

LOW, HIGH = -800.0, 1500.0
"""Where e**x ends to matter: |cos y| and |sin y| are 1 at most, and at least 2**-1074."""


def _finite(y):
    return abs(y) <= LARGEST


def _exp(m, x, shift):
    """Return M and e: e**(x + shift·log 2) = M·2**e, x at most so far out that no sine brings it back."""
    M, e = m.exp(m.number(m.where(x > HIGH, HIGH, m.where(x < LOW, LOW, x))))
    return M, limited(m, e + shift)


@function(
    -inf,
    inf,
    (lambda x, y: infinite(y), nan),
    (lambda x, y: (x == -inf) & ~_finite(y), 0.0),
    (lambda x, y: (x == inf) & ~_finite(y), inf),
    arguments=2,
    loss=(1, 1, 0),
)
def _exp_cos(m, x, y):
    """e**x·cos y, the real part of e**(x + iy)."""
    M, e = _exp(m, x, 0)
    return M * m.sin_cos(*m.turned(m.where(_finite(y), y, 0.5)))[1], e


@function(
    -inf,
    inf,
    (lambda x, y: infinite(y), nan),
    (lambda x, y: (x == -inf) & ~_finite(y), lambda x, y: where(minus(y), -0.0, 0.0)),
    (lambda x, y: y == 0.0, lambda x, y: y),
    arguments=2,
    loss=(1, 1, 0),
)
def _exp_sin(m, x, y):
    """e**x·sin y, the imaginary part of e**(x + iy)."""
    y, shift = lifted(m, m.where(_finite(y), y, 0.5))
    M, e = _exp(m, x, shift)
    return M * m.sin_cos(*m.turned(y))[0], e


@function(
    -inf,
    inf,
    (lambda x, y: (x == 0.0) & (y == 0.0), -inf),
    (lambda x, y: ((abs(x) == 1.0) & (y == 0.0)) | ((x == 0.0) & (abs(y) == 1.0)), 0.0),
    (lambda x, y: infinite(x) | infinite(y), inf),
    arguments=2,
)
def _log_abs(m, x, y):
    """log |x + iy| = log(x² + y²) / 2, the real part of log(x + iy)."""
    large, small = by_size(m, x, y)
    scale, e = even_scale(m, large, 2.0**300, 2.0**-300)
    L, k = m.log_of_squares(large * scale, small * scale, e + e)
    return L.times_power(0.5), k
