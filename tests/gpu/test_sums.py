"""Sums, dot products, norms and running sums on a GPU have the CPU's bits."""

import math
import pickle

import ml_dtypes
import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from ozaki.sums import api as oz
from ozaki.sums import cumulative, groups_skipping
from ozaki.sums.exact import groups, matrix_products, moments, reduction_cuda
from ozaki.sums.exact.fixed_point import Rounding
from ozaki.sums.exact.reduction import rounded_sums
from ozaki.sums.exact.summands import Summands
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.statistics import average
from tests.gpu.same import same_on_the_gpu
from tests.oracle import nearest_root
from tests.sums import test_matrix_products
from tests.sums.test_enclosures import tiny_errors
from tests.sums.test_exactsum import PARTS
from tests.sums.test_fixedpoint import halfway_roots
from tests.sums.test_groups import of_lanes_that_overflow_together
from tests.sums.test_reductions import FLOATS, bits, wide

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("n", [0, 1, 31, 2047, 2048, 2049, 100_003, 3_000_001])
@pytest.mark.parametrize("octaves", [1, 30, 500])
def test_sums_and_products(n, octaves):
    rng = np.random.default_rng(n)
    x, y = wide(rng, n, octaves), wide(rng, n, octaves)
    for function in (oz.sum, oz.norm):
        same_on_the_gpu(function, x)
    for function in (oz.dot, oz.vdot):
        same_on_the_gpu(function, x, y)
    if n:
        same_on_the_gpu(oz.mean, x)
    cancelling = rng.permutation(np.concatenate([x, -x, wide(rng, 3, 3) * 2.0**-200]))
    same_on_the_gpu(oz.sum, cancelling)
    same_on_the_gpu(oz.dot, cancelling, np.ones(len(cancelling)))


def test_products_whose_errors_are_no_float64():
    x, y, total = tiny_errors(4096)
    for pair in ((x, y), (np.tile(x, (3, 1)), y), (np.tile(x[:, None], 40), y[:, None])):
        axis = 0 if pair[0].shape[0] == len(x) else -1
        assert (oz.dot(*pair, axis=axis) == total).all()
        same_on_the_gpu(oz.dot, *pair, axis=axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128, np.int64])
def test_averages(dtype):
    rng = np.random.default_rng(3)
    x, weights = (9 * wide(rng, (40, 30), 20)).astype(dtype), rng.standard_normal((40, 30))
    for axis, w in ((None, weights), (0, weights), (1, weights[0])):
        same_on_the_gpu(lambda x, w, axis=axis: average(x, axis, w), x, w)


def test_whole_range_growing_and_shrinking():
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal(200_000), rng.integers(-1075, 1000, 200_000))
    same_on_the_gpu(oz.sum, x)
    same_on_the_gpu(oz.dot, x, x[::-1].copy())
    same_on_the_gpu(oz.sum, np.sort(x))
    same_on_the_gpu(oz.sum, np.sort(rng.standard_normal(200_000)))
    same_on_the_gpu(oz.sum, x[np.abs(x) < 1e-300])
    same_on_the_gpu(oz.dot, x[:999], x[:999] * 0)
    same_on_the_gpu(oz.sum, np.ldexp(rng.uniform(-2, 2, 5000), 1022))
    for tail in (0.0, 2.0**-300, -(2.0**-300), 2.0**-1074):
        same_on_the_gpu(oz.sum, np.array([1 + 2.0**-52, 2.0**-53, tail]))
        same_on_the_gpu(oz.sum, np.array([3 * 2.0**-1074, tail]))


