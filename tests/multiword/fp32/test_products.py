"""Products of words: every scheme within its bound, the default no worse than fp32, bad input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword import (
    GENERATIONS,
    SCHEMES,
    Scheme,
    TensorCore,
    error_bound,
    get_engine,
    get_scheme,
    matmul,
    matmul_plan,
    split,
)
from multiword.engines.generations import CHIPS
from multiword.fp32.choice import candidates
from multiword.runtime.machine_code import check_capability
from tests.cells import cells
from tests.matrices import PAIRS, disjoint, errors, normal, unit

ENGINES = ("host", "tensorcore")
WORD_SCHEMES = [name for name, scheme in SCHEMES.items() if not scheme.plain]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("draw", [normal, unit])
def test_schemes_stay_within_their_bounds(name, engine, draw):
    a, b = draw(rng(1), (7, 1068)), draw(rng(2), (1068, 61))
    worst, _ = errors(matmul(a, b, scheme=name, engine=engine), a, b)
    core = "H200" if engine == "tensorcore" and not SCHEMES[name].plain else None
    # Unscaled second words of fp16 underflow: half a quantum, 2^-25, of elements of mean 1/2.
    underflow = 2.0**-22 if SCHEMES[name].word == "fp16" and not SCHEMES[name].scaled_lines else 0.0
    assert worst <= error_bound(1068, name, generation=core) + underflow


@pytest.mark.parametrize("word", ["fp16", "bf16", "tf32"])
@pytest.mark.parametrize("products", ["triangle", "all", "pair"])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("words", [1, 2, 3])
def test_every_selection_of_products(word, products, joined, words):
    a, b = normal(rng(3), (5, 130)), normal(rng(4), (130, 9))
    scheme = Scheme(word, words, products=products, joined=joined)
    c = matmul(a, b, scheme=scheme)
    assert errors(c, a, b)[0] <= error_bound(130, scheme)
    by_hand = np.zeros((5, 9))
    left, right = ([w.astype(float) for w in split(x, word, words)] for x in (a, b))
    assert (
        len(scheme.pairs) == {"triangle": words * (words + 1) // 2, "all": words**2, "pair": words}[products]
    )
    for i, j in scheme.pairs:
        by_hand += left[i - 1] @ right[j - 1]
    scale = np.abs(a.astype(float)) @ np.abs(b.astype(float))
    # The same products, except for what scaling saves from underflow.
    assert (np.abs(c - by_hand) <= 140 * 2.0**-23 * scale).all()


def test_markidis_and_fewer_products_rank_as_the_analysis_says():
    a, b = normal(rng(5), (16, 512)), normal(rng(6), (512, 16))
    rms = {p: errors(matmul(a, b, scheme=Scheme(products=p)), a, b)[1] for p in ("pair", "triangle", "all")}
    assert rms["pair"] > 100 * rms["triangle"]
    assert 0.8 < rms["all"] / rms["triangle"] < 1.2


@pytest.mark.parametrize("accumulate", ["fp32", "fp64"])
def test_blocks_cure_truncation(accumulate):
    a, b = unit(rng(7), (16, 4096)), unit(rng(8), (4096, 16))
    plain = Scheme(accumulate=accumulate)
    worst = [
        errors(matmul(a, b, scheme=replace(plain, block=block), engine="tensorcore"), a, b)[0]
        for block in (None, 1024, 256, 64)
    ]
    assert worst == sorted(worst, reverse=True)
    assert worst[0] > 10 * worst[2]


@pytest.mark.parametrize("chip", ["A100", "H200"])
@pytest.mark.parametrize("word", ["fp16", "tf32"])
def test_compensation_gives_back_what_truncation_takes(chip, word):
    a, b = normal(rng(9), (32, 4096)), normal(rng(10), (4096, 32))
    plain, compensated = Scheme(word), Scheme(word, compensated=True)
    rms = [errors(matmul(a, b, scheme=s, engine=TensorCore(chip)), a, b)[1] for s in (plain, compensated)]
    assert rms[1] < rms[0] / 3
    # Where sums are rounded to nearest nothing is lost, and nothing is given back.
    nearest = TensorCore(chip).with_arithmetic(rounding="RN", alignment="RN")
    one, other = (matmul(a[:, :999], b[:999], scheme=s, engine=nearest) for s in (plain, compensated))
    assert np.array_equal(one, other)


def assert_no_worse_than_fp32(a, b, engine="tensorcore", worse=None):
    """Neither the largest nor the mean error is above fp32's, and those of a scheme that is `worse` are."""
    ours, native = (errors(matmul(a, b, scheme=s, engine=engine), a, b) for s in (None, "fp32"))
    assert ours[0] <= native[0]
    assert ours[1] <= native[1]
    if worse is not None:
        assert errors(matmul(a, b, scheme=worse, engine=engine), a, b)[0] > native[0]


