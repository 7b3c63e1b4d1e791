"""The workspace is a limit: what a product takes beside its operands and its result, kept memory included."""

import tracemalloc
import warnings

import numpy as np
import pytest

import multiword
import ozaki
from multiword.runtime import parallel
from multiword.runtime.memory import ResultTooLarge, in_less_memory

MIB = 1 << 20
AUTO = (4, 1 << 17, 3), (2000, 64, 2000), (2500, 500, 300), (600, 800, 1000)
HOST = (50, 20_000, 50), (1201, 333, 997)
"""Long, flat, tall and nearly square ones, with each engine those that take it least time."""

SHAPES = [
    *((700, 700, 700), (300, 5000, 300), (64, 9000, 64), (4000, 200, 100), (100, 200, 4000)),
    *((513, 2049, 511), (3000, 30, 3000), (1, 100_000, 64), (1024, 1024, 1024), (2048, 100, 2048)),
    *((333, 3333, 333), (1800, 1800, 200), (6000, 300, 40), (257, 6000, 259)),
]


def taken(a, b, **options):
    """Bytes that a product takes at most, and keeps, beside its result; and the result."""
    parallel._loans.clear()
    tracemalloc.start()
    try:
        result = ozaki.matmul(a, b, **options)
        return tracemalloc.get_traced_memory()[1] - result.nbytes, result
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "engine"),
    [
        pytest.param(shape, engine, marks=() if shape in quick else pytest.mark.slow)
        for engine, quick in (("auto", AUTO), ("host", HOST))
        for shape in (*AUTO, *HOST, *SHAPES)
    ],
    ids=str,
)
def test_a_product_keeps_to_its_workspace(shape, engine):
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    expected = ozaki.matmul(a, b, engine=engine)  # code is loaded, tables are made
    for limit in (16 * MIB, 48 * MIB):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ozaki.CostWarning)
            if limit == 16 * MIB:
                ozaki.matmul(a, b, engine=engine, workspace=limit)  # the code of panels
            used, result = taken(a, b, engine=engine, workspace=limit)
        assert used <= 1.1 * limit
        assert np.array_equal(result, expected)
        assert ozaki.plan(a, b, engine=engine, workspace=limit).workspace <= limit


def test_the_plan_says_what_a_product_takes():
    a = np.random.default_rng(0).standard_normal((1000, 1000))
    for engine in ("auto", "host"):
        ozaki.matmul(a, a, engine=engine)
        planned = ozaki.plan(a, a, engine=engine).workspace
        assert 0.6 * planned <= taken(a, a, engine=engine)[0] <= 1.1 * planned


LONG = np.ones((3 * 10**6, 1))
TOO_LARGE = {
    "accurate_dgemm": lambda: ozaki.accurate_dgemm(LONG, LONG.T),
    "accurate_zgemm": lambda: ozaki.accurate_zgemm(LONG + 1j, LONG.T),
    "exact": lambda: ozaki.matmul(LONG, LONG.T, accuracy="exact"),
    "integers": lambda: ozaki.matmul(LONG.astype(int), LONG.T.astype(int)),
    "outer": lambda: ozaki.outer(LONG[:, 0], LONG[:, 0]),
    "einsum": lambda: ozaki.einsum("i,j->ij", LONG[:, 0], LONG[:, 0]),
    "words": lambda: multiword.matmul(LONG.astype(np.float32), LONG.T.astype(np.float32)),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_result_that_does_not_fit_is_refused_before_anything_is_split(name, monkeypatch):
    def split(*_, **__):
        raise AssertionError("the operands were split")

    monkeypatch.setattr("ozaki.execution.executors.run", split)
    monkeypatch.setattr("multiword.fp32.execute.measure_operands", split)
    with pytest.raises(MemoryError, match=r"of shape \(3000000, 3000000\), takes \d+ bytes"):
        TOO_LARGE[name]()


def test_a_result_that_does_not_fit_is_tried_twice_with_one_release():
    events = []

    def work(limit):
        events.append(limit)
        raise ResultTooLarge("72 bytes")

    with pytest.raises(MemoryError, match="72 bytes"):
        in_less_memory(work, 100, lambda: events.append("release"))
    assert events == [100, "release", 100]