def test_special_values():
    inf, nan, big = np.inf, np.nan, np.finfo(float).max
    rows = [
        [-0.0] * 3,
        [-0.0, 0.0, -0.0],
        [1, -1, 0],
        [inf, 1, 1],
        [-inf, 1, 1],
        [inf, -inf, 1],
        [nan, 1, inf],
    ]
    rows += [[big, big, -big], [big, big, 1], [-big, -big, 0], [big, 2.0**970, 0], [5e-324, 5e-324, -5e-324]]
    x = np.array(rows, float)
    same_on_the_gpu(oz.sum, x, axis=1)
    same_on_the_gpu(oz.sum, np.tile(x, 3000), axis=1)
    same_on_the_gpu(oz.sum, x, axis=0)
    for y in (np.ones(3), -np.ones(3), np.zeros(3), np.array([1e300, -1e-300, 1e-320])):
        same_on_the_gpu(oz.dot, x, y, axis=1)
    same_on_the_gpu(oz.dot, np.array([-1e-320, 0.0]), np.array([1e-320, 0.0]))


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.complex64), np.dtype(np.complex128)], ids=str)
def test_dtypes_and_axes(dtype):
    rng = np.random.default_rng(1)
    x = wide(rng, (37, 41, 29), 4)
    if dtype.kind == "c":
        x = x + 1j * wide(rng, x.shape, 4)
    x = x.astype(dtype)
    for axis in (None, 0, 1, 2, (0, 2), (1, 2)):
        same_on_the_gpu(oz.sum, x, axis=axis)
        same_on_the_gpu(oz.norm, x, axis=axis)
    same_on_the_gpu(oz.mean, x, axis=1, keepdims=True)
    same_on_the_gpu(oz.dot, x, x[::-1].copy(), axis=1)
    same_on_the_gpu(oz.vdot, x, x[::-1].copy())
    same_on_the_gpu(oz.sum, x, dtype=np.complex128 if dtype.kind == "c" else np.float64)


def test_strides_integers_and_mixed_dtypes(cupy):
    rng = np.random.default_rng(2)
    host = wide(rng, (60, 50, 40))
    x = cupy.asarray(host)
    for view in (np.s_[::2, ::3, 1::2], np.s_[::-1, :, ::-1], np.s_[:, 7, :], np.s_[3:4, :, 5]):
        for axis in (None, 0, -1):
            assert bits(oz.sum(x[view], axis=axis).get()) == bits(oz.sum(host[view], axis=axis))
            product = oz.dot(x[view], x[view] + 1, axis=-1).get()
            assert bits(product) == bits(oz.dot(host[view], host[view] + 1, axis=-1))
    assert bits(oz.sum(x.transpose(2, 0, 1), axis=(0, 1)).get()) == bits(oz.sum(host, axis=(0, 2)))
    one = cupy.broadcast_to(cupy.array(0.1), (3000, 3000))
    assert float(oz.mean(one)) == 0.1
    integers = rng.integers(-(2**63), 2**63 - 1, 1000)
    same_on_the_gpu(oz.mean, integers)
    same_on_the_gpu(oz.norm, integers)
    same_on_the_gpu(oz.dot, integers, wide(rng, 1000))
    same_on_the_gpu(oz.dot, wide(rng, 1000).astype(np.float32), wide(rng, 1000))
    same_on_the_gpu(oz.sum, integers.astype(np.int32))
    out = cupy.empty((60, 1, 40))
    assert oz.sum(x, axis=1, keepdims=True, out=out) is out
    with pytest.raises(TypeError, match="NumPy"):
        oz.dot(x, host)


def test_accumulators_have_the_hosts_bytes(cupy):
    rng = np.random.default_rng(3)
    for dtype in (*FLOATS, np.dtype(np.complex128)):
        x = wide(rng, (3000, 2, 3), 300 if dtype.itemsize >= 8 else 3).astype(dtype)
        host, mixed = ExactSum(dtype, (2, 3)).add(x), ExactSum(dtype, (2, 3)).add(x[:1000])
        mixed.add(cupy.asarray(x[1000:]))
        assert mixed.to_bytes() == host.to_bytes()
        host.add_products(x, x)
        mixed.add_products(cupy.asarray(x), cupy.asarray(x))
        assert mixed == host