@cells(name=PAIRS)
def test_default_is_as_accurate_as_fp32_on_every_distribution(name):
    draw_a, draw_b = PAIRS[name]
    assert_no_worse_than_fp32(draw_a(rng(11), (32, 2048)), draw_b(rng(12), (2048, 32)))


@pytest.mark.parametrize("chip", ["V100", "T4", "A100", "H200"])
def test_default_on_every_generation(chip):
    for draw in (normal, unit):
        assert_no_worse_than_fp32(draw(rng(13), (32, 1500)), draw(rng(14), (1500, 32)), TensorCore(chip))


def test_hardware_is_data():
    """Tensor cores by compute capability, and what is computed plainly where fp64 units are few."""
    chips = {c: CHIPS.get(c) for c in ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (13, 0))}
    assert list(chips.values()) == ["A100", "L40S", "L40S", "H200", "B200", "B300", "RTX 5090", None]
    assert set(CHIPS.values()) | {"H100"} == set(GENERATIONS)
    last = {name: candidates(64, 64, 4096, TensorCore(name))[-1][0] for name in GENERATIONS}
    assert {name for name, scheme in last.items() if scheme == "fp32"} == {"T4", "L40S", "B300", "RTX 5090"}
    blocks = {name: candidates(64, 64, 4096, TensorCore(name))[0][1].block for name in GENERATIONS}
    assert (blocks["V100"], blocks["A100"], blocks["L40S"], blocks["RTX 5090"]) == (256, 1024, 1024, 4096)


@pytest.mark.parametrize("capability", ["70", "75"])
def test_gpus_before_ampere_are_refused(capability):
    with pytest.raises(RuntimeError, match=f"8.0 .Ampere. or later are needed.* {int(capability) / 10}"):
        check_capability(capability)
    for later in ("80", "86", "90", "100", "120"):
        check_capability(later)


def test_what_the_default_chooses_and_why():
    a, b = normal(rng(15), (32, 2048)), normal(rng(16), (2048, 32))
    assert matmul_plan(a, b).choice == "fp32"
    assert matmul_plan(a, b, engine="tensorcore").choice == "fast-fp16"
    wide = np.ldexp(a, rng(17).integers(-40, 40, a.shape)).astype(np.float32)
    plan = matmul_plan(wide, b, engine="tensorcore")
    assert plan.choice == "short-block-tf32"
    assert [name for name, _ in plan.rejected] == ["fast-fp16", "short-block-fp16"]
    wider = np.ldexp(a, rng(17).integers(-100, 100, a.shape)).astype(np.float32)
    with pytest.warns(UserWarning, match="range of float32"):
        assert matmul_plan(wider, b, engine="tensorcore").choice == "fp64"
    missed = a.copy()
    missed[:, 20] = 2.0**5 * np.abs(a).max(axis=1)  # which the samples of 64 neighbours' first 16 do not see
    assert matmul_plan(missed, b, engine="tensorcore").choice == "short-block-fp16"
    missed[:, 20] *= 4
    assert matmul_plan(missed, b, engine="tensorcore").choice == "short-block-tf32"
    infinite = a.copy()
    infinite[0, 0] = np.inf
    assert "infinities" in str(matmul_plan(infinite, b, engine="tensorcore"))
    plan = matmul_plan(a, b, scheme="triple-bf16")
    assert (plan.products, plan.calls) == (6, 6)
    assert matmul_plan(a, b, word="bf16", words=3).calls == 3
    assert matmul_plan(a, b, scheme="fabsum-v1").calls == 2 + 8


