"""Stacks of small products: each with the bits that it has alone."""

from types import MappingProxyType

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.compiled import compiling
from ozaki.arguments import request_of
from ozaki.certificate.counting import Bounds, compute_bounds
from ozaki.certificate.decision import UNDECIDED, certify_by_counting, decide_stack
from ozaki.execution import captured, executors, groups, stacks
from ozaki.execution.groups import Groups
from ozaki.execution.stacks import multiply_stacks
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.scaling.scales import norm_limit, norm_scales
from ozaki.scaling.statistics import row_statistics
from tests.matrices import FACES, TARGETS, in_dtype, matrices
from tests.oracle import same

pytestmark = pytest.mark.usefixtures("modular")


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def xp(request):
    return pytest.importorskip(request.param)


@pytest.fixture(autouse=True)
def small_groups_on_a_gpu(request, monkeypatch):
    """Groups of two products go together on a GPU, too."""
    if request.node.get_closest_marker("gpu"):
        monkeypatch.setattr(groups, "SMALLEST_GROUP", 2)
        monkeypatch.setattr(captured, "FEWEST_HARD", 2)
        monkeypatch.setattr(executors, "chosen", executors.chosen.__wrapped__)


def stack(kinds, shape, dtype):
    pairs = [matrices(kind, *shape, seed=i) for i, kind in enumerate(kinds)]
    return in_dtype(*(np.stack(x) for x in zip(*pairs, strict=True)), dtype)


def on_host(x):
    return x if isinstance(x, np.ndarray) else x.get()


def request_for(x, accuracy=None, scheme="auto", engine="auto", workspace=None):
    return request_of(x, accuracy or TARGETS[x.dtype.name], scheme, None, engine, workspace)


def alone(pair, index, one=Pair.one):
    """One product that is left of a stack, but no stack product by product."""
    assert pair.stack == 1
    return one(pair, index)


def check(xp, a, b, face, **options):
    """The products come together, and each has the bits that it has alone."""
    x, y = xp.asarray(a), xp.asarray(b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pair, "one", alone)
        found = multiply_stacks(x, y, request_for(x, **options))
    with np.errstate(all="ignore"):
        expected = np.stack([face(x, y, **options) for x, y in zip(a, b, strict=True)])
    assert same(on_host(found), expected)


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 68, 61), (1, 300, 5), (16, 16, 16), (40, 5, 1)], ids=str)
@pytest.mark.parametrize("dtype", FACES)
def test_ordinary_stacks_come_at_once(xp, dtype, shape):
    a, b = stack(["uniform", "positive", "uniform", "integers"], shape, dtype)
    check(xp, a, b, FACES[dtype])


@pytest.mark.parametrize("accuracy", ["exact", 30, 70])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_other_accuracies(xp, dtype, accuracy):
    a, b = stack(["uniform", "wide6", "sparse", "subnormal"], (7, 68, 61), dtype)
    check(xp, a, b, FACES[dtype], accuracy=accuracy)


@pytest.mark.parametrize("odd", ["wide6", "wide20", "sparse", "cancelling"])
def test_one_product_that_may_ask_for_more(xp, odd):
    a, b = stack(["uniform", odd, "uniform"], (7, 68, 61), "float64")
    check(xp, a, b, ozaki.accurate_dgemm)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("accuracy", ["fp64", "exact"])
def test_infinities_and_nans_stay_in_their_product(xp, accuracy):
    a, b = stack(["uniform"] * 4, (7, 68, 61), "float64")
    a[1, 2, 3], b[2, 5, 6] = np.inf, np.nan
    check(xp, a, b, ozaki.accurate_dgemm, accuracy=accuracy)


MIXED = [
    "uniform",
    "wide6",
    "sparse",
    "wide20",
    "graded",
    "zeros",
    "uniform",
    "rows",
    "wide6",
    "infinite",
    "nan",
]


