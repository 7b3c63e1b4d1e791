"""Products replayed from captured graphs: the bits of the products they stand for."""

from contextlib import suppress

import numpy as np
import pytest

import ozaki
from multiword.runtime import graphs, memory
from ozaki import accurate_dgemm
from ozaki.execution import cache, captured, executors, repeated
from ozaki.product import steps
from ozaki.residues import reduction
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import same
from tests.threads import in_threads

pytestmark = pytest.mark.gpu

SHAPE = (70, 130, 90)


@pytest.fixture
def cupy(monkeypatch):
    cupy = pytest.importorskip("cupy")
    cache.forget()
    reduction._on_device.cache_clear()  # so that tables are made anew, wherever they are needed first
    stream, reserved = cupy.cuda.Stream(non_blocking=True), graphs._reserved

    def filled(size):
        """Memory with what others left: nothing may take it for scales, or for anything else."""
        memory = reserved(size)
        memory.memset_async(0x3F, size, stream)
        stream.synchronize()
        return memory

    monkeypatch.setattr(graphs, "_reserved", filled)
    return cupy


def held_graphs():
    return [x for x in cache._cached.values() if isinstance(x, captured.CapturedProduct)]


def test_a_second_call_is_captured_and_other_arrays_are_replayed(cupy):
    for i in range(6):
        a, b = matrices("uniform", *SHAPE, seed=i)
        expected = accurate_dgemm(a, b)
        kept = [cupy.zeros(7 * i + 1)]  # so that the next arrays lie elsewhere
        result = accurate_dgemm(cupy.asarray(a), cupy.asarray(b))
        assert same(result.get(), expected)
        assert len(held_graphs()) == (i > 0)
        del kept


@pytest.mark.parametrize("word", ["int8", "fp64"])
def test_graphs_own_the_tables_that_they_read(cupy, word):
    """A cache may give its tables up, and others write to their memory, while graphs point into them."""
    a, b = matrices("uniform", *SHAPE)
    expected, operands = accurate_dgemm(a, b), (cupy.asarray(a), cupy.asarray(b))
    if word == "int8":
        out, stream = cupy.empty_like(expected), cupy.cuda.Stream(non_blocking=True)
        normwise = ozaki.matmul(a, b, accuracy="normwise")
        with stream:
            accurate_dgemm(*operands, accuracy="normwise", out=out)
            stream.begin_capture()
            accurate_dgemm(*operands, accuracy="normwise", out=out)
            graph = stream.end_capture()
    for _ in range(3):
        assert same(accurate_dgemm(*operands, word=word).get(), expected)
        reduction._on_device.cache_clear()
        cupy.cuda.get_current_stream().synchronize()
        rubbish = [cupy.full(size, np.nan) for size in range(1, 400) for _ in range(4)]
        assert same(accurate_dgemm(*operands, word=word).get(), expected)
        if word == "int8":
            out.fill(0)
            cupy.cuda.get_current_stream().synchronize()
            graph.launch(stream)
            stream.synchronize()
            assert same(out.get(), normwise)
        del rubbish


@pytest.mark.parametrize("word", ["int8", "fp64"])
def test_integers_too_wide_for_one_float(cupy, word):
    for kind in ["uniform", "positive", "wide6", "uniform"]:
        a, b = matrices(kind, 7, 68, 61)  # short rows, whose integers are wide
        result = accurate_dgemm(cupy.asarray(a), cupy.asarray(b), scheme="residues", word=word)
        assert same(result.get(), accurate_dgemm(a, b))
    assert len(held_graphs()) == 1


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_every_precision_and_layout(cupy, dtype, layout):
    face = FACES[dtype]

    def laid_out(x):
        if layout == "strided":
            return cupy.repeat(cupy.asarray(x), 2, axis=1)[:, ::2]
        return cupy.asarray(x, order=layout)

    for i in range(4):
        a, b = in_dtype(*matrices("positive", *SHAPE, seed=i), dtype)
        assert same(face(laid_out(a), laid_out(b)).get(), face(a, b))
    assert len(held_graphs()) == 1


def test_data_that_the_certificate_refuses_in_between(cupy):
    for i, kind in enumerate(["uniform", "uniform", *KINDS, "uniform", *reversed(KINDS), "uniform"]):
        a, b = matrices(kind, *SHAPE, seed=i)
        assert same(accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), accurate_dgemm(a, b)), kind


def test_the_pairwise_bound_is_part_of_the_graph(cupy):
    rng = np.random.default_rng(0)
    for i in range(6):
        a, b = (x * (rng.random(x.shape) < 0.5) for x in matrices("uniform", *SHAPE, seed=i))
        assert same(accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), accurate_dgemm(a, b))
        if i:
            (found,) = held_graphs()
            assert found._expected.evidence == captured.PAIRED
    # The first, one that only bounds pairs, and one for each width that this asked for.
    assert found._expected in found._graphs
    assert len(found._graphs) <= 5


