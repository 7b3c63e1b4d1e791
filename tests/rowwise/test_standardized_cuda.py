"""Channels standardized on a GPU: the kernels without one. `tests/gpu/test_rowwise.py` has their bits."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from multiword.runtime.machine_code import OPTIONS
from ozaki.rowwise import standardized_cuda
from ozaki.rowwise.standardized import channel_sums, standardized
from ozaki.rowwise.standardized_cuda import ChannelShape, division, source
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, FLUSHING, OTHERS, compile_kernel
from tests.rowwise.test_cuda import TEAM, compiled, launched
from tests.rowwise.test_norms_cuda import cancelling, rows_for_norms

SHAPES = (1, 40, 30), (3, 40, 10), (5, 20, 1), (2, 30, 35)
"""Of which the last has parts, and the others have one."""


def forward_source(team, given=True):
    return source("standardized.cu", team, WEIGHT=given, BIAS=given)


def backward_source(team, given=True):
    return source("standardized_slopes.cu", team, WEIGHT=given)


@pytest.mark.whole
@pytest.mark.parametrize("source_of", [forward_source, backward_source])
@pytest.mark.parametrize(
    ("architecture", "team"), [(ARCHITECTURE, 256), *zip(OTHERS, (32, 256), strict=True)]
)
def test_compiles_without_contraction(architecture, team, source_of):
    ptx = compile_kernel(source_of(team), (f"--gpu-architecture={architecture}", *OPTIONS))
    assert set(FLUSHING.findall(ptx)) <= {"rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"}


def numbers(rng, shape):
    """Channels of all kinds: those of `rows_for_norms`, and some that cancel or differ in their last bits."""
    samples, channels, length = shape
    every = np.vstack([rows_for_norms(rng, 60), cancelling(rng, 60), cancelling(rng, 60).round(-30)])
    rows = every[rng.choice(len(every), channels, replace=False)][:, : samples * length]
    rows = np.hstack([rows, rows[:, ::-1], rows])[:, : samples * length]
    rows[0], rows[1, 1:] = 0.1, 0
    return np.ascontiguousarray(rows.reshape(channels, samples, length).swapaxes(0, 1))


def shape_of(x, size):
    n = x.shape[0] * x.shape[2]
    sizes = dict(zip(("samples", "channels", "length"), x.shape, strict=True))
    return ChannelShape(**sizes, parts=-(-n // size), size=size)


def forward(library, x, eps, size, weight=None, bias=None, averages=(None, None), share=0.0):
    shape = shape_of(x, size)
    sums, squares = np.empty((2, shape.channels * shape.parts, 3))
    means, moments, y = np.empty(shape.channels), np.empty((3, shape.channels), np.float32), np.empty_like(x)
    launched(library, "sums_of_channels", 3, (x, sums), shape)
    launched(library, "squares_of_channels", 3, (x, sums, means, squares), shape)
    arrays = x, means, squares, weight, bias, y, moments, *averages
    launched(library, "results_of_channels", 3, arrays, eps, 1 - share, share, shape)
    return y, *moments


def moved(averages, share, now):
    """Moving averages, all operations rounded to float32."""
    old, new = np.float32(1 - share), np.float32(share)
    with np.errstate(all="ignore"):
        return [a * old + b * new for a, b in zip(averages, now, strict=True)]


def affine(y, weight, bias):
    """y·weight + bias of channels, each rounded."""
    with np.errstate(all="ignore"):
        y = y if weight is None else y * weight[:, None]
        y = y if bias is None else y + bias[:, None]
    y[np.isnan(y)] = np.float32(np.nan)
    return y


def backward(library, g, x, weight, mean, scale, size):
    shape = shape_of(x, size)
    sums, of_x = np.empty((4, shape.channels * shape.parts, 3)), np.empty_like(x)
    of_affine = np.empty((2, shape.channels), np.float32)
    arrays = g, x, weight, mean, scale, sums
    launched(library, "sums_of_slopes", 3, arrays, shape)
    launched(library, "slopes_of_channels", 3, (*arrays, of_x, *of_affine), shape)
    return of_x, *of_affine


def expected_slopes(g, x, weight, mean, scale):
    """By the operations of `ozaki.torch.norms.slope`, in float32."""
    n = np.float32(x.shape[0] * x.shape[2])
    with np.errstate(all="ignore"):
        h = g if weight is None else g * weight[:, None]
        y = (x - mean[:, None]) * scale[:, None]
        product, total = channel_sums(h, y), channel_sums(h)
        of_x = ((h - (total / n)[:, None]) - y * (product / n)[:, None]) * scale[:, None]
        return of_x, channel_sums(g, y), channel_sums(g)


def same(found, expected, signs=True):
    """Whether bits agree; not those of NaN, which differ between CPUs and GPUs, nor signs of zeros, then."""
    if not signs:
        return np.array_equal(found, expected, equal_nan=True)
    nan = np.isnan(expected)
    return (np.isnan(found) == nan).all() and found[~nan].tobytes() == expected[~nan].tobytes()


OPEN = (
    ("part.n, 1.0 / part.n, mean);", "part.n, 1.0 / part.n, mean) | true;"),
    ("if (low == 0 && high == 0) return true;", "return false;"),
    (" || (sum.low == 0 && sum.lost == 0)) return false;", ") return false;"),
)
"""What decides whether sums are taken again, and what has all of them taken."""


def changed(text):
    """The kernels with all sums taken again."""
    assert sum(text.count(old) for old, _ in OPEN) >= len(OPEN) - 1  # the derivatives have no means
    for old, new in OPEN:
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("opened", [False, True])
def test_the_bits_of_a_cpu(shape, opened, tmp_path):
    """By quick sums, and with all sums taken again, which makes 0 of sums of −0 alone."""
    rng = np.random.default_rng([*shape])

    def kernels(source_of, given):
        return compiled(changed(source_of(TEAM, given)) if opened else source_of(TEAM, given), tmp_path)

    x, channels = numbers(rng, shape), shape[1]
    weight, bias = rng.standard_normal((2, channels)).astype(np.float32)
    size = 8 if shape[0] == 2 else shape[0] * shape[2]
    y, *moments = standardized(x, 1e-5, True)
    found, *others = forward(kernels(forward_source, True), x, 1e-5, size, weight, bias)
    assert found.tobytes() == affine(y, weight, bias).tobytes()
    for one, other in zip(others, moments, strict=True):
        assert same(one, other, not opened)
    assert same(forward(kernels(forward_source, False), x, 1e-5, size)[0], y, not opened)
    g = numbers(rng, shape)
    g[:, 2:5] = rng.integers(-2, 3, g[:, 2:5].shape)
    for w in (weight, None):
        slopes, library = expected_slopes(g, x, w, *moments[:2]), kernels(backward_source, w is not None)
        for one, other in zip(backward(library, g, x, w, *moments[:2], size), slopes, strict=True):
            assert same(one, other, not opened)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [0.1, 1.0, 1e-40])
def test_averages_move(shape, share, tmp_path):
    rng = np.random.default_rng([*shape])
    library, x = compiled(forward_source(TEAM, False), tmp_path), numbers(rng, shape)
    averages = rng.standard_normal((2, shape[1])).astype(np.float32)
    averages[:, 3], averages[:, 4] = 1e-39, -0.0
    size = 8 if shape[0] == 2 else shape[0] * shape[2]
    found = averages.copy()
    _, mean, _, variance = forward(library, x, 1e-5, size, averages=found, share=share)
    for one, other in zip(found, moved(averages, share, (mean, variance)), strict=True):
        assert same(one, other)
    alone = averages[0].copy()
    forward(library, x, 1e-5, size, averages=(alone, None), share=share)
    assert alone.tobytes() == found[0].tobytes()


def test_zeros_keep_their_signs(tmp_path):
    library, slopes = (compiled(of(TEAM, False), tmp_path) for of in (forward_source, backward_source))
    x = np.full((2, 3, 4), -0.0, np.float32)
    x[1, 1, 2], x[0, 2] = 0.0, 1.0
    x[1, 2] = -1.0
    y, *moments = standardized(x, 0.5, True)
    found, *others = forward(library, x, 0.5, 8)
    assert found.tobytes() == y.tobytes()
    assert [a.tobytes() for a in others] == [a.tobytes() for a in moments]
    for one, other in zip(
        backward(slopes, x, x, None, *moments[:2], 8), expected_slopes(x, x, None, *moments[:2]), strict=True
    ):
        assert one.tobytes() == other.tobytes()


def test_words_of_sums_that_cancel_are_not_taken_for_decided(tmp_path):
    """Of gradients: the larger words of a sum cancel, and what they lost is all that is left."""
    rng, library = np.random.default_rng(11), compiled(backward_source(TEAM, False), tmp_path)
    g = np.zeros((1, 130, 20), np.float32)
    for c, order in enumerate(permutations(range(5))):
        g[0, c, :20:4] = np.float32([1, 2.0**-60, 2.0**-120, -1, -(2.0**-60)])[list(order)]
    for c in range(120, 130):
        large = rng.standard_normal(9) * 2.0 ** rng.integers(-120, 20, 9)
        g[0, c] = np.concatenate([large, -rng.permutation(large), [0, 2.0**-149]]).astype(np.float32)
    x, mean, scale = np.ones_like(g), np.zeros(130, np.float32), np.ones(130, np.float32)
    for one, other in zip(
        backward(library, g, x, None, mean, scale, 20),
        expected_slopes(g, x, None, mean, scale),
        strict=True,
    ):
        assert one.tobytes() == other.tobytes()


def test_variances_have_both_words_of_their_sums(tmp_path):
    """Of numbers of one thread whose squares add up to a little more than half way, by many small ones."""
    library = compiled(forward_source(TEAM, False), tmp_path)
    half, rest = [4096.0], 1 - Fraction(1, 2**22)  # (2·4096² + 2·rest + 1000·2**-30) / 4096 is the variance
    for _ in range(2):
        half.append(float(np.nextafter(np.float32(math.sqrt(rest)), np.float32(0))))
        rest -= Fraction(half[-1]) ** 2
    half += [2.0**-15] * 500
    x = np.zeros((1, 1, 4097), np.float32)
    x[0, 0, : 8 * len(half) : 4] = np.array([half, np.negative(half)]).T.ravel()
    tiny = np.float32([4097, -4097, 2.0**-149, -(2.0**-149), 0])
    for data in (x, tiny.reshape(1, 1, 5), np.full((1, 1, 2), 1e-10, np.float32)):
        _, *moments = standardized(data, 1e-5, True)
        _, *found = forward(library, data, 1e-5, data.shape[2])
        for one, other in zip(found, moments, strict=True):
            assert one.tobytes() == other.tobytes()
    assert not np.signbit(found[2]).any()


def test_ties_but_for_the_least_error(tmp_path):
    library = compiled(forward_source(TEAM, False), tmp_path)
    x = np.zeros((1, 1, 16), np.float32)
    x[0, 0, [0, 4, 8]], x[0, 0, [1, 2]] = [1, 2.0**-53, 2.0**-149], [0.0625, -0.0625]
    y, *moments = standardized(x, 0.0, True)
    found, *others = forward(library, x, 0.0, 16)
    assert found.tobytes() == y.tobytes()
    assert [a.tobytes() for a in others] == [a.tobytes() for a in moments]


def test_parts_are_channels(monkeypatch):
    monkeypatch.setattr(standardized_cuda, "multiprocessors", lambda: 132)
    for channels in (1, 64, 4096):
        for n in (1, 1024, 1025, 5000, 802_816, standardized_cuda.MOST - 1):
            team, parts, size = division(channels, n)
            assert (parts - 1) * size < n <= parts * size
            assert team == (32 if n <= 1024 else 256)
            assert parts == 1 or (channels * parts <= 8 * 132 and size >= 4096)
