"""Workers that die in the middle of a reduction or a product: their part is recomputed, to the same bits."""

import os
import signal

import numpy as np
import pytest

import ozaki

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def kill_once(block, marker):
    """Kill this worker's process, in the task of the block that begins with 2**20, the first time."""
    if block.flat[0] == 2.0**20:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def dying(x, chunks, at, marker):
    """A Dask array of x, one block of which kills a worker."""
    x[at] = 2.0**20
    return da.from_array(x, chunks=chunks).map_blocks(kill_once, str(marker), dtype=x.dtype, meta=x[:0, :0])


@pytest.mark.slow
def test_a_worker_killed_in_a_reduction(client, tmp_path):
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal((40, 30)), rng.integers(-300, 300, (40, 30)))
    lazy = ozaki.std(dying(x, (5, 10), (25, 10), tmp_path / "killed"), axis=0)
    found = client.compute(lazy).result(timeout=120)
    assert (tmp_path / "killed").exists()
    assert found.tobytes() == ozaki.std(x, axis=0).tobytes()


@pytest.mark.slow
def test_a_worker_killed_in_a_product(client, tmp_path):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((24, 30)), rng.standard_normal((30, 12))
    x = dying(a, (8, 10), (16, 20), tmp_path / "killed")
    lazy = ozaki.matmul(x, da.from_array(b, chunks=(7, 12)), accuracy="exact")
    found = client.compute(lazy).result(timeout=120)
    assert (tmp_path / "killed").exists()
    assert found.tobytes() == ozaki.matmul(a, b, accuracy="exact").tobytes()


def test_an_error_of_a_task_reaches_the_caller(client):
    x = np.ma.masked_less(np.arange(20.0), 3)
    with pytest.raises(TypeError, match="masked"):
        client.compute(ozaki.sum(da.from_array(x, chunks=5))).result(timeout=120)
