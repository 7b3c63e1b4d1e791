"""The workspace is a limit: what a product takes beside its operands and its result, kept memory included."""

import tracemalloc
import warnings

import numpy as np
import pytest

import ozaki
from multiword.runtime import parallel

MIB = 1 << 20
SHAPES = [
    *(
        (4, 1 << 17, 3),
        (700, 700, 700),
        (1500, 1500, 1500),
        (300, 5000, 300),
        (2000, 64, 2000),
        (64, 9000, 64),
    ),
    *((1201, 333, 997), (4000, 200, 100), (100, 200, 4000), (513, 2049, 511), (900, 1100, 1300)),
    *((3000, 30, 3000), (50, 20_000, 50), (2500, 500, 300), (1, 100_000, 64), (1024, 1024, 1024)),
    *((2048, 100, 2048), (333, 3333, 333), (1800, 1800, 200), (6000, 300, 40), (257, 6000, 259)),
]


def taken(a, b, **options):
    """Bytes that a product takes at most, and keeps, beside its result."""
    parallel._loans.clear()
    tracemalloc.start()
    try:
        result = ozaki.matmul(a, b, **options)
        return tracemalloc.get_traced_memory()[1] - result.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("engine", ["auto", "host"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_keeps_to_its_workspace(shape, engine):
    m, k, n = shape
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    expected = ozaki.matmul(a, b, engine=engine)  # code is loaded, tables are made
    for limit in (16 * MIB, 48 * MIB):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ozaki.CostWarning)
            assert taken(a, b, engine=engine, workspace=limit) <= 1.1 * limit
        assert ozaki.plan(a, b, engine=engine, workspace=limit).workspace <= limit
    assert np.array_equal(ozaki.matmul(a, b, engine=engine, workspace=limit), expected)


def test_the_plan_says_what_a_product_takes():
    a = np.random.default_rng(0).standard_normal((1500, 1500))
    for engine in ("auto", "host"):
        ozaki.matmul(a, a, engine=engine)
        planned = ozaki.plan(a, a, engine=engine).workspace
        assert 0.6 * planned <= taken(a, a, engine=engine) <= 1.1 * planned
