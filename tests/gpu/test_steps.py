"""The kernels of scheme "residues" give what their NumPy forms give, number for number."""

import itertools
from dataclasses import fields

import numpy as np
import pytest

from multiword.engines import get_engine
from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from ozaki.arguments import factors_of
from ozaki.certificate.counting import RowBounds, compute_bounds
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import pairwise_bound
from ozaki.certificate.small import scales_and_bounds
from ozaki.product.by_norms import split_by_norms
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.product.steps import both_norm_scales, bounds, pairwise
from ozaki.residues.reconstruct import reconstruct
from ozaki.residues.split import residues
from ozaki.rounding.truncation import empty_magnitudes
from ozaki.scaling import statistics as statistics_module
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_limit, norm_scales, statistics_and_scales, widened
from ozaki.scaling.statistics import NONFINITE_ROW, largest_exponents, row_statistics, row_sums
from tests.oracle import images_of, same

pytestmark = pytest.mark.gpu

SHAPES = [(1, 1), (5, 7), (37, 301), (301, 37), (33, 2049), (1, 5000), (1500, 3), (300, 1100), (700, 20)]
DTYPES = ["float64", "float32", "complex128", "complex64"]
KINDS = ["normal", "wide", "subnormal", "special"]


def matrix(kind, shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    if kind == "wide":
        x *= 2.0 ** rng.integers(-40, 40, shape)
    elif kind == "subnormal":
        x *= 2.0 ** (-1045 if dtype in ("float64", "complex128") else -140)
    elif kind == "special":
        x[rng.random(shape) < 0.3] = 0
        x[0], x[-1, 0], x[shape[0] // 2, -1] = 0, np.inf, np.nan
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape) * x.real
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def layouts(cupy, x):
    yield cupy.asarray(x)
    yield cupy.asfortranarray(cupy.asarray(x))
    yield cupy.repeat(cupy.asarray(x), 2, axis=1)[:, ::2]
    yield cupy.asarray(x[::-1, ::-1].copy())[::-1, ::-1]


FIELDS = ("exponent", "total", "square", "counts")


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_row_statistics(cupy, kind, dtype, shape):
    x = matrix(kind, shape, dtype)
    with np.errstate(all="ignore"):
        expected = row_statistics(real_parts(x))
    limits = [norm_limit(FORMATS[name], expected.length) for name in ("fp64", "fp32")]
    for y in layouts(cupy, x):
        parts = real_parts(y)
        for found in (row_statistics(parts), row_sums(parts, largest_exponents(parts))):
            for name in FIELDS:
                assert np.array_equal(getattr(found, name).get(), getattr(expected, name)), name
        for limit in limits:
            scales = norm_scales(expected, limit)
            assert np.array_equal(norm_scales(found, limit).get(), scales)
            beside, made = statistics_and_scales(parts, limit)
            assert np.array_equal(made.get(), scales)
            for name in FIELDS:
                assert np.array_equal(getattr(beside, name).get(), getattr(expected, name)), name


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("columns", [147, 190, 320, 576, 700, 900, 1500])
def test_statistics_of_rows_in_tiles_of_every_length(cupy, columns, dtype, monkeypatch):
    """As of many numbers: tiles as long as their rows take, and longer ones."""
    x = matrix("wide", (2200, columns), dtype)
    expected, parts = row_statistics(real_parts(x)), real_parts(cupy.asarray(x))
    for least in (0, 1 << 22):
        monkeypatch.setattr(statistics_module, "FILLED_NUMBERS", least)
        found = row_statistics(parts)
        for name in FIELDS:
            assert np.array_equal(getattr(found, name).get(), getattr(expected, name)), name


def test_statistics_of_pieces_of_rows(cupy):
    x = matrix("wide", (33, 3000), "float64")
    y, expected = cupy.asarray(x), row_statistics([x])
    pieces = y[:, 1700:], y[:, :40], y[:, 40:1700]
    exponent = cupy.stack([largest_exponents([piece]) for piece in pieces]).max(axis=0)
    merged = [row_sums([piece], exponent) for piece in pieces]
    for name in FIELDS[1:]:
        total = sum(getattr(s, name) for s in merged)
        assert np.array_equal(total.get(), getattr(expected, name)), name


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_bounds(cupy, kind, dtype, shape):
    x, y = matrix(kind, shape, dtype), matrix("wide", shape, dtype)
    target = FORMATS["fp64" if dtype in ("float64", "complex128") else "fp32"]
    for widening in (0, 7, -30):
        found = []
        for pair in ((x, y), (cupy.asarray(x), cupy.asarray(y))):
            with np.errstate(all="ignore"):
                statistics = tuple(row_statistics(real_parts(z)) for z in pair)
                limit = norm_limit(target, statistics[0].length)
                scales = tuple(widened(norm_scales(s, limit), widening) for s in statistics)
                found.append(compute_bounds(statistics, scales, target).wait())
        assert np.allclose(found[1].log2_squares, found[0].log2_squares, rtol=1e-14)
        assert found[1]._replace(log2_squares=found[0].log2_squares) == found[0]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (33, 70), (64, 64), (5, 300)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_scales_and_bounds_of_small_factors(cupy, kind, dtype, shape):
    """Of stacks of three, in both orders of memory."""
    rng = np.random.default_rng(4)
    x, y = (np.stack([rng.permutation(matrix(of, shape, dtype)) for _ in range(3)]) for of in (kind, "wide"))
    target = FORMATS["fp64" if dtype in ("float64", "complex128") else "fp32"]
    with np.errstate(all="ignore"):
        on_host = tuple(row_statistics(real_parts(z.reshape(-1, shape[1]))) for z in (x, y))
        limit = norm_limit(target, on_host[0].length)
        scales = tuple(norm_scales(s, limit) for s in on_host)
        expected = compute_bounds(on_host, scales, target, 3).wait_for_stack()
    for turned in (False, True):
        placed = (
            cupy.asarray(z.swapaxes(1, 2)).copy().swapaxes(1, 2) if turned else cupy.asarray(z)
            for z in (x, y)
        )
        parts = tuple(map(real_parts, placed))
        found, pending = scales_and_bounds(parts, target, 3)
        for ours, theirs in zip(found, scales, strict=True):
            assert np.array_equal(ours.get(), theirs)
        numbers = pending.wait_for_stack()
        assert np.allclose(numbers[:, 3:5], expected[:, 3:5], rtol=1e-14)
        numbers[:, 3:5] = expected[:, 3:5]
        assert np.array_equal(numbers, expected)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", SHAPES[1:7], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["normal", "special"])
@pytest.mark.parametrize(
    ("word", "bits", "extra"), [("int8", 60, 0), ("int8", 200, 22), ("int8", 300, 105), ("fp64", 500, 60)]
)
def test_residues(cupy, word, bits, extra, kind, dtype, shape):
    x = matrix(kind, shape, dtype)
    parts = real_parts(x)
    target = FORMATS["fp64" if dtype in ("float64", "complex128") else "fp32"]
    with np.errstate(all="ignore"):
        made = row_statistics(parts)
        scale = norm_scales(made, norm_limit(target, made.length))
        scale = np.where(scale == NONFINITE_ROW, scale, scale + extra).astype(np.int32)
        width = int(norm_limit(target, made.length).log2 / 2) + 2 + extra
        system = residue_system(word, bits, max(2, shape[1]), len(parts))
        for padding in (1, 16):
            weighted = padding == 1
            expected = residues(parts, scale, system, padding, weighted, width)
            for y in (cupy.asarray(x), cupy.asfortranarray(cupy.asarray(x))):
                found = residues(real_parts(y), cupy.asarray(scale), system, padding, weighted, width)
                assert np.array_equal(found.get(), expected)


def check_truncated(operands, limit, target, system, width, words):
    """With a pairwise bound wanted, everything else is the same but for residues of wider integers."""
    parts = len(operands[0])
    for bits in (0, 7):
        *found, pending = split_by_norms(operands, limit, target, system, 16, width + bits, bits)
        statistics = tuple(row_statistics(x) for x in operands)
        scales = tuple(norm_scales(s, limit) for s in statistics)
        bounds = compute_bounds(statistics, scales, target)
        for side, (ours, x, scale, rows) in enumerate(zip(found, operands, scales, bounds.rows, strict=True)):
            of_scales, of_rows, magnitudes = ours.truncated
            wider = widened(scale, bits)
            assert same(of_scales.get(), wider.get())
            for name, made in vars(of_rows).items():
                assert same(made.get(), getattr(rows, name).get()), name
            expected = Magnitudes(parts, "int8").split(x, rows.truncation_scale, side, 16)
            assert same(magnitudes.get(), expected.get())
            expected = residues(x, wider, system, 16, side == 0, width + bits)
            assert same(ours.words.get(), expected.get())
            assert bits or same(ours.words.get(), words[side])
        assert pending.wait() == bounds.wait()


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("length", [130, 208, 301, 512, 700, 1023])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_split_by_norms(cupy, kind, dtype, length):
    """One launch gives what one step after the other does on the host."""
    x, y = matrix(kind, (37, length), dtype), matrix("wide", (67, length), dtype)
    target = FORMATS["fp64" if dtype in ("float64", "complex128") else "fp32"]
    parts = 1 + dtype.startswith("complex")
    limit = norm_limit(target, length * parts)
    system = residue_system("int8", limit.log2 + 1, length, parts)
    width = int(limit.log2 / 2) + 2
    with np.errstate(all="ignore"):
        statistics = tuple(row_statistics(real_parts(z)) for z in (x, y))
        scales = tuple(norm_scales(s, limit) for s in statistics)
        words = [
            residues(real_parts(z), s, system, 16, weighted, width)
            for z, s, weighted in zip((x, y), scales, (True, False), strict=True)
        ]
        bounds = compute_bounds(statistics, scales, target).wait()
    for left, right in itertools.product(layouts(cupy, x), layouts(cupy, y)):
        for limits in (target, None):
            operands = real_parts(left), real_parts(right)
            split = split_by_norms(operands, limit, limits, system, 16, width)
            if limits is not None and split is not None:
                check_truncated(operands, limit, target, system, width, words)
            if length * parts > 1024:
                assert split is None
                continue
            *found, pending = split
            for ours, of_rows, scale, expected in zip(found, statistics, scales, words, strict=True):
                for name in FIELDS:
                    made = getattr(ours.statistics, name).get()
                    assert np.array_equal(made, getattr(of_rows, name)), name
                assert np.array_equal(ours.scales.get(), scale)
                assert np.array_equal(ours.words.get(), expected)
            if limits is not None:
                numbers = pending.wait()
                assert np.allclose(numbers.log2_squares, bounds.log2_squares, rtol=1e-14)
                assert numbers._replace(log2_squares=bounds.log2_squares) == bounds


def test_rows_that_suit_no_tile(cupy):
    limit, system = norm_limit(FORMATS["fp64"], 100), residue_system("int8", 109.2, 1024, 1)
    for rows, length, floating in (
        (40, 128, False),
        (40, 1025, False),
        (40, 200, True),
        (1 << 15, 200, False),
    ):
        x = cupy.zeros((rows, length))
        of_words = residue_system("fp64", 109.2, 1024, 1) if floating else system
        assert split_by_norms(([x], [x]), limit, FORMATS["fp64"], of_words, 16, 55) is None


@pytest.mark.parametrize("shape", [(1, 1), (37, 29), (130, 261)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("word", "bits", "reduced"),
    [
        *(("int8", bits, reduced) for bits in (54, 109, 150, 300) for reduced in (False, True)),
        ("fp64", 109, False),  # which no engine reduces
    ],
)
@pytest.mark.parametrize("offset", [0, 510])
def test_reconstruction(cupy, reduced, offset, word, bits, dtype, shape):
    rng = np.random.default_rng(1)
    parts = 1 + dtype.startswith("complex")
    system = residue_system(word, float(bits), 4096, parts)
    assert system.images == (3 if parts == 2 and word == "int8" and bits > 150 else parts)
    m, n = shape
    padded = 2, -(-m // 16) * 16, -(-n // 16) * 16
    value = rng.integers(-(2**62), 2**62, padded).astype(object) * 2 ** max(0, bits - 64)
    value >>= rng.integers(max(0, 64 - bits), bits - 2, padded).astype(object)
    y = images_of(*value, system).astype(np.int64)
    y += np.array(system.moduli)[:, None, None] * rng.integers(-900, 900, y.shape)
    y = y.astype(np.int32 if word == "int8" else np.float64)
    if reduced:
        moduli = np.array(system.moduli)[:, None, None]
        y = ((y + moduli // 2) % moduli - moduli // 2).astype(np.int8)
    scales = [rng.integers(-20, 80, size).astype(np.int32) + offset for size in shape]
    target = FORMATS["fp64" if dtype in ("float64", "complex128") else "fp32"]
    expected, found = np.empty(shape, dtype), cupy.empty((m, n + 1), dtype)[:, 1:]
    with np.errstate(all="ignore"):
        reconstruct(y.copy(), system, tuple(scales), target, expected)
    reconstruct(cupy.asarray(y), system, tuple(cupy.asarray(s) for s in scales), target, found)
    assert np.ascontiguousarray(found.get()).tobytes() == expected.tobytes()


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_scales(cupy, kind, dtype, shape):
    x = matrix(kind, shape, dtype)
    with np.errstate(all="ignore"):
        expected = exact_scales(real_parts(x))
    for y in layouts(cupy, x):
        assert np.array_equal(exact_scales(real_parts(y)).get(), expected)


@pytest.mark.parametrize("word", ["int8", "fp64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_magnitudes(cupy, kind, dtype, shape, word):
    x = matrix(kind, shape, dtype)
    scales = np.random.default_rng(1).integers(-20, 60, shape[0]).astype(np.int32)
    scales += 1000 if kind == "subnormal" and dtype in ("float64", "complex128") else 0
    if kind == "special":
        scales[[0, -1, shape[0] // 2]] = NONFINITE_ROW
    scheme = Magnitudes(1 + np.iscomplexobj(x), word)
    for side in (0, 1):
        with np.errstate(all="ignore"):
            expected = scheme.split(real_parts(x), scales, side, 16)
        for y in layouts(cupy, x):
            found = scheme.split(real_parts(y), cupy.asarray(scales), side, 16)
            assert np.array_equal(found.get(), expected)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    "shape", [(3, 5, 2), (1100, 3, 3), (600, 9, 16), (37, 301, 29), (130, 64, 300)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workspace", [1 << 30, 1 << 17])
def test_pairwise_bounds(cupy, workspace, kind, dtype, shape):
    m, k, n = shape
    a, b = matrix(kind, (m, k), dtype), matrix(kind, (n, k), dtype).T
    accuracy = "fp64" if dtype in ("float64", "complex128") else "fp32"
    found = []
    for x, y in ((a, b), (cupy.asarray(a), cupy.asarray(b))):
        left, right = factors_of(x, y, dtype)
        request = Request(accuracy, "auto", None, get_engine("auto", x), workspace)
        with np.errstate(all="ignore"):
            pair = Pair(left, right, request)
            pending = bounds(pair, both_norm_scales(pair))
            bound = pairwise(pair, pending)()
            known = [getattr(side, f.name) for side in pending.rows for f in fields(side)]
            found.append((bound, [cupy.asnumpy(x).tolist() for x in known]))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("shape", [(37, 301), (130, 2049), (16, 64), (1500, 3)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_residues_with_magnitudes(cupy, dtype, shape):
    """One launch gives what two do."""
    parts = 1 + dtype.startswith("complex")
    limit, length = norm_limit(FORMATS["fp64"], shape[1] * parts), shape[1]
    system = residue_system("int8", limit.log2 + 1, length, parts)
    for kind, side in itertools.product(("special", "wide"), (0, 1)):
        for x in layouts(cupy, matrix(kind, shape, dtype)):
            numbers = real_parts(x)
            scale = norm_scales(row_statistics(numbers), limit)
            truncation_scale = cupy.where(scale == NONFINITE_ROW, scale, scale - 40)
            magnitudes = empty_magnitudes(x, *(-(-n // 16) * 16 for n in shape), parts, side)
            given = numbers, scale, system, 16, side == 0, 60
            words = residues(*given, truncated=(truncation_scale, magnitudes))
            assert same(words.get(), residues(*given).get())
            expected = Magnitudes(parts, "int8").split(numbers, truncation_scale, side, 16)
            assert same(magnitudes.get(), expected.get())
            on_host = [y.get() for y in numbers]
            expected = Magnitudes(parts, "int8").split(on_host, truncation_scale.get(), side, 16)
            assert same(magnitudes.get(), expected)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    "shape", [(37, 301, 29), (300, 700, 260), (700, 96, 1300), (2100, 130, 2048)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_bounds_of_pairs(cupy, dtype, shape):
    """As on the host."""
    (m, k, n), parts = shape, 1 + dtype.startswith("complex")
    target, length = FORMATS["fp64"], k * parts
    for kind in ("special", "wide", "normal"):
        x, y = matrix(kind, (m, k), dtype), matrix(kind, (n, k), dtype)
        with np.errstate(all="ignore"):
            statistics = tuple(row_statistics(real_parts(z)) for z in (x, y))
            scales = tuple(norm_scales(s, norm_limit(target, length)) for s in statistics)
            rows = compute_bounds(statistics, scales, target).rows
        scheme = Magnitudes(parts, "int8")
        on_device = [RowBounds(**{name: cupy.asarray(z) for name, z in vars(r).items()}) for r in rows]
        words = [
            scheme.split(real_parts(cupy.asarray(z)), r.truncation_scale, side, 16)
            for side, (z, r) in enumerate(zip((x, y), on_device, strict=True))
        ]
        products = scheme.multiply(*words, get_engine("auto", words[0]), None)

        def multiply(scales, use, products=products):
            use(products, slice(0, m), slice(0, n))

        found = pairwise_bound(tuple(on_device), length, multiply)()

        def multiply_on_host(scales, use, products=products):
            use(products.get(), slice(0, m), slice(0, n))

        assert found == pairwise_bound(rows, length, multiply_on_host)()
        assert found[0] > 0
