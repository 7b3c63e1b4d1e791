"""Products of words under whatever comes: scales, layouts, options, panels, streams and threads."""

import ctypes
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiword import SCHEMES, Scheme, TensorCore, error_bound, get_engine, matmul, matmul_plan, split
from multiword.engines.layouts import store_array
from multiword.fp32 import finish as finish_step
from multiword.fp32 import measure
from multiword.fp32 import split as split_step
from multiword.fp32.choice import rejection
from multiword.fp32.execute import native_call
from multiword.fp32.measure import FIELDS, FLAGS, SIDE, Flags
from multiword.fp32.plan import choose_panels
from multiword.runtime import kernels, machine_code
from tests.matrices import PAIRS, exp_rand, normal, unit
from tests.standin import DeviceArray, Gpu

U = 2.0**-24
SUBNORMAL = 2.0**-149
DRAWS = {
    "normal": normal,
    "unit": unit,
    "wide": exp_rand(-12, 12),
    "wider": exp_rand(-60, 60),
    "tiny": lambda rng, shape: np.ldexp(normal(rng, shape), -140).astype(np.float32),
    "huge": lambda rng, shape: np.ldexp(normal(rng, shape), 60).astype(np.float32),
    "integers": lambda rng, shape: rng.integers(-99, 99, shape).astype(np.float32),
    "sparse": lambda rng, shape: normal(rng, shape) * (rng.random(shape) < 0.1).astype(np.float32),
    "zero": lambda rng, shape: np.zeros(shape, np.float32),
    "one": lambda rng, shape: np.ones(shape, np.float32),
}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "every other": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
}


def shapes(data, largest=40, longest=700):
    m, n = (data.draw(st.integers(1, largest)) for _ in range(2))
    k = data.draw(st.one_of(st.integers(0, 40), st.integers(1, longest)))
    return m, k, n


def check(result, a, b, alpha=1.0, beta=0.0, c=0.0):
    """|result - exact| below the bound of an fp32 product, the final roundings included."""
    a, b, c = (np.asarray(x, np.float64) for x in (a, b, c))
    exact = alpha * (a @ b) + beta * c
    scale = abs(alpha) * (np.abs(a) @ np.abs(b))
    allowed = (error_bound(a.shape[1], "fp32") + 2 * U) * scale + 2 * U * np.abs(beta * c) + 2 * SUBNORMAL
    below = np.abs(exact) < 2.0**127
    assert (np.abs(result - exact) <= allowed)[below].all()


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_default_is_within_the_bound_of_fp32(data, seed):
    m, k, n = shapes(data)
    rng, names = np.random.default_rng(seed), st.sampled_from(sorted(DRAWS))
    a, b = DRAWS[data.draw(names)](rng, (m, k)), DRAWS[data.draw(names)](rng, (k, n))
    alpha, beta = (data.draw(st.sampled_from([1.0, 0.0, -2.5, 1e-3])) for _ in range(2))
    c = normal(rng, (m, n)) if beta else None
    flip_a, flip_b = data.draw(st.booleans()), data.draw(st.booleans())
    layouts = [LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))] for _ in range(2)]
    left, right = layouts[0](a.T if flip_a else a), layouts[1](b.T if flip_b else b)
    out = np.full((m, n), np.nan, np.float32) if data.draw(st.booleans()) else None
    engine = data.draw(st.sampled_from(["host", "tensorcore"]))
    copies = left.copy(), right.copy(), None if c is None else c.copy()
    options = {"trans_a": flip_a, "trans_b": flip_b, "alpha": alpha, "beta": beta, "engine": engine}
    with np.errstate(over="ignore"):
        result = matmul(left, right, c=c, out=out, **options)
    assert out is None or result is out
    check(result, a, b, alpha, beta, 0.0 if c is None else c)
    for x, copy in zip((left, right, c), copies, strict=True):
        assert x is None or np.array_equal(x, copy)


@settings(max_examples=12)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_panels_do_not_show(data, seed):
    m, k, n = shapes(data, 150, 300)
    rng, names = np.random.default_rng(seed), st.sampled_from(["normal", "unit", "wide", "wider", "sparse"])
    a, b = DRAWS[data.draw(names)](rng, (m, max(k, 1))), DRAWS[data.draw(names)](rng, (max(k, 1), n))
    c = normal(rng, (m, n))
    scheme = data.draw(st.sampled_from([None, "fast-fp16", "triple-bf16", "fabsum-v2", "fp64"]))
    options = {"scheme": scheme, "alpha": 2.0, "beta": -1.0, "c": c, "engine": "tensorcore"}
    options = data.draw(st.sampled_from([options, {"scheme": scheme, "engine": "tensorcore"}]))
    limit = data.draw(st.integers(450_000, 2_000_000))
    with np.errstate(invalid="ignore"):  # what overflows may cancel
        whole, parts = matmul(a, b, **options), matmul(a, b, workspace=limit, **options)
    assert np.array_equal(whole, parts, equal_nan=True)
    plan = matmul_plan(a, b, scheme=scheme, engine="tensorcore", workspace=limit)
    assert plan.workspace <= limit
    assert (plan.panels > 1) == (matmul_plan(a, b, scheme=scheme, engine="tensorcore").workspace > limit)


