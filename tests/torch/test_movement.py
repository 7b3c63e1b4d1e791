"""Operators that copy, compare or count give the same bits on any threads, of any part and in any order."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import ozaki.torch  # noqa: E402
from ozaki.torch import independent  # noqa: E402
from tests.torch.test_independent import COMPARISONS, on_threads, operands, same, varies_with  # noqa: E402

F, aten = torch.nn.functional, torch.ops.aten
COLUMNS = torch.randperm(131, generator=torch.Generator().manual_seed(4))
SOME = COLUMNS[:40]


def bits_of(x):
    return (x * 64).to(torch.int32)


def planes(x, n=1):
    """Each row as an image of n channels."""
    return x[:, :120].reshape(len(x), n, 10, -1)


def into(x):
    """A copy to write to."""
    return x.clone()


ROW_BY_ROW = {
    **{name: getattr(aten, name) for name in COMPARISONS},
    "isnan": lambda x, y: aten.isnan(x / y.round()),
    "isneginf": lambda x, y: aten.isneginf(x / y.round()),
    "isposinf": lambda x, y: aten.isposinf(x / y.round()),
    "signbit": lambda x, y: x.signbit(),
    "logical_not": lambda x, y: x.round().logical_not(),
    "bitwise_and": lambda x, y: bits_of(x) & bits_of(y),
    "bitwise_or": lambda x, y: bits_of(x) | bits_of(y),
    "bitwise_xor": lambda x, y: bits_of(x) ^ bits_of(y),
    "bitwise_not": lambda x, y: ~bits_of(x),
    "where": lambda x, y: torch.where(x > y, x, y),
    "complex": lambda x, y: torch.view_as_real(torch.complex(x, y)).flatten(1),
    "conj_physical": lambda x, y: torch.view_as_real(torch.complex(x, y).conj_physical()).flatten(1),
    "_stack": lambda x, y: aten._stack([x, y], 1).flatten(1),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "flip": lambda x, y: x.flip(1),
    "roll": lambda x, y: x.roll(5, 1),
    "index": lambda x, y: x[:, SOME],
    "index_select": lambda x, y: x.index_select(1, SOME),
    "gather": lambda x, y: x.gather(1, COLUMNS.expand_as(x)),
    "index_copy": lambda x, y: x.index_copy(1, SOME, y[:, :40]),
    "index_fill": lambda x, y: x.index_fill(1, SOME, 0.5),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 0.5),
    "fill": lambda x, y: aten.fill_(into(x), 0.5),
    "zero": lambda x, y: into(x).zero_(),
    "repeat_interleave": lambda x, y: x.repeat_interleave(torch.arange(131) % 3, 1),
    "tril": lambda x, y: planes(x).tril(1).flatten(1),
    "triu": lambda x, y: planes(x).triu(-1).flatten(1),
    "narrow_copy": lambda x, y: aten.narrow_copy(x, 1, 3, 50),
    "all": lambda x, y: x.round().all(1),
    "any": lambda x, y: x.round().any(1),
    "count_nonzero": lambda x, y: aten.count_nonzero(x.round(), [1]),
    "bucketize": lambda x, y: torch.bucketize(x, torch.linspace(-1, 1, 9, dtype=x.dtype)),
    "searchsorted": lambda x, y: torch.searchsorted(x.sort(1)[0], y),
    "isin": lambda x, y: aten.isin((x * 9).round(), torch.arange(-9.0, 9, 2, dtype=x.dtype)),
    "channel_shuffle": lambda x, y: torch.channel_shuffle(planes(x, 4), 2).flatten(1),
    "native_channel_shuffle": lambda x, y: aten.native_channel_shuffle(planes(x, 4), 2).flatten(1),
    "pixel_shuffle": lambda x, y: aten.pixel_shuffle(planes(x, 4), 2).flatten(1),
    "pixel_unshuffle": lambda x, y: aten.pixel_unshuffle(planes(x, 2)[..., :6], 2).flatten(1),
    "im2col": lambda x, y: F.unfold(planes(x), (3, 2)).flatten(1),
    "dequantize": lambda x, y: torch.quantize_per_tensor(x.float(), 0.1, 3, torch.qint8).dequantize(),
    **{
        f"{kind}_pad{n}d": lambda x, y, mode=mode, n=n: F.pad(
            x[:, :120].reshape(len(x), *((1, 120), (1, 10, 12), (1, 5, 4, 6))[n - 1]), (1, 2) * n, mode=mode
        ).flatten(1)
        for kind, mode in (("reflection", "reflect"), ("replication", "replicate"))
        for n in (1, 2, 3)
    },
    **{
        f"{name}{n}d": lambda x, y, mode=mode, n=n: F.interpolate(
            x[:, :120].reshape(len(x), *((1, 120), (1, 10, 12), (1, 5, 4, 6))[n - 1]),
            scale_factor=1.7,
            mode=mode,
        ).flatten(1)
        for name, mode in (("upsample_nearest", "nearest"), ("_upsample_nearest_exact", "nearest-exact"))
        for n in (1, 2, 3)
    },
}
"""What takes every row by itself: independent of threads, of the cut and of the order."""

AS_A_WHOLE = {
    "equal": lambda x, y: torch.tensor([torch.equal(x, y), torch.equal(x, x)]),
    "is_set_to": lambda x, y: torch.tensor([x.is_set_to(y)]),
    "_is_all_true": lambda x, y: aten._is_all_true(x > -9),
    "_is_any_true": lambda x, y: aten._is_any_true(x > 9),
    "_local_scalar_dense": lambda x, y: torch.tensor([x[5, 7].item()], dtype=x.dtype),
    "_aminmax": lambda x, y: torch.stack(aten._aminmax(x)),
    "_assert_async": lambda x, y: aten._assert_async((x > -99).all()) or x,
    "_functional_assert_async": lambda x, y: aten._functional_assert_async((x > -99).all(), "", x),
    "eye": lambda x, y: torch.eye(300, dtype=x.dtype),
    "masked_select": lambda x, y: x.masked_select(y > 0),
    "masked_scatter": lambda x, y: x.masked_scatter(y > 0, y),
    "nonzero": lambda x, y: x.round().nonzero(),
    "nonzero_static": lambda x, y: torch.nonzero_static(x.round(), size=99),
    "take": lambda x, y: x.take(torch.arange(0, x.numel(), 3).flip(0)),
    "resize": lambda x, y: into(x).resize_(300, 100),
    "set": lambda x, y: torch.empty(0, dtype=x.dtype).set_(x),
    "_to_sparse": lambda x, y: x.round().to_sparse().to_dense(),
    "_to_sparse_csr": lambda x, y: x.round().to_sparse_csr().to_dense(),
    "_unique": lambda x, y: torch.cat([z.to(x.dtype).flatten() for z in aten._unique(x.round(), True, True)]),
    "_unique2": lambda x, y: torch.cat([z.to(x.dtype).flatten() for z in aten._unique2(x, True, True, True)]),
    "unique_dim": lambda x, y: torch.unique(x.round()[:, :2], dim=0),
    "unique_consecutive": lambda x, y: torch.unique_consecutive(x.round()),
}
"""What makes one result of all: the same on any threads, and made of the numbers that there are."""


class Called(TorchDispatchMode):
    """Which operators are called within."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.names.add(function.overloadpacket.__name__.rstrip("_"))
        return function(*arguments, **(options or {}))


