"""The derivative of softmax on a GPU: the kernel without one. `tests/gpu/test_rowwise.py` has its bits."""

import numpy as np
import pytest

import ozaki
from multiword.runtime.machine_code import OPTIONS
from ozaki.rowwise.cuda import team_of
from ozaki.rowwise.slopes_cuda import source
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel
from tests.rowwise.test_cuda import TEAM, compiled, launched


def test_compiles_without_contraction():
    for n in (3, 1024, 8192):
        for architecture in (ARCHITECTURE, *OTHERS) if n == 1024 else (ARCHITECTURE,):
            ptx = compile_kernel(source(*team_of(n)), (f"--gpu-architecture={architecture}", *OPTIONS))
            assert not FLUSHING.findall(ptx)


def gradients(rng, count, n):
    """Softmax of rows of all kinds, and derivatives: with zeros of both signs, NaN, and sums that cancel."""
    y = ozaki.softmax(rng.standard_normal((count, n)) * 2.0 ** rng.integers(-9, 9, (count, 1)), 1)
    g = rng.standard_normal((count, n))
    y, g = y.astype(np.float32), g.astype(np.float32)
    y[:9], g[:9] = 0.25, rng.integers(-2, 3, (9, n))
    g[9:12], g[12], g[13, 0], g[14, -1] = -0.0, 0.0, np.nan, np.inf
    y[15:40], g[15:40, ::2] = 2.0**-30, 2.0 ** rng.integers(0, 70, (25, -(-n // 2)))
    g[15:40, 1::2] = -g[15:40, : 2 * (n // 2) : 2]
    if n > 8 * 4:  # the sum of a thread loses the number that is left
        y[40], g[40] = 1, 0
        g[40, [0, 4, 8]] = 2.0**30, 1 + 2.0**-23, -(2.0**30)
    return y, g


def expected_slope(y, g):
    with np.errstate(all="ignore"):
        return y * (g - ozaki.dot(g, y, axis=1)[:, None])


@pytest.mark.parametrize("opened", [False, True])
def test_the_bits_of_a_cpu(opened, tmp_path):
    """By plain sums, and with all that are not zero taken again."""
    rng, decision = np.random.default_rng(3), "!one_number(sum - error, sum + error)"
    for n in (1, 2, 60):
        text = source(TEAM, -(-n // TEAM))
        assert text.count(decision) == 1
        library = compiled(text.replace(decision, "true") if opened else text, tmp_path)
        y, g = gradients(rng, 70, n)
        out, expected = np.empty_like(y), expected_slope(y, g)
        launched(library, "softmax_slopes", 3, (y, g, out), *y.shape)
        nan = np.isnan(expected)
        assert (np.isnan(out) == nan).all()
        assert out[~nan].tobytes() == expected[~nan].tobytes()