def test_accumulators_stay_on_the_gpu(cupy):
    rng = np.random.default_rng(13)
    for dtype in (*FLOATS, np.dtype(np.complex64), np.dtype(np.complex128)):
        x = wide(rng, (3000, 2, 3), 300 if dtype.itemsize >= 8 and dtype != np.complex64 else 3).astype(dtype)
        x[5, 0, 1], x[6, 1, 2] = np.nan, -np.inf
        host = ExactSum(dtype, (2, 3)).add(x).add_products(x, x)
        parts = [ExactSum(dtype, (2, 3)).add(cupy.asarray(y)) for y in (x[:1000], x[1000:1000], x[1000:])]
        parts.append(ExactSum(dtype, (2, 3)).add_products(cupy.asarray(x), cupy.asarray(x)))
        assert all(isinstance(part.round(), cupy.ndarray) for part in parts)
        window = np.max([part.window for part in parts], axis=0)
        digits = sum(part.to_digits(window) for part in parts)
        assert isinstance(digits, cupy.ndarray)
        total = ExactSum.from_digits(digits, window, dtype)
        assert total == host
        assert bits(total.round().get()) == bits(host.round())
        assert bits(total.to_digits(window).get()) == bits(host.to_digits(window))
        back = pickle.loads(pickle.dumps(total))
        assert isinstance(back.round(), cupy.ndarray)
        assert back == host
        assert back.merge(host).add(x) == ExactSum(dtype, (2, 3)).merge(host).merge(host).add(x)
        assert back.__sizeof__() < 2000 + host.nbytes


def test_many_outputs():
    rng = np.random.default_rng(4)
    x = wide(rng, (140_000, 7))
    same_on_the_gpu(oz.sum, x, axis=1)
    same_on_the_gpu(oz.sum, x.T, axis=0)
    same_on_the_gpu(oz.sum, x, axis=0)
    same_on_the_gpu(oz.dot, x, x[::-1].copy(), axis=1)
    scales = np.ldexp(x[:5000], rng.integers(-900, 900, 7))
    scales[7, 3], scales[9, 4], scales[:, 5] = np.nan, np.inf, -0.0
    for axis in (0, 1):
        same_on_the_gpu(oz.sum, scales, axis=axis)
        same_on_the_gpu(oz.norm, np.tile(scales, 9), axis=axis)
        same_on_the_gpu(oz.dot, scales, scales[::-1].copy(), axis=axis)