def mixed_stack(shape, dtype):
    """Products of many widths, and with zeros, Inf and NaN."""
    a, b = stack(
        ["uniform" if kind in ("zeros", "infinite", "nan") else kind for kind in MIXED], shape, dtype
    )
    a[MIXED.index("zeros")] = 0
    a[MIXED.index("infinite"), 1, 2] = np.inf
    b[MIXED.index("nan"), 3, :2] = np.nan
    return a, b


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("accuracy", ["fp64", "fp32", "exact", 40])
@pytest.mark.parametrize("shape", [(5, 6, 3), (7, 68, 61), (1, 40, 1)], ids=str)
@pytest.mark.parametrize("dtype", FACES)
def test_stacks_of_many_widths(xp, dtype, shape, accuracy):
    with np.errstate(over="ignore"):
        a, b = mixed_stack((max(2, shape[0]), *shape[1:]), dtype)
    check(xp, a, b, FACES[dtype], accuracy=accuracy)


class Int8Only:
    """An engine that has one word, and products as NumPy has them."""

    name, on_gpu, padding = "int8 only", False, 1
    products, default_words = frozenset({"int8"}), MappingProxyType({"residues": "int8"})

    def multiply(self, word, a, bt, *, out=None, alpha=1.0, beta=0.0):
        if word != "int8":
            raise ValueError(f"no {word}")
        product = a.astype(np.int32) @ bt.swapaxes(-1, -2).astype(np.int32)
        if out is None:
            return product
        out[...] = product
        return out


def test_an_engine_of_one_word_multiplies_stacks_of_many_widths():
    a, b = stack(["uniform", "wide6", "sparse", "wide2", "uniform"], (7, 68, 61), "float64")
    check(np, a, b, ozaki.accurate_dgemm, engine=Int8Only())


def test_products_that_need_equal_widths_are_computed_together():
    a, b = mixed_stack((7, 68, 61), "float64")
    widths = []
    for copies in (1, 10):
        many = [np.concatenate([x] * copies) for x in (a, b)]
        with np.errstate(all="ignore"):
            pair = Pair(*(Factor(x, i, stack=len(x)) for i, x in enumerate(many)), request_for(a))
            runs = list(groups._groups(groups._side_by_side(pair)))
        widths.append([len(indices) for indices, *_ in runs])
    # One run for each width, however many products.
    assert widths[1] == [10 * products for products in widths[0]]
    assert len(widths[0]) < len(MIXED)


def test_stacks_with_a_long_inner_dimension():
    a, b = stack(["uniform", "wide20", "wide6"], (3, 2500, 4), "float64")
    check(np, a, b, ozaki.accurate_dgemm)
    check(np, a, b, ozaki.accurate_dgemm, workspace=300_000)


@pytest.mark.gpu
def test_stacks_whose_inner_dimension_is_cut_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    a, b = stack(["uniform", "wide6", "uniform"], (3, 140_000, 4), "float64")
    check(cupy, a, b, ozaki.accurate_dgemm)


def test_what_the_counting_bound_surely_certifies_it_certifies():
    rng = np.random.default_rng(5)
    for length in (3, 12, 24, 100, 1000):
        for target in (FORMATS["fp64"], FORMATS["fp32"]):
            a, b = rng.standard_normal((2, 300 * 2, length)) * np.exp(
                rng.random((600, 1)) * rng.standard_normal(length)
            )
            statistics = row_statistics([a]), row_statistics([b])
            scales = tuple(norm_scales(x, norm_limit(target, length)) for x in statistics)
            found = compute_bounds(statistics, scales, target, 300).wait_for_stack()
            counted = [certify_by_counting(Bounds.of(x, length), target) for x in found.tolist()]
            expected = [UNDECIDED if x.wide else x.bits for x in counted]
            assert decide_stack(found, length, target).tolist() == expected


def test_parts_of_a_stack_within_the_workspace(xp):
    a, b = stack(["uniform"] * 9, (16, 40, 16), "float64")
    # The last is too little for a whole product of fp64 words.
    for workspace in (1 << 20, 1 << 17, 50_000):
        check(xp, a, b, ozaki.accurate_dgemm, workspace=workspace)


