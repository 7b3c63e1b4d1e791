"""FP32 products from words on a GPU: the host's words bit for bit, SGEMM's accuracy, scales, panels."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from multiword import SCHEMES, Scheme, error_bound, join, matmul, matmul_plan, round_to, split
from multiword.fp32.measure import measure_operands
from multiword.fp32.split import split_operands
from tests.matrices import PAIRS, disjoint, errors, normal, unit
from tests.multiword.fp32.test_products import WORD_SCHEMES, rng, where_rows_and_columns_never_meet
from tests.multiword.fp32.test_properties import check
from tests.multiword.test_words import wide_matrix
from tests.threads import in_threads

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("word", "words"), [("fp16", 2), ("fp16", 3), ("bf16", 3), ("tf32", 2)])
@pytest.mark.parametrize("rounding", ["RN", "RZ", "RNA"])
@pytest.mark.parametrize("shape", [(7, 68), (33, 130), (61, 5), (64, 1025), (3, 9000)])
def test_words_are_the_host_words_bit_for_bit(cupy, word, words, rounding, shape):
    a, bt = wide_matrix(shape, 1, 8.0), wide_matrix((41, shape[1]), 2)
    a[0, 0], a[1, 1:4], a[-1] = np.inf, (1e-42, np.nan, 3e38), 0
    bt[2] = 1e-43
    weights = np.repeat(np.random.default_rng(4).random(-(-shape[1] // 4)) * 1e-5, 4)[: shape[1]].astype(
        np.float32
    )
    for order in "CF":
        for scheme, target in (
            (Scheme(word, words, rounding=rounding, centred=True), 14 if word == "fp16" else 40),
            (Scheme(word, words, rounding=rounding, scaled_lines=False, scaled_words=False), 0),
        ):
            options = {"target": target, "guess": False}
            host = split_operands(measure_operands(a, bt, scheme, weights=weights, **options), readback=True)
            arrays = (cupy.asarray(x, order=order) for x in (a, bt))
            of = measure_operands(*arrays, scheme, weights=cupy.asarray(weights), **options)
            device = split_operands(of, readback=True)
            assert device.flags() == host.flags()
            for one, other in ((host.left, device.left), (host.right, device.right)):
                kind = {2: np.uint16, 4: np.uint32}[one.words.itemsize]
                got = other.words.get()
                # An unscaled word that overflows leaves NaNs behind it, whose bits are anyone's.
                nan = np.isnan(one.words.astype(np.float32))
                assert np.array_equal(nan, np.isnan(got.astype(np.float32)))
                assert np.array_equal(one.words.view(kind)[~nan], got.view(kind)[~nan])
                lines = np.frombuffer(other.of.get().tobytes(), one.of.dtype)
                for name in ("shift", "bad"):
                    assert np.array_equal(one.of[name], lines[name])
                for name in ("norm1", "norm2"):
                    np.testing.assert_allclose(lines[name], one.of[name], rtol=1e-4, atol=1e-36)
                if not scheme.scaled_lines:
                    continue
                # Sums of up to 64 elements are in fp32, and so are those of the parts.
                terms = np.ldexp(one.of["norm1"].astype(float), -one.of["shift"])
                well = one.of["bad"] == 0
                assert (np.abs(one.of["total"] - lines["total"]) <= 2.0**-16 * terms)[well].all()


@pytest.mark.parametrize(("word", "words"), [("fp16", 2), ("bf16", 3), ("tf32", 2)])
@pytest.mark.parametrize("scaled", [False, True])
def test_split_is_the_host_split(cupy, word, words, scaled):
    x = wide_matrix((5, 7, 33), 5, 10.0)
    x[0, 0, :4], x[1, 1, 1] = (np.inf, np.nan, 3e38, -1e6), 1e-41
    for rounding in ("RN", "RZ", "RNA"):
        options = {"word": word, "words": words, "scaled": scaled, "rounding": rounding}
        for one, other in zip(split(x, **options), split(cupy.asarray(x), **options), strict=True):
            assert np.array_equal(one.astype(np.float32), other.get().astype(np.float32), equal_nan=True)
            assert one.dtype == other.dtype


@pytest.mark.parametrize("scheme", [*WORD_SCHEMES, "fp64", None])
def test_stays_within_bounds_and_agrees_with_the_host(cupy, scheme):
    for shape in ((7, 68, 61), (130, 2048, 257), (1, 5, 1), (64, 33, 9)):
        m, k, n = shape
        for draw in (normal, unit):
            a, b, c = draw(rng(30), (m, k)), draw(rng(31), (k, n)), draw(rng(32), (m, n))
            for order in "CF":
                one, other = cupy.asarray(a, order=order), cupy.asarray(b, order=order)
                result = matmul(one, other, scheme=scheme, alpha=2.0, beta=1.0, c=cupy.asarray(c)).get()
                host = matmul(a, b, scheme="fp64", alpha=2.0, beta=1.0, c=c)
                scale = 2 * np.abs(a.astype(float)) @ np.abs(b.astype(float)) + c
                bound = error_bound(k, scheme or "fast-fp16", generation="H200" if scheme != "fp64" else None)
                assert (np.abs(result - host.astype(float)) <= (bound + 2.0**-22) * scale).all()


@pytest.mark.parametrize("scheme", ["double-fp16", "fast-fp16", "fabsum-v1", "triple-bf16"])
def test_is_the_model_bit_for_bit(cupy, scheme):
    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("the model's order of blocks is validated on sm_90")
    a, b = normal(rng(33), (256, 512)), normal(rng(34), (512, 256))
    device = matmul(cupy.asarray(a), cupy.asarray(b), scheme=scheme).get()
    assert np.array_equal(device, matmul(a, b, scheme=scheme, engine="tensorcore"))


@pytest.mark.parametrize("name", PAIRS)
def test_default_is_as_accurate_as_sgemm(cupy, name):
    draw_a, draw_b = PAIRS[name]
    a, b = draw_a(rng(35), (2048, 4096)), draw_b(rng(36), (4096, 2048))
    one, other = cupy.asarray(a), cupy.asarray(b)
    assert matmul_plan(one, other).choice != "fp32"
    ours, native = matmul(one, other).get(), matmul(one, other, scheme="fp32").get()
    ours, native = errors(ours, a, b), errors(native, a, b)
    assert ours[0] <= native[0]
    assert ours[1] <= native[1]


@pytest.mark.parametrize("scheme", [None, "double-fp16", "short-block-tf32"])
def test_bad_input(cupy, scheme):
    a, b = normal(rng(37), (1300, 4000)), normal(rng(38), (4000, 1301))
    a[3, 4], a[5], b[7, 11] = np.inf, 0, np.nan
    with np.errstate(invalid="ignore"):
        native = a.astype(float) @ b.astype(float)
    result = matmul(cupy.asarray(a), cupy.asarray(b), scheme=scheme).get()
    assert np.array_equal(np.isnan(result), np.isnan(native))
    assert np.array_equal(np.isinf(result), np.isinf(native))
    finite = np.isfinite(native)
    assert np.abs(result - native)[finite].max() < 1e-2
    tiny = np.ldexp(normal(rng(39), (64, 64)), -140).astype(np.float32)
    large = np.ldexp(normal(rng(40), (64, 64)), 110).astype(np.float32)
    exact = tiny.astype(float) @ large.astype(float)
    if scheme != "double-fp16":
        result = matmul(cupy.asarray(tiny), cupy.asarray(large), scheme=scheme).get()
        assert np.abs(result - exact).max() <= 1e-5 * np.abs(exact).max()
        for name in ("fp64", scheme):
            result = matmul(cupy.asarray(tiny), cupy.eye(64, dtype=np.float32), scheme=name).get()
            assert np.array_equal(result, tiny)
    with pytest.raises(TypeError, match="NumPy"):
        matmul(cupy.asarray(a), b)


@pytest.mark.parametrize("name", PAIRS)
def test_default_in_every_layout(cupy, name):
    draw_a, draw_b = PAIRS[name]
    a, b = draw_a(np.random.default_rng(4), (3072, 2500)), draw_b(np.random.default_rng(5), (2500, 3072))
    x, y = cupy.asarray(a), cupy.asarray(b)
    results = [
        matmul(x, y),
        matmul(cupy.asfortranarray(x), y),
        matmul(x.T.copy(), y.T.copy(), trans_a=True, trans_b=True),
        matmul(x, y, out=cupy.empty((3072, 3072), np.float32)),
    ]
    native = errors((x @ y).get(), a, b)
    for result in results:
        ours = errors(result.get(), a, b)
        assert ours[0] <= native[0]
        assert ours[1] <= native[1]
    assert (results[0] == results[3]).all()
    c = cupy.asarray(normal(np.random.default_rng(6), (3072, 3072)))
    check(matmul(x, y, alpha=-3.0, beta=0.5, c=c).get(), a, b, -3.0, 0.5, c.get())


@pytest.mark.parametrize("scheme", [None, "short-block-fp16", "triple-bf16", "fabsum-v2"])
@pytest.mark.parametrize("draw", [normal, unit])
def test_panels_do_not_show(cupy, scheme, draw):
    x = cupy.asarray(draw(np.random.default_rng(7), (4096, 2048)))
    y = cupy.asarray(draw(np.random.default_rng(8), (2048, 4096)))
    whole = matmul(x, y, scheme=scheme)
    limit = matmul_plan(x, y, scheme=scheme).workspace // 3
    plan = matmul_plan(x, y, scheme=scheme, workspace=limit)
    assert plan.panels > 1
    parts = matmul(x, y, scheme=scheme, workspace=limit)
    scale = abs(x.astype(np.float64)) @ abs(y.astype(np.float64))
    # The library may choose another kernel for another shape; the words are the same.
    assert (abs(whole - parts.astype(np.float64)) <= 2 * plan.bound * scale).all()
    again = matmul(x, y, scheme=scheme, workspace=limit)
    assert (parts == again).all()


@pytest.mark.parametrize("scale", [-60, -25, 30])
def test_scales_come_back(cupy, scale):
    x = cupy.asarray(normal(np.random.default_rng(9), (4096, 2048)))
    y = cupy.asarray(normal(np.random.default_rng(10), (2048, 4096)))
    once = matmul(x, y)
    assert matmul_plan(x, y).choice == "fast-fp16"
    assert (matmul(x * np.float32(2.0**scale), y) == once * np.float32(2.0**scale)).all()


def test_uneven_lines_and_odd_shapes(cupy):
    rng = np.random.default_rng(11)
    for m, k, n in ((2897, 2640, 2895), (2047, 2064, 2640), (2100, 8200, 2100)):
        a, b = normal(rng, (m, k)), normal(rng, (k, n))
        a *= np.ldexp(np.float32(1), rng.integers(-9, 9, (m, 1)))
        assert matmul_plan(cupy.asarray(a), cupy.asarray(b)).choice == "short-block-fp16"
        result = matmul(cupy.asarray(a), cupy.asarray(b)).get()
        native = errors((cupy.asarray(a) @ cupy.asarray(b)).get(), a, b)
        ours = errors(result, a, b)
        assert ours[0] <= native[0]
        assert ours[1] <= native[1]


def test_threads_and_streams_keep_apart(cupy):
    pairs = [
        [cupy.asarray(normal(np.random.default_rng(10 * i + j), (3072, 3072))) for j in (0, 1)]
        for i in range(4)
    ]
    assert matmul_plan(*pairs[0]).choice == "fast-fp16"
    expected = [matmul(x, y) for x, y in pairs]
    cupy.cuda.Device().synchronize()
    wrong = []

    def work(i):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(5):
                result = matmul(*pairs[i])
                stream.synchronize()
                if not (result == expected[i]).all():
                    wrong.append(i)

    in_threads(work, range(4))
    assert not wrong


def test_out_of_memory_becomes_panels_and_then_an_error(cupy):
    pool = cupy.cuda.MemoryPool()  # in which no other test has left, or gives back, anything
    with cupy.cuda.using_allocator(pool.malloc):
        x, y = (cupy.asarray(normal(np.random.default_rng(i), (3072, 3072))) for i in (12, 13))
        assert matmul_plan(x, y).choice == "fast-fp16"
        whole = matmul(x, y)
        cupy.cuda.Device().synchronize()
        pool.free_all_blocks()
        pool.set_limit(size=pool.used_bytes() + (99 << 20))
        parts = matmul(x, y)
        gc.collect()  # what errors that were caught still refer to
        pool.free_all_blocks()
        pool.set_limit(size=pool.used_bytes() + (1 << 20))
        with pytest.raises(MemoryError):
            matmul(x, y)
        pool.set_limit(size=0)
        scale = abs(x.astype(np.float64)) @ abs(y.astype(np.float64))
        assert (abs(whole - parts.astype(np.float64)) <= 2.0**-20 * scale).all()


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if not SCHEMES[s].plain])
def test_errors_against_k_stay_below_the_bounds(cupy, scheme):
    for k in (500, 4096, 40000):
        for draw in (normal, unit):
            a, b = draw(np.random.default_rng(k), (64, k)), draw(np.random.default_rng(k + 1), (k, 64))
            worst, _ = errors(matmul(cupy.asarray(a), cupy.asarray(b), scheme=scheme).get(), a, b)
            underflow = 0.0 if SCHEMES[scheme].scaled_words else 2.0**-21
            assert worst <= error_bound(k, scheme, generation="H200") + underflow + k * 2.0**-53


@pytest.mark.parametrize(
    "scheme", [None, "fp32", "fp64", "fast-fp16", "short-block-fp16", "short-block-tf32"]
)
@pytest.mark.parametrize("shape", [(1, 60, 1), (1, 60, 9), (9, 60, 1), (64, 64, 64), (7, 2000, 5)])
@pytest.mark.parametrize("draw", [normal, unit])
def test_subnormal_operands(cupy, scheme, shape, draw):
    m, k, n = shape
    rng = np.random.default_rng(17)
    for exponent in (-130, -140):
        a = np.ldexp(draw(rng, (m, k)), exponent).astype(np.float32)
        b = np.ldexp(draw(rng, (k, n)), 100).astype(np.float32)
        for left, right in ((a, b), (b.T.copy(), a.T.copy())):
            x, y = cupy.asarray(left), cupy.asarray(right)
            check(matmul(x, y, scheme=scheme).get(), left, right)
            stack = matmul(cupy.stack([x, x]), y, scheme=scheme).get()
            check(stack[1], left, right)


@pytest.mark.parametrize("draw", [normal, unit])
@pytest.mark.parametrize("columns", [3072, 3071])
@pytest.mark.parametrize("exponent", [60, 100])  # scales taken out at the end, and by the last product
def test_default_with_subnormal_operands(cupy, draw, columns, exponent):
    rng = np.random.default_rng(18)
    a = np.ldexp(draw(rng, (3072, 2048)), -130).astype(np.float32)
    b = np.ldexp(draw(rng, (2048, columns)), exponent).astype(np.float32)
    x, y = cupy.asarray(a), cupy.asarray(b)
    assert matmul_plan(x, y).choice == "fast-fp16"
    check(matmul(x, y).get(), a, b)


@pytest.mark.parametrize("columns", [3072, 3071])
@pytest.mark.parametrize("exponent", [0, 100, -125, -130])
def test_centring_that_would_cancel_is_noticed_at_every_scale(cupy, columns, exponent):
    a = disjoint(np.random.default_rng(19), (3072, 2048))
    b = disjoint(np.random.default_rng(20), (columns, 2048), 245).T
    native = errors((cupy.asarray(a) @ cupy.asarray(b)).get(), a, b)
    left, right = np.ldexp(a, exponent), np.ldexp(b, -max(exponent, -120))
    x, y = cupy.asarray(left), cupy.asarray(right)
    assert matmul_plan(x, y).choice == "fast-fp16"
    ours = errors(matmul(x, y).get(), left, right)
    fast = errors(matmul(x, y, scheme="fast-fp16").get(), left, right)
    assert ours[0] <= native[0]
    assert fast[0] <= error_bound(2048, "fast-fp16", generation="H200")


@pytest.mark.parametrize("name", [name for name, scheme in SCHEMES.items() if scheme.centred])
@pytest.mark.parametrize("shape", [(6, 70, 5), (600, 1030, 512)])
def test_centring_of_a_given_scheme_keeps_to_its_bound(cupy, name, shape):
    a, b = where_rows_and_columns_never_meet(shape)
    for workspace in (None, 1 << 22):
        c = matmul(cupy.asarray(a), cupy.asarray(b), scheme=name, workspace=workspace).get()
        assert c[0, 0] == 0
        assert errors(c, a, b)[0] <= error_bound(shape[1], name, generation="H200")


BITS = """
import hashlib, cupy, multiword, numpy as np, ozaki
rng = np.random.default_rng(1)
a, b = (cupy.asarray(rng.standard_normal((3, 96, 96)), np.float32) for _ in range(2))
for x, y in ((a[0], b[0]), (a[0].T, b[0]), (a, b), (a, b.swapaxes(1, 2)), (a, b[0]), (a[0, :1], b[0])):
    for scheme in (None, "fp32", "fp64", "double-fp16", "short-block-tf32"):
        print(hashlib.sha256(multiword.matmul(x, y, scheme=scheme).tobytes()).hexdigest())
    print(hashlib.sha256(multiword.matmul(x, y, alpha=2.0, beta=1.0, c=y[..., :1, :]).tobytes()).hexdigest())
