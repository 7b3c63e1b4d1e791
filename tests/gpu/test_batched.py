"""Every kernel for a batch on the GPU, against exact arithmetic and the bound it promises."""

import numpy as np
import pytest

from multiword.batched import HalfComplex, batched_matmul
from multiword.batched.gpu.plans import Tuning
from multiword.batched.problem import check_problem
from tests.multiword.batched.test_batched import (
    BF16,
    FP16,
    ODD_SHAPES,
    UNDERFLOWING,
    check,
    random_pairs,
    random_words,
    stored,
    underflowing,
    wide,
)
from tests.threads import in_threads

pytestmark = pytest.mark.gpu

KERNELS = {
    "plain": Tuning("plain"),
    "plain, direct": Tuning("plain", threads=64, direct=True),
    "resident": Tuning("resident"),
    "resident, direct": Tuning("resident", threads=64, chunk=1, direct=True),
    "resident 2x2": Tuning("resident", threads=64, chunk=20000, tile_m=2, tile_n=2),
    "tiled": Tuning("tiled", tile_m=2, tile_n=2),
    "tiled 4x2": Tuning("tiled", tile_m=4, tile_n=2, warps_m=1, warps_n=2, steps=4, stages=2),
    "tiled 1x5": Tuning("tiled", tile_m=1, tile_n=5, warps_m=7, warps_n=1, steps=4, stages=2),
    "tiled, persistent": Tuning("tiled", tile_m=4, tile_n=4, warps_n=4, steps=4, stages=3, persistent=1),
    "cublas": Tuning("cublas"),
}


def to_gpu(x):
    cupy = pytest.importorskip("cupy")
    if isinstance(x, HalfComplex):
        return HalfComplex(to_gpu(x.pairs))
    if isinstance(x, list | tuple):
        return [to_gpu(y) for y in x]
    if x.dtype == BF16:
        return cupy.asarray(x.view(np.uint16)).view(BF16)
    return cupy.asarray(x)


def to_cpu(x):
    if isinstance(x, HalfComplex):
        return HalfComplex(to_cpu(x.pairs))
    if x.dtype == BF16:
        return x.view(np.uint16).get().view(BF16)
    return x.get()


def by_kernel(
    kernel, a, b, *, alpha=1.0, beta=0.0, c=None, trans_a=False, trans_b=False, accumulate="fp32", out=None
):
    """`batched_matmul`, with the kernel prescribed."""
    from multiword.batched.gpu.device import multiply

    problem = check_problem(a, b, alpha, beta, c, trans_a, trans_b, accumulate, out)
    result, _ = multiply(problem, KERNELS[kernel])
    return HalfComplex(result) if problem.complex else result


def suits(kernel, m, n, k, is_complex):
    """Whether a kernel can do a size at all: registers and shared memory are finite."""
    parts = 2 if is_complex else 1
    if kernel.startswith("plain"):
        return parts * n <= 32 and k <= 32
    return not kernel.startswith("resident") or 2 * parts * (m * k + k * n + m * n) < 180_000


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("make", [random_words, random_pairs])
def test_sizes_to_64(kernel, make):
    """A third of them, each by a third of the kernels: all are taken below by the one that is chosen."""
    rng = np.random.default_rng(1)
    for n in range(1 + list(KERNELS).index(kernel) % 3, 65, 3):
        if not suits(kernel, n, n, n, make is random_pairs):
            continue
        batch = int(rng.integers(1, 400))
        a, b = make(rng, (batch, n, n)), make(rng, (batch, n, n))
        check(to_cpu(by_kernel(kernel, to_gpu(a), to_gpu(b))), a, b)


@pytest.mark.parametrize("accumulate", ["fp32", "fp16", "bf16 words"])
@pytest.mark.parametrize("make", [random_words, random_pairs])
@pytest.mark.parametrize("batch", [3, 300])
def test_every_size_to_64_in_every_format_as_chosen(accumulate, make, batch):
    rng = np.random.default_rng(batch)
    word = BF16 if accumulate == "bf16 words" else FP16
    sums = "fp16" if accumulate == "fp16" else "fp32"
    for n in range(1, 65):
        a, b = make(rng, (batch, n, n), word), make(rng, (batch, n, n), word)
        check(to_cpu(batched_matmul(to_gpu(a), to_gpu(b), accumulate=sums)), a, b, accumulate=sums)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("accumulate", ["fp32", "fp16", "bf16 words"])