def test_broadcast_and_strided_stacks(xp):
    a, b = (xp.asarray(x) for x in stack(["uniform"] * 6, (9, 30, 11), "float64"))
    for x, y in (
        (a, b[0]),
        (a[0], b),
        (a.reshape(2, 3, 9, 30), b[:3]),
        (a[::2, ::-1], b[1::2, :, ::3]),
        (a[:, 0], b),
    ):
        found = ozaki.matmul(x, y)
        left, right = (z[None] if z.ndim == 1 else z for z in (x, y))
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        left, right = (xp.broadcast_to(z, (*batch, *z.shape[-2:])) for z in (left, right))
        expected = xp.stack([ozaki.accurate_dgemm(left[i], right[i]) for i in np.ndindex(*batch)])
        assert same(on_host(found), on_host(expected.reshape(found.shape)))


@pytest.mark.parametrize("scheme", ["residues", "slices"])
def test_schemes_and_engines(scheme):
    a, b = stack(["uniform"] * 3, (5, 12, 6), "float64")
    expected = np.stack([ozaki.accurate_dgemm(x, y) for x, y in zip(a, b, strict=True)])
    for engine in ("host", "modular", "tensorcore"):
        assert same(ozaki.matmul(a, b, scheme=scheme, engine=engine), expected)
        pair = Pair(
            Factor(a, 0, stack=3), Factor(b, 1, stack=3), request_for(a, scheme=scheme, engine=engine)
        )
        assert (Groups.refuses(pair.signature) is None) == (scheme == "residues")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 2, 3), (5, 1, 4)),
        ((5, 2, 3), (1,)),
        ((3,), (5, 1, 4)),
        ((0, 2, 3), (0, 4, 2)),
        ((5, 2, 3), (5, 2, 4)),
        ((1,), (2,)),
        ((2, 1), (3, 2)),
    ],
    ids=str,
)
def test_inner_dimensions_that_differ(xp, a, b):
    with pytest.raises(ValueError, match=r"inner dimensions differ: a is .* b is"):
        ozaki.matmul(xp.ones(a), xp.ones(b))


def test_stacks_that_do_not_broadcast(xp):
    with pytest.raises(ValueError, match=r"the stacks of a, .*, and b, .*, do not broadcast"):
        ozaki.matmul(xp.ones((5, 2, 3)), xp.ones((4, 3, 2)))


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("shape", [(6, 3, 3, 3), (5, 1, 40, 2)], ids=str)
def test_stacks_that_share_a_matrix_have_the_bits_of_single_products(monkeypatch, shape, dtype):
    """One product where that has the same bits, for which no product may ask for wider integers."""
    (s, m, k, n), rng, found = shape, np.random.default_rng(0), []
    as_one = stacks._as_one
    monkeypatch.setattr(stacks, "FEWEST_ROWS", 1)
    monkeypatch.setattr(stacks, "_as_one", lambda *given: found.append(as_one(*given)) or found[-1])
    for kind in ("ordinary", "one is wide", "some zeros", "nan"):
        a, b = rng.standard_normal((s, m, k)), rng.standard_normal((k, n))
        if kind == "one is wide":
            a[1] *= np.exp2(rng.integers(-20, 21, a[1].shape))
        elif kind == "some zeros":
            a[rng.random(a.shape) < 0.5] = 0
        elif kind == "nan":
            a[1, 0, 0] = np.nan
        a, b = in_dtype(a, b, dtype)
        for accuracy in ("fp64", "normwise", "exact"):
            with np.errstate(all="ignore"):
                expected = np.stack([ozaki.matmul(x, b, accuracy=accuracy) for x in a])
                assert same(ozaki.matmul(a, b, accuracy=accuracy), expected), (kind, accuracy)
                turned = ozaki.matmul(b.T, a.swapaxes(1, 2), accuracy=accuracy)
                assert same(turned, np.ascontiguousarray(expected.swapaxes(1, 2))), (kind, accuracy)
        if kind == "ordinary" and compiling() and k > 2:
            assert all(x is not None for x in found)
    if compiling():
        assert any(x is None for x in found)
