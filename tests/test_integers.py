"""Products of integers, and modulo p, against Python's integers."""

import re
import tracemalloc

import numpy as np
import pytest

import ozaki
from multiword import get_engine
from ozaki.execution import cache
from ozaki.execution.captured_integers import CapturedIntegers
from ozaki.integers import choose_cuts, magnitudes
from ozaki.residues.integers import NO_MISFIT, IntegerResidues, Place, Target, integer_specification

FULL = [(np.int64, np.int64), (np.uint64, np.uint64), (np.int64, np.uint64), (np.uint64, np.int8)]
NARROW = [(np.int8, np.uint8), (bool, np.int32), (np.uint32, np.int32), (bool, bool)]


def integers(dtype, shape, seed, share=1.0):
    """Integers over a share of a dtype's bits, its extremes among them."""
    rng = np.random.default_rng(seed)
    if dtype is bool:
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    bits = int(info.bits * share) - (info.min < 0)
    low, high = (-(2**bits) if info.min else 0), 2**bits - 1
    x = rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    x[..., 0, 0], x[..., -1, -1] = low, high
    return x


def exact(a, b):
    return a.astype(object) @ b.astype(object)


@pytest.mark.parametrize(("of_a", "of_b"), FULL + NARROW)
@pytest.mark.parametrize("result", [np.int64, np.uint64, np.int32, np.uint8])
@pytest.mark.parametrize("k", [1, 70])
def test_wrapped_products_are_those_of_integers(of_a, of_b, result, k):
    a, b = integers(of_a, (3, k), 1), integers(of_b, (k, 4), 2)
    got = ozaki.matmul(a, b, dtype=result, overflow="wrap")
    modulus, low = 1 << 8 * np.dtype(result).itemsize, int(np.iinfo(result).min)
    assert got.dtype == result
    assert (got == (exact(a, b) - low) % modulus + low).all()


@pytest.mark.parametrize(("of_a", "of_b"), FULL + NARROW)
@pytest.mark.parametrize("share", [0.2, 0.45, 0.5, 1])
@pytest.mark.parametrize("result", [np.int64, np.uint64, np.int16])
def test_what_does_not_fit_is_named_and_nothing_else(of_a, of_b, share, result):
    a, b = integers(of_a, (5, 9), 3, share), integers(of_b, (9, 4), 4, share)
    want, info = exact(a, b), np.iinfo(result)
    beyond = np.argwhere((want < info.min) | (want > info.max)).tolist()
    if not beyond:
        assert (ozaki.matmul(a, b, dtype=result) == want).all()
        return
    i, j = beyond[0]
    with pytest.raises(OverflowError, match=rf"\({i}, {j}\) of the product is {want[i, j]},"):
        ozaki.matmul(a, b, dtype=result)


@pytest.mark.parametrize("result", [np.int64, np.uint64])
@pytest.mark.parametrize("beyond", [-1, 0, 1, 2**64, -(2**64)])
def test_the_last_integer_that_fits(result, beyond):
    """Terms far larger than their sum, which is an end of the range, or next to it, or 2**64 away."""
    for end in (int(np.iinfo(result).min), int(np.iinfo(result).max)):
        value, big = end + beyond, 2**62 - 1
        low = value % (1 << 20)
        high = (value - low) >> 20
        a = np.array([[big, -big, high, low]], np.int64)
        b = np.array([[big], [big], [1 << 20], [1]], np.int64)
        if np.iinfo(result).min <= value <= np.iinfo(result).max:
            assert int(ozaki.matmul(a, b, dtype=result)[0, 0]) == value
        else:
            with pytest.raises(OverflowError, match=str(value)):
                ozaki.matmul(a, b, dtype=result)


MODULI = [2, 3, 251, 65537, *(2**bits + n for bits in (31, 32, 53, 62) for n in (-1, 0, 1)), 2**63 - 1]