@pytest.mark.parametrize("make", [random_words, random_pairs])
def test_odd_shapes_formats_alpha_beta(kernel, accumulate, make):
    rng = np.random.default_rng(2)
    word = BF16 if accumulate == "bf16 words" else FP16
    accumulate = "fp16" if accumulate == "fp16" else "fp32"
    scalars = [(1, 0), (1.5, -0.5)] if make is random_words else [(1, 0), (-2, 1), (1.5 - 0.25j, 0.5 + 1j)]
    for m, n, k in [*ODD_SHAPES, (24, 40, 16), (4, 12, 20)]:
        if not suits(kernel, m, n, k, make is random_pairs):
            continue
        a, b, c = make(rng, (150, m, k), word), make(rng, (150, k, n), word), make(rng, (150, m, n), word)
        for alpha, beta in scalars:
            result = by_kernel(
                kernel, to_gpu(a), to_gpu(b), alpha=alpha, beta=beta, c=to_gpu(c), accumulate=accumulate
            )
            check(to_cpu(result), a, b, alpha, beta, c, accumulate, rounded_twice=kernel == "cublas")


@pytest.mark.parametrize(
    ("kernel", "make", "n"),
    [
        (kernel, make, n)
        for kernel in KERNELS
        for make in (random_words, random_pairs)
        for n in (5, 8, 12, 16, 22, 48, 80)
        if suits(kernel, n, n, n, make is random_pairs)
    ],
)
def test_transposes_broadcasts_and_lists(kernel, make, n):
    rng = np.random.default_rng(n)
    a, b = make(rng, (37, n, n)), make(rng, (37, n, n))
    for trans_a in (False, "T", "C"):
        for trans_b in (False, "T", "C"):
            left, right = to_gpu(stored(a, trans_a)), to_gpu(stored(b, trans_b))
            check(to_cpu(by_kernel(kernel, left, right, trans_a=trans_a, trans_b=trans_b)), a, b)
    one = make(rng, (n, n))
    check(to_cpu(by_kernel(kernel, to_gpu(a), to_gpu(one))), a, one)
    check(to_cpu(by_kernel(kernel, to_gpu(one), to_gpu(b))), one, b)
    pick = (lambda x, i: HalfComplex(x.pairs[i])) if make is random_pairs else (lambda x, i: x[i])
    lists = [to_gpu([pick(x, i) for i in range(37)]) for x in (a, b)]
    check(to_cpu(by_kernel(kernel, *lists)), a, b)
    check(to_cpu(by_kernel(kernel, lists[0], to_gpu(b))), a, b)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [3, 8, 11, 16, 24])
@pytest.mark.parametrize("gap", [1, 8])
def test_strides_offsets_and_what_lies_between(kernel, n, gap):
    """Leading dimensions larger than the rows, odd addresses; entries between stay untouched."""
    rng = np.random.default_rng(n)
    frames = [random_words(rng, (41, n + 2 * gap, n + 3 * gap)) for _ in range(4)]
    inside = np.s_[:, gap : gap + n, 2 * gap : 2 * gap + n]
    a, b, c = (x[inside] for x in frames[:3])
    on_gpu = [to_gpu(x) for x in frames]
    target = on_gpu[3]
    expected = target.copy()
    by_kernel(kernel, *(x[inside] for x in on_gpu[:2]), beta=0.5, c=on_gpu[2][inside], out=target[inside])
    check(to_cpu(target[inside]), a, b, 1.0, 0.5, c, rounded_twice=kernel == "cublas")
    expected[inside] = target[inside]
    assert bool((expected == target).all())
    for x, y in zip(frames[:3], on_gpu[:3], strict=True):
        assert np.array_equal(x, to_cpu(y))
    by_columns = on_gpu[3][inside].swapaxes(-1, -2)
    by_kernel(kernel, *(x[inside] for x in on_gpu[:2]), out=by_columns)
    check(to_cpu(by_columns), a, b)