def test_a_rejection_in_the_last_panel_counts_for_all():
    a, b = normal(np.random.default_rng(1), (64, 600)), normal(np.random.default_rng(2), (600, 64))
    a[-1, 300:] *= np.float32(2.0**-40)
    options = {"engine": "tensorcore"}
    whole, parts = matmul(a, b, **options), matmul(a, b, workspace=900_000, **options)
    assert matmul_plan(a, b, **options).choice == matmul_plan(a, b, workspace=900_000, **options).choice
    assert matmul_plan(a, b, **options).choice != "fast-fp16"
    assert np.array_equal(whole, parts)


def test_too_little_workspace_is_a_memory_error_with_sizes():
    a = np.ones((40, 50), np.float32)
    with pytest.raises(MemoryError, match=r"40 x 50 x 40 product .* needs \d+ bytes .* limit is 100"):
        matmul(a, a.T, scheme="double-fp16", workspace=100)
    with pytest.raises(ValueError, match="workspace"):
        matmul(a, a.T, workspace=-1)
    with pytest.raises(TypeError):
        matmul(a, a.T, workspace="1 GiB")


@pytest.mark.parametrize("scheme", ["fast-fp16", "fabsum-v2"])
def test_memory_that_runs_out_becomes_panels_and_then_an_error(scheme):
    class Narrow(TensorCore):
        limit = 3000

        def multiply(self, product, a, bt, **options):
            if len(a) * len(bt) > self.limit:
                raise MemoryError("no room for so many results")
            return super().multiply(product, a, bt, **options)

    engine = Narrow("H200")
    a, b = normal(np.random.default_rng(16), (100, 200)), normal(np.random.default_rng(17), (200, 90))
    parts = matmul(a, b, scheme=scheme, engine=engine)
    assert np.array_equal(parts, matmul(a, b, scheme=scheme, engine="tensorcore"))
    Narrow.limit = 10
    with pytest.raises(MemoryError):
        matmul(a, b, scheme=scheme, engine=engine)


@given(m=st.integers(1, 300), n=st.integers(1, 300), limit=st.integers(30_000, 10**6))
def test_panels_cover_every_result_once(m, n, limit):
    panels = choose_panels(m, n, 64, SCHEMES["fast-fp16"], limit, False)
    covered = np.zeros((m, n), int)
    for rows, columns in panels(m, n):
        assert rows.start % 16 == 0
        assert columns.start % 16 == 0
        covered[rows, columns] += 1
    assert (covered == 1).all()
    assert panels.bytes <= limit


def test_stacks_of_native_products_are_one_call():
    rng = np.random.default_rng(3)
    a, b = normal(rng, (5, 1, 8, 30)), normal(rng, (3, 30, 9))
    assert np.array_equal(matmul(a, b), np.matmul(a, b))
    assert matmul(a[:0], b).shape == (0, 3, 8, 9)
    many = matmul(a, b, engine="tensorcore")
    assert np.array_equal(many[4, 2], matmul(a[4, 0], b[2], engine="tensorcore"))


def test_flags_are_read_by_name():
    numbers = list(range(FLAGS))
    flags = Flags.of(numbers)
    assert flags.a["uncentred"] == 0
    assert flags.b["uncentred"] == SIDE
    assert (flags.a["spread"], flags.failed) == (len(FIELDS) - 1, (FLAGS - 2) | (FLAGS - 1))
    numbers[2:4], numbers[SIDE + 2 : SIDE + 4] = (303, 300 - 2), (300 - 5, 300 + 5)
    assert Flags.of(numbers).common_shift(9) == 9 - 3 + 9 + 5
    numbers[3] = 300 + 5
    assert Flags.of(numbers).common_shift(9) is None


