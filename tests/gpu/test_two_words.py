"""Products of sums of two words have the CPU's bits, and so have the kernels that split and round them."""

import numpy as np
import pytest

import ozaki
from multiword.engines import get_engine
from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from ozaki.residues.scheme import Residues
from ozaki.residues.sums import residues_of_sums
from ozaki.schemes import ProductSpecification
from tests.execution.test_two_words import OPERANDS
from tests.oracle import images_of
from tests.residues.test_words_cuda import integers, scales, words

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

SHAPES = [(1, 1, 1), (5, 7, 3), (37, 301, 29), (130, 261, 67), (3, 5000, 2), (300, 40, 520)]
KINDS = ["normal", "wide", "cancelling", "sparse", "subnormal", "special", "complex"]


def operand(kind, shape, seed):
    """Words of normal numbers, of all sizes, of which the first cancels the second, and so on."""
    rng = np.random.default_rng(seed)
    high, low = rng.standard_normal((2, *shape))
    if kind == "wide":
        high *= 2.0 ** rng.integers(-60, 60, shape)
    low *= np.abs(high) * 2.0 ** -rng.integers(40, 70, shape)
    if kind == "cancelling":
        low -= high
    elif kind == "sparse":
        high[rng.random(shape) < 0.6] = 0
        low[rng.random(shape) < 0.3] = -0.0
    elif kind == "subnormal":
        high, low = high * 2.0**-1000, low * 2.0**-1000
    elif kind == "special":
        high[rng.integers(shape[0]), rng.integers(shape[1])] = rng.choice([np.inf, -np.inf, np.nan])
        low[-1, 0] = np.inf
        high[0], low[0] = np.finfo(float).max, 2.0**970
    elif kind == "complex":
        high, low = high + 1j * rng.permuted(high), low + 1j * rng.permuted(low)
    return high, low


def check(cupy, a, b, layout=lambda x: x, **options):
    """The same words, of operands of one word or of two that lie in memory as told."""
    there = [
        tuple(layout(cupy.asarray(word)) for word in x) if isinstance(x, tuple) else layout(cupy.asarray(x))
        for x in (a, b)
    ]
    expected = ozaki.matmul(a, b, words=2, **options)
    for ours, theirs in zip(ozaki.matmul(*there, words=2, **options), expected, strict=True):
        assert isinstance(ours, cupy.ndarray)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert ours.get().tobytes() == theirs.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accuracy", ["fp64", "exact"])
def test_products(cupy, accuracy, kind, shape):
    m, k, n = shape
    a, b = operand(kind, (m, k), 1), operand("normal" if kind == "special" else kind, (k, n), 2)
    check(cupy, a, b, accuracy=accuracy)
    check(cupy, a[0], b, accuracy=accuracy)
    check(cupy, b[0].T, a[0].T, accuracy=accuracy)


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("accuracy", ["fp64", "exact"])
def test_operands_of_the_cpus_tests(cupy, accuracy, kind):
    check(cupy, *(x if len(x) > 1 else x[0] for x in OPERANDS[kind]), accuracy=accuracy)


def test_views(cupy):
    a, b = operand("wide", (37, 90), 3), operand("wide", (90, 53), 4)
    for layout in (
        cupy.asfortranarray,
        lambda x: cupy.repeat(x, 2, axis=1)[:, ::2],
        lambda x: cupy.repeat(x, 3, axis=0)[::3],
        lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    ):
        check(cupy, a, b, layout)
    layouts = iter([cupy.asfortranarray, cupy.ascontiguousarray] * 2)
    check(cupy, a, b, lambda x: next(layouts)(x))
    row = tuple(np.broadcast_to(x[:1], x.shape) for x in a)
    check(cupy, row, b, lambda x: cupy.broadcast_to(x[:1], x.shape) if x.shape == (37, 90) else x)


def test_stacks_vectors_and_nothing(cupy):
    a, b = (np.stack([operand("wide", (5, 70), seed) for seed in range(4)], axis=1) for _ in range(2))
    a, b = a.reshape(2, 2, 2, 5, 70), b.swapaxes(-1, -2)
    check(cupy, tuple(a), tuple(b[:, :2]))
    check(cupy, tuple(a[:, 0, 0]), tuple(b))
    check(cupy, tuple(a[:, 0, 0, 0]), tuple(b[:, 0]))
    check(cupy, tuple(a[:, 0, 0]), tuple(b[:, 0, :, 0]))
    check(cupy, (np.ones((2, 0)),) * 2, np.ones((0, 3)))
    check(cupy, (np.ones((0, 2)),) * 2, np.ones((2, 3)))


