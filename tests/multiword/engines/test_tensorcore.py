"""The tensor-core model against a rational formulation of the same text, bit for bit."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword import GENERATIONS, Blocking, Generation, TensorCore, get_engine, get_generation
from multiword.engines import WORDS
from multiword.engines.generations import ROUNDINGS
from multiword.tuning import PRODUCTS_OF_A_STEP, SLAB_COLUMNS
from tests.multiword.engines.scalar_tensorcore import dot, round_to

DTYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}


def words(x, word):
    """Float64 numbers as words; tf32 cut to its bits."""
    with np.errstate(all="ignore"):
        x = np.asarray(x, np.float64).astype(np.float32).astype(DTYPES[word])
    if word == "tf32":
        cut = (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        x = np.where(np.isfinite(x), cut, x)
    return x


def same(x, y):
    """Bit for bit, all NaNs alike."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    number = ~np.isnan(x)
    return np.array_equal(x, y, equal_nan=True) and np.array_equal(
        np.signbit(x[number]), np.signbit(y[number])
    )


def reference(a, b, c, word, target, generation, blocking=None):
    """The product by the rational model, one result at a time."""
    blocking = blocking or Blocking()
    result = np.zeros((a.shape[0], b.shape[1]))
    for i, j in np.ndindex(*result.shape):
        row, column = [float(x) for x in a[i]], [float(x) for x in b[:, j]]
        start, total = (0.0 if c is None else float(c[i, j])), None
        for part in blocking.parts(len(row)) or [(0, 0)]:
            for first, last in blocking.steps(*part, generation.widths[word]):
                start = dot(row[first:last], column[first:last], start, word, target, generation)
            total = np.float32(start) if total is None else np.float32(total) + np.float32(start)
            start = 0.0
        result[i, j] = total
    return result


def random_words(rng, shape, spread, word, zeros=0.15):
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    x[rng.random(shape) < zeros] = 0
    return words(x, word)


@pytest.mark.parametrize("name", GENERATIONS)
@pytest.mark.parametrize("spread", [0, 5, 12, 60])
def test_every_generation_and_format_equals_the_rational_model(name, spread):
    generation = get_generation(name)
    rng = np.random.default_rng(spread)
    for word in generation.widths:
        a, b = random_words(rng, (3, 37), spread, word), random_words(rng, (37, 4), spread, word)
        c = (rng.standard_normal((3, 4)) * 2.0 ** rng.integers(-spread, spread + 1)).astype(np.float32)
        for start in (None, c):
            d = TensorCore(name).gemm(a, b, start, word=word)
            assert d.dtype == np.float32
            assert same(d, reference(a, b, start, word, "fp32", generation))


def test_generations_are_those_of_the_literature():
    """Fasi et al. (2021) and Xie et al., MMA-Sim (2025): fraction bits, and fp16 products of a step."""
    table = {"V100": (23, 4), "T4": (24, 8), "A100": (24, 8), "L40S": (24, 8)}
    table |= dict.fromkeys(("H100", "H200", "B200", "B300", "RTX 5090"), (25, 16))
    assert {name: (g.fraction_bits, g.widths["fp16"]) for name, g in GENERATIONS.items()} == table
    for name, g in GENERATIONS.items():
        others = {} if name in ("V100", "T4") else {"bf16": table[name][1], "tf32": table[name][1] // 2}
        assert g.widths == {"fp16": table[name][1], **others}
        assert (g.alignment, g.rounding, g.carry_bits) == ("RZ", "RZ", None)


@st.composite
def custom_generations(draw):
    word = draw(st.sampled_from(sorted(DTYPES)))
    return word, Generation(
        "custom",
        {word: draw(st.integers(1, 33))},
        draw(st.integers(10, 40)),
        draw(st.sampled_from([None, 0, 1, 2, 3, 6])),
        draw(st.sampled_from(ROUNDINGS)),
        draw(st.sampled_from(ROUNDINGS)),
    )


SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**-149, -(2.0**-133), 2.0**127, 65504.0)


def entries(special):
    scaled = st.builds(lambda m, e: m * 2.0**e, st.integers(-2047, 2047), st.integers(-150, 116))
    tame = st.builds(lambda m, e: m * 2.0**e, st.integers(-2047, 2047), st.integers(-24, 4))
    return st.one_of(tame, scaled, st.sampled_from(SPECIAL)) if special else st.one_of(tame, scaled)


