"""One result for any chunks, threads, processes and MPI ranks.

    python examples/10_any_chunks_any_cluster.py [--output DIR] [--gpu]

The mean of a field of temperatures over time, its standard deviation, and a matrix product, each computed
whole by NumPy arrays, as Dask arrays in ten chunkings, by 1 to 4 threads and by worker processes. The last
digits of Dask's own mean differ from chunking to chunking, as no tolerance in a test can undo; the exact
accumulators of `ozaki.mean` merge in any order, and so do the residues of `ozaki.matmul`, and one fingerprint
stands for all. The accumulators are Kulisch's ("Computer Arithmetic and Validity", chapter 8); the products
are those of Ozaki, Uchino and Imamura, "Ozaki scheme II" (2025). Half a minute on a CPU; --mpi adds the sums
of `examples/mpi_sums.py` by 1 to 4 ranks, --gpu chunks on an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from matplotlib import pyplot as plt

import ozaki

CHUNKINGS = [
    (120, 20, 30),
    (3, 20, 30),
    (7, 20, 30),
    (15, 20, 30),
    (60, 20, 30),
    (119, 20, 30),
    (120, 4, 30),
    (50, 7, 11),
    (40, 20, 5),
    (75, 10, 10),
]
MPI = Path(__file__).with_name("mpi_sums.py")


def results(field: object, a: object, b: object) -> list[object]:
    """Mean and standard deviation over time, and a product."""
    return [
        ozaki.mean(field, axis=0),
        ozaki.std(field, axis=0),
        ozaki.matmul(a, b, accuracy="exact"),
    ]


def fingerprint(arrays: list[np.ndarray]) -> str:
    return ozaki.fingerprint(np.concatenate([np.asarray(x).ravel() for x in arrays]))


def in_chunks(
    field: np.ndarray, a: np.ndarray, b: np.ndarray, chunks: tuple[int, int, int]
) -> list[da.Array]:
    size = chunks[0] % 13 + 13
    return [
        da.from_array(field, chunks=chunks),
        da.from_array(a, chunks=(size, size + 5)),
        da.from_array(b, chunks=(size + 3, 60)),
    ]


def on_processes(arrays: list[da.Array], workers: int) -> str:
    """The fingerprint that worker processes compute."""
    with dask.config.set(scheduler="processes", num_workers=workers):
        return fingerprint(dask.compute(*results(*arrays)))


def on_ranks() -> dict[str, str]:
    """The fingerprints that the MPI example prints, for 1 to 4 ranks."""
    found = {}
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = {**os.environ, **allowed, "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    for ranks in (1, 2, 3, 4):
        command = ["mpiexec", "-n", str(ranks), sys.executable, str(MPI)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found[f"MPI, {ranks} rank(s)"] = re.findall(r"fingerprint +(\w+)", done.stdout)[0]
    return found


def on_gpu(arrays: list[da.Array]) -> str:
    import cupy

    found = dask.compute(*results(*(x.map_blocks(cupy.asarray) for x in arrays)), scheduler="synchronous")
    return fingerprint([x.get() for x in found])


def draw(field: np.ndarray, target: Path) -> None:
    """How far the means of each chunking are from the exact ones, in units in the last place."""
    exact = ozaki.mean(field, axis=0)
    plt.style.use(Path(__file__).with_name("figures.mplstyle"))
    figure, axes = plt.subplots(5, 2, figsize=(7, 10), sharex=True, sharey=True)
    for axis, chunks in zip(axes.flat, CHUNKINGS, strict=True):
        lazy = da.from_array(field, chunks=chunks)
        with dask.config.set(scheduler="synchronous"):
            native, ours = da.mean(lazy, axis=0).compute(), ozaki.mean(lazy, axis=0).compute()
        assert (ours == exact).all()
        image = axis.imshow((native - exact) / np.spacing(exact), cmap="RdBu", vmin=-3, vmax=3)
        axis.set_title("chunks " + " × ".join(map(str, chunks)), fontsize=12)
        axis.set(xticks=[], yticks=[])
        axis.grid(False)
    figure.suptitle("Dask's mean over time: distance from the exact\none (ozaki.mean: zero everywhere)")
    figure.colorbar(image, ax=axes, label="units in the last place", shrink=0.8)
    figure.savefig(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("output"), metavar="DIR")
    parser.add_argument("--gpu", action="store_true", help="also use an NVIDIA GPU")
    parser.add_argument("--mpi", action="store_true", help="also sum by MPI; wants mpiexec and mpi4py")
    options = parser.parse_args()
    rng = np.random.default_rng(10)
    field = 280 + 15 * rng.standard_normal((120, 20, 30))
    a, b = rng.standard_normal((40, 60)), rng.standard_normal((60, 40))

    whole = fingerprint(results(field, a, b))
    marks = {"NumPy, whole": whole}
    native = set()
    for chunks in CHUNKINGS:
        arrays = in_chunks(field, a, b, chunks)
        found = dask.compute(*results(*arrays), da.mean(arrays[0], axis=0), scheduler="synchronous")
        marks[f"Dask, chunks {chunks[0]} × {chunks[1]} × {chunks[2]}"] = fingerprint(found[:3])
        native.add(ozaki.fingerprint(found[3]))
    arrays = in_chunks(field, a, b, (50, 20, 30))
    for workers in (1, 2, 3, 4):
        with dask.config.set(scheduler="threads", num_workers=workers):
            marks[f"{workers} thread(s)"] = fingerprint(dask.compute(*results(*arrays)))
    marks["2 processes"] = on_processes(arrays, 2)
    if options.gpu:
        marks["chunks on the GPU"] = on_gpu(arrays)
    for name, mark in marks.items():
        print(f"{name:<28} {mark}")
    assert set(marks.values()) == {whole}
    print(
        f"\nda.mean over time: {len(native)} different results in {len(CHUNKINGS)} chunkings; ozaki.mean: 1"
    )
    if options.mpi:
        ranks = on_ranks()
        assert len(set(ranks.values())) == 1
        print("\nsums over MPI (examples/mpi_sums.py)")
        for name, mark in ranks.items():
            print(f"{name:<28} {mark}")

    options.output.mkdir(parents=True, exist_ok=True)
    target = options.output / "10_any_chunks_any_cluster.png"
    draw(field, target)
    print(f"figure: {target}")


if __name__ == "__main__":
    main()