@pytest.mark.parametrize("p", MODULI)
@pytest.mark.parametrize(("of_a", "of_b"), FULL + NARROW)
def test_products_modulo_p(p, of_a, of_b):
    a, b = integers(of_a, (4, 300), 5), integers(of_b, (300, 5), 6)
    got = ozaki.matmul(a, b, mod=p)
    assert got.dtype == np.int64
    assert (got == exact(a, b) % p).all()


@pytest.mark.parametrize("p", MODULI)
def test_residues_at_the_ends_and_in_the_middle(p):
    """Products of 0, 1, p/2 and p − 1, and sums of two: 0, next to it, or halfway, modulo p."""
    ends = [e % p for e in (0, 1, 2, p // 2 - 1, p // 2, p // 2 + 1, p - 2, p - 1)]
    a = np.array([[x, y] for x in ends for y in ends], np.int64)
    b = np.array([[1, x] for x in ends], np.int64).T
    assert (ozaki.matmul(a, b, mod=p) == exact(a, b) % p).all()
    assert (ozaki.matmul(-a, b, mod=p) == exact(-a, b) % p).all()


def test_stacks_vectors_and_empty_products():
    a, b = integers(np.int64, (2, 1, 3, 5), 7, 0.5), integers(np.int64, (4, 5, 2), 8, 0.4)
    assert (ozaki.matmul(a, b, dtype=np.int64) == exact(a, b)).all()
    assert (ozaki.matmul(a[0, 0, 0], b, mod=97) == exact(a[0, 0, 0], b) % 97).all()
    assert (ozaki.matmul(a, b[0, :, 0], dtype=np.int64) == exact(a, b[0, :, 0])).all()
    assert ozaki.matmul([1, 2], [3, 4], dtype=np.int64) == 11
    assert ozaki.matmul(np.ones((2, 0), int), np.ones((0, 3), int), dtype=np.int32).tolist() == [[0] * 3] * 2
    assert ozaki.matmul(np.ones((0, 2), int), np.ones((2, 3), int), mod=5).shape == (0, 3)


@pytest.mark.parametrize("workspace", [None, 1 << 15])
@pytest.mark.parametrize(
    ("of_a", "of_b"), [((5,), (2, 5, 60)), ((3, 1, 50, 5), (2, 5, 60)), ((2, 60, 5), (5,)), ((5,), (5,))]
)
def test_what_does_not_fit_is_named_by_its_index_in_the_result(of_a, of_b, workspace):
    a, b = np.ones(of_a, np.int64), np.ones(of_b, np.int64)
    a[..., -1] = 2**40
    b.reshape(-1, b.shape[-1])[-1] = 2**40
    want = np.asarray(exact(a, b))
    index = tuple(np.argwhere(want >= 2**63)[0].tolist())
    with pytest.raises(OverflowError, match=re.escape(f"element {index} of the product is {want[index]},")):
        ozaki.matmul(a, b, dtype=np.int64, workspace=workspace)


@pytest.mark.parametrize("workspace", [1 << 17, 1 << 19, None])
def test_panels_of_integers_in_a_workspace(workspace):
    a, b = integers(np.int64, (2, 1, 90, 40), 9, 0.5), integers(np.int64, (40, 130), 10, 0.4)
    want = exact(a, b)
    for options in ({"dtype": np.int64}, {"dtype": np.int64, "overflow": "wrap"}):
        assert (ozaki.matmul(a, b, workspace=workspace, **options) == want).all()
    assert (ozaki.matmul(a, b, mod=65537, workspace=workspace) == want % 65537).all()
    b[:, 77] = 2**62
    a[1, 0, 70] = 2**62
    a[0] = a[1, :, :70] = 0
    value = 40 * 2**124
    with pytest.raises(OverflowError, match=rf"\(1, 0, 70, 77\) of the product is {value},"):
        ozaki.matmul(
            a[:, :, :71],
            b[:, 77:78].repeat(78, 1) * (np.arange(78) == 77),
            dtype=np.int64,
            workspace=workspace,
        )


def test_temporaries_of_integers_stay_within_the_workspace():
    a = integers(np.int64, (300, 300), 11)
    wrapped, modular = {"dtype": np.int64, "overflow": "wrap"}, {"mod": 2**63 - 1}
    for workspace, options in ((1 << 20, wrapped), (1 << 22, wrapped), (1 << 21, modular)):
        tracemalloc.start()
        ozaki.matmul(a, a, workspace=workspace, **options)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= workspace + 3 * a.nbytes  # the result, and the residues of both
    with pytest.raises(MemoryError, match="workspace must hold panels of 16"):
        ozaki.matmul(a, a, mod=5, workspace=1 << 12)


def test_no_partial_sum_of_parts_exceeds_float64():
    for k in (1, 1000, 2**20 + 1):
        for widths in [(64, 64), (64, 1), (30, 30), (26, 27), (0, 64)]:
            for bits in (None, 64):
                left, right = choose_cuts(k, tuple(2**w - 1 for w in widths), bits)
                assert k * left.largest * right.largest <= 2**53
                for cut, w in zip((left, right), widths, strict=True):
                    assert cut.parts == 1 or cut.bits <= 33
                    assert cut.parts * cut.bits > w
                    assert cut.largest >= (2**w - 1 if cut.parts == 1 else 2 ** (cut.bits - 1))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": float}, TypeError, "integer dtype"),
        ({"dtype": np.int64, "mod": 5}, ValueError, "exclude"),
        ({"dtype": np.int64, "accuracy": "exact"}, ValueError, "exact"),
        ({"dtype": np.int64, "overflow": "ignore"}, ValueError, "overflow"),
        ({"mod": 1}, ValueError, "mod"),
        ({"mod": 2**63}, ValueError, r"mod must be at least 2 and below 2\*\*63"),
        ({"mod": 2.5}, TypeError, "mod must be an integer"),
        ({"overflow": "wrap"}, ValueError, "overflow"),
        ({"mod": 5, "overflow": "wrap"}, ValueError, "overflow"),
    ],
)
def test_options(options, error, message):
    with pytest.raises(error, match=message):
        ozaki.matmul(np.ones((2, 2), int), np.ones((2, 2), int), **options)


