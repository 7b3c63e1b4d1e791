"""Small products of which a GPU decides by itself what they take."""

import numpy as np
import pytest

import ozaki
from multiword.runtime.arrays import real_parts
from ozaki.arguments import request_of
from ozaki.certificate.counting import CERTIFIED, DECIDED, NOT_FINITE, OPEN
from ozaki.certificate.decision import decide_stack
from ozaki.certificate.pairwise import proves_nothing
from ozaki.certificate.small import scales_and_bounds
from ozaki.definition.decision import EVERYTHING
from ozaki.execution import executors, groups
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.steps import SPARE_BITS, row_limit
from ozaki.scaling.scales import widened
from ozaki.scaling.statistics import NONFINITE_ROW
from tests.execution.test_small_products import blocks, transforms
from tests.matrices import FACES, in_dtype
from tests.oracle import same

pytestmark = pytest.mark.gpu

DOUBLE = "float64", "complex128"


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


def numbers(rng, shape, dtype, zeros, spread, odd=False):
    """Normal numbers times powers of two, many zeros; with an Inf and a NaN; one of them graded."""
    x, _ = rng.standard_normal((2, *shape)) * 2.0 ** rng.integers(-spread, spread + 1, (2, *shape))
    x[rng.random(shape) < zeros] = 0
    if odd:
        x[0, 0, 0], x[1, -1, -1] = np.inf, np.nan
        x[2] *= 2.0 ** np.arange(0, 3 * shape[2], 3)
        x[3] = 0
    return in_dtype(x, x, dtype)[0]


def real_products(rows, columns):
    """Rows and columns of the products that real and imaginary parts are."""
    if rows.dtype.kind != "c":
        return [(rows, columns)]
    both = np.concatenate([rows.real, rows.imag], axis=-1)
    parts = ((columns.real, -columns.imag), (columns.imag, columns.real))
    return [(both, np.concatenate(x, axis=-1)) for x in parts]


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize(
    ("zeros", "spread"), [(0, 2), (0, 5), (0, 12), (0.3, 2), (0.6, 2), (0.6, 20), (0.95, 6)]
)
@pytest.mark.parametrize("shape", [(3, 4, 5), (17, 33, 6), (16, 16, 16), (40, 70, 64)], ids=str)
@pytest.mark.parametrize("dtype", FACES)
def test_decisions_are_the_hosts(cupy, dtype, shape, zeros, spread):
    """Products that are decided have the scales that the host finds; others are more than a GPU decides."""
    rng, stack, (m, k, n) = np.random.default_rng(len(dtype)), 60, shape
    rows, columns = (
        numbers(rng, (stack, m, k), dtype, zeros, spread, True),
        numbers(rng, (stack, n, k), dtype, zeros, spread),
    )
    columns[2] = columns[2] / 2.0 ** np.arange(0, 3 * k, 3)
    request = request_of(rows, "fp64" if dtype in DOUBLE else "fp32", "auto", None, "auto", None)
    a = Factor(rows.reshape(-1, k), 0, stack=stack)
    b = Factor(columns.reshape(-1, k).T, 1, stack=stack)
    pair = Pair(a, b, request)
    with np.errstate(all="ignore"):
        data = groups._StackData(pair)
        bounds = data.versions[0].bounds.wait_for_stack()
        bits = decide_stack(bounds, a.length, request.limits, data.answer)
    given = tuple([real_parts(cupy.asarray(x)) for x in (rows, columns)])
    found, pending = scales_and_bounds(given, request.limits, stack, SPARE_BITS)
    states = pending.wait_for_stack()[:, 0]
    assert same(states == CERTIFIED, bounds[:, 0] == CERTIFIED)
    assert same(states == NOT_FINITE, bounds[:, 0] == NOT_FINITE)
    decided, lossless = states == DECIDED, bits == EVERYTHING
    norm, exact = data.versions[0].scales, (a.exact_scales, b.exact_scales)
    room = row_limit(pair).bits + 2 * SPARE_BITS - (a.length - 1).bit_length()
    fits = np.ones(stack, np.bool_)
    for scale, of_norm, lossless_scale, x in zip(found, norm, exact, (a, b), strict=True):
        of_norm, lossless_scale = of_norm.reshape(stack, -1), lossless_scale.reshape(stack, -1)
        wider = np.stack(
            [widened(s, min(b, SPARE_BITS)) for s, b in zip(of_norm, bits.tolist(), strict=True)]
        )
        expected = np.where(decided[:, None], np.where(lossless[:, None], lossless_scale, wider), of_norm)
        zero = x.statistics.exponent.reshape(stack, -1) < -(1 << 13)
        made = scale.get().reshape(stack, -1)
        assert same(np.where(zero, 0, made), np.where(zero, 0, expected))
        wide = 2 * (x.statistics.exponent.reshape(stack, -1) + lossless_scale) > room
        fits &= ~(wide & ~zero & (lossless_scale != NONFINITE_ROW)).any(axis=1)
    apart = np.any([proves_nothing(*pair) for pair in real_products(rows, columns)], axis=0)
    left = (data.version == 1) & ~apart | np.where(lossless, ~fits, bits > SPARE_BITS)
    assert same(states == OPEN, (bounds[:, 0] == OPEN) & left)
    assert decided.any() or (zeros, spread) != (0.6, 2)


@pytest.mark.parametrize("n", [4, 6, 40])
@pytest.mark.parametrize("make", [transforms, blocks])
@pytest.mark.parametrize("dtype", FACES)
def test_stacks_that_a_gpu_decides_of_are_replayed(cupy, monkeypatch, dtype, make, n):
    rng = np.random.default_rng(n)
    for call in range(4):
        x, y = make(rng, n, dtype), make(rng, n, dtype)
        expected = ozaki.matmul(x, y)
        if call == 3 and (
            n < 40 or make is blocks
        ):  # translations and 1600 numbers: wider than there is room
            monkeypatch.setattr(groups.Groups, "run", None)
            monkeypatch.setattr(executors, "_rest", None)
        assert same(ozaki.matmul(cupy.asarray(x), cupy.asarray(y)).get(), expected)


@pytest.mark.parametrize("n", [1, 4, 16, 32])
@pytest.mark.parametrize("dtype", FACES)
def test_products_alone(cupy, dtype, n):
    """Ordinary ones, such as lose nothing, and such as take more bits, in any order."""
    rng = np.random.default_rng(n)
    for call in range(24):
        zeros, spread = ((0, 1), (0.5, 1), (0, 6), (0, 60))[rng.integers(4)] if call > 8 else (0.5, 1)
        x, y = (numbers(rng, (1, n, n), dtype, zeros, spread)[0] for _ in range(2))
        expected = FACES[dtype](x, y)
        assert same(FACES[dtype](cupy.asarray(x), cupy.asarray(y)).get(), expected), call


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
@pytest.mark.parametrize("dtype", FACES)
def test_all_kinds_in_a_stack(cupy, dtype):
    """Ordinary products, some that lose nothing, some of which pairs prove more, some with an Inf or NaN."""
    rng = np.random.default_rng(1)
    for call in range(8):
        zeros, spread = 0.5 if call % 3 else 0.0, 40 if call == 4 else 2
        x, y = (numbers(rng, (60, 12, 12), dtype, zeros, spread, True) for _ in range(2))
        x[:20] = blocks(rng, 12, dtype)[:20] if call % 4 else 1
        expected = ozaki.matmul(x, y)
        assert same(ozaki.matmul(cupy.asarray(x), cupy.asarray(y)).get(), expected), call