@given(
    custom_generations(),
    st.sampled_from(["fp32", "fp16"]),
    st.booleans(),
    st.integers(0, 40),
    st.booleans(),
    st.data(),
)
def test_custom_arithmetic_equals_the_rational_model(custom, target, special, k, with_c, data):
    word, generation = custom
    numbers = st.lists(entries(special), min_size=4 * k + 4, max_size=4 * k + 4)
    x = np.array(data.draw(numbers))
    a, b = words(x[: 2 * k].reshape(2, k), word), words(x[2 * k : 4 * k].reshape(k, 2), word)
    with np.errstate(over="ignore"):
        c = x[4 * k :].reshape(2, 2).astype(np.float32 if target == "fp32" else np.float16)
    start = c if with_c else None
    d = TensorCore(generation, accumulate=target).gemm(a, b, start, word=word)
    assert d.dtype == (np.float32 if target == "fp32" else np.float16)
    if k or not with_c:  # without a step, c is returned as it is, -0 included
        assert same(d, reference(a, b, start, word, target, generation))


@pytest.mark.parametrize("word", DTYPES)
def test_results_among_the_subnormals_and_overflow(word):
    rng = np.random.default_rng(3)
    generation = get_generation("H200")
    if word == "fp16":
        a, b = words(rng.integers(-9, 10, (4, 40)) * 2.0**-24, word), random_words(rng, (40, 4), 3, word)
    else:
        a = words(rng.standard_normal((4, 40)) * 2.0 ** rng.integers(-80, -70, (4, 40)), word)
        b = words(rng.standard_normal((40, 4)) * 2.0 ** rng.integers(-78, -55, (40, 4)), word)
    assert same(TensorCore("H200").gemm(a, b, word=word), reference(a, b, None, word, "fp32", generation))
    large = words(np.full((1, 40), 2.0**15 if word == "fp16" else 2.0**63), word)
    d = TensorCore("H200").gemm(large, large.T, word=word)
    assert d[0, 0] == (40 * 2.0**30 if word == "fp16" else np.inf)
    half = TensorCore("H200", accumulate="fp16")
    if word == "fp16":
        assert half.gemm(large, large.T)[0, 0] == np.inf
        assert half.gemm(large, -large.T)[0, 0] == -np.inf


def test_inf_and_nan_are_the_hardwares():
    one, inf = np.float16(1), np.float16(np.inf)
    row = np.array([[inf, one], [inf, inf], [-inf, one], [np.nan, one], [one, one]], np.float16)
    column = np.array([[1, 0], [-1, 1]], np.float16)
    d = TensorCore("H200").gemm(row, column)
    expected = [[np.inf, np.nan], [np.nan, np.nan], [-np.inf, np.nan], [np.nan, np.nan], [0, 1]]
    assert same(d, expected)
    assert {hex(x) for x in d[np.isnan(d)].view(np.uint32)} == {"0x7fffffff"}
    h = TensorCore("H200", accumulate="fp16").gemm(row, column)
    assert {hex(x) for x in h[np.isnan(h)].view(np.uint16)} == {"0x7fff"}


def test_how_small_terms_count():
    """As measured on an H200: 2^-149 less a term of 2^-158 is cut to zero, less one of 2^-159 it is not."""
    a = words([[2.0**-75, -(2.0**-79)]] * 2, "bf16")
    b = words([[2.0**-74, 2.0**-74], [2.0**-79, 2.0**-80]], "bf16")
    assert TensorCore("H200").gemm(a, b, word="bf16")[0].tolist() == [0.0, 2.0**-149]


def test_accumulators_of_any_size_keep_their_bits():
    c = ((1 + 2.0**-23) * 2.0 ** np.arange(-126, 128, 2.0)).astype(np.float32)[None]
    core, zeros = TensorCore("H200"), np.zeros((1, 16), np.float16)
    assert all(same(core.gemm(zeros, zeros.T, x[None, None]), [[x]]) for x in c[0])


def test_no_result_is_a_negative_zero():
    """As measured on an H200: -2^-26 as fp16 and -2^-151 as fp32 come out as +0."""
    tiny = np.array([[-(2.0**-13)]])
    assert same(TensorCore("H200", accumulate="fp16").gemm(tiny, -tiny), [[0.0]])
    small = words([[-(2.0**-75), 0.0]], "bf16")
    assert same(TensorCore("H200").gemm(small, words([[2.0**-76], [1.0]], "bf16"), word="bf16"), [[0.0]])
    assert same(TensorCore("H200").gemm(-np.ones((1, 3)), np.zeros((3, 1)), [[-0.0]]), [[0.0]])