@pytest.mark.parametrize("kernel", KERNELS)
def test_packed_stacks_at_odd_addresses(cupy, kernel):
    rng = np.random.default_rng(5)
    for n in (3, 7, 8, 16):
        for shift in (1, 3, 4):
            room = [cupy.zeros(90 * n * n + 8, np.float16) for _ in range(4)]
            a, b, c = (random_words(rng, (90, n, n)) for _ in range(3))
            views = [x[shift + i : shift + i + 90 * n * n].reshape(90, n, n) for i, x in enumerate(room)]
            for view, x in zip(views, (a, b, c), strict=False):
                view[...] = cupy.asarray(x)
            by_kernel(kernel, views[0], views[1], beta=1, c=views[2], out=views[3])
            check(to_cpu(views[3]), a, b, 1.0, 1.0, c, rounded_twice=kernel == "cublas")
            assert not room[3][: shift + 3].any()
            assert not room[3][shift + 3 + 90 * n * n :].any()
            by_kernel(kernel, views[0], views[1], beta=1, c=views[2], out=views[2])
            check(to_cpu(views[2]), a, b, 1.0, 1.0, c, rounded_twice=kernel == "cublas")


@pytest.mark.parametrize("kernel", KERNELS)
def test_infinities_and_nans_stay_in_their_rows_and_columns(kernel):
    rng = np.random.default_rng(6)
    for n in (3, 8, 15, 16, 17, 30):
        for make in (random_words, random_pairs):
            if not suits(kernel, n, n, n, make is random_pairs):
                continue
            a, b = make(rng, (50, n, n)), make(rng, (50, n, n))
            ra, rb = (a.pairs, b.pairs) if make is random_pairs else (a, b)
            ra[7, 1], rb[9, :, 2], ra[11, 0, 0] = np.nan, np.inf, 60000
            got = wide(to_cpu(by_kernel(kernel, to_gpu(a), to_gpu(b))))
            with np.errstate(invalid="ignore"):
                expected = wide(batched_matmul(a, b))
            for x, y in ((got.real, expected.real), (got.imag, expected.imag)):
                assert np.array_equal(np.isnan(x), np.isnan(y))
                assert np.array_equal(np.isinf(x), np.isinf(y))
                assert np.array_equal(np.sign(x[np.isinf(x)]), np.sign(y[np.isinf(y)]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("word", "accumulate", "alpha"), UNDERFLOWING)
@pytest.mark.parametrize("make", [random_words, random_pairs])
def test_products_that_underflow_are_within_the_bound(kernel, word, accumulate, alpha, make):
    rng = np.random.default_rng(12)
    for m, n, k in ((5, 6, 1), (8, 8, 8), (16, 16, 17), (3, 9, 30)):
        if suits(kernel, m, n, k, make is random_pairs):
            a, b, c = (underflowing(make, word, (40, *s), rng) for s in ((m, k), (k, n), (m, n)))
            result = by_kernel(
                kernel, *map(to_gpu, (a, b)), alpha=alpha, beta=-0.5, c=to_gpu(c), accumulate=accumulate
            )
            check(to_cpu(result), a, b, alpha, -0.5, c, accumulate, rounded_twice=kernel == "cublas")


@pytest.mark.parametrize("kernel", KERNELS)
def test_small_integers_are_exact(kernel):
    rng = np.random.default_rng(7)
    for m, n, k in ODD_SHAPES:
        if suits(kernel, m, n, k, False):
            a = rng.integers(-3, 4, (60, m, k)).astype(np.float16)
            b = rng.integers(-3, 4, (60, k, n)).astype(np.float16)
            for accumulate in ("fp32", "fp16"):
                got = to_cpu(by_kernel(kernel, to_gpu(a), to_gpu(b), accumulate=accumulate))
                assert np.array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("make", [random_words, random_pairs])
def test_the_public_function_chooses_for_any_size(make):
    rng = np.random.default_rng(8)
    for n in (1, 2, 9, 33, 64, 100, 129, 200, 257):
        for batch in (1, 30):
            a, b = make(rng, (batch, n, n)), make(rng, (batch, n, n))
            check(to_cpu(batched_matmul(to_gpu(a), to_gpu(b))), a, b)
            a, b, c = make(rng, (batch, n, 16)), make(rng, (batch, 16, n)), make(rng, (batch, n, n))
            result = batched_matmul(to_gpu(a), to_gpu(b), alpha=-1, beta=1, c=to_gpu(c))
            check(to_cpu(result), a, b, -1.0, 1.0, c, rounded_twice=True)


def test_the_faces_on_the_gpu(cupy):
    from multiword.batched import from_complex, to_complex

    rng = np.random.default_rng(9)
    z = rng.standard_normal((5, 4, 4)) + 1j * rng.standard_normal((5, 4, 4))
    assert np.array_equal(to_complex(from_complex(cupy.asarray(z))).get(), to_complex(from_complex(z)))
    a = random_words(rng, (4, 6, 6))
    with pytest.raises(TypeError, match="NumPy"):
        batched_matmul(a, to_gpu(a))
    assert batched_matmul(to_gpu(a)[:0], to_gpu(a)[0]).shape == (0, 6, 6)
    nan, c = cupy.full((2, 3, 3), np.nan, np.float16), cupy.ones((2, 3, 3), np.float16)
    assert bool((batched_matmul(nan, nan, alpha=0, beta=2, c=c) == 2).all())
    assert bool((batched_matmul(nan[:, :, :0], nan[:, :0], beta=1, c=c, out=c) == 1).all())
    x = to_gpu(a)
    batched_matmul(x, x, out=x)
    check(to_cpu(x), a, a)
    x, y = to_gpu(random_words(rng, (2, 1, 4, 4))), to_gpu(random_words(rng, (3, 4, 4)))
    check(to_cpu(batched_matmul(x, y)), to_cpu(x), to_cpu(y))


@pytest.mark.parametrize("make", [random_words, random_pairs])
@pytest.mark.parametrize("n", [3, 16, 40, 128])
def test_calls_can_be_captured_in_graphs(cupy, make, n):
    rng = np.random.default_rng(n)
    a, b = make(rng, (50, n, n)), make(rng, (50, n, n))
    x, y = to_gpu(a), to_gpu(b)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        out = batched_matmul(x, y)
        stored_out = out.pairs if make is random_pairs else out
        stream.begin_capture()
        batched_matmul(x, y, out=out)
        graph = stream.end_capture()
        stored_out.fill(0)
        graph.launch()
        stream.synchronize()
    check(to_cpu(out), a, b)


@pytest.mark.parametrize("make", [random_words, random_pairs])
@pytest.mark.parametrize("n", [5, 16, 24, 100])
def test_a_call_seen_before_is_computed_anew(cupy, make, n):
    """The same shapes at other addresses, alignments, strides, with C and with results that overlap."""
    rng = np.random.default_rng(n)

    def draw(offset=0):
        x = make(rng, (20, n, n))
        flat = to_gpu(x).pairs.ravel() if make is random_pairs else to_gpu(x).ravel()
        offset *= 2 if make is random_pairs else 1
        room = cupy.zeros(flat.size + 16, np.float16)
        room[offset : offset + flat.size] = flat
        placed = room[offset : offset + flat.size].reshape(
            (20, n, n, -1) if make is random_pairs else (20, n, n)
        )
        return x, HalfComplex(placed) if make is random_pairs else placed

    for offset in (0, 0, 1, 0, 3, 1):
        (a, x), (b, y), (c, z), (_, out) = (draw(offset) for _ in range(4))
        for _ in range(2):
            check(to_cpu(batched_matmul(x, y)), a, b)
            assert batched_matmul(x, y, out=out) is out
            check(to_cpu(out), a, b)
            assert batched_matmul(x, y, beta=0, c=out, out=out) is out
            check(to_cpu(out), a, b)
            result = batched_matmul(x, y, beta=-1.0, c=z, trans_a="T", out=out)
            check(to_cpu(result), stored(a, "T"), b, 1.0, -1.0, c, rounded_twice=True)
        assert batched_matmul(x, y, beta=2, c=z, out=z) is z
        check(to_cpu(z), a, b, 1.0, 2.0, c, rounded_twice=True)
        batched_matmul(x, y, out=y)
        check(to_cpu(y), a, b)
        before = to_cpu(y)
        batched_matmul(x, y, out=x)
        check(to_cpu(x), a, before)


def test_results_by_columns_and_unhashable_scalars_twice(cupy):
    rng = np.random.default_rng(11)
    a, b = random_words(rng, (9, 12, 20)), random_words(rng, (9, 20, 16))
    x, y, out = to_gpu(a), to_gpu(b), cupy.zeros((9, 16, 12), np.float16).swapaxes(-1, -2)
    for _ in range(3):
        out[...] = 0
        assert batched_matmul(x, y, out=out) is out
        check(to_cpu(out), a, b)
        check(to_cpu(batched_matmul(x, y, alpha=np.array(2.0))), a, b, 2.0)
        spread = cupy.broadcast_to(x[:1], x.shape)
        check(to_cpu(batched_matmul(spread, y)), np.broadcast_to(a[:1], a.shape), b)


def test_a_product_by_columns_after_a_square_by_columns(cupy):
    rng = np.random.default_rng(13)
    a, b = random_words(rng, (9, 16, 16)), random_words(rng, (9, 16, 16))
    x, y, out = to_gpu(a), to_gpu(b), cupy.zeros((9, 16, 16), np.float16).swapaxes(-1, -2)
    for _ in range(2):
        check(to_cpu(batched_matmul(x, x, out=out)), a, a)
        check(to_cpu(batched_matmul(x, y, out=out)), a, b)


def test_threads_and_streams(cupy):
    """Every thread on a stream of its own, sizes and kernels mixed; no result is another's."""

    def work(seed):
        rng = np.random.default_rng(seed)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for n in (3, 8, 16, 33, 64, 100, 8, 16):
                make = random_words if (seed + n) % 2 else random_pairs
                a, b = make(rng, (64, n, n)), make(rng, (64, n, n))
                x, y = to_gpu(a), to_gpu(b)
                for _ in range(5):
                    result = batched_matmul(x, y)
                stream.synchronize()
                check(to_cpu(result), a, b)

    in_threads(work, range(12))


@pytest.mark.parametrize("make", [random_words, random_pairs])
@pytest.mark.parametrize("n", [3, 8, 16, 40, 72])
def test_lists_of_any_alignment_and_leading_dimension(cupy, make, n):
    rng = np.random.default_rng(n)
    a, b = make(rng, (7, n, n)), make(rng, (7, n, n))

    def scattered(x, leadings, offsets):
        found = []
        for i in range(7):
            own = x.pairs[i] if make is random_pairs else x[i]
            pair = own.shape[2:]
            room = cupy.full((n + 1, leadings[i] + 8, *pair), np.nan, np.float16)
            view = room.reshape(-1, *pair)[offsets[i] : offsets[i] + n * leadings[i]]
            view = view.reshape(n, leadings[i], *pair)[:, :n]
            view[...] = cupy.asarray(own)
            found.append(HalfComplex(view) if make is random_pairs else view)
        return found

    even, odd = [n + 8] * 7, [n + i for i in range(7)]
    for leadings, offsets in ((even, [0] * 7), (even, range(7)), (odd, [0] * 7), (odd, range(7))):
        x, y = scattered(a, leadings, offsets), scattered(b, leadings[::-1], offsets)
        check(to_cpu(batched_matmul(x, y)), a, b)
        check(to_cpu(batched_matmul(x, y, trans_a="T", trans_b="T")), stored(a, "T"), stored(b, "T"))
        out = to_gpu(make(rng, (7, n, n)))
        assert batched_matmul(x, to_gpu(b), out=out) is out
        check(to_cpu(out), a, b)


def test_bad_input_and_overflow_on_the_gpu(cupy):
    one = cupy.ones((3, 4, 4), np.float16)
    with pytest.raises(ValueError, match="batches"):
        batched_matmul(one, one[:2])
    with pytest.raises(TypeError, match="one kind"):
        batched_matmul(one, to_gpu(np.ones((3, 4, 4), np.float32).astype(BF16)))
    with pytest.raises(ValueError, match="c must be given"):
        batched_matmul(one, one, beta=1)
    with pytest.raises(ValueError, match="out must be"):
        batched_matmul(one, one, out=one[0])
    assert batched_matmul(one[:0], one[:0]).shape == (0, 4, 4)
    assert batched_matmul(one[:, :0], one).shape == (3, 0, 4)
    assert bool((batched_matmul(one[:, :, :0], one[:, :0]) == 0).all())
    for n in (2, 8, 16, 40):
        large = cupy.full((5, n, n), 60000, np.float16)
        unit = cupy.ones_like(large)
        assert bool((batched_matmul(large, unit) == np.inf).all())
        assert bool((batched_matmul(large, -unit, accumulate="fp16") == -np.inf).all())
        assert bool((batched_matmul(large, unit, alpha=1 / (2 * n)) == 30000).all())