def test_former_names_of_schemes_are_accepted():
    a, b = normal(rng(15), (8, 300)), normal(rng(16), (300, 8))
    for word in ("fp16", "tf32"):
        now, then = f"short-block-{word}", f"steady-{word}"
        assert get_scheme(then) is SCHEMES[now]
        assert np.array_equal(matmul(a, b, scheme=then), matmul(a, b, scheme=now))
        assert matmul_plan(a, b, scheme=then).scheme is SCHEMES[now]


def test_sums_of_one_sign_are_noticed_and_computed_again():
    a = normal(rng(18), (48, 4096))
    assert_no_worse_than_fp32(a, a.T, worse="double-fp16")


@pytest.mark.parametrize("alignment", [0.2, 0.3, 0.45])
def test_partly_aligned_rows_and_columns_are_noticed(alignment):
    a, noise = normal(rng(18), (16, 4096)), normal(rng(19), (16, 4096))
    b = (alignment * a + np.sqrt(1 - alignment**2) * noise).astype(np.float32).T
    assert_no_worse_than_fp32(a, b, worse=LONG)


LONG = replace(SCHEMES["fast-fp16"], block=4096)


@pytest.mark.parametrize(("exponent", "small"), [(0, 2.0**-8), (0, 2.0**-5), (40, 2.0**-8), (-60, 2.0**-8)])
def test_centring_that_would_cancel_is_noticed(exponent, small):
    a, b = disjoint(rng(19), (20, 2048), 0, small), disjoint(rng(20), (20, 2048), 245, small).T
    assert_no_worse_than_fp32(np.ldexp(a, exponent), np.ldexp(b, -exponent), worse=LONG)


def where_rows_and_columns_never_meet(shape=(6, 70, 5)):
    """Positive matrices: the first row is zero where the first column is not, and so their product is 0."""
    (m, k, n), draw = shape, rng(24)
    a, b = unit(draw, (m, k)) + np.float32(0.5), unit(draw, (k, n)) + np.float32(0.5)
    apart = draw.random(k) < 0.5
    a[0, apart], b[~apart, 0] = 0, 0
    return a, b


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [name for name, scheme in SCHEMES.items() if scheme.centred])
def test_centring_of_a_given_scheme_keeps_to_its_bound(name, engine):
    panels = engine == "host"
    a, b = where_rows_and_columns_never_meet((300, 70, 280) if panels else (6, 70, 5))
    core = "H200" if engine == "tensorcore" else None
    for alpha, workspace in ((1.0, None), (-3.0, None), (1.0, 3_000_000)):
        assert (matmul_plan(a, b, scheme=name, workspace=workspace).panels > 1) == (
            workspace is not None and panels
        )
        c = matmul(a, b, scheme=name, engine=engine, alpha=alpha, workspace=workspace)
        assert c[0, 0] == 0
        assert errors(c / np.float32(alpha), a, b)[0] <= error_bound(70, name, generation=core) + 2.0**-24


@pytest.mark.parametrize(("share", "choice"), [(0.2, "short-block-fp16"), (0.3, "fast-fp16")])
def test_rows_in_which_few_elements_matter_get_short_blocks(share, choice):
    a, b = normal(rng(21), (16, 2000)), normal(rng(22), (2000, 16))
    a = np.sign(a)
    a[:, rng(23).permutation(2000)[: round((1 - share) * 2000)]] *= np.float32(2.0**-12 / 3)
    assert matmul_plan(a, b, engine="tensorcore").choice == choice


@given(
    m=st.integers(0, 5), n=st.integers(0, 5), k=st.integers(0, 40), seed=st.integers(0, 99), data=st.data()
)
def test_small_integers_are_exact_whatever_the_scheme(m, n, k, seed, data):
    engine = data.draw(st.sampled_from(ENGINES))
    name = data.draw(st.sampled_from([None, *(s for s in SCHEMES if not SCHEMES[s].compensated)]))
    draw = rng(seed)
    a, b = draw.integers(-31, 32, (m, k)), draw.integers(-31, 32, (k, n))
    c = draw.integers(-9, 10, (m, n)).astype(np.float32)
    args = {"alpha": 2.0, "beta": -3.0, "c": c, "scheme": name, "engine": engine}
    result = matmul(a.astype(np.float32), b.astype(np.float32), **args)
    assert result.dtype == np.float32
    assert np.array_equal(result, 2 * (a @ b) - 3 * c)