def test_an_overflow_meets_a_later_infinity():
    # the accumulator is infinite from the first step on; an opposite infinity makes it NaN
    a = words([[2.0**100] * 8 + [-math.inf] + [1.0] * 7 + [0.0] * 16], "bf16")
    b = words([[2.0**100] * 8 + [1.0] * 24], "bf16").T
    generation = replace(get_generation("H200"), widths={"bf16": 8})
    assert np.isnan(TensorCore(generation).gemm(a, b, word="bf16")[0, 0])
    assert TensorCore(generation).gemm(a[:, ::-1], b[::-1], word="bf16")[0, 0] == -np.inf


BLOCKINGS = [{"block_k": 24}, {"split_k": 3}, {"step": 4}, {"tile_k": 32}, {"block_k": 1000}]


@pytest.mark.parametrize("options", [*BLOCKINGS, {"step": 8, "block_k": 40, "tile_k": 16}], ids=str)
def test_blocking_adds_parts_in_fp32(options):
    rng, blocking = np.random.default_rng(0), Blocking(**options)
    generation = get_generation("H200")
    a, b = random_words(rng, (5, 101), 3, "fp16"), random_words(rng, (101, 3), 3, "fp16")
    d = TensorCore("H200", blocking=blocking).gemm(a, b)
    assert same(d, reference(a, b, None, "fp16", "fp32", generation, blocking))


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 64), st.integers(1, 64))
def test_steps_cover_every_term_once(k, step, block_k, tile_k):
    blocking = Blocking(step, block_k, None, tile_k)
    seen = [h for part in blocking.parts(k) for s in blocking.steps(*part, 16) for h in range(*s)]
    assert seen == list(range(k))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (7, 68, 61), (900, 3, 17), (3, 700, 17), (600, 530, 9), (2, 3, 0)]
)
def test_shapes_slabs_and_threads_do_not_matter(shape):
    assert SLAB_COLUMNS < 520
    assert PRODUCTS_OF_A_STEP < 8 * 512 * 530  # so that the shape before the last is several slabs
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = random_words(rng, (m, k), 6, "fp16"), random_words(rng, (k, n), 6, "fp16")
    one = TensorCore("A100", workers=1).gemm(a, b)
    assert same(TensorCore("A100", workers=3).gemm(a, b), one)
    assert same(TensorCore("A100").gemm(np.asfortranarray(a)[::-1], b)[::-1], one)
    generation = get_generation("A100")
    assert same(one[:2, :2], reference(a[:2], b[:, :2], None, "fp16", "fp32", generation))
    assert same(one[-2:, -2:], reference(a[-2:], b[:, -2:], None, "fp16", "fp32", generation))


def test_as_an_engine_with_batches_alpha_and_beta():
    rng = np.random.default_rng(2)
    core = TensorCore("H200")
    a, bt = random_words(rng, (3, 6, 20), 2, "fp16"), random_words(rng, (3, 5, 20), 2, "fp16")
    plain = core.multiply("fp16", a, bt)
    assert plain.shape == (3, 6, 5)
    for x, y, z in zip(a, bt, plain, strict=True):
        assert same(z, core.gemm(x, y.T))
    out = rng.standard_normal((3, 6, 5)).astype(np.float32)
    alpha, beta = np.float32(0.3), np.float32(0.7)
    added = [Fraction(float(beta * x)) for x in out.ravel()]
    scaled = [Fraction(float(alpha)) * Fraction(float(x)) for x in plain.ravel()]
    expected = [round_to(x + y, "fp32", "RN") for x, y in zip(added, scaled, strict=True)]
    got = core.multiply("fp16", a, bt, out=out, alpha=0.3, beta=0.7)
    assert got is out
    assert same(got.ravel(), expected)