@pytest.mark.parametrize("dtype", FACES)
def test_integers_that_lose_nothing_are_part_of_the_graph(cupy, dtype):
    face, rng = FACES[dtype], np.random.default_rng(0)
    for i in range(8):
        share = 1 if i == 5 else 0.02
        sparse = (x * (rng.random(x.shape) < share) for x in matrices("uniform", *SHAPE, seed=i))
        a, b = in_dtype(*sparse, dtype)
        if i == 6:
            a[3, 5], b[7, 2] = np.nan, np.inf
        assert same(face(cupy.asarray(a), cupy.asarray(b)).get(), face(a, b)), i
        if i in (4, 7):
            (found,) = held_graphs()
            assert found._expected.lossless is not None
            assert found._graphs[found._expected] is not None


def test_pairs_of_a_long_complex_inner_dimension(cupy):
    """Magnitudes of more numbers than one product adds up."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 12, 70_000)) + 1j * rng.standard_normal((2, 12, 70_000))
    a, b = a * (rng.random(a.shape) < 0.3), (b * (rng.random(b.shape) < 0.3)).T
    expected = ozaki.accurate_zgemm(a, b)
    for _ in range(4):
        found = ozaki.accurate_zgemm(cupy.asarray(a), cupy.asarray(b), word="int8")
        assert same(found.get(), expected)


def test_kinds_and_shapes_in_any_order(cupy):
    rng = np.random.default_rng(0)
    cases = []
    for kind in ("uniform", "wide2", "wide6", "cancelling", "sparse"):
        for shape in ((7, 68, 61), (130, 1000, 1), (1000, 70, 1), (130, 500, 70)):
            a, b = matrices(kind, *shape)
            cases.append((cupy.asarray(a), cupy.asarray(b), accurate_dgemm(a, b), kind, shape))
    for i in rng.integers(len(cases), size=400):
        a, b, expected, kind, shape = cases[i]
        assert same(accurate_dgemm(a * 1.0, b).get(), expected), (kind, shape)


@pytest.mark.parametrize("kind", ["uniform", "wide2", "sparse"])
def test_prepared_operands(cupy, kind):
    a, b = matrices(kind, *SHAPE)
    fixed, other = ozaki.prepare(cupy.asarray(a)), ozaki.prepare(cupy.asarray(b), "right")
    for i in range(4):
        x, y = matrices("wide2" if i == 2 else "uniform", *SHAPE, seed=i)
        assert same(accurate_dgemm(fixed, cupy.asarray(y)).get(), accurate_dgemm(a, y))
        assert same(accurate_dgemm(cupy.asarray(x), other).get(), accurate_dgemm(x, b))
        assert same(accurate_dgemm(fixed, other).get(), accurate_dgemm(a, b))
    assert len(held_graphs()) == 3
    del fixed
    assert len(held_graphs()) == 1


def test_infinities_and_nans(cupy):
    for i in range(5):
        a, b = matrices("uniform", *SHAPE, seed=i)
        if i % 2:
            a[3, 5], b[7, i], a[i, i] = np.inf, -np.inf, np.nan
        assert same(accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), accurate_dgemm(a, b))


def test_operands_that_share_memory(cupy):
    rng = np.random.default_rng(0)
    for _ in range(4):
        a = rng.standard_normal((60, 60))
        x = cupy.asarray(a)
        for left, right, y, z in (
            (a, a, x, x),
            (a, a.T, x, x.T),
            (a[:40], a[:, 20:], x[:40], x[:, 20:]),
            (a[::-1], a, x[::-1], x),
        ):
            assert same(accurate_dgemm(y, z).get(), accurate_dgemm(left, right))


def test_results_outlive_the_next_call(cupy):
    a, b = (cupy.asarray(x) for x in matrices("uniform", *SHAPE))
    results = [accurate_dgemm(a * i, b) for i in range(1, 9)]
    for i, result in enumerate(results, 1):
        assert same(result.get(), accurate_dgemm((a * i).get(), b.get()))


def test_streams_and_threads(cupy):
    cases = [matrices("uniform", *SHAPE, seed=i) for i in range(4)]
    expected = [accurate_dgemm(a, b) for a, b in cases]
    failures = []

    def work(number):
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
        on_device = [tuple(map(cupy.asarray, case)) for case in cases]
        cupy.cuda.get_current_stream().synchronize()
        for i in range(40):
            with streams[i % 3]:
                a, b = on_device[(i + number) % 4]
                if not same(accurate_dgemm(a, b).get(), expected[(i + number) % 4]):
                    failures.append((number, i))

    in_threads(work, range(4))
    assert not failures


@pytest.mark.parametrize("kind", ["uniform", "wide2", "sparse"])
def test_captures_that_another_thread_ends(cupy, monkeypatch, kind):
    """Whoever waits for the device in another thread ends a capture; in the middle of one here.

    Left to run freely, that crashes in the driver beside the making of a stream or a graph: this
    library is not needed for it (seen with 580.159).
    """
    ended = []

    def wait_for_the_device(_):
        with suppress(cupy.cuda.runtime.CUDARuntimeError):  # it may not, while a stream is captured
            cupy.cuda.Device().synchronize()

    split = steps.split_once

    def split_once(*arguments):
        if cupy.cuda.get_current_stream().is_capturing():
            in_threads(wait_for_the_device, [0])
            ended.append(arguments)
        return split(*arguments)

    a, b = matrices(kind, *SHAPE)
    x, y, expected = cupy.asarray(a), cupy.asarray(b), accurate_dgemm(a, b)
    with monkeypatch.context() as patch:
        patch.setattr(steps, "split_once", split_once)
        for _ in range(4):
            assert same(accurate_dgemm(x, y).get(), expected)
    assert len(ended) == 3
    assert not held_graphs()
    assert same(accurate_dgemm(x, y).get(), expected)
    assert len(held_graphs()) == 1


def test_a_prepared_operand_on_many_streams(cupy):
    (a, b), (_, c) = matrices("uniform", *SHAPE), matrices("wide6", *SHAPE, seed=1)
    expected = accurate_dgemm(a, b), accurate_dgemm(a, c)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    delay = cupy.ones((4096, 4096))
    x, y, z = map(cupy.asarray, (a, b, c))
    cupy.cuda.get_current_stream().synchronize()
    for i in range(12):
        p = ozaki.prepare(x)
        with streams[i % 2]:
            delay @ delay  # so that what comes next is late
            first = [accurate_dgemm(p, y) for _ in range(i % 4)]
        with streams[1 - i % 2]:
            second = [accurate_dgemm(p, z), accurate_dgemm(p, y)]
        del p
        cupy.cuda.Device().synchronize()
        assert all(same(r.get(), expected[0]) for r in (*first, second[1]))
        assert same(second[0].get(), expected[1])


def test_a_prepared_operand_in_many_threads(cupy):
    (a, b), (_, c) = matrices("uniform", *SHAPE), matrices("wide6", *SHAPE, seed=1)
    x, others = cupy.asarray(a), [cupy.asarray(y) for y in (b, c)]
    expected = [accurate_dgemm(a, y) for y in (b, c)]
    for word in ("int8", "fp64") * 3:
        p = ozaki.prepare(x)
        cupy.cuda.get_current_stream().synchronize()

        def work(number, p=p, word=word):
            with cupy.cuda.Stream(non_blocking=True):
                for i in range(6):
                    which = (i + number) // 2 % 2
                    result = accurate_dgemm(p, others[which], scheme="residues", word=word)
                    assert same(result.get(), expected[which])

        in_threads(work, range(4))


def test_memory_is_bounded_and_given_back(cupy, monkeypatch):
    monkeypatch.setattr(cache, "_limit", lambda: 200 << 20)
    rng = cupy.random.default_rng(0)
    for n in (64, 80, 96, 112, 128, 256, 4096):
        a = rng.standard_normal((n, n))
        for _ in range(3):
            accurate_dgemm(a, a, engine="cublas")  # a handle's workspace is 32 MiB
    held = held_graphs()
    assert len(held) >= 1
    assert 0 < sum({id(x.memory): x.memory.nbytes for x in held}.values()) <= 200 << 20
    cache.forget()
    assert not held_graphs()


def test_kinds_that_do_not_fit_together_are_not_captured_again_and_again(cupy, monkeypatch):
    made = []

    class Counted(captured.CapturedProduct):
        def __init__(self, *arguments):
            made.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(cache, "CapturedProduct", Counted)
    monkeypatch.setattr(cache, "_limit", lambda: 80 << 20)  # a handle's workspace is 32 MiB of it
    rng = cupy.random.default_rng(0)
    operands = [rng.standard_normal((n, n)) for n in (400, 1500, 420)]
    expected = [accurate_dgemm(a, a).get() for a in operands]
    for _ in range(9):
        for a, c in zip(operands, expected, strict=True):
            assert same(accurate_dgemm(a, a, engine="cublas").get(), c)
    assert len(made) <= 6
    assert len(held_graphs()) < 3


def test_kinds_of_one_thread_share_memory(cupy):
    """Results of one are those before, when others have worked in the same memory."""
    rng = cupy.random.default_rng(0)
    operands = [rng.standard_normal((n, n)) for n in (300, 500, 400)]
    expected = [accurate_dgemm(a, a).get() for a in operands]
    sizes = []
    for a in operands:
        for _ in range(3):
            accurate_dgemm(a, a, engine="cublas")
        sizes.append(held_graphs()[-1].memory.nbytes)
    assert sizes[2] < sizes[1] + sizes[0]
    for _ in range(3):
        for a, c in zip(operands, expected, strict=True):
            assert same(accurate_dgemm(a, a, engine="cublas").get(), c)
    assert len({id(x.memory) for x in held_graphs()}) == 1


def test_memory_of_graphs_is_kept_where_there_is_no_more(cupy, monkeypatch):
    """CuPy's pool would give back what the graphs captured so far work in."""
    rng = cupy.random.default_rng(0)
    a, larger = (rng.standard_normal((n, n)) for n in (300, 900))
    expected = [accurate_dgemm(x, x).get() for x in (a, larger)]
    for _ in range(3):
        accurate_dgemm(a, a, engine="cublas")
    (captured_before,) = held_graphs()
    size = captured_before.memory.nbytes

    def full(size):
        raise cupy.cuda.runtime.CUDARuntimeError(2)  # cudaErrorMemoryAllocation

    monkeypatch.setattr(cupy.cuda, "Memory", full)
    for _ in range(3):
        for x, c in zip((a, larger), expected, strict=True):
            assert same(accurate_dgemm(x, x, engine="cublas").get(), c)
    assert held_graphs() == [captured_before]
    assert captured_before.memory.nbytes == size