@pytest.mark.parametrize(
    "shape", [(2000, 3), (2000, 2), (1100, 9), (3, 2000), (33, 300), (300, 600), (1200, 520)]
)
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.complex64), np.dtype(np.complex128)], ids=str)
def test_shapes_zeros_and_special_values(dtype, shape):
    """Every way in which threads share outputs, with what takes the short way, the long one and none."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    x = x.astype(dtype)
    x[rng.random(shape) < 0.3], x[rng.random(shape) < 0.1], x[2] = 0, -0.0, -0.0
    x[:, 1] = 0
    special, few_bits = x.copy(), (np.round(x.real.astype(float) * 4) / 4).astype(dtype)
    if dtype.kind != "c":
        for value in (np.inf, -np.inf, np.nan):
            special[rng.random(shape) < 0.01] = value
    for y in (x, special, few_bits):
        for axis in (0, 1, None):
            for function in (oz.sum, oz.mean, oz.norm):
                same_on_the_gpu(function, y, axis=axis)
    same_on_the_gpu(oz.dot, x, x[::-1].copy(), axis=0)
    same_on_the_gpu(oz.dot, x, x[::-1].copy(), axis=1)


def test_more_elements_than_an_int_counts(cupy):
    count = 2**31 + 5
    ones = cupy.ones((count, 2), np.float16)
    assert float(oz.sum(ones[:, 0].copy(), dtype=np.float64)) == count
    assert float(oz.norm(ones.reshape(-1)[:count], dtype=np.float64)) == math.sqrt(count)
    assert oz.sum(ones, axis=0, dtype=np.float64).tolist() == [count, count]
    assert oz.sum(ones.T, axis=1, dtype=np.float64).tolist() == [count, count]
    twos = oz.sum(ones, axis=1)
    assert twos.shape == (count,)
    assert bool((twos == 2).all())


def test_memory_beyond_the_input_is_constant(cupy):
    x = cupy.random.default_rng(1).standard_normal((2 * 10**8,))
    pool = cupy.get_default_memory_pool()
    for shape, axis in (
        ((-1,), None),
        ((20_000, 10_000), 0),
        ((20_000, 10_000), 1),
        ((-1, 100), 1),
        ((-1, 2), 0),
    ):
        y = x.reshape(shape)
        pool.free_all_blocks()
        before = pool.total_bytes()
        result = oz.sum(y, axis=axis)
        assert pool.total_bytes() - before < 2 * result.nbytes + (1 << 28)


def test_accumulators_travel(cupy):
    rng = np.random.default_rng(7)
    x = np.ldexp(rng.standard_normal(9000), rng.integers(-1000, 1000, 9000))
    whole = ExactSum().add(x)
    parts = [
        ExactSum().add(cupy.asarray(p) if i % 2 else p) for i, p in enumerate(np.split(rng.permutation(x), 9))
    ]
    total = ExactSum()
    for part in parts:
        total.merge(pickle.loads(pickle.dumps(part)))
    assert total.to_bytes() == whole.to_bytes()
    assert float(oz.sum(cupy.asarray(x))) == whole.round() == oz.sum(x)


def test_means_and_norms(cupy, monkeypatch):
    rng = np.random.default_rng(6)
    x = wide(rng, (333, 2001), 300)
    x[:, :5] = [1, 1 + 2.0**-52, 3, 4, 2.0**-1074]
    x[:, 7] = np.where(np.arange(333) < 2, 2.0**600 * np.array([3, 4] + [0] * 331), 0)
    for function in (oz.mean, oz.norm):
        same_on_the_gpu(function, x, axis=0)
        same_on_the_gpu(function, -x, axis=1)
        same_on_the_gpu(function, x[:, :9], axis=1)
    for values in ([2.0**-1074, 0, 2.0**-1074], [-(2.0**-1074), 0, 0], [1, 1 + 2.0**-52], [5e-324] * 2):
        same_on_the_gpu(oz.mean, np.array(values, float))
        same_on_the_gpu(oz.norm, np.array(values, float))
    for n in (1, 4, 16, 25, 1023):
        same_on_the_gpu(oz.norm, np.ones(n))
        same_on_the_gpu(oz.norm, np.full(n, np.finfo(float).max))
    monkeypatch.setattr(reduction_cuda, "_LARGEST_DIVISOR", 2)
    same_on_the_gpu(oz.mean, x, axis=0)
    assert cupy.isnan(oz.mean(cupy.zeros(0)))


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype(np.complex128)], ids=str)
@pytest.mark.parametrize("octaves", [1, 30, 600])
def test_running_sums_have_the_hosts_bits(dtype, octaves, monkeypatch):
    rng = np.random.default_rng(octaves)
    span = {2: 6, 4: 100}.get(dtype.itemsize, 1000)
    e = min(octaves, span)
    x = np.ldexp(rng.standard_normal((700, 3)), rng.integers(-e, e, (700, 3)))
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(x.shape)
    x = x.astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for axis in (0, 1, None):
            same_on_the_gpu(cumulative.cumsum, x, axis=axis)
        same_on_the_gpu(cumulative.cumsum, np.concatenate([x, -x[::-1]]), axis=0)
        for empty in ((0, 3), (3, 0)):
            same_on_the_gpu(cumulative.cumsum, np.zeros(empty, dtype), axis=0)
        if dtype.kind != "c":
            x[:300, 0], x[400, 0], x[500, 0], x[600, 1] = -0.0, np.inf, -np.inf, np.nan
            same_on_the_gpu(cumulative.cumsum, x, axis=0)
        monkeypatch.setattr(cumulative, "_TILES", 4)
        same_on_the_gpu(cumulative.cumsum, x, axis=0)
    same_on_the_gpu(cumulative.cumsum, np.array([2**62, 2**62, 1, -3] * 100), dtype=np.float64)


@pytest.mark.parametrize("shape", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_is_rounded_to_zero_keeps_its_sign(cupy, dtype, shape):
    for tiny in (-1e-60, -5e-308, 1e-60):
        x = np.full((2, *shape), tiny * (1 - 1j if dtype == "complex64" else 1))
        expected = ExactSum(x.dtype, shape).add(x).round(dtype)
        found = ExactSum(x.dtype, shape).add(cupy.asarray(x)).round(dtype)
        assert found.get().tobytes() == np.asarray(expected).tobytes(), tiny


@pytest.mark.parametrize("terms", [1 << 24, 5000])
def test_sums_by_group(terms, monkeypatch):
    monkeypatch.setattr(groups, "GROUP_TERMS_ON_DEVICE", terms)
    monkeypatch.setattr(groups, "GROUP_REST", 1000)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 99, 20_000)  # the last group is empty
    normal = rng.standard_normal(20_000)
    zeros = np.where(labels % 3 == 0, -0.0, np.where(labels % 3 == 1, 0.0 * normal, normal))
    special = np.where(rng.random(20_000) < 1e-3, rng.choice([np.inf, -np.inf, np.nan], 20_000), normal)
    spread = np.ldexp(normal, rng.integers(-1075, 1000, 20_000))
    subnormal = np.float32(normal * 2.0**-130)
    for x in (wide(rng, 20_000), spread, normal, zeros, special, normal.astype(np.float32), subnormal):
        for function in (ozaki.group_sum, ozaki.group_mean, ozaki.group_var, ozaki.group_std):
            same_on_the_gpu(lambda v, g, function=function: function(v, g, 100), x, labels)
        same_on_the_gpu(lambda v, g: ozaki.group_dot(v, v, g, 100), x, labels)
        same_on_the_gpu(lambda v, g: ozaki.group_sum(v.reshape(2, -1), g[:10_000], 100), x, labels)
        for count in (1, 3, 70_000):
            for function in (ozaki.group_sum, ozaki.group_mean, ozaki.group_std):
                same_on_the_gpu(lambda v, g, n=count, f=function: f(v, g % n, n), x, labels * 700)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex128"])
def test_ratios_by_group_are_one_launch(cupy, dtype, monkeypatch):
    """Of ordinary data, of any layout; empty groups, zeros, groups of one number, of all numbers."""
    rng, n = np.random.default_rng(8), 5000
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = (rng.standard_normal(2 * n) * (1 - 2j if kind.kind == "c" else 1)).astype(kind)[::2]
    zeros = x.copy()
    zeros[: n // 2] = -0.0
    zeros[: n // 4 : 2] = 0.0
    cases = [
        (100, rng.integers(0, 99, n)),
        (1, np.zeros(n, int)),
        (n + 7, np.arange(n)),
        (4, np.arange(n) % 4),
    ]
    cases.append((40, np.sort(rng.integers(0, 40, n))))
    monkeypatch.setattr(moments, "_by_group", counting := Counting(moments._by_group))
    for many, labels in cases:
        for y in (x, zeros):
            same_on_the_gpu(ozaki.group_mean, y, labels, num_groups=many)
            same_on_the_gpu(ozaki.group_var, y, labels, num_groups=many, ddof=1)
            same_on_the_gpu(ozaki.group_std, y, labels, num_groups=many)
    assert counting.calls > 0
    assert not counting.refused
    for bad in (-1, 100):
        with pytest.raises(ValueError, match="labels"):
            ozaki.group_mean(cupy.asarray(x), cupy.asarray(np.append(cases[0][1][1:], bad)), 100)


@pytest.mark.parametrize("name", ["group_nansum", "group_nanmean", "group_nanvar", "group_nanstd"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex64"])
def test_groups_without_nan(name, dtype):
    """Some with nothing, or with too few numbers, have NaN in the dtype of the others."""
    x = np.array([1.5, np.nan, 2.0, np.nan, -7.0, 3.0]).astype(getattr(ml_dtypes, dtype, dtype))
    labels, options = np.array([0, 0, 0, 1, 2, 4]), [{"min_count": least} for least in range(3)]
    if name.endswith(("var", "std")):
        options += [{"ddof": 1}, {"ddof": 1, "min_count": 2}, {"ddof": 0.5}, {"ddof": -3, "min_count": 0}]
    for y in (x, x + 1j * x[::-1]) if dtype == "complex64" else (x, -x * 0):
        for given in options:
            same_on_the_gpu(getattr(ozaki, name), y, labels, num_groups=5, **given)


@pytest.mark.parametrize("name", ["group_nanmean", "group_nanvar", "group_nanstd"])
def test_a_kernel_leaves_out_nan(cupy, monkeypatch, name):
    """Of ordinary numbers all groups are decided by one, as by a CPU's loops."""
    refused = Counting(groups_skipping._at_once)
    monkeypatch.setattr(groups_skipping, "_at_once", refused)
    rng = np.random.default_rng(5)
    labels, x = rng.integers(0, 300, 5000), rng.standard_normal(5000)
    same_on_the_gpu(getattr(ozaki, name), np.where(x > 1, np.nan, x), labels, num_groups=400)
    assert (refused.calls, refused.refused) == (2, 0)