for word in ("int8", "fp64"):
    print(hashlib.sha256(ozaki.accurate_dgemm(a[0], b[0], word=word).tobytes()).hexdigest())
"""
"""A program that prints the bits of products: native ones in several layouts, and those of words."""


def test_no_environment_variable_changes_a_bit(cupy):
    emulated = {"CUBLAS_EMULATE_SINGLE_PRECISION": "1", "CUBLAS_EMULATE_DOUBLE_PRECISION": "1"}
    printed = []
    for variables in (
        {},
        {"CUPY_TF32": "1"},
        {"CUPY_ACCELERATORS": ""},
        {"CUBLAS_WORKSPACE_CONFIG": ":16:8"},
        {**emulated, "CUBLAS_EMULATION_STRATEGY": "eager"},
    ):
        command, environment = [sys.executable, "-c", BITS], {**os.environ, **variables}
        printed.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True))
    assert len({run.stdout for run in printed}) == 1
    assert len(printed[0].stdout.split()) == 38


@pytest.mark.parametrize("shape", [(1, 60, 1), (1, 60, 9), (64, 1, 33), (40, 70, 50)])
def test_the_native_product_reads_every_layout(cupy, shape):
    m, k, n = shape
    a, b = (
        cupy.asarray(np.random.default_rng(i).integers(-99, 99, s), np.float32)
        for i, s in enumerate(((2, 3, m, k), (3, k, n)))
    )
    exact = a.get().astype(int) @ b.get().astype(int)
    padded = cupy.zeros((2, 3, 2 * m, 2 * k + 1), np.float32)
    padded[..., ::2, 1::2] = a
    wide = cupy.zeros((2, 3, m, k + 5), np.float32)
    wide[..., :k] = a
    for left in (a, a[..., ::-1][..., ::-1], padded[..., ::2, 1::2], wide[..., :k]):
        for right in (b, b.swapaxes(1, 2).copy().swapaxes(1, 2), b[:, ::-1][:, ::-1]):
            assert (matmul(left, right, scheme="fp32").get() == exact).all()
            assert (matmul(left[1, 2], right[2], scheme="fp32").get() == exact[1, 2]).all()
            assert (matmul(left[:, :1], right[:1], scheme="fp32").get() == exact[:, :1]).all()
    assert not matmul(a[..., :0], b[:, :0], scheme="fp32").any()
    assert matmul(a[:, :, :0], b, scheme="fp32").shape == (2, 3, 0, n)


def test_words_of_subnormal_numbers(cupy):
    x = np.ldexp(normal(np.random.default_rng(20), (5, 40)), -140).astype(np.float32)
    for word, words in (("bf16", 3), ("tf32", 2), ("tf32", 5)):
        for scaled in (False, True):
            host = split(x, word, words, scaled=scaled)
            device = split(cupy.asarray(x), word, words, scaled=scaled)
            for one, other in zip(host, device, strict=True):
                assert np.array_equal(one.astype(np.float32), other.get().astype(np.float32))
            assert np.array_equal(join(device, scaled=scaled).get(), join(host, scaled=scaled))
    for dtype in (np.float32, np.float64):
        for fmt in ("fp16", "bf16", "tf32", "fp32", "fp64"):
            for rounding in ("RN", "RZ", "RNA"):
                wide = x.astype(dtype) * dtype(2.0**20 if dtype == np.float64 else 1)
                one, other = round_to(wide, fmt, rounding), round_to(cupy.asarray(wide), fmt, rounding)
                assert one.dtype == other.dtype
                assert np.array_equal(one.astype(float), other.get().astype(float))