@given(x=st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_first_words_hold_what_is_not_finite(x):
    x = np.float32(x)
    for word in ("fp16", "bf16", "tf32"):
        first, second = (w.astype(np.float32) for w in split(x, word))
        special = ~np.isfinite(x)
        assert np.array_equal(first[special], x[special], equal_nan=True)
        assert not second[special].any()


@pytest.mark.parametrize("name", ["multiword_h200", "multiword_model"])
def test_committed_errors_are_below_the_bounds_and_those_of_fp32(name):
    path = Path(__file__).parents[3] / "benchmarks" / "results" / f"{name}.json"
    data = json.loads(path.read_text())
    for row in data["error against k"]:
        scheme = row["scheme"]
        if scheme in ("default", "fp16", "fp32, 22 bits") or row["max"] is None:
            continue
        native = SCHEMES[scheme].plain
        bound = error_bound(row["k"], scheme, generation=None if native else "H200")
        # Words that are not scaled underflow: half a quantum of fp16 in elements of mean 1/4 or more.
        underflow = 0.0 if SCHEMES[scheme].scaled_words or SCHEMES[scheme].word != "fp16" else 2.0**-21
        # The reference, in fp64, is off by k·2^-53 at most.
        assert row["max"] <= bound + underflow + row["k"] * 2.0**-53
    rows = {(r["data"], r.get("k"), r["scheme"]): r for r in data["error against k"] + data["patterns"]}
    pairs = [(x, rows[label, k, "fp32"]) for (label, k, scheme), x in rows.items() if scheme == "default"]
    assert len(pairs) >= len(PAIRS)
    assert all(ours[field] <= native[field] for ours, native in pairs for field in ("max", "rms"))


@pytest.mark.parametrize(
    ("word", "fields", "reason"),
    [
        ("fp16", {}, None),
        ("fp16", {"bad": 1}, "infinities or NaNs"),
        ("fp16", {"top": 300 + 15}, None),
        ("fp16", {"top": 300 + 16}, "missed the largest elements of"),
        ("tf32", {"top": 300 + 50, "low": 300 + 60}, None),
        ("tf32", {"top": 300 + 51}, "missed the largest elements of"),
        ("bf16", {"low": 300 + 61}, "range too far for bf16 words"),
        ("fp16", {"low": 300 + 61}, None),  # fp16 counts small elements instead
        ("fp16", {"small": 3, "deficit": 97}, None),
        ("fp16", {"small": 4, "deficit": 97}, "small elements"),
        ("tf32", {"small": 4, "deficit": 97}, None),
        ("fp16", {"spread": 750}, None),
        ("fp16", {"spread": 751}, "a few elements of a row or column outweigh"),
    ],
)
def test_what_speaks_against_words(word, fields, reason):
    none = dict.fromkeys(FIELDS, 0)
    for a, b in ((none | fields, none), (none, none | fields)):
        got = rejection(Flags(a, b, 0), Scheme(word), 100, long_blocks=True)
        assert (got is None) if reason is None else (reason in got)
        if "spread" in fields:
            assert rejection(Flags(a, b, 0), Scheme(word), 100, long_blocks=False) is None


def gemm_strided_batched(*arguments):
    """`cublasGemmStridedBatchedEx` in float32 after its definition: column-major, on the host's memory."""

    def matrices(address, rows, columns, leading, stride):
        base = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (1 << 20,))
        strides = [4 * x for x in (stride, 1, leading)]
        return np.lib.stride_tricks.as_strided(base, (count, rows, columns), strides)

    (op_a, op_b, m, n, k, one), (_, a, b, (zero, *c), (count, compute, _)) = (
        arguments[:6],
        (None, arguments[6:10], arguments[10:14], arguments[14:19], arguments[19:]),
    )
    shapes = ((k, m) if op_a else (m, k), (n, k) if op_b else (k, n), (m, n))
    x, y, z = (matrices(s[0], *shape, *s[2:]) for s, shape in zip((a, b, c), shapes, strict=True))
    assert all(s[1] == 0 and s[2] >= shape[0] for s, shape in zip((a, b, c), shapes, strict=True))
    assert [ctypes.cast(p, ctypes.POINTER(ctypes.c_float))[0] for p in (one, zero)] == [1, 0]
    assert compute == 69  # CUBLAS_COMPUTE_32F_PEDANTIC, which no environment variable changes
    z[...] = (x.swapaxes(1, 2) if op_a else x) @ (y.swapaxes(1, 2) if op_b else y)