class Counting:
    """A function of which the calls, and those that return None, are counted."""

    def __init__(self, function):
        self.function, self.calls, self.refused = function, 0, 0

    def __call__(self, *arguments, **options):
        result = self.function(*arguments, **options)
        self.calls, self.refused = self.calls + 1, self.refused + (result is None)
        return result


def test_sums_in_a_callers_graph_are_refused(cupy):
    x = cupy.ones(10**6)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        assert ozaki.sum(x) == 10**6
        stream.begin_capture()
        try:
            rows = ozaki.softmax, ozaki.layer_norm, lambda x: ozaki.logsumexp(x.astype(np.float32))
            for function in (ozaki.sum, ozaki.norm, ozaki.cumsum, ozaki.var, *rows):
                with pytest.raises(ValueError, match="CUDA graph"):
                    function(x)
        finally:
            stream.end_capture()
        assert ozaki.sum(x) == 10**6


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n", [1, 2, 3, 1000, 100_003])
def test_one_sum_of_short_numbers_reads_words(dtype, n):
    x = np.random.default_rng(n).standard_normal(n + 1).astype(dtype)
    for y in (x[:n], x[1:]):  # one of them begins between words
        same_on_the_gpu(oz.sum, y)
        same_on_the_gpu(oz.norm, y)