def test_alpha_beta_and_out(cupy):
    for i in range(4):
        a, b = matrices("uniform", *SHAPE, seed=i)
        c = np.ones((SHAPE[0], SHAPE[2]))
        x, y, z = (cupy.asarray(v) for v in (a, b, c))
        assert accurate_dgemm(x, y, alpha=3.0, beta=0.1, c=z, out=z) is z
        assert same(z.get(), accurate_dgemm(a, b, alpha=3.0, beta=0.1, c=c))


OUTS = {
    "new": lambda cupy, x: cupy.empty_like(x),
    "part of another": lambda cupy, x: cupy.empty((200, 64))[64:128],
    "not aligned": lambda cupy, x: cupy.empty(x.size + 1)[1:].reshape(x.shape),
    "by columns": lambda cupy, x: cupy.asfortranarray(cupy.empty_like(x)),
    "not contiguous": lambda cupy, x: cupy.empty((128, 128))[::2, 1::2],
    "an operand": lambda cupy, x: x,
    "part of an operand": lambda cupy, x: x.base[:64],
}


@pytest.mark.parametrize("where", OUTS)
def test_out_wherever_it_lies(cupy, monkeypatch, where):
    """Of like layouts, ordinary and other data in turns; a new array is computed in at once."""
    at_once = []

    def noted(result, out):
        if out is not None:  # as for what is expected
            at_once.append(result is out)
        return memory.delivered(result, out)

    for module in (executors, repeated):
        monkeypatch.setattr(module, "delivered", noted)
    kinds = ["uniform", "uniform", "uniform", "wide4", "sparse", "graded", "nan", "uniform"]
    for i, kind in enumerate(kinds):
        a, b = matrices("uniform" if kind == "nan" else kind, 64, 64, 64, seed=i)
        if kind == "nan":
            a[3, 5] = np.nan
        with np.errstate(invalid="ignore"):
            expected = accurate_dgemm(a, b)
        x, y = cupy.empty((72, 64))[8:], cupy.asarray(b)
        x[...] = cupy.asarray(a)
        out = OUTS[where](cupy, x)
        assert ozaki.matmul(x, y, out=out) is out
        assert same(np.ascontiguousarray(out.get()), expected), kind
        if "operand" not in where:
            assert same(x.get(), a)
        assert same(y.get(), b)
    assert set(at_once) == {where in ("new", "part of another")}
    twice = cupy.lib.stride_tricks.as_strided(cupy.empty(64), (64, 64), (0, 8))
    with pytest.raises(ValueError, match="out"):
        ozaki.matmul(x, y, out=twice)


def test_a_plan_does_not_disturb(cupy):
    a, b = (cupy.asarray(x) for x in matrices("uniform", *SHAPE))
    for _ in range(3):
        expected = accurate_dgemm(a, b)
    a[0, 0] = 2.0**-40 / 3  # the others lose nothing
    expected = accurate_dgemm(a, b)
    assert ozaki.plan(a, b).bound > 0
    assert same(accurate_dgemm(a, b).get(), expected.get())