@given(exponent=st.integers(-60, 60), seed=st.integers(0, 99))
def test_scaled_lines_commute_with_powers_of_two(exponent, seed):
    a, b = normal(rng(seed), (3, 50)), normal(rng(seed + 1), (50, 4))
    for name in ("fast-fp16", "short-block-tf32"):
        once = matmul(a, b, scheme=name)
        assert np.array_equal(matmul(np.ldexp(a, exponent), b, scheme=name), np.ldexp(once, exponent))


@pytest.mark.parametrize("scheme", [None, "fast-fp16", "fabsum-v2", "fp64"])
def test_transposes_stacks_views_and_out(scheme):
    stack = normal(rng(20), (3, 1, 7, 68)), normal(rng(21), (2, 68, 61))
    expected = np.stack(
        [[matmul(stack[0][i, 0], stack[1][j], scheme=scheme) for j in range(2)] for i in range(3)]
    )
    assert np.array_equal(matmul(*stack, scheme=scheme), expected)
    a, b = stack[0][0, 0], stack[1][0]
    one = matmul(a, b, scheme=scheme)
    tolerance = 0 if scheme else 1e-5  # BLAS may add in another order for another layout
    for turned in ({"a": a.T.copy(), "trans_a": True}, {"b": b.T.copy(), "trans_b": True}):
        result = matmul(**{"a": a, "b": b, **turned}, scheme=scheme)
        np.testing.assert_allclose(result, one, rtol=0, atol=tolerance)
    turned = matmul(np.asfortranarray(a), b[:, ::-1], scheme=scheme)
    np.testing.assert_allclose(turned, one[:, ::-1], atol=1e-5)
    padded = np.zeros((14, 136), np.float32)
    padded[::2, ::2] = a
    np.testing.assert_allclose(matmul(padded[::2, ::2], b, scheme=scheme), one, rtol=0, atol=tolerance)
    row = np.broadcast_to(a[0], a.shape)
    assert np.array_equal(matmul(row, b, scheme=scheme), matmul(row.copy(), b, scheme=scheme))
    out = np.full((61, 7), np.nan, np.float32)
    target = out.T
    assert matmul(a, b, scheme=scheme, out=target) is target
    assert np.array_equal(target, one)
    c, options = one.copy(), {"beta": 0.5, "scheme": scheme}
    expected = matmul(a, b, c=one, **options)
    assert np.array_equal(matmul(a, b, c=c, out=c, **options), expected)
    full = np.tile(one[0], (7, 1))
    assert np.array_equal(matmul(a, b, c=one[0], **options), matmul(a, b, c=full, **options))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scheme", [None, "double-fp16", "short-block-tf32", "fabsum-v2", "triple-bf16"])
def test_infinities_and_nans_stay_in_their_rows_and_columns(engine, scheme):
    a, b = normal(rng(22), (9, 40)), normal(rng(23), (40, 8))
    a[1, 3], a[2, 5], a[2, 6], b[7, 4], b[8, 5] = np.inf, np.inf, -np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        native = a.astype(float) @ b.astype(float)
        result = matmul(a, b, scheme=scheme, engine=engine)
    wild = ~np.isfinite(native)
    assert np.array_equal(result[wild], native[wild], equal_nan=True)
    with np.errstate(invalid="ignore"):
        scale = np.abs(a.astype(float)) @ np.abs(b.astype(float))
    # Of the other results, those of double-fp16 keep what unscaled second words keep.
    bound = error_bound(40, scheme or "fp32", generation="H200" if scheme else None) + 2.0**-22
    assert (np.abs(result[~wild] - native[~wild]) <= bound * scale[~wild]).all()


def test_the_whole_exponent_range_of_fp32():
    a, b = normal(rng(24), (6, 300)), normal(rng(25), (300, 5))
    core = get_engine("tensorcore")
    for ea, eb in ((-140, 100), (-145, 120), (120, -100), (100, -149), (-70, -70), (60, 60)):
        one, other = np.ldexp(a, ea).astype(np.float32), np.ldexp(b, eb).astype(np.float32)
        exact = one.astype(float) @ other.astype(float)
        scale = np.abs(one.astype(float)) @ np.abs(other.astype(float))
        for scheme in (None, "fast-fp16", "short-block-tf32"):
            result = matmul(one, other, scheme=scheme, engine=core)
            # Below 2^-126 the result itself is a subnormal number, rounded to 2^-149.
            assert (np.abs(result - exact) <= error_bound(300, "fp32") * scale + 2.0**-150).all()
    with np.errstate(over="ignore"):
        assert np.isinf(matmul(np.ldexp(a, 100), np.ldexp(b, 100), engine=core)).any()