@pytest.mark.parametrize("engine", ["auto", "cublas"])
def test_panels_and_engines(cupy, engine):
    a, b = operand("wide", (300, 700), 5), operand("normal", (700, 200), 6)
    expected = ozaki.matmul(a, b, words=2)
    there = [tuple(map(cupy.asarray, x)) for x in (a, b)]
    for options in ({}, {"workspace": 1 << 22}):
        found = ozaki.matmul(*there, words=2, engine=engine, **options)
        assert [x.get().tobytes() for x in found] == [x.tobytes() for x in expected], options


def test_sums_that_overflow(cupy):
    big = np.finfo(float).max
    a = np.array([[big, 1], [big, 0], [1e300, 1e300]]), np.array([[big, 0], [-(2.0**969), 0], [1e300, 0]])
    check(cupy, a, np.array([[1.0, 0], [1, 0]]))
    check(cupy, a, np.full((2, 1), 1e300), accuracy="exact")
    x = 1 + 2.0**-52
    check(
        cupy,
        np.full((1, 1), 2.0**600 * x),
        np.full((1, 1), complex(2.0**500, 2.0**300 * x)),
        accuracy="exact",
    )


@pytest.mark.parametrize("shape", [(1, 1), (37, 301), (70, 33), (3, 5000), (600, 20)], ids=str)
@pytest.mark.parametrize(("width", "parts"), [(110, 1), (62, 1), (64, 2), (160, 2)])
@pytest.mark.parametrize("word", ["int8", "fp64"])
def test_residues_of_sums(cupy, word, width, parts, shape):
    scale = scales(shape[0])
    high, low = zip(*(words(shape, width, scale) for _ in range(parts)), strict=True)
    system = residue_system(word, min(330.0, 2.0 * width), shape[1], parts)
    for padding, weighted in ((1, True), (16, False)):
        options = system, padding, weighted, width + 1
        expected = residues_of_sums(high, low, scale, *options)
        for layout in (cupy.asarray, lambda x: cupy.asfortranarray(cupy.asarray(x))):
            there = [[layout(x) for x in word] for word in (high, low)]
            found = residues_of_sums(*there, cupy.asarray(scale), *options)
            assert np.array_equal(found.get(), expected)


REAL_AND_COMPLEX = ["float64", "complex128"]
INTEGERS = [
    *(
        ("int8", bits, products, dtype)
        for bits in (140, 217, 320)
        for products in ("int8", "int32")
        for dtype in REAL_AND_COMPLEX
    ),
    *(("fp64", 700, "float64", dtype) for dtype in REAL_AND_COMPLEX),
    ("int8", 110, "int32", "complex64"),
]


@pytest.mark.parametrize("shape", [(6, 39), (6, 1), (6, 1030)], ids=str)
@pytest.mark.parametrize(("word", "bits", "products", "dtype"), INTEGERS)
def test_both_words_of_integers(cupy, word, bits, products, dtype, shape):
    (m, n), parts = shape, 1 + dtype.startswith("complex")
    target = FORMATS["fp32" if dtype == "complex64" else "fp64"]
    widths = bits // 2, bits // 2
    scheme = Residues(
        ProductSpecification((m, 100, n), 1, parts, widths, bits + 0.5, target), word, get_engine("host")
    )
    values = [integers(shape, bits, target.precision) for _ in range(parts)]
    system = scheme.system
    moduli = np.array(system.moduli)[:, None, None]
    y = np.zeros((system.images, len(moduli), m + 2, -(-n // 16) * 16), products)
    y[:, :, :m, :n] = (images_of(values[0], values[-1], system) + moduli // 2) % moduli - moduli // 2
    rows = np.array([0, 70, bits - target.emax - 30, bits - target.emin - 20, bits - target.emin + 70, -40])
    columns = np.random.default_rng(7).integers(-20, 20, n)
    exponents = [x.astype(np.int32) for x in (rows, columns)]
    expected = [np.empty(shape, dtype) for _ in range(2)]
    scheme.round_words(y.astype(scheme.word.result), tuple(exponents), expected)
    for strided in (False, True):
        found = [cupy.empty((m, n + strided), dtype)[:, strided:] for _ in range(2)]
        scheme.round_words(cupy.asarray(y), tuple(map(cupy.asarray, exponents)), found)
        assert [x.get().tobytes() for x in found] == [x.tobytes() for x in expected]