@pytest.mark.parametrize("name", sorted(ROW_BY_ROW | AS_A_WHOLE))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_movement_is_independent_and_makes_no_number(name, dtype):
    (x, y), f = operands(dtype), (ROW_BY_ROW | AS_A_WHOLE)[name]
    with Called() as called:
        result = f(x, y)
    assert name in {x.lstrip("_") for x in called.names} | called.names
    if name in ROW_BY_ROW:
        assert varies_with(f, x, y) == set()
    else:
        assert same(on_threads(1, lambda: f(x, y)), on_threads(2, lambda: f(x, y)))
    if result.is_floating_point() and name not in COUNTING:
        known = torch.cat(
            [x.flatten(), y.flatten(), -y.flatten(), x.round().flatten(), torch.tensor([0, 0.5, 1]).to(dtype)]
        )
        assert torch.isin(result.to(dtype), known).all()


COUNTING = {"dequantize", "_unique", "_unique2"}
"""What returns products with a scale, or counts."""


def test_every_operator_on_the_list_is_tried():
    assert (ROW_BY_ROW | AS_A_WHOLE).keys() == independent.MOVEMENT | {"index_copy"}


def test_copies_to_one_place_twice_are_counted():
    x, _ = operands(torch.float32)
    for index, varies in ((torch.tensor([1, 1]), 1), (torch.tensor([2, 1]), 0), (torch.tensor([2]), 0)):
        with warnings.catch_warnings(record=True) as caught, ozaki.torch.reproducible():
            warnings.simplefilter("always")
            x.index_copy(0, index, x[: len(index)])
        assert len(caught) == varies