def test_an_engines_corners():
    core = TensorCore("H200")
    a, bt = np.ones((4, 8), np.float16), np.ones((3, 8), np.float16)
    wide = np.full((4, 7), 5, np.float32)
    assert core.multiply("fp16", a, bt, out=wide[:, 2:5], beta=1.0).tolist() == [[13.0] * 3] * 4
    assert wide[:, [0, 1, 5, 6]].tolist() == [[5.0] * 4] * 4
    assert core.multiply("fp16", a[None][:0], bt[None][:0]).shape == (0, 4, 3)
    assert core.multiply("fp16", a[:, :0], bt[:, :0]).tolist() == [[0.0] * 3] * 4
    assert core.multiply("int8", a.astype(np.int8), bt.astype(np.int8), alpha=2).tolist() == [[16] * 3] * 4
    padded = np.ones((4, 16), np.float16)[:, :8]
    assert core.multiply("fp16", padded, bt).tolist() == [[8.0] * 3] * 4
    with pytest.raises(ValueError, match="has no 'bf16' product"):
        TensorCore("V100").multiply("bf16", a.astype(ml_dtypes.bfloat16), bt.astype(ml_dtypes.bfloat16))
    with pytest.raises(TypeError, match="a must be float16"):
        core.multiply("fp16", a.astype(np.float32), bt)
    with pytest.raises(TypeError, match="bt must be a NumPy array, got list"):
        core.multiply("fp16", a, bt.tolist())


def test_the_named_engine_is_the_h200():
    engine = get_engine("tensorcore")
    assert engine.name == "tensorcore"
    assert engine.generation == get_generation("H200")
    assert engine.products == {"fp16", "bf16", "tf32", "int8", "fp32", "fp64"}
    assert TensorCore("V100").products == {"fp16", "int8", "fp32", "fp64"}


def test_int8_products_are_exact_and_wrap():
    rng = np.random.default_rng(4)
    a, b = rng.integers(-128, 128, (9, 700), np.int8), rng.integers(-128, 128, (700, 8), np.int8)
    d = TensorCore("H200").gemm(a, b, word="int8")
    assert d.dtype == np.int32
    assert np.array_equal(d, a.astype(np.int64) @ b.astype(np.int64))
    long = np.full((1, 1 << 17), -128, np.int8)
    assert TensorCore("H200").gemm(long, long.T, word="int8")[0, 0] == -(2**31)


def test_int8_operands_are_rounded_to_nearest_even_or_refused():
    core = TensorCore("H200")
    x = np.array([[2.7, -2.7, 0.5, 1.5, -0.5, 127.4, -128.5]])
    d = core.gemm(x.T, np.ones((1, 1)), word="int8").ravel()
    assert d.tolist() == [3, -3, 0, 2, 0, 127, -128]
    assert core.gemm([[True]], [[2]], [[1.5]], word="int8").tolist() == [[4]]
    for wrong in (127.5, 300, -129, np.inf, np.nan, 2**40):
        with pytest.raises(ValueError, match="a must round to int8 numbers, -128 to 127"):
            core.gemm([[wrong]], [[1]], word="int8")
        with pytest.raises(ValueError, match="b must round to int8"):
            core.gemm([[1]], [[wrong]], word="int8")
    with pytest.raises(ValueError, match="c must round to int32"):
        core.gemm([[1]], [[1]], [[2.0**31]], word="int8")
    one = np.ones((1, 1), np.int8)
    with pytest.raises(ValueError, match="must be integers"):
        core.multiply("int8", one, one, alpha=0.5)


@pytest.mark.parametrize("word", ["fp16", "bf16", "tf32", "fp32", "fp64", "int8"])
def test_what_float64_cannot_hold_is_refused(word):
    """Rounded twice, 2**53 + 2**28 + 1 would be a tie in fp32, and wrong by a unit."""
    core, one = TensorCore("H200"), np.ones((1, 1))
    for bad in (np.array([[2**53 + 2**29 + 1]]), np.array([[-(2**60)]]), np.array([[2**63]], np.uint64)):
        with pytest.raises(TypeError, match="a has integers beyond 2"):
            core.gemm(bad, one, word=word)
    for bad, message in ((np.ones((1, 1), np.longdouble), "longdouble"), (np.ones((1, 1), complex), "real")):
        if bad.itemsize > 8:
            for name, call in (("a", (bad, one)), ("b", (one, bad)), ("c", (one, one, bad))):
                with pytest.raises(TypeError, match=rf"{name} .*{message}"):
                    core.gemm(*call, word=word)