def test_zero_lines_and_empty_products():
    a, b = normal(rng(26), (4, 33)), normal(rng(27), (33, 6))
    a[1], b[:, 2] = 0, 0
    for engine in ENGINES:
        for scheme in (None, "fast-fp16", "markidis", "fabsum-v2", "fp64"):
            result = matmul(a, b, scheme=scheme, engine=engine)
            assert not result[1].any()
            assert not result[:, 2].any()
            empty = matmul(a[:, :0], b[:0], scheme=scheme, engine=engine)
            assert empty.shape == (4, 6)
            assert not empty.any()
            c = np.ones((4, 6), np.float32)
            assert (matmul(a[:, :0], b[:0], beta=2.0, c=c, scheme=scheme, engine=engine) == 2).all()
            assert matmul(a[:0], b, scheme=scheme, engine=engine).shape == (0, 6)
            assert matmul(a, b[:, :0], scheme=scheme, engine=engine).shape == (4, 0)


def test_short_types_are_promoted_and_long_ones_refused():
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)
    for dtype in (np.int8, np.uint8, np.int16, np.float16, bool):
        one, other = a.astype(dtype), b.astype(dtype)
        assert np.array_equal(matmul(one, other), one.astype(float) @ other.astype(float))
    for dtype in (np.float64, np.int64, np.int32):
        with pytest.raises(TypeError, match="accurate_dgemm"):
            matmul(a.astype(dtype), b.astype(np.float32))
    with pytest.raises(TypeError, match="accurate_cgemm"):
        matmul(a.astype(np.complex64), b.astype(np.float32))


A, B = normal(rng(28), (4, 5)), normal(rng(29), (5, 6))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: matmul(A, B.T), ValueError, "inner dimensions"),
        (lambda: matmul(np.stack([A] * 3), np.stack([B] * 2)), ValueError, "leading axes of a and b"),
        (lambda: matmul(A, B, alpha=1j), TypeError, "alpha must be real"),
        (lambda: matmul(A, B, c=A @ B, beta=1 + 0j), TypeError, "beta must be real"),
        (lambda: matmul(A, B, alpha=10**400), ValueError, "alpha is out of the range of float64"),
        (lambda: matmul(A, B, beta=2**53 + 1), TypeError, "beta is an integer that float64 cannot hold"),
        (lambda: matmul(A, B, alpha=np.ones(1)), TypeError, "alpha must be a number"),
        (lambda: matmul(A, B, alpha="1"), TypeError, "alpha must be a number"),
        (lambda: matmul(A, B, beta=None), TypeError, "beta must be a number"),
        (lambda: matmul(A, B, trans_a=None), ValueError, "trans_a must be"),
        (lambda: matmul(A, B, workspace=1e9), TypeError, "workspace must be an integer"),
        (lambda: matmul(A[0], B), ValueError, "a must have at least two axes"),
        (lambda: matmul(A, B, accuracy="fp64"), ValueError, "accuracy"),
        (lambda: matmul(A, B, scheme="fp15"), ValueError, "unknown scheme"),
        (lambda: matmul(A, B, beta=1.0), ValueError, "c must be given"),
        (lambda: matmul(A, B, beta=1.0, c=np.ones((7, 7), np.float32)), ValueError, "c must broadcast"),
        (lambda: matmul(A, B, out=np.empty((4, 6))), TypeError, "out must be"),
        (lambda: matmul(A, B, word="fp16", words=9), ValueError, "words must be"),
        (lambda: matmul(A, B, block=3), ValueError, "block"),
        (lambda: Scheme(products="some"), ValueError, "unknown products"),
        (lambda: Scheme("fp32", 2), ValueError, "no second word"),
        (lambda: matmul(A, B, word="bf16", engine=TensorCore("V100")), ValueError, "has no"),
    ],
)
def test_wrong_arguments_are_named(call, error, match):
    with pytest.raises(error, match=match):
        call()