def test_lanes_of_a_group_overflow_no_word_together(cupy):
    total, exact = of_lanes_that_overflow_together(cupy)
    assert total == exact


def test_labels_of_no_group_on_a_gpu(cupy):
    x, labels = cupy.ones((2, 5000)), cupy.arange(5000) % 3
    labels[[4000, 4500]] = 3, -1
    for call in (ozaki.group_sum, ozaki.group_mean, ozaki.group_std):
        for values in (x, x[0], cupy.full(5000, 1e300), cupy.zeros(5000)):
            with pytest.raises(ValueError, match="= 2, got 3 at index 4000"):
                call(values, labels, 3)
    with pytest.raises(ValueError, match="= 2, got 3 at index 4000"):
        ozaki.group_dot(x[0] * 1e200, x[0] * 1e200, labels, 3)


@pytest.mark.parametrize("name", ["fp64", "fp32"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10**6 + 1, 2**32 - 1, 2**40 + 1])
def test_roots_of_quotients(cupy, name, divisor):
    """Every column at once, and a few alone; sums of few numbers, and of many."""
    x, exact = halfway_roots(FORMATS[name], divisor)
    rounding = Rounding(FORMATS[name], divisor, root=True)
    expected = [nearest_root(square, FORMATS[name]) for square in exact]
    for repeated in (1, 2000):
        padded = cupy.asarray(np.concatenate([x, np.zeros(((repeated - 1) * len(x), x.shape[1]))]))
        for y in (padded, cupy.asfortranarray(padded)):
            assert rounded_sums([Summands((y,))], 1, rounding).tolist() == expected
        for i in range(6):
            assert float(rounded_sums([Summands((padded[:, i],))], 1, rounding)) == expected[i]


@pytest.mark.parametrize("first", PARTS)
@pytest.mark.parametrize("second", PARTS)
def test_flags_are_kept_between_devices(cupy, first, second):
    """In every order of adding and merging, with arrays on both sides; then once more on either."""
    x, y = (np.array(PARTS[name], float) for name in (first, second))
    expected = ExactSum().add(np.concatenate([x, y]))
    for a, b in ((x, cupy.asarray(y)), (cupy.asarray(x), y), (cupy.asarray(x), cupy.asarray(y))):
        for total in (ExactSum().add(a).add(b), ExactSum().add(a).merge(ExactSum().add(b))):
            assert total.to_bytes() == expected.to_bytes()
            for more in (np.array([-0.0]), cupy.array([-0.0])):
                again = ExactSum().merge(total).add(more)
                assert again.to_bytes() == (expected + ExactSum().add(np.array([-0.0]))).to_bytes()