def test_only_integers_have_products_of_integers():
    with pytest.raises(TypeError, match=r"a must be an array of integers.*astype"):
        ozaki.matmul(np.ones((2, 2)), np.ones((2, 2), int), mod=5)
    with pytest.raises(ValueError, match="inner dimensions differ"):
        ozaki.matmul(np.ones((2, 2), int), np.ones((3, 2), int), mod=5)


@pytest.mark.parametrize("engine", ["host", pytest.param("cublas", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("of_a", "of_b"), [*FULL, (np.int64, np.int64)])
@pytest.mark.parametrize("share", [0.1, 0.4, 1])
def test_residues_of_integers_come_back_as_their_product(engine, of_a, of_b, share):
    """The scheme that a GPU takes, by NumPy's definition and by its kernels."""
    xp = np if engine == "host" else pytest.importorskip("cupy")
    a, b = integers(of_a, (7, 37), 1, share), integers(of_b, (37, 9), 2, share)
    want, chosen = exact(a, b), get_engine(engine)
    x, y = (xp.asarray(z.astype(np.uint64 if z.dtype == np.uint64 else np.int64)) for z in (a, b))
    scheme = IntegerResidues(integer_specification((7, 37, 9), magnitudes(a, b)), "int8", chosen)
    zeros, columns = xp.zeros(9, np.int32), y.T
    words = (scheme.split([z], zeros[: len(z)], side, chosen.padding) for side, z in enumerate((x, columns)))
    products = scheme.multiply(*words, chosen, None)
    for dtype in (np.int64, np.uint64, np.int16, np.uint8):
        out, misfit, info = xp.empty((7, 9), np.int64), xp.zeros(1, np.uint64), np.iinfo(dtype)
        scheme.integers(products.copy(), Target(np.dtype(dtype)), out, Place(50, 100), misfit)
        low = int(info.min)
        got = out.astype(dtype).tolist()
        assert got == ((want - low) % (1 << info.bits) + low).tolist()
        beyond = np.argwhere((want < low) | (want > int(info.max))).tolist()
        first = 50 + 100 * beyond[0][0] + beyond[0][1] if beyond else NO_MISFIT
        assert int(misfit[0]) == NO_MISFIT - first
    for p in (2, 97, 2**31 - 1, 2**32, 2**53 + 1, 2**62 + 1, 2**63 - 1):
        scheme.integers(products.copy(), Target(np.dtype(np.int64), p), out, Place(0, 9), misfit)
        assert out.tolist() == (want % p).tolist()


@pytest.mark.gpu
@pytest.mark.parametrize("workspace", [None, 1 << 20])
@pytest.mark.parametrize("shape", [(300, 411, 270), (3, 70_001, 5), (1, 1, 1), (2, 520, 530, 540)])
def test_products_of_integers_on_a_gpu_are_those_of_a_cpu(shape, workspace):
    cupy = pytest.importorskip("cupy")
    *batch, m, k, n = shape
    a, b = integers(np.int64, (*batch, m, k), 3), integers(np.uint64, (k, n), 4)
    x, y = cupy.asarray(a)[..., ::-1, ::-1], cupy.asarray(b.T.copy()).T[::-1, ::-1]
    flipped = a[..., ::-1, ::-1], b[::-1, ::-1]
    for options in ({"dtype": np.int64, "overflow": "wrap"}, {"mod": 2**31 - 1}, {"mod": 2**63 - 1}):
        want = ozaki.matmul(*flipped, **options)
        assert (ozaki.matmul(x, y, workspace=workspace, **options).get() == want).all()
    if k > 1:
        with pytest.raises(OverflowError) as cpu:
            ozaki.matmul(*flipped, dtype=np.int64)
        with pytest.raises(OverflowError) as gpu:
            ozaki.matmul(x, y, dtype=np.int64, workspace=workspace)
        assert str(gpu.value) == str(cpu.value)
    small = x >> 40, (y >> 40).astype(np.int64)
    want = ozaki.matmul(*(z.get() for z in small), dtype=np.int64)
    assert (ozaki.matmul(*small, dtype=np.int64, workspace=workspace).get() == want).all()


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["C", "F", "mixed", "int32"])
def test_products_that_come_again_are_replayed_with_as_many_moduli_as_they_take(layout):
    """More than the call before, and fewer; what does not fit is named by replays, too."""
    cupy = pytest.importorskip("cupy")
    cache.forget()
    rng, dtype = np.random.default_rng(6), np.int32 if layout == "int32" else np.int64
    for call, share in enumerate((0.5, 0.5, 0.4, 1, 1, 0.1, 0.1, 0.7, 0.3, 1)):
        a, b = (integers(dtype, shape, 10 * call + i, share) for i, shape in enumerate([(60, 70), (70, 50)]))
        if call % 2:
            a, b = a // 2 + rng.integers(0, 2, a.shape, dtype), b // 3
        x = cupy.asarray(a, order="F" if layout == "F" else "C")
        y = cupy.asarray(b, order="C" if layout == "C" else "F")
        want = exact(a, b)
        wrapped = ozaki.matmul(x, y, dtype=np.int64, overflow="wrap")
        assert (wrapped.get() == (want + 2**63) % 2**64 - 2**63).all()
        for p in (101, 2**61 - 1):
            assert (ozaki.matmul(x, y, mod=p).get() == want % p).all()
        beyond = np.argwhere(abs(want) >= 2**31).tolist()
        if beyond:
            i, j = beyond[0]
            with pytest.raises(OverflowError, match=rf"\({i}, {j}\) of the product is {want[i, j]},"):
                ozaki.matmul(x, y, dtype=np.int32)
        else:
            assert (ozaki.matmul(x, y, dtype=np.int32).get() == want).all()
    held = [x for x in cache._cached.values() if isinstance(x, CapturedIntegers)]
    assert len(held) == 4
    counts = {x._target: len(x._graphs) for x in held}
    assert [target.modulus for target, count in counts.items() if count == 1] == [101]  # residues all alike
