"""One fingerprint for NumPy, ten chunkings, one to four workers, threads and processes."""

import numpy as np
import pytest

import ozaki

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

CHUNKS = [
    (60, 40),
    (30, 40),
    (60, 7),
    (1, 40),
    (7, 3),
    (59, 39),
    (13, 40),
    (20, 20),
    ((0, 60), (1, 0, 39)),
    (45, 11),
]


def results(x, *, wide):
    """What is compared: sums of all numbers and along an axis, a dot product and products of matrices."""
    y = x[::-1]
    return [
        ozaki.sum(x),
        ozaki.mean(x, axis=0),
        ozaki.std(x, axis=1),
        ozaki.dot(x, y, axis=0),
        ozaki.vdot(x, y),
        ozaki.matmul(x, wide),
        ozaki.matmul(x, wide, accuracy="exact"),
    ]


def fingerprint(found):
    return [ozaki.fingerprint(x) for x in found]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal((60, 40)), rng.integers(-40, 40, (60, 40)))
    wide = rng.standard_normal((40, 300))
    return x, wide, fingerprint(results(x, wide=wide))


def lazy(x, wide, chunks):
    return results(da.from_array(x, chunks=chunks), wide=da.from_array(wide, chunks=(9, 200)))


@pytest.mark.filterwarnings("ignore:Increasing number of chunks")
@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_any_chunks_and_threads(data, chunks):
    x, wide, expected = data
    workers = 1 + CHUNKS.index(chunks) % 4
    found = da.compute(*lazy(x, wide, chunks), scheduler="threads", num_workers=workers)
    assert fingerprint(found) == expected


@pytest.mark.parametrize(("workers", "chunks"), [(1, (60, 7)), (2, (30, 40)), (3, (20, 20)), (4, (59, 39))])
def test_workers_with_threads(data, workers, chunks):
    x, wide, expected = data
    options = {"processes": False, "threads_per_worker": 2, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=workers, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = client.gather(client.compute(lazy(x, wide, chunks)))
    assert fingerprint(found) == expected


@pytest.mark.slow
def test_worker_processes(data):
    x, wide, expected = data
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = client.gather(client.compute(lazy(x, wide, (20, 20))))
    assert fingerprint(found) == expected
