"""Products of small matrices in limbs, by one kernel: the bits of residues, for all data and layouts."""

import numpy as np
import pytest

import ozaki
from ozaki.execution import cache
from ozaki.product import limbs
from tests.cases import FACES, KINDS, in_dtype, matrices
from tests.exact import same

pytestmark = pytest.mark.gpu

SHAPES = [
    (1, 1, 1),
    (3, 4, 5),
    (16, 16, 16),
    (17, 5, 70),
    (40, 33, 31),
    (64, 64, 64),
    (70, 130, 90),
    (5, 300, 2),
]


@pytest.fixture
def cupy(monkeypatch):
    """CuPy, with limbs wherever there are enough of them."""
    cache.forget()
    monkeypatch.setattr(limbs, "LIMB_PRODUCTS", (1 << 40, 1 << 40))
    yield pytest.importorskip("cupy")
    cache.forget()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FACES)
def test_bits_of_every_kind_of_data(cupy, kind, dtype):
    for shape in SHAPES:
        for accuracy in ("fp64", "fp32", "normwise"):
            a, b = in_dtype(*matrices(kind, *shape), dtype)
            x, y = cupy.asarray(a), cupy.asarray(b)
            expected = FACES[dtype](a, b, accuracy=accuracy)
            for _ in range(3):  # kernel by kernel, captured, replayed
                result = FACES[dtype](x, y, accuracy=accuracy)
                assert same(result.get(), expected), (shape, accuracy)


@pytest.mark.parametrize("dtype", FACES)
def test_stacks_of_every_layout(cupy, dtype):
    rng = np.random.default_rng(3)
    for s, m, k, n in ((2, 7, 9, 8), (5, 33, 20, 36), (40, 16, 16, 16), (20, 32, 70, 4)):
        of_stack = [matrices(KINDS[i % len(KINDS)], m, k, n, seed=i) for i in range(s)]
        pairs = [in_dtype(a, b, dtype) for a, b in of_stack]
        a, b = (np.stack(x) for x in zip(*pairs, strict=True))
        a[rng.integers(s), 0, 0] = np.inf
        b[rng.integers(s), -1, -1] = np.nan
        expected = ozaki.matmul(a, b)
        x, y = cupy.asarray(a), cupy.asarray(b)
        turned = x.swapaxes(1, 2).copy().swapaxes(1, 2), y.swapaxes(1, 2).copy().swapaxes(1, 2)
        every_other = cupy.zeros((2 * s, m, 2 * k), x.dtype)[::2, :, ::2]
        every_other[...] = x
        for left, right in ((x, y), turned, (every_other, y), (x[::-1][::-1], turned[1])):
            for _ in range(3):
                assert same(ozaki.matmul(left, right).get(), expected), (s, m, k, n)


def test_more_rows_than_a_grid_is_high(cupy):
    a, b = (
        np.random.default_rng(i).standard_normal(shape)
        for i, shape in ((1, (4, 1_100_000, 2)), (2, (4, 2, 4)))
    )
    expected = ozaki.matmul(a, b)
    for _ in range(2):
        assert same(ozaki.matmul(cupy.asarray(a), cupy.asarray(b)).get(), expected)
