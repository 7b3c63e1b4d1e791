"""Pooling in a mode of everything: against exact sums of windows, on any threads, of any part of a batch."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki.torch  # noqa: E402
from ozaki.torch import sizes  # noqa: E402
from tests.torch.test_everything import bits, drawn, everything  # noqa: E402
from tests.torch.test_independent import on_threads  # noqa: E402

F = torch.nn.functional

CASES = {
    "mean, one dimension": lambda x: F.avg_pool1d(x.flatten(2), 3, 2, 1),
    "mean": lambda x: F.avg_pool2d(x, 2),
    "mean, overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean, beyond the end": lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 0), ceil_mode=True),
    "mean without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "mean by a number": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "mean, three dimensions": lambda x: F.avg_pool3d(x.unflatten(1, (1, 3)), 2, 1, 1, ceil_mode=True),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
    "adaptive mean, three dimensions": lambda x: F.adaptive_avg_pool3d(x.unflatten(1, (1, 3)), (2, 3, 10)),
    "maximum, one dimension": lambda x: F.max_pool1d(x.flatten(2), 3, 2, 1),
    "maximum": lambda x: F.max_pool2d(x, 2),
    "maximum, overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "maximum, dilated": lambda x: F.max_pool2d(x, 2, 1, 1, dilation=2, ceil_mode=True),
    "maximum, three dimensions": lambda x: F.max_pool3d(x.unflatten(1, (1, 3)), 2, 1),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (3, 5)),
    "nearest": lambda x: F.interpolate(x, scale_factor=(1.7, 0.6)),
    "nearest, of places": lambda x: F.interpolate(x, size=(5, 31), mode="nearest-exact"),
    "adaptive maximum, three dimensions": lambda x: F.adaptive_max_pool3d(x.unflatten(1, (1, 3)), (2, 3, 5)),
}


def both(call, x, g=None):
    """A result and the gradient of x, for a gradient g or an invented one."""
    leaf = x.clone().requires_grad_()
    y = call(leaf)
    g = drawn(*y.shape, dtype=x.dtype, seed=5) if g is None else g
    return y, *torch.autograd.grad(y, leaf, g)


@pytest.mark.parametrize("name", CASES)
def test_near_to_pytorch(name):
    x = drawn(2, 3, 7, 8, dtype=torch.float64)
    with everything() as calls:
        found = both(CASES[name], x)
    assert any("pool" in operator or "nearest" in operator for operator in calls)
    for mine, native in zip(found, both(CASES[name], x), strict=True):
        torch.testing.assert_close(mine, native, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_neither_threads_nor_cuts_nor_chunks_show(name, dtype, monkeypatch):
    x = drawn(5, 3, 8, 15, dtype=dtype)
    with everything():
        whole = on_threads(1, lambda: both(CASES[name], x))
        g = drawn(*whole[0].shape, dtype=dtype, seed=5)
        assert bits(*on_threads(2, lambda: both(CASES[name], x))) == bits(*whole)
        parts = [both(CASES[name], x[s], g[s]) for s in (slice(0, 1), slice(1, 5))]
        assert bits(*map(torch.cat, zip(*parts, strict=True))) == bits(*whole)
        monkeypatch.setattr(sizes, "GATHERED", 1)
        assert bits(*both(CASES[name], x)) == bits(*whole)


def wide(*shape):
    """Numbers of many magnitudes, so that the order of a sum would show."""
    rng = np.random.default_rng(7)
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 30, shape)


def test_means_and_their_gradients_are_exact_sums_of_windows():
    x, (k, s, p) = wide(9, 10), (3, 2, 1)
    windows = {
        (i, j): [
            (a, b)
            for a, b in itertools.product(range(i * s - p, i * s - p + k), range(j * s - p, j * s - p + k))
        ]
        for i, j in itertools.product(range(5), range(5))
    }
    y, g = np.empty((5, 5)), wide(5, 5)
    given = {place: [] for place in np.ndindex(x.shape)}
    for window, places in windows.items():
        inside = [place for place in places if place in given]
        y[window] = math.fsum(x[place] for place in inside) / k**2
        for place in inside:
            given[place].append(g[window] / k**2)
    slope = np.array([math.fsum(given[place]) for place in np.ndindex(x.shape)])
    with everything():
        found = both(lambda t: F.avg_pool2d(t, k, s, p), *(torch.from_numpy(v)[None, None] for v in (x, g)))
    assert bits(*found) == [y.tobytes(), slope.tobytes()]


def test_the_gradient_of_a_maximum_is_the_exact_sum_of_what_is_given_to_it():
    x, g, k = wide(8, 9).round(), wide(6, 7), 3  # rounded, so that there are ties
    chosen = {place: [] for place in np.ndindex(x.shape)}
    for i, j in np.ndindex(g.shape):
        a, b = divmod(int(x[i : i + k, j : j + k].argmax()), k)
        chosen[i + a, j + b].append(g[i, j])
    slope = np.array([math.fsum(chosen[place]) for place in np.ndindex(x.shape)])
    with everything():
        _, found = both(lambda t: F.max_pool2d(t, k, 1), *(torch.from_numpy(v)[None, None] for v in (x, g)))
    assert bits(found) == [slope.tobytes()]


def test_what_does_not_fit_raises_as_outside():
    x = drawn(1, 3, 4, 4)
    with everything():
        for call in (lambda: F.avg_pool2d(x, 3, padding=2), lambda: F.avg_pool2d(x, 9)):
            with pytest.raises(RuntimeError, match=r"pad should be|Output size is too small"):
                call()


def test_other_modes_leave_pooling_to_pytorch():
    x = drawn(1, 3, 4, 4)
    with pytest.warns(UserWarning, match="1 avg_pool2d"), ozaki.torch.reproducible(dtypes=torch.float32):
        found = F.avg_pool2d(x, 2)
    assert bits(found) == bits(F.avg_pool2d(x, 2))


def test_numbers_that_are_not_finite():
    x = drawn(1, 1, 6, 6, dtype=torch.float64)
    x[0, 0, 0, 0], x[0, 0, 3, 3], x[0, 0, 5, 0] = torch.inf, torch.nan, -torch.inf
    for call in (lambda t: F.avg_pool2d(t, 2), lambda t: F.max_pool2d(t, 3, 1)):
        native = both(call, x)
        with everything():
            for mine, theirs in zip(both(call, x), native, strict=True):
                torch.testing.assert_close(mine, theirs, equal_nan=True, rtol=1e-14, atol=1e-15)
