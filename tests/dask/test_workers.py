"""One fingerprint for NumPy, ten chunkings, one to four workers, threads and processes."""

import numpy as np
import pytest

import ozaki
from multiword.runtime.parallel import thread_count
from tests.scaling.test_equilibration import graded

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import dask  # noqa: E402

CHUNKS = [
    (60, 40),
    (30, 40),
    (60, 7),
    ((1, 58, 1), 40),
    ((7, 53), (3, 34, 3)),
    (59, 39),
    (13, 40),
    (20, 20),
    ((0, 60), (1, 0, 39)),
    (45, 11),
]
MANY = [(1, 40), (7, 3)]


def results(x, *, wide):
    """What is compared: sums of all numbers and along an axis, a dot product and products of matrices."""
    y = x[::-1]
    return [
        ozaki.sum(x),
        ozaki.mean(x, axis=0),
        ozaki.std(x, axis=1),
        ozaki.dot(x, y, axis=0),
        ozaki.vdot(x, y),
        ozaki.cumsum(x),
        ozaki.cumsum(x, axis=1),
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


@pytest.mark.filterwarnings("error::dask.array.PerformanceWarning")
@pytest.mark.parametrize(
    "chunks", [*CHUNKS, *(pytest.param(x, marks=pytest.mark.slow) for x in MANY)], ids=str
)
def test_any_chunks_and_threads(data, chunks):
    x, wide, expected = data
    workers = 1 + (CHUNKS + MANY).index(chunks) % 4
    found = da.compute(*lazy(x, wide, chunks), scheduler="threads", num_workers=workers)
    assert fingerprint(found) == expected


@pytest.mark.parametrize(
    ("workers", "chunks"), [(3, (20, 20)), pytest.param(1, (60, 7), marks=pytest.mark.slow)]
)
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
    """Each takes one thread, as Dask asks them to; the process that starts them goes on taking its own."""
    x, wide, expected = data
    threads = thread_count()
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = client.gather(client.compute(lazy(x, wide, (20, 20))))
        assert set(client.run(thread_count).values()) == {1}
    assert fingerprint(found) == expected
    assert thread_count() == threads


def sent(dask_worker):
    """Bytes that a worker has given to others."""
    return dask_worker.transfer_outgoing_bytes_total


@pytest.mark.slow
def test_blocks_of_a_product_stay_on_their_workers(monkeypatch):
    """Rows of A on a worker each, B on both: only what is known of rows and columns is sent."""
    # Blocks count as large: workers have them sent only where they must.
    slow = property(lambda self: 1e3, lambda self, measured: None)
    monkeypatch.setattr(distributed.Scheduler, "bandwidth", slow, raising=False)
    n = 384
    normal = np.random.default_rng(1).standard_normal((2, n, n))
    config = {
        "distributed.scheduler.active-memory-manager.start": False,  # which would drop copies of B
        "distributed.scheduler.work-stealing": False,
    }
    with (
        dask.config.set(config),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = list(client.scheduler_info()["workers"])
        for kind, (a, b) in {"normal": normal, "graded": graded("linear", (n, n, n))}.items():
            rows = [{(f"a-{kind}", i, 0): block} for i, block in enumerate(np.split(a, 2))]
            placed = [client.scatter(x, workers=[w]) for x, w in zip(rows, workers, strict=True)]
            x = da.Array({**placed[0], **placed[1]}, f"a-{kind}", ((n // 2, n // 2), (n,)), meta=a[:0, :0])
            of_b = client.scatter({(f"b-{kind}", 0, 0): b}, broadcast=True)
            y = da.Array(of_b, f"b-{kind}", ((n,), (n,)), meta=b[:0, :0])
            for accuracy in ("fp64", "normwise"):
                before = sum(client.run(sent).values())
                product = client.persist(ozaki.matmul(x, y, accuracy=accuracy))
                distributed.wait(product)
                assert sum(client.run(sent).values()) - before < 300 * (n + n), (kind, accuracy)
                assert product.compute().tobytes() == ozaki.matmul(a, b, accuracy=accuracy).tobytes()
