"""Both words of a number in one kernel, without a GPU: the texts have the bits of the forms for the host.

`tests/gpu/test_two_words.py` compares them on one.
"""

import numpy as np
import pytest

from multiword.engines.moduli import residue_system
from ozaki.residues.sums import residues_of_sums
from ozaki.scaling.statistics import NONFINITE_ROW
from tests.residues.emulated import Emulation


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    return Emulation(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def gpu(monkeypatch, compiled):
    return compiled.install(monkeypatch)


RNG = np.random.default_rng(35)


def scales(rows):
    """Of rows, one of which is not finite."""
    scale = RNG.integers(-40, 60, rows).astype(np.int32)
    scale[rows // 2] = NONFINITE_ROW
    return scale


def words(shape, bits, scale):
    """High and low words of wide exponents, whose integers have so many bits; some are zeros or subnormal."""
    exponent = RNG.integers(-70, bits, shape) - np.where(scale == NONFINITE_ROW, 0, scale)[:, None]
    high = np.ldexp(RNG.uniform(-1, 1, shape), exponent)
    low = RNG.uniform(-1, 1, shape) * np.spacing(high) / 2
    high[RNG.random(shape) < 0.1] = 0
    low[RNG.random(shape) < 0.1] = 0
    low[:, -1] = 5e-324
    high[shape[0] // 2, 0] = np.inf
    return high, low


@pytest.mark.parametrize(
    ("shape", "width", "parts", "turned", "weighted"),
    [
        ((35, 70), 110, 1, True, True),
        pytest.param((37, 70), 110, 1, False, False, marks=pytest.mark.slow),
        pytest.param((5, 33), 62, 1, False, True, marks=pytest.mark.slow),
        pytest.param((9, 21), 64, 2, True, False, marks=pytest.mark.slow),
        pytest.param((3, 300), 160, 2, False, True, marks=pytest.mark.slow),
    ],
)
def test_residues_of_sums(gpu, compiled, shape, width, parts, turned, weighted):
    scale = scales(shape[0])
    high, low = zip(*(words(shape, width, scale) for _ in range(parts)), strict=True)
    system = residue_system("int8", min(330.0, 2.0 * width), shape[1], parts)
    for padding in (1, 16):
        options = system, padding, weighted, width + 1
        with np.errstate(all="ignore"):
            expected = residues_of_sums(high, low, scale, *options)
        there = [[gpu.asarray(x.T.copy()).T if turned else gpu.asarray(x) for x in w] for w in (high, low)]
        found = residues_of_sums(*there, gpu.asarray(scale), *options)
        assert np.array_equal(found, expected)
    assert set(compiled.launched) == {"split_sums"}