@pytest.mark.parametrize("word", DTYPES)
def test_integers_add_exactly_up_to_a_words_exact_bits(word):
    largest, exact = 2 ** WORDS[word].bits, 2 ** WORDS[word].exact_bits
    terms = [(largest, largest)] * (exact // largest**2 - 1)
    terms += [(largest - 1, largest), (largest - 1, 1), (1, 1), (1, 1)]
    a, b = np.array(terms, float).T
    sums = [TensorCore("H200").gemm(a[None, :k], b[:k, None], word=word)[0, 0] for k in range(1, len(a) + 1)]
    assert sums[:-1] == np.cumsum(a * b)[:-1].tolist()
    assert sums[-2:] == [exact, exact]  # one more is lost


ROUNDED = [  # fp64 just above ties, beyond the range and below it; and fp32 ties, for tf32 alone
    ("bf16", [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11, 1e300, -1e-300], [1 + 2.0**-7, 1, np.inf, 0]),
    ("tf32", [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40], [1 + 2.0**-8, 1 + 2.0**-10]),
    ("fp16", [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 1e300], [1 + 2.0**-8, 1 + 2.0**-10, np.inf]),
    ("tf32", np.float32([1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11)]), [1, 1 + 2.0**-9, -1]),
    ("tf32", np.float32([1 + 2.0**-11 + 2.0**-23, 2.0**-149]), [1 + 2.0**-10, 0]),
]


@pytest.mark.parametrize(("word", "x", "expected"), ROUNDED)
def test_other_numbers_are_rounded_once_to_nearest_even(word, x, expected):
    one = np.ones((1, 1), np.asarray(x).dtype)
    assert TensorCore("H200").gemm(np.array(x)[:, None], one, word=word).ravel().tolist() == expected


V100, ONES = TensorCore("V100"), np.ones((2, 2))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: TensorCore("K80"), "unknown generation 'K80'; known are V100, T4, A100"),
        (lambda: TensorCore("A100", accumulate="fp64"), "known are fp32, fp16"),
        (lambda: TensorCore("A100", workers=0), "workers"),
        (lambda: V100.gemm(ONES, ONES, word="bf16"), "V100 has no 'bf16'"),
        (lambda: V100.gemm(ONES, ONES, word="fp8"), "unknown product 'fp8'"),
        (lambda: V100.gemm(ONES, np.ones((3, 2))), r"\(2, 2\) and \(3, 2\)"),
        (lambda: V100.gemm(ONES, ONES, ONES[:1]), r"shape \(2, 2\)"),
        (lambda: Generation("x", {"fp8": 4}, 24), "known are fp16, bf16, tf32"),
        (lambda: Generation("x", {"fp16": 0}, 24), "width"),
        (lambda: Generation("x", {"fp16": "4"}, 24), "width of fp16 must be an integer"),
        (lambda: Generation("x", {"fp16": 4}, 60), "fraction_bits"),
        (lambda: Generation("x", {"fp16": 4}, 24, alignment="RA"), "known are RZ, RN, RD, RU"),
        (lambda: Generation("x", {"fp16": 4}, 24, carry_bits=-1), "carry_bits"),
        (lambda: Blocking(block_k=0), "block_k"),
        (lambda: Blocking(step=2.5), r"step must be None or an integer of at least 1, got 2\.5"),
        (lambda: Blocking(block_k=8, split_k=2), "one of them"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_operands_are_not_written_to_and_progress_can_be_shown(capsys):
    rng = np.random.default_rng(8)
    a, b = random_words(rng, (20, 33), 2, "tf32"), random_words(rng, (33, 30), 2, "tf32")
    a.flags.writeable = b.flags.writeable = False
    before = a.copy(), b.copy()
    shown = TensorCore("A100", progress=True).gemm(a, b, word="tf32")
    assert capsys.readouterr().err
    assert same(shown, TensorCore("A100", progress=False).gemm(a, b, word="tf32"))
    assert not capsys.readouterr().err
    assert same(a, before[0])
    assert same(b, before[1])


def test_results_that_an_h200_returned():
    """Corners of `cublasGemmEx` products (cuBLAS 13.1, 2026-11-21): words, and results as their bits."""
    with np.load(Path(__file__).parents[2] / "data" / "h200_results.npz") as data:
        products = sorted({key.rsplit(" ", 1)[0] for key in data})
        assert len(products) == 30
        for key in products:
            word = key.split()[0]
            a, bt = (data[f"{key} {name}"].view(DTYPES[word]) for name in ("a", "bt"))
            step, block_k, tile_k = (int(x) or None for x in data[f"{key} blocking"])
            core = TensorCore("H200", blocking=Blocking(step, block_k, None, tile_k))
            d = core.gemm(a, bt.T, word=word)
            assert np.array_equal(d.view(np.uint32), data[f"{key} d"]), key
