"""Norms of layers on a GPU: the kernel without one. `tests/gpu/test_rowwise.py` compares its bits on one."""

import numpy as np
import pytest

import ozaki
from multiword.runtime.machine_code import OPTIONS
from ozaki.rowwise.api import inverse_deviation
from ozaki.rowwise.cuda import team_of
from ozaki.rowwise.norms_cuda import source
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel
from tests.rowwise.test_cuda import TEAM, compiled, launched, rows

NORMS = {"layer_norm": ozaki.layer_norm, "rms_norm": ozaki.rms_norm, "inverse_deviation": inverse_deviation}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("kind", "n", "architecture"),
    [
        ("rms_norm", 768, ARCHITECTURE),
        ("inverse_deviation", 768, ARCHITECTURE),
        ("layer_norm", 8192, ARCHITECTURE),
        *(("layer_norm", 1024, architecture) for architecture in OTHERS),
    ],
)
def test_compiles_without_contraction(kind, n, architecture):
    text = source(kind, *team_of(n), n == 1024, n == 1024)
    ptx = compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS))
    assert set(FLUSHING.findall(ptx)) <= {"rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"}


def run(kind, library, x, eps, weight=None, bias=None, moments=(None, None)):
    count, n = x.shape
    out = np.full((count, 1 if kind == "inverse_deviation" else n), -1, np.float32)
    launched(library, "norms", 3, (x, weight, bias, out, *moments), count, n, eps)
    return out


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
        assert run(kind, library, x, eps).tobytes() == function(x, 1, eps=eps).tobytes()


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
        assert run(kind, library, x, 1e-5, *given).tobytes() == expected.tobytes()


def test_sums_are_taken_again_where_roundings_are_undecided(tmp_path):
    """With wider bounds for all of them, and then for what is left; and all inverse roots by integers."""
    bound, careful, exact = (
        "#define OF_LOST (1.0 / (1ll << 46))",
        "careful.lost * 1.01",
        "again = exact_mean<SQUARES>",
    )
    text, n, rng = source("layer_norm", TEAM, 15), 60, np.random.default_rng(3)
    assert text.count(bound) == text.count(careful) == text.count(exact) == 1
    x = np.vstack([rows_for_norms(rng, n)[::4], cancelling(rng, 20)])
    expected, wrong = ozaki.layer_norm(x, 1), []
    again = text.replace(bound, "#define OF_LOST 0.25")
    left = again.replace(careful, "fabs(careful.high) * 1e-9")
    for changed in (text, again, left):
        assert run("layer_norm", compiled(changed, tmp_path), x, 1e-5).tobytes() == expected.tobytes()
        spoilt = changed.replace(exact, "again = 3 * exact_mean<SQUARES>")
        out = run("layer_norm", compiled(spoilt, tmp_path), x, 1e-5)
        wrong.append((out.view(np.int32) != expected.view(np.int32)).any(axis=1))
    assert (wrong[0] == wrong[1]).all()
    assert 0 < wrong[0][100:].sum() == wrong[0].sum()
    assert 60 < wrong[2].sum() <= 120
    tie = np.zeros((1, 16), np.float32)
    tie[0, [0, 4, 8]], tie[0, [1, 2]] = [1, 2.0**-53, 2.0**-149], [0.0625, -0.0625]
    library = compiled(source("layer_norm", TEAM, 4), tmp_path)
    assert run("layer_norm", library, tie, 0.0).tobytes() == ozaki.layer_norm(tie, 1, eps=0.0).tobytes()
    for text_of in ("quick", "longer"):
        call = f"{text_of}_rsqrt(square, scale)"
        assert left.count(call) == 1
        left = left.replace(call, f"({call}, square > 0 && square < INFINITE)")
    assert run("layer_norm", compiled(left, tmp_path), x, 1e-5).tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [2, 60])
def test_means_and_scales(n, tmp_path):
    """Means that lie half way between two float32 numbers, or all but, are rounded once."""
    rng = np.random.default_rng(4)
    x = np.vstack([rows_for_norms(rng, 60)[::4], cancelling(rng, 20)])[:, :n]
    x = np.ascontiguousarray(x)
    half = np.float32(2.0**-24)
    x[:8, 0], x[:8, 1:] = [1, 1, 1, -1, 1, 3, 3, 1], 0
    x[:8, 1] = [half, half * 3, 0, half, -half, half * 2, 1, half * 5]
    if n == 60:
        x[:8, 2] = [2.0**-140, -(2.0**-140), 2.0**-149, -(2.0**-149), 0, 2.0**-90, -(2.0**-90), 0]
    moments = np.full((2, len(x)), -1, np.float32)
    library = compiled(source("layer_norm", TEAM, -(-n // TEAM), moments=True), tmp_path)
    out = run("layer_norm", library, x, 1e-5, moments=(moments[0], moments[1]))
    assert out.tobytes() == ozaki.layer_norm(x, 1).tobytes()
    assert moments[0].tobytes() == ozaki.mean(x, 1).tobytes()
    assert moments[1].tobytes() == inverse_deviation(x, 1, 1e-5).tobytes()
