"""Accuracy "normwise" on a GPU: the CPU's bits, no waiting, and graphs that the caller captures."""

import gc
import time

import numpy as np
import pytest

import ozaki
from ozaki import accurate_dgemm
from ozaki.execution import cache, callers_graph
from tests.gpu.same import same_on_the_gpu
from tests.gpu.test_captured import held_graphs
from tests.matrices import FACES, KINDS, matrices
from tests.oracle import same
from tests.product.test_normwise import normwise, operands

pytestmark = pytest.mark.gpu

SHAPE = (70, 130, 90)


def with_nonfinite(a, b):
    a, b = a.copy(), b.copy()
    a[2, 3], a[5, 0], a[6, 6], b[7, 4], b[1, 6], b[3, 1] = np.inf, np.nan, -np.inf, -np.inf, np.nan, 0
    b[6, 7], b[3, 4] = 5e-324 if b.dtype.name in ("float64", "complex128") else 1e-45, np.inf
    return a, b


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_precision(cupy, kind, dtype):
    cache.forget()
    for shape in ((7, 68, 61), SHAPE, (9, 1500, 8)):
        for i in range(3):  # kernel by kernel, captured, replayed
            same_on_the_gpu(normwise, *operands(kind, shape, dtype, seed=i))


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_infinities_and_nans(cupy, dtype, layout):
    def laid_out(x):
        if layout == "strided":
            return cupy.repeat(cupy.asarray(x), 2, axis=1)[:, ::2]
        if layout == "reversed":
            return cupy.asarray(np.ascontiguousarray(x[::-1]))[::-1]
        return cupy.asarray(x, order=layout)

    for i in range(4):
        a, b = operands("uniform", SHAPE, dtype, seed=i)
        if i % 2:
            a, b = with_nonfinite(a, b)
        found = normwise(laid_out(a), laid_out(b))
        expected = normwise(a, b)
        assert found.get().tobytes() == expected.tobytes()


def test_rows_full_of_infinities_and_nans(cupy):
    rng = np.random.default_rng(0)
    for k in (1, 255, 257, 700):
        a, b = rng.standard_normal((20, k)), rng.standard_normal((k, 300))
        a[3], a[4, -1], a[5] = np.inf, -np.inf, np.nan
        b[:, 8], b[0, 9], b[-1, 9] = np.inf, -np.inf, np.inf
        b[:, 10], a[6] = 0, 0
        for accuracy in ("normwise", "fp64", "exact"):
            for _ in range(3):
                same_on_the_gpu(accurate_dgemm, a, b, accuracy=accuracy)


@pytest.mark.parametrize("dtype", FACES)
def test_stacks(cupy, dtype):
    pairs = [operands(kind, (12, 20, 11), dtype, seed) for seed in range(2) for kind in KINDS]
    a, b = (np.stack(x) for x in zip(*pairs, strict=True))
    same_on_the_gpu(ozaki.matmul, a, b, accuracy="normwise")
    a[3], b[3] = with_nonfinite(a[3], b[3])
    b[5, 0, 0], a[6, 2, 1], b[6] = np.inf, np.nan, 0
    same_on_the_gpu(ozaki.matmul, a, b, accuracy="normwise")
    same_on_the_gpu(ozaki.matmul, a, b, accuracy="normwise", workspace=1 << 17)
    same_on_the_gpu(ozaki.matmul, a[:3], b[:3], accuracy="normwise")


def test_panels_prepared_operands_and_schemes(cupy):
    a, b = matrices("wide6", *SHAPE)
    a[2, 3] = np.inf
    x, y, expected = cupy.asarray(a), cupy.asarray(b), normwise(a, b)
    for options in ({"word": "fp64"}, {"scheme": "slices"}, {"workspace": 1 << 18}):
        for _ in range(3):
            assert same(normwise(x, y, **options).get(), expected)
    left, right = ozaki.prepare(x), ozaki.prepare(y, "right")
    for _ in range(4):
        for p, q in ((left, y), (x, right), (left, right)):
            assert same(accurate_dgemm(p, q, accuracy="normwise").get(), expected)
            assert same(accurate_dgemm(p, q).get(), accurate_dgemm(a, b))


def test_no_call_waits_for_the_device(cupy):
    cache.forget()
    a, b = (cupy.asarray(x) for x in matrices("uniform", *SHAPE))
    stack = cupy.asarray(np.random.default_rng(0).standard_normal((40, 12, 12)))
    large = cupy.ones((8192, 8192))
    fixed = ozaki.prepare(a)

    def calls():
        return [
            accurate_dgemm(a, b, accuracy="normwise"),
            accurate_dgemm(fixed, b, accuracy="normwise"),
            accurate_dgemm(a, b, accuracy="normwise", alpha=2.0, beta=-1.0, c=cupy.ones((70, 90))),
            accurate_dgemm(a, b, accuracy="normwise", workspace=1 << 18),
            ozaki.matmul(stack, stack, accuracy="normwise"),
            ozaki.matmul(stack[:3], stack[:3], accuracy="normwise"),
        ]

    expected = [[x.get() for x in calls()] for _ in range(4)][-1]
    large @ large
    cupy.cuda.Device().synchronize()
    busy = cupy.cuda.Event(disable_timing=True)
    for _ in range(20):  # 0.4 s
        large @ large
    busy.record()
    found = calls()
    assert not busy.done
    for x, y in zip(found, expected, strict=True):
        assert same(x.get(), y)


