"""Norms of layers on a GPU: the kernel without one. `tests/gpu/test_rowwise.py` compares its bits on one."""

import numpy as np
import pytest

import ozaki
from multiword.runtime.kernels import OPTIONS
from ozaki.rowwise import inverse_deviation
from ozaki.rowwise_cuda import team_of
from ozaki.rowwise_norms import source
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel
from tests.test_rowwise_cuda import TEAM, compiled, flagged, flags, launched, rows

NORMS = {"layer_norm": ozaki.layer_norm, "rms_norm": ozaki.rms_norm, "inverse_deviation": inverse_deviation}


@pytest.mark.parametrize("kind", NORMS)
def test_compiles_without_contraction(kind):
    for n in (100, 1024, 8192) if kind == "layer_norm" else (768,):
        for architecture in (ARCHITECTURE, *OTHERS) if n == 1024 else (ARCHITECTURE,):
            text = source(kind, *team_of(n), n == 1024, n == 1024)
            ptx = compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS, "-ftz=true"))
            assert set(FLUSHING.findall(ptx)) <= {"rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"}


def run(kind, library, x, eps, weight=None, bias=None):
    """The results, and which rows are in doubt."""
    count, n = x.shape
    out = np.full((count, 1 if kind == "inverse_deviation" else n), -1, np.float32)
    bits, some = flags(count), np.zeros(1, np.uint32)
    launched(library, "norms", 3, (x, weight, bias, out, bits, some), count, n, eps)
    assert some[0] == bits.any()
    return out, flagged(bits, count)


def rows_for_norms(rng, n):
    """Rows of all kinds; of zeros and of equal numbers, and beside a number that is far larger than they."""
    x = np.ascontiguousarray(rows(rng, "float32")[:, :n])
    x[80:84], x[84:88], x[88:92], x[92, ::2], x[92, 1::2] = 0.0, -0.0, 0.1, 0.0, -0.0
    x[93:120] += 10.0 ** rng.integers(-3, 9, (27, 1))
    x[120:124] = rng.integers(1, 9, (4, n)) * 2.0**-149
    x[124:128] = rng.uniform(-1, 1, (4, n)) * 3e38
    return x


def cancelling(rng, count):
    """Rows of 60 numbers whose sum is that of a few: beside them, two floats hold not enough of the rest."""
    large, small = (rng.standard_normal((count, 14)) * size for size in (2.0**100, 2.0**40))
    return np.hstack([large, small, -large, -small, rng.standard_normal((count, 4))]).astype(np.float32)


@pytest.mark.parametrize("kind", NORMS)
def test_the_bits_of_a_cpu(kind, tmp_path):
    rng, function = np.random.default_rng(1), NORMS[kind]
    for n, eps, step in ((1, 0.0, 4), (2, 1e-5, 4), (60, 0.0, 2)):
        library = compiled(source(kind, TEAM, -(-n // TEAM)), tmp_path)
        x = np.ascontiguousarray(rows_for_norms(rng, n)[::step])
        out, doubt = run(kind, library, x, eps)
        assert out.tobytes() == function(x, 1, eps=eps).tobytes()
        assert not doubt.any()


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
def test_weight_and_bias(kind, tmp_path):
    rng, n = np.random.default_rng(2), 11
    x = np.ascontiguousarray(rows_for_norms(rng, n)[::4])
    weight, bias = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    weight[:3], bias[3:5] = (np.nan, np.inf, 1e-45), (-np.inf, 3e38)
    for given in ((weight,), (None, bias), (weight, bias)):
        if kind == "rms_norm" and len(given) == 2:
            continue
        named = {k: v for k, v in zip(("weight", "bias"), given, strict=False) if v is not None}
        library = compiled(source(kind, TEAM, 3, *(name in named for name in ("weight", "bias"))), tmp_path)
        expected = NORMS[kind](x, 1, **named)
        assert run(kind, library, x, 1e-5, *given)[0].tobytes() == expected.tobytes()


def test_sums_are_taken_again_where_roundings_are_undecided(tmp_path):
    """With a wider bound for all of them, and with another for what is left in doubt."""
    bound, careful, n = "#define OF_LOST (1.0 / (1ll << 46))", "careful.lost * 1.01", 60
    text = source("layer_norm", TEAM, -(-n // TEAM))
    assert text.count(bound) == text.count(careful) == 1
    rng = np.random.default_rng(3)
    x = np.vstack([rows_for_norms(rng, n)[::4], cancelling(rng, 20)])
    expected, doubts = ozaki.layer_norm(x, 1), []
    again = text.replace(bound, "#define OF_LOST 0.25")
    for changed in (text, again, again.replace(careful, "fabs(careful.high) * 1e-9")):
        out, doubt = run("layer_norm", compiled(changed, tmp_path), x, 1e-5)
        assert out[~doubt].tobytes() == expected[~doubt].tobytes()
        doubts.append(doubt)
    assert (doubts[0] == doubts[1]).all()
    assert 0 < doubts[0][100:].sum() == doubts[0].sum()
    assert 60 < doubts[2].sum() < 120