@pytest.mark.parametrize("shape", [(1, 60, 1), (1, 60, 9), (64, 1, 33), (40, 70, 50)])
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_a_native_product_is_one_call_of_cublas_in_every_layout(shape, left, right):
    (m, k, n), rng = shape, np.random.default_rng(3)
    a, b = rng.integers(-99, 99, (3, m, k)), rng.integers(-99, 99, (3, k, n))
    for one, other in ((a[0], b[0]), (a, b), (a, b[:1]), (a[:1], b)):
        x, y = one.astype(np.float32), other.astype(np.float32)
        x, y = (
            np.moveaxis(f(np.moveaxis(z, 0, -1)), -1, 0) if z.ndim == 3 else f(z)
            for f, z in ((LAYOUTS[left], x), (LAYOUTS[right], y))
        )
        out = np.zeros((one @ other).shape, np.float32)
        x, y, out = (z.view(DeviceArray) for z in (x, y, out))
        *batch, m, n = out.shape
        stacks = [store_array(z, False, tuple(batch)) for z in (x, y, out)]
        gemm_strided_batched(*native_call((math.prod(batch), m, n, k), *stacks))
        assert np.array_equal(out, one @ other)


def test_an_engine_of_ones_own_is_given_words():
    class Counting:
        name, padding, products = "counting", 1, frozenset({"fp16", "tf32", "fp64"})
        calls = 0

        def multiply(self, product, a, bt, **options):
            self.calls += 1
            return get_engine("host").multiply(product, a, bt, **options)

    engine = Counting()
    a, b = normal(np.random.default_rng(14), (8, 90)), normal(np.random.default_rng(15), (90, 8))
    check(matmul(a, b, scheme="fast-fp16", engine=engine), a, b)
    assert engine.calls == 2


@pytest.fixture
def launches(monkeypatch):
    """The grids and arguments of kernels, by name, launched by a CuPy of host memory that runs none."""
    launched, arguments, gpu = {}, [], Gpu()
    gpu.cupy.zeros = lambda shape, dtype: np.zeros(shape, dtype).view(DeviceArray)
    gpu.cupy.ascontiguousarray = lambda x: np.ascontiguousarray(x).view(DeviceArray)

    class Text(machine_code.Text):
        kept = True

        def function(self, name):
            def launch(grid, *_, **__):
                launched[name] = grid, arguments

            launch.shared_size_bytes = 0
            return launch

    monkeypatch.setattr(kernels, "Text", Text)
    monkeypatch.setattr(kernels, "target", lambda device: "sm_90")
    gpu.install(monkeypatch)

    def note(arguments):
        name = list(launched)[-1]
        launched[name] = launched[name][0], arguments

    with kernels.noted.within(note):
        yield launched


def test_kernels_are_handed_what_their_structs_take(launches):
    a = np.ones((70, 100), np.float32).view(DeviceArray)
    bt = np.asfortranarray(np.ones((40, 100), np.float32)).view(DeviceArray)
    scheme = SCHEMES["fast-fp16"]
    vectors = measure.measure_operands(a, bt, scheme, target=9, guess=True)
    split = split_step.split_operands(vectors, slice(16, 48), slice(0, 32))
    p, c = (np.ones((32, 32), np.float32).view(DeviceArray) for _ in range(2))
    finish_step.finish(p, split, out=p, alpha=2.0, beta=3.0, c=c[:, ::-1], limit=0.5)
    finish_step.inspect(p, split, centred=True, limit=0.5)
    (grid, (how, *_)), (_, (*_, splitting)), (_, (finishing, *_)), (_, (inspecting, *_)) = (
        launches[f"multiword_{name}"] for name in ("measure", "split", "finish", "inspect")
    )
    assert grid == (3 + 2,)
    assert (how.a, how.stride_a, how.step_a, how.vectors_a) == (a.data.ptr, 100, 1, 70)
    assert (how.b, how.stride_b, how.step_b, how.vectors_b) == (bt.data.ptr, 1, 40, 40)
    assert (how.samples, how.target, how.centred) == (100, 9, 1)
    assert splitting.of_a == vectors.data[0].data.ptr + 16 * measure.VECTOR.itemsize
    assert (splitting.vectors_a, splitting.rows_a, splitting.stride_a) == (32, 1, 100)
    assert (splitting.vectors_b, splitting.rows_b, splitting.stride_b) == (32, 0, 40)
    assert splitting.records_b - splitting.records_a == split_step.RECORD_BYTES * 32
    assert (splitting.k, splitting.padded_k, splitting.report, splitting.step) == (100, 112, None, 2.0**11)
    assert (finishing.c, finishing.c_row, finishing.c_column) == (c.data.ptr + 31 * 4, 32, -1)
    assert (finishing.a, finishing.a_row, finishing.a_step) == (a.data.ptr + 16 * 400, 100, 1)
    assert (finishing.b, finishing.b_column, finishing.b_step) == (bt.data.ptr, 1, 40)
    assert (finishing.alpha, finishing.beta, finishing.limit, finishing.may_centre) == (2.0, 3.0, 0.5, 1)
    assert (inspecting.p, inspecting.ldp) == (p.data.ptr, 32)
    assert (inspecting.m, inspecting.n, inspecting.k) == (32, 32, 100)