def captured_calls(cupy, calls):
    """A graph of calls that have been made before, their results, and the stream to launch it on."""
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        calls()
        stream.synchronize()
        stream.begin_capture()
        results = calls()
        graph = stream.end_capture()
    return graph, results, stream


@pytest.mark.parametrize("dtype", FACES)
def test_a_graph_of_the_callers_replayed_on_new_data(cupy, dtype):
    a, b = operands("uniform", SHAPE, dtype)
    x, y, out = cupy.asarray(a), cupy.asarray(b), cupy.empty((SHAPE[0], SHAPE[2]), dtype)
    fixed = ozaki.prepare(y, "right")

    def calls():
        return [
            normwise(x, y),
            normwise(x, y, out=out, alpha=2.0),
            FACES[dtype](x, fixed, accuracy="normwise"),
            normwise(x, y.T, trans_b="C"),
        ]

    graph, results, stream = captured_calls(cupy, calls)
    for i, kind in enumerate(["uniform", "wide6", "sparse", "rows"]):
        new = operands(kind, SHAPE, dtype, seed=i)
        if i % 2:
            new = with_nonfinite(*new)
        with stream:
            x.set(new[0])
            y.set(new[1])
            graph.launch()
            noise = [cupy.full((300, 300), np.nan) for _ in range(9)]  # in memory that is free for all
        stream.synchronize()
        expected = normwise(*new)
        for z in (results[0], results[2]):
            assert same(z.get(), expected)
        assert same(results[3].get(), normwise(new[0], new[1].conj()))
        assert same(out.get(), normwise(*new, alpha=2.0))
        assert results[1] is out
        del noise


def test_a_graph_of_the_callers_with_stacks_panels_and_long_rows(cupy):
    rng = np.random.default_rng(0)
    stack, long = rng.standard_normal((40, 12, 12)), rng.standard_normal((8, 140000))
    x, y = cupy.asarray(stack), cupy.asarray(long)

    def calls():
        return [
            ozaki.matmul(x, x, accuracy="normwise"),
            ozaki.matmul(x[:3], x[:3], accuracy="normwise"),
            ozaki.matmul(x, x, accuracy="normwise", workspace=1 << 17),
            normwise(y, y.T),
            normwise(y, y.T, workspace=1 << 20),
        ]

    graph, results, stream = captured_calls(cupy, calls)
    for _ in range(3):
        stack, long = rng.standard_normal(stack.shape), rng.standard_normal(long.shape)
        with stream:
            x.set(stack)
            y.set(long)
            graph.launch()
        stream.synchronize()
        of_stack, of_long = ozaki.matmul(stack, stack, accuracy="normwise"), normwise(long, long.T)
        expectations = of_stack, of_stack[:3], of_stack, of_long, of_long
        for z, expected in zip(results, expectations, strict=True):
            assert same(z.get(), expected)


def test_products_outside_of_the_callers_graph_go_on(cupy):
    cache.forget()
    a, b = matrices("uniform", *SHAPE)
    x, y = cupy.asarray(a), cupy.asarray(b)
    graph, (inside,), stream = captured_calls(cupy, lambda: [normwise(x, y)])
    for i in range(4):
        new = matrices("uniform", *SHAPE, seed=i)
        with stream:
            x.set(new[0])
            y.set(new[1])
            outside, certified = normwise(x, y), accurate_dgemm(x, y)
            graph.launch()
            again = normwise(x, y)
        stream.synchronize()
        for z in (inside, outside, again):
            assert same(z.get(), normwise(*new))
        assert same(certified.get(), accurate_dgemm(*new))
    assert len(held_graphs()) == 2


def test_other_accuracies_cannot_be_captured(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.eye(8)
        normwise(x, x)
        stream.begin_capture()
        for options in ({}, {"accuracy": "exact"}, {"accuracy": 30}):
            with pytest.raises(ValueError, match="'normwise'"):
                accurate_dgemm(x, x, **options)
        stream.end_capture()
    stream.synchronize()
    assert same(accurate_dgemm(x, x).get(), np.eye(8))


def test_what_a_callers_graph_uses_is_given_back_when_the_graph_is_gone(cupy):
    x = cupy.eye(64)
    held = []
    for _ in range(6):
        graph, results, stream = captured_calls(cupy, lambda: [normwise(x, x)])
        stream.synchronize()
        del graph, results
        gc.collect()
        time.sleep(0.2)  # the driver destroys what a graph owned on a thread of its own
        held.append(len(callers_graph._retained))
    assert all(used.end is not None for used in callers_graph._retained.values())
    assert held[-1] <= held[1]