SHAPES = [
    (1, 7),
    (3, 1),
    (1000, 4),
    (4, 1000),
    (300, 768),
    (768, 300),
    (70_000, 3),
    (2, 100_001),
    (1, 300_000),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128", "complex64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_variances_in_one_pass(cupy, shape, dtype):
    """Long and short rows and columns, by one block and by several; on a CPU they are rounded by integers."""
    rng = np.random.default_rng(len(dtype))
    x = (
        rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        if dtype[0] == "c"
        else 3 + rng.random(shape)
    )
    x = x.astype(dtype)
    for y in (x, x[:, ::-1], np.asfortranarray(x)):
        for axis in (0, 1, None):
            for options in ({}, {"ddof": 1}, {"ddof": 5}):
                same_on_the_gpu(ozaki.var, y, axis=axis, **options)
            same_on_the_gpu(ozaki.std, y, axis=axis, ddof=1)


@pytest.mark.parametrize("function", [ozaki.var, ozaki.std, ozaki.nanvar, ozaki.nanstd])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_variances_of_what_is_not_ordinary(cupy, function, dtype):
    """Zeros, equal numbers, cancellation, subnormal numbers, wide ranges, Inf and NaN; one number, none."""
    rng = np.random.default_rng(0)
    ordinary = rng.standard_normal((40, 60))
    cases = [
        np.zeros((3, 5)),
        np.full((3, 5), 1e-30),
        1e8 + ordinary,
        ordinary * 2.0**-140,
        np.ldexp(ordinary, rng.integers(-60, 60, ordinary.shape)),
        np.where(rng.random(ordinary.shape) < 0.1, np.nan, ordinary),
        np.where(rng.random(ordinary.shape) < 0.02, np.inf, ordinary),
        np.full((4, 3), np.nan),
        ordinary[:, :1],
        np.ldexp(ordinary[:2], [[600], [-600]]),
        np.ldexp(rng.integers(-3, 4, (50, 9)).astype(float), -1074),
        np.where(np.eye(30, 40) > 0, np.nan, 7.0),
    ]
    for x in cases:
        with np.errstate(all="ignore"):
            y = x.astype(dtype)
            if dtype[0] == "c":
                y = y * (1 - 2j)
        for axis in (0, 1, None):
            for ddof in (0, 1, 3, 0.5):
                same_on_the_gpu(function, y, axis=axis, ddof=ddof)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_sums_of_rows(cupy, shape, dtype):
    """Rows and columns, short and long, and what is left to tiles: wide ranges, Inf and NaN."""
    rng = np.random.default_rng(len(dtype))
    x = rng.standard_normal(shape) * (1 - 0.5j if dtype[0] == "c" else 1)
    zeros = np.where(rng.random(shape) < 0.5, -0.0, np.round(x.real)) * (1 if dtype[0] == "f" else -1j)
    zeros.ravel()[: x.size // 2] = -0.0
    wide, special = x.copy(), x.copy()
    wide.ravel()[::7] *= 2.0**-60 if dtype != "float16" else 2.0**-10
    special.ravel()[-1] = np.inf
    for y in (x, x[:, ::-1], np.asfortranarray(x), zeros, wide, special):
        with np.errstate(all="ignore"):
            y = y.astype(dtype)
        for axis in (0, 1, None):
            same_on_the_gpu(ozaki.cumsum, y, axis=axis)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("n", [2049, 4096, 70_001, 1_000_003])
def test_running_sums_of_long_rows(cupy, n, dtype):
    """A row that blocks share: −0 until somewhere, cancellation, a number out of range in the last part."""
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 2)) * (1 - 0.5j if dtype[0] == "c" else 1)
    x[n // 2 :] -= x[: n - n // 2][::-1]
    zeros, special = x.copy(), x.copy()
    zeros[: 2 * n // 3, 0] = -0.0
    special[n - 1, 1] = np.nan
    for y in (x.astype(dtype), zeros.astype(dtype), special.astype(dtype)):
        same_on_the_gpu(ozaki.cumsum, y, axis=0)
        same_on_the_gpu(ozaki.cumsum, np.ascontiguousarray(y.T)[::-1], axis=1)
    same_on_the_gpu(ozaki.cumsum, x[::-2, 0].astype(dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_are_one_launch_a_part(cupy, dtype, monkeypatch):
    """Rows and columns, short and long; two launches for the two parts, not four and totals in memory."""
    rng, grids = np.random.default_rng(4), []
    call = reduction_cuda.Launch.__call__
    monkeypatch.setattr(
        reduction_cuda.Launch, "__call__", lambda self, *a: (grids.append(self.grid), call(self, *a))[1]
    )
    for shape in ((1,), (5000,), (300, 4), (4, 3000), (40, 700), (7, 6, 5), (200_000, 3)):
        x = (rng.standard_normal(shape) - 1j * rng.standard_normal(shape)).astype(dtype)
        y = np.ldexp(x.real, rng.integers(-30, 30, shape)) + 1j * x.imag[..., ::-1]
        for other in (y.astype(dtype), x, x[..., ::-1]):
            for axis in range(x.ndim):
                del grids[:]
                same_on_the_gpu(ozaki.dot, x, other, axis=axis)
                assert x.ndim > 2 or len(grids) == 2
            same_on_the_gpu(ozaki.vdot, x, other)
        for axis in (*range(x.ndim), None):
            same_on_the_gpu(ozaki.norm, x, axis=axis)
            same_on_the_gpu(ozaki.rms, x, axis=axis)
    mixed = np.array([[1e308 + 1j, -0.0 - 0j], [np.inf + 1j, 5e-324j]])
    for axis in (0, 1):
        with np.errstate(all="ignore"):
            same_on_the_gpu(ozaki.dot, mixed.astype(dtype), mixed[::-1].astype(dtype), axis=axis)
            same_on_the_gpu(ozaki.norm, mixed.astype(dtype), axis=axis)


def test_running_sums_of_many_short_rows_that_are_far_apart_take_little_memory(cupy):
    """80 MB: numbers that one launch does not take, of rows much shorter than a tile."""
    x = cupy.random.default_rng(0).standard_normal((10**6, 10)) * 2.0 ** cupy.arange(-500, 500, 100)
    expected, pool = ozaki.cumsum(x[:50].get(), axis=1), cupy.cuda.MemoryPool()
    pool.set_limit(size=6 * x.nbytes)
    with cupy.cuda.using_allocator(pool.malloc):
        result = ozaki.cumsum(x, axis=1)
    assert result[:50].get().tobytes() == expected.tobytes()
    assert result[-50:].get().tobytes() == ozaki.cumsum(x[-50:].get(), axis=1).tobytes()


LAYOUTS = {
    "rows": lambda xp, x: x,
    "columns": lambda xp, x: xp.asfortranarray(x),
    "steps": lambda xp, x: xp.repeat(x, 2, axis=0)[::2, ::-1],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_products_have_the_hosts_state(cupy, dtype, layout, monkeypatch):
    """Of numbers over the whole range, zeros, Inf and NaN; in parts; to elements in any order."""
    a, b = (test_matrix_products.wide(*shape, dtype=dtype, seed=1) for shape in ((30, 90), (90, 14)))
    a[3, 4], b[5, 6], b[7, 1] = np.inf, -np.inf, np.nan
    at = np.random.default_rng(3).permutation(30 * 14)
    for elements in (matrix_products.ELEMENTS, 40):
        monkeypatch.setattr(matrix_products, "ELEMENTS", elements)
        states = []
        for xp in (np, cupy):
            x, y = (LAYOUTS[layout](xp, xp.asarray(z)) for z in (a, b))
            total = ExactSum(dtype, (30, 14)).add_matmul(x, y)
            total.add_matmul_at(x, y, xp.asarray(at)).add_matmul(x[:, :50], y[:50])
            states.append(total.to_bytes())
        assert states[0] == states[1]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [(0, 2), 1, (1, 2)])
def test_variances_over_any_axes_are_made_on_the_gpu(cupy, dtype, axis, monkeypatch):
    """Those of channels do not lie evenly in memory; no sums are taken to the host."""
    x = np.random.default_rng(4).standard_normal((5, 6, 700)).astype(dtype)
    expected = ozaki.var(x, axis=axis, ddof=1), ozaki.std(x.swapaxes(0, 2), axis=axis)
    monkeypatch.setattr(reduction_cuda, "accumulated_on_device", None)
    y = cupy.asarray(x)
    found = ozaki.var(y, axis=axis, ddof=1), ozaki.std(y.swapaxes(0, 2), axis=axis)
    assert [bits(v.get()) for v in found] == [bits(v) for v in expected]
